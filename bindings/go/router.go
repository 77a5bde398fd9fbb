package takt

/*
#include <stdlib.h>
#include "takt/c/takt.h"
*/
import "C"

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unsafe"
)

// RouterOptions are described in docs/howto/router.md. The zero value gives takt's defaults.
type RouterOptions struct {
	Policy          string // order of waiting requests; empty: fcfs
	Placement       string // such as "least_loaded(waiting_weight=2)"; empty: least_loaded
	Window          int    // waiting requests examined after the first one that must wait; 0: the default
	MaxOutstanding  int64  // maximum requests per instance; 0: the instance's own limit only
	ReserveRequests int64  // storage allocated at creation; 0: the default
	HashSeed        uint64
	FailUnfit       bool    // fail requests that are too large for every instance that is up
	Budgets         Budgets // time that a call of a declared workflow gets
	Blown           Blown   // budget of a call if no time is left

	DecodePlacement string  // placement among decode instances; empty: as Placement
	LocalTokens     int     // a decode instance runs a whole request with at most this many uncached prompt tokens
	NeverSooner     bool    // do not run a whole request on a decode instance because its prefill would end sooner there
	KVLinkGBs       float64 // KV bandwidth between two instances [1e9 bytes/s]; 0: the default

	// Maximum requests that wait in the router and were never placed, and their prompt tokens; 0: unlimited; below 0:
	// none. A further request fails with FailShed (docs/howto/bounds.md).
	MaxWaiting, MaxWaitingTokens int64
	// The same two limits for each tenant. A further request fails with FailQuota.
	TenantMaxWaiting, TenantMaxWaitingTokens int64
	ClassLimits                              []ClassLimits // limits of ranges of priorities, in ascending order
	MaxHeld                                  time.Duration // longest wait for earlier stages of a workflow; 0: unlimited
	MaxDown                                  time.Duration // time without an instance before requests fail; 0: unlimited
}

// ClassLimits are the limits of the requests from Priority on, up to the next class.
type ClassLimits struct {
	Priority                     int32
	MaxWaiting, MaxWaitingTokens int64         // as in RouterOptions
	MaxWait                      time.Duration // longest wait of a request that was never placed; 0: unlimited
}

func (l ClassLimits) String() string {
	count := func(limit int64) string {
		if limit == 0 {
			return ""
		}
		return fmt.Sprint(max(limit, 0))
	}
	return fmt.Sprintf("%d:%s:%s:%s", l.Priority, count(l.MaxWaiting), count(l.MaxWaitingTokens),
		strconv.FormatFloat(l.MaxWait.Seconds(), 'f', -1, 64))
}

// Budgets divide the remaining time of a declared workflow among its calls.
type Budgets uint32

const (
	NoBudgets    Budgets = C.TAKT_BUDGETS_NONE  // requests keep their deadlines
	BudgetsShare Budgets = C.TAKT_BUDGETS_SHARE // the call's share of the remaining cost, of the remaining time
	BudgetsWhole Budgets = C.TAKT_BUDGETS_WHOLE // all remaining time
)

// Blown is the budget of a call if no time is left.
type Blown uint32

const (
	BlownLateness  Blown = C.TAKT_BLOWN_LATENESS  // the whole negative rest
	BlownPublished Blown = C.TAKT_BLOWN_PUBLISHED // the call's share of the rest
	BlownZero      Blown = C.TAKT_BLOWN_ZERO
)

// CostModel is the time of an iteration, as a linear fit to an engine's served iterations [ms].
type CostModel struct {
	ConstantMs      float64
	PerPrefillMs    float64 // per prefill token
	PerDecodeMs     float64 // per decoding sequence
	PerContextMs    float64 // per token of the contexts of decoding sequences
	PerSampleMs     float64 // per sampling sequence
	KVBytesPerToken float64 // on all its GPUs; 0: unknown
	HostLinkGBs     float64 // bandwidth to host memory per GPU [1e9 bytes/s]; 0: the default
	TP              int     // GPUs of an instance; 0: 1
}

