// Package plugins provides takt as plug-ins of llm-d's router. They choose the engine of a request (takt-scorer), the
// next request of a flow (takt-ordering-policy), and the next flow (takt-fairness-policy). docs/howto/llm_d.md
// describes their use.
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

// Register registers the plug-ins with the router.
func Register() {
	plugin.Register(ScorerType, plugin.StabilityAlpha, newScorer)
	plugin.Register(OrderingType, plugin.StabilityAlpha, newOrdering)
	plugin.Register(FairnessType, plugin.StabilityAlpha, newFairness)
}

// learned is shared by all plug-ins of the process.
var learned = fleet.NewLearner(60e9)

// useMaxTokens: whether limits set by clients bound the estimates; shared by all plug-ins.
var useMaxTokens = func() *atomic.Bool {
	var b atomic.Bool
	b.Store(true)
	return &b
}()

func now() takt.Time { return takt.Time(time.Now().UnixNano()) }

const callKey = "takt-call"

// callOf returns the call of a request. The first plug-in creates it, before flow control.
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

// lengths returns the lengths in a response; output below 0: it failed, or its stream has no usage.
func lengths(response *requestcontrol.Response) (prompt, output int) {
	prompt, output = response.Usage.PromptTokens, response.Usage.CompletionTokens
	if prompt == 0 && output == 0 {
		return 0, -1
	}
	return prompt, output
}

// decoded reads parameters into to, which holds the defaults. Errors name the plug-in and the field.
func decoded(kind, name string, parameters *json.Decoder, to any) error {
	if parameters == nil {
		return nil
	}
	if err := parameters.Decode(to); err != nil {
		return fmt.Errorf("%s %q: parameters: %w", kind, name, err)
	}
	return nil
}
