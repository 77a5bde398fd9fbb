package takt

/*
#include "takt/c/takt.h"

// Writers of the union, which Go does not see.
static inline void takt_go_request(takt_event* e, uint64_t request) { e->u.request = request; }
static inline void takt_go_arrived(takt_event* e, const takt_request* request) { e->u.arrived.request = request; }
static inline void takt_go_revised(takt_event* e, const takt_request* request, uint32_t told) {
  e->u.revised.request = request, e->u.revised.told = told;
}
static inline void takt_go_started(takt_event* e, uint64_t request, uint64_t instance, uint64_t life) {
  e->u.request_started.request = request, e->u.request_started.instance = instance, e->u.request_started.life = life;
}
static inline void takt_go_served(takt_event* e, uint64_t request, uint64_t instance, int32_t prefill, int32_t output,
                                  uint64_t life) {
  e->u.request_served.request = request, e->u.request_served.instance = instance, e->u.request_served.life = life;
  e->u.request_served.prefill = prefill, e->u.request_served.output = output;
}
static inline void takt_go_ended(takt_event* e, uint64_t request, uint64_t instance, int32_t prefill, int32_t output,
                                 uint32_t failed, uint32_t served, uint64_t life) {
  e->u.request_ended.request = request, e->u.request_ended.instance = instance, e->u.request_ended.life = life;
  e->u.request_ended.prefill = prefill, e->u.request_ended.output = output;
  e->u.request_ended.failed = failed, e->u.request_ended.served = served;
}
static inline void takt_go_up(takt_event* e, const takt_instance* instance) { e->u.instance_up.instance = instance; }
static inline void takt_go_down(takt_event* e, uint64_t instance, uint64_t life) {
  e->u.instance_down.instance = instance, e->u.instance_down.life = life;
}
static inline void takt_go_reported(takt_event* e, uint64_t instance, int64_t waiting, int64_t running,
                                    int64_t preempted, int32_t kv_used, uint32_t dated, int64_t as_of, uint64_t life) {
  e->u.instance_reported.instance = instance, e->u.instance_reported.waiting = waiting;
  e->u.instance_reported.running = running, e->u.instance_reported.preempted = preempted;
  e->u.instance_reported.kv_used = kv_used, e->u.instance_reported.dated = dated;
  e->u.instance_reported.as_of = as_of, e->u.instance_reported.life = life;
}
static inline void takt_go_declared(takt_event* e, const takt_workflow* workflow) {
  e->u.workflow_declared.workflow = workflow;
}
static inline void takt_go_grown(takt_event* e, uint64_t workflow, const takt_stage* stage, const uint32_t* before,
                                 size_t n) {
  e->u.workflow_grown.workflow = workflow, e->u.workflow_grown.stage = stage;
  e->u.workflow_grown.before = before, e->u.workflow_grown.n_before = n;
}
static inline void takt_go_stage_ended(takt_event* e, uint64_t workflow, uint32_t stage) {
  e->u.stage_ended.workflow = workflow, e->u.stage_ended.stage = stage;
}
static inline void takt_go_workflow_ended(takt_event* e, uint64_t workflow, uint32_t cancelled) {
  e->u.workflow_ended.workflow = workflow, e->u.workflow_ended.cancelled = cancelled;
}
*/
import "C"

import (
	"time"
)

// Event is a fact that a [Router] is told: one of the types below, which are plain values.
type Event interface {
	put(op string, room *room, c *C.takt_event) error
}

// Instance is an engine with a KV cache of its own.
type Instance struct {
	ID       uint64  // unique among those that are up
	Model    uint64  // what it serves, where models differ
	KVTokens int     // size of its KV cache; 0: not told, everything fits
	Capacity int64   // requests that it may hold at once; int64(Never), and 0: unbounded; below 0: no new ones
	TokenS   float64 // time of an output token at full batch over that batch [s]; 0: not told
	Profile  uint64  // of AddProfile; 0: nothing is known of how fast it is
	Life     uint64  // grows each time the instance starts anew, such as a start time; 0: the router numbers it
}

// Stage is calls of a workflow that are made in parallel, once all stages before have ended. Stages are named by index,
// in the order of declaration.
type Stage struct {
	Stage uint64        // call site, as its requests bear it
	After []uint32      // stages that must have ended before
	Cost  time.Duration // expected time of one call alone; 0: what was learnt of the site
	Calls int           // made in parallel; 0: one
}

