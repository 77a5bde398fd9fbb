"""Tests of integers too large for C, callbacks that call back, copies of handles, and names of the C header."""

from __future__ import annotations

import copy
import ctypes
import datetime
import math
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import takt
from hostile_host import Acts, Hostile
from takt import _abi as abi
from takt import _arrays, _library, schedulers
from test_abi import TREES

MS = 1_000_000


@pytest.mark.skipif(not TREES, reason="the package has no header next to it")
def test_each_constant_of_the_header_has_a_name() -> None:
    headers = [TREES[0] / "include/takt/c" / name for name in ("model.h", "takt.h")]
    text = re.sub(r"//[^\n]*", "", "".join(header.read_text() for header in headers))
    enums = re.findall(r"\benum\s*\{(.*?)\}", text, re.S)
    assert len(enums) == len(abi.ENUMS) > 25
    for body in enums:
        pairs = re.findall(r"(TAKT_\w+)\s*=\s*(\d+)", body)
        named = _library.names(pairs[0][0])
        assert len(named) == len(pairs)
        for constant, number in pairs:
            assert constant.lower().endswith("_" + named[int(number)]), constant
        assert named[250] == "250"  # a number from a later library


def test_tables_have_all_numbers() -> None:
    assert set(schedulers._KV.values()) == {"keep", "drop", "out", "in", "fetch"}
    assert schedulers._CHOICES["preempt_action"] == {"drop": abi.TAKT_KV_DROP, "out": abi.TAKT_KV_OUT}
    assert schedulers._CHOICES["kv"] == {"none": 0, "ledger": 1, "oracle": 2}
    assert takt.TaktError("", abi.TAKT_E_BUSY).status == "TAKT_E_BUSY" and takt.TaktError("", 99).status == "99"


def turn(request: int, workflow: int, blocks: int) -> takt.Request:
    hashes = [1000 * workflow + i for i in range(blocks)]
    return takt.Request(
        request, prompt_tokens=16 * blocks, workflow=workflow, prefix_hashes=hashes, prefix_block_tokens=16
    )


def test_a_prefix_is_loaded_from_the_hosts_memory() -> None:
    limits = takt.Limits(tokens=10_000)
    scheduler = takt.Scheduler(
        "fcfs", kv_blocks=50, kv_watermark=0.0, prefix_cache=True, cpu_blocks=100, prefix_cpu_blocks=100, limits=limits
    )
    scheduler.set_retention("lru", None)
    now = 0
    for request, blocks in ((1, 30), (2, 40)):  # the second one displaces the first
        scheduler.arrive(turn(request, request, blocks), now=now)
        plan = scheduler.step(now=now)
        assert plan.requests == [request]
        assert [chunk.keep for chunk in plan.host_chunks].count(False) == 0
        scheduler.step(now=now + MS, finished=[request])
        now += 10 * MS
    scheduler.arrive(turn(3, 1, 31), now=now)
    moves = scheduler.step(now=now).moves
    assert [(move.request, move.action) for move in moves] == [(3, "fetch")] and moves[0].blocks > 0
    scheduler.move_done(moves[0].id, now=now + MS)
    plan = scheduler.step(now=now + MS)
    assert plan.requests == [3] and plan.entries()[0].position == 16 * (moves[0].first + moves[0].blocks)


def test_handles_and_views_of_their_memory_have_no_copies() -> None:
    scheduler = takt.Scheduler("fcfs", kv_blocks=100)
    scheduler.arrive(takt.Request(1, prompt_tokens=9), now=0)
    states: list[Any] = []

    def key(state: takt.RequestState) -> float:
        states.append(state)
        return 0.0

    queue = takt.Queue(key=key)
    queue.push(takt.Request(1, prompt_tokens=9, prefix_hashes=(1, 2), prefix_block_tokens=4), now=0)
    assert states[0].request.prompt_tokens == 9 and not states[0].request.n_prefix_hashes and states[0].generated == 0
    plan = scheduler.step(now=0)
    for each in (scheduler, plan, queue, takt.Router(), takt.Ranker("sjf"), states[0], plan._buffer):
        for way in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match=f"cannot copy or pickle a {type(each).__name__}"):
                way(each)
    assert scheduler.step(now=1).requests == [1]


