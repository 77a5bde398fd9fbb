"""Scheduling of whole steps (L2): events in, a plan out, then its results back in."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Protocol, Union

from . import _abi as abi
from . import _arrays
from ._library import (
    check,
    changed,
    check_options,
    Single,
    chosen,
    encoded,
    field_types,
    flag,
    initialised,
    items,
    last_fault,
    lib,
    moment,
    names,
    read_stats,
    real,
    text,
    whole,
)
from ._metrics import Measured
from .errors import Fault, FaultError, OptionError, RequestError, TaktError
from .requests import (
    REVISED,
    Filled,
    KeyFunction,
    NextCall,
    Request,
    revised_by,
    set_next_call,
)

__all__ = [
    "AgentRank",
    "Dropped",
    "Failure",
    "KvHit",
    "KvOracle",
    "KvWish",
    "Limits",
    "Move",
    "Plan",
    "PlanEntry",
    "Preemption",
    "Scheduler",
    "replay_log",
]

_I64 = (-(2**63), 2**63 - 1)
_U64, _I32, _COUNT = (0, 2**64 - 1), (-(2**31), 2**31 - 1), (0, 2**31 - 1)
_IDLE = names("TAKT_IDLE_BUSY")
_FAIL = names("TAKT_FAIL_INVALID")
_FAIL_NUMBERS = _FAIL.numbers()
_KV = names("TAKT_KV_KEEP")
_CACHE = names("TAKT_CACHE_HOLD")
_TURNS = names("TAKT_TURN_UNKNOWN").numbers()
_REQUEST_STATUS = names("TAKT_REQUEST_UNKNOWN")
_WAITS_FOR = names("TAKT_WAITS_FOR_NOTHING")
_CHOICES: dict[str, dict[str, int]] = {
    "kv": names("TAKT_KV_MODE_NONE").numbers(),
    "shed": names("TAKT_SHED_NEWEST").numbers(),
    "order": names("TAKT_ORDER_RUNNING_FIRST").numbers(),
    "preempt": names("TAKT_PREEMPT_OFF").numbers(),
    "preempt_action": _KV.numbers("drop", "out"),
    "victims": names("TAKT_VICTIMS_RANK").numbers(),
}
_REALS = (
    "kv_watermark",
    "preempt_margin",
    "pin_share",
    "max_resume_wait",
    "max_blocked",
    "max_paused",
    "reserve_output",
    "token_pace",
    "tenant_kv_share",
)
_RANGES: dict[str, tuple[int, int]] = {
    **dict.fromkeys(("max_running", "kv_block_tokens", "kv_blocks", "cpu_blocks", "prefix_cpu_blocks"), _I32),
    **dict.fromkeys(("admission_window", "max_step_tokens", "max_step_seqs", "prefix_wait", "least_prefill"), _I32),
    **dict.fromkeys(("max_waiting", "max_waiting_tokens", "reserve_requests"), _I64),
    **dict.fromkeys(("tenant_max_waiting", "tenant_max_waiting_tokens"), _I64),
    **dict.fromkeys(("first_step", "hash_seed", "record_flush_bytes"), _U64),
}
# Layout of takt_plan: struct_size, idle, id, run, n_run, moves ... n_released, wake_at, tokens, reserved, dropped,
# n_dropped, hints, n_hints, host_chunks, n_host_chunks. One call unpacks all of it; a test compares it with the struct.
_PLAN = struct.Struct("=IIQQQQQQQQQQQqiIQQQQQQ")
_PLANS_KEPT = 8  # more than the plans in flight, so that no array is reused before its plan's results are committed


@dataclass(frozen=True)
class Limits:
    """Limits of an iteration. None: takt's default.

    - ``tokens``: maximum of prefill and decode together
    - ``max_seqs``: maximum running sequences
    - ``prefill_tokens``: maximum prefill within ``tokens``
    - ``chunk_tokens``: longest prefill chunk of one request
    - ``adapters``: maximum distinct adapters
    - ``swap_out``, ``swap_in``: maximum KV blocks that start to move
    - ``chunk_align``: prefill chunks end at multiples of this number of tokens
    """

    tokens: int | None = None
    max_seqs: int | None = None
    prefill_tokens: int | None = None
    chunk_tokens: int | None = None
    adapters: int | None = None
    swap_out: int | None = None
    swap_in: int | None = None
    chunk_align: int | None = None


def _limits_of(limits: Limits) -> abi.takt_limits:
    if not isinstance(limits, Limits):
        raise RequestError("limits", limits, "must be takt.Limits")
    told = initialised(abi.takt_limits)
    for field in fields(limits):
        value = getattr(limits, field.name)
        if value is not None:
            setattr(told, field.name, whole(f"limits.{field.name}", value, _I32))
    return told


class PlanEntry(NamedTuple):
    """Compute ``tokens`` known tokens of a request, starting at ``position`` of its context, and verify ``speculative``
    drafts.

    ``lane`` is the scheduler's row; it does not change while the request runs.
    """

    request: int
    lane: int
    tokens: int
    position: int
    speculative: int
    flags: int

    @property
    def samples(self) -> bool:
        """True if the entry ends at the last known token, so that it yields a new one per sequence."""
        return bool(self.flags & abi.TAKT_ENTRY_SAMPLES)

    @property
    def prefill(self) -> bool:
        """True if the entry computes known tokens (prefill)."""
        return bool(self.flags & abi.TAKT_ENTRY_PREFILL)

    @property
    def admitted(self) -> bool:
        """True in the first step since the request left the waiting queue."""
        return bool(self.flags & abi.TAKT_ENTRY_ADMITTED)


class Move(NamedTuple):
    """KV blocks [first, first + blocks) for the host to copy; report the end by `Scheduler.move_done`. "out": to host
    memory; "in": back to the GPU; "fetch": the beginning of a prompt, from chunks kept in host memory."""

    id: int
    request: int
    action: str
    first: int
    blocks: int


class Preemption(NamedTuple):
    """A running request that was preempted. ``action``: "drop" drops its KV, "out" swaps it out."""

    request: int
    action: str


class Failure(NamedTuple):
    """A request whose failure the host reports to the client. ``reason`` is a name such as "never_fits". ``code`` is
    the host's own code if the reason is "host". ``retry_after_ms``: time after which the client should try again, if
    the reason is "shed" or "quota"; otherwise 0."""

    request: int
    reason: str
    code: int
    retry_after_ms: int = 0

    @property
    def http_status(self) -> int:
        """The HTTP status: 429 if the client should come back, 503 if no instance serves, 504 after a time limit."""
        return int(lib.takt_http_status(_FAIL_NUMBERS[self.reason]))


class Dropped(NamedTuple):
    """A prefix chunk that was evicted from the prefix cache. A host that finds blocks by this hash must forget it."""

    hash: int
    blocks: int


class CacheHint(NamedTuple):
    """A hint about a workflow branch's KV, for a host with its own prefix cache.

    - ``action``: "hold", "drop" or "fetch"
    - ``priority``: 15 to 55; below 35 the KV is worth less than the KV evicted for it
    - ``until``: time [ns]; "hold": when other KV becomes worth more; "fetch": when the next turn is expected
    """

    action: str
    workflow: int
    branch: int
    priority: int
    until: int
    tokens: int


class HostChunk(NamedTuple):
    """A prefix chunk to copy to host memory (``keep``), or to forget there."""

    hash: int
    blocks: int
    keep: bool


class KvHit(NamedTuple):
    """A query about a waiting request: how many tokens of its prompt does the host's prefix cache hold now?"""

    request: int
    prompt_tokens: int
    prefix_hashes: list[int]
    prefix_block_tokens: int


