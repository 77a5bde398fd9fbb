"""Tests of what a host learns: ranks of agents, expectations about tools; and of queues that order by ranks."""

from __future__ import annotations

import pytest

import takt
from takt import AgentLearner, AgentRank, CallRecord, OptionError, Queue, RequestError, TaktError, ToolCall, ToolProfile

MS = 1_000_000


def learned(workflows: int = 40) -> AgentLearner:
    """Returns a learner that has seen workflows of a router, an expert and a writer."""
    learner, now = AgentLearner(), 0
    for workflow in range(1, workflows + 1):
        before = ""
        for agent, seconds in (("router", 1), ("expert", 8), ("writer", 2)):
            start, now = now, now + seconds * 1000 * MS
            assert learner.add(CallRecord(workflow, agent, start, now, before), now=now) == 1
            before = agent
        assert learner.close_workflow(workflow)
    return learner


@pytest.mark.parametrize("policy", ["agent_priority", "stage_depth", "aged(agent_priority,threshold=5)"])
def test_a_policy_that_needs_ranks_is_refused_without(policy: str) -> None:
    with pytest.raises(OptionError, match="needs ranks of agents; expected a first epoch with the ranks"):
        Queue(policy)
    with pytest.raises(OptionError, match="needs ranks of agents, which are unsupported here"):
        takt.Ranker(policy)
    with pytest.raises(OptionError, match="needs ranks of agents"):
        takt.order([], policy)
    with Queue(policy, ranks={}) as queue:
        assert "tables" in queue.traits


def test_a_queue_orders_by_its_ranks() -> None:
    queue = Queue("agent_priority", ranks={1: AgentRank(5.0)}, otherwise=AgentRank(1.0))
    queue.push(*(takt.Request(i, 10, agent=i, arrival=i, workflow=i) for i in (1, 2, 3)), now=3)
    queue.begin(3)
    assert queue.list() == [2, 3, 1]
    queue.epoch({3: AgentRank(0.0), 2: AgentRank(9.0)}, otherwise=AgentRank(4.0), now=3)
    queue.begin(4)
    assert queue.list() == [3, 1, 2]
    with pytest.raises(RequestError):
        queue.epoch({1: 3.0})  # type: ignore[dict-item]
    queue.close()
    with pytest.raises(TaktError):
        queue.epoch({})


def test_a_learner_ranks_agents_by_what_remains() -> None:
    learner = learned()
    told = learner.ranks()
    assert told is not None and learner.ranks() is None
    number = {name: learner.agent(name) for name in ("router", "expert", "writer")}
    assert number == {"router": 1, "expert": 2, "writer": 3} and learner.agent("") == 0
    rank = {name: told.ranks[n].rank for name, n in number.items()}
    assert rank["writer"] < rank["expert"] < rank["router"]
    assert told.ranks[number["expert"]].execution_s == pytest.approx(8, rel=0.1)
    assert [told.ranks[number[name]].stages_left for name in number] == [3, 2, 1]
    with Queue("agent_priority", ranks=told.ranks, otherwise=told.otherwise) as queue:
        queue.push(*(takt.Request(n, 10, agent=n, arrival=n) for n in number.values()), now=3)
        queue.begin(3)
        assert queue.list() == [3, 2, 1]
    assert not learner.close_workflow(99) and not learner.forget(99)
    assert learner.add(CallRecord(98, "router", 0, MS), now=1) == 1 and learner.forget(98)
    assert learner.add(CallRecord(0, "router", 0, 1), now=1) == 0  # it has no workflow


def test_ranks_of_converged_distributions_alone() -> None:
    learner, now = AgentLearner(converged_only=True), 0
    for workflow in range(1, 4):
        learner.add(CallRecord(workflow, "one", now, now + MS), now=now)
        learner.close_workflow(workflow)
    told = learner.ranks()
    assert told is None or not told.ranks


def test_a_learner_is_saved_and_loaded() -> None:
    learner = learned()
    saved, told = learner.save(), learner.ranks()
    again = AgentLearner()
    with pytest.raises(OptionError):
        again.load(saved[: len(saved) // 2])
    again.load(saved)
    loaded = again.ranks()
    assert told is not None and loaded is not None and loaded.ranks.keys() == told.ranks.keys()
    assert again.agent("writer") == learner.agent("writer")
    for options in ({"order": "best"}, {"max_agents": 0}, {"retire_after_s": 0.0}):
        with pytest.raises((RequestError, OptionError)):
            AgentLearner(**options)


def test_a_tool_profile_learns_durations_and_answers() -> None:
    tools = ToolProfile(window=100)
    assert tools.expect(1).seconds is None and tools.expect(1).next_call() is None
    assert tools.observe(*(ToolCall(1, 2.0, 30, 50) for _ in range(20)), ToolCall(1, -1.0)) == 20
    known = tools.expect(1)
    assert known.seconds is not None and known.seconds.mean == pytest.approx(2.0, rel=0.05) and known.observations == 20
    assert known.next_call(1) == takt.NextCall(1, 50, 30, int(known.seconds.mean * 1e9))
    assert tools.expect(2).pooled
    seeded = ToolProfile()
    seeded.seed(7, known)
    again = seeded.expect(7).seconds
    assert again is not None and again.mean == pytest.approx(known.seconds.mean)
    with pytest.raises(OptionError, match="seed_weight"):
        ToolProfile(window=10, seed_weight=9)
