"""Tests of the systems in takt's half of vLLM's scheduler, with a stub of vLLM's half."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import vllm_stub
from vllm_stub import request

from takt import OptionError
from takt.vllm import Options

# Agents of a workflow, and the output of their calls [tokens].
KINDS = {"chat": [("answer", 4)], "report": [("plan", 2), ("read", 30), ("write", 8)]}


@pytest.fixture
def make(monkeypatch):
    with vllm_stub.installed():
        from takt.vllm.scheduler import TaktSyncScheduler

        clock = SimpleNamespace(now=0)

        def made(seqs=1, **takt):
            scheduler = TaktSyncScheduler(SimpleNamespace(additional_config={"takt": takt}), seqs)
            scheduler.clock = clock
            monkeypatch.setattr(type(scheduler.takt_order), "now", lambda self: clock.now)
            return scheduler

        yield made


def step(scheduler):
    """Runs an iteration of 20 ms. Returns the requests that began."""
    output = scheduler.schedule()
    scheduler.takt_order.check()
    scheduler.clock.now += 20_000_000
    scheduler.update_from_output(output)
    return [each.req_id for each in output.scheduled_new_reqs]


def serve(scheduler, workflows, wait_s=0.0):
    """Serves workflows one after another, each call when the one before has ended, and after a wait for a tool."""
    for number, kind in enumerate(workflows):
        calls = KINDS[kind]
        for i, (agent, tokens) in enumerate(calls):
            scheduler.add_request(call(number, kind, i))
            while scheduler.has_unfinished_requests():
                step(scheduler)
            scheduler.clock.now += int(wait_s * 1e9) if agent == "plan" else 0


def call(number, kind, i, now=0):
    agent, tokens = KINDS[kind][i]
    told = {"takt_workflow": f"w{number}", "takt_agent": agent, "takt_upstream": KINDS[kind][i - 1][0] if i else ""}
    return request(f"w{number}/{i}", most=tokens, arrival=now * 1e-9, takt_last=i + 1 == len(KINDS[kind]), **told)


def order_after_training(scheduler, rounds=40, wait_s=0.0):
    """Returns the kinds and calls of twelve waiting requests, in the order in which they began."""
    serve(scheduler, ["chat", "report"] * rounds, wait_s)
    scheduler.clock.now += 2_000_000_000
    step(scheduler)
    waiting = [("report", 0), ("report", 1), ("report", 2), ("chat", 0)] * 3
    names = {}
    for number, (kind, i) in enumerate(waiting, 10_000):
        scheduler.clock.now += 1_000_000
        told = call(number, kind, i, scheduler.clock.now)
        names[told.request_id] = KINDS[kind][i][0]
        scheduler.add_request(told)
    begun = []
    while scheduler.has_unfinished_requests():
        begun += step(scheduler)
    return [names[each] for each in begun]


def test_kairos_serves_agents_near_the_end_first(make):
    first = make(policy="workflow_fcfs")
    assert order_after_training(first) == ["plan", "read", "write", "answer"] * 3  # by arrival
    kairos = make(system="kairos")
    rounds = 70  # a distribution converges after 64 calls
    assert order_after_training(kairos, rounds) == ["answer"] * 3 + ["write"] * 3 + ["read"] * 3 + ["plan"] * 3
    counters = kairos.takt_counters
    assert counters["system_lessons"] == rounds * 4 + 3 * 4 and counters["system_epochs"] >= 2
    assert first.takt_counters["system_lessons"] == first.takt_counters["system_epochs"] == 0


def test_without_lessons_kairos_is_the_order_of_workflows(make, monkeypatch):
    kairos = make(system="kairos")
    monkeypatch.setattr(kairos._takt_system, "ended", lambda *lesson: None)
    assert order_after_training(kairos) == ["plan", "read", "write", "answer"] * 3


def test_lamps_serves_by_memory_over_time(make, monkeypatch):
    by_length = ["plan"] * 3 + ["answer"] * 3 + ["write"] * 3 + ["read"] * 3
    assert order_after_training(make(system="lamps")) == by_length
    lamps = make(system="lamps")
    # The context of a plan waits 30 s for its tool, so it runs last.
    assert order_after_training(lamps, wait_s=30.0) == by_length[3:] + ["plan"] * 3
    assert lamps.takt_counters["system_lessons"] >= 40 * 2  # waits between the calls of reports
    no_tools = make(system="lamps")
    monkeypatch.setattr(no_tools._takt_system.tools, "observe", lambda *calls: 0)
    assert order_after_training(no_tools, wait_s=30.0) == by_length


@pytest.mark.parametrize(
    "options, text",
    [
        ({"system": "orca"}, "system is 'orca'; expected 'kairos' or 'lamps'"),
        ({"system": "kairos", "policy": "sjf"}, "leave policy empty"),
        ({"system": "lamps", "lengths": False}, "needs lengths"),
    ],
)
def test_options_of_systems(options, text):
    with pytest.raises(OptionError, match=text):
        Options.of({"takt": options}, {})


@pytest.mark.parametrize("policy", ["agent_priority", "stage_depth"])
def test_a_policy_that_needs_ranks_is_refused(make, policy):
    with pytest.raises(OptionError, match="needs ranks of agents"):
        make(policy=policy)


def test_kairos_learns_agents_of_ended_requests_by_tenant(make):
    from takt.vllm.identity import Identity, number_of

    system = make(system="kairos")._takt_system
    told = SimpleNamespace(agent=0)
    before = system.learner.save()
    system.describe(told, Identity(workflow="w", agent="new", tenant="t"), 1)
    assert told.agent == number_of("new", "t") and system.learner.save() == before  # it has not ended
    for i in range(70):
        for tenant in ("t", "u"):
            who = Identity(workflow=f"w{i}", agent="a\0b", tenant=tenant, last=True)
            system.ended(who, 1, 1, i * 1000, i * 1000 + 500)
    system.ended(Identity(workflow="x", last=True), 1, 1, 0, 5)  # without an agent
    tables = []
    system.queue = SimpleNamespace(epoch=lambda table, **more: tables.append(table))
    system.begin(10**10)
    assert tables[0].keys() == {number_of("a\0b", "t"), number_of("a\0b", "u")}
    assert system._counters["system_lessons"] == 140


def test_kairos_learns_nothing_from_agents_beyond_its_room(make, monkeypatch):
    from takt.vllm.identity import Identity

    system = make(system="kairos")._takt_system
    monkeypatch.setattr(system.learner, "agent", lambda name: 0)
    system.ended(Identity(workflow="w", agent="a"), 1, 1, 0, 5)
    assert system._counters["system_lessons"] == 0


def test_kairos_ranks_by_converged_agents_only(make):
    from takt.vllm.identity import Identity

    system = make(system="kairos")._takt_system
    system.ended(Identity(workflow="w", agent="a", last=True), 1, 1, 0, 5)
    assert system.learner.ranks() is None  # one call is too few to rank by
