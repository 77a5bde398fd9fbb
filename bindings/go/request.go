package takt

/*
#include "takt/c/takt.h"
*/
import "C"

import (
	"time"
	"unsafe"
)

// Estimate is a prediction: a mean and the quantiles 0.1, 0.25, 0.5, 0.75 and 0.9. A mean below 0: unknown.
type Estimate struct {
	Mean      float64
	Quantiles [5]float32
}

// Unknown returns the estimate of an unknown value.
func Unknown() Estimate { return defaults.OutputTokens }

// About returns an estimate with this mean.
func About(mean float64) Estimate {
	e := Estimate{Mean: mean}
	for i := range e.Quantiles {
		e.Quantiles[i] = float32(mean)
	}
	return e
}

// WorkAfter is the expected work of the calls of a workflow that have not ended, except for the request itself. Below
// 0: unknown.
type WorkAfter struct {
	Calls, PromptTokens, OutputTokens float64
	KVSteps                           float64 // context of each call, summed over its decode steps
	PathTokens                        float64 // output of the longest chain of calls
}

// NextCall is the tool call that a request is expected to make next. If After and Duration are 0, it makes none.
type NextCall struct {
	Tool     uint64
	After    int // output tokens before the call, counted from now
	Returned int // tokens that the answer adds to the context
	Duration time.Duration
}

// ModelScore is a prediction for a request on one model.
type ModelScore struct {
	Model  uint64
	Score  float32 // probability that the model solves the request: 0 to 1
	Tokens float32 // output of this call and all later ones in its workflow, on this model; below 0: unknown
}

// Request is one call of a model. Create it with [NewRequest], which sets takt's defaults; the zero value is invalid.
// Lengths are tokens, ids are the host's choice (0: none). takt_request in takt.h describes each field.
type Request struct {
	ID                                      uint64 // unique among the requests alive
	Workflow, Stage, Agent, Tenant, Adapter uint64
	Session, Branch, Salt                   uint64
	Arrival, WorkflowArrival                Time // Unset: the time of the event, and Arrival
	Deadline, ExpiresAt                     Time // Never: none
	FirstTokenBy                            Time // time by which the first token should be generated; Never: none
	PromptTokens, MaxOutputTokens           int  // MaxOutputTokens 0: unknown
	Sequences                               int  // parallel samples of one prompt
	Priority                                int  // a lower number runs sooner
	Unchunkable, Unpreemptible              bool
	OutputTokens                            Estimate // of this call, per sequence
	WorkflowTokensLeft                      Estimate // of this call and all later ones in its workflow
	After                                   WorkAfter
	NextCall                                NextCall
	Compute                                 time.Duration // expected time of this call alone; 0: unknown
	TokenPace                               time.Duration // target time between two output tokens; 0: the scheduler's
	PrefixHashes                            []uint64      // one per leading block of the prompt; covers all before it
	PrefixBlockTokens                       int
	Scores                                  []ModelScore
}

var defaults = func() Request {
	var c C.takt_request
	C.takt_request_init(&c, C.sizeof_takt_request)
	e := estimateOf(c.output_tokens)
	return Request{
		Arrival: Time(c.arrival), WorkflowArrival: Time(c.workflow_arrival),
		Deadline: Time(c.deadline), ExpiresAt: Time(c.expires_at), FirstTokenBy: Time(c.first_token_by),
		Sequences:    int(c.sequences),
		OutputTokens: e, WorkflowTokensLeft: e,
		After: WorkAfter{float64(c.after.calls), float64(c.after.prompt_tokens), float64(c.after.output_tokens),
			float64(c.after.kv_steps), float64(c.after.path_tokens)},
		NextCall: NextCall{uint64(c.next_call.tool), int(c.next_call.after), int(c.next_call.returned),
			time.Duration(c.next_call.duration)},
	}
}()

// NewRequest returns a request with this id and prompt length, and defaults otherwise.
func NewRequest(id uint64, promptTokens int) Request {
	r := defaults
	r.ID, r.PromptTokens = id, promptTokens
	return r
}

func estimateOf(c C.takt_estimate) Estimate {
	return Estimate{float64(c.mean), *(*[5]float32)(unsafe.Pointer(&c.quantiles))}
}

func (e *Estimate) put(c *C.takt_estimate) {
	c.mean = C.double(e.Mean)
	*(*[5]float32)(unsafe.Pointer(&c.quantiles)) = e.Quantiles
	c.reserved = 0
}

