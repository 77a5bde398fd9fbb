package fleet

import (
	"math"
	"slices"
	"sync"

	"takt"
)

// Learner learns from answers that pass through how long those of an agent are, how much its workflows still generate
// after their n-th call, and how many tokens a byte of a request is. Estimates are mean and quantiles of the newest
// observations. Memory is bounded: what is beyond a bound is learnt of together, or forgotten first.
type Learner struct {
	mu        sync.Mutex
	agents    map[string]*agent
	workflows map[uint64]*workflow
	idle      takt.Time
	swept     takt.Time
	perByte   float64 // tokens of a prompt a byte of its request
	completed uint64
	share     func(Fact)
}

const (
	newest       = 64    // observations that an estimate is made of
	least        = 3     // and the fewest
	mostAgents   = 1024  // that are told apart
	mostFlows    = 65536 // workflows that are under way
	mostCalls    = 16    // of a workflow, that are told apart; later ones are learnt of together
	mostOutputs  = 256   // calls of a workflow that are remembered
	tokensAByte  = 0.25  // before anything is known: usual English text
	perByteShare = 0.05  // weight of a new observation
)

type agent struct {
	output sample
	left   [mostCalls]sample
}

type workflow struct {
	agent   string
	arrival takt.Time
	last    takt.Time
	outputs []int32 // of the calls that have ended
	begun   int     // calls
	open    int     // of them, that have not ended
}

// sample is the newest observations, and what follows of them.
type sample struct {
	seen     []float32
	next     int
	stale    bool
	estimate takt.Estimate
}

func (s *sample) add(value float32) {
	s.stale = true
	if len(s.seen) < newest {
		s.seen = append(s.seen, value)
		return
	}
	s.seen[s.next] = value
	s.next = (s.next + 1) % newest
}

func (s *sample) of() takt.Estimate {
	if len(s.seen) < least {
		return takt.Unknown()
	}
	if s.stale {
		sorted := slices.Clone(s.seen)
		slices.Sort(sorted)
		var sum float64
		for _, v := range sorted {
			sum += float64(v)
		}
		s.estimate.Mean = sum / float64(len(sorted))
		for i, q := range [...]float64{0.1, 0.25, 0.5, 0.75, 0.9} {
			s.estimate.Quantiles[i] = sorted[int(q*float64(len(sorted)-1)+0.5)]
		}
		s.stale = false
	}
	return s.estimate
}

// NewLearner whose workflows are over when nothing was heard of them for idle.
func NewLearner(idle takt.Time) *Learner {
	return &Learner{agents: map[string]*agent{}, workflows: map[uint64]*workflow{}, idle: idle, perByte: tokensAByte}
}

func (l *Learner) agentOf(name string) *agent {
	a := l.agents[name]
	if a == nil {
		if len(l.agents) >= mostAgents {
			name = ""
			if a = l.agents[name]; a != nil {
				return a
			}
		}
		a = &agent{}
		l.agents[name] = a
	}
	return a
}

// Fact is what is learnt of: a call that begins, or its end. Output below 0: it has failed, or nobody knows.
type Fact struct {
	At       takt.Time `json:"at"`
	Workflow uint64    `json:"workflow"`
	Agent    string    `json:"agent,omitempty"`
	Ended    bool      `json:"ended,omitempty"`
	Last     bool      `json:"last,omitempty"` // no call of its workflow follows
	Bytes    int       `json:"bytes,omitempty"`
	Prompt   int       `json:"prompt,omitempty"`
	Output   int       `json:"output,omitempty"`
}

// learn a fact, or hand it to the log that several routers follow, of which it comes back by Follow.
func (l *Learner) learn(fact Fact) {
	if l.share != nil {
		l.share(fact)
	} else {
		l.follow(fact)
	}
}

// known is what an agent is known by; nothing of it is kept.
func (l *Learner) known(name string) *agent {
	if a := l.agents[name]; a != nil {
		return a
	}
	if a := l.agents[""]; a != nil && len(l.agents) >= mostAgents {
		return a
	}
	return &agent{}
}

