"""Placement of requests on several engines."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from . import _abi as abi
from ._library import (
    check,
    changed,
    check_options,
    chosen,
    encoded,
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
from .errors import Fault, FaultError, RequestError
from .requests import NEVER, REVISED, UNSET, Filled, KeyFunction, Request, revised_by
from .schedulers import AgentRank, Failure, epoch_of

__all__ = ["Candidate", "CostModel", "Instance", "Placement", "Router", "Routing", "Stage", "WorkflowEnd", "WorkflowFault"]

_U64, _I64, _COUNT = (0, 2**64 - 1), (-(2**63), 2**63 - 1), (0, 2**31 - 1)
_FAIL = names("TAKT_FAIL_INVALID")
_HOW = names("TAKT_WORKFLOW_COMPLETED")
_BUDGETS = names("TAKT_BUDGETS_NONE").numbers("share", "whole")
_BLOWN = names("TAKT_BLOWN_LATENESS").numbers()
_REQUEST_STATUS = names("TAKT_REQUEST_UNKNOWN")
_ROLES = names("TAKT_ROLE_BOTH").numbers()
_CANDIDATE = names("TAKT_CANDIDATE_SCORED")


class Candidate(NamedTuple):
    """An instance as a candidate for a request. ``state``: "scored", "rejected" (by the placement), "full" or
    "too_small". ``score``: larger is better; ``regret``: best score minus this score; NaN: unknown."""

    instance: int
    state: str
    score: float
    regret: float


@dataclass(frozen=True)
class Instance:
    """An engine with its own KV cache.

    ``id`` is unique among the instances that are up. ``kv_tokens``: size of its KV cache [tokens]; 0: unknown, every
    request fits. ``model``: the model that it serves, if models differ. ``capacity``: maximum requests at once;
    `NEVER`: unlimited; 0: accepts none. ``token_s``: time of an output token at full batch divided by the batch size
    [s]; 0: unknown. ``profile``: from `Router.add_profile`; 0: unknown speed. ``life``: a number that grows with each
    restart, such as the start time; 0: the router numbers restarts. ``max_adapters``: maximum LoRA adapters that it
    keeps loaded; 0: unknown. ``role``: "both"; "prefill": computes prompts only; "decode": continues with such requests,
    or runs whole ones. The role changes only with the life.
    """

    id: int
    kv_tokens: int = 0
    model: int = 0
    capacity: int = NEVER
    token_s: float = 0.0
    profile: int = 0
    life: int = 0
    max_adapters: int = 0
    role: str = "both"


@dataclass(frozen=True)
class CostModel:
    """Time of an iteration, as a linear fit to an engine's served iterations. It is the sum of ``constant_ms`` and of
    four counts, each times its coefficient [ms]. The counts are prefill tokens, decoding sequences, tokens of their
    contexts, and sampling sequences. ``tp``: GPUs of an instance. ``kv_bytes_per_token``: on all its GPUs; 0:
    unknown. ``host_link_gb_s``: bandwidth to host memory per GPU [1e9 bytes/s]."""

    constant_ms: float
    per_prefill_ms: float
    per_decode_ms: float
    per_context_ms: float = 0.0
    per_sample_ms: float = 0.0
    tp: int = 1
    kv_bytes_per_token: float = 0.0
    host_link_gb_s: float = 25.0


@dataclass(frozen=True)
class Stage:
    """Parallel calls of a workflow, made after all stages in ``after`` have ended. ``after`` holds indexes of stages,
    in the order of declaration. ``stage``: the call site, as in its requests. ``cost_s``: expected time of one call
    alone [s]; 0: the time learned for the call site."""

    stage: int
    after: Sequence[int] = ()
    calls: int = 1
    cost_s: float = 0.0


class Placement(NamedTuple):
    """A request and its instance. ``life``: the instance's life; pass it in events about this placement."""

    request: int
    instance: int
    life: int = 0


class WorkflowEnd(NamedTuple):
    """The end of a workflow. ``how``: "completed", "cancelled" or "silent". Times are in ns. ``stage``: for "silent",
    the first stage that had not ended."""

    workflow: int
    how: str
    arrival: int
    end: int
    deadline: int
    stage: int


