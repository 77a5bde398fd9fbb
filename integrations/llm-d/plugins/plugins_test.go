package plugins

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/llm-d/llm-d-router/pkg/epp/flowcontrol/queue"
	"github.com/llm-d/llm-d-router/pkg/epp/framework/interface/datalayer"
	"github.com/llm-d/llm-d-router/pkg/epp/framework/interface/flowcontrol"
	"github.com/llm-d/llm-d-router/pkg/epp/framework/interface/flowcontrol/mocks"
	"github.com/llm-d/llm-d-router/pkg/epp/framework/interface/plugin"
	"github.com/llm-d/llm-d-router/pkg/epp/framework/interface/requestcontrol"
	"github.com/llm-d/llm-d-router/pkg/epp/framework/interface/requesthandling"
	"github.com/llm-d/llm-d-router/pkg/epp/framework/interface/scheduling"
	"github.com/llm-d/llm-d-router/pkg/epp/framework/plugins/flowcontrol/ordering/fcfs"
	"github.com/llm-d/llm-d-router/pkg/epp/framework/plugins/scheduling/scorer/queuedepth"
)

var background = context.Background()

func made[P plugin.Plugin](t testing.TB, factory plugin.FactoryFunc, parameters string) P {
	t.Helper()
	handle := plugin.NewEppHandle(background, nil, plugin.WithMetricsRecorder(prometheus.NewRegistry()))
	p, err := factory("it", plugin.StrictDecoder(json.RawMessage(parameters)), handle)
	if err != nil {
		t.Fatal(err)
	}
	return p.(P)
}

func request(id, workflow, agent string, last bool) *scheduling.InferenceRequest {
	h := map[string]string{"x-takt-workflow": workflow, "x-takt-agent": agent}
	if last {
		h["x-takt-last"] = "1"
	}
	return &scheduling.InferenceRequest{RequestID: id, Headers: h, RequestSizeBytes: 400}
}

func engines(n int) []scheduling.Endpoint {
	var to []scheduling.Endpoint
	for i := range n {
		m := datalayer.NewMetrics()
		m.WaitingQueueSize, m.RunningRequestsSize, m.UpdateTime = i%7, i%5, time.Unix(1, 0)
		meta := &datalayer.EndpointMetadata{ID: types.NamespacedName{Namespace: "default", Name: fmt.Sprint("engine-", i)}}
		to = append(to, scheduling.NewEndpoint(meta, m, nil))
	}
	return to
}

func item(r *scheduling.InferenceRequest, at int) flowcontrol.QueueItemAccessor {
	return &mocks.MockQueueItemAccessor{EnqueueTimeV: time.Unix(int64(at), 0),
		OriginalRequestV: &mocks.MockFlowControlRequest{InferenceRequestV: r}}
}

func TestFaultsOfAConfigurationAreNamed(t *testing.T) {
	for _, c := range []struct {
		factory    plugin.FactoryFunc
		parameters string
		says       []string
	}{
		{newScorer, `{"placement": "nearest"}`, []string{ScorerType, "placement", "nearest"}},
		{newScorer, `{"place": "prefix"}`, []string{ScorerType, "place"}},
		{newScorer, `{"workflowIdleSeconds": 0}`, []string{"workflowIdleSeconds is 0"}},
		{newScorer, `{"logFile": "/nowhere/at/all"}`, []string{"logFile"}},
		{newOrdering, `{"policy": "hrrn"}`, []string{OrderingType, "hrrn", "moves with time"}},
		{newOrdering, `{"policy": "slo_groups"}`, []string{"groups", FairnessType}},
		{newOrdering, `{"policy": "fair_share"}`, []string{"served before"}},
		{newOrdering, `{"policy": "aged(sjf)"}`, []string{"promoted"}},
		{newOrdering, `{"policy": "soonest"}`, []string{"policy", "soonest"}},
		{newFairness, `{"group": "team"}`, []string{FairnessType, "group", "team"}},
		{newFairness, `{"policy": "soonest"}`, []string{"policy", "soonest"}},
	} {
		_, err := c.factory("it", plugin.StrictDecoder(json.RawMessage(c.parameters)), nil)
		if err == nil {
			t.Errorf("%s: no error", c.parameters)
			continue
		}
		for _, says := range c.says {
			if !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v: does not say %q", c.parameters, err, says)
			}
		}
	}
}