// Router assigns requests to engines, and orders the waiting ones.
type Router struct {
	handle
	seen     unsafe.Pointer // transitions of the present call
	observer func(Transition)
}

func (r *Router) p() *C.takt_router { return (*C.takt_router)(r.c) }

// NewRouter creates a router. Its [Error] names invalid options.
func NewRouter(options RouterOptions) (*Router, error) {
	const op = "NewRouter"
	var c C.takt_router_options
	C.takt_router_options_init(&c, C.sizeof_takt_router_options)
	if options.Window != 0 {
		window, err := whole(op, "Window", options.Window, 0)
		if err != nil {
			return nil, err
		}
		c.window = window
	}
	if options.MaxOutstanding != 0 {
		c.max_outstanding = C.int64_t(options.MaxOutstanding)
	}
	if options.ReserveRequests != 0 {
		c.reserve_requests = C.int64_t(options.ReserveRequests)
	}
	local, err := whole(op, "LocalTokens", options.LocalTokens, 0)
	if err != nil {
		return nil, err
	}
	c.local_tokens = local
	if options.NeverSooner {
		c.local_if_sooner = 0
	}
	if options.KVLinkGBs != 0 {
		c.kv_link_gb_s = C.double(options.KVLinkGBs)
	}
	c.hash_seed, c.fail_unfit = C.uint64_t(options.HashSeed), flag(options.FailUnfit)
	c.budgets, c.blown = C.uint32_t(options.Budgets), C.uint32_t(options.Blown)
	for _, field := range [...]struct {
		limit int64
		to    *C.int64_t
	}{{options.MaxWaiting, &c.max_waiting}, {options.MaxWaitingTokens, &c.max_waiting_tokens},
		{options.TenantMaxWaiting, &c.tenant_max_waiting}, {options.TenantMaxWaitingTokens, &c.tenant_max_waiting_tokens}} {
		if field.limit != 0 {
			*field.to = C.int64_t(max(field.limit, 0))
		}
	}
	c.max_held, c.max_down = C.double(options.MaxHeld.Seconds()), C.double(options.MaxDown.Seconds())
	var classes []string
	for _, limits := range options.ClassLimits {
		classes = append(classes, limits.String())
	}
	for _, field := range [...]struct {
		name, value string
		to          **C.char
	}{{"Policy", options.Policy, &c.policy}, {"Placement", options.Placement, &c.placement},
		{"DecodePlacement", options.DecodePlacement, &c.decode_placement},
		{"ClassLimits", strings.Join(classes, ";"), &c.class_limits}} {
		if field.value == "" {
			continue // takt's default
		}
		name, err := text(op, field.name, field.value)
		if err != nil {
			return nil, err
		}
		defer C.free(unsafe.Pointer(name))
		*field.to = name
	}
	var told C.takt_error
	C.takt_error_init(&told, C.sizeof_takt_error)
	var made *C.takt_router
	if err := failure(op, C.takt_router_create(&c, &made, &told), &told); err != nil {
		return nil, err
	}
	seen := newSeen()
	r := &Router{seen: seen}
	r.open(unsafe.Pointer(made), func(c unsafe.Pointer) {
		C.takt_router_destroy((*C.takt_router)(c))
		freeSeen(seen)
	})
	return r, nil
}

// On reports events, in this order. If one of them is invalid, On has no effect. An event about an unknown request is
// no error: the router counts it, and LastFault describes the last one.
func (r *Router) On(now Time, events ...Event) error {
	defer r.leave()
	if err := r.enter("On"); err != nil || len(events) == 0 {
		return err
	}
	r.room.reset()
	c := take[C.takt_event](r.room, len(events))
	for i, e := range events {
		if err := e.put("On", r.room, &c[i]); err != nil {
			return err
		}
	}
	return failure("On", C.takt_router_on(r.p(), &c[0], C.size_t(len(c)), C.int64_t(now)), nil)
}

