package takt

/*
#include "takt/c/takt.h"
*/
import "C"

import "time"

// Event is a fact for a [Router]: one of the types of router_events.go, which are plain values. Its Life is the life of
// the instance that sends the message, from [Placement] or [Instance]. The router ignores and counts a message of an
// earlier life. 0: the present life.
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

func flag(b bool) C.uint32_t {
	if b {
		return 1
	}
	return 0
}

func (i *Instance) put(op string, _ *room, c *C.takt_instance) error {
	kv, err := whole(op, "KVTokens", i.KVTokens, 0)
	*c = C.takt_instance{
		struct_size: C.sizeof_takt_instance, kv_tokens: kv, id: C.uint64_t(i.ID), model: C.uint64_t(i.Model),
		capacity: C.int64_t(i.Capacity), token_s: C.double(i.TokenS), profile: C.uint64_t(i.Profile), life: C.uint64_t(i.Life),
	}
	if c.capacity == 0 {
		c.capacity = C.TAKT_NEVER
	} else if c.capacity < 0 {
		c.capacity = 0
	}
	if err == nil && i.ID == 0 {
		err = invalid(op, "Instance.ID", "Instance.ID is 0, which is none")
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