// Workflow is a graph of calls. Deadline: Never for none, Unset as its tenant's class says.
type Workflow struct {
	ID, Tenant        uint64
	Open              bool // more stages may come after all that are known have ended
	Arrival, Deadline Time
	Stages            []Stage // none: nothing is known of the graph
}

type (
	// Arrived is a request that waits from now on until a Place, a PlaceAt, or the event that ends it.
	Arrived struct{ Request Request }
	// Revised is news of a request: its ID says which, Told what of it holds from here on.
	Revised struct {
		Request Request
		Told    Told
	}
	// Cancelled is a request that is forgotten, wherever it is.
	Cancelled struct{ Request uint64 }
	// RequestStarted is a request whose first step on its instance begins. Here and below, Life is that of the instance
	// that sends the message, from [Placement] or [Instance]. The router ignores and counts a message of an earlier life. 0:
	// the message is taken for one of the present life.
	RequestStarted struct{ Request, Instance, Life uint64 }
	// RequestServed is what the instance (0: wherever it is) has computed for a request since it was placed there.
	RequestServed struct {
		Request, Instance uint64
		Prefill, Output   int
		Life              uint64
	}
	// RequestEnded is a request that has finished or failed on its instance (0: wherever it is). Served: Prefill and
	// Output are told.
	RequestEnded struct {
		Request, Instance uint64
		Failed, Served    bool
		Prefill, Output   int
		Life              uint64
	}
	// InstanceUp is an instance that takes requests from now on; told again, its new description.
	InstanceUp struct{ Instance Instance }
	// InstanceDown is one that takes none, and whose requests wait again.
	InstanceDown struct{ Instance, Life uint64 }
	// InstanceReported is an instance's own counts. Dated: AsOf is the time up to which they are complete. The report then
	// includes all requests that were placed by that time, and none that were placed later. Otherwise it includes as many
	// requests as it counts, the oldest first.
	InstanceReported struct {
		Instance         uint64
		Waiting, Running int64
		Preempted        int64 // preemptions since it came up
		KVUsed           int   // tokens
		Dated            bool
		AsOf             Time
		Life             uint64
	}
	// WorkflowDeclared is a workflow that begins.
	WorkflowDeclared struct{ Workflow Workflow }
	// WorkflowGrown is a workflow's new stage, and the stages that come after it.
	WorkflowGrown struct {
		Workflow uint64
		Stage    Stage
		Before   []uint32
	}
	// StageEnded is a stage that no further calls come of.
	StageEnded struct {
		Workflow uint64
		Stage    uint32
	}
	// WorkflowEnded is a workflow that is over; of a cancelled one nothing is learnt.
	WorkflowEnded struct {
		Workflow  uint64
		Cancelled bool
	}
)

func flag(b bool) C.uint32_t {
	if b {
		return 1
	}
	return 0
}

func (e Arrived) put(op string, room *room, c *C.takt_event) error {
	request := &take[C.takt_request](room, 1)[0]
	c._type = C.TAKT_EVENT_ARRIVED
	C.takt_go_arrived(c, request)
	return e.Request.put(op, room, request)
}

func (e Revised) put(op string, room *room, c *C.takt_event) error {
	request := &take[C.takt_request](room, 1)[0]
	c._type = C.TAKT_EVENT_REVISED
	C.takt_go_revised(c, request, C.uint32_t(e.Told))
	return e.Request.put(op, room, request)
}

func (e Cancelled) put(_ string, _ *room, c *C.takt_event) error {
	c._type = C.TAKT_EVENT_CANCELLED
	C.takt_go_request(c, C.uint64_t(e.Request))
	return nil
}

func (e RequestStarted) put(_ string, _ *room, c *C.takt_event) error {
	c._type = C.TAKT_EVENT_REQUEST_STARTED
	C.takt_go_started(c, C.uint64_t(e.Request), C.uint64_t(e.Instance), C.uint64_t(e.Life))
	return nil
}

func tokens(op string, prefill, output int) (p, o C.int32_t, err error) {
	if p, err = whole(op, "Prefill", prefill, 0); err == nil {
		o, err = whole(op, "Output", output, 0)
	}
	return p, o, err
}

func (e RequestServed) put(op string, _ *room, c *C.takt_event) error {
	prefill, output, err := tokens(op, e.Prefill, e.Output)
	c._type = C.TAKT_EVENT_REQUEST_SERVED
	C.takt_go_served(c, C.uint64_t(e.Request), C.uint64_t(e.Instance), prefill, output, C.uint64_t(e.Life))
	return err
}

