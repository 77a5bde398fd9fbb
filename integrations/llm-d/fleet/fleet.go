package fleet

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"takt"
)

// Call is a request in flight.
type Call struct {
	Name     string // name of the request in the router; a retry has the same name
	Identity Identity
	Request  takt.Request
	Bytes    int
	Key      float64 // key of an order; NaN: none

	learner *Learner
	done    atomic.Bool
	mu      sync.Mutex // guards the fields below
	at      *Slot      // nil: not placed
	first   takt.Time  // time of the first token
}

// Begin creates a call with the estimates learned for its agent and workflow. promptTokens 0: unknown; maxOutput 0: no
// limit.
func (l *Learner) Begin(name string, headers map[string]string, promptTokens, bytes, maxOutput, priority int,
	now takt.Time) *Call {
	c := &Call{Name: name, Identity: IdentityOf(headers, l.sessions.Load()), Bytes: bytes, learner: l, Key: math.NaN(),
		Request: takt.NewRequest(idOfCall(name), promptTokens)}
	r := &c.Request
	r.Workflow, r.Agent, r.Tenant = IDOf(c.Identity.Workflow), IDOf(c.Identity.Agent), IDOf(c.Identity.Tenant)
	r.Arrival, r.Deadline = now, c.Identity.deadline(now)
	r.MaxOutputTokens = min(max(0, maxOutput), math.MaxInt32)
	r.Priority = min(max(-priority, math.MinInt32), math.MaxInt32) // in the router a larger priority runs sooner
	l.begun(r, &c.Identity, bytes, now)
	return c
}

// End ends a call; further calls have no effect. output below 0: failed or unknown.
func (c *Call) End(prompt, output int, now takt.Time) {
	if !c.done.Swap(true) {
		c.learner.ended(c, prompt, output, now)
	}
}

// Report is an engine's own counts at the time At.
type Report struct {
	At               int64 // 0: no report
	Waiting, Running int
	KVUsed, KVTokens int // tokens; 0: unknown
	Dated            bool
	AsOf             takt.Time // if Dated: time up to which the counts are complete, on the fleet's clock
}

// Slot is an engine of a Fleet. Names are the router's.
type Slot struct {
	id       uint64 // fields that each score reads come first, for the cache
	told     int64  // At of the newest report
	seen     takt.Time
	up       bool
	refused  bool // a call has failed since the newest report
	name     string
	kv       int
	tokenS   float64 // time of a token as reported to the placement
	perToken float64 // seconds per token, learned from answers
	busiest  int     // largest reported number of running requests, without waiting ones
	running  int     // requests by takt's count, including waiting ones
}

// Entry is an entry of the log: the events of one call to the placement, and the resulting placement.
type Entry struct {
	At     takt.Time
	Events []takt.Event
	Placed *takt.Placement // by PlaceAt, after the events
}

// Options of a Fleet.
type Options struct {
	Placement string      // docs/howto/router.md; empty: least_loaded
	Log       func(Entry) // receives the events in order; nil: no log
	Absent    takt.Time   // an engine that is not named for this long and has no requests is gone; 0: 30 s
	// Share passes events to a log that several routers follow (package replica); they come back through Follow. nil:
	// this router is alone.
	Share func(Entry)
}

// Fleet owns the placement and reports events to it. It is safe for concurrent use.
type Fleet struct {
	mu      sync.Mutex
	options Options
	router  *takt.Router
	slots   map[string]*Slot
	of      func(string) *Slot // slot
	flight  map[uint64]*Slot   // requests counted by the placement
	events  []takt.Event
	asked   []*Slot // engines of the present Score
	ids     []uint64
	counts  Counts

	followed takt.Time // time of the newest entry passed to Follow
}

// Counts since creation.
type Counts struct {
	Scored, Placed, Ended, Failed, Returned uint64
	InFlight                                int
	Engines                                 int
}

// New creates a fleet.
func New(options Options) (*Fleet, error) {
	router, err := takt.NewRouter(takt.RouterOptions{Placement: options.Placement})
	if err != nil {
		return nil, err
	}
	if options.Absent == 0 {
		options.Absent = 30e9
	}
	f := &Fleet{options: options, router: router, slots: map[string]*Slot{}, flight: map[uint64]*Slot{}}
	f.of = f.slot
	return f, nil
}

// Close frees the placement.
func (f *Fleet) Close() error { return f.router.Close() }

// Slot returns the slot of an engine, new or known.
func (f *Fleet) Slot(name string) *Slot {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.slot(name)
}

func (f *Fleet) slot(name string) *Slot {
	s := f.slots[name]
	if s == nil {
		s = &Slot{name: name, id: IDOf(name)}
		f.slots[name] = s
	}
	return s
}

