package takt

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"
)

const second Time = 1e9

func newRouter(t testing.TB, options RouterOptions) *Router {
	t.Helper()
	r, err := NewRouter(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func ask(id uint64, prompt int, output float64) Request {
	r := NewRequest(id, prompt)
	r.OutputTokens = About(output)
	return r
}

// sjf orders by expected output alone.
func TestRankerOrdersByKeys(t *testing.T) {
	r, err := NewRanker("sjf")
	must(t, err)
	defer r.Close()
	if r.Traits() != Fixed {
		t.Errorf("traits of sjf: %v", r.Traits())
	}
	requests := []Request{ask(1, 10, 900), ask(2, 10, 30), ask(3, 10, 200)}
	keys := make([]float64, 3)
	must(t, r.Keys(requests, 0, keys))
	if !(keys[1] < keys[2] && keys[2] < keys[0]) {
		t.Errorf("keys %v", keys)
	}
	for i := range requests {
		key, err := r.Key(&requests[i], 0)
		if err != nil || key != keys[i] {
			t.Errorf("key of one: %v, %v; of many: %v", key, err, keys[i])
		}
	}
}

func TestTraitsNameMovingKeys(t *testing.T) {
	for policy, want := range map[string]Traits{"fcfs": Fixed, "edf": Fixed, "hrrn": Moving, "mlfq": Learns, "aged(sjf)": Ages,
		"slo_groups": Groups} {
		r, err := NewRanker(policy)
		must(t, err)
		if r.Traits()&want == 0 {
			t.Errorf("%s: %v, want %v among them", policy, r.Traits(), want)
		}
		r.Close()
	}
}

func TestErrorsNameTheField(t *testing.T) {
	_, err := NewRouter(RouterOptions{Placement: "nearest"})
	var told *Error
	if !errors.As(err, &told) || told.Field != "placement" || !errors.Is(err, ErrInvalid) ||
		!strings.Contains(err.Error(), "nearest") {
		t.Errorf("placement: %v", err)
	}
	_, err = NewRouter(RouterOptions{Policy: "fcfsx"})
	if !errors.As(err, &told) || told.Field != "policy" {
		t.Errorf("policy: %v", err)
	}
	_, err = NewRanker("")
	if !errors.As(err, &told) || told.Field != "policy" {
		t.Errorf("no policy: %v", err)
	}
	r := newRouter(t, RouterOptions{})
	for field, change := range map[string]func(*Request){
		"PromptTokens":      func(r *Request) { r.PromptTokens = -5 },
		"Sequences":         func(r *Request) { r.Sequences = 0 },
		"MaxOutputTokens":   func(r *Request) { r.MaxOutputTokens = math.MaxInt32 + 1 },
		"PrefixBlockTokens": func(r *Request) { r.PrefixHashes = []uint64{1} },
	} {
		request := NewRequest(1, 10)
		change(&request)
		err := r.On(0, InstanceUp{Instance{ID: 9}}, Arrived{request})
		if !errors.As(err, &told) || told.Field != field || told.Op != "On" {
			t.Errorf("%s: %v", field, err)
		}
	}
	if c := r.Count(); c != (RouterCounts{}) { // a batch with a fault has no effect
		t.Errorf("counts %+v", c)
	}
}

func TestRouterPlacesAndScores(t *testing.T) {
	r := newRouter(t, RouterOptions{Policy: "sjf", Placement: "least_outstanding_tokens", MaxOutstanding: 1})
	must(t, r.On(0, InstanceUp{Instance{ID: 1}}, InstanceUp{Instance{ID: 2, KVTokens: 50}},
		Arrived{ask(11, 100, 900)}, Arrived{ask(12, 100, 30)}, Arrived{ask(13, 10, 50)}))
	routing, err := r.Place(0)
	must(t, err)
	// Request 12 is the shortest and does not fit into instance 2; 13 is next; 11 waits.
	if want := []Placement{{12, 1, 1}, {13, 2, 2}}; !slices.Equal(routing.Placed, want) {
		t.Fatalf("placed %v, want %v", routing.Placed, want)
	}
	if r.InstanceOf(12) != 1 || r.InstanceOf(11) != 0 {
		t.Error("instance of 12, 11")
	}
	must(t, r.On(second, RequestEnded{Request: 12, Served: true, Prefill: 100, Output: 31}))
	must(t, r.PlaceAt(11, 1, second))
	if err := r.PlaceAt(11, 1, second); !errors.Is(err, ErrInvalid) {
		t.Errorf("placed twice: %v", err)
	}
	if c := r.Count(); c != (RouterCounts{Instances: 2, Alive: 2}) {
		t.Errorf("counts %+v", c)
	}
	// When an instance goes down, its requests wait again.
	must(t, r.On(2*second, InstanceDown{Instance: 1}))
	if c := r.Count(); c.Waiting != 1 || c.Instances != 1 {
		t.Errorf("counts %+v", c)
	}
	if s := r.Stats(); s["returned"] != 1 || s["arrived"] != 3 || s["ended"] != 1 {
		t.Errorf("stats %v", s)
	}
	must(t, r.On(2*second, RequestEnded{Request: 11, Instance: 1, Life: 1, Failed: true})) // of an earlier life
	must(t, r.On(2*second, InstanceUp{Instance{ID: 1, Life: 9}}, InstanceDown{Instance: 1, Life: 8}))
	if s, c := r.Stats(), r.Count(); s["reported_late"] != 2 || c.Instances != 2 || c.Alive != 2 {
		t.Errorf("stats %v, counts %+v", s, c)
	}
	must(t, r.On(2*second, RequestEnded{Request: 77}))
	if f := r.LastFault(); f.Count != 1 || f.Request != 77 {
		t.Errorf("fault %+v", f)
	}
}

// The score of least_loaded is -(4 waiting + running).
func TestScoresOfGivenInstances(t *testing.T) {
	r := newRouter(t, RouterOptions{Placement: "least_loaded(waiting_weight=4)"})
	must(t, r.On(0, InstanceUp{Instance{ID: 1}}, InstanceUp{Instance{ID: 2}},
		InstanceReported{Instance: 1, Waiting: 2, Running: 3}, InstanceReported{Instance: 2, Running: 5}))
	request := NewRequest(5, 100)
	request.PrefixHashes, request.PrefixBlockTokens = []uint64{1, 2, 3}, 16
	request.Scores = []ModelScore{{Model: 1, Score: 0.5, Tokens: 9}}
	scores := make([]float64, 3)
	n, err := r.Score(&request, []uint64{2, 1, 7}, 0, scores)
	must(t, err)
	if n != 2 || scores[0] != -5 || scores[1] != -11 || !math.IsNaN(scores[2]) {
		t.Errorf("%d places, scores %v", n, scores)
	}
}

func TestWorkflowsHoldCallsUntilTheirStage(t *testing.T) {
	r := newRouter(t, RouterOptions{})
	must(t, r.On(0, InstanceUp{Instance{ID: 1}}, WorkflowDeclared{Workflow{ID: 7, Arrival: Unset, Deadline: Unset,
		Stages: []Stage{{Stage: 1}, {Stage: 2, After: []uint32{0}}}}}))
	call := func(id, site uint64) Arrived {
		request := NewRequest(id, 10)
		request.Workflow, request.Stage = 7, site
		return Arrived{request}
	}
	must(t, r.On(0, call(22, 2), call(21, 1)))
	routing, err := r.Place(0)
	must(t, err)
	if want := []Placement{{21, 1, 1}}; !slices.Equal(routing.Placed, want) {
		t.Fatalf("placed %v", routing.Placed)
	}
	must(t, r.On(second, RequestEnded{Request: 21}))
	routing, err = r.Place(second)
	must(t, err)
	if want := []Placement{{22, 1, 1}}; !slices.Equal(routing.Placed, want) {
		t.Fatalf("placed %v", routing.Placed)
	}
	must(t, r.On(2*second, RequestEnded{Request: 22}))
	routing, err = r.Place(2 * second)
	must(t, err)
	if len(routing.Ended) != 1 || routing.Ended[0].Workflow != 7 || routing.Ended[0].How != "completed" {
		t.Errorf("ended %+v", routing.Ended)
	}
}

func TestQueueIterates(t *testing.T) {
	q, err := NewQueue("sjf")
	must(t, err)
	defer q.Close()
	for i, output := range []float64{900, 30, 200} {
		request := ask(uint64(i+1), 10, output)
		must(t, q.Push(&request, 0))
	}
	again := NewRequest(2, 10)
	if err := q.Push(&again, 0); !errors.Is(err, ErrInUse) {
		t.Errorf("pushed twice: %v", err)
	}
	must(t, q.Begin(0))
	if got := q.List(9); !slices.Equal(got, []uint64{2, 3, 1}) {
		t.Errorf("order %v", got)
	}
	top, found := q.Top()
	if !found || top != 2 {
		t.Errorf("top %d", top)
	}
	must(t, q.Take(2))
	must(t, q.Hold(3))
	counted, err := q.End([]Ran{{Request: 2, Prefill: 10, Output: 1}, {Request: 99}}, 0)
	must(t, err)
	if counted != 1 || q.Where(2) != Running || q.Where(3) != Held || q.Where(1) != Waiting || q.Where(99) != Nowhere {
		t.Errorf("counted %d; places %v %v %v", counted, q.Where(2), q.Where(3), q.Where(1))
	}
	must(t, q.Requeue(3, 0))
	victims, err := q.Victims([]Holding{{2, 8}}, 4, 0, 0)
	must(t, err)
	if !slices.Equal(victims, []uint64{2}) {
		t.Errorf("victims %v", victims)
	}
	if requeued, err := q.Put(&again, 0); err != nil || !requeued {
		t.Errorf("put: %v, %v", requeued, err)
	}
	must(t, q.Erase(2))
	if err := q.Erase(2); !errors.Is(err, ErrUnknown) {
		t.Errorf("erased twice: %v", err)
	}
}

func TestClosedHandlesReturnAnError(t *testing.T) {
	r := newRouter(t, RouterOptions{})
	q, err := NewQueue("")
	must(t, err)
	k, err := NewRanker("fcfs")
	must(t, err)
	for range 2 {
		must(t, r.Close())
		must(t, q.Close())
		must(t, k.Close())
	}
	request := NewRequest(1, 1)
	_, keyed := k.Key(&request, 0)
	_, placed := r.Place(0)
	for _, err := range []error{r.On(0, Cancelled{1}), placed, q.Push(&request, 0), q.Begin(0), keyed} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%v", err)
		}
	}
	if r.Stats() != nil || q.Len() != 0 || r.Count() != (RouterCounts{}) || k.Traits() != 0 {
		t.Error("a closed handle returned data")
	}
}