// put fills c; c and the arrays that it points to are in C memory.
func (r *Request) put(op string, room *room, c *C.takt_request) error {
	*c = C.takt_request{struct_size: C.sizeof_takt_request}
	var err error
	for _, field := range [...]struct {
		name  string
		value int
		least int
		to    *C.int32_t
	}{
		{"PromptTokens", r.PromptTokens, 0, &c.prompt_tokens},
		{"MaxOutputTokens", r.MaxOutputTokens, 0, &c.max_output_tokens},
		{"Sequences", r.Sequences, 1, &c.sequences},
		{"Priority", r.Priority, -1 << 31, &c.priority},
		{"PrefixBlockTokens", r.PrefixBlockTokens, 0, &c.prefix_block_tokens},
		{"NextCall.After", r.NextCall.After, -1 << 31, &c.next_call.after},
		{"NextCall.Returned", r.NextCall.Returned, -1 << 31, &c.next_call.returned},
	} {
		if *field.to, err = whole(op, field.name, field.value, field.least); err != nil {
			return err
		}
	}
	if len(r.PrefixHashes) > 0 && r.PrefixBlockTokens == 0 {
		return invalid(op, "PrefixBlockTokens", "PrefixBlockTokens is 0; expected at least 1 with PrefixHashes")
	}
	if r.Unchunkable {
		c.flags |= C.TAKT_REQUEST_UNCHUNKABLE
	}
	if r.Unpreemptible {
		c.flags |= C.TAKT_REQUEST_UNPREEMPTIBLE
	}
	c.id, c.workflow, c.stage = C.uint64_t(r.ID), C.uint64_t(r.Workflow), C.uint64_t(r.Stage)
	c.agent, c.tenant, c.adapter = C.uint64_t(r.Agent), C.uint64_t(r.Tenant), C.uint64_t(r.Adapter)
	c.session, c.branch, c.salt = C.uint64_t(r.Session), C.uint64_t(r.Branch), C.uint64_t(r.Salt)
	c.arrival, c.workflow_arrival = C.int64_t(r.Arrival), C.int64_t(r.WorkflowArrival)
	c.deadline, c.expires_at = C.int64_t(r.Deadline), C.int64_t(r.ExpiresAt)
	c.first_token_by, c.token_pace = C.int64_t(r.FirstTokenBy), C.int64_t(r.TokenPace)
	r.OutputTokens.put(&c.output_tokens)
	r.WorkflowTokensLeft.put(&c.workflow_tokens_left)
	c.after.calls, c.after.prompt_tokens = C.double(r.After.Calls), C.double(r.After.PromptTokens)
	c.after.output_tokens, c.after.kv_steps = C.double(r.After.OutputTokens), C.double(r.After.KVSteps)
	c.after.path_tokens = C.double(r.After.PathTokens)
	c.next_call.tool, c.next_call.duration = C.uint64_t(r.NextCall.Tool), C.int64_t(r.NextCall.Duration)
	c.compute = C.int64_t(r.Compute)
	c.prefix_hashes = (*C.uint64_t)(copied(room, r.PrefixHashes))
	c.n_prefix_hashes = C.size_t(len(r.PrefixHashes))
	c.scores = (*C.takt_model_score)(unsafe.Pointer(copied(room, r.Scores)))
	c.n_scores = C.size_t(len(r.Scores))
	return nil
}

// ModelScore has the layout of takt_model_score.
var _ = [1]struct{}{}[unsafe.Sizeof(ModelScore{})-C.sizeof_takt_model_score]

// RevisedFields selects the fields that a revision sets.
type RevisedFields uint32

// The fields of takt.h. Only queues accept PromptTokens and Arrival.
const (
	RevisedOutputTokens       RevisedFields = C.TAKT_REVISED_OUTPUT_TOKENS
	RevisedWorkflowTokensLeft RevisedFields = C.TAKT_REVISED_WORKFLOW_TOKENS_LEFT
	RevisedAfter              RevisedFields = C.TAKT_REVISED_AFTER
	RevisedDeadline           RevisedFields = C.TAKT_REVISED_DEADLINE
	RevisedExpiresAt          RevisedFields = C.TAKT_REVISED_EXPIRES_AT
	RevisedPriority           RevisedFields = C.TAKT_REVISED_PRIORITY
	RevisedSequences          RevisedFields = C.TAKT_REVISED_SEQUENCES
	RevisedNextCall           RevisedFields = C.TAKT_REVISED_NEXT_CALL
	RevisedPromptTokens       RevisedFields = C.TAKT_REVISED_PROMPT_TOKENS
	RevisedArrival            RevisedFields = C.TAKT_REVISED_ARRIVAL
)
