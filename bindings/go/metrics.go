package takt

/*
#include <stdlib.h>
#include "takt/c/takt.h"
#include "watch.h"
*/
import "C"

import (
	"time"
	"unsafe"
)

// ClassBy is the field of a request that is its class in metrics.
type ClassBy uint32

// The fields of takt.h.
const (
	ByPriority ClassBy = C.TAKT_CLASS_BY_PRIORITY
	ByTenant   ClassBy = C.TAKT_CLASS_BY_TENANT
	ByAgent    ClassBy = C.TAKT_CLASS_BY_AGENT
	ByAdapter  ClassBy = C.TAKT_CLASS_BY_ADAPTER
)

// MetricsOptions are described in docs/reference/metrics.md. The zero value gives takt's defaults.
type MetricsOptions struct {
	By          ClassBy
	MaxClasses  int           // maximum label values, at most 64; later values share "other"; 0: the default
	MaxRequests int           // maximum living requests that are measured; 0: the default
	Window      time.Duration // time constant of the drain rate and the late share; 0: the default
}

// Saturation is the load of a queue relative to the rate at which it becomes shorter.
type Saturation struct {
	ToClear         time.Duration // time until the waiting requests have instances, at most an hour
	DrainTokensPerS float64       // rate at which waiting tokens left the queue
	KVShare         float64       // share of the KV cache in use, 0 to 1; 0: unknown
	LateShare       float64       // share of ended requests with a deadline or an expiry that were late, 0 to 1
	BacklogTokens   int64         // context tokens of the waiting requests
}

// Measure measures all requests that arrive from now on, and forgets earlier figures. Its [Error] names an invalid
// option.
func (r *Router) Measure(options MetricsOptions) error {
	defer r.mu.Unlock()
	if err := r.enter("Measure"); err != nil {
		return err
	}
	var c C.takt_metrics_options
	C.takt_metrics_options_init(&c, C.sizeof_takt_metrics_options)
	c.by = C.uint32_t(options.By)
	for _, field := range [...]struct {
		name  string
		value int
		to    *C.int32_t
	}{{"MaxClasses", options.MaxClasses, &c.max_classes}, {"MaxRequests", options.MaxRequests, &c.max_requests}} {
		if field.value == 0 {
			continue // takt's default
		}
		value, err := whole("Measure", field.name, field.value, 1)
		if err != nil {
			return err
		}
		*field.to = value
	}
	if options.Window != 0 {
		c.window_s = C.double(options.Window.Seconds())
	}
	var told C.takt_error
	C.takt_error_init(&told, C.sizeof_takt_error)
	return failure("Measure", C.takt_router_measure(r.p(), &c, &told), &told)
}

// StopMeasuring forgets all figures. [Router.Metrics] then has only counters and gauges.
func (r *Router) StopMeasuring() error {
	defer r.mu.Unlock()
	if err := r.enter("StopMeasuring"); err != nil {
		return err
	}
	return failure("StopMeasuring", C.takt_router_measure(r.p(), nil, nil), nil)
}

// NameClass names the class of requests with this priority (or tenant, ...), before its first request. [ErrInvalid] if
// nothing is measured, the class has a label, or no label is free.
func (r *Router) NameClass(key int64, name string) error {
	defer r.mu.Unlock()
	if err := r.enter("NameClass"); err != nil {
		return err
	}
	c, err := text("NameClass", "name", name)
	if err != nil {
		return err
	}
	defer C.free(unsafe.Pointer(c))
	var told C.takt_error
	C.takt_error_init(&told, C.sizeof_takt_error)
	return failure("NameClass", C.takt_router_name_class(r.p(), C.int64_t(key), c, &told), &told)
}

// Saturation returns the load of the queue. [ErrInvalid] if nothing is measured.
func (r *Router) Saturation(now Time) (Saturation, error) {
	defer r.mu.Unlock()
	if err := r.enter("Saturation"); err != nil {
		return Saturation{}, err
	}
	c := C.takt_saturation{struct_size: C.sizeof_takt_saturation}
	if err := failure("Saturation", C.takt_router_saturation(r.p(), C.int64_t(now), &c), nil); err != nil {
		return Saturation{}, err
	}
	clear := time.Duration(float64(c.seconds_to_clear) * float64(time.Second))
	return Saturation{clear, float64(c.drain_tokens_per_s), float64(c.kv_share), float64(c.late_share),
		int64(c.backlog_tokens)}, nil
}