// Many goroutines use one handle, which is closed meanwhile; for the race detector.
func TestGoroutines(t *testing.T) {
	r := newRouter(t, RouterOptions{Policy: "sjf", Placement: "prefix"})
	for i := range uint64(8) {
		must(t, r.On(0, InstanceUp{Instance{ID: i + 1, KVTokens: 1 << 20}}))
	}
	closing := newRouter(t, RouterOptions{})
	var all sync.WaitGroup
	for g := range uint64(8) {
		all.Add(1)
		go func() {
			defer all.Done()
			random := rand.New(rand.NewPCG(g, 1))
			instances, scores := []uint64{1, 2, 3, 4, 5, 6, 7, 8}, make([]float64, 8)
			for i := range uint64(300) {
				request := ask(1+g*1000+i, 64, float64(random.IntN(500)))
				request.PrefixHashes, request.PrefixBlockTokens = []uint64{random.Uint64N(20), g, i}, 16
				if err := r.On(0, Arrived{request}); err != nil {
					t.Error(err)
				}
				if _, err := r.Score(&request, instances, 0, scores); err != nil {
					t.Error(err)
				}
				if err := r.PlaceAt(request.ID, 1+random.Uint64N(8), 0); err != nil {
					t.Error(err)
				}
				if err := r.On(0, RequestEnded{Request: request.ID}); err != nil {
					t.Error(err)
				}
				if i == 150 && g == 3 {
					closing.Close()
				}
				if err := closing.On(0, Cancelled{1}); err != nil && !errors.Is(err, ErrClosed) {
					t.Error(err)
				}
				if i%100 == 0 {
					runtime.GC()
				}
			}
		}()
	}
	all.Wait()
	if s := r.Stats(); s["arrived"] != 2400 || s["ended"] != 2400 || r.Count().Alive != 0 || r.LastFault().Count != 0 {
		t.Errorf("%v", s)
	}
}

