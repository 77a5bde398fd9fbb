"""takt's order in SGLang: an AROUND hook on `SchedulePolicy.calc_priority`, as an SGLang plug-in. docs/howto/sglang.md

    TAKT_SGLANG_POLICY=boosted_footprint python -m sglang.launch_server --model ...

Without that variable nothing is hooked.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

from .queues import Queue, Ran
from .requests import UNSET, Request

__all__ = ["TARGET", "Order", "install"]

TARGET = "sglang.srt.managers.schedule_policy.SchedulePolicy.calc_priority"


def _number(name: object) -> int:
    """An id for a name, which clients choose: JSON may hold half a character, or no text at all."""
    if not name:
        return 0
    try:
        data = (name if isinstance(name, str) else repr(name)).encode(errors="replace")
    except ValueError:  # a number of too many digits
        data = b"?"
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little") or 1


class Order:
    """A `takt.Queue` beside SGLang's waiting queue, which it sorts in place.

    A request of SGLang (`Req`) bears a number from when it is first seen until it has finished or is gone. What has left
    the waiting queue was admitted. SGLang's own sort comes first, since it also matches prefixes. With SGLang's
    `--enable-priority-scheduling` its priorities come before takt's order: higher ones are sooner, unless SGLang was told
    otherwise.

    With `step_s` above 0 a sort is taken as so many seconds after the one before, and no clock is read: schedulers of
    several ranks, which must agree, then give the same order for the same sorts.
    """

    def __init__(self, policy: str | None = None, *, step_s: float = 0.0) -> None:
        self.queue = Queue(policy)
        self._step = int(step_s * 1e9)
        self._sorts = 0
        self._numbers: dict[int, int] = {}  # by id(req)
        self._known: dict[int, Any] = {}  # number to the request, which it keeps alive
        self._waits: set[int] = set()  # numbers, as of the last sort
        self._told: dict[int, int] = {}  # output tokens that takt was told of
        self._last = 0

    def __len__(self) -> int:
        """Requests that are known."""
        return len(self._known)

    def describe(self, req: Any, number: int, sign: int = -1) -> Request:
        """What takt is told of a request. The workflow is its routing key, or its session."""
        entered = req.time_stats.wait_queue_entry_time  # [s] of the monotonic clock
        return Request(
            number,
            prompt_tokens=min(len(req.origin_input_ids), 2**28),
            max_output_tokens=max(0, min(int(req.sampling_params.max_new_tokens or 0), 2**28)),
            workflow=_number(req.routing_key or req.session_id),
            priority=max(-(2**31), min(2**31 - 1, int(req.priority or 0) * sign)),
            arrival=int(entered * 1e9) if entered > 0 and not self._step else UNSET,
        )

    def sort(self, waiting: list[Any], *, by_priority: bool = False, sign: int = -1, now: int | None = None) -> None:
        """Sorts the waiting requests in place; `sign` is SGLang's `priority_sign`, -1 where higher is sooner."""
        self._sorts += 1
        if self._step:
            now = self._sorts * self._step
        elif now is None:
            now = time.monotonic_ns()
        self._ran({self._numbers.get(id(req), 0) for req in waiting}, now)
        places = {}
        for req in waiting:
            number = self._numbers.get(id(req)) or self._enter(req, sign, now)
            if number not in self._waits:  # it was retracted
                self.queue.requeue(number, now)
                self._waits.add(number)
            places[number] = 0
        self.queue.begin(now)
        places.update((number, place) for place, number in enumerate(self.queue.list()))
        place_of = {id(self._known[number]): place for number, place in places.items()}
        waiting.sort(key=lambda req: ((req.priority or 0) * sign if by_priority else 0, place_of[id(req)]))

    def _ran(self, still: set[int], now: int) -> None:
        """What has left the waiting queue since the last sort was admitted; what has ended is forgotten."""
        admitted = self._waits - still
        self._waits -= admitted
        self.queue.begin(now)
        self.queue.end(
            [Ran(number, min(len(self._known[number].origin_input_ids), 2**28)) for number in admitted], now=now
        )
        grown, gone = [], []
        for number in self._known:  # not by pairs, which would hold it too
            req = self._known[number]
            more = len(req.output_ids) - self._told[number]
            if more > 0:
                grown.append(Ran(number, 0, min(more, 2**28)))
                self._told[number] += more
            # An abort in the queue leaves no mark on it, but nobody else holds it then: `_known`, `req`, the argument.
            if req.finished() or (number not in still and sys.getrefcount(req) <= 3):
                gone.append(number)
        self.queue.computed(grown)
        for number in gone:
            del self._numbers[id(self._known.pop(number))], self._told[number]
            self._waits.discard(number)
            self.queue.erase(number)

    def _enter(self, req: Any, sign: int, now: int) -> int:
        self._last = number = self._last + 1
        self.queue.push(self.describe(req, number, sign), now=now)
        self._numbers[id(req)], self._known[number], self._told[number] = number, req, len(req.output_ids)
        self._waits.add(number)
        return number


def install() -> None:
    """SGLang calls it in each process, by the entry point `sglang.srt.plugins`."""
    text = os.environ.get("TAKT_SGLANG_POLICY")
    if not text:
        return
    Queue(text).close()  # what is wrong with the text is said now
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType
    from sglang.srt.runtime_context import get_parallel

    def around(original: Callable[..., None], policy: Any, waiting_queue: list[Any], *args: Any, **more: Any) -> None:
        """SGLang's own first, and takt's order of what it left."""
        original(policy, waiting_queue, *args, **more)
        if "takt_order" not in vars(policy):
            ranks = get_parallel()
            policy.takt_order = Order(text, step_s=0.02 if ranks.tp_size * ranks.pp_size > 1 else 0.0)
        policy.takt_order.sort(waiting_queue, by_priority=policy.enable_priority_scheduling, sign=policy.priority_sign)

    HookRegistry.register(TARGET, around, HookType.AROUND)
