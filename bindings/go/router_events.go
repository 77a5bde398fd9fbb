package takt

// Made by scripts/mirrors of include/takt/model/; not to be edited.

/*
#include "takt/c/takt.h"
*/
import "C"

import "unsafe"

// Arrived: a new request joins the waiting queue.
type Arrived struct {
	Request Request
}

func (e Arrived) put(op string, room *room, c *C.takt_event) error {
	c._type = C.TAKT_EVENT_ARRIVED
	b := (*C.takt_event_arrived)(unsafe.Pointer(&c.u))
	request := &take[C.takt_request](room, 1)[0]
	b.request = request
	return e.Request.put(op, room, request)
}

// Revised: updates estimates or limits of a living request. Absent fields keep their values.
type Revised struct {
	// its ID says which
	Request Request
	// what of it holds from here on
	Told Told
}

func (e Revised) put(op string, room *room, c *C.takt_event) error {
	c._type = C.TAKT_EVENT_REVISED
	b := (*C.takt_event_revised)(unsafe.Pointer(&c.u))
	request := &take[C.takt_request](room, 1)[0]
	b.request, b.fields = request, C.uint32_t(e.Fields)
	return e.Request.put(op, room, request)
}

// Cancelled: ends the request, whatever its state.
type Cancelled struct {
	Request uint64
}

func (e Cancelled) put(_ string, _ *room, c *C.takt_event) error {
	c._type = C.TAKT_EVENT_CANCELLED
	*(*C.uint64_t)(unsafe.Pointer(&c.u)) = C.uint64_t(e.Request)
	return nil
}

// RequestStarted: a request's first step on its instance begins. Only placements that separate waiting from running
// requests need this event.
type RequestStarted struct {
	Request  uint64
	Instance uint64
	// life of the instance; 0: the current one
	Life uint64
}

func (e RequestStarted) put(_ string, _ *room, c *C.takt_event) error {
	c._type = C.TAKT_EVENT_REQUEST_STARTED
	b := (*C.takt_event_request_started)(unsafe.Pointer(&c.u))
	b.request = C.uint64_t(e.Request)
	b.instance = C.uint64_t(e.Instance)
	b.life = C.uint64_t(e.Life)
	return nil
}

// RequestServed: progress of a running request, for policies that rank by service. Send it for all running requests
// with each report. Repeated and outdated events have no effect. Instance as in RequestEnded.
type RequestServed struct {
	Request  uint64
	Instance uint64
	// Context tokens, including recomputed tokens, excluding prefix cache hits.
	Prefill int
	// new tokens of all sequences
	Output int
	// life of the instance; 0: the current one
	Life uint64
}

func (e RequestServed) put(op string, _ *room, c *C.takt_event) error {
	c._type = C.TAKT_EVENT_REQUEST_SERVED
	b := (*C.takt_event_request_served)(unsafe.Pointer(&c.u))
	b.request = C.uint64_t(e.Request)
	b.instance = C.uint64_t(e.Instance)
	prefill, err := whole(op, "Prefill", e.Prefill, 0)
	if err != nil {
		return err
	}
	b.prefill = prefill
	output, err := whole(op, "Output", e.Output, 0)
	if err != nil {
		return err
	}
	b.output = output
	b.life = C.uint64_t(e.Life)
	return nil
}

// RequestEnded: a request has left its instance: it has finished or failed. Instance is the sender, so that the router
// ignores late messages of an instance that no longer has the request. None: the current instance.
type RequestEnded struct {
	Request  uint64
	Instance uint64
	// Context tokens, including recomputed tokens, excluding prefix cache hits.
	Prefill int
	// new tokens of all sequences
	Output int
	// true: the workflow stage must make the call again
	Failed bool
	// Prefill and Output are valid
	Served bool
	// life of the instance; 0: the current one
	Life uint64
}

func (e RequestEnded) put(op string, _ *room, c *C.takt_event) error {
	c._type = C.TAKT_EVENT_REQUEST_ENDED
	b := (*C.takt_event_request_ended)(unsafe.Pointer(&c.u))
	b.request = C.uint64_t(e.Request)
	b.instance = C.uint64_t(e.Instance)
	prefill, err := whole(op, "Prefill", e.Prefill, 0)
	if err != nil {
		return err
	}
	b.prefill = prefill
	output, err := whole(op, "Output", e.Output, 0)
	if err != nil {
		return err
	}
	b.output = output
	b.failed = flag(e.Failed)
	b.served = flag(e.Served)
	b.life = C.uint64_t(e.Life)
	return nil
}

// InstanceUp: the instance accepts requests from now on. A repeated event only replaces its description. A greater Life
// means a restart, and implies InstanceDown; a smaller Life is outdated. Life in other events is copied from Placement
// or Instance. The router ignores and counts messages of an earlier life.
type InstanceUp struct {
	Instance Instance
}

