"""takt's order in SGLang, as an SGLang plug-in with an AROUND hook on `SchedulePolicy.calc_priority`.
docs/howto/sglang.md

    TAKT_SGLANG_POLICY=room_to_pass python -m sglang.launch_server --model ...

Without that variable it installs no hook. If takt raises an exception, requests stay in SGLang's own order. A second
hook gives requests without a routing key the session of their coding agent.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

from .errors import OptionError
from .identity import parse_headers
from .queues import Queue, Ran
from .requests import UNSET, Request

__all__ = ["KEY_TARGET", "TARGET", "Contained", "Order", "install", "routing_key"]

TARGET = "sglang.srt.managers.schedule_policy.SchedulePolicy.calc_priority"
KEY_TARGET = "sglang.srt.entrypoints.openai.serving_base.OpenAIServingBase.extract_routing_key"
_LOOK_S = 1.0  # time between two looks at the file that turns takt off

logger = logging.getLogger("sglang.takt")


def _number(name: object) -> int:
    """Returns an id for a name. Clients choose names: JSON may hold a lone surrogate, or no text at all."""
    if not name:
        return 0
    try:
        data = (name if isinstance(name, str) else repr(name)).encode(errors="replace")
    except ValueError:  # a number of too many digits
        data = b"?"
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little") or 1


class Order:
    """A `takt.Queue` that follows SGLang's waiting queue and sorts it in place.

    A request of SGLang (`Req`) has a number from its first appearance until it has finished or is gone. A request that
    has left the waiting queue was admitted. SGLang sorts first, because its sort also matches prefixes. With SGLang's
    `--enable-priority-scheduling`, its priorities rank before takt's order. A higher priority runs sooner, unless
    SGLang is configured otherwise.

    If `step_s` is above 0, each sort counts as this number of seconds after the previous one, and no clock is read.
    Schedulers of several ranks, which must agree, then give the same order for the same sorts.
    """

    def __init__(self, policy: str | None = None, *, step_s: float = 0.0) -> None:
        self.queue = Queue(policy)
        self._step = int(step_s * 1e9)
        self._sorts = 0
        self._numbers: dict[int, int] = {}  # by id(req)
        self._known: dict[int, Any] = {}  # number to the request, which this keeps alive
        self._waits: set[int] = set()  # numbers of waiting requests at the last sort
        self._told: dict[int, int] = {}  # output tokens reported to takt
        self._last = 0

    def __len__(self) -> int:
        """Returns the number of known requests."""
        return len(self._known)

    def describe(self, req: Any, number: int, sign: int = -1) -> Request:
        """Returns the takt.Request of a request. Its workflow is its routing key, or its session."""
        entered = req.time_stats.wait_queue_entry_time  # monotonic clock [s]
        return Request(
            number,
            prompt_tokens=min(len(req.origin_input_ids), 2**28),
            max_output_tokens=max(0, min(int(req.sampling_params.max_new_tokens or 0), 2**28)),
            workflow=_number(req.routing_key or req.session_id),
            priority=max(-(2**31), min(2**31 - 1, int(req.priority or 0) * sign)),
            arrival=int(entered * 1e9) if entered > 0 and not self._step else UNSET,
        )

    def sort(self, waiting: list[Any], *, by_priority: bool = False, sign: int = -1, now: int | None = None) -> None:
        """Sorts the waiting requests in place. `sign` is SGLang's `priority_sign`; -1: a higher priority runs
        sooner."""
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
        # Not sort() in place: if the key fails, the list stays as it is.
        waiting[:] = sorted(
            waiting, key=lambda req: ((req.priority or 0) * sign if by_priority else 0, place_of[id(req)])
        )

    def _ran(self, still: set[int], now: int) -> None:
        """Reports requests that were admitted since the last sort, and forgets those that have ended."""
        admitted = self._waits - still
        self._waits -= admitted
        self.queue.begin(now)
        self.queue.end(
            [Ran(number, min(len(self._known[number].origin_input_ids), 2**28)) for number in admitted], now=now
        )
        grown, gone = [], []
        for number in self._known:  # not items(), whose pair would also hold a reference
            req = self._known[number]
            more = len(req.output_ids) - self._told[number]
            if more > 0:
                grown.append(Ran(number, 0, min(more, 2**28)))
                self._told[number] += more
            # A request aborted in the queue is not marked, but then only `_known`, `req` and the argument refer to it.
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


class Contained:
    """Sorts by an `Order`. After an exception inside takt, and while takt is off, requests stay in SGLang's own order.

    ``off_file``: takt turns off if this file appears, and on if it disappears; empty: no file. Several ranks must sort alike, but each looks at
    its own time. So with ``step_s`` the file has no effect, and a lack of memory, which may hit one rank alone, is
    raised.
    """

    def __init__(self, policy: str | None = None, *, step_s: float = 0.0, off_file: str = "") -> None:
        self.policy, self.step_s, self.off_file = policy, step_s, off_file if not step_s else ""
        self.order: Order | None = None  # None: takt is off, or has not sorted yet
        self.faults = 0
        self._wanted, self._off, self._looks = True, False, 0.0
        self._counter: Any = None
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:  # SGLang's --enable-metrics sets it
            self._counter = _counter()

    def switch(self, on: bool) -> None:
        """Turns takt off or on at the next sort, and on again after a fault."""
        self._wanted = on

    def sort(self, waiting: list[Any], **how: Any) -> None:
        """Sorts in place as `Order.sort`, which has the arguments; while takt is off, it changes nothing."""
        try:
            if self.off_file and (at := time.monotonic()) >= self._looks:
                self._looks = at + _LOOK_S
                off = os.path.exists(self.off_file)
                if off != self._off:
                    self._off, self._wanted = off, not off
                    logger.info("takt is %s", "off: requests stay in SGLang's order" if off else "on")
            if not self._wanted:
                self.order = None
                return
            if self.order is None:
                self.order = Order(self.policy, step_s=self.step_s)
            self.order.sort(waiting, **how)
        except Exception as error:
            self.faults += 1
            self._wanted, self.order = False, None
            if self._counter is not None:
                self._counter.inc()
            logger.error("takt.sglang: an exception in takt; requests stay in SGLang's order", exc_info=error)
            if self.step_s and isinstance(error, (MemoryError, OSError)):
                raise


_counters: list[Any] = []


def _counter() -> Any:
    """Returns the counter of faults, which a process has once; None without prometheus_client."""
    if not _counters:
        try:
            from prometheus_client import Counter
        except ImportError:
            return None
        _counters.append(Counter("takt_faults", "takt: exceptions inside takt, after which SGLang's order applies"))
    return _counters[0]


def routing_key(original: Callable[..., Any], server: Any, raw_request: Any, *args: Any, **more: Any) -> Any:
    """The hook on `KEY_TARGET`. Returns SGLang's own routing key, or else X-Takt-Workflow, or else the session of the
    coding agent. A failure leaves the request without a key."""
    key = original(server, raw_request, *args, **more)
    if key is not None or raw_request is None:
        return key
    try:
        who = parse_headers(raw_request.headers)
        return who.workflow if who.source in ("takt", "session") else None
    except Exception as error:
        logger.error("takt.sglang: an exception in takt; the request has no routing key", exc_info=error)
        return None


def _session_headers() -> bool:
    text = os.environ.get("TAKT_SGLANG_SESSION_HEADERS", "true")
    known = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
    if text.lower() not in known:
        raise OptionError(f"takt.sglang: TAKT_SGLANG_SESSION_HEADERS is {text!r}; expected true or false")
    return known[text.lower()]


def install() -> None:
    """Entry point `sglang.srt.plugins`: SGLang calls it in each process."""
    text = os.environ.get("TAKT_SGLANG_POLICY")
    if not text:
        return
    Queue(text).close()  # raises at once if the text is invalid
    sessions = _session_headers()
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType
    from sglang.srt.runtime_context import get_parallel

    def around(original: Callable[..., None], policy: Any, waiting_queue: list[Any], *args: Any, **more: Any) -> None:
        """Runs SGLang's own sort, then sorts its result in takt's order."""
        original(policy, waiting_queue, *args, **more)
        if "takt" not in vars(policy):
            ranks = get_parallel()
            step_s = 0.02 if ranks.tp_size * ranks.pp_size > 1 else 0.0
            policy.takt = Contained(text, step_s=step_s, off_file=os.environ.get("TAKT_SGLANG_OFF_FILE", ""))
        policy.takt.sort(waiting_queue, by_priority=policy.enable_priority_scheduling, sign=policy.priority_sign)

    HookRegistry.register(TARGET, around, HookType.AROUND)
    if sessions:
        HookRegistry.register(KEY_TARGET, routing_key, HookType.AROUND)