class WorkflowFault(NamedTuple):
    """An invalid input about a workflow; it had no effect."""

    kind: int
    workflow: int
    stage: int
    site: int


@dataclass(frozen=True)
class Routing:
    """Placements. ``wake_at``: time to place again if no event occurs before [ns]. With instances for prefill and for
    decode, apply ``withdrawn``, then ``placed``, then ``decodes``. ``withdrawn``: instances that no longer get or
    hold a request. ``decodes``: instances that take requests over after their prefill; the last of a request counts."""

    placed: list[Placement]
    failed: list[Failure]
    ended: list[WorkflowEnd]
    faults: list[WorkflowFault]
    wake_at: int
    decodes: list[Placement]
    withdrawn: list[Placement]


def _stage_times(times: Mapping[tuple[int, str], int] | None) -> Any:
    told = items("stage_times", times)
    array = (abi.takt_stage_time * len(told))()
    for into, (key, time) in zip(array, told):
        if not isinstance(key, tuple) or len(key) != 2:
            raise RequestError("stage_times", key, "must have keys (stage, name of the profile)")
        into.stage, into.profile = whole("stage", key[0], _U64), encoded("profile", key[1])
        into.time = whole("time", time, _I64)
    return array


def _placements(told: Any, n: int) -> list[Placement]:
    return [Placement(p.request, p.instance, p.life) for p in told[:n]]


_BOUNDS = ("max_waiting", "max_waiting_tokens", "tenant_max_waiting", "tenant_max_waiting_tokens")


