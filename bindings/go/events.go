package takt

/*
#include "takt/c/takt.h"
*/
import "C"

import "time"

// Event is an event for a [Router]: one of the types of router_events.go, which are plain values. Its Life is the life
// of the sending instance, from [Placement] or [Instance]; 0: the present life. The router ignores and counts events of
// an earlier life.
type Event interface {
	put(op string, room *room, c *C.takt_event) error
}

// Role is the phases that an instance serves.
type Role uint32

const (
	RoleBoth    Role = C.TAKT_ROLE_BOTH
	RolePrefill Role = C.TAKT_ROLE_PREFILL // computes prompts only
	RoleDecode  Role = C.TAKT_ROLE_DECODE  // continues with such requests, or runs whole ones
)

// Instance is an engine with its own KV cache.
type Instance struct {
	ID       uint64  // unique among the instances that are up
	Model    uint64  // model that it serves, if models differ
	KVTokens int     // size of its KV cache; 0: unknown, every request fits
	Capacity int64   // maximum requests at once; int64(Never) or 0: unlimited; below 0: accepts none
	TokenS   float64 // time of an output token at full batch divided by the batch size [s]; 0: unknown
	Profile  uint64  // from AddProfile; 0: unknown speed
	Life     uint64  // grows with each restart, such as the start time; 0: the router numbers restarts

	MaxAdapters int  // maximum LoRA adapters that it keeps loaded; 0: unknown
	Role        Role // phases that it serves; the role changes only with the life
}

// Stage is a set of parallel calls of a workflow, made after all stages in After have ended. After holds indexes of
// stages, in the order of declaration.
type Stage struct {
	Stage uint64        // call site, as in its requests
	After []uint32      // stages that must end first
	Cost  time.Duration // expected time of one call alone; 0: the time learned for the call site
	Calls int           // number of parallel calls; 0: one
}

// Workflow is a graph of calls. Deadline: Never for none, Unset for the deadline of the tenant's class.
type Workflow struct {
	ID, Tenant        uint64
	Open              bool // more stages may follow after all known ones have ended
	Arrival, Deadline Time
	Stages            []Stage // empty: unknown graph
}

func flag(b bool) C.uint32_t {
	if b {
		return 1
	}
	return 0
}

func (i *Instance) put(op string, _ *room, c *C.takt_instance) error {
	kv, err := whole(op, "KVTokens", i.KVTokens, 0)
	adapters, fault := whole(op, "MaxAdapters", i.MaxAdapters, 0)
	if err == nil {
		err = fault
	}
	*c = C.takt_instance{
		struct_size: C.sizeof_takt_instance, kv_tokens: kv, id: C.uint64_t(i.ID), model: C.uint64_t(i.Model),
		capacity: C.int64_t(i.Capacity), token_s: C.double(i.TokenS), profile: C.uint64_t(i.Profile), life: C.uint64_t(i.Life),
		max_adapters: adapters, role: C.uint32_t(i.Role),
	}
	if c.capacity == 0 {
		c.capacity = C.TAKT_NEVER
	} else if c.capacity < 0 {
		c.capacity = 0
	}
	if err == nil && i.ID == 0 {
		err = invalid(op, "Instance.ID", "Instance.ID is 0; expected a nonzero id")
	}
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

func (w *Workflow) put(op string, room *room, c *C.takt_workflow) error {
	stages := take[C.takt_stage](room, len(w.Stages))
	*c = C.takt_workflow{
		struct_size: C.sizeof_takt_workflow, open: flag(w.Open), id: C.uint64_t(w.ID), tenant: C.uint64_t(w.Tenant),
		arrival: C.int64_t(w.Arrival), deadline: C.int64_t(w.Deadline), stages: first(stages), n_stages: C.size_t(len(stages)),
	}
	for i := range stages {
		if err := w.Stages[i].put(op, room, &stages[i]); err != nil {
			return err
		}
	}
	return nil
}
