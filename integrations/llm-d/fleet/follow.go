package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"takt"
)

// Follow applies an entry of the log that several routers share. The same entries always give the same placement. An
// error means that the entry was invalid and had no effect, or ErrNotPlaced.
func (f *Fleet) Follow(e Entry) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.followed = max(f.followed, e.At)
	err := followTo(f.router, e, f.followed)
	if err != nil && !errors.Is(err, ErrNotPlaced) {
		return err
	}
	for _, event := range e.Events {
		switch event := event.(type) {
		case takt.InstanceUp:
			if s := f.slotOf(event.Instance.ID); s != nil {
				s.up, s.kv, s.tokenS = true, event.Instance.KVTokens, event.Instance.TokenS
			}
		case takt.InstanceDown:
			if s := f.slotOf(event.Instance); s != nil { // a router that still has it reports it again
				s.up, s.told = false, 0
			}
		}
	}
	if f.options.Log != nil {
		f.options.Log(e)
	}
	return err
}

// ErrNotPlaced means that the events of an entry took effect, but its request could not be placed there and was
// dropped.
var ErrNotPlaced = errors.New("not placed")

func (f *Fleet) slotOf(id uint64) *Slot {
	for _, s := range f.slots {
		if s.id == id {
			return s
		}
	}
	return nil
}

func followTo(router *takt.Router, e Entry, now takt.Time) error {
	events := make([]takt.Event, 0, len(e.Events))
	for _, event := range e.Events {
		if ended, is := event.(takt.RequestEnded); is && router.InstanceOf(ended.Request) == 0 {
			event = takt.Cancelled{Request: ended.Request} // its engine is gone and it waits, or it is unknown
		}
		events = append(events, event)
	}
	if err := router.On(now, events...); err != nil {
		return err
	}
	if e.Placed != nil {
		if err := router.PlaceAt(e.Placed.Request, e.Placed.Instance, now); err != nil {
			router.On(now, takt.Cancelled{Request: e.Placed.Request}) // it must not wait forever
			return fmt.Errorf("%w: request %d at %d: %v", ErrNotPlaced, e.Placed.Request, e.Placed.Instance, err)
		}
	}
	return nil
}

// Restore resets the placement to the state after these entries.
func (f *Fleet) Restore(entries []Entry, now takt.Time) error {
	router, err := takt.NewRouter(takt.RouterOptions{Placement: f.options.Placement})
	if err != nil {
		return err
	}
	up := map[uint64]takt.Instance{}
	for _, e := range entries {
		if err := followTo(router, e, e.At); err != nil {
			router.Close()
			return err
		}
		for _, event := range e.Events {
			if told, is := event.(takt.InstanceUp); is {
				up[told.Instance.ID] = told.Instance
			}
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.router.Close()
	f.router, f.followed = router, now
	for _, s := range f.slots {
		told, there := up[s.id]
		s.up, s.told = there, 0
		if there {
			s.kv, s.tokenS = told.KVTokens, told.TokenS
		}
	}
	return nil
}

// SetShare passes further events to a log.
func (f *Fleet) SetShare(share func(Entry)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.options.Share = share
}

// InstanceOf returns the engine of a request at the newest entry; 0: none.
func (f *Fleet) InstanceOf(request uint64) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.router.InstanceOf(request)
}

// ScoreOf writes the placement's unscaled scores of engines (by id) for a request, at the time of the newest entry.
func (f *Fleet) ScoreOf(request *takt.Request, engines []uint64, scores []float64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err := f.router.Score(request, engines, f.followed, scores)
	return err
}

// SetShare passes further facts to a log.
func (l *Learner) SetShare(share func(Fact)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.share = share
}

// Follow learns a fact of the log that several routers share. An error means that the fact is invalid.
func (l *Learner) Follow(fact Fact) error {
	if fact.Workflow == 0 || len(fact.Agent) > longest || fact.Bytes < 0 || fact.Prompt < 0 ||
		max(fact.Bytes, fact.Prompt, fact.Output) > math.MaxInt32 {
		return fmt.Errorf("invalid fact: %+v", fact)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.follow(fact)
	return nil
}

// knowledge is a snapshot of a learner.
type knowledge struct {
	Agents    map[string]agentKnown `json:"agents"`
	Workflows map[uint64]flowKnown  `json:"workflows"`
	Swept     takt.Time             `json:"swept"`
	PerByte   float64               `json:"per_byte"`
	Completed uint64                `json:"completed"`
}

type sampleKnown struct {
	Seen []float32 `json:"seen,omitempty"`
	Next int       `json:"next,omitempty"`
}

type agentKnown struct {
	Output sampleKnown            `json:"output"`
	Left   [mostCalls]sampleKnown `json:"left"`
}

type flowKnown struct {
	Agent   string    `json:"agent,omitempty"`
	Arrival takt.Time `json:"arrival"`
	Last    takt.Time `json:"last"`
	Outputs []int32   `json:"outputs,omitempty"`
	Begun   int       `json:"begun"`
	Open    int       `json:"open"`
}

// MarshalJSON returns a snapshot: the same knowledge gives the same bytes.
func (l *Learner) MarshalJSON() ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := knowledge{map[string]agentKnown{}, map[uint64]flowKnown{}, l.swept, l.perByte, l.completed}
	for name, a := range l.agents {
		known := agentKnown{Output: sampleKnown{a.output.seen, a.output.next}}
		for i, s := range a.left {
			known.Left[i] = sampleKnown{s.seen, s.next}
		}
		k.Agents[name] = known
	}
	for id, w := range l.workflows {
		k.Workflows[id] = flowKnown{w.agent, w.arrival, w.last, w.outputs, w.begun, w.open}
	}
	return json.Marshal(k)
}

func (s sampleKnown) sample() (sample, error) {
	if len(s.Seen) > newest || s.Next < 0 || s.Next >= max(1, len(s.Seen)) {
		return sample{}, fmt.Errorf("%d observations, the next at %d", len(s.Seen), s.Next)
	}
	return sample{seen: s.Seen, next: s.Next, stale: true}, nil
}

// UnmarshalJSON replaces the knowledge by a snapshot. On error nothing changes.
func (l *Learner) UnmarshalJSON(text []byte) error {
	var k knowledge
	if err := json.Unmarshal(text, &k); err != nil {
		return err
	}
	agents, workflows := map[string]*agent{}, map[uint64]*workflow{}
	var err error
	for name, known := range k.Agents {
		a := &agent{}
		if a.output, err = known.Output.sample(); err != nil {
			return err
		}
		for i, s := range known.Left {
			if a.left[i], err = s.sample(); err != nil {
				return err
			}
		}
		agents[name] = a
	}
	for id, w := range k.Workflows {
		workflows[id] = &workflow{w.Agent, w.Arrival, w.Last, w.Outputs, w.Begun, w.Open}
	}
	if !(k.PerByte >= 0) || len(agents) > mostAgents+1 || len(workflows) > mostFlows {
		return fmt.Errorf("invalid snapshot: %d agents, %d workflows, %v tokens per byte", len(agents), len(workflows), k.PerByte)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.agents, l.workflows, l.swept, l.perByte, l.completed = agents, workflows, k.Swept, k.PerByte, k.Completed
	return nil
}
