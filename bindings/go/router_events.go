package takt

// Made by scripts/mirrors of include/takt/model/; not to be edited.

/*
#include "takt/c/takt.h"
*/
import "C"

import "unsafe"

// Arrived: a request that waits from now on.
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

// Revised: new knowledge about a living request; what is absent stays as it was.
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
	b.request, b.told = request, C.uint32_t(e.Told)
	return e.Request.put(op, room, request)
}

// Cancelled: the request ends here, whatever it does.
type Cancelled struct {
	Request uint64
}

func (e Cancelled) put(_ string, _ *room, c *C.takt_event) error {
	c._type = C.TAKT_EVENT_CANCELLED
	*(*C.uint64_t)(unsafe.Pointer(&c.u)) = C.uint64_t(e.Request)
	return nil
}

// RequestStarted: the first step of a request on its instance begins. For placements that count what waits there apart
// from what runs; others need not be told.
type RequestStarted struct {
	Request  uint64
	Instance uint64
	// of the instance; 0: the present one
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

// RequestServed: what a request has come to that has not ended, for policies that go by service: say with each report,
// of all that runs. Told twice, or late, the same changes nothing. Instance as in RequestEnded.
type RequestServed struct {
	Request  uint64
	Instance uint64
	// tokens of its context; one that is computed again counts again, one found in a cache does not
	Prefill int
	// new tokens of all its sequences
	Output int
	// of the instance; 0: the present one
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

// RequestEnded: a request has left its instance: finished, or Failed. Instance: the one that says so, so that the late
// word of an instance that the request had to leave is not taken for its end; none: wherever it is.
type RequestEnded struct {
	Request  uint64
	Instance uint64
	// tokens of its context; one that is computed again counts again, one found in a cache does not
	Prefill int
	// new tokens of all its sequences
	Output int
	// its stage of a workflow lacks a call again
	Failed bool
	// Prefill and Output are valid
	Served bool
	// of the instance; 0: the present one
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

// InstanceUp: the instance takes requests from here on. A repeated event replaces its description and changes nothing
// else. A greater Life means that the instance has restarted, as InstanceDown before it would. A smaller one is late.
// Life in other events comes from Placement or Instance: the router ignores and counts a message of an earlier life.
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

// InstanceDown: the instance is gone, with all that it held: its requests go back to the queue and are placed again.
type InstanceDown struct {
	Instance uint64
	// of the instance; 0: the present one
	Life uint64
}

func (e InstanceDown) put(_ string, _ *room, c *C.takt_event) error {
	c._type = C.TAKT_EVENT_INSTANCE_DOWN
	b := (*C.takt_event_instance_down)(unsafe.Pointer(&c.u))
	b.instance = C.uint64_t(e.Instance)
	b.life = C.uint64_t(e.Life)
	return nil
}

// InstanceReported: a report whose AsOf lies before that of an earlier report, or before the instance came up, is late.
type InstanceReported struct {
	Instance uint64
	// requests in its own queue
	Waiting int64
	// requests that run
	Running int64
	// preemptions since it came up
	Preempted int64
	// tokens whose KV it holds
	KVUsed int
	// AsOf is set
	Dated bool
	// Time up to which the counts are complete, on the router's clock. The report then includes all requests that were
	// placed by that time, and none that were placed later. Unset: unknown; the report then includes as many requests as
	// it counts, the oldest first.
	AsOf Time
	// of the instance; 0: the present one
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

// WorkflowDeclared: a workflow begins (workflow/workflow_table.h). Requests that bear its id are calls of it, by their
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

// WorkflowGrown: a workflow has one more stage.
type WorkflowGrown struct {
	Workflow uint64
	// the new one
	Stage Stage
	// stages that come after it
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

// StageEnded: no further calls are made at the stage.
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

// WorkflowEnded: the workflow is over, early or not. To a router, requests of it that are alive have failed, wherever
// they are; in a scheduler they go on, and what the workflow alone holds in the prefix cache is dead.
type WorkflowEnded struct {
	Workflow uint64
	// nothing is learnt of it
	Cancelled bool
}

func (e WorkflowEnded) put(_ string, _ *room, c *C.takt_event) error {
	c._type = C.TAKT_EVENT_WORKFLOW_ENDED
	b := (*C.takt_event_workflow_ended)(unsafe.Pointer(&c.u))
	b.workflow = C.uint64_t(e.Workflow)
	b.cancelled = flag(e.Cancelled)
	return nil
}