def slices() -> None:
    scheduler = takt.Scheduler("fcfs", kv_blocks=1000)
    scheduler.arrive(*(takt.Request(i, prompt_tokens=10) for i in range(1, 7)), now=0)
    plan = scheduler.plan(now=0)
    rows = plan.results()
    part = rows[1:4]
    assert len(part) == 3 and [int(row[0] if _arrays.HAS_NUMPY else row.request) for row in part] == [2, 3, 4]
    if _arrays.HAS_NUMPY:
        part["flags"][0] = takt.FINISHED
    else:
        part[0].flags = takt.FINISHED
    assert scheduler.commit(plan, part, now=1) is None  # the others made no progress
    assert scheduler.counts()["alive"] == 5
    plan = scheduler.plan(now=2)
    assert sorted(plan.requests) == [1, 3, 4, 5, 6]
    assert scheduler.commit(plan, plan.results()[::2], now=3) is None
    plan = scheduler.plan(now=4)
    assert scheduler.commit(plan, plan.results()[:0], now=5) is None
    with pytest.raises(TypeError, match="Plan.results"):
        scheduler.commit(scheduler.plan(now=6), [1, 2], now=7)


def test_results_can_be_sliced() -> None:
    slices()
    code = "import sys; sys.modules['numpy'] = None; sys.path.insert(0, sys.argv[1]); import test_hostile; test_hostile.slices()"
    here = str(Path(__file__).resolve().parent)
    told = subprocess.run([sys.executable, "-c", code, here], capture_output=True, text=True)
    assert told.returncode == 0, told.stderr


TIMES = (2**63, -(2**63) - 1, 2**70, 1.5, 1.0, math.nan, math.inf, "now", True, datetime.datetime(2026, 1, 1), [1])


@pytest.mark.parametrize("now", TIMES)
def test_a_time_too_large_for_c_is_refused(now: Any) -> None:
    scheduler, queue, router = takt.Scheduler("fcfs", kv_blocks=100), takt.Queue("sjf"), takt.Router()
    router.instance_up(1, now=0)
    ranks = {1: takt.AgentRank(1.0)}
    request = takt.Request(1, prompt_tokens=3)
    calls: tuple[Callable[[], object], ...] = (
        lambda: scheduler.step(now=now), lambda: scheduler.plan(now), lambda: scheduler.arrive(request, now=now),
        lambda: scheduler.cancel(1, now), lambda: scheduler.set_policy("sjf", now=now), lambda: scheduler.epoch(ranks, now=now),
        lambda: queue.push(request, now=now), lambda: queue.begin(now), lambda: queue.end(now=now),
        lambda: queue.victims({}, 1, now=now), lambda: router.arrive(request, now=now), lambda: router.place(now),
        lambda: router.score(request, [1], now), lambda: takt.order([request], now=now),
        lambda: takt.Ranker("sjf").keys([request], now),
    )  # fmt: skip
    for call in calls:
        with pytest.raises(takt.RequestError, match="^now is ") as caught:
            call()
        assert isinstance(caught.value, ValueError)
    assert not scheduler.counts()["alive"] and not len(queue) and scheduler.step(now=-5).idle == "no_requests"


def test_other_values_too_large_for_c_are_refused() -> None:
    scheduler = takt.Scheduler("fcfs", kv_blocks=100)
    router = takt.Router()
    calls: dict[str, Callable[[], object]] = {
        "prefix_cache": lambda: takt.Scheduler("fcfs", kv_blocks=9, prefix_cache=256),  # type: ignore[arg-type]
        "fail_unfit": lambda: takt.Router(fail_unfit=2),  # type: ignore[arg-type]
        "failed": lambda: scheduler.move_done(1, failed=2**32),  # type: ignore[arg-type]
        "cancelled": lambda: scheduler.workflow_ended(1, cancelled="no"),  # type: ignore[arg-type]
        "alpha_ms": lambda: scheduler.set_retention("lru", alpha_ms=math.nan),
        "limits": lambda: scheduler.step(limits=7, now=0),  # type: ignore[arg-type]
        "ranks": lambda: router.epoch([1], now=0),  # type: ignore[arg-type]
        "why": lambda: scheduler.turn_ended(1, why=["tool"], now=0),  # type: ignore[arg-type]
        "request": lambda: scheduler.arrive(7, now=0),  # type: ignore[arg-type]
        "stages": lambda: router.workflow_declared(1, [4], now=0),  # type: ignore[list-item]
        "log": lambda: takt.replay_log("text"),  # type: ignore[arg-type]
        "max_running": lambda: takt.Scheduler("fcfs", kv_blocks=9, max_running=10**5000),
    }
    for name, call in calls.items():
        with pytest.raises(takt.RequestError, match=f"^{name} is "):
            call()