// Name of the engine.
func (s *Slot) Name() string { return s.name }

// hear adds the events of an engine's report. tokenS above 0: seconds per token, from its host.
func (f *Fleet) hear(s *Slot, report *Report, tokenS float64, now takt.Time) {
	s.seen = now
	if s.up && report.At == s.told && (tokenS <= 0 || tokenS == s.tokenS) {
		return
	}
	if tokenS <= 0 {
		tokenS = s.pace()
	}
	if tokenS <= 0 { // unknown pace: the mean of the other engines
		tokenS = f.meanPace()
	}
	kv := s.kv
	if report.KVTokens > 0 {
		kv = min(report.KVTokens, math.MaxInt32)
	}
	if !s.up || kv != s.kv || math.Abs(tokenS-s.tokenS) > 0.1*s.tokenS {
		s.up, s.kv, s.tokenS = true, kv, tokenS
		f.events = append(f.events, takt.InstanceUp{Instance: takt.Instance{ID: s.id, KVTokens: kv, TokenS: tokenS}})
	}
	if report.At != 0 && report.At != s.told {
		s.told, s.refused = report.At, false
		s.busiest = max(s.busiest, report.Running)
		f.events = append(f.events, takt.InstanceReported{Instance: s.id, Waiting: int64(max(0, report.Waiting)),
			Running: int64(max(0, report.Running)), KVUsed: min(max(0, report.KVUsed), math.MaxInt32),
			Dated: report.Dated, AsOf: report.AsOf})
	}
}

// meanPace returns the mean pace of the engines with a known pace; 0: none.
func (f *Fleet) meanPace() float64 {
	var sum, n float64
	for _, s := range f.slots {
		if pace := s.pace(); pace > 0 {
			sum, n = sum+pace, n+1
		}
	}
	if n == 0 {
		return 0
	}
	return sum / n
}

// pace returns the time of a token at full batch divided by the batch size [s]; 0: unknown.
func (s *Slot) pace() float64 {
	if s.perToken <= 0 {
		return 0
	}
	return s.perToken / float64(max(1, s.busiest))
}

// report passes the events to the placement and to the log.
func (f *Fleet) report(placed *takt.Placement, now takt.Time) error {
	if len(f.events) == 0 && placed == nil {
		return nil
	}
	if f.options.Share != nil {
		f.options.Share(Entry{now, append([]takt.Event(nil), f.events...), placed})
		clear(f.events)
		f.events = f.events[:0]
		return nil
	}
	err := f.router.On(now, f.events...)
	if err == nil && placed != nil {
		err = f.router.PlaceAt(placed.Request, placed.Instance, now)
	}
	if err == nil && f.options.Log != nil {
		f.options.Log(Entry{now, append([]takt.Event(nil), f.events...), placed})
	}
	clear(f.events)
	f.events = f.events[:0]
	return err
}

// Engines are the engines to score. Score calls these methods under the fleet's lock: they must not call the fleet.
type Engines interface {
	// Engine returns engine i and At of its newest report. of returns the slot of a name.
	Engine(i int, of func(name string) *Slot) (s *Slot, at int64)
	// Report returns the report of engine i, and seconds per token from its host; 0: unknown. Score calls it for
	// engines with a new report, or none.
	Report(i int) (report Report, tokenS float64)
}

// Score writes a score from 0 to 1 for each engine. The placement's choice has 1 (among equals the smallest id, as in
// takt's router), every other less, and an engine without room 0.
func (f *Fleet) Score(c *Call, engines Engines, now takt.Time, scores []float64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked, f.ids = f.asked[:0], f.ids[:0]
	anyRefused := false
	for i := range scores {
		s, at := engines.Engine(i, f.of)
		if s.seen = now; !s.up || at != s.told || at == 0 {
			told, tokenS := engines.Report(i)
			f.hear(s, &told, tokenS, now)
		}
		f.asked, f.ids = append(f.asked, s), append(f.ids, s.id)
		anyRefused = anyRefused || s.refused
	}
	if err := f.report(nil, now); err != nil {
		return err
	}
	f.counts.Scored++
	if f.options.Share != nil { // a score must not advance the log's clock
		now = f.followed
	}
	if _, err := f.router.Score(&c.Request, f.ids, now, scores); err != nil {
		return err
	}
	if anyRefused { // an engine that fails looks empty, and would attract all requests
		for i, s := range f.asked {
			if s.refused {
				scores[i] = math.NaN()
			}
		}
	}
	scale(scores, f.ids)
	return nil
}