// Metrics returns all metrics in Prometheus' text format. names is "takt", or another column of
// docs/reference/metrics.md, such as "llm_d"; empty: "takt". Argument model is the label model_name of every
// sample; empty: none. Without [Router.Measure], the text has only counters and gauges.
func (r *Router) Metrics(now Time, names, model string) (string, error) {
	const op = "Metrics"
	defer r.mu.Unlock()
	if err := r.enter(op); err != nil {
		return "", err
	}
	var style, label *C.char
	for _, field := range [...]struct {
		name, value string
		to          **C.char
	}{{"names", names, &style}, {"model", model, &label}} {
		if field.value == "" {
			continue
		}
		c, err := text(op, field.name, field.value)
		if err != nil {
			return "", err
		}
		defer C.free(unsafe.Pointer(c))
		*field.to = c
	}
	var written *C.char
	var n C.size_t
	status := C.takt_router_metrics(r.p(), C.int64_t(now), style, label, &written, &n)
	if status == C.TAKT_E_INVALID {
		return "", invalid(op, "names", "names is %q: must be a column of the page of metrics", names)
	}
	if err := failure(op, status, nil); err != nil {
		return "", err
	}
	return string(unsafe.Slice((*byte)(unsafe.Pointer(written)), n)), nil
}

// ---- transitions ----------------------------------------------------------------------------------------------------

// Status is the state of a request in a router.
type Status uint32

// The states of takt.h that a router uses. A placed request is RequestRunning.
const (
	RequestUnknown Status = C.TAKT_REQUEST_UNKNOWN
	RequestWaiting Status = C.TAKT_REQUEST_WAITING
	RequestRunning Status = C.TAKT_REQUEST_RUNNING
	RequestBlocked Status = C.TAKT_REQUEST_BLOCKED // held for earlier stages, or too large for every instance
	RequestDead    Status = C.TAKT_REQUEST_DEAD
)

var statuses = []string{"unknown", "waiting", "running", "paused", "blocked", "dead"}

// String returns the name of the state, such as "waiting".
func (s Status) String() string { return nameOf(statuses, uint32(s)) }

// Reason is the reason of a transition.
type Reason uint32

// The reasons of takt.h that a router uses. A failed request has ReasonFailed plus its [FailReason].
const (
	ReasonArrived      Reason = C.TAKT_REASON_ARRIVED
	ReasonAdmitted     Reason = C.TAKT_REASON_ADMITTED // the request got its first instance
	ReasonResumed      Reason = C.TAKT_REASON_RESUMED
	ReasonInstanceLost Reason = C.TAKT_REASON_INSTANCE_LOST
	ReasonBlocked      Reason = C.TAKT_REASON_BLOCKED
	ReasonUnblocked    Reason = C.TAKT_REASON_UNBLOCKED
	ReasonFinished     Reason = C.TAKT_REASON_FINISHED
	ReasonCancelled    Reason = C.TAKT_REASON_CANCELLED
	ReasonFailed       Reason = C.TAKT_REASON_FAILED
)

var reasons = []string{"arrived", "admitted", "resumed", "first token", "preempted kv", "preempted rank",
	"instance lost", "blocked", "unblocked", "tool called", "tool returned", "finished", "cancelled"}

// String returns the name of the reason, such as "finished". A failed request has the name of its [FailReason].
func (r Reason) String() string {
	if fail, failed := r.Failed(); failed {
		return fail.String()
	}
	return nameOf(reasons, uint32(r))
}

// Failed returns the reason of the failure if the request failed.
func (r Reason) Failed() (FailReason, bool) {
	if r < ReasonFailed {
		return 0, false
	}
	return FailReason(r - ReasonFailed), true
}

// Transition is a change of a request's status. Each accepted request ends once, with RequestDead. A refused request has
// one transition, from RequestUnknown to RequestDead.
type Transition struct {
	Request    uint64
	From, To   Status
	Reason     Reason
	At         Time
	Known      int // context tokens
	Generated  int // output tokens so far, per sequence
	Recomputed int // context tokens computed again so far
	Priority   int
}

// Watch calls observer for each transition, in order, before the call that made it returns; nil: no observer. The
// observer must not use the router, which would wait for itself.
func (r *Router) Watch(observer func(Transition)) error {
	defer r.mu.Unlock()
	if err := r.enter("Watch"); err != nil {
		return err
	}
	r.observer = observer
	seen := (*C.takt_go_seen)(r.seen)
	if observer == nil {
		seen = nil
	}
	return failure("Watch", C.takt_go_watch(r.p(), seen), nil)
}

func newSeen() unsafe.Pointer { return C.calloc(1, C.sizeof_takt_go_seen) }

// leave passes the transitions of the call to the observer, and unlocks.
func (r *Router) leave() {
	defer r.mu.Unlock()
	if r.c == nil {
		return
	}
	seen := (*C.takt_go_seen)(r.seen)
	transitions := unsafe.Slice(seen.at, seen.n)
	seen.n = 0
	if r.observer == nil {
		return
	}
	for _, t := range transitions {
		r.observer(Transition{uint64(t.request), Status(t.from_status), Status(t.to_status), Reason(t.reason), Time(t.at),
			int(t.known), int(t.generated), int(t.recomputed), int(t.priority)})
	}
}

func freeSeen(seen unsafe.Pointer) {
	C.free(unsafe.Pointer((*C.takt_go_seen)(seen).at))
	C.free(seen)
}