// Placement is a request and the instance that runs it. Life is the instance's life; set it in events about this
// placement.
type Placement struct{ Request, Instance, Life uint64 }

// WorkflowEnd is a workflow that has ended. How is "completed", "cancelled" or "silent"; for "silent", Stage is the
// first stage that had not ended.
type WorkflowEnd struct {
	Workflow               uint64
	How                    string
	Arrival, End, Deadline Time
	Stage                  uint32
}

// WorkflowFault is an invalid input about a workflow. It had no effect.
type WorkflowFault struct {
	Kind     int
	Workflow uint64
	Stage    uint32
	Site     uint64
}

// Routing is the result of Place. WakeAt is the time to place again if no event occurs before. With instances for
// prefill and for decode, apply Withdrawn, then Placed, then Decodes. Withdrawn: decode instances that no longer get a
// request. Decodes: instances that take requests over after their prefill; the last of a request counts.
type Routing struct {
	Placed    []Placement
	Failed    []Failure
	Ended     []WorkflowEnd
	Faults    []WorkflowFault
	WakeAt    Time
	Decodes   []Placement
	Withdrawn []Placement
}

var hows = []string{"completed", "cancelled", "silent"}

// Place assigns waiting requests to instances, as far as they have room.
func (r *Router) Place(now Time) (Routing, error) {
	defer r.leave()
	if err := r.enter("Place"); err != nil {
		return Routing{}, err
	}
	c := C.takt_routing{struct_size: C.sizeof_takt_routing}
	if err := failure("Place", C.takt_router_place(r.p(), C.int64_t(now), &c), nil); err != nil {
		return Routing{}, err
	}
	to := Routing{WakeAt: Time(c.wake_at)}
	placements := func(c []C.takt_placement) (to []Placement) {
		for _, p := range c {
			to = append(to, Placement{uint64(p.request), uint64(p.instance), uint64(p.life)})
		}
		return to
	}
	to.Placed = placements(unsafe.Slice(c.placed, c.n_placed))
	to.Decodes = placements(unsafe.Slice(c.decodes, c.n_decodes))
	to.Withdrawn = placements(unsafe.Slice(c.withdrawn, c.n_withdrawn))
	for _, f := range unsafe.Slice(c.failed, c.n_failed) {
		to.Failed = append(to.Failed, Failure{
			uint64(f.request), FailReason(f.reason), uint16(f.code),
			time.Duration(f.retry_after_ms) * time.Millisecond,
		})
	}
	for _, e := range unsafe.Slice(c.ended, c.n_ended) {
		how := nameOf(hows, uint32(e.how))
		to.Ended = append(to.Ended,
			WorkflowEnd{uint64(e.workflow), how, Time(e.arrival), Time(e.end), Time(e.deadline), uint32(e.stage)})
	}
	for _, f := range unsafe.Slice(c.faults, c.n_faults) {
		to.Faults = append(to.Faults, WorkflowFault{int(f.kind), uint64(f.workflow), uint32(f.stage), uint64(f.site)})
	}
	return to, nil
}

// Score writes the placement's score of each instance for a request, which may be unknown to the router. Larger is
// better; NaN: not available now. scores must have the length of instances. Score returns the number of
// instances with room, and places nothing.
func (r *Router) Score(request *Request, instances []uint64, now Time, scores []float64) (int, error) {
	const op = "Score"
	if len(scores) != len(instances) {
		return 0, invalid(op, "scores", "scores has %d elements for %d instances", len(scores), len(instances))
	}
	defer r.mu.Unlock()
	if err := r.enter(op); err != nil || len(instances) == 0 {
		return 0, err
	}
	r.room.reset()
	c := &take[C.takt_request](r.room, 1)[0]
	if err := request.put(op, r.room, c); err != nil {
		return 0, err
	}
	var possible C.size_t
	err := failure(op, C.takt_router_score(r.p(), c, (*C.uint64_t)(&instances[0]), C.size_t(len(instances)), C.int64_t(now),
		(*C.double)(&scores[0]), &possible), nil)
	return int(possible), err
}

