package fleet

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"takt"
)

// Call is a request on its way.
type Call struct {
	Name     string // of the request, as the router has it: one that is sent again has the same
	Identity Identity
	Request  takt.Request
	Bytes    int
	Key      float64 // of an order; NaN: none was asked for

	learner *Learner
	done    atomic.Bool
	mu      sync.Mutex // of what follows
	at      *Slot      // nil: it is nowhere
	first   takt.Time  // of its answer
}

// Begin a call: what is learnt of its agent and its workflow is filled in. promptTokens 0: not known; maxOutput 0: no cap.
func (l *Learner) Begin(name string, headers map[string]string, promptTokens, bytes, maxOutput, priority int,
	now takt.Time) *Call {
	c := &Call{Name: name, Identity: IdentityOf(headers), Bytes: bytes, learner: l, Key: math.NaN(),
		Request: takt.NewRequest(idOfCall(name), promptTokens)}
	r := &c.Request
	r.Workflow, r.Agent, r.Tenant = IDOf(c.Identity.Workflow), IDOf(c.Identity.Agent), IDOf(c.Identity.Tenant)
	r.Arrival, r.Deadline = now, c.Identity.deadline(now)
	r.MaxOutputTokens = min(max(0, maxOutput), math.MaxInt32)
	r.Priority = min(max(-priority, math.MinInt32), math.MaxInt32) // of the router's, larger is sooner
	l.begun(r, &c.Identity, bytes, now)
	return c
}

// End a call, once: further ends do nothing. output below 0: it has failed, or nobody knows.
func (c *Call) End(prompt, output int, now takt.Time) {
	if !c.done.Swap(true) {
		c.learner.ended(c, prompt, output, now)
	}
}

// Report is an engine's own counts, as they were at At.
type Report struct {
	At               int64 // 0: there are none
	Waiting, Running int
	KVUsed, KVTokens int // tokens; 0: not told
	Dated            bool
	AsOf             takt.Time // if Dated: time up to which the counts are complete, on the fleet's clock
}

// Slot is an engine that a Fleet knows. Names are those of the router.
type Slot struct {
	id       uint64 // what each score looks at comes first, so that it is near
	told     int64  // At of the newest report
	seen     takt.Time
	up       bool
	refused  bool // it has failed a call since the newest report
	name     string
	kv       int
	tokenS   float64 // as it was told to the placement
	perToken float64 // seconds, learnt of answers
	busiest  int     // requests that it has said it runs at once: never what waits there, or a crowd would look fast
	running  int     // of takt's count, waiting ones too
}

// Entry of the log: what the placement was told in one call, and what became of it.
type Entry struct {
	At     takt.Time
	Events []takt.Event
	Placed *takt.Placement // by PlaceAt, after the events
}

// Options of a Fleet.
type Options struct {
	Placement string      // docs/howto/router.md; empty: least_loaded
	Log       func(Entry) // takes what happens, in its order; nil: nobody
	Absent    takt.Time   // an engine that nobody names for so long, and that has no requests, is gone; 0: 30 s
	// Share hands what happens to a log that several routers follow (package replica), of which it comes back by Follow.
	// nil: this router is alone.
	Share func(Entry)
}

// Fleet has the placement, and tells it what happens. Any goroutine may call it.
type Fleet struct {
	mu      sync.Mutex
	options Options
	router  *takt.Router
	slots   map[string]*Slot
	of      func(string) *Slot // slot
	flight  map[uint64]*Slot   // requests that the placement counts
	events  []takt.Event
	asked   []*Slot // by Score
	ids     []uint64
	counts  Counts

	followed takt.Time // of the newest entry that Follow was told
}

// Counts since creation.
type Counts struct {
	Scored, Placed, Ended, Failed, Returned uint64
	InFlight                                int
	Engines                                 int
}

// New fleet.
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

// Slot of a name, new or known.
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

// hear adds events of what an engine reports. tokenS above 0: seconds of a token, as its host says.
func (f *Fleet) hear(s *Slot, report *Report, tokenS float64, now takt.Time) {
	s.seen = now
	if s.up && report.At == s.told && (tokenS <= 0 || tokenS == s.tokenS) {
		return
	}
	if tokenS <= 0 {
		tokenS = s.pace()
	}
	if tokenS <= 0 { // nothing is known of it: as fast as the others in the mean
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

// meanPace of those of which something is known; 0: there is none.
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

// pace is the time of a token at full batch over that batch [s]; 0: nothing is known.
func (s *Slot) pace() float64 {
	if s.perToken <= 0 {
		return 0
	}
	return s.perToken / float64(max(1, s.busiest))
}

// tell the placement, and the log.
func (f *Fleet) tell(placed *takt.Placement, now takt.Time) error {
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

// Engines that Score is asked for. It calls these while it has the fleet to itself: they must not call the fleet.
type Engines interface {
	// Engine i, and At of its newest report. of gives the slot of a name.
	Engine(i int, of func(name string) *Slot) (s *Slot, at int64)
	// Report of engine i, and seconds of a token, as its host says; 0: not told. It is asked for what has no report, or another
	// one than before.
	Report(i int) (report Report, tokenS float64)
}

// Score each engine for a call into scores, one of each, from 0 to 1: the placement's choice (of equals the one of
// smallest id, as in takt's own router) has 1, every other less, and one that has no place 0.
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
	if err := f.tell(nil, now); err != nil {
		return err
	}
	f.counts.Scored++
	if f.options.Share != nil { // a score must not move the clock, which is that of the log
		now = f.followed
	}
	if _, err := f.router.Score(&c.Request, f.ids, now, scores); err != nil {
		return err
	}
	if anyRefused { // one that has failed looks empty, and would draw all
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

// Placed says that the router sends a call there.
func (f *Fleet) Placed(c *Call, engine string, now takt.Time) error {
	s := f.Slot(engine)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hear(s, &Report{At: s.told}, 0, now)
	if before := f.flight[c.Request.ID]; before != nil { // sent again
		f.events = append(f.events, takt.Cancelled{Request: c.Request.ID})
		before.running--
	}
	f.events = append(f.events, takt.Arrived{Request: c.Request})
	err := f.tell(&takt.Placement{Request: c.Request.ID, Instance: s.id}, now)
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

// Started says that its answer begins.
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
	if f.flight[c.Request.ID] == nil { // its engine has gone
		return nil
	}
	f.events = append(f.events, takt.RequestStarted{Request: c.Request.ID, Instance: at.id})
	return f.tell(nil, now)
}

// Refused says that its engine answers with a failure of its own, or not at all: until it reports again it has no place.
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

// Ended says that its answer has ended, or failed: a call that was never placed, or has ended, is none. output below 0:
// it has failed, or nobody knows.
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
	if f.flight[c.Request.ID] == nil { // its engine has gone
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
	return f.tell(nil, now)
}

// Gone drops engines. names: all that there are; nil: unknown, and those go that were not named for long.
func (f *Fleet) Gone(names []string, now takt.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	there := make(map[string]bool, len(names))
	for _, name := range names {
		there[name] = true
	}
	for name, s := range f.slots {
		if s.up && (names != nil && !there[name] || names == nil && s.running == 0 && now-s.seen > f.options.Absent) {
			// The router does not send again what was there.
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
	return f.tell(nil, now)
}

// Count what there is.
func (f *Fleet) Count() Counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.counts
	c.InFlight = len(f.flight)
	c.Engines = f.router.Count().Instances
	return c
}

// Stats are the placement's counters.
func (f *Fleet) Stats() map[string]uint64 { return f.router.Stats() }