func TestItemsAreOrderedByKey(t *testing.T) {
	o := made[*ordering](t, newOrdering, `{"policy": "priority"}`)
	var items []flowcontrol.QueueItemAccessor
	for i, priority := range []int{0, 5, -5, 5} { // in the router a larger priority runs sooner
		r := request(fmt.Sprint("o", i), fmt.Sprint("ow", i), "x", true)
		r.Objectives.Priority = priority
		if err := o.RequestHeader(background, r); err != nil {
			t.Fatal(err)
		}
		items = append(items, item(r, i))
	}
	q := queue.New(o)
	for _, each := range items {
		q.Add(each)
	}
	for _, want := range []int{1, 3, 0, 2} {
		head := q.Peek()
		if head != items[want] {
			t.Fatalf("the head is not %d", want)
		}
		q.Remove(head.Handle())
	}
	if o.Less(nil, items[0]) || !o.Less(items[0], nil) || o.Less(nil, nil) {
		t.Error("what is not there comes first")
	}
}

// More items than cache slots, compared by goroutines while the cache is replaced: each has its request's key.
func TestCachedKeysBelongToTheirRequests(t *testing.T) {
	o := made[*ordering](t, newOrdering, `{"policy": "priority"}`)
	var items []flowcontrol.QueueItemAccessor
	for i := range 3 << (keyBits - 1) {
		r := request(fmt.Sprint("k", i), fmt.Sprint("kw", i), "x", true)
		r.Objectives.Priority = (i * 7919) % 100003
		if err := o.RequestHeader(background, r); err != nil {
			t.Fatal(err)
		}
		items = append(items, item(r, i))
	}
	var group sync.WaitGroup
	for g := range 4 {
		group.Add(1)
		go func() {
			defer group.Done()
			random := rand.New(rand.NewPCG(uint64(g), 3))
			for i := range 20000 {
				if i%5000 == 0 {
					o.keys.fresh(int64(i) + time.Now().UnixNano() + keyPeriod*int64(i))
				}
				a, b := items[random.IntN(len(items))], items[random.IntN(len(items))]
				pa, pb := priorityOf(a), priorityOf(b)
				if want := pa > pb || pa == pb && a.EnqueueTime().Before(b.EnqueueTime()); o.Less(a, b) != want {
					t.Errorf("priorities %d and %d: not %v", pa, pb, want)
					return
				}
			}
		}()
	}
	group.Wait()
}

func priorityOf(i flowcontrol.QueueItemAccessor) int {
	return i.OriginalRequest().InferenceRequest().Objectives.Priority
}

