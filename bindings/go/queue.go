package takt

/*
#include <stdlib.h>
#include "takt/c/takt.h"
*/
import "C"

import (
	"errors"
	"unsafe"
)

// Errors of calls that name a request, for errors.Is. The call had no effect.
var (
	ErrUnknown    = errors.New("unknown request")
	ErrInUse      = errors.New("the id is already in use")
	ErrOutOfPlace = errors.New("the request is not in a state that allows this call, or no iteration has begun")
)

// Place is the state of a request in a queue.
type Place int

// The places of takt.h.
const (
	Nowhere Place = C.TAKT_PLACE_NONE
	Waiting Place = C.TAKT_PLACE_WAITING
	Taken   Place = C.TAKT_PLACE_TAKEN
	Held    Place = C.TAKT_PLACE_HELD
	Running Place = C.TAKT_PLACE_RUNNING
	Paused  Place = C.TAKT_PLACE_PAUSED
)

// Queue orders waiting requests, for hosts that handle admission and KV themselves. An iteration is Begin, any number
// of List, Top and Take, then End with the requests that ran. A request that was taken but is not listed in End waits
// again as before. Requests may come, change and go at any time.
type Queue struct{ handle }

func (q *Queue) p() *C.takt_queue { return (*C.takt_queue)(q.c) }

// NewQueue creates a queue with a policy such as "sjf"; empty: fcfs.
func NewQueue(policy string) (*Queue, error) {
	if policy == "" {
		policy = "fcfs"
	}
	var c C.takt_queue_options
	C.takt_queue_options_init(&c, C.sizeof_takt_queue_options)
	name, err := text("NewQueue", "policy", policy)
	if err != nil {
		return nil, err
	}
	defer C.free(unsafe.Pointer(name))
	c.policy = name
	var told C.takt_error
	C.takt_error_init(&told, C.sizeof_takt_error)
	var made *C.takt_queue
	if err := failure("NewQueue", C.takt_queue_create(&c, &made, &told), &told); err != nil {
		return nil, err
	}
	q := &Queue{}
	q.open(unsafe.Pointer(made), func(c unsafe.Pointer) { C.takt_queue_destroy((*C.takt_queue)(c)) })
	return q, nil
}

// became returns the error of a takt_result, and whether the request was requeued.
func became(op string, result C.takt_result) (requeued bool, err error) {
	var cause error
	switch {
	case result < 0:
		return false, failure(op, C.takt_status(-result), nil)
	case result == C.TAKT_RESULT_DONE, result == C.TAKT_RESULT_REQUEUED:
		return result == C.TAKT_RESULT_REQUEUED, nil
	case result == C.TAKT_RESULT_UNKNOWN:
		cause = ErrUnknown
	case result == C.TAKT_RESULT_IN_USE:
		cause = ErrInUse
	case result == C.TAKT_RESULT_OUT_OF_PLACE:
		cause = ErrOutOfPlace
	case result == C.TAKT_RESULT_INVALID:
		return false, invalid(op, "ID", "ID is 0; expected a nonzero id")
	default:
		cause = ErrClosed
	}
	return false, &Error{Op: op, cause: cause}
}

func (q *Queue) with(op string, request *Request, call func(*C.takt_request) C.takt_result) (bool, error) {
	defer q.mu.Unlock()
	if err := q.enter(op); err != nil {
		return false, err
	}
	q.room.reset()
	c := &take[C.takt_request](q.room, 1)[0]
	if err := request.put(op, q.room, c); err != nil {
		return false, err
	}
	return became(op, call(c))
}

func (q *Queue) named(op string, call func() C.takt_result) error {
	defer q.mu.Unlock()
	if err := q.enter(op); err != nil {
		return err
	}
	_, err := became(op, call())
	return err
}

// Push adds a request, which waits.
func (q *Queue) Push(request *Request, now Time) error {
	_, err := q.with("Push", request, func(c *C.takt_request) C.takt_result {
		return C.takt_queue_push(q.p(), c, C.int64_t(now))
	})
	return err
}

// Put pushes a request, or requeues it if it is known; requeued is true in that case. A known request keeps its fields.
func (q *Queue) Put(request *Request, now Time) (requeued bool, err error) {
	return q.with("Put", request, func(c *C.takt_request) C.takt_result {
		return C.takt_queue_put(q.p(), c, C.int64_t(now))
	})
}

// Revise updates the given fields of the request with this ID.
func (q *Queue) Revise(request *Request, fields RevisedFields, now Time) error {
	_, err := q.with("Revise", request, func(c *C.takt_request) C.takt_result {
		return C.takt_queue_revise(q.p(), c, C.uint32_t(fields), C.int64_t(now))
	})
	return err
}

// Erase removes a request that has ended or was cancelled.
func (q *Queue) Erase(request uint64) error {
	return q.named("Erase", func() C.takt_result { return C.takt_queue_erase(q.p(), C.uint64_t(request)) })
}

// Begin begins an iteration.
func (q *Queue) Begin(now Time) error {
	defer q.mu.Unlock()
	if err := q.enter("Begin"); err != nil {
		return err
	}
	return failure("Begin", C.takt_queue_begin(q.p(), C.int64_t(now)), nil)
}

// Top returns the first waiting request without removing it.
func (q *Queue) Top() (request uint64, found bool) {
	defer q.mu.Unlock()
	if q.enter("Top") != nil {
		return 0, false
	}
	var c C.uint64_t
	found = C.takt_queue_top(q.p(), &c) == 1
	return uint64(c), found
}

