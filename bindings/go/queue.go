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

// What became of a call that names a request, for errors.Is; nothing has changed then.
var (
	ErrUnknown    = errors.New("no such request is here")
	ErrInUse      = errors.New("the id is that of a request which is here")
	ErrOutOfPlace = errors.New("it is not where the call expects it, or no iteration has begun")
)

// Place is where a request of a queue stands.
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

// Queue is the order alone, for hosts that keep admission and KV to themselves. An iteration: Begin; List, or Top and
// Take, as often as the host likes; End, with what ran. A take is no admission: what is taken and not named by End waits
// as though nothing had happened. Requests may come, change and go at any time.
type Queue struct{ handle }

func (q *Queue) p() *C.takt_queue { return (*C.takt_queue)(q.c) }

// NewQueue of a policy, such as "sjf"; empty: fcfs.
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

// became is the error of a takt_result; requeued tells the one that is none.
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
		return false, invalid(op, "ID", "ID is 0, which is none")
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

// Put is Push, or Requeue where the request is known, which it then tells. What is known of it stays.
func (q *Queue) Put(request *Request, now Time) (requeued bool, err error) {
	return q.with("Put", request, func(c *C.takt_request) C.takt_result {
		return C.takt_queue_put(q.p(), c, C.int64_t(now))
	})
}

// Revise tells news of a request: its ID says which, told what of it holds from here on.
func (q *Queue) Revise(request *Request, told Told, now Time) error {
	_, err := q.with("Revise", request, func(c *C.takt_request) C.takt_result {
		return C.takt_queue_revise(q.p(), c, C.uint32_t(told), C.int64_t(now))
	})
	return err
}

// Erase forgets a request, which has ended or was cancelled.
func (q *Queue) Erase(request uint64) error {
	return q.named("Erase", func() C.takt_result { return C.takt_queue_erase(q.p(), C.uint64_t(request)) })
}

// Begin an iteration.
func (q *Queue) Begin(now Time) error {
	defer q.mu.Unlock()
	if err := q.enter("Begin"); err != nil {
		return err
	}
	return failure("Begin", C.takt_queue_begin(q.p(), C.int64_t(now)), nil)
}

// Top is the first of the order. It only looks.
func (q *Queue) Top() (request uint64, found bool) {
	defer q.mu.Unlock()
	if q.enter("Top") != nil {
		return 0, false
	}
	var c C.uint64_t
	found = C.takt_queue_top(q.p(), &c) == 1
	return uint64(c), found
}

// List is the first n of the order, best first, or as many as there are.
func (q *Queue) List(n int) []uint64 {
	defer q.mu.Unlock()
	if q.enter("List") != nil || n <= 0 {
		return nil
	}
	to := make([]uint64, min(n, int(C.takt_queue_size(q.p()))))
	return to[:C.takt_queue_list(q.p(), (*C.uint64_t)(first(to)), C.size_t(len(to)))]
}

// Take lets a request leave the order for this iteration.
func (q *Queue) Take(request uint64) error {
	return q.named("Take", func() C.takt_result { return C.takt_queue_take(q.p(), C.uint64_t(request)) })
}

// Hold keeps a request out until Requeue: it is blocked.
func (q *Queue) Hold(request uint64) error {
	return q.named("Hold", func() C.takt_result { return C.takt_queue_hold(q.p(), C.uint64_t(request)) })
}

// Pause says that a request that ran is in a tool call.
func (q *Queue) Pause(request uint64, now Time) error {
	return q.named("Pause", func() C.takt_result { return C.takt_queue_pause(q.p(), C.uint64_t(request), C.int64_t(now)) })
}

// Requeue lets a request wait again that was taken, held, in a tool call, or preempted.
func (q *Queue) Requeue(request uint64, now Time) error {
	return q.named("Requeue", func() C.takt_result {
		return C.takt_queue_requeue(q.p(), C.uint64_t(request), C.int64_t(now))
	})
}

// Ran is what an iteration computed for a request: known tokens, and new ones per sequence.
type Ran struct {
	Request         uint64
	Prefill, Output int
}

// End an iteration with what it took in; what ran already may be named for its tokens. It tells how many of them run: the
// others are not here, or in a tool call.
func (q *Queue) End(ran []Ran, now Time) (counted int, err error) {
	return q.ran("End", ran, func(c *C.takt_ran, n C.size_t, counted *C.size_t) C.takt_status {
		return C.takt_queue_end(q.p(), c, n, nil, C.int64_t(now), counted)
	})
}

// Computed tells what was computed where the host learns it after the end. Each other request that runs has yielded
// restOutput tokens per sequence.
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

// Holding is a request on the host's engine, and the KV blocks that preempting it would free.
type Holding struct {
	Request uint64
	Blocks  int
}

// Victims are those to preempt for so many blocks, worst first; with a beneficiary that waits or was taken (0: none) only
// those that it outranks. None where all together would not free enough.
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
	out := take[*C.uint64_t](q.room, 1) // in memory of C's, for what it points to is
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

// Len is the number of requests in the order; 0 once it is closed.
func (q *Queue) Len() int {
	defer q.mu.Unlock()
	if q.enter("Len") != nil {
		return 0
	}
	return int(C.takt_queue_size(q.p()))
}

// Where a request stands.
func (q *Queue) Where(request uint64) Place {
	defer q.mu.Unlock()
	if q.enter("Where") != nil {
		return Nowhere
	}
	return max(Nowhere, Place(C.takt_queue_place(q.p(), C.uint64_t(request))))
}

// Traits of the policy; 0 once it is closed.
func (q *Queue) Traits() Traits {
	defer q.mu.Unlock()
	if q.enter("Traits") != nil {
		return 0
	}
	return Traits(C.takt_queue_traits(q.p()))
}
