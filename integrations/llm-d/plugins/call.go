// Package plugins is takt as plug-ins of llm-d's router: where a request goes (takt-scorer), which request of a flow is
// next (takt-ordering-policy), and which flow (takt-fairness-policy). docs/howto/llm_d.md tells how to use them.
package plugins

import (
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/llm-d/llm-d-router/pkg/epp/framework/interface/plugin"
	"github.com/llm-d/llm-d-router/pkg/epp/framework/interface/requestcontrol"
	"github.com/llm-d/llm-d-router/pkg/epp/framework/interface/scheduling"

	"takt"
	"takt-llm-d/fleet"
)

// Types of the plug-ins, as a configuration names them.
const (
	ScorerType   = "takt-scorer"
	OrderingType = "takt-ordering-policy"
	FairnessType = "takt-fairness-policy"
)

// Register makes the plug-ins known to the router.
func Register() {
	plugin.Register(ScorerType, plugin.StabilityAlpha, newScorer)
	plugin.Register(OrderingType, plugin.StabilityAlpha, newOrdering)
	plugin.Register(FairnessType, plugin.StabilityAlpha, newFairness)
}

// What one process has learnt is one, however many plug-ins ask.
var learned = fleet.NewLearner(60e9)

// Whether caps that clients set are believed; one for all plug-ins.
var useMaxTokens = func() *atomic.Bool {
	var b atomic.Bool
	b.Store(true)
	return &b
}()

func now() takt.Time { return takt.Time(time.Now().UnixNano()) }

const callKey = "takt-call"

// callOf a request: the first plug-in that sees it makes it, before flow control.
func callOf(request *scheduling.InferenceRequest) *fleet.Call {
	if c := existing(request); c != nil {
		return c
	}
	prompt, most := 0, 0
	if body := request.Body; body != nil {
		if body.TokenizedPrompt != nil {
			for _, tokens := range body.TokenizedPrompt.PerPromptTokens {
				prompt += len(tokens)
			}
		}
		if body.MaxOutputTokens != nil && useMaxTokens.Load() {
			most = int(*body.MaxOutputTokens)
		}
	}
	c := learned.Begin(request.RequestID, request.Headers, prompt, request.RequestSizeBytes, most,
		request.Objectives.Priority, now())
	request.PutAttribute(callKey, c)
	return c
}

func existing(request *scheduling.InferenceRequest) *fleet.Call {
	if v, ok := request.GetAttribute(callKey); ok {
		return v.(*fleet.Call)
	}
	return nil
}

// lengths that an answer tells; output below 0: it failed, or its stream has no usage.
func lengths(response *requestcontrol.Response) (prompt, output int) {
	prompt, output = response.Usage.PromptTokens, response.Usage.CompletionTokens
	if prompt == 0 && output == 0 {
		return 0, -1
	}
	return prompt, output
}

// decoded parameters into to, which has the defaults. Faults name plug-in and field.
func decoded(kind, name string, parameters *json.Decoder, to any) error {
	if parameters == nil {
		return nil
	}
	if err := parameters.Decode(to); err != nil {
		return fmt.Errorf("%s %q: parameters: %w", kind, name, err)
	}
	return nil
}
