"""Tests of whole steps, partly against a C host with the same events."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import takt
from takt import _arrays

MS = 1_000_000


def served(scheduler: takt.Scheduler, tokens: int) -> list[str]:
    """Serves all requests until each has this number of tokens; returns the plans as text."""
    plans, output, now = [], dict[int, int](), 0
    plan = scheduler.step(now=now)
    while len(plan):
        plans.append(" ".join(f"{e.request}:{e.tokens}@{e.position}" for e in plan.entries()))
        now += 10 * MS
        finished = []
        for entry in plan.entries():
            output[entry.request] = output.get(entry.request, 0) + entry.samples
            if output[entry.request] == tokens:
                finished.append(entry.request)
        plan = scheduler.step(now=now, finished=finished)
    return plans


def test_the_readmes_host_runs(three: list[takt.Request]) -> None:
    scheduler = takt.Scheduler("sjf", kv_blocks=1000, limits=takt.Limits(tokens=512, max_seqs=2))
    scheduler.arrive(*three, now=0)
    assert served(scheduler, 3) == [
        "3:512@0", "3:512@512", "3:176@1024 2:336@0", "3:1@1200 2:464@336", "3:1@1201 2:1@800", "2:1@801 1:400@0",
        "1:1@400", "1:1@401",
    ]  # fmt: skip
    assert scheduler.last_fault is None and scheduler.counts()["alive"] == 0
    scheduler.check()


def host(seed: int, by_exception: bool, log: list[bytes]) -> str:
    """Runs a random host: requests arrive, end, are cancelled and call tools. Returns the plans as text."""
    dice = random.Random(seed)
    scheduler = takt.Scheduler(
        "aged(sjf,threshold=20)", kv_blocks=200, max_running=16, record=log.append, record_plans=True
    )
    last, alive, tools, text, now = 0, dict[int, int](), list[int](), [], 0
    plan = scheduler.step(now=0)
    for _ in range(300):
        now += 10 * MS
        text.append(f"{plan.id} {plan.idle} {plan.entries()} {plan.failed} {plan.released} {plan.preempted}")
        for request in plan.released:
            alive.pop(request, None)
        finished, calls = [], []
        for entry in plan.entries():
            if entry.samples and entry.request in alive:
                alive[entry.request] -= 1
                if alive[entry.request] <= 0:
                    finished.append(entry.request)
                elif dice.random() < 0.02:
                    calls.append(entry.request)
        if by_exception:
            scheduler.commit(plan, finished=finished, now=now) if len(plan) else None
        elif len(plan):
            rows = plan.results()
            for row in rows:
                if int(row["request"] if _arrays.HAS_NUMPY else row.request) in finished:
                    if _arrays.HAS_NUMPY:
                        row["flags"] = takt.FINISHED
                    else:
                        row.flags = takt.FINISHED
            scheduler.commit(plan, rows, now=now)
        for request in calls:
            scheduler.tool_called(request, expected=30 * MS, now=now)
            tools.append(request)
        if tools and dice.random() < 0.3:
            scheduler.tool_returned(tools.pop(0), 20, now=now)
        if dice.random() < 0.5:
            last += 1
            alive[last] = dice.randint(1, 60)
            prompt = dice.randint(1, 700)
            told = takt.Request(last, prompt_tokens=prompt, output_tokens=takt.Estimate.exact(alive[last]))
            scheduler.arrive(told, now=now)
        if alive and dice.random() < 0.03:
            gone = dice.choice(sorted(alive))
            if gone not in tools:
                scheduler.cancel(gone, now=now)
        plan = scheduler.plan(now=now)
    scheduler.check()
    assert scheduler.stats()["rows_unknown"] == 0
    scheduler.close()
    return "\n".join(text)


@pytest.mark.parametrize("seed", range(4))
def test_plans_equal_those_of_cpp(seed: int) -> None:
    """The log of a random host replays in C++ to the same plans; rows for all entries and by exception are
    equivalent."""
    logs: list[bytes] = []
    text = host(seed, False, logs)
    report = takt.replay_log(b"".join(logs))
    assert not report["differs"] and not report["truncated"], report["difference"]
    assert report["plans_compared"] == report["plans"] > 290
    assert host(seed, True, []) == text


def test_without_numpy_the_plans_are_the_same() -> None:
    code = (
        "import sys; sys.modules['numpy'] = None; sys.path.insert(0, sys.argv[1])\n"
        "import takt._arrays, test_scheduler as t\n"
        "assert not takt._arrays.HAS_NUMPY\n"
        "print(t.host(1, False, [])); print(t.host(1, True, []))"
    )
    here = str(Path(__file__).resolve().parent)
    told = subprocess.run([sys.executable, "-c", code, here], capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    assert told.stdout == f"{host(1, False, [])}\n" * 2


def test_overlap_keeps_each_plans_arrays(three: list[takt.Request]) -> None:
    scheduler = takt.Scheduler("fcfs", kv_blocks=1000)
    scheduler.arrive(*three, now=0)
    first = scheduler.plan(now=0)
    seen = first.entries()
    second = scheduler.plan(now=1)
    third = scheduler.plan(now=2)
    assert first.entries() == seen and len({first.id, second.id, third.id}) == 3
    full = scheduler.plan(now=3)
    assert full.idle == "steps_in_flight" and not len(full)
    assert scheduler.commit(first, now=4) is None and scheduler.commit(second, now=5) is None
    assert scheduler.commit(third, now=6) is None
    assert scheduler.last_fault is None


def test_a_plan_has_all_fields() -> None:
    scheduler = takt.Scheduler("fcfs", kv_blocks=64)
    scheduler.arrive(takt.Request(1, prompt_tokens=100), takt.Request(2, prompt_tokens=2000), now=0)
    plan = scheduler.step(now=0)
    assert plan.failed == [takt.Failure(2, "never_fits", 0)] and plan.requests == [1] and plan.tokens == 100
    entry = plan.entries()[0]
    assert entry.samples and entry.admitted and entry.prefill and entry.lane == 0
    scheduler.cancel(1, now=1)
    assert scheduler.step(now=2).released


def test_results_are_given_by_id(three: list[takt.Request]) -> None:
    scheduler = takt.Scheduler("fcfs", kv_blocks=1000)
    scheduler.arrive(*three, now=0)
    scheduler.step(now=0)
    plan = scheduler.step(now=1, failed={2: 77}, finished=[1])
    assert plan.failed == [takt.Failure(2, "host", 77)] and sorted(plan.released) == [1, 2]
    with pytest.raises(takt.RequestError, match="request is 9: is not in plan"):
        scheduler.step(now=2, finished=[9])
    plan = scheduler.step(now=3, tokens={3: 1})  # the refused step had no effect
    assert plan.requests == [3] and plan.fault is None


def test_a_wrong_lane_is_reported_with_the_plan(three: list[takt.Request]) -> None:
    scheduler = takt.Scheduler("fcfs", kv_blocks=1000)
    scheduler.arrive(*three, now=0)
    plan = scheduler.step(now=0)
    rows = plan.results()
    if _arrays.HAS_NUMPY:
        rows["lane"] += 1
    else:
        for row in rows:
            row.lane += 1
    plan = scheduler.step(rows, now=1)
    assert plan.fault is not None and plan.fault.kind == "unknown_row" and plan.fault.faults == 3
    assert sorted(plan.requests) == [1, 2, 3]  # planned again


def test_invalid_facts_are_raised_and_the_rest_continues(three: list[takt.Request]) -> None:
    scheduler = takt.Scheduler("fcfs", kv_blocks=1000)
    scheduler.arrive(*three, now=0)
    with pytest.raises(takt.FaultError, match="id_in_use: request 2") as caught:
        scheduler.arrive(takt.Request(2, prompt_tokens=7), now=0)
    assert caught.value.fault.request == 2
    with pytest.raises(takt.FaultError, match="unknown_request"):
        scheduler.unblock(99, now=0)
    assert not scheduler.cancel(99, now=0)
    assert scheduler.cancel(3, now=0)
    plan = scheduler.step(now=1)
    assert sorted(plan.requests) == [1, 2] and ("id_in_use" in [f.reason for f in plan.failed])
    quiet = takt.Scheduler("fcfs", kv_blocks=1000, strict=False)
    quiet.unblock(99, now=0)
    assert quiet.last_fault is not None and quiet.last_fault.kind == "unknown_request"


def test_invalid_options_are_named() -> None:
    with pytest.raises(takt.OptionError, match="kv_blocks"):
        takt.Scheduler("fcfs")
    with pytest.raises(takt.OptionError, match="(?s)max_running.*kv_blocks|kv_blocks.*max_running"):
        takt.Scheduler("fcfs", max_running=-5, kv_blocks=-5)
    with pytest.raises(takt.RequestError, match="preempt is 'often': must be one of off, on_memory, by_rank"):
        takt.Scheduler("fcfs", kv_blocks=10, preempt="often")
    with pytest.raises(takt.RequestError, match="limits.tokens"):
        takt.Scheduler("fcfs", kv_blocks=10, limits=takt.Limits(tokens=2**40))
    with pytest.raises(TypeError):
        takt.Scheduler("fcfs", kv_blox=10)  # type: ignore[call-arg]


def test_results_without_a_plan_are_reported() -> None:
    scheduler = takt.Scheduler("fcfs", kv_blocks=10)
    with pytest.raises(takt.TaktError, match="no plan"):
        scheduler.step(finished=[1])
    scheduler.arrive(takt.Request(1, prompt_tokens=8), now=0)
    plan = scheduler.step(now=0)
    with pytest.raises(TypeError, match="Plan.results"):
        scheduler.step([(1, 0, 1, 0, 0)], now=1)
    assert scheduler.step(plan.results(), now=1).requests == [1]


def test_explain_returns_keys_of_policies(three: list[takt.Request]) -> None:
    scheduler = takt.Scheduler(
        key=lambda state: -state.request.prompt_tokens, key_name="longest", kv_blocks=1000,
        limits=takt.Limits(max_seqs=1),
    )  # fmt: skip
    scheduler.arrive(*three, now=0)
    assert scheduler.policy == "custom(longest)"
    told = scheduler.explain(1)
    assert (told["status"], told["ahead"], told["key"]) == ("waiting", 2, -400)
    assert scheduler.step(now=0).requests == [3]
    scheduler.set_policy("fcfs", now=1)
    assert scheduler.policy == "fcfs" and scheduler.explain(1)["ahead"] == 0
    with pytest.raises(takt.OptionError, match="unknown policy"):
        scheduler.set_policy("nonsense", now=1)
    assert scheduler.policy == "fcfs" and scheduler.explain(77)["status"] == "unknown"
    scheduler.epoch({1: takt.AgentRank(0.5)}, now=2)
    with pytest.raises(takt.TaktError):
        scheduler.epoch(alpha=7.0, now=2)


def test_retention() -> None:
    scheduler = takt.Scheduler("fcfs", kv_blocks=100, prefix_cache=True)
    scheduler.set_retention("hold_value", "price", alpha_ms=0.05)
    hashes = [1000 + i for i in range(4)]
    turn = takt.Request(1, prompt_tokens=64, workflow=7, prefix_hashes=hashes, prefix_block_tokens=16)
    scheduler.arrive(turn, now=0)
    scheduler.step(now=0)
    scheduler.step(now=10 * MS, finished=[1])
    scheduler.turn_ended(7, why="tool", now=11 * MS)
    held = scheduler.explain_held(7)
    assert held["tokens"] == 64 and held["turns"] == 1 and held["return_class"] == 1
    assert scheduler.kv()["cached"] > 0
    scheduler.workflow_ended(7, now=12 * MS)
    with pytest.raises(takt.RequestError, match="why is 'lunch'"):
        scheduler.turn_ended(7, why="lunch")
    with pytest.raises(takt.OptionError, match="hold_valu"):
        scheduler.set_retention("hold_valu")
    with pytest.raises(takt.OptionError):
        takt.Scheduler("fcfs", kv_blocks=100).set_retention("lru")  # no prefix cache


def test_a_key_sees_cached_and_taken() -> None:
    seen: dict[int, tuple[int, bool, bool]] = {}

    def key(state: takt.RequestState) -> float:
        seen[state.request.id] = (state.cached, state.taken, state.cut)
        return 0.0

    scheduler = takt.Scheduler(key=key, kv_blocks=100, prefix_cache=True)
    scheduler.set_retention("hold_value", alpha_ms=0.05)
    hashes = [1000 + i for i in range(5)]

    def turn(id: int, blocks: int) -> takt.Request:
        return takt.Request(
            id, prompt_tokens=16 * blocks, workflow=7, prefix_hashes=hashes[:blocks], prefix_block_tokens=16
        )

    scheduler.arrive(turn(1, 4), now=0)
    assert seen[1] == (0, False, False)
    scheduler.step(now=0)
    scheduler.step(now=10 * MS, finished=[1])
    scheduler.turn_ended(7, why="tool", now=11 * MS)
    scheduler.arrive(turn(2, 5), now=12 * MS)
    assert seen[2] == (64, False, False)
    scheduler.step(now=13 * MS)
    scheduler.revise(2, priority=1, now=14 * MS)
    assert seen[2][1:] == (True, False)


class Counted:
    """KV memory of 100 blocks that the host counts."""

    block_tokens = 16

    def __init__(self) -> None:
        self.held: dict[int, int] = {}
        self.asked: list[str] = []
        self.broken = False

    def snapshot(self) -> tuple[int, int, int]:
        return 100, 100 - sum(self.held.values()), 0

    def cached(self, hits: list[takt.KvHit]) -> list[int]:
        return [0 for _ in hits]

    def reserve(self, step: int, wishes: list[takt.KvWish]) -> list[bool | None]:
        if self.broken:
            raise RuntimeError("the block manager is down")
        answers: list[bool | None] = []
        for wish in wishes:
            self.asked.append(f"{wish.request}:{wish.want}")
            answers.append(None if wish.request == 13 else True)
            if wish.request != 13:
                self.held[wish.request] = -(-wish.want // self.block_tokens)
        return answers

    def release(self, request: int, action: str) -> int:
        self.asked.append(f"release {request} {action}")
        return self.held.pop(request, 0)


def test_a_host_counts_its_own_memory() -> None:
    kv = Counted()
    scheduler = takt.Scheduler("fcfs", oracle=kv)
    scheduler.arrive(takt.Request(1, prompt_tokens=100), takt.Request(13, prompt_tokens=16), now=0)
    plan = scheduler.step(now=0)
    assert plan.requests == [1] and kv.held[1] >= 7
    assert [failure.request for failure in plan.failed + scheduler.step(now=1).failed] == [13]
    scheduler.step(now=2, finished=[1])
    assert any(text.startswith("release 1") for text in kv.asked) and not kv.held
    kv.broken = True
    scheduler.arrive(takt.Request(2, prompt_tokens=100), now=3)
    with pytest.raises(RuntimeError, match="block manager is down"):
        scheduler.step(now=3)
    assert scheduler.last_plan is not None and not len(scheduler.last_plan)
    kv.broken = False
    assert scheduler.step(now=4).requests == [2]


def test_an_exception_in_a_sink_reaches_the_caller(three: list[takt.Request]) -> None:
    def full(_: bytes) -> None:
        raise OSError("no space left")

    scheduler = takt.Scheduler("fcfs", kv_blocks=100, record=full)
    scheduler.arrive(*three, now=0)
    with pytest.raises(OSError, match="no space left"):
        scheduler.flush()


def test_a_fresh_process_replays_rules_of_other_systems() -> None:
    logs: list[bytes] = []
    with takt.Scheduler("aged(mlfq)", pause="infercept", kv_blocks=100, prefix_cache=True, record=logs.append) as scheduler:
        scheduler.set_retention("wa", "concur")
        scheduler.arrive(takt.Request(1, prompt_tokens=32), now=0)
        scheduler.plan(now=1)
    code = "import sys, takt; print(takt.replay_log(sys.stdin.buffer.read())['plans_compared'])"
    done = subprocess.run([sys.executable, "-c", code], input=b"".join(logs), capture_output=True, check=True)
    assert done.stdout.strip() == b"1"


def test_a_damaged_log_is_an_error() -> None:
    logs: list[bytes] = []
    host(5, False, logs)
    log = b"".join(logs)
    with pytest.raises(takt.TaktError):
        takt.replay_log(b"nonsense")
    assert takt.replay_log(log[:-3])["truncated"]
    damaged = bytearray(log)
    damaged[len(log) // 2] ^= 0xFF
    try:
        report = takt.replay_log(bytes(damaged))
        assert report["differs"] or report["truncated"]
    except takt.TaktError:
        pass


def test_memory_of_python_is_flat() -> None:
    import gc
    import tracemalloc

    def churn(scheduler: takt.Scheduler, first: int, n: int) -> None:
        plan: Any = scheduler._newest
        for i in range(first, first + n):
            scheduler.arrive(takt.Request(i, prompt_tokens=20), now=i)
            plan = scheduler.step(now=i, finished=plan.requests if plan is not None and len(plan) else ())

    scheduler = takt.Scheduler("fcfs", kv_blocks=1000)
    churn(scheduler, 1, 2000)
    tracemalloc.start()
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    churn(scheduler, 2001, 5000)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 20_000


def test_metrics_have_classes_and_hostile_labels() -> None:
    with takt.Scheduler("fcfs", kv_blocks=100) as scheduler:
        with pytest.raises(takt.TaktError):
            scheduler.saturation(now=0)
        with pytest.raises(takt.OptionError, match="max_classes"):
            scheduler.measure(max_classes=65)
        scheduler.measure("priority")
        scheduler.name_class(3, 'chat "fast"\n')
        with pytest.raises(takt.OptionError, match="key"):
            scheduler.name_class(3, "again")
        scheduler.arrive(takt.Request(1, prompt_tokens=32, priority=3), now=0)
        assert scheduler.saturation(now=1)["backlog_tokens"] == 32
        scheduler.step(now=10**9)
        scheduler.step(now=3 * 10**9, finished=[1])
        text = scheduler.metrics_text(now=3 * 10**9, names="llm_d", model="a\\b")
        labels = 'model_name="a\\\\b",priority="chat \\"fast\\"\\n"'
        assert f"llm_d_epp_request_duration_seconds_sum{{{labels}}} 3\n" in text
        assert "takt_finished_total" in text
        assert "llm_d" not in scheduler.metrics_text(now=3 * 10**9)
        assert scheduler.saturation(now=3 * 10**9)["seconds_to_clear"] == 0
        with pytest.raises(takt.RequestError, match="names"):
            scheduler.metrics_text(names="other")


def test_options_change_while_requests_run() -> None:
    with takt.Scheduler("fcfs", kv="none") as scheduler:
        limits = takt.Limits(max_seqs=0)
        for request in (1, 2, 3):
            scheduler.arrive(takt.Request(request, prompt_tokens=8, tenant=7), now=0)
        scheduler.set_options(now=0, max_waiting=2, class_limits="0:5::2.5", token_pace=0.05)
        plan = scheduler.plan(now=0, limits=limits)
        assert [(f.request, f.reason) for f in plan.failed] == [(3, "shed")]
        assert plan.wake_at == 2_500_000_000
        scheduler.set_options(now=0, max_waiting=None, class_limits="")
        scheduler.arrive(takt.Request(4, prompt_tokens=8), now=0)
        plan = scheduler.plan(now=0, limits=limits)
        assert plan.failed == [] and plan.wake_at > 2_500_000_000
        with pytest.raises(takt.OptionError, match="max_running is 7: cannot change from"):
            scheduler.set_options(now=0, max_running=7)
        with pytest.raises(takt.OptionError, match="did you mean 'max_waiting'"):
            scheduler.set_options(now=0, max_waitin=7)
        with pytest.raises(takt.OptionError, match="without commas"):
            scheduler.set_options(now=0, class_limits="0,1")
        with pytest.raises(takt.OptionError, match="no options are given"):
            scheduler.set_options(now=0)
        with pytest.raises(takt.OptionError, match="max_waiting: 'true'"):
            scheduler.set_options(now=0, max_waiting=True)
        with pytest.raises(TypeError, match="max_waiting is"):
            scheduler.set_options(now=0, max_waiting=[1])  # type: ignore[arg-type]


def test_bounds_name_the_tenant_and_the_time_to_come_back() -> None:
    with takt.Scheduler("fcfs", kv="none", tenant_max_waiting=1, class_limits="0:5::2.5", max_blocked=3.5) as scheduler:
        limits = takt.Limits(max_seqs=0)
        for request in (1, 2):
            scheduler.arrive(takt.Request(request, prompt_tokens=8, tenant=7), now=0)
        plan = scheduler.plan(now=0, limits=limits)
        assert plan.failed == [takt.Failure(2, "quota", 0)]
        assert (plan.failed[0].http_status, plan.failed[0].retry_after_ms) == (429, 0)
        assert plan.wake_at == 2_500_000_000
    with pytest.raises(takt.OptionError, match="class_limits: must be PRIORITY"):
        takt.Scheduler("fcfs", kv="none", class_limits="x")
