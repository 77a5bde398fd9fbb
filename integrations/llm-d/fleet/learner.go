package fleet

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"takt"
)

// Learner learns from answers. It estimates their lengths per agent, the output left in a workflow after its n-th call,
// and the number of tokens per byte of a request. Estimates are the mean and quantiles of the newest observations. Memory is
// bounded: entries beyond a limit are learned together, or evicted first.
type Learner struct {
	mu        sync.Mutex
	agents    map[string]*agent
	workflows map[uint64]*workflow
	idle      takt.Time
	swept     takt.Time
	perByte   float64 // prompt tokens per byte of a request
	completed uint64
	share     func(Fact)
	sessions  atomic.Bool // headers may name the session of a coding agent
}

const (
	newest       = 64    // observations used for an estimate
	least        = 3     // fewest observations for an estimate
	mostAgents   = 1024  // agents with their own statistics
	mostFlows    = 65536 // active workflows
	mostCalls    = 16    // calls of a workflow with their own statistics; later ones share one
	mostOutputs  = 256   // calls of a workflow that are remembered
	tokensAByte  = 0.25  // initial value: usual English text
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
	outputs []int32 // tokens of the ended calls
	begun   int     // number of calls
	open    int     // calls that have not ended
}

// sample is the newest observations, and the estimate from them.
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

// NewLearner creates a learner; a workflow ends after idle without a call.
func NewLearner(idle takt.Time) *Learner {
	l := &Learner{agents: map[string]*agent{}, workflows: map[uint64]*workflow{}, idle: idle, perByte: tokensAByte}
	l.sessions.Store(true)
	return l
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

// Fact is an input of the learner: the begin or the end of a call. Output below 0: failed or unknown.
type Fact struct {
	At       takt.Time `json:"at"`
	Workflow uint64    `json:"workflow"`
	Agent    string    `json:"agent,omitempty"`
	Ended    bool      `json:"ended,omitempty"`
	Last     bool      `json:"last,omitempty"` // the last call of its workflow
	Bytes    int       `json:"bytes,omitempty"`
	Prompt   int       `json:"prompt,omitempty"`
	Output   int       `json:"output,omitempty"`
}

// learn applies a fact, or passes it to the log that several routers follow; it comes back through Follow.
func (l *Learner) learn(fact Fact) {
	if l.share != nil {
		l.share(fact)
	} else {
		l.follow(fact)
	}
}

// known returns the statistics of an agent without storing a new entry.
func (l *Learner) known(name string) *agent {
	if a := l.agents[name]; a != nil {
		return a
	}
	if a := l.agents[""]; a != nil && len(l.agents) >= mostAgents {
		return a
	}
	return &agent{}
}

// begun records a call, and fills in the estimates of its workflow. bytes: size of its request, used if the prompt's
// tokens are unknown.
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

// ended records the end of a call; output below 0: failed or unknown.
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

// sweep ends idle workflows, at most once a second.
func (l *Learner) sweep(now takt.Time) {
	if now-l.swept < 1e9 {
		return
	}
	l.swept = now
	var silent []uint64
	for id, w := range l.workflows {
		if silence := now - w.last; silence >= l.idle && (w.open == 0 || silence >= 10*l.idle) { // some calls never end
			silent = append(silent, id)
		}
	}
	slices.Sort(silent) // map order is random, and the learner must be deterministic
	for _, id := range silent {
		l.over(id, l.workflows[id])
	}
}

// SetIdle sets how long a workflow may be without a call.
func (l *Learner) SetIdle(idle takt.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.idle = idle
}

// SetSessions sets whether a call without X-Takt-Workflow belongs to the session of its coding agent; default: true.
func (l *Learner) SetSessions(sessions bool) { l.sessions.Store(sessions) }

// Idle returns how long a workflow may be without a call.
func (l *Learner) Idle() takt.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.idle
}

// Knows returns the numbers of agents, active workflows and ended workflows.
func (l *Learner) Knows() (agents, underWay int, over uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.agents), len(l.workflows), l.completed
}
