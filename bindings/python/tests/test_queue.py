"""Tests of rankers and queues."""

from __future__ import annotations

import math

import pytest

import takt


def test_a_ranker_orders_a_list_in_five_lines() -> None:
    waiting = [takt.Request(1, output_tokens=900), takt.Request(2, output_tokens=30), takt.Request(3, output_tokens=200)]
    ordered = takt.order(waiting, "sjf")
    assert [request.id for request in ordered] == [2, 3, 1]
    assert ordered[0] is waiting[1]


def test_an_iteration_takes_and_ends_requests(three: list[takt.Request]) -> None:
    with takt.Queue("sjf") as queue:
        queue.push(*three, now=0)
        queue.begin(1)
        assert queue.list() == [3, 2, 1] and queue.list(2) == [3, 2] and queue.top() == 3 and len(queue) == 3
        assert queue.take(3) and queue.hold(2) and queue.top() == 1
        assert queue.end([takt.Ran(3, 1200, 1)], head="kv", now=2) == 1
        assert [queue.place(i) for i in (1, 2, 3, 4)] == ["waiting", "held", "running", None]
        assert queue.requeue(2, 3) and queue.list() == [2, 1]
        assert queue.pause(3, 4) and queue.place(3) == "paused" and queue.requeue(3, 5)
        assert queue.erase(1) and not queue.erase(1) and 1 not in queue and 3 in queue
        assert queue.victims({3: 10, 2: 10}, 12) == []  # neither is running
        queue.begin(6)
        assert queue.take(2) and queue.put(takt.Request(2), now=6) and not queue.put(takt.Request(9), now=6)


def test_a_revision_changes_the_order(three: list[takt.Request]) -> None:
    queue = takt.Queue("sjf")
    queue.push(*three, now=0)
    assert queue.revise(1, output_tokens=takt.Estimate.exact(1), now=1)
    queue.begin(1)
    assert queue.list() == [1, 3, 2]
    assert not queue.revise(77, priority=1)
    with pytest.raises(takt.RequestError, match="workflow is 3: is fixed"):
        queue.revise(1, workflow=3)


def test_a_hosts_own_key_is_read_on_enter_and_revise(three: list[takt.Request]) -> None:
    asked = []

    def longest_prompt(state: takt.RequestState) -> float:
        asked.append(state.request.id)
        return -state.request.prompt_tokens

    queue = takt.Queue(key=longest_prompt)
    queue.push(*three, now=0)
    queue.begin(1)
    assert queue.list() == [3, 2, 1] and asked == [1, 2, 3]
    assert queue.policy == "custom(longest_prompt)"
    for now in range(2, 9):
        queue.begin(now)
        queue.list()
        queue.end(now=now)
    assert asked == [1, 2, 3]  # never by a step
    queue.revise(1, priority=5, now=9)
    assert asked == [1, 2, 3, 1]
    assert takt.Queue("aged(custom,threshold=7)", key=longest_prompt).policy.startswith("aged(custom(longest_prompt)")


def test_an_exception_in_a_key_reaches_the_caller_and_loses_no_request() -> None:
    def wrong(state: takt.RequestState) -> float:
        if state.request.id == 2:
            raise LookupError("no such table")
        return 0.0

    queue = takt.Queue(key=wrong)
    queue.push(takt.Request(1), now=0)
    with pytest.raises(LookupError, match="no such table"):
        queue.push(takt.Request(2), now=0)
    queue.push(takt.Request(3), now=0)
    assert queue.list() == [1, 3, 2]  # a request without a key is last


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", 0),
        ("id", -1),
        ("id", 2**64),
        ("id", "7"),
        ("prompt_tokens", -1),
        ("prompt_tokens", 2**31),
        ("prompt_tokens", 1.5),
        ("sequences", 0),
        ("priority", 2**40),
        ("deadline", 2**70),
        ("output_tokens", -3),
        ("output_tokens", math.nan),
        ("output_tokens", "many"),
        ("output_tokens", "30"),
        ("output_tokens", takt.Estimate(3.0, (1, 2, 3, 4, math.inf))),
        ("after.calls", takt.WorkAfter(calls=math.nan)),
        ("after.kv_steps", takt.WorkAfter(kv_steps=math.inf)),
        ("next_call.after", takt.NextCall(after=-1)),
        ("scores.score", [takt.ModelScore(1, math.nan)]),
        ("prefix_hashes", [1, -1]),
    ],
)
def test_an_invalid_field_is_named_and_changes_nothing(field: str, value: object) -> None:
    queue = takt.Queue("sjf")
    wrong = takt.Request(5)
    wrong.prefix_block_tokens = 16
    setattr(wrong, field.partition(".")[0], value)
    with pytest.raises(takt.RequestError, match=f"^{field} is ") as caught:
        queue.push(takt.Request(1), wrong, now=0)
    assert caught.value.field == field
    assert len(queue) == 0  # all or none
    queue.push(takt.Request(1), takt.Request(5), now=0)
    assert len(queue) == 2


def test_a_repeated_id_is_named() -> None:
    queue = takt.Queue()
    with pytest.raises(takt.RequestError, match="id is 4"):
        queue.push(takt.Request(4), takt.Request(4))
    queue.push(takt.Request(4))
    with pytest.raises(takt.RequestError, match="id is 4"):
        queue.push(takt.Request(4))
    assert queue.list() == [4]


def test_invalid_options_are_named() -> None:
    with pytest.raises(takt.OptionError, match="unknown policy 'sjff'"):
        takt.Queue("sjff")
    with pytest.raises(takt.OptionError, match="threshold"):
        takt.Queue("aged(sjf,threshold=-1)")


def test_a_closed_handle_raises() -> None:
    queue = takt.Queue()
    queue.close()
    queue.close()
    with pytest.raises(takt.TaktError, match="closed"):
        queue.begin()


def test_a_ranker_returns_keys(three: list[takt.Request]) -> None:
    ranker = takt.Ranker("sjf")
    assert ranker.traits == {"fixed"}
    assert ranker.keys(three, now=0) == [9, 8, 7]


def test_estimates() -> None:
    assert takt.Estimate.exact(5) == takt.Estimate(5.0, (5.0,) * 5)
    assert takt.Estimate.of_quantiles([1, 2, 3, 4, 5]).mean == pytest.approx(3.0)
    with pytest.raises(takt.RequestError, match="quantiles"):
        takt.Estimate.of_quantiles([3, 2, 1, 0, 0])