// begun tells of a call, and fills in what is known of its workflow. bytes: of its request, where the prompt's tokens are
// not known.
func (l *Learner) begun(r *takt.Request, told *Identity, bytes int, now takt.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.share == nil {
		l.sweep(now)
	}
	if r.PromptTokens == 0 {
		r.PromptTokens = max(1, int(l.perByte*float64(bytes)))
	}
	r.OutputTokens = l.known(told.Agent).output.of()
	first, before := told.Agent, 0
	r.WorkflowArrival = now
	if w := l.workflows[r.Workflow]; w != nil {
		first, before, r.WorkflowArrival = w.agent, w.begun, w.arrival
	}
	r.Stage = uint64(1 + min(before, mostCalls-1))
	r.WorkflowTokensLeft = l.known(first).left[min(before, mostCalls-1)].of()
	if told.Last || told.Alone {
		r.WorkflowTokensLeft = r.OutputTokens
	}
	l.learn(Fact{At: now, Workflow: r.Workflow, Agent: told.Agent})
}

// ended tells of a call's answer; output below 0: it has failed, or nobody knows.
func (l *Learner) ended(c *Call, prompt, output int, now takt.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.learn(Fact{At: now, Workflow: c.Request.Workflow, Agent: c.Identity.Agent, Ended: true,
		Last: c.Identity.Last || c.Identity.Alone, Bytes: c.Bytes, Prompt: prompt, Output: output})
}

func (l *Learner) follow(fact Fact) {
	l.sweep(fact.At)
	w := l.workflows[fact.Workflow]
	if !fact.Ended {
		if w == nil {
			w = &workflow{agent: fact.Agent, arrival: fact.At}
			if len(l.workflows) < mostFlows {
				l.workflows[fact.Workflow] = w
			}
		}
		w.last = fact.At
		w.begun++
		w.open++
		return
	}
	if fact.Output >= 0 {
		l.agentOf(fact.Agent).output.add(float32(fact.Output))
		if fact.Prompt > 0 && fact.Bytes > 0 {
			l.perByte += perByteShare * (float64(fact.Prompt)/float64(fact.Bytes) - l.perByte)
		}
	}
	if w == nil {
		return
	}
	w.last = fact.At
	w.open = max(0, w.open-1)
	if fact.Output >= 0 && len(w.outputs) < mostOutputs {
		w.outputs = append(w.outputs, int32(min(fact.Output, math.MaxInt32)))
	}
	if fact.Last && w.open == 0 {
		l.over(fact.Workflow, w)
	}
}

func (l *Learner) over(id uint64, w *workflow) {
	delete(l.workflows, id)
	a := l.agentOf(w.agent)
	var left float32
	for i := len(w.outputs) - 1; i >= 0; i-- {
		left += float32(w.outputs[i])
		a.left[min(i, mostCalls-1)].add(left)
	}
	l.completed++
}

// sweep ends workflows that nobody has heard of, once a second at most.
func (l *Learner) sweep(now takt.Time) {
	if now-l.swept < 1e9 {
		return
	}
	l.swept = now
	var silent []uint64
	for id, w := range l.workflows {
		if silence := now - w.last; silence >= l.idle && (w.open == 0 || silence >= 10*l.idle) { // some never end
			silent = append(silent, id)
		}
	}
	slices.Sort(silent) // a map has no order, and what is learnt must not depend on it
	for _, id := range silent {
		l.over(id, l.workflows[id])
	}
}

// SetIdle changes how long a workflow may be silent.
func (l *Learner) SetIdle(idle takt.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.idle = idle
}

// Idle is how long a workflow may be silent.
func (l *Learner) Idle() takt.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.idle
}

// Knows counts agents, workflows under way, and workflows that are over.
func (l *Learner) Knows() (agents, underWay int, over uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.agents), len(l.workflows), l.completed
}