class Router(Measured):
    """Assigns requests to engines, and orders the waiting ones.

    ``policy``: the order of waiting requests (None: fcfs). ``placement``: for example
    ``"least_loaded(waiting_weight=2)"`` (None: least_loaded). ``key``: a host's own order. ``max_outstanding``: maximum
    requests per instance. ``max_waiting``, ``max_waiting_tokens``, ``tenant_max_waiting``,
    ``tenant_max_waiting_tokens``, ``class_limits``: bounds of requests that wait here, as in `Scheduler`. ``max_held``:
    longest wait for earlier stages of a workflow [s]. ``max_down``: longest time without an instance before waiting
    requests fail [s]. ``decode_placement``: the placement among decode instances (None: as ``placement``).
    ``local_tokens``: a decode instance runs a whole request if at most this many prompt tokens are not in its cache.
    ``local_if_sooner``: also if its prefill would end no later than a prefill instance's, including the transfer of KV
    at ``kv_link_gb_s`` [1e9 bytes/s]; both need profiles. ``fail_unfit``: fail requests that are too large for every instance that is up.
    ``budgets``: the part of a declared workflow's remaining time that a call gets. "share": in proportion to its cost;
    "whole": all; None: requests keep their deadlines. ``blown``: the budget if no time is left: "lateness", "published" or
    "zero". ``stage_times``: measured times for budgets, {(stage, name of the profile): ns}; other times come from the
    cost models of `add_profile`. Times are in
    nanoseconds; ``now`` defaults to `time.monotonic_ns()`. ``life`` in an event is the life of the sender, from
    `Placement` or `Instance`; 0: the present life. The router ignores and counts messages of an earlier life. An
    invalid event is ignored and raises `FaultError`, unless ``strict`` is False.
    """

    _kind = "router"

    def __init__(
        self,
        policy: str | None = None,
        placement: str | None = None,
        *,
        key: KeyFunction | None = None,
        key_name: str | None = None,
        window: int | None = None,
        max_outstanding: int | None = None,
        reserve_requests: int | None = None,
        hash_seed: int | None = None,
        fail_unfit: bool | None = None,
        budgets: str | None = None,
        blown: str = "lateness",
        stage_times: Mapping[tuple[int, str], int] | None = None,
        max_waiting: int | None = None,
        max_waiting_tokens: int | None = None,
        tenant_max_waiting: int | None = None,
        tenant_max_waiting_tokens: int | None = None,
        class_limits: str | None = None,
        max_held: float | None = None,
        max_down: float | None = None,
        decode_placement: str | None = None,
        local_tokens: int | None = None,
        local_if_sooner: bool | None = None,
        kv_link_gb_s: float | None = None,
        strict: bool = True,
    ) -> None:
        super().__init__()
        given = dict(locals())
        options = initialised(abi.takt_router_options)
        for name in _BOUNDS:
            if given[name] is not None:
                setattr(options, name, whole(name, given[name], _I64))
        for name in ("max_held", "max_down", "kv_link_gb_s"):
            if given[name] is not None:
                setattr(options, name, real(name, given[name]))
        options.class_limits = encoded("class_limits", class_limits)
        if budgets is not None:
            options.budgets = chosen("budgets", budgets, _BUDGETS)
        options.blown = chosen("blown", blown, _BLOWN)
        times = _stage_times(stage_times)
        options.stage_times, options.n_stage_times = ctypes.cast(times, ctypes.POINTER(abi.takt_stage_time)), len(times)
        options.policy, options.placement = encoded("policy", policy), encoded("placement", placement)
        options.decode_placement = encoded("decode_placement", decode_placement)
        if local_tokens is not None:
            options.local_tokens = whole("local_tokens", local_tokens, (-(2**31), 2**31 - 1))
        if local_if_sooner is not None:
            options.local_if_sooner = flag("local_if_sooner", local_if_sooner)
        if window is not None:
            options.window = whole("window", window, (-(2**31), 2**31 - 1))
        if max_outstanding is not None:
            options.max_outstanding = whole("max_outstanding", max_outstanding, _I64)
        if reserve_requests is not None:
            options.reserve_requests = whole("reserve_requests", reserve_requests, _I64)
        if hash_seed is not None:
            options.hash_seed = whole("hash_seed", hash_seed, _U64)
        if fail_unfit is not None:
            options.fail_unfit = flag("fail_unfit", fail_unfit)
        pointer = self._keep_key(key, key_name)
        if pointer is not None:
            options.key = pointer
        self._create(ctypes.byref(options))
        self.strict = strict
        self._request = Filled()
        self._faults = 0
        self._routing = initialised(abi.takt_routing)

    # ---- events ---------------------------------------------------------------------------------------------------

    def _fact(self, kind: int, now: int | None, call: str, quiet: bool = False) -> Fault | None:
        at = self._filled_at(now, call)
        self._event.type = kind
        check(lib.takt_router_on(self._handle, ctypes.addressof(self._event), 1, at), call)
        self._raise_errors()
        fault = self.last_fault
        count = 0 if fault is None else fault.faults
        if count == self._faults:
            return None
        self._faults = count
        if fault is not None and self.strict and not quiet:
            raise FaultError(fault)
        return fault

    def arrive(self, *requests: Request, now: int | None = None) -> None:
        """Reports the arrival of requests, in order. Each is read before it is added."""
        for request in requests:
            self._fresh("arrive").words[0] = self._request.fill(request)
            self._fact(abi.TAKT_EVENT_ARRIVED, now, "arrive")

    def revise(self, request: int, *, now: int | None = None, **changes: Any) -> None:
        """Sets new values of a request, like `Scheduler.revise`."""
        told = revised_by(changes, REVISED)
        u = self._fresh("revise")
        u.words[0] = self._request.fill(Request(request, **changes))
        u.revised.fields = told
        self._fact(abi.TAKT_EVENT_REVISED, now, "revise")

    def cancel(self, request: int, now: int | None = None) -> bool:
        """Ends a request, waiting or placed. Returns False if it is unknown."""
        self._fresh("cancel").request = whole("request", request, _U64)
        return self._fact(abi.TAKT_EVENT_CANCELLED, now, "cancel", quiet=True) is None

    def request_started(self, request: int, instance: int, now: int | None = None, *, life: int = 0) -> None:
        """Reports that the first step of a request runs on an instance."""
        told = self._fresh("request_started").request_started
        told.request, told.instance = whole("request", request, _U64), whole("instance", instance, _U64)
        told.life = whole("life", life, _U64)
        self._fact(abi.TAKT_EVENT_REQUEST_STARTED, now, "request_started")

    def request_served(
        self, request: int, *, instance: int = 0, life: int = 0, prefill: int = 0, output: int = 0, now: int | None = None
    ) -> None:
        """Reports progress. ``prefill``: context tokens computed since the placement; ``output``: new tokens of all its
        sequences. ``instance`` 0: the instance of the request."""
        told = self._fresh("request_served").request_served
        told.request, told.instance = whole("request", request, _U64), whole("instance", instance, _U64)
        told.prefill, told.output = whole("prefill", prefill, _COUNT), whole("output", output, _COUNT)
        told.life = whole("life", life, _U64)
        self._fact(abi.TAKT_EVENT_REQUEST_SERVED, now, "request_served")

    def prefill_ended(self, request: int, *, instance: int = 0, life: int = 0, now: int | None = None) -> None:
        """Reports that an instance has computed the prompt of a request. The request moves to its decode instance."""
        told = self._fresh("prefill_ended").prefill_ended
        told.request, told.instance = whole("request", request, _U64), whole("instance", instance, _U64)
        told.life = whole("life", life, _U64)
        self._fact(abi.TAKT_EVENT_PREFILL_ENDED, now, "prefill_ended")

    def request_ended(
        self,
        request: int,
        *,
        instance: int = 0,
        life: int = 0,
        prefill: int | None = None,
        output: int | None = None,
        failed: bool = False,
        now: int | None = None,
    ) -> None:
        """Reports the end of a request; ``prefill`` and ``output`` as in `request_served`. If it ``failed``, its
        workflow stage misses a call again."""
        told = self._fresh("request_ended").request_ended
        told.request, told.instance = whole("request", request, _U64), whole("instance", instance, _U64)
        told.failed, told.life = flag("failed", failed), whole("life", life, _U64)
        if prefill is not None or output is not None:
            told.prefill, told.output = whole("prefill", prefill or 0, _COUNT), whole("output", output or 0, _COUNT)
            told.served = 1
        self._fact(abi.TAKT_EVENT_REQUEST_ENDED, now, "request_ended")

    def instance_up(self, instance: Instance | int, now: int | None = None) -> None:
        """Adds an instance, or replaces its description. With an id alone, all other properties are unknown."""
        if not isinstance(instance, Instance):
            instance = Instance(instance)
        told = initialised(abi.takt_instance)
        told.id = whole("id", instance.id, (1, 2**64 - 1))
        told.kv_tokens = whole("kv_tokens", instance.kv_tokens, _COUNT)
        told.model, told.profile = whole("model", instance.model, _U64), whole("profile", instance.profile, _U64)
        told.capacity = whole("capacity", instance.capacity, (0, 2**63 - 1))
        told.token_s, told.life = real("token_s", instance.token_s), whole("life", instance.life, _U64)
        told.max_adapters = whole("max_adapters", instance.max_adapters, _COUNT)
        told.role = chosen("role", instance.role, _ROLES)
        self._fresh("instance_up").words[0] = ctypes.addressof(told)
        self._fact(abi.TAKT_EVENT_INSTANCE_UP, now, "instance_up")

    def instance_down(self, instance: int, now: int | None = None, *, life: int = 0) -> None:
        """Removes an instance. Its requests wait in the router again."""
        told = self._fresh("instance_down").instance_down
        told.instance, told.life = whole("instance", instance, _U64), whole("life", life, _U64)
        self._fact(abi.TAKT_EVENT_INSTANCE_DOWN, now, "instance_down")

    def instance_reported(
        self,
        instance: int,
        *,
        waiting: int = 0,
        running: int = 0,
        preempted: int = 0,
        kv_used: int = 0,
        as_of: int | None = None,
        life: int = 0,
        now: int | None = None,
    ) -> None:
        """Sets the instance's own counts: queued and running requests, preemptions since its start, KV in use [tokens].
        ``as_of``: time up to which the counts are complete [ns]. The report then includes all requests placed by that
        time, and none placed later. None: it includes as many requests as it counts, oldest first."""
        told = self._fresh("instance_reported").instance_reported
        told.instance = whole("instance", instance, _U64)
        told.waiting, told.running = whole("waiting", waiting, _I64), whole("running", running, _I64)
        told.preempted, told.kv_used = whole("preempted", preempted, _I64), whole("kv_used", kv_used, _COUNT)
        if as_of is not None:
            told.dated, told.as_of = 1, whole("as_of", as_of, _I64)
        told.life = whole("life", life, _U64)
        self._fact(abi.TAKT_EVENT_INSTANCE_REPORTED, now, "instance_reported")

    def kv_stored(
        self, instance: int, hashes: Sequence[int] = (), *, life: int = 0, now: int | None = None
    ) -> None:
        """Reports that the instance has stored these blocks, in the order of the prompt, in its prefix cache. The
        placement then knows the instance's cache by its reports alone. Without hashes, the call only begins the
        reports."""
        self._kv_changed(abi.TAKT_EVENT_KV_STORED, "kv_stored", instance, hashes, life, now)

    def kv_removed(self, instance: int, hashes: Sequence[int], *, life: int = 0, now: int | None = None) -> None:
        """Reports that the instance has removed these blocks from its prefix cache."""
        self._kv_changed(abi.TAKT_EVENT_KV_REMOVED, "kv_removed", instance, hashes, life, now)

    def _kv_changed(
        self, kind: int, call: str, instance: int, hashes: Sequence[int], life: int, now: int | None
    ) -> None:
        told = self._fresh(call).kv_stored  # kv_removed has the same layout
        told.instance, told.life = whole("instance", instance, _U64), whole("life", life, _U64)
        array = (ctypes.c_uint64 * len(hashes))(*[whole("hashes", each, _U64) for each in hashes])
        told.hashes, told.n_hashes = ctypes.cast(array, ctypes.POINTER(ctypes.c_uint64)), len(hashes)
        self._fact(kind, now, call)

    def kv_cleared(self, instance: int, *, life: int = 0, now: int | None = None) -> None:
        """Reports that the instance has removed all blocks from its prefix cache, or that reports were lost."""
        told = self._fresh("kv_cleared").kv_cleared
        told.instance, told.life = whole("instance", instance, _U64), whole("life", life, _U64)
        self._fact(abi.TAKT_EVENT_KV_CLEARED, now, "kv_cleared")

    def workflow_declared(
        self,
        workflow: int,
        stages: Iterable[Stage] = (),
        *,
        tenant: int = 0,
        arrival: int = UNSET,
        deadline: int = NEVER,
        open: bool = False,
        now: int | None = None,
    ) -> None:
        """Declares a workflow and its graph. ``open``: more stages may follow after all known ones have ended."""
        listed = list(stages)
        array = (abi.takt_stage * len(listed))()
        kept = []
        for into, stage in zip(array, listed):
            if not isinstance(stage, Stage):
                raise RequestError("stages", stage, "must be a sequence of takt.Stage")
            into.stage, into.calls = whole("stage", stage.stage, _U64), whole("calls", stage.calls, (1, 2**31 - 1))
            into.cost_s = real("cost_s", stage.cost_s)
            if len(stage.after):
                after = [whole("after", each, (0, 2**32 - 1)) for each in stage.after]
                kept.append((ctypes.c_uint32 * len(after))(*after))
                into.after = ctypes.cast(kept[-1], ctypes.POINTER(ctypes.c_uint32))
                into.n_after = len(after)
        told = initialised(abi.takt_workflow)
        told.id, told.tenant = whole("workflow", workflow, (1, 2**64 - 1)), whole("tenant", tenant, _U64)
        told.arrival, told.deadline = whole("arrival", arrival, _I64), whole("deadline", deadline, _I64)
        told.open, told.n_stages = flag("open", open), len(listed)
        if listed:
            told.stages = ctypes.cast(array, ctypes.POINTER(abi.takt_stage))
        self._fresh("workflow_declared").words[0] = ctypes.addressof(told)
        self._fact(abi.TAKT_EVENT_WORKFLOW_DECLARED, now, "workflow_declared")

    def stage_ended(self, workflow: int, stage: int, now: int | None = None) -> None:
        """Reports the end of a stage, by its index."""
        told = self._fresh("stage_ended").stage_ended
        told.workflow, told.stage = whole("workflow", workflow, _U64), whole("stage", stage, (0, 2**32 - 1))
        self._fact(abi.TAKT_EVENT_STAGE_ENDED, now, "stage_ended")

    def workflow_ended(self, workflow: int, *, cancelled: bool = False, now: int | None = None) -> None:
        """Ends a workflow. takt learns nothing from a cancelled one."""
        told = self._fresh("workflow_ended").workflow_ended
        told.workflow = whole("workflow", workflow, _U64)
        told.cancelled = flag("cancelled", cancelled)
        self._fact(abi.TAKT_EVENT_WORKFLOW_ENDED, now, "workflow_ended")

    # ---- decisions ----------------------------------------------------------------------------------------------

    def place(self, now: int | None = None) -> Routing:
        """Places waiting requests."""
        told = self._routing
        check(lib.takt_router_place(self._ready("place"), moment(now), ctypes.addressof(told)), "place")
        self._raise_errors()
        return Routing(
            _placements(told.placed, told.n_placed),
            [Failure(f.request, _FAIL.get(f.reason, str(f.reason)), f.code, f.retry_after_ms) for f in told.failed[: told.n_failed]],
            [
                WorkflowEnd(e.workflow, _HOW[e.how], e.arrival, e.end, e.deadline, e.stage)
                for e in told.ended[: told.n_ended]
            ],
            [WorkflowFault(f.kind, f.workflow, f.stage, f.site) for f in told.faults[: told.n_faults]],
            told.wake_at,
            _placements(told.decodes, told.n_decodes),
            _placements(told.withdrawn, told.n_withdrawn),
        )

    def place_at(self, request: int, instance: int, now: int | None = None, *, decode: int = 0) -> None:
        """Places a waiting request on an instance that the host has chosen. A prefill instance needs a ``decode``
        instance, and other instances take none."""
        ids = whole("request", request, _U64), whole("instance", instance, _U64), whole("decode", decode, _U64)
        status = lib.takt_router_place_apart(self._handle, *ids, moment(now))
        if status == abi.TAKT_E_INVALID:
            raise RequestError("request", request, f"is not waiting, or instance {instance} is not up or of another role")
        check(status, "place_at")
        self._raise_errors()

    def score(self, request: Request, instances: Sequence[int], now: int | None = None) -> list[float]:
        """Returns the placement's score of each instance for a request, which may be unknown to the router. Larger is
        better; NaN: the instance is not available now. Shape (instances,). Places nothing."""
        self._ready("score")
        address = self._request.fill(request)
        told = [whole("instances", each, _U64) for each in instances]
        ids = (ctypes.c_uint64 * len(told))(*told)
        scores = (ctypes.c_double * len(told))()
        status = lib.takt_router_score(
            self._handle,
            address,
            ctypes.addressof(ids),
            len(told),
            moment(now),
            ctypes.addressof(scores),
            None,
        )
        self._raise_errors()
        check(status, "score")
        return list(scores)

    def explain(self, request: Request, now: int | None = None) -> dict[str, Any]:
        """Returns the state of a request and the scores of all instances for it. Places nothing.

        - ``status`` ("waiting", ...); ``ahead``: waiting requests before it
        - ``chosen``: the instance of a placed request, otherwise the best candidate; None: none
        - ``regret``: best score minus that of ``chosen``; ``margin``: best score minus the second best; NaN: unknown
        - ``decode``: the instance that takes the request over after its prefill; ``decode_regret``: as ``regret``, among
          decode instances
        - ``scores_compare``: False if the placement draws or takes turns, so no regret is known
        - ``candidates``: a `Candidate` per instance that is up
        """
        self._ready("explain")
        address = self._request.fill(request)
        told = initialised(abi.takt_route_explanation)
        found = (abi.takt_candidate * self.counts()["instances"])()
        status = lib.takt_router_explain(
            self._handle, address, moment(now), ctypes.addressof(found), len(found), ctypes.addressof(told)
        )
        self._raise_errors()
        check(status, "explain")
        return {
            "status": _REQUEST_STATUS[told.status],
            "ahead": told.ahead,
            "chosen": told.chosen or None,
            "regret": told.regret,
            "margin": told.margin,
            "decode": told.decode or None,
            "decode_regret": told.decode_regret,
            "scores_compare": bool(told.scores_compare),
            "candidates": [Candidate(c.instance, _CANDIDATE[c.state], c.score, c.regret) for c in found],
        }

    def instance_of(self, request: int) -> int | None:
        """Returns the instance of a request; None: it is waiting or unknown."""
        instance = ctypes.c_uint64()
        request = whole("request", request, _U64)
        check(lib.takt_router_instance_of(self._handle, request, ctypes.byref(instance)), "instance_of")
        return instance.value or None

    def wake_at(self) -> int:
        """Returns the time to place again if no event occurs before [ns]."""
        at = ctypes.c_int64()
        check(lib.takt_router_wake_at(self._handle, ctypes.byref(at)), "wake_at")
        return at.value

    def add_profile(self, name: str, cost_model: CostModel | None = None) -> int:
        """Returns the profile id for instances of one model, GPU and parallelism. Equal names have one id.
        Placements and budgets that need a cost model assume 1 ms per token without one. `OptionError` if the name has
        another cost model."""
        cost = None
        if cost_model is not None:
            if not isinstance(cost_model, CostModel):
                raise RequestError("cost_model", cost_model, "must be a takt.CostModel")
            cost = initialised(abi.takt_cost_model)
            cost.tp = whole("tp", cost_model.tp, (-(2**31), 2**31 - 1))
            for each in fields(cost_model):
                if each.name != "tp":
                    setattr(cost, each.name, real(each.name, getattr(cost_model, each.name)))
        profile, error = ctypes.c_uint64(), initialised(abi.takt_error)
        status = lib.takt_router_add_profile(
            self._ready("add_profile"), encoded("name", name), None if cost is None else ctypes.addressof(cost),
            ctypes.byref(profile), ctypes.byref(error),
        )  # fmt: skip
        check_options(status, "add_profile", error)
        return profile.value

    def set_options(self, *, now: int | None = None, **changes: int | float | str | None) -> None:
        """Changes options while requests wait or run: ``max_outstanding``, ``window``, ``fail_unfit``, ``max_waiting``,
        ``max_waiting_tokens``, ``tenant_max_waiting``, ``tenant_max_waiting_tokens``, ``class_limits``, ``max_held``,
        ``max_down``, ``local_tokens``, ``local_if_sooner``, ``kv_link_gb_s``. None removes a limit on a number of
        requests or tokens. The next `place` uses them. `OptionError`, without effect, names an option that is unknown,
        invalid or cannot change."""
        handle, error = self._ready("set_options"), initialised(abi.takt_error)
        status = lib.takt_router_set_options(handle, changed(changes), moment(now), ctypes.byref(error))
        check_options(status, "set_options", error)

    def epoch(
        self,
        ranks: Mapping[int, AgentRank] | None = None,
        *,
        otherwise: AgentRank | None = None,
        alpha: float | None = None,
        now: int | None = None,
    ) -> None:
        """Like `Scheduler.epoch`."""
        told = epoch_of(ranks, otherwise, alpha)
        check(lib.takt_router_epoch(self._handle, ctypes.addressof(told[0]), moment(now)), "epoch")
        self._raise_errors()

    @property
    def policy(self) -> str:
        """Text of the policy in use; it creates the same policy again."""
        return text(lib.takt_router_policy(self._ready("policy")))

    def learnt(self) -> bytes:
        """Returns what the policy has learnt, as `Queue.learnt`. A placement's own counts are no part of it."""
        return self._learnt()

    def load_learnt(self, learnt: bytes) -> None:
        """Loads what the same policy has learnt before. `OptionError`, without effect, if the bytes are not from `learnt`
        of this policy in this version, or if a request is alive."""
        self._load_learnt(learnt)

    @property
    def last_fault(self) -> Fault | None:
        """The most recent fault; None: no faults."""
        return last_fault(lib.takt_router_last_fault, self._ready("last_fault"))

    def counts(self) -> dict[str, int]:
        """Returns the number of ``instances`` that are up, and of requests ``alive``, ``waiting``, and ``set_aside``
        (too large for every instance)."""
        told = initialised(abi.takt_router_counts)
        check(lib.takt_router_count(self._handle, ctypes.addressof(told)), "counts")
        return {name: getattr(told, name) for name in ("instances", "alive", "waiting", "set_aside")}

    def stats(self) -> dict[str, int]:
        """Returns all counters since creation (docs/reference/stats.md)."""
        return read_stats(lib.takt_router_stats, self._ready("stats"))
