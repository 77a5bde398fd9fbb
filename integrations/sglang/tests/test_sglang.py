"""Tests of takt's order in SGLang's waiting queue, with imitated requests. They also use SGLang's own requests if it is
installed with PyTorch (bench/peers/peer-sglang)."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest
import sglang_host

import takt
from takt.sglang import TARGET, Order, install

try:
    real: Any = sglang_host.schedule_policy()
except ImportError as error:
    real, why = None, str(error)
needs_sglang = pytest.mark.skipif(real is None, reason="needs sglang and torch (bench/peers/peer-sglang)")


class Req:
    """The fields of SGLang's Req that takt reads."""

    def __init__(self, rid: int, tokens: int = 100, priority: int | None = None, key: str | None = None, at: float = 0):
        self.rid, self.priority, self.routing_key, self.session_id = str(rid), priority, key, None
        self.origin_input_ids = [1] * tokens
        self.output_ids: list[int] = []
        self.sampling_params = SimpleNamespace(max_new_tokens=64)
        self.time_stats = SimpleNamespace(wait_queue_entry_time=at)
        self.done = False

    def finished(self) -> bool:
        return self.done


def rids(waiting: list[Any]) -> list[int]:
    return [int(req.rid) for req in waiting]


def test_sort_uses_takts_order() -> None:
    dice = random.Random(3)
    for policy in ("fcfs", "footprint", "room_to_pass", "priority"):
        order = Order(policy)
        waiting = [Req(i, dice.randrange(1, 900), dice.randrange(-3, 4), at=dice.random()) for i in range(1, 200)]
        told = [order.describe(req, int(req.rid)) for req in waiting]
        expected = [request.id for request in takt.order(told, policy, now=2_000_000_000)]
        order.sort(waiting, now=2_000_000_000)
        assert rids(waiting) == expected, policy


def test_invalid_values_of_clients_stop_nothing() -> None:
    waiting = [Req(i, key=key) for i, key in enumerate(("\ud800", "w", 17, [10**5000], ""), start=1)]  # type: ignore[arg-type]
    waiting[1].sampling_params.max_new_tokens = -1
    waiting[2].priority = 1.5  # type: ignore[assignment]
    order = Order("fcfs")
    order.sort(waiting, now=1)
    assert rids(waiting) == [1, 2, 3, 4, 5]
    assert [order.describe(req, 1).workflow != 0 for req in waiting] == [True, True, True, True, False]


def test_higher_priority_is_sooner_unless_sglang_is_configured_otherwise() -> None:
    waiting = [Req(1, priority=1), Req(2, priority=5), Req(3), Req(4, priority=5)]
    Order("priority").sort(waiting, now=1)
    assert rids(waiting) == [2, 4, 1, 3]
    Order("priority").sort(waiting, sign=1, now=1)
    assert rids(waiting) == [3, 1, 2, 4]
    Order("fcfs").sort(waiting, by_priority=True, now=1)  # SGLang's priorities rank before takt's order
    assert rids(waiting) == [2, 4, 1, 3]


def test_order_depends_on_a_workflows_service() -> None:
    order = Order("autellix")
    first = Req(1, key="a", at=1)
    order.sort([first], now=2_000_000_000)
    for step in range(150):  # it was admitted; 150 decode steps are 3 s of service, more than the first queue's 2 s
        first.output_ids.append(1)
        order.sort([], now=3_000_000_000 + step)
    first.done = True
    later = [Req(2, key="a", at=4), Req(3, key="b", at=5)]
    order.sort(later, now=6_000_000_000)
    assert rids(later) == [3, 2]
    assert len(order) == 2


def test_retracted_requests_wait_and_aborted_ones_are_forgotten() -> None:
    order = Order("fcfs")
    waiting = [Req(i, at=i) for i in range(1, 5)]
    order.sort(waiting, now=10_000_000_000)
    running = [waiting.pop(0), waiting.pop(0)]
    order.sort(waiting, now=11_000_000_000)
    assert order.queue.place(1) == order.queue.place(2) == "running"
    waiting.append(running.pop(0))
    order.sort(waiting, now=12_000_000_000)
    assert rids(waiting) == [1, 3, 4]
    running[0].done = True
    del waiting[1]  # aborted: SGLang drops its reference
    order.sort(waiting, now=13_000_000_000)
    assert rids(waiting) == [1, 4] and len(order) == 2