// A request runs through the scorer's hooks: its endpoint, its end, its metrics.
func TestScorerFollowsARequest(t *testing.T) {
	registry := prometheus.NewRegistry()
	handle := plugin.NewEppHandle(background, nil, plugin.WithMetricsRecorder(registry))
	p, err := newScorer("it", plugin.StrictDecoder(json.RawMessage(`{"placement": "least_outstanding_tokens"}`)), handle)
	if err != nil {
		t.Fatal(err)
	}
	s := p.(*scorer)
	there := engines(3)
	chosen := map[string]bool{}
	var flight []*scheduling.InferenceRequest
	for i := range 3 {
		r := request(fmt.Sprint("s", i), "w", "x", i == 2)
		s.RequestHeader(background, r)
		scores := s.Score(background, r, there)
		for e, score := range scores {
			if score == 1 {
				chosen[e.GetMetadata().ID.String()] = true
				result := &scheduling.SchedulingResult{PrimaryProfileName: "p", ProfileResults: map[string]*scheduling.ProfileRunResult{
					"p": {TargetEndpoints: []scheduling.Endpoint{e}}}}
				if err := s.PreRequest(background, r, result); err != nil {
					t.Fatal(err)
				}
			}
		}
		flight = append(flight, r)
	}
	if len(chosen) != 3 {
		t.Errorf("three equal requests went to %v", chosen)
	}
	for _, r := range flight {
		s.ResponseBody(background, r, &requestcontrol.Response{StartOfStream: true}, nil)
		s.ResponseBody(background, r, &requestcontrol.Response{EndOfStream: true,
			Usage: requesthandling.Usage{PromptTokens: 90, CompletionTokens: 10}}, nil)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			got[f.GetName()] += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	for name, want := range map[string]float64{"takt_placed_total": 3, "takt_ended_total": 3, "takt_in_flight": 0, "takt_endpoints": 3} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
}

// An answer comes from another engine: the chosen one receives no calls until its next report, and no longer has the
// call.
func TestScorerHandlesRetries(t *testing.T) {
	s := made[*scorer](t, newScorer, `{"placement": "least_loaded"}`)
	there := engines(2)
	best := func(name string) (scheduling.Endpoint, *scheduling.InferenceRequest) {
		r := request(name, name, "x", false)
		if err := s.RequestHeader(background, r); err != nil {
			t.Fatal(err)
		}
		for e, score := range s.Score(background, r, there) {
			if score == 1 {
				return e, r
			}
		}
		t.Fatal("no endpoint has score 1")
		return nil, nil
	}
	e, r := best("a")
	result := &scheduling.SchedulingResult{PrimaryProfileName: "p", ProfileResults: map[string]*scheduling.ProfileRunResult{
		"p": {TargetEndpoints: []scheduling.Endpoint{e}}}}
	if err := s.PreRequest(background, r, result); err != nil {
		t.Fatal(err)
	}
	s.ResponseHeader(background, r, &requestcontrol.Response{Headers: map[string]string{":status": "200",
		"x-envoy-attempt-count": "2"}}, nil)
	if n := s.fleet.Count().InFlight; n != 0 {
		t.Errorf("%d calls in flight, want none", n)
	}
	for i := range 3 {
		if other, _ := best(fmt.Sprint("b", i)); other == e {
			t.Error("a call goes to the engine that had failed one")
		}
	}
	s.ResponseBody(background, r, &requestcontrol.Response{EndOfStream: true,
		Usage: requesthandling.Usage{PromptTokens: 90, CompletionTokens: 10}}, nil)
	if c := s.fleet.Count(); c.Ended != 1 || c.Returned != 0 {
		t.Errorf("%+v: want one that has ended", c)
	}
	e2, r2 := best("c")
	result.ProfileResults["p"].TargetEndpoints[0] = e2
	if err := s.PreRequest(background, r2, result); err != nil {
		t.Fatal(err)
	}
	s.ResponseHeader(background, r2, &requestcontrol.Response{Headers: map[string]string{":status": "200",
		"x-envoy-attempt-count": "1"}}, nil)
	if n := s.fleet.Count().InFlight; n != 1 {
		t.Errorf("%d calls in flight, want one", n)
	}
}

// Envoy retries a request under the same id before its first try has ended; events of one do not affect the other.
func TestARetryIsAnotherCall(t *testing.T) {
	s := made[*scorer](t, newScorer, `{"placement": "least_outstanding_tokens"}`)
	there := engines(2)
	place := func() *scheduling.InferenceRequest {
		r := request("again", "w", "x", true)
		if err := s.RequestHeader(background, r); err != nil {
			t.Fatal(err)
		}
		s.Score(background, r, there)
		result := &scheduling.SchedulingResult{PrimaryProfileName: "p", ProfileResults: map[string]*scheduling.ProfileRunResult{
			"p": {TargetEndpoints: there[:1]}}}
		if err := s.PreRequest(background, r, result); err != nil {
			t.Fatal(err)
		}
		return r
	}
	first, second := place(), place()
	s.ResponseBody(background, first, &requestcontrol.Response{EndOfStream: true}, nil)
	if n := s.fleet.Count().InFlight; n != 1 {
		t.Errorf("%d in flight, want the second", n)
	}
	s.ResponseBody(background, second, &requestcontrol.Response{StartOfStream: true}, nil)
	s.ResponseBody(background, second, &requestcontrol.Response{EndOfStream: true,
		Usage: requesthandling.Usage{PromptTokens: 90, CompletionTokens: 10}}, nil)
	if c := s.fleet.Count(); c.InFlight != 0 || c.Ended != 2 || c.Failed != 1 || c.Returned != 0 {
		t.Errorf("%+v", c)
	}
}

// The router uses the maps of scores until it has picked.
func TestMapsAreReusedOnlyAfterTheyWereRead(t *testing.T) {
	s := made[*scorer](t, newScorer, `{}`)
	var group sync.WaitGroup
	for g := range 8 {
		group.Add(1)
		go func() {
			defer group.Done()
			there := engines(3 + g%4)
			for i := range 300 {
				r := request(fmt.Sprint("m", g, "-", i), "w", "x", false)
				two := []map[scheduling.Endpoint]float64{s.Score(background, r, there), s.Score(background, r, there[1:])}
				for of, scores := range two {
					if len(scores) != len(there)-of {
						t.Errorf("%d scores of %d endpoints", len(scores), len(there)-of)
					}
					for _, e := range there[of:] {
						if _, ok := scores[e]; !ok {
							t.Error("an endpoint has no score")
						}
					}
				}
				if i%5 > 0 { // the others end earlier
					if err := s.PreRequest(background, r, &scheduling.SchedulingResult{}); err != nil {
						t.Error(err)
					}
				}
			}
		}()
	}
	group.Wait()
}

func band(flows map[string]*scheduling.InferenceRequest) flowcontrol.PriorityBandAccessor {
	return &mocks.MockPriorityBandAccessor{IterateQueuesFunc: func(call func(flowcontrol.FlowQueueAccessor) bool) {
		for id, r := range flows {
			call(&mocks.MockFlowQueueAccessor{LenV: 1, FlowKeyV: flowcontrol.FlowKey{ID: id}, PeekV: item(r, 0)})
		}
	}}
}

// The flow with less service is next.
func TestFairnessSharesAmongFlows(t *testing.T) {
	f := made[*fairness](t, newFairness, `{"policy": "fair_share", "group": "tenant"}`)
	queued := map[string]*scheduling.InferenceRequest{}
	n := 0
	push := func(tenant string) {
		n++
		r := request(fmt.Sprint("f", n), fmt.Sprint("fw", n), "x", true)
		r.Headers["x-takt-tenant"] = tenant
		if err := f.RequestHeader(background, r); err != nil {
			t.Fatal(err)
		}
		queued[tenant] = r
	}
	for range 3 { // a briefly empty flow has no arrears
		push("greedy")
		push("modest")
	}
	served := map[string]int{}
	for range 40 {
		q, err := f.Pick(background, band(queued))
		if err != nil || q == nil {
			t.Fatal(q, err)
		}
		flow := q.FlowKey().ID
		served[flow]++
		r := queued[flow]
		f.PreRequest(background, r, nil)
		f.ResponseBody(background, r, &requestcontrol.Response{EndOfStream: true, Usage: requesthandling.Usage{
			PromptTokens: 100, CompletionTokens: map[string]int{"greedy": 900, "modest": 100}[flow]}}, nil)
		push(flow)
	}
	if served["modest"] < 3*served["greedy"] || served["greedy"] == 0 {
		t.Errorf("%v", served)
	}
	if len(f.of) != 6 || f.queue.Len() != 6 {
		t.Errorf("%d and %d are left", len(f.of), f.queue.Len())
	}
	// Requests that the router has dropped do not stay.
	delete(queued, "greedy")
	time.Sleep(1100 * time.Millisecond)
	push("other")
	if _, err := f.Pick(background, band(queued)); err != nil || len(f.of) != 2 { // one that it still has, and the new one
		t.Errorf("%v: %d are left", err, len(f.of))
	}
}

// ---- cost -----------------------------------------------------------------------------------------------------------

// The scores of n endpoints for one request: takt's scorer, the same without the map of the interface, and llm-d's
// queue-scorer.
func BenchmarkScorer(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		there := engines(n)
		for _, placement := range []string{"confidence_slack", "least_loaded", "time_slot_packer", "minimum_completion_time"} {
			s := made[*scorer](b, newScorer, fmt.Sprintf(`{"placement": %q}`, placement))
			r := request("b", "w", "x", false)
			b.Run(fmt.Sprintf("%s/%d", placement, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					s.Score(background, r, there)
					s.takeBack(r)
				}
			})
		}
		s := made[*scorer](b, newScorer, `{}`)
		r := request("c", "w", "x", false)
		b.Run(fmt.Sprintf("least_loaded_without_map/%d", n), func(b *testing.B) {
			scores := make([]float64, n)
			for b.Loop() {
				if _, err := s.scored(r, there, scores); err != nil {
					b.Fatal(err)
				}
			}
		})
		peer := queuedepth.NewQueueScorer()
		b.Run(fmt.Sprintf("queue_scorer/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				peer.Score(background, r, there)
			}
		})
	}
}

