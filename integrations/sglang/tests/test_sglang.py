"""Tests of takt's order in SGLang's waiting queue, with imitated requests. They also use SGLang's own requests if it is
installed with PyTorch (bench/peers/peer-sglang)."""

from __future__ import annotations

import inspect
import json
import logging
import random
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sglang_host

import takt
from takt import sglang
from takt.sglang import KEY_TARGET, TARGET, Contained, Order, install, routing_key

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


SESSIONS = json.loads((Path(__file__).resolve().parents[3] / "tests/session_headers.json").read_text())


@pytest.mark.parametrize("case", SESSIONS["cases"], ids=lambda case: case["why"])
def test_the_session_of_a_coding_agent_is_the_routing_key(case: dict[str, Any]) -> None:
    pairs = [(name, value if isinstance(value, str) else value[0] * value[1]) for name, value in case["headers"]]
    raw = SimpleNamespace(headers=SimpleNamespace(items=lambda: pairs))
    key = routing_key(lambda server, raw_request: None, None, raw)
    assert key == (case["workflow"] if case["source"] in ("takt", "session") else None)


@pytest.mark.parametrize("wrong", ["off", "false ", "", "2"])
def test_a_switch_that_is_neither_true_nor_false_fails_the_start(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    monkeypatch.setenv("TAKT_SGLANG_POLICY", "fcfs")
    monkeypatch.setenv("TAKT_SGLANG_SESSION_HEADERS", wrong)
    with pytest.raises(takt.OptionError, match="TAKT_SGLANG_SESSION_HEADERS is .*; expected true or false"):
        install()


def test_sglangs_own_routing_key_goes_first_and_a_fault_leaves_none(caplog: pytest.LogCaptureFixture) -> None:
    raw = SimpleNamespace(headers={"x-session-affinity": "s"})
    assert routing_key(lambda server, raw_request: "own", None, raw) == "own"
    assert routing_key(lambda server, raw_request: None, None, raw) == "s"
    assert routing_key(lambda server, raw_request: None, None, None) is None
    assert not caplog.records
    assert routing_key(lambda server, raw_request: None, None, SimpleNamespace(headers=3)) is None
    assert "an exception in takt" in caplog.text


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


def calls() -> list[tuple[Any, str]]:
    """Returns each call into takt that a sort can make, by introspection: (owner, name)."""
    found: list[tuple[Any, str]] = [(sglang, "Request"), (sglang, "Ran"), (sglang, "Queue"), (sglang, "_number")]
    for kind in (takt.Queue, Order):
        names = [name for name, body in vars(kind).items() if inspect.isfunction(body)]
        found += [(kind, name) for name in names if not name.startswith("__") or name in ("__init__", "__len__")]
    return found


class Injected(Exception):
    pass


class Injector:
    """Counts calls, and raises `error` at the chosen one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: type[Exception] = Injected):
        self.counts: Counter[str] = Counter()
        self.at, self.error, self.raised = ("", 0), error, 0
        for owner, name in calls():
            monkeypatch.setattr(owner, name, self.around(f"{owner.__name__}.{name}", getattr(owner, name)))

    def around(self, key: str, body: Any) -> Any:
        def called(*args: Any, **more: Any) -> Any:
            self.counts[key] += 1
            if self.at == (key, self.counts[key]):
                self.raised += 1
                raise self.error(key)
            return body(*args, **more)

        return called

    def start(self, key: str, n: int) -> None:
        self.counts, self.at, self.raised = Counter(), (key, n), 0


def serve(takt_in_it: Contained, *, switches: tuple[int, int] = (20, 25)) -> None:
    """Serves requests, some of which are retracted, aborted or finished. A sort must change nothing but the order."""
    dice = random.Random(11)
    waiting: list[Req] = []
    running: list[Req] = []
    for step in range(60):
        waiting += [Req(100 * step + i, dice.randrange(1, 500), key=dice.choice("abc"), at=step + 1) for i in range(dice.randrange(3))]
        if step in switches:
            takt_in_it.switch(step == switches[1])
        own = rids(waiting)
        takt_in_it.sort(waiting, now=(step + 2) * 10**9)
        assert sorted(rids(waiting)) == sorted(own), "a request is lost, or waits twice"
        assert takt_in_it.order is not None or rids(waiting) == own, "not SGLang's order"
        assert takt_in_it.order is None or len(takt_in_it.order._waits) == len(waiting)
        running += [waiting.pop(0) for _ in range(min(len(waiting), dice.randrange(3)))]
        for req in running:
            req.output_ids.append(1)
            req.done = dice.random() < 0.1
        running = [req for req in running if not req.done]
        if running and dice.random() < 0.1:
            waiting.insert(0, running.pop())
        if waiting and dice.random() < 0.1:
            waiting.pop()


def test_an_exception_at_each_call_keeps_every_request(monkeypatch: pytest.MonkeyPatch) -> None:
    errors: list[str] = []
    monkeypatch.setattr(logging.getLogger("sglang.takt"), "error", lambda text, **more: errors.append(text))
    injector = Injector(monkeypatch)
    serve(plain := Contained("room_to_pass"))
    assert plain.faults == 0 and not errors
    counts = dict(injector.counts)
    assert len(counts) > 12, counts
    for key, n in counts.items():
        for at in sorted({1, (n + 1) // 2, n}):
            injector.start(key, at)
            errors.clear()
            serve(contained := Contained("room_to_pass"))
            injector.at = ("", 0)
            assert contained.faults == injector.raised == len(errors), (key, at)
            assert injector.raised or at > 1, key


def test_takt_stays_off_until_it_is_turned_on(monkeypatch: pytest.MonkeyPatch) -> None:
    injector = Injector(monkeypatch)
    contained = Contained("priority")
    waiting = [Req(1, at=1), Req(2, priority=5, at=2)]
    injector.start("Queue.begin", 1)
    for _ in range(3):
        contained.sort(waiting, now=10**10)
        assert rids(waiting) == [1, 2] and contained.faults == 1
    contained.switch(True)
    contained.sort(waiting, now=10**10)
    assert rids(waiting) == [2, 1] and contained.order is not None and len(contained.order) == 2


def test_a_file_turns_takt_off_and_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sglang, "_LOOK_S", 0.0)
    file = tmp_path / "off"
    contained = Contained("fcfs", off_file=str(file))
    ranks = Contained("fcfs", step_s=0.02, off_file=str(file))
    for exists, expected in ((True, [2, 1]), (False, [1, 2]), (True, [2, 1])):
        if exists:
            file.touch()
        else:
            file.unlink()
        waiting = [Req(2, at=2), Req(1, at=1)]
        contained.sort(waiting, now=10**10)
        assert rids(waiting) == expected and (contained.order is None) == exists
        ranks.sort(waiting)
        assert ranks.order is not None  # ranks must sort alike


def test_a_lack_of_memory_ends_one_of_several_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    injector = Injector(monkeypatch, MemoryError)
    for step_s, raises in ((0.0, False), (0.02, True)):
        injector.start("Queue.begin", 1)
        contained = Contained("fcfs", step_s=step_s)
        if raises:
            with pytest.raises(MemoryError):
                contained.sort([Req(1)])
        else:
            contained.sort([Req(1)])
        assert contained.faults == 1


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
    assert {TARGET, KEY_TARGET} <= HookRegistry._patched
    from sglang.srt.entrypoints.openai.serving_base import OpenAIServingBase
    Headers = pytest.importorskip("starlette.datastructures").Headers

    def key(**headers: str) -> Any:
        told = Headers({name.replace("_", "-"): value for name, value in headers.items()})
        return OpenAIServingBase.extract_routing_key(None, SimpleNamespace(headers=told))

    assert key(X_Session_Affinity="s") == "s"
    assert key(X_Session_Affinity="s", X_SMG_Routing_Key="own") == "own"
    assert key(Host="h") is None
    with get_parallel().override(tp_size=1, pp_size=1):
        policy(False, False).calc_priority(waiting)
        assert rids(waiting) == [3, 2, 1]  # by arrival
        low = policy(True, True)
        low.calc_priority(waiting)
        assert rids(waiting) == [2, 1, 3]
        high = policy(True, False)
        high.calc_priority(waiting, None, processed_tokens=5)
        assert rids(waiting) == [3, 2, 1]
        assert len(high.takt.order) == 3 and high.takt.faults == 0
    with get_parallel().override(tp_size=2, pp_size=1):
        waiting = [waiting[1], waiting[2], waiting[0]]
        policy(False, False).calc_priority(waiting)
        assert rids(waiting) == [2, 1, 3]  # in order of arrival, whatever the clock of a rank