class KvWish(NamedTuple):
    """A request for whole blocks for ``want`` tokens of context; it holds blocks for ``have`` tokens."""

    request: int
    have: int
    want: int
    admission: bool


class KvOracle(Protocol):
    """KV memory that the host counts. The call that queried the oracle raises its exceptions; a failed query grants
    nothing."""

    block_tokens: int

    def snapshot(self) -> tuple[int, int, int]:
        """Returns three numbers of blocks: total, usable now, and usable after `Scheduler.kv_freed`."""

    def cached(self, hits: list[KvHit]) -> Sequence[int]:
        """Returns the tokens of each prompt that the prefix cache holds."""

    def reserve(self, step: int, wishes: list[KvWish]) -> Sequence[bool | None]:
        """Returns an answer per wish, most important first: True granted, False refused for now, None never
        possible."""

    def release(self, request: int, action: str) -> int:
        """Takes back the KV of a request; returns the number of blocks usable now."""


@dataclass(frozen=True)
class AgentRank:
    """``rank``: a smaller rank runs sooner. ``execution_s``: expected time that one call of the agent runs [s]; 0:
    unknown. ``stages_left``: calls until the end of the workflow, including this one; 0: unknown."""

    rank: float
    execution_s: float = 0.0
    stages_left: int = 0


def _array(kind: type[Any], address: int, n: int) -> Any:
    return (kind * n).from_address(address)


class Plan(Single):
    """The work of the next iteration, and other actions for the host.

    ``run``: an array of shape (n,) with the columns request, lane, tokens, position, speculative and flags. It is a
    structured numpy array if numpy is installed, otherwise a ctypes array whose elements have these fields. It shares a
    buffer of the scheduler, which later plans reuse after this plan's results are in. ``idle``: the reason why the plan
    is empty; "busy": it is not empty. ``wake_at``: time to plan again if no event occurs before [ns]. ``tokens``: total
    of all entries. ``moves``, ``preempted``, ``failed``, ``released``, ``dropped``, ``hints``, ``host_chunks``: lists,
    mostly empty. ``fault``: the fault in the results passed with the call; None: no fault.
    """

    __slots__ = (
        "id", "idle", "run", "wake_at", "tokens", "moves", "preempted", "failed", "released", "dropped", "hints", "host_chunks", "fault", "_buffer"
    )  # fmt: skip

    id: int
    idle: str
    run: Any
    wake_at: int
    tokens: int
    moves: list[Move]
    preempted: list[Preemption]
    failed: list[Failure]
    released: list[int]
    dropped: list[Dropped]
    hints: list[CacheHint]
    host_chunks: list[HostChunk]
    fault: Fault | None
    _buffer: _arrays.Buffer

    def __len__(self) -> int:
        """Returns the number of entries; a plan without entries runs nothing."""
        return len(self.run)

    def entries(self) -> list[PlanEntry]:
        """Returns `run` as tuples."""
        return [PlanEntry(*each) for each in _arrays.tuples(self.run)]

    @property
    def requests(self) -> list[int]:
        """The requests that the plan runs."""
        if _arrays.HAS_NUMPY:
            found: list[int] = self.run["request"].tolist()
            return found
        return [entry.request for entry in self.run]

    def results(self) -> Any:
        """Returns the expected results. Change the rows of requests with another outcome, then pass them to
        `Scheduler.step` or `commit`.

        An array of shape (n,) with the columns request, lane, tokens (new ones per sequence), drafts, and flags
        (`takt.FINISHED`, `takt.FAILED`). The scheduler owns this buffer, one per plan.
        """
        return self._buffer.results(len(self.run))

    def __repr__(self) -> str:
        if not len(self):
            return f"<takt.Plan idle={self.idle!r}>"
        return f"<takt.Plan {self.id}: {len(self)} requests, {self.tokens} tokens>"


Now = Union[int, None]