func (e RequestEnded) put(op string, _ *room, c *C.takt_event) error {
	prefill, output, err := tokens(op, e.Prefill, e.Output)
	c._type = C.TAKT_EVENT_REQUEST_ENDED
	C.takt_go_ended(c, C.uint64_t(e.Request), C.uint64_t(e.Instance), prefill, output, flag(e.Failed), flag(e.Served),
		C.uint64_t(e.Life))
	return err
}

func (e InstanceUp) put(op string, room *room, c *C.takt_event) error {
	kv, err := whole(op, "KVTokens", e.Instance.KVTokens, 0)
	i := &take[C.takt_instance](room, 1)[0]
	*i = C.takt_instance{
		struct_size: C.sizeof_takt_instance, kv_tokens: kv, id: C.uint64_t(e.Instance.ID),
		model: C.uint64_t(e.Instance.Model), capacity: C.int64_t(e.Instance.Capacity),
		token_s: C.double(e.Instance.TokenS), profile: C.uint64_t(e.Instance.Profile), life: C.uint64_t(e.Instance.Life),
	}
	if i.capacity == 0 {
		i.capacity = C.TAKT_NEVER
	} else if i.capacity < 0 {
		i.capacity = 0
	}
	if err == nil && e.Instance.ID == 0 {
		err = invalid(op, "Instance.ID", "Instance.ID is 0, which is none")
	}
	c._type = C.TAKT_EVENT_INSTANCE_UP
	C.takt_go_up(c, i)
	return err
}

func (e InstanceDown) put(_ string, _ *room, c *C.takt_event) error {
	c._type = C.TAKT_EVENT_INSTANCE_DOWN
	C.takt_go_down(c, C.uint64_t(e.Instance), C.uint64_t(e.Life))
	return nil
}

func (e InstanceReported) put(op string, _ *room, c *C.takt_event) error {
	kv, err := whole(op, "KVUsed", e.KVUsed, 0)
	c._type = C.TAKT_EVENT_INSTANCE_REPORTED
	C.takt_go_reported(c, C.uint64_t(e.Instance), C.int64_t(e.Waiting), C.int64_t(e.Running), C.int64_t(e.Preempted), kv,
		flag(e.Dated), C.int64_t(e.AsOf), C.uint64_t(e.Life))
	return err
}

func (s *Stage) put(op string, room *room, c *C.takt_stage) error {
	calls, err := whole(op, "Stage.Calls", max(s.Calls, 1), 1)
	*c = C.takt_stage{
		stage: C.uint64_t(s.Stage), after: (*C.uint32_t)(copied(room, s.After)), n_after: C.size_t(len(s.After)),
		cost_s: C.double(s.Cost.Seconds()), calls: calls,
	}
	return err
}

func (e WorkflowDeclared) put(op string, room *room, c *C.takt_event) error {
	w := &take[C.takt_workflow](room, 1)[0]
	stages := take[C.takt_stage](room, len(e.Workflow.Stages))
	*w = C.takt_workflow{
		struct_size: C.sizeof_takt_workflow, open: flag(e.Workflow.Open), id: C.uint64_t(e.Workflow.ID),
		tenant: C.uint64_t(e.Workflow.Tenant), arrival: C.int64_t(e.Workflow.Arrival),
		deadline: C.int64_t(e.Workflow.Deadline), stages: first(stages), n_stages: C.size_t(len(stages)),
	}
	c._type = C.TAKT_EVENT_WORKFLOW_DECLARED
	C.takt_go_declared(c, w)
	for i := range stages {
		if err := e.Workflow.Stages[i].put(op, room, &stages[i]); err != nil {
			return err
		}
	}
	return nil
}

func (e WorkflowGrown) put(op string, room *room, c *C.takt_event) error {
	stage := &take[C.takt_stage](room, 1)[0]
	c._type = C.TAKT_EVENT_WORKFLOW_GROWN
	C.takt_go_grown(c, C.uint64_t(e.Workflow), stage, (*C.uint32_t)(copied(room, e.Before)), C.size_t(len(e.Before)))
	return e.Stage.put(op, room, stage)
}

func (e StageEnded) put(_ string, _ *room, c *C.takt_event) error {
	c._type = C.TAKT_EVENT_STAGE_ENDED
	C.takt_go_stage_ended(c, C.uint64_t(e.Workflow), C.uint32_t(e.Stage))
	return nil
}

func (e WorkflowEnded) put(_ string, _ *room, c *C.takt_event) error {
	c._type = C.TAKT_EVENT_WORKFLOW_ENDED
	C.takt_go_workflow_ended(c, C.uint64_t(e.Workflow), flag(e.Cancelled))
	return nil
}
