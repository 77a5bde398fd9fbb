package fleet

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"takt"
)

const second takt.Time = 1e9

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newFleet(t testing.TB, options Options) *Fleet {
	t.Helper()
	f, err := New(options)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func headers(workflow, agent string, last bool) map[string]string {
	h := map[string]string{"x-takt-workflow": workflow, "x-takt-agent": agent}
	if last {
		h["x-takt-last"] = "1"
	}
	return h
}

func TestHeadersGiveTheIdentity(t *testing.T) {
	for _, c := range []struct {
		headers map[string]string
		want    Identity
	}{
		{map[string]string{"x-takt-workflow": "trip 42", "x-takt-agent": "pl%C3%A4ner", "x-takt-tenant": "a", "x-takt-deadline": "2.5"},
			Identity{Workflow: "trip 42", Agent: "pläner", Tenant: "a", DeadlineS: 2.5}},
		{map[string]string{"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
			Identity{Workflow: "4bf92f3577b34da6a3ce929d0e0e4736", DeadlineS: math.NaN()}},
		{map[string]string{"x-takt-workflow": "w", "x-takt-deadline": "-1", "x-takt-last": "1"},
			Identity{Workflow: "w", DeadlineS: math.NaN(), Last: true}},
		{map[string]string{"x-takt-workflow": "w", "x-takt-agent": strings.Repeat("x", 257), "x-takt-deadline": "inf"},
			Identity{Workflow: "w", DeadlineS: math.NaN()}},
	} {
		if got := IdentityOf(c.headers, true); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%v: %+v, want %+v", c.headers, got, c.want)
		}
	}
	for _, trace := range []string{"", "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more"} {
		a, b := IdentityOf(map[string]string{"traceparent": trace}, true), IdentityOf(map[string]string{"traceparent": trace}, true)
		if !a.Alone || a.Workflow == b.Workflow {
			t.Errorf("%q: %+v, %+v", trace, a, b)
		}
	}
}

// The table of names and cases is shared by all languages.
func TestTheSessionOfACodingAgentIsTheWorkflow(t *testing.T) {
	text, err := os.ReadFile("../../../tests/session_headers.json")
	if err != nil {
		t.Fatal(err)
	}
	var table struct {
		Names []string
		Cases []struct {
			Why, Session, Workflow, Source string
			Headers                        [][2]any
		}
	}
	if err := json.Unmarshal(text, &table); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(table.Names, SessionHeaders) || len(table.Cases) < 20 {
		t.Errorf("%v, want %v", SessionHeaders, table.Names)
	}
	for _, c := range table.Cases {
		headers := map[string]string{} // as the router passes them: lower-case names, the last value
		for _, h := range c.Headers {
			value, ok := h[1].(string)
			if !ok {
				times := h[1].([]any)
				value = strings.Repeat(times[0].(string), int(times[1].(float64)))
			}
			headers[strings.ToLower(h[0].(string))] = value
		}
		if got := SessionOf(headers); got != c.Session {
			t.Errorf("%s: session %q, want %q", c.Why, got, c.Session)
		}
		if got := IdentityOf(headers, true); got.Alone != (c.Workflow == "") || !got.Alone && got.Workflow != c.Workflow {
			t.Errorf("%s: workflow %q, want %q", c.Why, got.Workflow, c.Workflow)
		}
		if got := IdentityOf(headers, false); c.Source == "session" && got.Workflow == c.Session {
			t.Errorf("%s: a session counts although sessions are off", c.Why)
		}
	}
	l := NewLearner(60e9)
	h := map[string]string{"x-session-affinity": "s"}
	if a, b := l.Begin("1", h, 1, 1, 0, 0, 0), l.Begin("2", h, 1, 1, 0, 0, 0); a.Request.Workflow != b.Request.Workflow {
		t.Error("two calls of a session have two workflows")
	}
	l.SetSessions(false)
	if a, b := l.Begin("3", h, 1, 1, 0, 0, 0), l.Begin("4", h, 1, 1, 0, 0, 0); a.Request.Workflow == b.Request.Workflow {
		t.Error("a session counts although sessions are off")
	}
}

// Workflows of 3 calls with 10, 20 and 30 tokens.
func TestLearnerLearnsLengthsAndOutputLeft(t *testing.T) {
	l := NewLearner(60 * second)
	at := takt.Time(0)
	call := func(workflow string, last bool) *Call {
		at += second
		return l.Begin(fmt.Sprint(workflow, at), headers(workflow, "planner", last), 0, 400, 0, 0, at)
	}
	if c := call("first", false); c.Request.OutputTokens.Mean >= 0 || c.Request.PromptTokens != 100 {
		t.Errorf("before anything is known: %+v", c.Request)
	} else {
		c.End(100, 10, at)
	}
	for i := range 5 {
		for n, output := range []int{10, 20, 30} {
			c := call(fmt.Sprint("w", i), n == 2)
			at += second
			c.End(200, output, at)
			c.End(200, 9999, at) // no effect
		}
	}
	c := call("next", false)
	if e := c.Request.OutputTokens; math.Abs(e.Mean-310.0/16) > 1e-9 || e.Quantiles[2] != 20 {
		t.Errorf("output %+v", e)
	}
	if e := c.Request.WorkflowTokensLeft; e.Mean != 60 {
		t.Errorf("left at the first call %+v", e)
	}
	c.End(200, 10, at)
	if e := call("next", false).Request; e.WorkflowTokensLeft.Mean != 50 || e.Stage != 2 || e.WorkflowArrival == e.Arrival {
		t.Errorf("at the second %+v", e)
	}
	// 400 bytes were usually 200 tokens.
	if p := call("other", false).Request.PromptTokens; p < 145 || p > 200 {
		t.Errorf("tokens of 400 bytes: %d", p)
	}
	agents, underWay, over := l.Knows()
	if agents != 1 || underWay != 3 || over != 5 {
		t.Errorf("%d agents, %d under way, %d over", agents, underWay, over)
	}
	// A silent workflow ends: "first" at once, the two with unfinished calls later.
	at += 61 * second
	call("late", true)
	if _, underWay, _ := l.Knows(); underWay != 3 {
		t.Errorf("%d under way after a silence", underWay)
	}
	at += 700 * second
	call("later", true)
	if _, underWay, _ := l.Knows(); underWay != 1 {
		t.Errorf("%d under way after a long one", underWay)
	}
}

func TestLearnerIsBounded(t *testing.T) {
	l := NewLearner(60 * second)
	for i := range mostFlows + 2000 {
		l.Begin(fmt.Sprint(i), headers(fmt.Sprint("w", i), fmt.Sprint("a", i), false), 1, 1, 0, 0, 0)
	}
	if agents, underWay, _ := l.Knows(); agents > mostAgents+1 || underWay > mostFlows {
		t.Errorf("%d agents, %d workflows", agents, underWay)
	}
}

func reports(of ...Report) func(int) (Report, float64) {
	return func(i int) (Report, float64) { return of[i], 0 }
}

// listed is a list of engines with their reports.
type listed struct {
	slots   []*Slot
	reports func(int) (Report, float64)
}

func (l listed) Engine(i int, _ func(string) *Slot) (*Slot, int64) {
	r, _ := l.reports(i)
	return l.slots[i], r.At
}

func (l listed) Report(i int) (Report, float64) { return l.reports(i) }

func TestScoresNameThePlacementsChoice(t *testing.T) {
	f := newFleet(t, Options{Placement: "least_loaded(waiting_weight=4)"})
	l := NewLearner(second)
	a, b, c := f.Slot("a"), f.Slot("b"), f.Slot("c")
	call := l.Begin("r", nil, 10, 10, 0, 0, 0)
	scores := make([]float64, 3)
	must(t, f.Score(call, listed{[]*Slot{a, b, c},
		reports(Report{At: 1, Waiting: 2}, Report{At: 1, Running: 3}, Report{At: 1, Waiting: 1})}, 0, scores))
	// -8, -3, -4
	if scores[1] != 1 || scores[0] != 0.01 || math.Abs(scores[2]-(0.01+0.98*4/5)) > 1e-12 {
		t.Errorf("scores %v", scores)
	}
	must(t, f.Placed(call, "b", 1))
	must(t, f.Started(call, 2))
	must(t, f.Started(call, 3))
	if n := f.Count(); n.InFlight != 1 || n.Engines != 3 {
		t.Errorf("%+v", n)
	}
	must(t, f.Ended(call, 10, 5, 4))
	must(t, f.Ended(call, 10, 5, 5)) // no effect
	if n := f.Count(); n.InFlight != 0 || n.Ended != 1 || n.Failed != 0 {
		t.Errorf("%+v", n)
	}
	if s := f.Stats(); s["ended"] != 1 || s["events_unknown"] != 0 {
		t.Errorf("%v", s)
	}
}

// An engine that fails its calls has the shortest queue, and must not attract the next ones. It receives calls again
// after its next report, even if the report equals the last one. In dynamo#12138, a mark was not cleared while the
// figures stayed equal.
func TestAFailingEngineReceivesNothingUntilItReports(t *testing.T) {
	f := newFleet(t, Options{})
	l := NewLearner(second)
	a, b := f.Slot("a"), f.Slot("b")
	scores := make([]float64, 2)
	score := func(stamp int64) {
		t.Helper()
		c := l.Begin(fmt.Sprint(stamp), nil, 10, 10, 0, 0, 0)
		must(t, f.Score(c, listed{[]*Slot{a, b}, reports(Report{At: stamp}, Report{At: 1, Running: 9})}, 0, scores))
	}
	score(1)
	if scores[0] != 1 {
		t.Errorf("%v", scores)
	}
	c := l.Begin("r", nil, 10, 10, 0, 0, 0)
	must(t, f.Placed(c, "a", 0))
	f.Refused(c)
	must(t, f.Ended(c, 0, -1, 0))
	f.Refused(c) // it is placed nowhere now
	score(1)
	if scores[0] != 0 || scores[1] != 1 {
		t.Errorf("%v", scores)
	}
	score(2)
	if scores[0] != 1 {
		t.Errorf("%v", scores)
	}
}

func TestUnknownPlacementIsNamed(t *testing.T) {
	_, err := New(Options{Placement: "nearest"})
	var told *takt.Error
	if !errors.As(err, &told) || told.Field != "placement" {
		t.Errorf("%v", err)
	}
}

// When an engine goes, none of its requests stay in flight.
func TestEnginesComeAndGo(t *testing.T) {
	f := newFleet(t, Options{Placement: "least_outstanding_tokens"})
	l := NewLearner(second)
	a, b := f.Slot("a"), f.Slot("b")
	scores := make([]float64, 2)
	var calls []*Call
	for i := range 10 {
		c := l.Begin(fmt.Sprint("r", i), nil, 10, 10, 0, 0, 0)
		must(t, f.Score(c, listed{[]*Slot{a, b}, reports(Report{}, Report{})}, 0, scores))
		at := "a"
		if scores[1] == 1 {
			at = "b"
		}
		must(t, f.Placed(c, at, 0))
		calls = append(calls, c)
	}
	must(t, f.Gone([]string{"b"}, second))
	if n := f.Count(); n.Engines != 1 || n.InFlight != 5 {
		t.Errorf("%+v", n)
	}
	for _, c := range calls {
		must(t, f.Ended(c, 0, -1, 2*second))
	}
	if n := f.Count(); n.InFlight != 0 || n.Returned != 5 || n.Failed != 10 {
		t.Errorf("%+v", n)
	}
	if n := f.router.Count(); n.Alive != 0 {
		t.Errorf("takt's router still has %+v", n)
	}
	// The engine comes back, and receives new requests.
	c := l.Begin("again", nil, 10, 10, 0, 0, 0)
	must(t, f.Score(c, listed{[]*Slot{a, b}, reports(Report{}, Report{})}, 3*second, scores))
	must(t, f.Placed(c, "a", 3*second))
	must(t, f.Gone(nil, 4*second))
	must(t, f.Gone(nil, 100*second)) // b was not named for long; a has a request
	if n := f.Count(); n.Engines != 1 {
		t.Errorf("%+v", n)
	}
}

// drive runs a fleet with random events and faults.
func drive(t testing.TB, f *Fleet, seed uint64, requests int) {
	random := rand.New(rand.NewPCG(seed, 1))
	l := NewLearner(5 * second)
	names := []string{"a", "b", "c", "d", "e", "f"}
	var slots []*Slot
	for _, n := range names {
		slots = append(slots, f.Slot(n))
	}
	var flight []*Call
	now, stamp := takt.Time(0), int64(0)
	scores := make([]float64, len(names))
	for i := range requests {
		now += takt.Time(random.ExpFloat64() * 1e8)
		if random.IntN(4) == 0 {
			stamp++
		}
		h := headers(fmt.Sprint("w", random.IntN(requests/4+1)), []string{"lookup", "support", "research"}[random.IntN(3)], false)
		c := l.Begin(fmt.Sprint("r", i), h, 1+random.IntN(2000), 100, random.IntN(3)*500, 0, now)
		must(t, f.Score(c, listed{slots, func(i int) (Report, float64) {
			tokenS := 0.0
			if i < 4 {
				tokenS = float64(1+i) * 0.002
			}
			return Report{At: stamp, Waiting: (i + int(stamp)) % 3, Running: int(stamp) % 5, KVTokens: 20000, KVUsed: i * 1000}, tokenS
		}}, now, scores))
		best := 0
		for j := range scores {
			if scores[j] > scores[best] {
				best = j
			}
		}
		must(t, f.Placed(c, names[best], now))
		if random.IntN(3) > 0 {
			must(t, f.Started(c, now))
		}
		flight = append(flight, c)
		for len(flight) > 12 || len(flight) > 0 && random.IntN(3) == 0 {
			j := random.IntN(len(flight))
			output := random.IntN(300) - 20
			must(t, f.Ended(flight[j], flight[j].Request.PromptTokens, output, now))
			flight[j].End(10, output, now)
			flight = append(flight[:j], flight[j+1:]...)
		}
		if random.IntN(50) == 0 {
			must(t, f.Gone(names[random.IntN(3):], now))
		}
	}
	for _, c := range flight {
		must(t, f.Ended(c, 1, 1, now))
	}
	if n := f.Count(); n.InFlight != 0 || f.router.Count().Alive != 0 {
		t.Errorf("left in flight: %+v, %+v", n, f.router.Count())
	}
	if fault := f.router.LastFault(); fault.Count != 0 {
		t.Errorf("takt's router reported a fault: %+v", fault)
	}
}

var placements = []string{"confidence_slack", "workload_balance", "time_slot_packer", "least_loaded", "cached_cost",
	"least_outstanding_tokens", "session", "llmd", "minimum_completion_time"}

// takt's own router makes the same placements from the log of a fleet, without PlaceAt.
func TestLogGivesTheSamePlacements(t *testing.T) {
	for _, placement := range placements {
		t.Run(placement, func(t *testing.T) {
			var log bytes.Buffer
			drive(t, newFleet(t, Options{Placement: placement, Log: LogTo(&log, func(err error) { t.Error(err) })}), 7, 300)
			router, err := takt.NewRouter(takt.RouterOptions{Placement: placement})
			must(t, err)
			defer router.Close()
			lines, compared := bufio.NewScanner(&log), 0
			for lines.Scan() {
				var e Entry
				must(t, json.Unmarshal(lines.Bytes(), &e))
				must(t, router.On(e.At, e.Events...))
				if e.Placed == nil {
					continue
				}
				routing, err := router.Place(e.At)
				must(t, err)
				if len(routing.Placed) == 0 { // no room by the placement: the host has chosen
					must(t, router.PlaceAt(e.Placed.Request, e.Placed.Instance, e.At))
					continue
				}
				last := routing.Placed[len(routing.Placed)-1]
				if last.Request != e.Placed.Request || last.Instance != e.Placed.Instance {
					t.Fatalf("at %d: %v, want %v", e.At, routing.Placed, *e.Placed)
				}
				compared++
			}
			if compared < 250 {
				t.Errorf("only %d placements were compared", compared)
			}
		})
	}
}

func TestGoroutines(t *testing.T) {
	f := newFleet(t, Options{Placement: "confidence_slack"})
	l := NewLearner(second)
	slots := []*Slot{f.Slot("a"), f.Slot("b"), f.Slot("c")}
	var all sync.WaitGroup
	for g := range 8 {
		all.Add(1)
		go func() {
			defer all.Done()
			scores := make([]float64, 3)
			for i := range 200 {
				c := l.Begin(fmt.Sprint(g, ".", i), headers(fmt.Sprint(g), "x", i%5 == 4), 10, 10, 0, 0, takt.Time(i))
				if err := f.Score(c, listed{slots, reports(Report{At: int64(i)}, Report{}, Report{})}, takt.Time(i), scores); err != nil {
					t.Error(err)
				}
				for _, err := range []error{f.Placed(c, "a", takt.Time(i)), f.Started(c, takt.Time(i)),
					f.Ended(c, 10, 10, takt.Time(i))} {
					if err != nil {
						t.Error(err)
					}
				}
				c.End(10, 10, takt.Time(i))
			}
		}()
	}
	all.Wait()
	if n := f.Count(); n.Ended != 1600 || n.InFlight != 0 {
		t.Errorf("%+v", n)
	}
}

// A fleet makes the same placements from the simulator's log (tests/router/parity_test.cc, with TAKT_PARITY_LOGS).
func TestSimulatorsLogGivesTheSamePlacements(t *testing.T) {
	folder := os.Getenv("TAKT_PARITY_LOGS")
	if folder == "" {
		t.Skip("TAKT_PARITY_LOGS names no folder of the simulator's logs")
	}
	logs, err := filepath.Glob(filepath.Join(folder, "*.jsonl"))
	must(t, err)
	if len(logs) == 0 {
		t.Fatalf("%s has no logs", folder)
	}
	for _, log := range logs {
		placement := strings.TrimSuffix(filepath.Base(log), ".jsonl")
		t.Run(placement, func(t *testing.T) {
			text, err := os.ReadFile(log)
			must(t, err)
			f := newFleet(t, Options{Placement: placement})
			l := NewLearner(second)
			var slots []*Slot
			byID, calls := map[uint64]*Slot{}, map[uint64]*Call{}
			compared := 0
			stamp := int64(0)
			for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
				var e Entry
				must(t, json.Unmarshal(lines.Bytes(), &e))
				if e.Placed != nil {
					scores := make([]float64, len(slots))
					c := calls[e.Placed.Request]
					must(t, f.Score(c, listed{slots, func(i int) (Report, float64) { return Report{At: slots[i].told}, slots[i].tokenS }},
						e.At, scores))
					if at := slices.Index(scores, 1); slots[at].id != e.Placed.Instance {
						t.Fatalf("at %d: %d, want %+v", e.At, slots[at].id, *e.Placed)
					}
					must(t, f.Placed(c, byID[e.Placed.Instance].name, e.At))
					compared++
				}
				for _, event := range e.Events {
					switch event := event.(type) {
					case takt.InstanceUp:
						s := f.Slot(fmt.Sprint(event.Instance.ID))
						s.id = event.Instance.ID // the simulator's id, which decides among equals
						slots, byID[s.id] = append(slots, s), s
						f.hear(s, &Report{KVTokens: event.Instance.KVTokens}, event.Instance.TokenS, e.At)
					case takt.InstanceReported:
						stamp++
						f.hear(byID[event.Instance], &Report{At: stamp, Waiting: int(event.Waiting), Running: int(event.Running),
							KVUsed: event.KVUsed, Dated: true, AsOf: e.At}, byID[event.Instance].tokenS, e.At)
					case takt.Arrived:
						calls[event.Request.ID] = &Call{Request: event.Request, learner: l}
					case takt.RequestStarted:
						must(t, f.Started(calls[event.Request], e.At))
					case takt.RequestEnded:
						s := calls[event.Request].at
						pace := s.perToken
						must(t, f.Ended(calls[event.Request], event.Prefill, event.Output, e.At))
						s.perToken = pace // the simulator's value, not a learned one
					default:
						t.Fatalf("%T", event)
					}
				}
				must(t, f.report(nil, e.At))
			}
			if compared < 300 {
				t.Errorf("only %d placements were compared", compared)
			}
		})
	}
}
