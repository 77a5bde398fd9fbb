"""Ordering alone: the key of one request (L0), and a queue for hosts that admit requests themselves (L1)."""

from __future__ import annotations

import builtins
import ctypes
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from . import _abi as abi
from ._handle import Handle
from ._library import check, chosen, encoded, initialised, items, lib, moment, names, text, whole
from .errors import RequestError, TaktError
from .requests import (
    REVISED_IN_QUEUES,
    Filled,
    KeyFunction,
    Request,
    revised_by,
)
from .schedulers import AgentRank, epoch_of

__all__ = ["Queue", "Ranker", "Ran", "order"]

_TRAITS = names("TAKT_TRAIT_FIXED")
_PLACES = names("TAKT_PLACE_NONE")
_WAITS_FOR = names("TAKT_WAITS_FOR_NOTHING").numbers()
_U64 = (0, 2**64 - 1)


def traits_of(mask: int) -> frozenset[str]:
    return frozenset(name for bit, name in _TRAITS.items() if mask & bit)


class Ran(NamedTuple):
    """The work of an iteration on a request: ``prefill`` tokens of context, and ``output`` new tokens per sequence."""

    request: int
    prefill: int = 0
    output: int = 0


def _ran_array(ran: Iterable[Ran | tuple[int, int, int] | int]) -> tuple[Any, int]:
    rows = [tuple(each) if isinstance(each, (tuple, list)) else (each, 0, 0) for each in ran]
    if wrong := [each for each in rows if len(each) != 3]:
        raise RequestError("ran", wrong[0], "must be a request, its prefill tokens and its output tokens")
    array = (abi.takt_ran * len(rows))()
    for into, (request, prefill, output) in zip(array, rows):
        into.request = whole("request", request, _U64)
        into.prefill = whole("prefill", prefill, (0, 2**28))
        into.output = whole("output", output, (0, 2**28))
    return array, len(rows)


class Ranker(Handle):
    """Computes the key of one request, for hosts that sort requests themselves. A smaller key runs sooner."""

    _kind = "ranker"

    def __init__(
        self, policy: str | None = None, *, key: KeyFunction | None = None, key_name: str | None = None
    ) -> None:
        super().__init__()
        pointer = self._keep_key(key, key_name)
        self._create(encoded("policy", policy), pointer)

    @property
    def traits(self) -> frozenset[str]:
        """How long a key is valid: ``{"fixed"}`` as long as the request waits; otherwise the events that change it."""
        return traits_of(lib.takt_ranker_traits(self._ready("traits")))

    def keys(self, requests: Sequence[Request], now: int | None = None) -> builtins.list[float]:
        """Returns the keys of the requests, in order. Equal keys rank by arrival, then by id."""
        rows = list(requests)  # a copy: reading a field may run code that changes the caller's list
        n = len(rows)
        array = (abi.takt_request * n)()
        kept = [Filled(struct) for struct in array]
        for filled, request in zip(kept, rows):
            filled.fill(request)
        keys = (ctypes.c_double * n)()
        size = ctypes.sizeof(abi.takt_request)
        status = lib.takt_ranker_keys(
            self._handle, ctypes.addressof(array), n, size, moment(now), ctypes.addressof(keys)
        )
        self._raise_errors()
        check(status, "keys")
        return list(keys)


