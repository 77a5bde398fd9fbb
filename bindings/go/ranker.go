package takt

/*
#include <stdlib.h>
#include "takt/c/takt.h"
*/
import "C"

import (
	"strings"
	"unsafe"
)

// Traits describe how long a key is valid.
type Traits uint32

// The traits of takt.h.
const (
	Fixed    Traits = C.TAKT_TRAIT_FIXED    // as long as the request waits: none of the others
	Timed    Traits = C.TAKT_TRAIT_TIMED    // the key changes at times that the policy knows in advance
	Moving   Traits = C.TAKT_TRAIT_MOVING   // every key changes with time
	Groups   Traits = C.TAKT_TRAIT_GROUPS   // groups rank first, and only a queue knows their keys
	Learns   Traits = C.TAKT_TRAIT_LEARNS   // the key may depend on earlier input of the policy
	Pressure Traits = C.TAKT_TRAIT_PRESSURE // the key depends on resource pressure, which only a queue knows
	Ages     Traits = C.TAKT_TRAIT_AGES     // long waits are promoted, and only a queue counts them
	Tables   Traits = C.TAKT_TRAIT_TABLES   // the order needs ranks of agents
	Chooses  Traits = C.TAKT_TRAIT_CHOOSES  // the next request depends on all that wait, and only a queue knows them
)

// String returns the names of the traits, such as "moving, learns".
func (t Traits) String() string {
	var names []string
	for _, n := range [...]struct {
		trait Traits
		name  string
	}{{Fixed, "fixed"}, {Timed, "timed"}, {Moving, "moving"}, {Groups, "groups"}, {Learns, "learns"},
		{Pressure, "pressure"}, {Ages, "ages"}, {Tables, "tables"}, {Chooses, "chooses"}} {
		if t&n.trait != 0 {
			names = append(names, n.name)
		}
	}
	return strings.Join(names, ", ")
}

// Ranker computes keys of requests, for hosts that sort requests themselves. It keeps no requests.
type Ranker struct{ handle }

func (r *Ranker) p() *C.takt_ranker { return (*C.takt_ranker)(r.c) }

// NewRanker creates a ranker with a policy such as "sjf" or "aged(edf,threshold=100)".
func NewRanker(policy string) (*Ranker, error) {
	if policy == "" {
		return nil, invalid("NewRanker", "policy", "policy is empty")
	}
	name, err := text("NewRanker", "policy", policy)
	if err != nil {
		return nil, err
	}
	defer C.free(unsafe.Pointer(name))
	var told C.takt_error
	C.takt_error_init(&told, C.sizeof_takt_error)
	var c *C.takt_ranker
	if err := failure("NewRanker", C.takt_ranker_create(name, nil, &c, &told), &told); err != nil {
		return nil, err
	}
	r := &Ranker{}
	r.open(unsafe.Pointer(c), func(c unsafe.Pointer) { C.takt_ranker_destroy((*C.takt_ranker)(c)) })
	return r, nil
}

// Traits returns the traits of the policy; 0 if closed.
func (r *Ranker) Traits() Traits {
	defer r.mu.Unlock()
	if r.enter("Traits") != nil {
		return 0
	}
	return Traits(C.takt_ranker_traits(r.p()))
}

// Key returns the key of one request at now. A smaller key runs sooner; equal keys rank by arrival, then by id.
func (r *Ranker) Key(request *Request, now Time) (float64, error) {
	var key [1]float64
	err := r.keys(1, func(int) *Request { return request }, now, key[:])
	return key[0], err
}

// Keys writes the keys of the requests at now into keys, which must have the same length.
func (r *Ranker) Keys(requests []Request, now Time, keys []float64) error {
	if len(keys) != len(requests) {
		return invalid("Keys", "keys", "keys has %d elements for %d requests", len(keys), len(requests))
	}
	return r.keys(len(requests), func(i int) *Request { return &requests[i] }, now, keys)
}

func (r *Ranker) keys(n int, request func(int) *Request, now Time, keys []float64) error {
	defer r.mu.Unlock()
	if err := r.enter("Keys"); err != nil || n == 0 {
		return err
	}
	r.room.reset()
	c := take[C.takt_request](r.room, n)
	for i := range c {
		if err := request(i).put("Keys", r.room, &c[i]); err != nil {
			return err
		}
	}
	return failure("Keys", C.takt_ranker_keys(r.p(), &c[0], C.size_t(n), C.sizeof_takt_request, C.int64_t(now),
		(*C.double)(&keys[0])), nil)
}