class Scheduler(Measured):
    """Decides, at every iteration of an engine, which requests run next (level L2).

    The host reports events by methods (`arrive`, `cancel`, ...). Once per iteration it calls `step`, which takes the
    results of the previous plan and returns the next plan. Times are nanoseconds of the host's clock; ``now`` defaults
    to `time.monotonic_ns()`. An invalid event, such as an arrival with an id in use, is ignored and raises
    `FaultError`. If ``strict`` is False it raises nothing, and `last_fault` describes it.

    Options (docs/howto/embedding.md explains each): ``policy``: for example ``"aged(stjf,threshold=100)"``; None:
    takt's default. ``key``, ``key_name``: a host's own order, as in `Queue`. ``pause``: for example
    ``"infercept(...)"``; None: keep KV during tool calls. ``kv``: "ledger" (takt counts ``kv_blocks`` of
    ``kv_block_tokens``), "oracle" (the host counts, through ``oracle``) or "none". ``cpu_blocks``: blocks of host
    memory for swapped KV. ``kv_watermark``: share of the KV blocks that admissions leave free. ``prefix_cache``;
    ``max_running``: rows. ``max_waiting``, ``shed`` ("newest", "worst"). ``order`` ("running_first", "prefill_first").
    ``preempt`` ("off", "on_memory", "by_rank"), ``preempt_action`` ("drop", "out"), ``preempt_margin``. Bounds of
    waiting requests (docs/howto/bounds.md): ``max_waiting``, ``max_waiting_tokens``, ``tenant_max_waiting``,
    ``tenant_max_waiting_tokens``, and ``class_limits``, for example ``"0:100:50000:30;10::200000:600"``. Time limits
    in seconds: ``max_resume_wait``, ``max_blocked``, ``max_paused``. Against preemptions: ``reserve_output``,
    ``victims`` ("rank", "least_lost"), ``begun_first``. ``tenant_kv_share``: share of the KV cache that the
    running requests of a tenant may hold. ``record``: a
    function that receives the log in pieces of bytes. None: takt's default.

    ``last_plan`` is the newest plan, even if the call that made it raised an exception of a key, an oracle or
    ``record``.
    """

    _kind = "scheduler"

    def __init__(
        self,
        policy: str | None = None,
        *,
        key: KeyFunction | None = None,
        key_name: str | None = None,
        pause: str | None = None,
        kv: str | None = None,
        kv_blocks: int | None = None,
        kv_block_tokens: int | None = None,
        cpu_blocks: int | None = None,
        kv_watermark: float | None = None,
        prefix_cache: bool = False,
        oracle: KvOracle | None = None,
        max_running: int | None = None,
        max_waiting: int | None = None,
        reserve_requests: int | None = None,
        shed: str | None = None,
        order: str | None = None,
        preempt: str | None = None,
        preempt_action: str | None = None,
        preempt_margin: float | None = None,
        admission_window: int | None = None,
        first_step: int | None = None,
        hash_seed: int | None = None,
        max_step_tokens: int | None = None,
        max_step_seqs: int | None = None,
        pin_share: float | None = None,
        prefix_cpu_blocks: int | None = None,
        prefix_wait: int | None = None,
        max_waiting_tokens: int | None = None,
        tenant_max_waiting: int | None = None,
        tenant_max_waiting_tokens: int | None = None,
        class_limits: str | None = None,
        max_resume_wait: float | None = None,
        max_blocked: float | None = None,
        max_paused: float | None = None,
        reserve_output: float | None = None,
        victims: str | None = None,
        begun_first: bool = False,
        token_pace: float | None = None,
        least_prefill: int | None = None,
        tenant_kv_share: float | None = None,
        limits: Limits | None = None,
        record: Callable[[bytes], object] | None = None,
        record_flush_bytes: int | None = None,
        record_plans: bool = False,
        strict: bool = True,
    ) -> None:
        super().__init__()
        given = dict(locals())
        options = initialised(abi.takt_scheduler_options)
        options.policy, options.pause = encoded("policy", policy), encoded("pause", pause)
        for name, bounds in _RANGES.items():
            if given[name] is not None:
                setattr(options, name, whole(name, given[name], bounds))
        options.class_limits = encoded("class_limits", class_limits)
        for name in _REALS:
            if given[name] is not None:
                setattr(options, name, real(name, given[name]))
        if kv is None and oracle is not None:
            given["kv"] = "oracle"
        for name, choices in _CHOICES.items():
            value = given[name]
            if value is None:
                continue
            setattr(options, name, chosen(name, value, choices))
        options.prefix_cache = flag("prefix_cache", prefix_cache)
        options.begun_first = flag("begun_first", begun_first)
        options.record_plans = flag("record_plans", record_plans)
        pointer = self._keep_key(key, key_name)
        if pointer is not None:
            options.key = pointer
        if oracle is not None:
            self._oracle = self._oracle_of(oracle)
            options.oracle = ctypes.pointer(self._oracle)
        if record is not None:
            options.record = self._sink = self._sink_of(record)
        self._create(ctypes.byref(options))
        self.strict = strict
        self._request = Filled()
        self._fault = abi.takt_fault(struct_size=ctypes.sizeof(abi.takt_fault))
        self._plan = abi.takt_plan(struct_size=ctypes.sizeof(abi.takt_plan))
        # Created once, to save conversions in each step.
        self._fault_at = ctypes.c_void_p(ctypes.addressof(self._fault))
        self._plan_at = ctypes.c_void_p(ctypes.addressof(self._plan))
        self._event_at = ctypes.c_void_p(ctypes.addressof(self._event))
        self._faults = 0
        self._rows = options.max_running
        self._buffers: list[_arrays.Buffer] = []
        self._newest: Plan | None = None
        self.last_plan: Plan | None = None
        self._in_flight: dict[int, tuple[Plan, _arrays.Buffer]] = {}
        self.limits = Limits() if limits is None else limits

    # ---- callbacks ----------------------------------------------------------------------------------------------

    def _sink_of(self, record: Callable[[bytes], object]) -> Any:
        def take(_: Any, address: int | None, n: int) -> None:
            try:
                with self._inside:
                    record(ctypes.string_at(address or 0, n))
            except BaseException as error:  # no exception may pass through C
                self._errors.append(error)

        return abi.takt_sink(take)

    def _oracle_of(self, oracle: KvOracle) -> abi.takt_kv_oracle:
        told = initialised(abi.takt_kv_oracle)
        kinds = field_types(abi.takt_kv_oracle)
        told.block_tokens = whole("oracle.block_tokens", oracle.block_tokens, (1, 2**20))

        def guarded(function: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any) -> Any:
                try:
                    with self._inside:
                        return function(*arguments)
                except BaseException as error:  # no exception may pass through C
                    self._errors.append(error)
                    return 0

            return call

        def snapshot(_: Any, address: int) -> None:
            into = abi.takt_kv_snapshot.from_address(address)
            into.total, into.free, into.pending = (whole("snapshot", each, _COUNT) for each in oracle.snapshot())

        def cached(_: Any, address: int, n: int) -> None:
            hits = _array(abi.takt_kv_hit, address, n)
            asked = [
                KvHit(h.request, h.prompt_tokens, h.prefix_hashes[: h.n_prefix_hashes], h.prefix_block_tokens)
                for h in hits
            ]
            for hit, tokens in zip(hits, oracle.cached(asked)):
                hit.tokens = whole("cached", tokens, _COUNT)

        def reserve(_: Any, step: int, address: int, n: int) -> None:
            wishes = _array(abi.takt_kv_wish, address, n)
            asked = [KvWish(w.request, w.have, w.want, bool(w.admission)) for w in wishes]
            for wish, granted in zip(wishes, oracle.reserve(step, asked)):
                wish.granted = 1 if granted else 0
                wish.refusal = abi.TAKT_KV_REFUSED_FOR_EVER if granted is None else abi.TAKT_KV_REFUSED_FOR_NOW

        def release(_: Any, request: int, action: int) -> int:
            return whole("release", oracle.release(request, _KV[action]), _COUNT)

        for name, function in (("snapshot", snapshot), ("cached", cached), ("reserve", reserve), ("release", release)):
            setattr(told, name, kinds[name](guarded(function)))
        return told

    # ---- events ---------------------------------------------------------------------------------------------------

    def _tell(self, events_at: Any, n: int, at: int, call: str, quiet: bool = False) -> Fault | None:
        check(lib.takt_scheduler_on(self._handle, events_at, n, at), call)
        if self._errors or self._key is not None:
            self._raise_errors()
        fault = self._new_fault()
        if fault is not None and self.strict and not quiet:
            raise FaultError(fault)
        return fault

    def _new_fault(self) -> Fault | None:
        lib.takt_scheduler_last_fault(self._handle, self._fault_at)
        if self._fault.count == self._faults:
            return None
        self._faults = self._fault.count
        return Fault.of(self._fault)

    def _fact(self, kind: int, now: Now, call: str, quiet: bool = False) -> Fault | None:
        at = self._filled_at(now, call)
        self._event.type = kind
        return self._tell(self._event_at, 1, at, call, quiet)

    def _of_request(self, kind: int, request: int, now: Now, call: str, quiet: bool = False) -> Fault | None:
        self._fresh(call).request = whole("request", request, _U64)
        return self._fact(kind, now, call, quiet)

    def _of_kv(self, kind: int, request: int, tokens: int, now: Now, call: str) -> None:
        told = self._fresh(call).kv
        told.request, told.tokens = whole("request", request, _U64), whole("tokens", tokens, _COUNT)
        self._fact(kind, now, call)

    def arrive(self, *requests: Request, now: Now = None) -> None:
        """Reports the arrival of requests, in order: all, or none if a field is invalid. `RequestError` names the
        field."""
        if len(requests) == 1:
            self._fresh("arrive").words[0] = self._request.fill(requests[0])
            self._fact(abi.TAKT_EVENT_ARRIVED, now, "arrive")
            return
        filled = [Filled() for _ in requests]
        events = (abi.takt_event * len(requests))()
        for event, each, request in zip(events, filled, requests):
            event.type = abi.TAKT_EVENT_ARRIVED
            event.u.words[0] = each.fill(request)
        self._tell(ctypes.addressof(events), len(requests), moment(now), "arrive")

    def revise(self, request: int, *, now: Now = None, **changes: Any) -> None:
        """Sets new values of a request: output_tokens, workflow_tokens_left, after, deadline, expires_at, priority,
        sequences (may only fall) or next_call, as in `Request`."""
        told = revised_by(changes, REVISED)
        into = self._fresh("revise").revised
        self._event.u.words[0] = self._request.fill(Request(request, **changes))
        into.fields = told
        self._fact(abi.TAKT_EVENT_REVISED, now, "revise")

    def cancel(self, request: int, now: Now = None) -> bool:
        """Ends a request; the first plan after its last step lists it in `released`. Returns False if the request is
        unknown."""
        return self._of_request(abi.TAKT_EVENT_CANCELLED, request, now, "cancel", quiet=True) is None

    def block(self, request: int, now: Now = None) -> None:
        """Stops a request from running until `unblock`."""
        self._of_request(abi.TAKT_EVENT_BLOCKED, request, now, "block")

    def unblock(self, request: int, tokens: int = 0, now: Now = None) -> None:
        """Lets a blocked request run again; the KV of the first ``tokens`` tokens of its context is present."""
        self._of_kv(abi.TAKT_EVENT_UNBLOCKED, request, tokens, now, "unblock")

    def not_ready(self, request: int, now: Now = None) -> None:
        """Reports that a planned request could not run; the scheduler plans it again."""
        self._of_request(abi.TAKT_EVENT_NOT_READY, request, now, "not_ready")

    def tool_called(
        self, request: int, *, expected: int = 0, expected_returned: int = 0, tool: int = 0, now: Now = None
    ) -> None:
        """Reports that a request waits for a tool. ``expected`` [ns] and ``expected_returned`` [tokens] are
        predictions; 0: unknown."""
        told = self._fresh("tool_called").tool_called
        told.request = whole("request", request, _U64)
        told.expected = whole("expected", expected, (0, 2**63 - 1))
        told.expected_returned = whole("expected_returned", expected_returned, _COUNT)
        told.tool = whole("tool", tool, _U64)
        self._fact(abi.TAKT_EVENT_TOOL_CALLED, now, "tool_called")

    def tool_returned(
        self, request: int, returned: int = 0, *, next_call: NextCall | None = None, now: Now = None
    ) -> None:
        """Reports a tool's answer; ``returned`` tokens join the context."""
        told = self._fresh("tool_returned").tool_returned
        told.request = whole("request", request, _U64)
        told.returned = whole("returned", returned, _COUNT)
        set_next_call(next_call, told.next_call)
        self._fact(abi.TAKT_EVENT_TOOL_RETURNED, now, "tool_returned")

    def turn_ended(
        self,
        workflow: int,
        *,
        branch: int = 0,
        why: str = "unknown",
        tool: int = 0,
        expected: int = 0,
        pin: int = 0,
        now: Now = None,
    ) -> None:
        """Reports the end of a turn of a workflow's branch. ``why``: what the branch waits for: "unknown", "tool",
        "user" or "children"; "over": nothing, so its own KV can go. ``expected``: time until its next request [ns];
        0: unknown. ``pin``: time from now during which its KV is evicted after all unpinned KV [ns], within
        ``pin_share``."""
        told = self._fresh("turn_ended").turn_ended
        told.workflow = whole("workflow", workflow, (1, 2**64 - 1))
        told.branch = whole("branch", branch, _U64)
        told.why = chosen("why", why, _TURNS)
        told.tool = whole("tool", tool, _U64)
        told.expected = whole("expected", expected, (0, 2**63 - 1))
        told.pin = whole("pin", pin, (0, 2**63 - 1))
        self._fact(abi.TAKT_EVENT_TURN_ENDED, now, "turn_ended")

    def turn_expected(self, workflow: int, when: int, *, branch: int = 0, now: Now = None) -> None:
        """Reports that the next request of an absent branch is expected at ``when`` [ns]. The branch's KV then counts
        as just used."""
        told = self._fresh("turn_expected").turn_expected
        told.workflow = whole("workflow", workflow, (1, 2**64 - 1))
        told.branch = whole("branch", branch, _U64)
        told.when = whole("when", when, (-(2**63), 2**63 - 1))
        self._fact(abi.TAKT_EVENT_TURN_EXPECTED, now, "turn_expected")

    def workflow_ended(self, workflow: int, *, cancelled: bool = False, now: Now = None) -> None:
        """Ends a workflow; the KV in the prefix cache that only it uses can go. takt learns nothing from a cancelled
        one."""
        told = self._fresh("workflow_ended").workflow_ended
        told.workflow = whole("workflow", workflow, (1, 2**64 - 1))
        told.cancelled = flag("cancelled", cancelled)
        self._fact(abi.TAKT_EVENT_WORKFLOW_ENDED, now, "workflow_ended")

    def move_done(self, move: int, *, failed: bool = False, now: Now = None) -> None:
        """Reports the end of a KV copy; if it ``failed``, the KV must be recomputed."""
        told = self._fresh("move_done").move_done
        told.move, told.failed = whole("move", move, _U64), flag("failed", failed)
        self._fact(abi.TAKT_EVENT_MOVE_DONE, now, "move_done")

    def kv_freed(self, request: int = 0, now: Now = None) -> None:
        """Reports that the oracle's pending blocks are usable now."""
        self._of_request(abi.TAKT_EVENT_KV_FREED, request, now, "kv_freed")

    def kv_arrived(self, request: int, tokens: int, now: Now = None) -> None:
        """Reports that KV of the first ``tokens`` tokens has arrived from elsewhere."""
        self._of_kv(abi.TAKT_EVENT_KV_ARRIVED, request, tokens, now, "kv_arrived")

    def kv_lost(self, request: int = 0, tokens: int = 0, now: Now = None) -> None:
        """Reports that KV from this token on is lost; request 0: of all requests."""
        self._of_kv(abi.TAKT_EVENT_KV_LOST, request, tokens, now, "kv_lost")

    def kv_pinned(self, request: int, now: Now = None) -> None:
        """Reports that the host keeps the KV of a request after its end."""
        self._of_request(abi.TAKT_EVENT_KV_PINNED, request, now, "kv_pinned")

    def drain(self, now: Now = None) -> None:
        """Stops the admission of new requests; those already here run to their end."""
        self._fresh("drain")
        self._fact(abi.TAKT_EVENT_DRAIN, now, "drain")

    # ---- steps --------------------------------------------------------------------------------------------------

    @property
    def limits(self) -> Limits:
        """Limits of every step that passes none."""
        return self._limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        told = _limits_of(limits)
        self._limits, self._limits_struct = limits, told
        self._limits_at = ctypes.c_void_p(ctypes.addressof(told))

    def _buffer(self) -> _arrays.Buffer:
        for buffer in self._buffers:
            if not buffer.busy:
                return buffer
        if len(self._buffers) == _PLANS_KEPT:
            raise TaktError(f"{_PLANS_KEPT} plans are waiting for their results; commit one first")
        self._buffers.append(_arrays.Buffer(self._rows))
        return self._buffers[-1]

    def step(
        self,
        results: Any = None,
        now: Now = None,
        *,
        finished: Iterable[int] = (),
        failed: Mapping[int, int] | None = None,
        tokens: Mapping[int, int] | None = None,
        drafts: Mapping[int, int] | None = None,
        limits: Limits | None = None,
    ) -> Plan:
        """Commits the results of the newest plan and returns the next plan: one call per iteration.

        ``results`` has a row for each entry (from `Plan.results`); an entry without a row made no progress. Without
        ``results`` every entry went as planned, with these exceptions:

        - ``finished``: requests that ended in this step
        - ``failed``: requests that failed, with a code of the host
        - ``tokens``: requests that yielded another number of tokens per sequence
        - ``drafts``: draft tokens to verify in the next step, by request
        """
        self._ready("step")
        committed = self._newest
        buffer = self._buffer()
        if committed is None:
            step_id, rows_at, n, flags, kept = 0, None, 0, 0, None
            if results is not None or finished or failed or tokens or drafts:
                raise TaktError("results without a plan: there is no plan to commit")
        else:
            step_id = committed.id
            rows_at, n, flags, kept = self._results(committed, results, finished, failed, tokens, drafts)
        limits_at = self._limits_at
        if limits is not None and limits is not self._limits:
            other = _limits_of(limits)
            limits_at = ctypes.c_void_p(ctypes.addressof(other))
        status = lib.takt_scheduler_step(
            self._handle,
            step_id,
            rows_at,
            n,
            flags,
            moment(now),
            limits_at,
            self._plan_at,
            buffer.entries_at,
            self._rows,
        )
        if status != abi.TAKT_OK:
            check(status, "step")
        if committed is not None:
            self._landed(committed.id)
        fault = self._new_fault() if n else None
        return self._told(buffer, fault)

    def plan(self, now: Now = None, limits: Limits | None = None) -> Plan:
        """Returns the next plan while the previous one may still run; pass the results of each plan to `commit`."""
        limits_at = self._limits_at
        if limits is not None and limits is not self._limits:
            other = _limits_of(limits)
            limits_at = ctypes.c_void_p(ctypes.addressof(other))
        self._ready("plan")
        buffer = self._buffer()
        status = lib.takt_scheduler_step(
            self._handle, 0, None, 0, 0, moment(now), limits_at, self._plan_at, buffer.entries_at, self._rows
        )
        check(status, "plan")
        return self._told(buffer, None)

    def commit(
        self,
        plan: Plan,
        results: Any = None,
        *,
        finished: Iterable[int] = (),
        failed: Mapping[int, int] | None = None,
        tokens: Mapping[int, int] | None = None,
        drafts: Mapping[int, int] | None = None,
        now: Now = None,
    ) -> Fault | None:
        """Commits the results of a plan, as in `step`. Returns the fault in them, or None; the valid rows take
        effect."""
        self._ready("commit")
        rows_at, n, flags, kept = self._results(plan, results, finished, failed, tokens, drafts)
        check(lib.takt_scheduler_commit(self._handle, plan.id, rows_at, n, flags, moment(now)), "commit")
        self._landed(plan.id)
        if self._newest is plan:
            self._newest = None
        self._raise_errors()
        return self._new_fault()

    def _landed(self, plan: int) -> None:
        found = self._in_flight.pop(plan, None)
        if found is not None:
            found[1].busy = 0

    def _results(
        self,
        plan: Plan,
        results: Any,
        finished: Iterable[int],
        failed: Mapping[int, int] | None,
        tokens: Mapping[int, int] | None,
        drafts: Mapping[int, int] | None,
    ) -> tuple[Any, int, int, Any]:
        if not isinstance(plan, Plan):
            raise RequestError("plan", plan, "must be a takt.Plan")
        if results is not None:
            if finished or failed or tokens or drafts:
                raise TaktError("pass either `results` or `finished`, `failed`, `tokens` and `drafts`, not both")
            if results is plan._buffer.newest:
                return plan._buffer.rows_at, plan._buffer.sliced, 0, None
            address, n, kept = _arrays.address_of(results, abi.takt_row_result)
            return address, n, 0, kept
        if not (finished or failed or tokens or drafts):
            return None, 0, abi.TAKT_REST_AS_PLANNED, None
        told: dict[int, list[int]] = {}  # request: tokens or None, drafts, flags

        def row(request: int) -> list[int]:
            request = whole("request", request, _U64)
            if request not in told:
                at = _arrays.index_of(plan.run, request)
                if at < 0:
                    raise RequestError("request", request, f"is not in plan {plan.id}")
                entry = plan.run[at]
                lane, entry_flags = (
                    (int(entry["lane"]), int(entry["flags"])) if _arrays.HAS_NUMPY else (entry.lane, entry.flags)
                )
                told[request] = [lane, 1 if entry_flags & abi.TAKT_ENTRY_SAMPLES else 0, 0, 0]
            return told[request]

        for request, count in items("tokens", tokens):
            row(request)[1] = whole("tokens", count, (0, 65535))
        for request, count in items("drafts", drafts):
            row(request)[2] = whole("drafts", count, (0, 255))
        for request in finished:
            row(request)[3] |= abi.TAKT_ROW_FINISHED
        for request, code in items("failed", failed):
            found = row(request)
            found[1], found[3] = whole("failed", code, (0, 65535)), abi.TAKT_ROW_FAILED
        array = (abi.takt_row_result * len(told))()
        for into, (request, (lane, count, draft, flags)) in zip(array, told.items()):
            into.request, into.lane, into.tokens, into.drafts, into.flags = request, lane, count, draft, flags
        return ctypes.addressof(array), len(told), abi.TAKT_REST_AS_PLANNED, array

    def _told(self, buffer: _arrays.Buffer, fault: Fault | None) -> Plan:
        """Converts the library's plan; lists are copied, because the library owns them."""
        (_, idle, plan_id, _, n_run, moves, n_moves, preempted, n_preempted, failed, n_failed, released, n_released,
         wake_at, tokens, _, dropped, n_dropped, hints, n_hints, chunks_at, n_chunks) = _PLAN.unpack_from(self._plan)  # fmt: skip
        plan = Plan()
        plan.id, plan.idle, plan.wake_at, plan.tokens, plan.fault = plan_id, _IDLE[idle], wake_at, tokens, fault
        plan.run, plan._buffer = buffer.run(n_run), buffer
        plan.moves, plan.preempted, plan.failed, plan.released, plan.dropped = [], [], [], [], []
        plan.hints, plan.host_chunks = [], []
        if n_moves:
            plan.moves = [
                Move(m.id, m.request, _KV[m.action], m.first, m.count) for m in _array(abi.takt_move, moves, n_moves)
            ]
        if n_preempted:
            found = _array(abi.takt_preemption, preempted, n_preempted)
            plan.preempted = [Preemption(p.request, _KV[p.action]) for p in found]
        if n_failed:
            gone = _array(abi.takt_failure, failed, n_failed)
            plan.failed = [Failure(f.request, _FAIL[f.reason], f.code, f.retry_after_ms) for f in gone]
        if n_released:
            plan.released = list(_array(ctypes.c_uint64, released, n_released))
        if n_dropped:
            chunks = _array(abi.takt_dropped_prefix, dropped, n_dropped)
            plan.dropped = [Dropped(d.hash, d.blocks) for d in chunks]
        if n_hints:
            plan.hints = [
                CacheHint(_CACHE[h.action], h.workflow, h.branch, h.priority, h.until, h.tokens)
                for h in _array(abi.takt_cache_hint, hints, n_hints)
            ]
        if n_chunks:
            plan.host_chunks = [
                HostChunk(c.hash, c.blocks, c.action == abi.TAKT_KV_OUT)
                for c in _array(abi.takt_host_chunk, chunks_at, n_chunks)
            ]
        if n_run:
            buffer.busy = plan_id
            self._in_flight[plan_id] = plan, buffer
            self._newest = plan
        else:
            self._newest = None
        self.last_plan = plan
        if self._errors or self._key is not None:
            self._raise_errors()
        return plan

    # ---- settings and queries -------------------------------------------------------------------------------------

    @property
    def policy(self) -> str:
        """Text of the policy in use; it creates the same policy again."""
        return text(lib.takt_scheduler_policy(self._ready("policy")))

    def learnt(self) -> bytes:
        """Returns what the policy has learnt, as `Queue.learnt`."""
        return self._learnt()

    def load_learnt(self, learnt: bytes, *, now: Now = None) -> None:
        """Loads what the same policy has learnt before. `OptionError`, without effect, if the bytes are not from `learnt`
        of this policy in this version. The same holds if a request is alive or a log is being recorded."""
        self._load_learnt(learnt, moment(now))

    def set_policy(
        self,
        policy: str | None = None,
        *,
        key: KeyFunction | None = None,
        key_name: str | None = None,
        now: Now = None,
    ) -> None:
        """Changes the policy, also for the requests that wait now."""
        self._ready("set_policy")
        named, at = encoded("policy", policy), moment(now)
        before, self._key = self._key, None
        error = initialised(abi.takt_error)
        try:
            pointer = self._keep_key(key, key_name)
            status = lib.takt_scheduler_set_policy(self._handle, named, pointer, at, ctypes.byref(error))
            check_options(status, "set_policy", error)
        except BaseException:  # the library still calls the previous key
            self._key = before
            raise
        self._raise_errors()

    def set_options(self, *, now: Now = None, **changes: int | float | str | None) -> None:
        """Changes options while requests run: ``max_waiting``, ``max_waiting_tokens``, ``tenant_max_waiting``,
        ``tenant_max_waiting_tokens``, ``class_limits``, ``max_resume_wait``, ``max_blocked``, ``max_paused``,
        ``kv_watermark``, ``reserve_output``, ``prefix_wait``, ``preempt_margin``, ``token_pace``, ``least_prefill``,
        ``tenant_kv_share``. None removes a limit on a number of requests or tokens. The next plan sheds what exceeds a
        smaller bound.
        `OptionError`, without effect, names an option that is unknown, invalid or cannot change."""
        self._ready("set_options")
        error = initialised(abi.takt_error)
        status = lib.takt_scheduler_set_options(self._handle, changed(changes), moment(now), ctypes.byref(error))
        check_options(status, "set_options", error)
        self._raise_errors()

    def set_retention(
        self,
        retention: str | None = "hold_value",
        gate: str | None = "price",
        *,
        alpha_ms: float = 0.0,
        beta_ns: float = 0.0,
    ) -> None:
        """Sets ``retention``, the policy that chooses which cached KV to evict between turns (None: lru). Sets
        ``gate``, which decides which requests may evict it (None: no gate). A token of prefill after d others takes
        ``alpha_ms`` [ms] plus d times ``beta_ns`` [ns]; both 0: unknown. Needs ``prefix_cache`` and kv "ledger"."""
        error = initialised(abi.takt_error)
        status = lib.takt_scheduler_set_retention(
            self._ready("set_retention"),
            encoded("retention", retention),
            encoded("gate", gate),
            real("alpha_ms", alpha_ms),
            real("beta_ns", beta_ns),
            ctypes.byref(error),
        )
        check_options(status, "set_retention", error)

    def epoch(
        self,
        ranks: Mapping[int, AgentRank] | None = None,
        *,
        otherwise: AgentRank | None = None,
        alpha: float | None = None,
        now: Now = None,
    ) -> None:
        """Sets tables that slow work outside the loop has computed: ranks of agents, the rank ``otherwise``, and
        ``alpha`` of workload_balance, 0 to 1. None: unchanged."""
        told = epoch_of(ranks, otherwise, alpha)
        check(lib.takt_scheduler_epoch(self._handle, ctypes.addressof(told[0]), moment(now)), "epoch")
        self._raise_errors()

    def explain(self, request: int) -> dict[str, Any]:
        """Returns the state of a request and the reason for it. Takes O(waiting).

        - ``status`` ("waiting", ...), ``waits_for`` ("kv", ...), ``promoted``
        - ``key`` (smaller runs sooner) and its ``parts``; ``ahead``: waiting requests before it
        - ``known``, ``computed``, ``in_flight`` and ``generated`` tokens; ``kv_blocks``, ``cpu_blocks``
        - ``passed``: requests admitted before it while it lacked memory or room in a step
        """
        told = initialised(abi.takt_explanation)
        request = whole("request", request, _U64)
        check(lib.takt_scheduler_explain(self._handle, request, ctypes.addressof(told)), "explain")
        self._raise_errors()
        out: dict[str, Any] = {
            "status": _REQUEST_STATUS[told.status],
            "waits_for": _WAITS_FOR[told.waits_for],
            "promoted": bool(told.promoted),
        }
        names_ = ("key", "ahead", "known", "computed", "in_flight", "generated", "kv_blocks", "cpu_blocks", "passed")
        out.update((name, getattr(told, name)) for name in names_)
        out["parts"] = {part.name.decode(): part.value for part in told.parts[: told.n_parts]}
        return out

    def explain_held(self, workflow: int, branch: int = 0) -> dict[str, Any]:
        """Returns the KV of a workflow's branch in the prefix cache between turns. Takes O(evictable branches).

        - ``tokens``: cached tokens from the start of its context; ``own``: of these, the ones that no other workflow
          shares
        - ``turns``: ended turns; ``since``: end of the last one [ns]; ``awaited``: the next turn already waits
        - ``in_use``: a running request uses it all
        - ``ahead``: blocks that would be evicted before its first block
        - ``value``: value of its last block; ``price``: value of the next block to be evicted
        - ``next``: workflow and branch of that block
        """
        told = initialised(abi.takt_held)
        workflow, branch = whole("workflow", workflow, _U64), whole("branch", branch, _U64)
        status = lib.takt_scheduler_explain_held(self._handle, workflow, branch, ctypes.addressof(told))
        check(status, "explain_held")
        return {
            name: bool(getattr(told, name)) if name in ("awaited", "in_use") else getattr(told, name)
            for name, *_ in abi.takt_held._fields_
            if name != "struct_size"
        }

    def counts(self) -> dict[str, int]:
        """Returns the numbers of requests alive, waiting, running, paused and blocked, and whether the scheduler is
        draining."""
        told = initialised(abi.takt_scheduler_counts)
        check(lib.takt_scheduler_count(self._handle, ctypes.addressof(told)), "counts")
        return {name: getattr(told, name) for name in ("alive", "waiting", "running", "paused", "blocked", "draining")}

    def kv(self) -> dict[str, int]:
        """Returns KV blocks: total, used, free, cached (idle prefixes, part of free), pending, cpu_total, cpu_used."""
        told = initialised(abi.takt_kv_use)
        check(lib.takt_scheduler_kv(self._handle, ctypes.addressof(told)), "kv")
        return {name: getattr(told, name) for name, *_ in abi.takt_kv_use._fields_ if name != "struct_size"}

    def stats(self) -> dict[str, int]:
        """Returns all counters since creation (docs/reference/stats.md)."""
        return read_stats(lib.takt_scheduler_stats, self._ready("stats"))

    @property
    def last_fault(self) -> Fault | None:
        """The most recent fault; None: no faults."""
        return last_fault(lib.takt_scheduler_last_fault, self._ready("last_fault"))

    def check(self) -> None:
        """Recounts the whole state, for tests; `TaktError` names a contradiction."""
        error = initialised(abi.takt_error)
        status = lib.takt_scheduler_check(self._handle, ctypes.byref(error))
        check_options(status, "check", error)

    def flush(self) -> None:
        """Passes the rest of the log to ``record``."""
        check(lib.takt_scheduler_flush(self._handle), "flush")
        self._raise_errors()

    def close(self) -> None:
        """Flushes the log and frees all memory."""
        try:
            if self._handle and hasattr(self, "_sink"):
                self._ready("close")
                self.flush()
        finally:
            super().close()


