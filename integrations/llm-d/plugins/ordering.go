package plugins

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

	"github.com/llm-d/llm-d-router/pkg/epp/framework/interface/datalayer"
	"github.com/llm-d/llm-d-router/pkg/epp/framework/interface/flowcontrol"
	"github.com/llm-d/llm-d-router/pkg/epp/framework/interface/plugin"
	"github.com/llm-d/llm-d-router/pkg/epp/framework/interface/requestcontrol"
	"github.com/llm-d/llm-d-router/pkg/epp/framework/interface/scheduling"

	"takt"
)

// OrderingParameters configure takt-ordering-policy.
type OrderingParameters struct {
	// Policy is a policy of takt with fixed keys, such as "stjf", "sjf", "edf", "workflow_fcfs" or "priority".
	Policy string `json:"policy"`
}

// ordering is a policy with fixed keys: the router's queue is a heap, which does not reorder its items.
type ordering struct {
	name   plugin.TypedName
	ranker *takt.Ranker
	keys   *keys
}

var (
	_ flowcontrol.OrderingPolicy            = (*ordering)(nil)
	_ requestcontrol.RequestHeaderProcessor = (*ordering)(nil)
	_ requestcontrol.ResponseBodyProcessor  = (*ordering)(nil)
)

func newOrdering(name string, parameters *json.Decoder, _ plugin.Handle) (plugin.Plugin, error) {
	p := OrderingParameters{Policy: "stjf"}
	if err := decoded(OrderingType, name, parameters, &p); err != nil {
		return nil, err
	}
	ranker, err := takt.NewRanker(p.Policy)
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w", OrderingType, name, err)
	}
	if traits := ranker.Traits(); traits != takt.Fixed {
		ranker.Close()
		return nil, fmt.Errorf("%s %q: policy: %q is unsupported; expected a policy with fixed keys: %s",
			OrderingType, name, p.Policy, reasons(traits))
	}
	return &ordering{plugin.TypedName{Type: OrderingType, Name: name}, ranker, newKeys()}, nil
}

// reasons explains why keys with these traits change.
func reasons(traits takt.Traits) string {
	text := ""
	for _, r := range [...]struct {
		trait  takt.Traits
		reason string
	}{
		{takt.Moving, "every key moves with time"},
		{takt.Timed, "keys change at times of their own"},
		{takt.Groups, "requests rank by group, which " + FairnessType + " can do"},
		{takt.Learns, "keys depend on what was served before, which " + FairnessType + " can do"},
		{takt.Pressure, "keys depend on what keeps requests out of the engines"},
		{takt.Ages, "long waits are promoted"},
		{takt.Chooses, "the next request depends on all that wait"},
		{takt.Tables, "the order needs ranks of agents"},
	} {
		if traits&r.trait != 0 {
			if text != "" {
				text += "; "
			}
			text += r.reason
		}
	}
	return text
}

func (o *ordering) TypedName() plugin.TypedName { return o.name }

// RequestHeader computes the key once per request, before it is queued.
func (o *ordering) RequestHeader(_ context.Context, request *scheduling.InferenceRequest) error {
	c := callOf(request)
	at := now()
	key, err := o.ranker.Key(&c.Request, at)
	if err != nil {
		return fmt.Errorf("%s %q: %w", OrderingType, o.name.Name, err)
	}
	c.Key = key
	o.keys.fresh(int64(at))
	return nil
}

func keyOf(item flowcontrol.QueueItemAccessor) float64 {
	if request := item.OriginalRequest().InferenceRequest(); request != nil {
		if c := existing(request); c != nil && !math.IsNaN(c.Key) {
			return c.Key
		}
	}
	return math.Inf(1)
}

// Less compares keys, then times of arrival.
func (o *ordering) Less(a, b flowcontrol.QueueItemAccessor) bool {
	if a == nil || b == nil {
		return a != nil
	}
	table := o.keys.table.Load()
	if ka, kb := o.keys.of(table, a), o.keys.of(table, b); ka != kb {
		return ka < kb
	}
	return a.EnqueueTime().Before(b.EnqueueTime())
}

// ResponseBody learns from the response, unless another plug-in has.
func (o *ordering) ResponseBody(_ context.Context, request *scheduling.InferenceRequest, response *requestcontrol.Response,
	_ *datalayer.EndpointMetadata) {
	if c := existing(request); c != nil && response.EndOfStream {
		prompt, output := lengths(response)
		c.End(prompt, output, now())
	}
}
