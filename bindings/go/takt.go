// Package takt decides which request an engine for language models runs next, and where. It provides the order of
// requests, keys for hosts that sort requests themselves, and a router for several engines. It calls takt's C interface
// (include/takt/c/takt.h) through cgo.
//
// Any goroutine may use a handle ([Ranker], [Queue], [Router]): each has one lock. Close frees its memory; a second
// Close has no effect. The garbage collector frees a handle that was not closed. Every call after Close returns
// [ErrClosed]. C keeps no Go pointers: arguments and results are copied.
//
// Build the library first (cmake --build --preset release --target takt_c_archive). Inside the source tree, that is
// all. Elsewhere, CGO_CFLAGS names the folder of takt/c/takt.h and CGO_LDFLAGS the folder of libtakt_c.a:
//
//	CGO_CFLAGS=-I/opt/takt/include CGO_LDFLAGS=-L/opt/takt/lib go build
//
// With the tag takt_pkgconfig, both come from pkg-config's takt_c, and the shared library is linked.
package takt

/*
#cgo CFLAGS: -std=c11 -I${SRCDIR}/../../include
#cgo !takt_pkgconfig LDFLAGS: -L${SRCDIR}/../../build/release/lib -l:libtakt_c.a -lstdc++ -lm
#cgo takt_pkgconfig pkg-config: takt_c
#include <stdlib.h>
#include "takt/c/takt.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"
	"unsafe"
)

// Time is an instant of the host's clock [ns]. takt never reads the clock.
type Time int64

const (
	// Never is a time that never comes; for a bound: unlimited.
	Never Time = math.MaxInt64
	// Unset is a time that is not set.
	Unset Time = math.MinInt64
)

// Causes of errors, for errors.Is. A call that returns an error had no effect.
var (
	// ErrInvalid means that a value is invalid.
	ErrInvalid = errors.New("invalid value")
	// ErrClosed means that the handle has been closed.
	ErrClosed = errors.New("the handle is closed")
	// ErrMemory means that memory ran out.
	ErrMemory = errors.New("out of memory")
	// ErrInternal is a status that only a bug in this package can cause.
	ErrInternal = errors.New("internal")
)

// Error describes a failed call.
type Error struct {
	Op    string // name of the call, such as "NewRouter"
	Field string // invalid field, such as "placement"; empty: not a single one
	Text  string // message for people
	cause error
}

// Error returns op, field and text in one line.
func (e *Error) Error() string {
	text := e.Text
	if text == "" {
		text = e.cause.Error()
	}
	if e.Field != "" && !strings.HasPrefix(text, e.Field) {
		text = e.Field + ": " + text
	}
	return "takt: " + e.Op + ": " + text
}

// Unwrap returns the cause, such as [ErrInvalid].
func (e *Error) Unwrap() error { return e.cause }

func invalid(op, field, format string, args ...any) error {
	return &Error{Op: op, Field: field, Text: fmt.Sprintf(format, args...), cause: ErrInvalid}
}

// named matches a text about one field: "FIELD: MESSAGE" or "FIELD is VALUE: MESSAGE".
var named = regexp.MustCompile(`^([a-z][a-z0-9_.\[\]]*)(?::| is )`)

// failure returns the error of a status; reason (may be nil) is the text of a failed call.
func failure(op string, status C.takt_status, reason *C.takt_error) error {
	if status == C.TAKT_OK {
		return nil
	}
	e := &Error{Op: op}
	switch status {
	case C.TAKT_E_INVALID:
		e.cause = ErrInvalid
	case C.TAKT_E_NOMEM:
		e.cause = ErrMemory
	default:
		e.cause = ErrInternal
		e.Text = C.GoString(C.takt_status_name(status))
	}
	if reason != nil && reason.text[0] != 0 {
		e.Text = C.GoString(&reason.text[0])
		if field := named.FindStringSubmatch(e.Text); field != nil && !strings.Contains(e.Text, "\n") {
			e.Field = field[1]
		}
	}
	return e
}

// Version returns the version of the library, such as "0.1.0".
func Version() string { return C.GoString(C.takt_version()) }

// Fault is an invalid input of the host, which was ignored. docs/reference/mistakes.md describes the kinds; takt.h
// numbers them.
type Fault struct {
	Kind               int
	Count              uint64 // faults so far, including this one
	Request            uint64 // request involved; 0: none
	At                 Time
	Received, Expected int64
}

// Failure is a request whose failure the host reports to the client.
type Failure struct {
	Request uint64
	Reason  FailReason
	Code    uint16
	// RetryAfter is the time after which the client should try again, for FailShed and FailQuota; otherwise 0.
	RetryAfter time.Duration
}

// FailReason is the reason why a request failed.
type FailReason uint8

// The reasons of takt.h.
const (
	FailInvalid FailReason = iota
	FailNeverFits
	FailKVExhausted
	FailExpired
	FailShed
	FailDraining
	FailHost
	FailIDInUse
	FailQuota
	FailNoInstance
)

var failReasons = []string{"invalid", "never fits", "kv exhausted", "expired", "shed", "draining", "host", "id in use",
	"quota", "no instance"}

// String returns the name of the reason, such as "expired".
func (r FailReason) String() string {
	return nameOf(failReasons, uint32(r))
}

// HTTPStatus returns the HTTP status for a failure. 429: the client should come back. 503: no instance serves. 504: a
// time limit ended the request.
func (r FailReason) HTTPStatus() int {
	return int(C.takt_http_status(C.uint32_t(r)))
}

// ---- handles --------------------------------------------------------------------------------------------------------

// handle is a C handle, its lock, and memory for arguments.
type handle struct {
	mu      sync.Mutex
	c       unsafe.Pointer // nil: closed
	room    *room
	release func(unsafe.Pointer)
	cleanup runtime.Cleanup
}

func (h *handle) open(c unsafe.Pointer, release func(unsafe.Pointer)) {
	room := &room{}
	h.c, h.release, h.room = c, release, room
	h.cleanup = runtime.AddCleanup(h, func(c unsafe.Pointer) {
		release(c)
		room.free()
	}, c)
}

// Close frees the handle's memory. It never fails.
func (h *handle) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.c == nil {
		return nil
	}
	h.cleanup.Stop()
	h.release(h.c)
	h.room.free()
	h.c = nil
	return nil
}

// enter locks; the caller unlocks, which also keeps the handle from the garbage collector.
func (h *handle) enter(op string) error {
	h.mu.Lock()
	if h.c == nil {
		return &Error{Op: op, cause: ErrClosed}
	}
	return nil
}

// room is C memory for the arguments of one call: C must not see pointers into Go memory.
type room struct {
	block unsafe.Pointer
	size  uintptr
	used  uintptr
	more  []unsafe.Pointer // further blocks if one was too small; the next call has a larger one
	asked uintptr
}

func (r *room) reset() {
	for _, p := range r.more {
		C.free(p)
	}
	r.more = r.more[:0]
	if r.asked > r.size {
		C.free(r.block)
		r.size = 2 * r.asked
		r.block = C.malloc(C.size_t(r.size))
	}
	r.used, r.asked = 0, 0
}

func (r *room) free() {
	r.asked = 0
	r.reset()
	C.free(r.block)
	r.block, r.size = nil, 0
}

// take returns n zeroed elements.
func take[T any](r *room, n int) []T {
	if n == 0 {
		return nil
	}
	var one T
	bytes := (unsafe.Sizeof(one)*uintptr(n) + 15) &^ 15
	r.asked += bytes
	var at unsafe.Pointer
	if r.used+bytes <= r.size {
		at = unsafe.Add(r.block, r.used)
		r.used += bytes
	} else {
		at = C.malloc(C.size_t(bytes))
		r.more = append(r.more, at)
	}
	elements := unsafe.Slice((*T)(at), n)
	clear(elements)
	return elements
}

func copied[T any](r *room, from []T) *T {
	if len(from) == 0 {
		return nil
	}
	to := take[T](r, len(from))
	copy(to, from)
	return &to[0]
}

// text returns a copy for C, which the caller frees.
func text(op, field, s string) (*C.char, error) {
	if strings.ContainsRune(s, 0) {
		return nil, invalid(op, field, "%s is %q: must not contain a null character", field, s)
	}
	return C.CString(s), nil
}

// nameOf returns the name of an enum's number; a number from a newer library is named by its digits.
func nameOf(names []string, number uint32) string {
	if int(number) < len(names) {
		return names[number]
	}
	return fmt.Sprint(number)
}

func first[T any](s []T) *T {
	if len(s) == 0 {
		return nil
	}
	return &s[0]
}

// whole returns the value as an int32_t of C.
func whole(op, field string, value, least int) (C.int32_t, error) {
	if value < least || value > math.MaxInt32 {
		return 0, invalid(op, field, "%s is %d: must be a whole number from %d to %d", field, value, least, math.MaxInt32)
	}
	return C.int32_t(value), nil
}

func statsOf(read func(*C.takt_stat, C.size_t) C.size_t) map[string]uint64 {
	stats := make([]C.takt_stat, read(nil, 0))
	n := read(first(stats), C.size_t(len(stats)))
	to := make(map[string]uint64, n)
	for _, s := range stats[:min(int(n), len(stats))] {
		to[C.GoString(s.name)] = uint64(s.value)
	}
	return to
}