class Queue(Handle):
    """Waiting requests in the order of a policy, for hosts that handle admission and KV themselves (level L1).

    ``policy`` is a text such as ``"sjf"`` or ``"aged(edf,threshold=100)"``; None: takt's default, `room_to_pass`.
    ``key`` is a host's own order: a function of a `RequestState`; a smaller key runs sooner. The queue calls it when a
    request joins the waiting ones, comes back or is revised. Without a policy the key alone orders; otherwise the
    policy contains it, as in ``"aged(custom,threshold=100)"``.

    ``ranks`` and ``otherwise`` are the first ranks of agents, as in `Queue.epoch`. A policy that ranks by agents, such
    as ``"agent_priority"``, needs them: `OptionError` without. With ``{}`` all agents are equal until `epoch`.

    An iteration is `begin`, any number of `top`, `list`, `take` and `hold`, then `end` with the requests that ran. A
    call with an unknown request returns False and has no effect. Times are in nanoseconds; ``now`` defaults to
    `time.monotonic_ns()`.
    """

    _kind = "queue"

    def __init__(
        self,
        policy: str | None = None,
        *,
        key: KeyFunction | None = None,
        key_name: str | None = None,
        ranks: Mapping[int, AgentRank] | None = None,
        otherwise: AgentRank | None = None,
        reserve_requests: int = 1024,
        hash_seed: int = 0,
    ) -> None:
        super().__init__()
        options = initialised(abi.takt_queue_options)
        first = epoch_of(ranks, otherwise, None)
        options.epoch = ctypes.pointer(first[0])
        options.policy = encoded("policy", policy)
        options.reserve_requests = whole("reserve_requests", reserve_requests, (0, 2**40))
        options.hash_seed = whole("hash_seed", hash_seed, _U64)
        pointer = self._keep_key(key, key_name)
        if pointer is not None:
            options.key = pointer
        self._create(ctypes.byref(options))
        self._request = Filled()
        self._top, self._counted = ctypes.c_uint64(), ctypes.c_size_t()
        self._pressure = initialised(abi.takt_pressure)

    @property
    def policy(self) -> str:
        """Text of the policy in use; it creates the same policy again."""
        return text(lib.takt_queue_policy(self._ready("policy")))

    @property
    def traits(self) -> frozenset[str]:
        """Like `Ranker.traits`."""
        return traits_of(lib.takt_queue_traits(self._ready("traits")))

    def learnt(self) -> bytes:
        """Returns what the policy has learnt, such as typical lengths; empty: it does not learn. The bytes are the same
        on every machine."""
        return self._learnt()

    def load_learnt(self, learnt: bytes) -> None:
        """Loads what the same policy has learnt before. Waiting requests keep their places. `OptionError`, without
        effect, if the bytes are not from `learnt` of this policy in this version."""
        self._load_learnt(learnt)

    def __len__(self) -> int:
        """Number of waiting requests."""
        return int(lib.takt_queue_size(self._ready("len")))

    def __contains__(self, request: object) -> bool:
        return isinstance(request, int) and 0 <= request < 2**64 and self.place(int(request)) is not None

    def __iter__(self) -> Iterator[int]:
        return iter(self.list())

    def place(self, request: int) -> str | None:
        """Returns "waiting", "taken", "held", "running" or "paused"; None: unknown request."""
        place = lib.takt_queue_place(self._ready("place"), whole("request", request, _U64))
        return _PLACES[place] if place > 0 else None

    def _done(self, result: int, call: str) -> bool:
        self._raise_errors()
        if result < 0:
            check(-result, call)
        return result in (abi.TAKT_RESULT_DONE, abi.TAKT_RESULT_REQUEUED)

    def push(self, *requests: Request, now: int | None = None) -> None:
        """Adds requests to the waiting ones: all, or none if one is invalid. `RequestError` names the invalid field."""
        at = moment(now)
        self._ready("push")
        if len(requests) == 1:
            result = lib.takt_queue_push(self._handle, self._request.fill(requests[0]), at)
            if result == abi.TAKT_RESULT_IN_USE:
                raise RequestError("id", requests[0].id, "is already in use")
            if not self._done(result, "push"):
                raise TaktError(f"push: request {requests[0].id} was refused ({result})")
            return
        seen: set[int] = set()
        filled = []
        for request in requests:
            filled.append(Filled())
            filled[-1].fill(request)
            if request.id in seen or self.place(request.id) is not None:
                raise RequestError("id", request.id, "is already in use")
            seen.add(request.id)
        for each in filled:
            result = lib.takt_queue_push(self._handle, each.address, at)
            if not self._done(result, "push"):
                raise TaktError(f"push: request {each.struct.id} was refused ({result})")

    def put(self, request: Request, now: int | None = None) -> bool:
        """Adds a request, or requeues it if it is known and not waiting; a known request keeps its fields. Returns True
        if it was known."""
        result = lib.takt_queue_put(self._ready("put"), self._request.fill(request), moment(now))
        if not self._done(result, "put"):
            raise TaktError(f"put: request {request.id} is already waiting")
        return bool(result == abi.TAKT_RESULT_REQUEUED)

    def revise(
        self,
        request: int,
        *,
        now: int | None = None,
        **changes: Any,
    ) -> bool:
        """Sets new values of a request: output_tokens, workflow_tokens_left, after, deadline, expires_at, priority,
        sequences, next_call, prompt_tokens or arrival, as in `Request`."""
        rows = revised_by(changes, REVISED_IN_QUEUES)
        self._ready("revise")
        address = self._request.fill(Request(request, **changes))
        return self._done(lib.takt_queue_revise(self._handle, address, rows, moment(now)), "revise")

    def erase(self, request: int) -> bool:
        """Removes a request that has ended or was cancelled."""
        return self._done(lib.takt_queue_erase(self._handle, whole("request", request, _U64)), "erase")

    def epoch(
        self, ranks: Mapping[int, AgentRank], *, otherwise: AgentRank | None = None, now: int | None = None
    ) -> None:
        """Sets the ranks of agents, and the rank ``otherwise`` of all other agents. The next `begin` orders by them."""
        rows = epoch_of(ranks, otherwise, None)
        self._ready("epoch")
        check(lib.takt_queue_epoch(self._handle, ctypes.addressof(rows[0]), moment(now)), "epoch")
        self._raise_errors()

    def begin(self, now: int | None = None) -> None:
        """Begins an iteration."""
        check(lib.takt_queue_begin(self._handle, moment(now)), "begin")
        self._raise_errors()

    def top(self) -> int | None:
        """Returns the first waiting request without removing it; None: none waits."""
        found = lib.takt_queue_top(self._ready("top"), ctypes.byref(self._top))
        if found < 0:
            check(-found, "top")
        return self._top.value if found else None

    def list(self, n: int | None = None) -> builtins.list[int]:
        """Returns the first n waiting requests, best first; None: all. Shape (at most n,)."""
        most = len(self) if n is None else min(whole("n", n, (0, 2**40)), len(self))
        ids = (ctypes.c_uint64 * most)()
        return list(ids[: lib.takt_queue_list(self._handle, ctypes.addressof(ids), most)])

    def take(self, request: int) -> bool:
        """Takes a request out of the order for this iteration. If `end` does not list it, it waits again as before."""
        return self._done(lib.takt_queue_take(self._handle, whole("request", request, _U64)), "take")

    def hold(self, request: int) -> bool:
        """Blocks a request until `requeue`."""
        return self._done(lib.takt_queue_hold(self._handle, whole("request", request, _U64)), "hold")

    def pause(self, request: int, now: int | None = None) -> bool:
        """Marks a request as in a tool call, until `requeue`."""
        return self._done(lib.takt_queue_pause(self._handle, whole("request", request, _U64), moment(now)), "pause")

    def requeue(self, request: int, now: int | None = None) -> bool:
        """Makes a request wait again after it was taken, held, preempted or in a tool call."""
        return self._done(lib.takt_queue_requeue(self._handle, whole("request", request, _U64), moment(now)), "requeue")

    def end(
        self,
        ran: Iterable[Ran | tuple[int, int, int] | int] = (),
        *,
        head: str | None = None,
        kv_tokens: int = 0,
        engines: int = 1,
        now: int | None = None,
    ) -> int:
        """Ends the iteration. ``ran`` lists the requests that it ran. Returns the number of entries that were valid.

        ``head`` is the reason why the first waiting request did not run ("its_turn", "sequences", "kv", "budget", ...),
        for policies that price resources. ``kv_tokens`` is the size of the KV cache [tokens], 0: unknown.
        """
        self._ready("end")
        array, n = _ran_array(ran)
        pressure = None
        if head is not None:
            pressure = self._pressure
            pressure.head = chosen("head", head, _WAITS_FOR)
            pressure.kv_tokens = whole("kv_tokens", kv_tokens, (0, 2**31 - 1))
            pressure.engines = whole("engines", engines, (1, 2**31 - 1))
        status = lib.takt_queue_end(
            self._handle,
            ctypes.addressof(array),
            n,
            None if pressure is None else ctypes.addressof(pressure),
            moment(now),
            ctypes.byref(self._counted),
        )
        self._raise_errors()
        check(status, "end")
        return self._counted.value

    def computed(self, ran: Iterable[Ran | tuple[int, int, int] | int], *, rest_output: int = 0) -> int:
        """Reports the work of a step if the host learns it after `end`. ``rest_output``: new tokens per sequence of
        each other running request; 0: unknown. Returns the number of entries of ``ran`` that were valid."""
        array, n = _ran_array(ran)
        rest = whole("rest_output", rest_output, (0, 2**28))
        counted = ctypes.byref(self._counted)
        check(lib.takt_queue_computed(self._handle, ctypes.addressof(array), n, rest, counted), "computed")
        self._raise_errors()
        return self._counted.value

    def victims(
        self, holding: Mapping[int, int], need: int, *, beneficiary: int = 0, now: int | None = None
    ) -> builtins.list[int]:
        """Returns the requests to preempt for ``need`` KV blocks, worst first. ``holding`` is {request: blocks that it
        would free}. With a ``beneficiary``, the result has only requests that rank below that request. The result is
        empty if all together would not free enough."""
        held = items("holding", holding)
        array = (abi.takt_holding * len(held))()
        for into, (request, blocks) in zip(array, held):
            into.request = whole("request", request, _U64)
            into.blocks = whole("blocks", blocks, (0, 2**31 - 1))
        found, n = ctypes.c_void_p(), ctypes.c_size_t()
        status = lib.takt_queue_victims(
            self._handle,
            ctypes.addressof(array),
            len(array),
            whole("need", need, (0, 2**31 - 1)),
            whole("beneficiary", beneficiary, _U64),
            moment(now),
            ctypes.byref(found),
            ctypes.byref(n),
        )
        self._raise_errors()
        check(status, "victims")
        return list((ctypes.c_uint64 * n.value).from_address(found.value or 0)) if n.value else []


def order(
    requests: Iterable[Request],
    policy: str | None = None,
    *,
    key: KeyFunction | None = None,
    now: int | None = None,
) -> list[Request]:
    """Returns the requests in the order of a policy, first to run first."""
    rows, at = list(requests), moment(now)
    with Queue(policy, key=key, reserve_requests=len(rows)) as queue:
        queue.push(*rows, now=at)
        queue.begin(at)
        by_id = {request.id: request for request in rows}
        return [by_id[request] for request in queue.list()]