def epoch_of(
    ranks: Mapping[int, AgentRank] | None, otherwise: AgentRank | None, alpha: float | None
) -> tuple[abi.takt_epoch, Any]:
    told = initialised(abi.takt_epoch)
    kept: Any = None

    def fill(into: abi.takt_agent_rank, agent: int, rank: AgentRank) -> None:
        if not isinstance(rank, AgentRank):
            raise RequestError("rank", rank, "must be a takt.AgentRank")
        into.agent, into.rank = whole("agent", agent, _U64), real("rank", rank.rank)
        into.execution_s = real("execution_s", rank.execution_s)
        into.stages_left = whole("stages_left", rank.stages_left, _COUNT)

    if ranks is not None:
        listed = items("ranks", ranks)
        kept = (abi.takt_agent_rank * len(listed))()
        for into, (agent, rank) in zip(kept, listed):
            fill(into, agent, rank)
        told.fields |= abi.TAKT_EPOCH_AGENT_RANKS
        told.ranks, told.n_ranks = ctypes.cast(kept, ctypes.POINTER(abi.takt_agent_rank)), len(listed)
        fill(told.otherwise, 0, AgentRank(0.0) if otherwise is None else otherwise)
    if alpha is not None:
        told.fields |= abi.TAKT_EPOCH_ALPHA
        told.alpha = real("alpha", alpha)
    return told, kept


def replay_log(log: bytes) -> dict[str, Any]:
    """Rebuilds the scheduler of a log and repeats every call. Raises `TaktError` if the log is damaged or needs a key
    function.

    - ``differs``: a plan differs from the log; ``different_step``, ``difference``: the first difference
    - ``truncated``: the log ends within a record
    - ``events``, ``plans``, ``commits``: numbers of replayed records
    - ``stats``: counters of the scheduler at the end
    """
    report = initialised(abi.takt_replay_report)
    error = initialised(abi.takt_error)
    room = (abi.takt_stat * 512)()
    if not isinstance(log, bytes):
        raise RequestError("log", log, "must be bytes")
    status = lib.takt_replay(
        log, len(log), ctypes.addressof(report), ctypes.addressof(room), len(room), ctypes.byref(error)
    )
    check_options(status, "replay_log", error)
    out: dict[str, Any] = {
        name: getattr(report, name)
        for name, *_ in abi.takt_replay_report._fields_
        if name not in ("struct_size", "reserved")
    }
    out["differs"], out["truncated"] = bool(report.differs), bool(report.truncated)
    out["difference"] = report.difference.decode(errors="replace")
    out["stats"] = {text(stat.name): stat.value for stat in room if stat.name}
    return out