func scale(scores []float64, ids []uint64) {
	best, least := -1, math.Inf(1)
	for i, s := range scores {
		if math.IsNaN(s) || math.IsInf(s, -1) {
			continue
		}
		least = min(least, s)
		if best < 0 || s > scores[best] || s == scores[best] && ids[i] < ids[best] {
			best = i
		}
	}
	if best < 0 {
		clear(scores)
		return
	}
	span := scores[best] - least
	for i, s := range scores {
		switch {
		case i == best:
			continue
		case math.IsNaN(s), math.IsInf(s, -1):
			scores[i] = 0
		case span > 0 && !math.IsInf(span, 1):
			scores[i] = 0.01 + 0.98*(s-least)/span
		default:
			scores[i] = 0.99
		}
	}
	scores[best] = 1
}

// Placed reports that the router sends a call to this engine.
func (f *Fleet) Placed(c *Call, engine string, now takt.Time) error {
	s := f.Slot(engine)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hear(s, &Report{At: s.told}, 0, now)
	if before := f.flight[c.Request.ID]; before != nil { // a retry
		f.events = append(f.events, takt.Cancelled{Request: c.Request.ID})
		before.running--
	}
	f.events = append(f.events, takt.Arrived{Request: c.Request})
	err := f.report(&takt.Placement{Request: c.Request.ID, Instance: s.id}, now)
	if err == nil {
		f.counts.Placed++
		f.flight[c.Request.ID] = s
		s.running++
		c.mu.Lock()
		c.at = s
		c.mu.Unlock()
	}
	return err
}

// Started reports the begin of a call's answer.
func (f *Fleet) Started(c *Call, now takt.Time) error {
	c.mu.Lock()
	again, at := c.first != 0, c.at
	if !again {
		c.first = now
	}
	c.mu.Unlock()
	if again || at == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.flight[c.Request.ID] == nil { // its engine is gone
		return nil
	}
	f.events = append(f.events, takt.RequestStarted{Request: c.Request.ID, Instance: at.id})
	return f.report(nil, now)
}

// Refused reports that the engine answered with an error, or not at all. It receives no calls until its next report.
func (f *Fleet) Refused(c *Call) {
	c.mu.Lock()
	at := c.at
	c.mu.Unlock()
	if at != nil {
		f.mu.Lock()
		at.refused = true
		f.mu.Unlock()
	}
}

// Ended reports the end or the failure of a call's answer. Calls that were never placed, or have ended, are ignored.
// output below 0: failed or unknown.
func (f *Fleet) Ended(c *Call, prompt, output int, now takt.Time) error {
	c.mu.Lock()
	s, first := c.at, c.first
	c.at = nil
	c.mu.Unlock()
	if s == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.counts.Ended++; output < 0 {
		f.counts.Failed++
	}
	if f.flight[c.Request.ID] == nil { // its engine is gone
		f.counts.Returned++
		return nil
	}
	delete(f.flight, c.Request.ID)
	s.running--
	if first != 0 && output > 1 {
		if per := float64(now-first) / 1e9 / float64(output-1); s.perToken == 0 {
			s.perToken = per
		} else {
			s.perToken += 0.1 * (per - s.perToken)
		}
	}
	f.events = append(f.events, takt.RequestEnded{Request: c.Request.ID, Failed: output < 0, Served: output >= 0,
		Prefill: min(max(0, prompt), math.MaxInt32), Output: min(max(0, output), math.MaxInt32)})
	return f.report(nil, now)
}

// Gone drops engines. names: all present engines; nil: unknown, so those that were not named for long are dropped.
func (f *Fleet) Gone(names []string, now takt.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	there := make(map[string]bool, len(names))
	for _, name := range names {
		there[name] = true
	}
	for name, s := range f.slots {
		if s.up && (names != nil && !there[name] || names == nil && s.running == 0 && now-s.seen > f.options.Absent) {
			// The router does not retry the requests of this engine.
			var lost []uint64
			for id, at := range f.flight {
				if at == s {
					lost = append(lost, id)
				}
			}
			slices.Sort(lost)
			for _, id := range lost {
				delete(f.flight, id)
				f.events = append(f.events, takt.Cancelled{Request: id})
			}
			f.events = append(f.events, takt.InstanceDown{Instance: s.id})
			*s = Slot{name: s.name, id: s.id}
		}
	}
	return f.report(nil, now)
}

// Count returns the current counts.
func (f *Fleet) Count() Counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.counts
	c.InFlight = len(f.flight)
	c.Engines = f.router.Count().Instances
	return c
}

// Stats returns the placement's counters.
func (f *Fleet) Stats() map[string]uint64 { return f.router.Stats() }