// List returns the first n waiting requests, best first; fewer if fewer wait.
func (q *Queue) List(n int) []uint64 {
	defer q.mu.Unlock()
	if q.enter("List") != nil || n <= 0 {
		return nil
	}
	to := make([]uint64, min(n, int(C.takt_queue_size(q.p()))))
	return to[:C.takt_queue_list(q.p(), (*C.uint64_t)(first(to)), C.size_t(len(to)))]
}

// Take takes a request out of the order for this iteration.
func (q *Queue) Take(request uint64) error {
	return q.named("Take", func() C.takt_result { return C.takt_queue_take(q.p(), C.uint64_t(request)) })
}

// Hold blocks a request until Requeue.
func (q *Queue) Hold(request uint64) error {
	return q.named("Hold", func() C.takt_result { return C.takt_queue_hold(q.p(), C.uint64_t(request)) })
}

// Pause marks a running request as in a tool call.
func (q *Queue) Pause(request uint64, now Time) error {
	return q.named("Pause", func() C.takt_result { return C.takt_queue_pause(q.p(), C.uint64_t(request), C.int64_t(now)) })
}

// Requeue makes a request wait again after it was taken, held, preempted or in a tool call.
func (q *Queue) Requeue(request uint64, now Time) error {
	return q.named("Requeue", func() C.takt_result {
		return C.takt_queue_requeue(q.p(), C.uint64_t(request), C.int64_t(now))
	})
}

// Ran is the work of an iteration on a request: known tokens, and new tokens per sequence.
type Ran struct {
	Request         uint64
	Prefill, Output int
}

// End ends an iteration. ran lists the requests that it started; it may also list running ones, to report their tokens.
// End returns the number of listed requests that are running; the others are unknown or in a tool call.
func (q *Queue) End(ran []Ran, now Time) (counted int, err error) {
	return q.ran("End", ran, func(c *C.takt_ran, n C.size_t, counted *C.size_t) C.takt_status {
		return C.takt_queue_end(q.p(), c, n, nil, C.int64_t(now), counted)
	})
}

// Computed reports the work of a step if the host learns it after End. Every running request that is not listed has
// yielded restOutput tokens per sequence.
func (q *Queue) Computed(ran []Ran, restOutput int) (counted int, err error) {
	rest, err := whole("Computed", "restOutput", restOutput, 0)
	if err != nil {
		return 0, err
	}
	return q.ran("Computed", ran, func(c *C.takt_ran, n C.size_t, counted *C.size_t) C.takt_status {
		return C.takt_queue_computed(q.p(), c, n, rest, counted)
	})
}

func (q *Queue) ran(op string, ran []Ran, call func(*C.takt_ran, C.size_t, *C.size_t) C.takt_status) (int, error) {
	defer q.mu.Unlock()
	if err := q.enter(op); err != nil {
		return 0, err
	}
	q.room.reset()
	c := take[C.takt_ran](q.room, len(ran))
	for i, from := range ran {
		prefill, err := whole(op, "Prefill", from.Prefill, 0)
		if err != nil {
			return 0, err
		}
		output, err := whole(op, "Output", from.Output, 0)
		if err != nil {
			return 0, err
		}
		c[i] = C.takt_ran{request: C.uint64_t(from.Request), prefill: prefill, output: output}
	}
	var counted C.size_t
	err := failure(op, call(first(c), C.size_t(len(c)), &counted), nil)
	return int(counted), err
}

// Holding is a running request and the KV blocks that its preemption would free.
type Holding struct {
	Request uint64
	Blocks  int
}

// Victims returns the requests to preempt for need blocks, worst first. With a beneficiary that waits or was taken (0:
// none), only requests that rank below it. The result is empty if all together would not free enough.
func (q *Queue) Victims(holding []Holding, need int, beneficiary uint64, now Time) ([]uint64, error) {
	const op = "Victims"
	blocks, err := whole(op, "need", need, 0)
	if err != nil {
		return nil, err
	}
	defer q.mu.Unlock()
	if err := q.enter(op); err != nil {
		return nil, err
	}
	q.room.reset()
	c := take[C.takt_holding](q.room, len(holding))
	for i, h := range holding {
		if c[i].blocks, err = whole(op, "Holding.Blocks", h.Blocks, 0); err != nil {
			return nil, err
		}
		c[i].request = C.uint64_t(h.Request)
	}
	out := take[*C.uint64_t](q.room, 1) // in C memory, like the arrays that it points to
	var n C.size_t
	err = failure(op, C.takt_queue_victims(q.p(), first(c), C.size_t(len(c)), blocks, C.uint64_t(beneficiary),
		C.int64_t(now), &out[0], &n), nil)
	var victims []uint64
	if err == nil {
		for _, v := range unsafe.Slice(out[0], n) {
			victims = append(victims, uint64(v))
		}
	}
	return victims, err
}

// Len returns the number of waiting requests; 0 if closed.
func (q *Queue) Len() int {
	defer q.mu.Unlock()
	if q.enter("Len") != nil {
		return 0
	}
	return int(C.takt_queue_size(q.p()))
}

// Where returns the place of a request.
func (q *Queue) Where(request uint64) Place {
	defer q.mu.Unlock()
	if q.enter("Where") != nil {
		return Nowhere
	}
	return max(Nowhere, Place(C.takt_queue_place(q.p(), C.uint64_t(request))))
}

// Traits returns the traits of the policy; 0 if closed.
func (q *Queue) Traits() Traits {
	defer q.mu.Unlock()
	if q.enter("Traits") != nil {
		return 0
	}
	return Traits(C.takt_queue_traits(q.p()))
}
