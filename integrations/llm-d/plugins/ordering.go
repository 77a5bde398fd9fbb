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

// OrderingParameters are those of takt-ordering-policy.
type OrderingParameters struct {
	// Policy is one of takt's whose keys stay as they are, such as "stjf", "sjf", "edf", "workflow_fcfs" or "priority".
	Policy string `json:"policy"`
}

// ordering is a policy whose keys stay as they are: the router's queue is a heap, in which nothing moves by itself.
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
		return nil, fmt.Errorf("%s %q: policy: %q is no order for a heap, in which a key must stay as it is: %s",
			OrderingType, name, p.Policy, reasons(traits))
	}
	return &ordering{plugin.TypedName{Type: OrderingType, Name: name}, ranker, newKeys()}, nil
}

// reasons why keys of these traits move.
func reasons(traits takt.Traits) string {
	text := ""
	for _, r := range [...]struct {
		trait  takt.Traits
		reason string
	}{
		{takt.Moving, "every key moves with time"},
		{takt.Timed, "keys change at times of their own"},
		{takt.Groups, "requests go by their groups, which " + FairnessType + " can do"},
		{takt.Learns, "keys depend on what was served before, which " + FairnessType + " can do"},
		{takt.Pressure, "keys depend on what keeps requests out of the engines"},
		{takt.Ages, "what waits for long is promoted"},
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

// RequestHeader reads the key, once a request, before it is queued.
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

// Less compares keys, of equal ones the time of arrival.
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

// ResponseBody learns, where no other plug-in has.
func (o *ordering) ResponseBody(_ context.Context, request *scheduling.InferenceRequest, response *requestcontrol.Response,
	_ *datalayer.EndpointMetadata) {
	if c := existing(request); c != nil && response.EndOfStream {
		prompt, output := lengths(response)
		c.End(prompt, output, now())
	}
}