// PlaceAt places a waiting request on an instance of the host's choice. [ErrInvalid] if the request is not waiting or
// the instance is not up; nothing changes then.
func (r *Router) PlaceAt(request, instance uint64, now Time) error {
	defer r.leave()
	if err := r.enter("PlaceAt"); err != nil {
		return err
	}
	return failure("PlaceAt", C.takt_router_place_at(r.p(), C.uint64_t(request), C.uint64_t(instance), C.int64_t(now)), nil)
}

// PlaceApart is PlaceAt on a prefill instance. The decode instance takes the request over.
func (r *Router) PlaceApart(request, instance, decode uint64, now Time) error {
	defer r.leave()
	if err := r.enter("PlaceApart"); err != nil {
		return err
	}
	return failure("PlaceApart", C.takt_router_place_apart(r.p(), C.uint64_t(request), C.uint64_t(instance),
		C.uint64_t(decode), C.int64_t(now)), nil)
}

// SetOptions changes options while requests wait or run, for example "max_waiting=500,local_tokens=0"
// (takt_router_set_options in takt.h lists those that may change). The next Place uses them. Its [Error] names an option
// that is unknown, invalid or cannot change; then nothing changes.
func (r *Router) SetOptions(changes string, now Time) error {
	defer r.leave()
	if err := r.enter("SetOptions"); err != nil {
		return err
	}
	c, err := text("SetOptions", "changes", changes)
	if err != nil {
		return err
	}
	defer C.free(unsafe.Pointer(c))
	var told C.takt_error
	C.takt_error_init(&told, C.sizeof_takt_error)
	return failure("SetOptions", C.takt_router_set_options(r.p(), c, C.int64_t(now), &told), &told)
}

// InstanceOf returns the instance of a request; 0: it is waiting or unknown.
func (r *Router) InstanceOf(request uint64) uint64 {
	defer r.mu.Unlock()
	var instance C.uint64_t
	if r.enter("InstanceOf") == nil {
		C.takt_router_instance_of(r.p(), C.uint64_t(request), &instance)
	}
	return uint64(instance)
}

// AddProfile returns the profile id for instances of one model, GPU and parallelism. Equal names have one id.
// Placements and budgets that need a cost model assume 1 ms per token if it is nil. Its [Error] names an invalid number,
// or that the name has another cost model.
func (r *Router) AddProfile(name string, cost *CostModel) (uint64, error) {
	defer r.mu.Unlock()
	if err := r.enter("AddProfile"); err != nil {
		return 0, err
	}
	c, err := text("AddProfile", "name", name)
	if err != nil {
		return 0, err
	}
	defer C.free(unsafe.Pointer(c))
	r.room.reset()
	var model *C.takt_cost_model
	if cost != nil {
		model = &take[C.takt_cost_model](r.room, 1)[0]
		C.takt_cost_model_init(model, C.sizeof_takt_cost_model)
		if cost.TP != 0 {
			if model.tp, err = whole("AddProfile", "TP", cost.TP, 1); err != nil {
				return 0, err
			}
		}
		if cost.HostLinkGBs != 0 {
			model.host_link_gb_s = C.double(cost.HostLinkGBs)
		}
		model.constant_ms, model.per_prefill_ms = C.double(cost.ConstantMs), C.double(cost.PerPrefillMs)
		model.per_decode_ms, model.per_context_ms = C.double(cost.PerDecodeMs), C.double(cost.PerContextMs)
		model.per_sample_ms, model.kv_bytes_per_token = C.double(cost.PerSampleMs), C.double(cost.KVBytesPerToken)
	}
	var told C.takt_error
	C.takt_error_init(&told, C.sizeof_takt_error)
	var profile C.uint64_t
	err = failure("AddProfile", C.takt_router_add_profile(r.p(), c, model, &profile, &told), &told)
	return uint64(profile), err
}

