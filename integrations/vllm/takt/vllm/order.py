"""takt's order as vLLM's request queues: one `takt.Queue`, with views that vLLM peeks at and pops from."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from vllm.v1.core.sched.request_queue import RequestQueue
from vllm.v1.request import RequestStatus

from ..queues import Queue
from ..requests import Request

if TYPE_CHECKING:
    from vllm.v1.request import Request as VllmRequest

__all__ = ["Order", "TaktRequestQueue"]

_FIRST = 8  # requests that a step usually examines: those that it admits, and a few more


class Order:
    """One order over all waiting requests of a vLLM scheduler, in any of its queues.

    vLLM's ids are texts, takt's are numbers: a request has its number from its first wait until `ended`. A pop does not
    mean admission, because vLLM also pops requests that it skips and returns. A popped request that has not come back
    at the end of the iteration was admitted.
    """

    def __init__(
        self, queue: Queue, describe: Callable[[VllmRequest, int], Request], fault: Callable[[Exception], None]
    ) -> None:
        self.queue = queue
        self._describe = describe  # returns the takt.Request of a request with this number
        self.fault = fault  # is called with an exception inside takt; calls `leave` of each view
        self._wall = time.time_ns() - time.monotonic_ns()
        self._last = 0
        self._numbers: dict[str, int] = {}
        self._requests: dict[int, VllmRequest] = {}
        self.running: dict[str, int] = {}  # numbers of the running requests, as takt sees them, by vLLM's id
        self.popped: dict[int, None] = {}  # popped in this iteration, and not come back
        self._views: list[TaktRequestQueue] = []
        self.kept_out: set[int] = set()  # kept out by the gate in this iteration
        self.stranded = False  # requests that hold blocks go first
        self.in_iteration = False

    def now(self) -> int:
        """Returns the time in nanoseconds on the scale of vLLM's arrival times; it never goes back."""
        return time.monotonic_ns() + self._wall

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, request: VllmRequest) -> int | None:
        return self._numbers.get(request.request_id)

    def request(self, number: int) -> VllmRequest | None:
        return self._requests.get(number)

    def enter(self, request: VllmRequest) -> int:
        """Adds a waiting request: a new one, a preempted one, or one that vLLM has skipped."""
        number = self._numbers.get(request.request_id)
        if number is not None and self._requests[number] is not request:
            self.ended(request)  # another request with the same id
            number = None
        if number is None:
            self._last = number = self._last + 1
            self._numbers[request.request_id] = number
            self._requests[number] = request
            self.queue.push(self._describe(request, number), now=self.now())
        else:
            self.popped.pop(number, None)  # for takt it has waited all the time
            if self.running.pop(request.request_id, None) is not None:
                self.queue.requeue(number, self.now())
        self.changed()
        return number

    def restated(self, request: VllmRequest) -> None:
        """Updates a session that streams its input: it has another prompt and arrival."""
        number = self._numbers.get(request.request_id)
        if number is not None:
            arrival = min(self.now(), int(request.arrival_time * 1e9))
            prompt = int(request.num_prompt_tokens)
            self.queue.revise(number, prompt_tokens=prompt, arrival=arrival, now=self.now())
            self.changed()

    def ended(self, request: VllmRequest) -> None:
        """Removes a request, which may be unknown."""
        number = self._numbers.pop(request.request_id, None)
        if number is None:
            return
        del self._requests[number]
        self.running.pop(request.request_id, None)
        self.popped.pop(number, None)
        self.kept_out.discard(number)
        for view in self._views:
            view.members.pop(number, None)
            view.holding.pop(number, None)
        self.queue.erase(number)
        self.changed()

    def check(self) -> None:
        """Checks that vLLM's view and takt's agree. For tests: it visits every request."""
        waiting = [number for view in self._views for number in view.members]
        assert len(waiting) == len(set(waiting)), "a request waits in two queues"
        assert sorted(waiting) == sorted(self.queue.list()), "the waiting requests differ from those in takt's order"
        running = set(self.running.values())
        assert not running & set(waiting), "a request is both waiting and running"
        assert self._numbers.keys() == {r.request_id for r in self._requests.values()}
        assert running | set(waiting) == set(self._requests), "a request is lost"

    def changed(self) -> None:
        for view in self._views:
            view.read = 0
            view.ahead.clear()

    def begin(self) -> int:
        now = self.now()
        self.popped.clear()
        self.in_iteration = True
        self.changed()
        self.queue.begin(now)
        return now

    def admitted(self) -> list[int]:
        return list(self.popped)

    def end(self, ran: list[Any], **pressure: Any) -> None:
        """Ends the iteration. ``ran`` lists the admitted requests; it may also list running ones."""
        self.running.update((self._requests[number].request_id, number) for number in self.popped)
        self.popped.clear()
        self.in_iteration = False
        self.kept_out.clear()
        self.changed()
        self.queue.end(ran, now=self.now(), **pressure)