def test_ranks_agree_with_any_clocks() -> None:
    dice = random.Random(5)
    for policy in ("autellix", "room_to_pass", "hrrn"):
        ranks = [Order(policy, step_s=0.02) for _ in range(2)]
        queues: list[list[Req]] = [[], []]
        for step in range(200):
            if dice.random() < 0.6:
                tokens, key = dice.randrange(1, 900), dice.choice("abc")
                for queue in queues:
                    queue.append(Req(step, tokens, key=key, at=dice.random() * 1e5))
            for rank, queue in zip(ranks, queues):
                rank.sort(queue, now=dice.randrange(2**60))
            assert rids(queues[0]) == rids(queues[1]), policy
            if dice.random() < 0.4:
                for queue in queues:
                    del queue[:1]


def test_no_request_is_lost_in_a_random_run() -> None:
    dice = random.Random(7)
    order, waiting, running, last = Order("room_to_pass"), [], [], 0
    for step in range(400):
        for _ in range(dice.randrange(3)):
            last += 1
            waiting.append(Req(last, dice.randrange(1, 500), key=dice.choice("abc"), at=step + 1))
        before = set(rids(waiting))
        order.sort(waiting, now=(step + 2) * 10**9)
        assert set(rids(waiting)) == before and len(order.queue) == len(waiting)
        admitted = dice.randrange(3)
        running += waiting[:admitted]
        del waiting[:admitted]
        for req in running:
            req.output_ids.append(1)
            req.done = dice.random() < 0.1
        running = [req for req in running if not req.done]
        if running and dice.random() < 0.05:
            waiting.insert(0, running.pop())
        if waiting and dice.random() < 0.05:
            waiting.pop()
    waiting.clear()
    running.clear()
    del req
    order.sort(waiting, now=10**12)
    assert len(order) == 0


@needs_sglang
def test_sglangs_own_hooks_policy_and_requests_work(monkeypatch: pytest.MonkeyPatch) -> None:
    from array import array

    from sglang.srt.managers.schedule_batch import Req as SglangReq
    from sglang.srt.mem_cache.radix_cache import RadixCache
    from sglang.srt.plugins.hook_registry import HookRegistry
    from sglang.srt.runtime_context import get_parallel
    from sglang.srt.sampling.sampling_params import SamplingParams

    def request(rid: int, prompt: int, priority: int, at: float) -> Any:
        made = SglangReq(
            str(rid),
            "",
            array("q", range(prompt)),
            SamplingParams(max_new_tokens=8),
            priority=priority,
            routing_key="a",
        )
        made.time_stats.wait_queue_entry_time = at
        return made

    def policy(by_priority: bool, low_first: bool) -> Any:
        return real.SchedulePolicy("fcfs", RadixCache.create_simulated(), False, by_priority, low_first)

    monkeypatch.setenv("SGLANG_ENABLE_WAITING_PREFIX_REFRESH", "0")  # otherwise it reads a server's configuration
    monkeypatch.delenv("TAKT_SGLANG_POLICY", raising=False)
    install()
    assert TARGET not in HookRegistry._hooks  # no hook unless the variable is set
    waiting = [request(1, 90, 0, 3.0), request(2, 10, 0, 2.0), request(3, 50, 7, 1.0)]
    policy(False, False).calc_priority(waiting)
    assert rids(waiting) == [1, 2, 3]
    monkeypatch.setenv("TAKT_SGLANG_POLICY", "no_such_policy")
    with pytest.raises(takt.OptionError):
        install()
    monkeypatch.setenv("TAKT_SGLANG_POLICY", "fcfs")
    install()
    HookRegistry.apply_hooks()
    assert TARGET in HookRegistry._patched
    with get_parallel().override(tp_size=1, pp_size=1):
        policy(False, False).calc_priority(waiting)
        assert rids(waiting) == [3, 2, 1]  # by arrival
        low = policy(True, True)
        low.calc_priority(waiting)
        assert rids(waiting) == [2, 1, 3]
        high = policy(True, False)
        high.calc_priority(waiting, None, processed_tokens=5)
        assert rids(waiting) == [3, 2, 1]
        assert len(high.takt_order) == 3
    with get_parallel().override(tp_size=2, pp_size=1):
        waiting = [waiting[1], waiting[2], waiting[0]]
        policy(False, False).calc_priority(waiting)
        assert rids(waiting) == [2, 1, 3]  # in order of arrival, whatever the clock of a rank
