"""The front of several engines: which one takes a request."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from . import _abi as abi
from ._handle import Handle
from ._library import check, encoded, flag, initialised, last_fault, lib, moment, names, read_stats, real, text, whole
from .errors import Fault, FaultError, RequestError
from .requests import NEVER, TOLD, UNSET, Filled, KeyFunction, Request, told_by
from .schedulers import AgentRank, Failure, epoch_of

__all__ = ["Instance", "Placement", "Router", "Routing", "Stage", "WorkflowEnd", "WorkflowFault"]

_U64, _I64, _COUNT = (0, 2**64 - 1), (-(2**63), 2**63 - 1), (0, 2**31 - 1)
_FAIL = names("TAKT_FAIL_INVALID")
_HOW = names("TAKT_WORKFLOW_COMPLETED")


@dataclass(frozen=True)
class Instance:
    """An engine with a KV cache of its own.

    ``id`` is unique among those that are up. ``kv_tokens``: size of its KV cache [tokens], 0: not told, everything fits.
    ``model``: what it serves, where models differ. ``capacity``: requests that it may hold at once; `NEVER`: unbounded; 0:
    no new ones. ``token_s``: time of an output token at full batch over that batch [s], 0: not told. ``profile``: of
    `Router.add_profile`, 0: nothing is known of how fast it is. ``life``: grows each time the instance starts anew, such
    as a start time; 0: the router numbers it.
    """

    id: int
    kv_tokens: int = 0
    model: int = 0
    capacity: int = NEVER
    token_s: float = 0.0
    profile: int = 0
    life: int = 0


@dataclass(frozen=True)
class Stage:
    """Calls of a workflow that are made in parallel, once all stages before have ended. Stages are named by index, in the
    order of declaration. ``stage``: the call site, as its requests bear it; ``cost_s``: expected time of one call alone
    [s], 0: what was learnt of the site."""

    stage: int
    after: Sequence[int] = ()
    calls: int = 1
    cost_s: float = 0.0


class Placement(NamedTuple):
    """``life``: of the instance; events about this placement name it."""

    request: int
    instance: int
    life: int = 0


class WorkflowEnd(NamedTuple):
    """``how``: "completed", "cancelled" or "silent"; times [ns]; ``stage``: where it is silent, the first that had not
    ended."""

    workflow: int
    how: str
    arrival: int
    end: int
    deadline: int
    stage: int


class WorkflowFault(NamedTuple):
    """Something that was said of a workflow and cannot be; nothing has changed then."""

    kind: int
    workflow: int
    stage: int
    site: int


@dataclass(frozen=True)
class Routing:
    """What goes where. ``wake_at``: without an event before, place again then [ns]."""

    placed: list[Placement]
    failed: list[Failure]
    ended: list[WorkflowEnd]
    faults: list[WorkflowFault]
    wake_at: int


class Router(Handle):
    """Gives requests to engines, and keeps those in order that must wait.

    ``policy`` is the order of what waits (None: fcfs), ``placement`` such as ``"least_loaded(waiting_weight=2)"`` (None:
    least_loaded), ``key`` an order of the host's own. ``max_outstanding``: requests per instance at once. ``fail_unfit``:
    fail what is too large for every instance that is up. Times are nanoseconds; where ``now`` is left out it is
    `time.monotonic_ns()`. ``life`` in an event: the life of the instance that sends it, from `Placement` or `Instance`. The
    router ignores and counts a message of an earlier life; 0: the message is taken for one of the present life. A fact that
    cannot be is ignored and raised as `FaultError`, unless ``strict`` is False.
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
        strict: bool = True,
    ) -> None:
        super().__init__()
        options = initialised(abi.takt_router_options)
        options.policy, options.placement = encoded("policy", policy), encoded("placement", placement)
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

    # ---- facts --------------------------------------------------------------------------------------------------

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
        """They arrive, in their order; the fields of each are read before it does."""
        for request in requests:
            self._fresh("arrive").words[0] = self._request.fill(request)
            self._fact(abi.TAKT_EVENT_ARRIVED, now, "arrive")

    def revise(self, request: int, *, now: int | None = None, **changes: Any) -> None:
        """What holds of it from here on, as of `Scheduler.revise`."""
        told = told_by(changes, TOLD)
        u = self._fresh("revise")
        u.words[0] = self._request.fill(Request(request, **changes))
        u.revised.told = told
        self._fact(abi.TAKT_EVENT_REVISED, now, "revise")

    def cancel(self, request: int, now: int | None = None) -> bool:
        """It ends, wherever it is. False where it was not here."""
        self._fresh("cancel").request = whole("request", request, _U64)
        return self._fact(abi.TAKT_EVENT_CANCELLED, now, "cancel", quiet=True) is None

    def request_started(self, request: int, instance: int, now: int | None = None, *, life: int = 0) -> None:
        """Its first step runs there."""
        told = self._fresh("request_started").request_started
        told.request, told.instance = whole("request", request, _U64), whole("instance", instance, _U64)
        told.life = whole("life", life, _U64)
        self._fact(abi.TAKT_EVENT_REQUEST_STARTED, now, "request_started")

    def request_served(
        self, request: int, *, instance: int = 0, life: int = 0, prefill: int = 0, output: int = 0, now: int | None = None
    ) -> None:
        """``prefill``: tokens of its context that were computed since it was placed; ``output``: new tokens of all its
        sequences. Instance 0: wherever it is."""
        told = self._fresh("request_served").request_served
        told.request, told.instance = whole("request", request, _U64), whole("instance", instance, _U64)
        told.prefill, told.output = whole("prefill", prefill, _COUNT), whole("output", output, _COUNT)
        told.life = whole("life", life, _U64)
        self._fact(abi.TAKT_EVENT_REQUEST_SERVED, now, "request_served")

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
        """It has ended; with ``prefill`` and ``output`` as of `request_served`. Where it ``failed``, its stage of a workflow
        lacks a call again."""
        told = self._fresh("request_ended").request_ended
        told.request, told.instance = whole("request", request, _U64), whole("instance", instance, _U64)
        told.failed, told.life = flag("failed", failed), whole("life", life, _U64)
        if prefill is not None or output is not None:
            told.prefill, told.output = whole("prefill", prefill or 0, _COUNT), whole("output", output or 0, _COUNT)
            told.served = 1
        self._fact(abi.TAKT_EVENT_REQUEST_ENDED, now, "request_ended")

    def instance_up(self, instance: Instance | int, now: int | None = None) -> None:
        """It takes requests from here on; an id alone is an instance of which nothing else is known."""
        if not isinstance(instance, Instance):
            instance = Instance(instance)
        told = initialised(abi.takt_instance)
        told.id = whole("id", instance.id, (1, 2**64 - 1))
        told.kv_tokens = whole("kv_tokens", instance.kv_tokens, _COUNT)
        told.model, told.profile = whole("model", instance.model, _U64), whole("profile", instance.profile, _U64)
        told.capacity = whole("capacity", instance.capacity, (0, 2**63 - 1))
        told.token_s, told.life = real("token_s", instance.token_s), whole("life", instance.life, _U64)
        self._fresh("instance_up").words[0] = ctypes.addressof(told)
        self._fact(abi.TAKT_EVENT_INSTANCE_UP, now, "instance_up")

    def instance_down(self, instance: int, now: int | None = None, *, life: int = 0) -> None:
        """It is gone; the requests that it had wait here again, each once."""
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
        """Its own counts: requests in its queue, running, preemptions since it came up, KV in use [tokens]. ``as_of``: time
        up to which they are complete [ns]. The report then includes all requests that were placed by that time, and none
        that were placed later. None: it includes as many requests as it counts, the oldest first."""
        told = self._fresh("instance_reported").instance_reported
        told.instance = whole("instance", instance, _U64)
        told.waiting, told.running = whole("waiting", waiting, _I64), whole("running", running, _I64)
        told.preempted, told.kv_used = whole("preempted", preempted, _I64), whole("kv_used", kv_used, _COUNT)
        if as_of is not None:
            told.dated, told.as_of = 1, whole("as_of", as_of, _I64)
        told.life = whole("life", life, _U64)
        self._fact(abi.TAKT_EVENT_INSTANCE_REPORTED, now, "instance_reported")

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
        """A workflow and its graph; ``open``: more stages may come after all that are known have ended."""
        listed = list(stages)
        array = (abi.takt_stage * len(listed))()
        kept = []
        for into, stage in zip(array, listed):
            if not isinstance(stage, Stage):
                raise RequestError("stages", stage, "must be takt.Stage")
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
        """A stage, named by its index, has ended."""
        told = self._fresh("stage_ended").stage_ended
        told.workflow, told.stage = whole("workflow", workflow, _U64), whole("stage", stage, (0, 2**32 - 1))
        self._fact(abi.TAKT_EVENT_STAGE_ENDED, now, "stage_ended")

    def workflow_ended(self, workflow: int, *, cancelled: bool = False, now: int | None = None) -> None:
        """Nothing more comes of it. Where it was cancelled, nothing is learnt of it."""
        told = self._fresh("workflow_ended").workflow_ended
        told.workflow = whole("workflow", workflow, _U64)
        told.cancelled = flag("cancelled", cancelled)
        self._fact(abi.TAKT_EVENT_WORKFLOW_ENDED, now, "workflow_ended")

    # ---- decisions ----------------------------------------------------------------------------------------------

    def place(self, now: int | None = None) -> Routing:
        """What goes where, now."""
        told = self._routing
        check(lib.takt_router_place(self._ready("place"), moment(now), ctypes.addressof(told)), "place")
        self._raise_errors()
        return Routing(
            [Placement(p.request, p.instance, p.life) for p in told.placed[: told.n_placed]],
            [Failure(f.request, _FAIL.get(f.reason, str(f.reason)), f.code) for f in told.failed[: told.n_failed]],
            [
                WorkflowEnd(e.workflow, _HOW[e.how], e.arrival, e.end, e.deadline, e.stage)
                for e in told.ended[: told.n_ended]
            ],
            [WorkflowFault(f.kind, f.workflow, f.stage, f.site) for f in told.faults[: told.n_faults]],
            told.wake_at,
        )

    def place_at(self, request: int, instance: int, now: int | None = None) -> None:
        """The host has picked: a request that waits here goes to this instance."""
        ids = whole("request", request, _U64), whole("instance", instance, _U64)
        status = lib.takt_router_place_at(self._handle, *ids, moment(now))
        if status == abi.TAKT_E_INVALID:
            raise RequestError("request", request, f"does not wait here, or instance {instance} is not up")
        check(status, "place_at")
        self._raise_errors()

    def score(self, request: Request, instances: Sequence[int], now: int | None = None) -> list[float]:
        """What the placement gives each of these instances for a request that need not be known here: larger is better,
        NaN: no place now. Shape (instances,). Places nothing."""
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

    def instance_of(self, request: int) -> int | None:
        """Where it is; None: it waits here, or is not alive."""
        instance = ctypes.c_uint64()
        request = whole("request", request, _U64)
        check(lib.takt_router_instance_of(self._handle, request, ctypes.byref(instance)), "instance_of")
        return instance.value or None

    def wake_at(self) -> int:
        """Without an event before, place again then [ns]."""
        at = ctypes.c_int64()
        check(lib.takt_router_wake_at(self._handle, ctypes.byref(at)), "wake_at")
        return at.value

    def add_profile(self, name: str) -> int:
        """The id of what instances of one model, GPU and parallelism are called; told twice, it is the same."""
        profile = ctypes.c_uint64()
        check(lib.takt_router_add_profile(self._ready("add_profile"), encoded("name", name), ctypes.byref(profile)), "add_profile")
        return profile.value

    def epoch(
        self,
        ranks: Mapping[int, AgentRank] | None = None,
        *,
        otherwise: AgentRank | None = None,
        alpha: float | None = None,
        now: int | None = None,
    ) -> None:
        """As of `Scheduler.epoch`."""
        told = epoch_of(ranks, otherwise, alpha)
        check(lib.takt_router_epoch(self._handle, ctypes.addressof(told[0]), moment(now)), "epoch")
        self._raise_errors()

    @property
    def policy(self) -> str:
        """The policy in use, as a text that makes the same."""
        return text(lib.takt_router_policy(self._ready("policy")))

    @property
    def last_fault(self) -> Fault | None:
        """The last thing that the host said and that cannot be; None in a sound host."""
        return last_fault(lib.takt_router_last_fault, self._ready("last_fault"))

    def counts(self) -> dict[str, int]:
        """``instances`` that are up; requests ``alive``, ``waiting``, and ``set_aside`` as too large for every instance."""
        told = initialised(abi.takt_router_counts)
        check(lib.takt_router_count(self._handle, ctypes.addressof(told)), "counts")
        return {name: getattr(told, name) for name in ("instances", "alive", "waiting", "set_aside")}

    def stats(self) -> dict[str, int]:
        """All counters since creation: docs/reference/stats.md."""
        return read_stats(lib.takt_router_stats, self._ready("stats"))