// AgentRank is a learned rank of an agent.
type AgentRank struct {
	Agent      uint64
	Rank       float64 // a smaller rank runs sooner
	ExecutionS float64 // expected time that one call of the agent runs [s]; 0: unknown
	StagesLeft int     // calls until the end of the workflow, including this one; 0: unknown
}

func (a AgentRank) put(op string, c *C.takt_agent_rank) (err error) {
	c.agent, c.rank, c.execution_s = C.uint64_t(a.Agent), C.double(a.Rank), C.double(a.ExecutionS)
	c.stages_left, err = whole(op, "StagesLeft", a.StagesLeft, 0)
	return err
}

// RankAgents sets the ranks of agents, each once, and the rank of all other agents. Policies and placements that rank
// by agent use them.
func (r *Router) RankAgents(ranks []AgentRank, otherwise AgentRank, now Time) error {
	defer r.mu.Unlock()
	if err := r.enter("RankAgents"); err != nil {
		return err
	}
	r.room.reset()
	c := take[C.takt_agent_rank](r.room, len(ranks))
	for i, rank := range ranks {
		if err := rank.put("RankAgents", &c[i]); err != nil {
			return err
		}
	}
	epoch := &take[C.takt_epoch](r.room, 1)[0]
	*epoch = C.takt_epoch{struct_size: C.sizeof_takt_epoch, fields: C.TAKT_EPOCH_AGENT_RANKS, ranks: first(c),
		n_ranks: C.size_t(len(c))}
	if err := otherwise.put("RankAgents", &epoch.otherwise); err != nil {
		return err
	}
	return failure("RankAgents", C.takt_router_epoch(r.p(), epoch, C.int64_t(now)), nil)
}

// SetAlpha sets alpha of workload_balance, 0 to 1.
func (r *Router) SetAlpha(alpha float64, now Time) error {
	defer r.mu.Unlock()
	if err := r.enter("SetAlpha"); err != nil {
		return err
	}
	epoch := C.takt_epoch{struct_size: C.sizeof_takt_epoch, fields: C.TAKT_EPOCH_ALPHA, alpha: C.double(alpha)}
	if C.takt_router_epoch(r.p(), &epoch, C.int64_t(now)) != C.TAKT_OK {
		return invalid("SetAlpha", "alpha", "alpha is %v: must be from 0 to 1", alpha)
	}
	return nil
}

// RouterCounts are current numbers of instances that are up and of requests. SetAside: waiting requests that are too
// large for every instance that is up.
type RouterCounts struct {
	Instances                int
	Alive, Waiting, SetAside int64
}

// Count returns the current numbers.
func (r *Router) Count() RouterCounts {
	defer r.mu.Unlock()
	c := C.takt_router_counts{struct_size: C.sizeof_takt_router_counts}
	if r.enter("Count") == nil {
		C.takt_router_count(r.p(), &c)
	}
	return RouterCounts{int(c.instances), int64(c.alive), int64(c.waiting), int64(c.set_aside)}
}

// Stats returns the counters since creation, by name: docs/reference/stats.md.
func (r *Router) Stats() map[string]uint64 {
	defer r.mu.Unlock()
	if r.enter("Stats") != nil {
		return nil
	}
	return statsOf(func(to *C.takt_stat, n C.size_t) C.size_t { return C.takt_router_stats(r.p(), to, n) })
}

// LastFault returns the most recent fault. Count 0: no faults.
func (r *Router) LastFault() Fault {
	defer r.mu.Unlock()
	c := C.takt_fault{struct_size: C.sizeof_takt_fault}
	if r.enter("LastFault") == nil {
		C.takt_router_last_fault(r.p(), &c)
	}
	return Fault{int(c.kind), uint64(c.count), uint64(c.request), Time(c.at), int64(c.received), int64(c.expected)}
}