def test_a_text_with_a_null_character_is_refused() -> None:
    scheduler, queue = takt.Scheduler("fcfs", kv_blocks=100, prefix_cache=True), takt.Queue("sjf")
    for text in ("fcfs\0nonsense", "\ud800", b"fcfs", 7):
        wrong: Any = text
        calls: dict[str, Callable[[], object]] = {
            "policy": lambda: takt.Queue(wrong),
            "pause": lambda: takt.Scheduler("fcfs", kv_blocks=9, pause=wrong),
            "placement": lambda: takt.Router(placement=wrong),
            "retention": lambda: scheduler.set_retention(wrong),
            "gate": lambda: scheduler.set_retention("lru", wrong),
            "name": lambda: takt.Router().add_profile(wrong),
        }
        for name, call in calls.items():
            with pytest.raises(takt.RequestError, match=f"^{name} is .*text|^{name} is .*null character"):
                call()
        with pytest.raises(takt.RequestError, match="^policy is "):
            scheduler.set_policy(wrong, now=0)
        with pytest.raises(takt.RequestError, match="^policy is "):
            takt.order([takt.Request(1)], wrong)
    assert queue.policy == "sjf" and scheduler.policy == "fcfs"


def test_a_callback_cannot_close_or_change_its_handle() -> None:
    kept: list[str] = []

    def key(state: Any) -> float:
        hashes = state.request.prefix_hashes[: state.request.n_prefix_hashes]
        for call in (
            queue.close, lambda: queue.push(takt.Request(9, prompt_tokens=1)), lambda: queue.put(takt.Request(9)),
            lambda: queue.revise(1, priority=3), lambda: queue.end([1]), lambda: len(queue),
        ):  # fmt: skip
            with pytest.raises(takt.TaktError, match="callback of the same handle") as caught:
                call()
            kept.append(caught.value.status)
        assert state.request.id == 1 and hashes == state.request.prefix_hashes[: state.request.n_prefix_hashes] == [5, 6]
        return 1.0

    queue = takt.Queue(key=key)
    queue.push(takt.Request(1, prompt_tokens=40, prefix_hashes=[5, 6], prefix_block_tokens=16), now=0)
    assert kept == ["TAKT_E_BUSY"] * 6 and len(queue) == 1
    queue.close()
    queue.close()
    for use in (lambda: len(queue), lambda: queue.policy, lambda: queue.push(takt.Request(2))):
        with pytest.raises(takt.TaktError, match="has been closed"):
            use()


def test_a_sink_cannot_close_its_scheduler() -> None:
    found: list[BaseException] = []

    def sink(_: bytes) -> None:
        try:
            scheduler.close()
        except takt.TaktError as error:
            found.append(error)

    scheduler = takt.Scheduler("fcfs", kv_blocks=100, record=sink)
    scheduler.arrive(takt.Request(1, prompt_tokens=9), now=0)
    scheduler.flush()
    assert len(found) >= 1 and scheduler.step(now=1).requests == [1]


def test_a_failing_sink_releases_the_memory() -> None:
    def full(_: bytes) -> None:
        raise OSError("no space left")

    scheduler = takt.Scheduler("fcfs", kv_blocks=100, record=full)
    scheduler.arrive(takt.Request(1, prompt_tokens=9), now=0)
    with pytest.raises(OSError, match="no space left"):
        scheduler.close()
    assert not scheduler._handle


def test_a_refused_policy_leaves_the_old_key() -> None:
    scheduler = takt.Scheduler(key=lambda state: float(state.request.id), kv_blocks=100)
    for policy in ("nonsense", "a\0b", 7):
        wrong: Any = policy
        with pytest.raises(takt.TaktError):
            scheduler.set_policy(wrong, key=lambda state: 0.0, now=0)
    scheduler.arrive(takt.Request(2, prompt_tokens=9), takt.Request(1, prompt_tokens=9), now=0)
    assert scheduler.explain(2)["key"] == 2.0


CALLS: list[tuple[str, Callable[[], Any], Callable[[Any, Any], object]]] = [
    ("a request's field", lambda: takt.Queue("fcfs"), lambda h, evil: h.push(takt.Request(1, prompt_tokens=evil), now=0)),
    ("put", lambda: takt.Queue("fcfs"), lambda h, evil: h.put(takt.Request(1, prompt_tokens=evil), 0)),
    ("an id", lambda: takt.Queue("fcfs"), lambda h, evil: h.erase(evil)),
    ("what ran", lambda: takt.Queue("fcfs"), lambda h, evil: h.end([evil], now=0)),
    ("a holding", lambda: takt.Queue("fcfs"), lambda h, evil: h.victims({1: evil}, 1, now=0)),
    ("the time of an iteration", lambda: takt.Queue("fcfs"), lambda h, evil: h.begin(evil)),
    ("the time of a rank", lambda: takt.Ranker("fcfs"), lambda h, evil: h.keys([takt.Request(1, 1)], evil)),
    ("the time of a plan", lambda: takt.Scheduler("fcfs", kv="none"), lambda h, evil: h.plan(evil)),
    ("the time of a step", lambda: takt.Scheduler("fcfs", kv="none"), lambda h, evil: h.step(None, evil)),
    ("the time of a fact", lambda: takt.Scheduler("fcfs", kv="none"), lambda h, evil: h.drain(evil)),
    ("the time of placements", lambda: takt.Router(), lambda h, evil: h.place(evil)),
    ("a candidate", lambda: takt.Router(), lambda h, evil: h.score(takt.Request(1, 1), [evil], 0)),
    ("a workflow", lambda: takt.Router(), lambda h, evil: h.workflow_declared(evil, [takt.Stage(1)], now=0)),
]