func TestForgottenHandlesAreFreed(t *testing.T) {
	freed := make(chan struct{})
	func() {
		k, err := NewRanker("fcfs")
		must(t, err)
		release := k.release
		k.cleanup.Stop()
		k.open(k.c, func(c unsafe.Pointer) { release(c); close(freed) })
	}()
	for range 100 {
		runtime.GC()
		select {
		case <-freed:
			return
		default:
			runtime.Gosched()
		}
	}
	<-freed
}

func BenchmarkScore(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := newRouter(b, RouterOptions{Placement: "least_outstanding_tokens"})
			instances, scores := make([]uint64, n), make([]float64, n)
			for i := range instances {
				instances[i] = uint64(i + 1)
				must(b, r.On(0, InstanceUp{Instance{ID: uint64(i + 1)}}))
			}
			request := ask(1, 1000, 200)
			for b.Loop() {
				if _, err := r.Score(&request, instances, 0, scores); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestReportsOfKVBlocksReplaceEstimates(t *testing.T) {
	r := newRouter(t, RouterOptions{Placement: "prefix"})
	hashes := []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	request := NewRequest(7, 161)
	request.PrefixHashes, request.PrefixBlockTokens = hashes, 16
	must(t, r.On(0, InstanceUp{Instance: Instance{ID: 1}}))
	for _, step := range []struct {
		event  Event
		cached float64
	}{
		{KvStored{Instance: 1, Hashes: hashes}, 160},
		{KvRemoved{Instance: 1, Hashes: []uint64{5}}, 64},
		{KvCleared{Instance: 1}, 0},
		{KvStored{Instance: 1}, 0},
	} {
		must(t, r.On(0, step.event))
		scores := make([]float64, 1)
		_, err := r.Score(&request, []uint64{1}, 0, scores)
		must(t, err)
		if scores[0] != step.cached {
			t.Errorf("%v: %v cached tokens, want %v", step.event, scores[0], step.cached)
		}
	}
}

// The lookup of candidates starts at the previous position. In any order, and with instances coming and going, each
// candidate has the score that it has alone.
func TestScoresEqualThoseOfSingleCandidates(t *testing.T) {
	r := newRouter(t, RouterOptions{Placement: "least_loaded"})
	random := rand.New(rand.NewPCG(7, 7))
	request := NewRequest(99, 10)
	possible := 0
	for i := range 2000 {
		now, id := Time(i), 1+random.Uint64N(40)
		var event Event = InstanceUp{Instance: Instance{ID: id}}
		switch random.IntN(3) {
		case 0:
			event = InstanceDown{Instance: id}
		case 1:
			event = InstanceReported{Instance: id, Running: random.Int64N(9), Waiting: random.Int64N(9)}
		}
		if err := r.On(now, event); err != nil {
			t.Fatal(err)
		}
		ids := make([]uint64, random.IntN(50))
		for j := range ids { // mostly in one order
			ids[j] = 1 + uint64(j)%45
		}
		if i%3 == 0 {
			random.Shuffle(len(ids), func(a, b int) { ids[a], ids[b] = ids[b], ids[a] })
		}
		scores, one := make([]float64, len(ids)), make([]float64, 1)
		n, err := r.Score(&request, ids, now, scores)
		if err != nil {
			t.Fatal(err)
		}
		for j, id := range ids {
			alone, err := r.Score(&request, []uint64{id}, now, one)
			if err != nil {
				t.Fatal(err)
			}
			if n -= alone; math.Float64bits(one[0]) != math.Float64bits(scores[j]) {
				t.Fatalf("instance %d: %v among %d, %v alone", id, scores[j], len(ids), one[0])
			}
			possible += alone
		}
		if n != 0 {
			t.Fatalf("%d more scores than instances with room", n)
		}
	}
	if possible < 1000 {
		t.Errorf("%d scores in all", possible)
	}
}

// C reads a text up to its first null character, and only 32 bits of a number.
func TestValuesTooLargeForCAreRefused(t *testing.T) {
	r := newRouter(t, RouterOptions{})
	_, ranker := NewRanker("sjf\x00nonsense")
	_, queue := NewQueue("sjf\x00nonsense")
	_, policy := NewRouter(RouterOptions{Policy: "fcfs\x00nonsense"})
	_, placement := NewRouter(RouterOptions{Placement: "least_loaded\x00nonsense"})
	_, profile := r.AddProfile("h100\x00nonsense", nil)
	for _, c := range []struct {
		err   error
		field string
	}{
		{ranker, "policy"}, {queue, "policy"}, {policy, "Policy"}, {placement, "Placement"}, {profile, "name"},
		{r.RankAgents([]AgentRank{{Agent: 1, StagesLeft: 1<<32 + 1}}, AgentRank{}, 0), "StagesLeft"},
		{r.RankAgents(nil, AgentRank{StagesLeft: -1 << 32}, 0), "StagesLeft"},
	} {
		var e *Error
		if !errors.As(c.err, &e) || e.Field != c.field || !errors.Is(c.err, ErrInvalid) {
			t.Errorf("%v: must name %s", c.err, c.field)
		}
	}
	must(t, r.RankAgents([]AgentRank{{Agent: 1, StagesLeft: 3}}, AgentRank{}, 0))
}

func TestCostModelsPlaceOnTheFasterInstance(t *testing.T) {
	r := newRouter(t, RouterOptions{Placement: "workload_balance(alpha=1)", Budgets: BudgetsShare})
	for id, ms := range []float64{50, 5} {
		profile, err := r.AddProfile(fmt.Sprint(ms), &CostModel{ConstantMs: ms, PerPrefillMs: ms / 100})
		must(t, err)
		must(t, r.On(0, InstanceUp{Instance{ID: uint64(id + 1), Profile: profile}}))
	}
	must(t, r.On(0, Arrived{NewRequest(1, 100)}))
	routing, err := r.Place(0)
	must(t, err)
	if len(routing.Placed) != 1 || routing.Placed[0].Instance != 2 {
		t.Errorf("placed %v, expected the fast instance", routing.Placed)
	}
	if _, err := r.AddProfile("50", nil); err == nil {
		t.Error("another cost model of the same name was accepted")
	}
	if _, err := r.AddProfile("x", &CostModel{ConstantMs: -1}); err == nil {
		t.Error("a negative time was accepted")
	}
	if _, err := NewRouter(RouterOptions{Budgets: 3}); err == nil {
		t.Error("an unknown budget was accepted")
	}
	if _, err := NewQueue("agent_priority"); err == nil {
		t.Error("a queue without ranks of agents was accepted")
	}
}

func TestEachConstantOfTheHeaderHasAName(t *testing.T) {
	model, err := os.ReadFile("../../include/takt/c/model.h")
	must(t, err)
	rest, err := os.ReadFile("../../include/takt/c/takt.h")
	must(t, err)
	_, states, _ := strings.Cut(string(rest), "takt_explanation.status")
	header := string(model) + string(rest[:strings.Index(string(rest), "takt_scheduler_options")]) + states
	for prefix, names := range map[string][]string{
		"FAIL": failReasons, "WORKFLOW": hows, "REASON": append(slices.Clone(reasons), "failed"), "REQUEST": statuses,
	} {
		found := regexp.MustCompile("TAKT_"+prefix+`_([A-Z_]+) = (\d+)`).FindAllStringSubmatch(header, -1)
		if prefix == "REQUEST" { // not the flags of a request
			found = found[len(found)-len(statuses):]
		}
		if len(found) != len(names) {
			t.Errorf("%s: the header has %d names, this package has %d", prefix, len(found), len(names))
		}
		for i, f := range found {
			if name := strings.ToLower(strings.ReplaceAll(f[1], "_", " ")); f[2] != fmt.Sprint(i) || nameOf(names, uint32(i)) != name {
				t.Errorf("%s is %s, not %s", f[0], nameOf(names, uint32(i)), name)
			}
		}
		if nameOf(names, 200) != "200" {
			t.Errorf("a number from a later library: %s", nameOf(names, 200))
		}
	}
}

// The waiting queue holds two requests, one of them of tenant 7, and one of priority 10 or more, for two seconds.
func TestBoundsFailRequestsWithATimeToComeBack(t *testing.T) {
	r := newRouter(t, RouterOptions{MaxWaiting: 3, TenantMaxWaiting: 2, ClassLimits: []ClassLimits{
		{Priority: 0}, {Priority: 10, MaxWaiting: 1, MaxWaitingTokens: 1000, MaxWait: 2500 * time.Millisecond}},
		MaxDown: 30 * time.Second})
	must(t, r.On(0, InstanceUp{Instance{ID: 1, Capacity: 1}}))
	waiting := func(id, tenant uint64, priority int) Arrived {
		request := NewRequest(id, 100)
		request.Tenant, request.Priority = tenant, priority
		return Arrived{request}
	}
	failed := func(now Time) map[uint64]Failure {
		t.Helper()
		routing, err := r.Place(now)
		must(t, err)
		failed := map[uint64]Failure{}
		for _, f := range routing.Failed {
			failed[f.Request] = f
		}
		return failed
	}
	must(t, r.On(0, waiting(1, 1, 0)))
	if f := failed(0); len(f) != 0 {
		t.Fatalf("failed %v", f)
	}
	must(t, r.On(second, waiting(2, 7, 0), waiting(3, 7, 0), waiting(4, 7, 0), waiting(5, 1, 10), waiting(6, 2, 10)))
	f := failed(second)
	if len(f) != 2 || f[4].Reason != FailQuota || f[6].Reason != FailShed || f[4].Reason.HTTPStatus() != 429 {
		t.Fatalf("failed %v", f)
	}
	must(t, r.On(2*second, waiting(7, 3, 0)))
	if f := failed(2 * second); len(f) != 1 || f[7].Reason != FailShed {
		t.Fatalf("failed %v", f)
	}
	if f := failed(second + second*5/2); len(f) != 1 || f[5].Reason != FailExpired || f[5].Reason.HTTPStatus() != 504 {
		t.Fatalf("failed %v", f)
	}
	must(t, r.On(4*second, RequestEnded{Request: 1})) // 2 leaves the queue in which 3 waits, which gives a rate
	if f := failed(4 * second); len(f) != 0 {
		t.Fatalf("failed %v", f)
	}
	must(t, r.On(5*second, waiting(8, 7, 0), waiting(9, 7, 0)))
	if f := failed(5 * second); len(f) != 1 || f[9].Reason != FailQuota || f[9].RetryAfter <= 0 ||
		f[9].RetryAfter > time.Minute {
		t.Fatalf("failed %v", f)
	}
	must(t, r.On(6*second, InstanceDown{Instance: 1}))
	if f := failed(6 * second); len(f) != 0 {
		t.Fatalf("failed %v", f)
	}
	if f := failed(36 * second); len(f) != 3 || f[3].Reason.HTTPStatus() != 503 {
		t.Fatalf("failed %v", f)
	}
}

func TestInvalidBoundsAreNamed(t *testing.T) {
	for _, c := range []struct {
		options RouterOptions
		field   string
	}{
		{RouterOptions{MaxHeld: -time.Second}, "max_held"},
		{RouterOptions{MaxDown: -time.Second}, "max_down"},
		{RouterOptions{ClassLimits: []ClassLimits{{Priority: 3}, {Priority: 3}}}, "class_limits"},
		{RouterOptions{ClassLimits: []ClassLimits{{MaxWait: -time.Second}}}, "class_limits"},
		{RouterOptions{ClassLimits: make([]ClassLimits, 17)}, "class_limits"},
	} {
		_, err := NewRouter(c.options)
		var e *Error
		if !errors.As(err, &e) || !strings.HasPrefix(e.Field, c.field) {
			t.Errorf("%+v: %v, expected %s", c.options, err, c.field)
		}
	}
	// Below 0 means that no request may wait.
	r := newRouter(t, RouterOptions{MaxWaiting: -1})
	must(t, r.On(0, Arrived{NewRequest(1, 10)}))
	if routing, err := r.Place(0); err != nil || len(routing.Failed) != 1 {
		t.Errorf("failed %v, %v", routing.Failed, err)
	}
}

func TestMetrics(t *testing.T) {
	r := newRouter(t, RouterOptions{})
	if _, err := r.Saturation(0); !errors.Is(err, ErrInvalid) {
		t.Errorf("nothing is measured: %v", err)
	}
	if text, err := r.Metrics(0, "", ""); err != nil || !strings.Contains(text, "takt_requests_waiting 0") ||
		strings.Contains(text, "_bucket") {
		t.Errorf("%v: %s", err, text)
	}
	must(t, r.Measure(MetricsOptions{By: ByTenant, MaxClasses: 2, MaxRequests: 3, Window: 4 * time.Second}))
	must(t, r.NameClass(7, "seven"))
	if err := r.NameClass(7, "again"); !errors.Is(err, ErrInvalid) {
		t.Errorf("named twice: %v", err)
	}
	must(t, r.On(0, InstanceUp{Instance{ID: 1, Capacity: 1}}))
	for id := range uint64(3) {
		request := NewRequest(id+1, 100)
		request.Tenant = 7
		must(t, r.On(0, Arrived{request}))
	}
	_, err := r.Place(0)
	must(t, err)
	must(t, r.On(2*second, RequestEnded{Request: 1}))
	_, err = r.Place(2 * second)
	must(t, err)
	saturation, err := r.Saturation(2 * second)
	must(t, err)
	if saturation.BacklogTokens != 100 || saturation.DrainTokensPerS <= 0 || saturation.ToClear <= 0 {
		t.Errorf("%+v", saturation)
	}
	text, err := r.Metrics(2*second, "llm_d", "m")
	must(t, err)
	for _, sample := range []string{
		`llm_d_epp_flow_control_queue_size{model_name="m"} 1`, `llm_d_epp_ready_endpoints{model_name="m"} 1`,
		`llm_d_epp_request_total{model_name="m",tenant="seven"} 3`,
		`llm_d_epp_request_duration_seconds_count{model_name="m",tenant="seven"} 1`,
	} {
		if !strings.Contains(text, sample+"\n") {
			t.Errorf("no %s in\n%s", sample, text)
		}
	}
	must(t, r.StopMeasuring())
	if text, err := r.Metrics(0, "takt", ""); err != nil || strings.Contains(text, "_bucket") {
		t.Errorf("%v: %s", err, text)
	}
	for _, c := range []struct {
		err   error
		field string
	}{
		{r.Measure(MetricsOptions{By: 9}), "by"}, {r.Measure(MetricsOptions{MaxClasses: 65}), "max_classes"},
		{r.Measure(MetricsOptions{MaxRequests: -1}), "MaxRequests"},
		{r.Measure(MetricsOptions{Window: -time.Second}), "window"},
		{r.NameClass(1, "a\x00b"), "name"},
		{func() error { _, err := r.Metrics(0, "no-such", ""); return err }(), "names"},
	} {
		var e *Error
		if !errors.As(c.err, &e) || !strings.HasPrefix(e.Field, c.field) {
			t.Errorf("%v: must name %s", c.err, c.field)
		}
	}
}

// A chain of transitions per request: each begins with the status in which the previous one ended.
func TestWatchSeesEveryTransitionInOrder(t *testing.T) {
	r := newRouter(t, RouterOptions{MaxWaiting: 40})
	status, ends, reasons := map[uint64]Status{}, map[uint64]int{}, map[string]int{}
	last := Time(0)
	must(t, r.Watch(func(c Transition) {
		if c.From != status[c.Request] || c.At < last {
			t.Errorf("%+v after %v", c, status[c.Request])
		}
		status[c.Request], last = c.To, c.At
		reasons[c.Reason.String()]++
		if c.To == RequestDead {
			ends[c.Request]++
		}
	}))
	random := rand.New(rand.NewPCG(3, 3))
	ids := uint64(0)
	for i := range 3000 {
		now := Time(i) * second / 10
		var event Event = InstanceUp{Instance{ID: 1 + random.Uint64N(3), Capacity: 3}}
		switch random.IntN(20) {
		case 0:
			event = InstanceDown{Instance: 1 + random.Uint64N(3)}
		case 1:
			event = Cancelled{1 + random.Uint64N(ids+1)}
		case 2, 3, 4, 5, 6, 7, 8:
			event = RequestEnded{Request: 1 + random.Uint64N(ids+1), Failed: random.IntN(9) == 0}
		case 9, 10, 11, 12, 13, 14, 15:
			ids++
			request := NewRequest(ids, 10)
			request.Priority = int(ids)
			event = Arrived{request}
		}
		must(t, r.On(now, event))
		_, err := r.Place(now)
		must(t, err)
	}
	stats := r.Stats()
	if uint64(reasons["arrived"]) != stats["arrived"] || uint64(reasons["cancelled"]) != stats["cancelled"] ||
		uint64(reasons["shed"]) != stats["failed_shed"] || reasons["resumed"] == 0 || reasons["instance lost"] == 0 {
		t.Errorf("%v, stats %v", reasons, stats)
	}
	dead := 0
	for id, s := range status {
		if s == RequestDead {
			dead++
		}
		if n := ends[id]; n > 1 || (n == 1) != (s == RequestDead) {
			t.Errorf("request %d ended %d times: %v", id, n, s)
		}
	}
	if int64(len(status)-dead) != r.Count().Alive || dead < 500 {
		t.Errorf("%d requests, %d ended, %d alive", len(status), dead, r.Count().Alive)
	}
	// Each way to place reports before it returns.
	ids++
	must(t, r.On(300*second, InstanceUp{Instance{ID: 8, Role: RolePrefill}}, InstanceUp{Instance{ID: 9, Role: RoleDecode}},
		Arrived{NewRequest(ids, 10)}))
	waiting := status[ids]
	must(t, r.PlaceApart(ids, 8, 9, 300*second))
	if status[ids] == waiting || last != 300*second {
		t.Errorf("placed apart: %v at %v", status[ids], last)
	}
	// A panic of an observer reaches the host, which can go on.
	must(t, r.Watch(func(Transition) { panic("planted") }))
	func() {
		defer func() {
			if recover() != "planted" {
				t.Error("no panic")
			}
		}()
		r.On(301*second, Arrived{NewRequest(9999, 1)})
	}()
	must(t, r.Watch(nil))
	must(t, r.On(301*second, Cancelled{9999}))
	must(t, r.Close())
	if err := r.On(0, Cancelled{1}); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}
