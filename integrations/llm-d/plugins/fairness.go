package plugins

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/llm-d/llm-d-router/pkg/epp/framework/interface/datalayer"
	"github.com/llm-d/llm-d-router/pkg/epp/framework/interface/flowcontrol"
	"github.com/llm-d/llm-d-router/pkg/epp/framework/interface/plugin"
	"github.com/llm-d/llm-d-router/pkg/epp/framework/interface/requestcontrol"
	"github.com/llm-d/llm-d-router/pkg/epp/framework/interface/scheduling"
	"github.com/llm-d/llm-d-router/pkg/epp/framework/plugins/requestcontrol/requestheader/agentidentity"

	"takt"
	"takt-llm-d/fleet"
)

// FairnessParameters configure takt-fairness-policy.
type FairnessParameters struct {
	// Policy is any policy of takt, including those with changing keys, learning or groups: fair_share shares among
	// flows.
	Policy string `json:"policy"`
	// Group defines the flow of a request without an x-llm-d-inference-fairness-id: workflow, agent or tenant.
	Group string `json:"group"`
}

// fairness keeps all waiting requests in one takt queue; the flow of its first request is next.
type fairness struct {
	name  plugin.TypedName
	queue *takt.Queue
	group func(*fleet.Identity) string

	mu    sync.Mutex
	flows map[string]*waiting
	of    map[uint64]string // flow of a request
}

// waiting holds the requests of a flow, oldest first.
type waiting struct {
	ids   []uint64
	since []takt.Time
}

var (
	_ flowcontrol.FairnessPolicy            = (*fairness)(nil)
	_ requestcontrol.RequestHeaderProcessor = (*fairness)(nil)
	_ requestcontrol.PreRequest             = (*fairness)(nil)
	_ requestcontrol.ResponseBodyProcessor  = (*fairness)(nil)
)

func newFairness(name string, parameters *json.Decoder, _ plugin.Handle) (plugin.Plugin, error) {
	p := FairnessParameters{Policy: "fair_share", Group: "workflow"}
	if err := decoded(FairnessType, name, parameters, &p); err != nil {
		return nil, err
	}
	groups := map[string]func(*fleet.Identity) string{
		"workflow": func(i *fleet.Identity) string { return i.Workflow },
		"agent":    func(i *fleet.Identity) string { return i.Agent },
		"tenant":   func(i *fleet.Identity) string { return i.Tenant },
	}
	group := groups[p.Group]
	if group == nil {
		return nil, fmt.Errorf("%s %q: group is %q: must be workflow, agent or tenant", FairnessType, name, p.Group)
	}
	queue, err := takt.NewQueue(p.Policy)
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w", FairnessType, name, err)
	}
	return &fairness{name: plugin.TypedName{Type: FairnessType, Name: name}, queue: queue, group: group,
		flows: map[string]*waiting{}, of: map[uint64]string{}}, nil
}

func (f *fairness) TypedName() plugin.TypedName { return f.name }

// NewState returns nil: all bands share the queue's order.
func (f *fairness) NewState(context.Context) any { return nil }

// RequestHeader sets the request's flow, and adds it to the queue.
func (f *fairness) RequestHeader(_ context.Context, request *scheduling.InferenceRequest) error {
	c := callOf(request)
	flow := request.FairnessID
	if flow == "" {
		if flow = f.group(&c.Identity); flow != "" {
			request.PutAttribute(agentidentity.AgentIdentityKey, flow)
		}
	}
	if flow == "" {
		flow = "default-flow" // the router's name for it
	}
	at := now()
	told := c.Request
	told.Tenant = fleet.IDOf(flow) // takt shares among tenants
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.queue.Push(&told, at); err != nil {
		return fmt.Errorf("%s %q: %w", FairnessType, f.name.Name, err)
	}
	w := f.flows[flow]
	if w == nil {
		w = &waiting{}
		f.flows[flow] = w
	}
	w.ids, w.since = append(w.ids, c.Request.ID), append(w.since, at)
	f.of[c.Request.ID] = flow
	return nil
}

// Pick returns the flow of takt's first request, among the flows with queued requests.
func (f *fairness) Pick(_ context.Context, band flowcontrol.PriorityBandAccessor) (flowcontrol.FlowQueueAccessor, error) {
	if band == nil {
		return nil, nil
	}
	queued := map[string]flowcontrol.FlowQueueAccessor{}
	var oldest flowcontrol.FlowQueueAccessor
	band.IterateQueues(func(q flowcontrol.FlowQueueAccessor) bool {
		if q == nil || q.Len() == 0 {
			return true
		}
		head := q.Peek()
		if head == nil {
			return true
		}
		queued[q.FlowKey().ID] = q
		if oldest == nil || head.EnqueueTime().Before(oldest.Peek().EnqueueTime()) {
			oldest = q
		}
		return true
	})
	if len(queued) < 2 {
		return oldest, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	at := now()
	f.forget(queued, at)
	if err := f.queue.Begin(at); err != nil {
		return nil, err
	}
	for _, id := range f.queue.List(64) {
		if q := queued[f.of[id]]; q != nil {
			return q, nil
		}
	}
	return oldest, nil
}

// forget drops requests that the router no longer has, because the router does not report requests that expire in a
// queue. Requests of the last second may not have reached their queue yet.
func (f *fairness) forget(queued map[string]flowcontrol.FlowQueueAccessor, at takt.Time) {
	for flow, w := range f.flows {
		there := 0
		if q := queued[flow]; q != nil {
			there = q.Len()
		}
		for len(w.ids) > there && at-w.since[0] > 1e9 {
			f.leave(w.ids[0])
		}
	}
}

// leave removes a waiting request.
func (f *fairness) leave(id uint64) {
	f.queue.Erase(id)
	f.unqueue(id)
}

func (f *fairness) unqueue(id uint64) {
	flow, found := f.of[id]
	if !found {
		return
	}
	delete(f.of, id)
	w := f.flows[flow]
	for i, other := range w.ids {
		if other == id {
			w.ids, w.since = append(w.ids[:i], w.ids[i+1:]...), append(w.since[:i], w.since[i+1:]...)
			break
		}
	}
	if len(w.ids) == 0 {
		delete(f.flows, flow)
	}
}

// PreRequest records that the request runs.
func (f *fairness) PreRequest(_ context.Context, request *scheduling.InferenceRequest, _ *scheduling.SchedulingResult) error {
	c := existing(request)
	if c == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unqueue(c.Request.ID)
	at := now()
	if err := f.queue.Begin(at); err != nil {
		return err
	}
	_, err := f.queue.End([]takt.Ran{{Request: c.Request.ID, Prefill: c.Request.PromptTokens}}, at)
	return err
}

// ResponseBody charges the service to the request's flow.
func (f *fairness) ResponseBody(_ context.Context, request *scheduling.InferenceRequest, response *requestcontrol.Response,
	_ *datalayer.EndpointMetadata) {
	c := existing(request)
	if c == nil || !response.EndOfStream {
		return
	}
	prompt, output := lengths(response)
	f.mu.Lock()
	if output > 0 {
		f.queue.Computed([]takt.Ran{{Request: c.Request.ID, Output: output}}, 0)
	}
	f.leave(c.Request.ID)
	f.mu.Unlock()
	c.End(prompt, output, now())
}