class TaktRequestQueue(RequestQueue):
    """A queue of vLLM's scheduler in takt's order. Several may share one order, each with its own requests.

    vLLM may hold this queue in a local variable during a fault. So `leave` moves the requests to vLLM's ``own`` queue,
    and all later calls use that queue.
    """

    def __init__(self, order: Order, own: RequestQueue) -> None:
        self.order = order
        self.own: Any = own  # vLLM's queue, empty until `leave`
        self.left = False  # True: the requests are in `own`
        self._peeked: VllmRequest | None = None  # vLLM pops the request that it has peeked at
        self.members: dict[int, VllmRequest] = {}
        self.ahead: list[int] = []  # the first requests of the order that are in this view, the very first one last
        self.read = 0  # number of requests of the order read for `ahead`
        self.holding: dict[int, None] = {}  # waiting requests that hold blocks: their KV or input was on its way
        order._views.append(self)

    def leave(self) -> None:
        """Moves the requests to vLLM's own queue, in the order in which they came to takt. Calls nothing of takt."""
        if self.left:
            return
        self.left = True
        for _, request in sorted(self.members.items()):
            self.own.add_request(request)
        self.members.clear()
        self.holding.clear()
        self.ahead.clear()

    def add_request(self, request: VllmRequest) -> None:
        if self.left or not self._entered(request):
            self.own.add_request(request)

    # A queue without an order puts preempted and skipped requests first; this one ranks them.
    def prepend_request(self, request: VllmRequest) -> None:
        if self.left or not self._entered(request):
            self.own.prepend_request(request)

    def prepend_requests(self, requests: Iterable[VllmRequest]) -> None:
        if self.left:
            self.own.prepend_requests(requests)
            return
        for request in list(requests):
            self.prepend_request(request)

    def _entered(self, request: VllmRequest) -> bool:
        """Returns False after a fault: the request is then in no queue."""
        try:
            self.enter(request)
        except Exception as error:
            self.order.fault(error)
            return False
        return True

    def enter(self, request: VllmRequest) -> None:
        """Adds a request, and raises exceptions of takt."""
        number = self.order.enter(request)
        if request.num_computed_tokens > 0 or request.status == RequestStatus.WAITING_FOR_REMOTE_KVS:
            self.holding[number] = None
        self.members[number] = request

    def _next(self) -> int:
        """Returns `_first`; 0 after a fault."""
        try:
            return self._first()
        except Exception as error:
            self.order.fault(error)
            return 0

    def _first(self) -> int:
        """Returns the number of the first request; 0: none may be admitted."""
        members, ahead, kept_out = self.members, self.ahead, self.order.kept_out
        if self.order.stranded:
            for number in self.holding:
                if number not in kept_out:
                    return number
        while True:
            while ahead:
                number = ahead[-1]
                if number in members and number not in kept_out:
                    return number
                ahead.pop()
            if not members or (kept_out and self.read and members.keys() <= kept_out):
                return 0
            total = len(self.order.queue)
            if self.read >= total:
                return 0
            start = self.read
            self.read = min(total, max(_FIRST, 4 * self.read))
            ahead.extend(reversed(self.order.queue.list(self.read)[start:]))

    def peek_request(self) -> VllmRequest:
        number = 0 if self.left else self._next()
        if self.left:
            self._peeked = None
            return self.own.peek_request()  # type: ignore[no-any-return]
        if not number:
            raise IndexError("peek from an empty queue")
        self._peeked = self.members[number]
        return self._peeked

    def pop_request(self) -> VllmRequest:
        number = 0 if self.left else self._next()
        peeked, self._peeked = self._peeked, None
        if self.left:
            if peeked is None or not any(each is peeked for each in self.own):
                return self.own.pop_request()  # type: ignore[no-any-return]
            self.own.remove_request(peeked)
            return peeked
        if not number:
            raise IndexError("pop from an empty queue")
        self.order.popped[number] = None
        self.holding.pop(number, None)
        return self.members.pop(number)  # `ahead` drops it when it is read

    def remove_request(self, request: VllmRequest) -> None:
        if not self.left and request not in self:
            raise ValueError(f"request {request.request_id} is not in the queue")
        if self.left:
            self.own.remove_request(request)
        else:
            self.remove_requests((request,))

    def remove_requests(self, requests: Iterable[VllmRequest]) -> None:
        requests = list(requests)
        if not self.left:
            try:
                for request in requests:
                    if request in self:
                        self.order.ended(request)
            except Exception as error:
                self.order.fault(error)
        if self.left:
            self.own.remove_requests(requests)

    def __contains__(self, request: object) -> bool:
        if self.left:
            return any(each is request for each in self.own)
        number = self.order._numbers.get(getattr(request, "request_id", ""))
        return number is not None and self.members.get(number) is request

    def __bool__(self) -> bool:
        """Within an iteration: True if a request may be admitted."""
        if not self.left and self.members:
            if not self.order.in_iteration or not self.order.kept_out or self._next() != 0:
                return True
        return bool(self.own)

    def __len__(self) -> int:
        return len(self.own if self.left else self.members)

    def __getitem__(self, i: int) -> VllmRequest:
        return list(self)[i]

    def __iter__(self) -> Iterator[VllmRequest]:
        if not self.left:
            try:
                order = self.order.queue.list()
                return iter([self.members[number] for number in order if number in self.members])
            except Exception as error:
                self.order.fault(error)
        return iter(self.own)
