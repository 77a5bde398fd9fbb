"""Measures takt.Queue and a queue on Python's heapq with the same requests, in turns in one process.

Shortest output first, ties by arrival. heapq leaves cancelled entries in the heap until they are on top, or are more than the valid
ones. Both queues must return the same requests. Times are the thread's CPU time per call [us].
"""

from __future__ import annotations

import heapq
import importlib.util
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

if importlib.util.find_spec("takt") is None:
    sys.path.append(str(Path(__file__).resolve().parents[2] / "bindings" / "python"))

import takt  # noqa: E402

BATCH = 64  # requests of a batch
OPERATIONS = ("push", "pop", "cancel", "re-rank", f"best {BATCH}")


class HeapqQueue:
    def __init__(self) -> None:
        self.heap: list[tuple[int, int]] = []
        self.valid: dict[int, tuple[int, int]] = {}

    def push(self, request: int, length: int) -> None:
        entry = self.valid[request] = (length, request)
        heapq.heappush(self.heap, entry)

    def top(self) -> tuple[int, int]:
        """Returns the first valid entry, and removes it from the heap."""
        while True:
            entry = heapq.heappop(self.heap)
            if self.valid.get(entry[1]) is entry:
                return entry

    def pop(self) -> int:
        request = self.top()[1]
        del self.valid[request]
        return request

    def cancel(self, request: int) -> None:
        del self.valid[request]
        if len(self.heap) > 2 * len(self.valid) + BATCH:
            self.heap = list(self.valid.values())
            heapq.heapify(self.heap)

    def rerank(self, request: int, length: int) -> None:
        self.cancel(request)
        self.push(request, length)

    def best(self, n: int) -> list[int]:
        entries = [self.top() for _ in range(min(n, len(self.valid)))]
        for entry in entries:
            heapq.heappush(self.heap, entry)
        return [request for _, request in entries]


class TaktQueue:
    def __init__(self) -> None:
        self.queue = takt.Queue("sjf", reserve_requests=1 << 17)

    def push(self, request: int, length: int) -> None:
        self.queue.push(takt.Request(request, output_tokens=length, arrival=request), now=request)

    def pop(self) -> int:
        request = self.queue.top()
        assert request is not None
        self.queue.erase(request)
        return request

    def cancel(self, request: int) -> None:
        self.queue.erase(request)

    def rerank(self, request: int, length: int) -> None:
        self.queue.revise(request, output_tokens=length, now=request)

    def best(self, n: int) -> list[int]:
        return self.queue.list(n)


class Turn:
    """The operations of a round, drawn in advance, and the requests that wait after them."""

    def __init__(self, draw: random.Random, waiting: list[int], last: int, calls: int) -> None:
        self.new = [(last + 1 + i, draw.randint(1, 4000)) for i in range(2 * calls)]
        self.cancelled = draw.sample(waiting, calls)
        kept = set(waiting) - set(self.cancelled)
        self.reranked = [(request, draw.randint(1, 4000)) for request in draw.sample(sorted(kept), min(calls, len(kept)))]


def timed(call: Callable[..., Any], rows: Sequence[tuple[Any, ...]]) -> tuple[float, list[Any]]:
    """Returns the time per call [us], and the results."""
    began = time.thread_time_ns()
    results = [call(*row) for row in rows]
    return (time.thread_time_ns() - began) / 1e3 / len(rows), results


def play(queue: Any, turn: Turn, calls: int) -> tuple[list[float], list[Any]]:
    """Cancels, re-ranks, pushes and pops, so that the same number waits as before. Returns times by operation, and what it returned."""
    cancel, _ = timed(queue.cancel, [(request,) for request in turn.cancelled])
    rerank, _ = timed(queue.rerank, turn.reranked)
    push, _ = timed(queue.push, turn.new)
    best, lists = timed(queue.best, [(BATCH,)] * 10)
    pop, popped = timed(queue.pop, [()] * calls)
    return [push, pop, cancel, rerank, best], [lists[-1], popped]


def measured(n: int, rounds: int) -> dict[str, dict[str, list[float]]]:
    """Returns for each operation the times of both queues in each round [us]."""
    draw = random.Random(7)
    queues: dict[str, Any] = {"heapq": HeapqQueue(), "takt": TaktQueue()}
    first = [(i, draw.randint(1, 4000)) for i in range(1, n + 1)]
    waiting, last, calls = {request for request, _ in first}, n, min(1000, n // 4)
    for queue in queues.values():
        timed(queue.push, first)
    times: dict[str, dict[str, list[float]]] = {name: {"heapq": [], "takt": []} for name in OPERATIONS}
    for round_ in range(rounds + 1):  # the first one warms up
        turn = Turn(draw, sorted(waiting), last, calls)
        results = {}
        for name, queue in queues.items():
            each, results[name] = play(queue, turn, calls)
            for operation, time_ in zip(OPERATIONS, each):
                if round_:
                    times[operation][name].append(time_)
        if results["heapq"] != results["takt"]:
            raise AssertionError(f"the queues differ with {n} waiting requests")
        last += len(turn.new)
        waiting = (waiting - set(turn.cancelled) | {request for request, _ in turn.new}) - set(results["takt"][1])
    return times


def rows(n: int, times: dict[str, dict[str, list[float]]]) -> list[str]:
    """Returns rows of the table: medians, and in brackets the extremes."""

    def cell(of: list[float]) -> str:
        return f"{statistics.median(of):.2f} ({min(of):.2f} to {max(of):.2f})"

    return [f"| {n:,} | {name} | {cell(each['heapq'])} | {cell(each['takt'])} |" for name, each in times.items()]