func (e InstanceUp) put(op string, room *room, c *C.takt_event) error {
	c._type = C.TAKT_EVENT_INSTANCE_UP
	b := (*C.takt_event_instance_up)(unsafe.Pointer(&c.u))
	instance := &take[C.takt_instance](room, 1)[0]
	b.instance = instance
	return e.Instance.put(op, room, instance)
}

// InstanceDown: the instance and its KV are gone. Its requests return to the queue and are placed again.
type InstanceDown struct {
	Instance uint64
	// life of the instance; 0: the current one
	Life uint64
}

func (e InstanceDown) put(_ string, _ *room, c *C.takt_event) error {
	c._type = C.TAKT_EVENT_INSTANCE_DOWN
	b := (*C.takt_event_instance_down)(unsafe.Pointer(&c.u))
	b.instance = C.uint64_t(e.Instance)
	b.life = C.uint64_t(e.Life)
	return nil
}

// InstanceReported: an instance reports its load. A report is outdated if its AsOf is before that of an earlier report,
// or before the instance came up.
type InstanceReported struct {
	Instance uint64
	// requests in the instance's own queue
	Waiting int64
	// running requests
	Running int64
	// preemptions since the instance came up
	Preempted int64
	// tokens that occupy its KV cache
	KVUsed int
	// AsOf is set
	Dated bool
	// Time up to which the counts are complete, on the router's clock. The report then covers all requests placed by that
	// time, and no later ones. Unset: unknown. The report then covers the oldest requests, as many as it counts.
	AsOf Time
	// life of the instance; 0: the current one
	Life uint64
}

func (e InstanceReported) put(op string, _ *room, c *C.takt_event) error {
	c._type = C.TAKT_EVENT_INSTANCE_REPORTED
	b := (*C.takt_event_instance_reported)(unsafe.Pointer(&c.u))
	b.instance = C.uint64_t(e.Instance)
	b.waiting = C.int64_t(e.Waiting)
	b.running = C.int64_t(e.Running)
	b.preempted = C.int64_t(e.Preempted)
	kv_used, err := whole(op, "KVUsed", e.KVUsed, 0)
	if err != nil {
		return err
	}
	b.kv_used = kv_used
	b.dated = flag(e.Dated)
	b.as_of = C.int64_t(e.AsOf)
	b.life = C.uint64_t(e.Life)
	return nil
}

// WorkflowDeclared: declares a workflow (workflow/workflow_table.h). Requests with its id are its calls, assigned by
// stage.
type WorkflowDeclared struct {
	Workflow Workflow
}

func (e WorkflowDeclared) put(op string, room *room, c *C.takt_event) error {
	c._type = C.TAKT_EVENT_WORKFLOW_DECLARED
	b := (*C.takt_event_workflow_declared)(unsafe.Pointer(&c.u))
	workflow := &take[C.takt_workflow](room, 1)[0]
	b.workflow = workflow
	return e.Workflow.put(op, room, workflow)
}

// WorkflowGrown: adds a stage to a workflow.
type WorkflowGrown struct {
	Workflow uint64
	// the new stage
	Stage Stage
	// stages that follow the new one
	Before []uint32
}

func (e WorkflowGrown) put(op string, room *room, c *C.takt_event) error {
	c._type = C.TAKT_EVENT_WORKFLOW_GROWN
	b := (*C.takt_event_workflow_grown)(unsafe.Pointer(&c.u))
	b.workflow = C.uint64_t(e.Workflow)
	stage := &take[C.takt_stage](room, 1)[0]
	b.stage = stage
	if err := e.Stage.put(op, room, stage); err != nil {
		return err
	}
	b.before = (*C.uint32_t)(copied(room, e.Before))
	b.n_before = C.size_t(len(e.Before))
	return nil
}

// StageEnded: the stage makes no further calls.
type StageEnded struct {
	Workflow uint64
	Stage    uint32
}

func (e StageEnded) put(_ string, _ *room, c *C.takt_event) error {
	c._type = C.TAKT_EVENT_STAGE_ENDED
	b := (*C.takt_event_stage_ended)(unsafe.Pointer(&c.u))
	b.workflow = C.uint64_t(e.Workflow)
	b.stage = C.uint32_t(e.Stage)
	return nil
}

// WorkflowEnded: the workflow is over, complete or not. A router fails its living requests on all instances. A
// scheduler lets them finish; prefix cache entries that only this workflow uses become free to evict.
type WorkflowEnded struct {
	Workflow uint64
	// true: takt learns nothing from this workflow
	Cancelled bool
}

func (e WorkflowEnded) put(_ string, _ *room, c *C.takt_event) error {
	c._type = C.TAKT_EVENT_WORKFLOW_ENDED
	b := (*C.takt_event_workflow_ended)(unsafe.Pointer(&c.u))
	b.workflow = C.uint64_t(e.Workflow)
	b.cancelled = flag(e.Cancelled)
	return nil
}