@pytest.mark.parametrize("make, call", [(make, call) for _, make, call in CALLS], ids=[name for name, *_ in CALLS])
def test_a_value_may_close_the_handle_while_it_is_read(make: Any, call: Any) -> None:
    handle = make()
    others: list[Any] = []

    def close() -> None:
        handle.close()
        others.extend(make() for _ in range(8))  # one of them reuses the memory

    with pytest.raises(takt.TaktError) as failed:
        call(handle, Acts(close))
    assert failed.value.status == "TAKT_E_NULL"


def test_a_value_may_call_the_handle_while_it_is_read() -> None:
    hashes = list(range(1000))
    inner = takt.Request(2, prompt_tokens=16_000, prefix_hashes=hashes, prefix_block_tokens=16)
    scheduler = takt.Scheduler("fcfs", kv="none")
    with pytest.raises(takt.TaktError, match="TAKT_E_BUSY"):
        scheduler.arrive(takt.Request(1, prompt_tokens=Acts(lambda: scheduler.arrive(inner, now=0))), now=0)  # type: ignore[arg-type]
    assert scheduler.stats()["arrived"] == 1 and scheduler.explain(2)["status"] == "waiting"

    router = takt.Router()

    def declare() -> None:
        router.workflow_declared(4, [takt.Stage(1, after=()), takt.Stage(2, after=[0])], now=0)

    with pytest.raises(takt.TaktError, match="TAKT_E_BUSY"):
        router.arrive(takt.Request(3, prompt_tokens=5), now=Acts(declare))  # type: ignore[arg-type]
    assert router.stats()["workflows_declared"] == 1 and router.counts()["alive"] == 0


def test_lists_may_change_while_they_are_read() -> None:
    requests: list[takt.Request] = []
    requests.append(takt.Request(1, prompt_tokens=Acts(lambda: requests.extend([takt.Request(2, 1)] * 100_000))))  # type: ignore[arg-type]
    assert len(takt.Ranker("fcfs").keys(requests, 0)) == 1

    class Long(list):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return 10_000_000

    router = takt.Router()
    router.instance_up(1, now=0)
    assert len(router.score(takt.Request(1, 1), Long([1, 1]), 0)) == 2


def test_results_have_the_length_of_their_memory() -> None:
    scheduler = takt.Scheduler("fcfs", kv="none")
    scheduler.arrive(takt.Request(1, prompt_tokens=5), now=0)
    plan = scheduler.plan(0)

    class Long(abi.takt_row_result * 1):  # type: ignore[misc]
        def __len__(self) -> int:
            return 10_000_000

    assert scheduler._results(plan, Long(), (), None, None, None)[1] == 1
    plan.run = range(10_000_000)
    rows = plan.results()
    assert scheduler._results(plan, rows, (), None, None, None)[1] == scheduler._rows


def test_a_handle_is_made_once() -> None:
    def key(_: Any) -> float:
        queue.__init__("fcfs")  # type: ignore[misc]
        return 0.0

    queue = takt.Queue(key=key)
    with pytest.raises(takt.TaktError, match="exists already"):
        queue.push(takt.Request(1, prompt_tokens=5), now=0)


def test_an_invalid_path_is_named() -> None:
    for path in ("a\0b", "\ud800"):
        with pytest.raises(takt.OptionError):
            takt.Predictor(path)

@pytest.mark.parametrize("seed", range(60))
def test_a_hostile_host_does_no_harm(seed: int) -> None:
    """For a longer run: python hostile_host.py SEED SECONDS."""
    Hostile(seed, wrong=(0.0, 0.05, 0.3)[seed % 3]).run(200)


def test_the_hostile_host_loads_from_its_memory() -> None:
    host = Hostile(13, wrong=0.0)
    for _ in range(12):
        host.run_scheduler(200)
    assert {"fetch", "chunk True", "in", "out"} <= host.actions


def test_options_have_the_ranges_of_their_fields() -> None:
    for name, (low, high) in schedulers._RANGES.items():
        kind: Any = _library.field_types(abi.takt_scheduler_options)[name]
        bits = 8 * ctypes.sizeof(kind)
        signed = kind(-1).value < 0
        assert (low, high) == ((-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)), name