func items(b *testing.B, o *ordering, n int) []flowcontrol.QueueItemAccessor {
	random := rand.New(rand.NewPCG(1, 1))
	var to []flowcontrol.QueueItemAccessor
	for i := range n {
		r := request(fmt.Sprint("i", i), fmt.Sprint("w", i), "x", true)
		r.Objectives.Priority = random.IntN(1 << 20)
		if err := o.RequestHeader(background, r); err != nil {
			b.Fatal(err)
		}
		to = append(to, item(r, random.IntN(1<<20)))
	}
	return to
}

func fcfsPolicy(b *testing.B) flowcontrol.OrderingPolicy {
	p, err := fcfs.FCFSOrderingPolicyFactory("fcfs", nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	return p.(flowcontrol.OrderingPolicy)
}

func BenchmarkLess(b *testing.B) {
	takts := made[*ordering](b, newOrdering, `{"policy": "priority"}`)
	all := items(b, takts, 1024)
	for name, policy := range map[string]flowcontrol.OrderingPolicy{"takt": takts, "fcfs": fcfsPolicy(b)} {
		b.Run(name, func(b *testing.B) {
			i, less := 0, 0
			for b.Loop() {
				if policy.Less(all[i&1023], all[(i+511)&1023]) {
					less++
				}
				i++
			}
		})
	}
}

// Pushes a request into a router's queue of 1,000, and pops the first one. The items rotate, so that most have left the
// cache.
func BenchmarkQueue(b *testing.B) {
	takts := made[*ordering](b, newOrdering, `{"policy": "priority"}`)
	all := items(b, takts, 1<<15)
	random := rand.New(rand.NewPCG(2, 2))
	for _, each := range all {
		rank := random.IntN(1 << 20)
		each.(*mocks.MockQueueItemAccessor).EnqueueTimeV = time.Unix(int64(rank), 0)
		existing(each.OriginalRequest().InferenceRequest()).Key = float64(rank)
	}
	for name, policy := range map[string]flowcontrol.OrderingPolicy{"takt": takts, "fcfs": fcfsPolicy(b)} {
		b.Run(name, func(b *testing.B) {
			q := queue.New(policy)
			for _, each := range all[:1000] {
				q.Add(each)
			}
			takts.keys.table.Store(new(keyTable))
			next := 1000
			for b.Loop() {
				q.Add(all[next])
				first := q.Peek()
				q.Remove(first.Handle())
				all[next], next = first, next+1
				if next == len(all) {
					next = 1000
				}
			}
		})
	}
}
