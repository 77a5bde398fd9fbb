"""Tests of the router."""

from __future__ import annotations

import math

import pytest

import takt


def test_a_router_places_by_load_and_returns_lost_requests() -> None:
    with takt.Router("sjf", "least_loaded", max_outstanding=2) as router:
        router.instance_up(takt.Instance(1, kv_tokens=10_000), now=0)
        router.instance_up(2, now=0)
        router.arrive(*(takt.Request(i, prompt_tokens=100, output_tokens=10 * i) for i in range(1, 6)), now=0)
        routing = router.place(now=1)
        assert [p.request for p in routing.placed] == [1, 2, 3, 4] and {p.instance for p in routing.placed} == {1, 2}
        assert router.counts() == {"instances": 2, "alive": 5, "waiting": 1, "set_aside": 0}
        first = router.instance_of(1)
        assert first in (1, 2) and router.instance_of(5) is None
        router.request_started(1, first, now=2)
        router.request_ended(1, prefill=100, output=10, now=3)
        assert [p[:2] for p in router.place(now=4).placed] == [(5, first)]
        had = [i for i in range(2, 6) if router.instance_of(i) == 1]
        router.instance_down(1, now=5)
        assert all(router.instance_of(i) is None for i in had) and router.counts()["waiting"] == len(had)
        assert router.last_fault is None and router.policy == "sjf"


def test_prefill_and_decode_have_their_own_instances() -> None:
    router = takt.Router(placement="least_outstanding_tokens", decode_placement="least_loaded", local_if_sooner=False)
    for instance, role in ((1, "prefill"), (2, "decode"), (3, "decode")):
        router.instance_up(takt.Instance(instance, role=role), now=0)
    router.arrive(*(takt.Request(i, prompt_tokens=100) for i in (7, 8)), now=0)
    routing = router.place(now=1)
    assert [p[:2] for p in routing.placed] == [(7, 1), (8, 1)] and [p[:2] for p in routing.decodes] == [(7, 2), (8, 3)]
    router.prefill_ended(7, instance=1, now=2)
    assert (router.instance_of(7), router.instance_of(8)) == (2, 1)
    router.instance_down(3, now=3)
    assert [p[:2] for p in router.place(now=3).decodes] == [(8, 2)]
    router.instance_down(1, now=4)
    assert [p[:2] for p in router.place(now=4).withdrawn] == [(8, 2)] and router.instance_of(8) == 2  # runs as a whole
    router.instance_up(takt.Instance(1, role="prefill"), now=5)
    router.arrive(takt.Request(9, prompt_tokens=100), now=5)
    assert router.explain(takt.Request(9, prompt_tokens=100), now=5)["decode"] == 2
    with pytest.raises(takt.RequestError, match="another role"):
        router.place_at(9, 1, now=5)
    router.place_at(9, 1, now=5, decode=2)
    with pytest.raises(takt.RequestError, match="role"):
        router.instance_up(takt.Instance(4, role="cook"), now=5)
    with pytest.raises(takt.OptionError, match="local_tokens"):
        takt.Router(local_tokens=-1)


def test_options_change_while_requests_wait() -> None:
    with takt.Router() as router:
        for request in (1, 2, 3):
            router.arrive(takt.Request(request, prompt_tokens=8), now=0)
        router.set_options(now=0, max_waiting=2, max_outstanding=None, fail_unfit=True, class_limits="0:5::2.5")
        router.instance_up(takt.Instance(1, capacity=0), now=0)
        routing = router.place(now=0)
        assert [(f.request, f.reason) for f in routing.failed] == [(3, "shed")]
        assert routing.wake_at == 2_500_000_000
        with pytest.raises(takt.OptionError, match="hash_seed is 7: cannot change from 0"):
            router.set_options(now=0, hash_seed=7)


def test_reports_of_kv_blocks_replace_estimates() -> None:
    router = takt.Router(placement="prefix")
    for instance in (1, 2):
        router.instance_up(instance, now=0)
    hashes = range(1, 11)
    request = takt.Request(7, prompt_tokens=161, prefix_hashes=hashes, prefix_block_tokens=16)
    assert router.score(request, [1, 2], now=0) == [0, 0]
    router.kv_stored(2, hashes, now=0)
    assert router.score(request, [1, 2], now=0) == [0, 160]
    router.kv_removed(2, [5], now=0)
    assert router.score(request, [1, 2], now=0) == [0, 64]
    router.kv_cleared(2, now=0)
    assert router.score(request, [1, 2], now=0) == [0, 0]
    router.kv_stored(2, now=0)
    with pytest.raises(takt.FaultError):
        router.kv_stored(9, hashes, now=0)
    with pytest.raises(takt.RequestError, match="hashes"):
        router.kv_stored(2, [-1], now=0)


def test_a_host_chooses_by_scores() -> None:
    router = takt.Router(placement="least_loaded")
    for instance in (1, 2):
        router.instance_up(instance, now=0)
    router.instance_reported(1, waiting=5, running=3, kv_used=100, now=0)
    scores = router.score(takt.Request(9, prompt_tokens=10), [1, 2, 77], now=1)
    assert scores[1] > scores[0] and math.isnan(scores[2])
    router.arrive(takt.Request(9, prompt_tokens=10), now=1)
    router.place_at(9, 1, now=2)
    assert router.instance_of(9) == 1
    with pytest.raises(takt.RequestError, match="is not waiting"):
        router.place_at(9, 2, now=3)


def test_a_request_is_explained_by_the_scores_of_all_instances() -> None:
    router = takt.Router(placement="least_loaded", max_outstanding=1)
    for instance in (1, 2):
        router.instance_up(instance, now=0)
    router.measure()
    router.arrive(takt.Request(1, prompt_tokens=10), now=0)
    router.place(now=1)
    why = router.explain(takt.Request(2, prompt_tokens=10), now=2)
    assert (why["status"], why["chosen"], why["regret"], why["scores_compare"]) == ("unknown", 2, 0, True)
    assert [(c.instance, c.state) for c in why["candidates"]] == [(1, "full"), (2, "scored")]
    assert math.isnan(why["candidates"][0].score) and why["candidates"][1].regret == 0
    placed = router.explain(takt.Request(1, prompt_tokens=10), now=2)
    assert (placed["status"], placed["chosen"], placed["regret"]) == ("running", 1, 4)
    assert 'llm_d_epp_request_total{priority="0"} 1\n' in router.metrics_text(now=3, names="llm_d")


def test_workflows_hold_later_stages() -> None:
    router = takt.Router()
    router.instance_up(1, now=0)
    router.workflow_declared(5, [takt.Stage(1), takt.Stage(2, after=[0], cost_s=0.5)], deadline=10**9, now=0)
    for request, stage in ((1, 1), (2, 2)):
        router.arrive(takt.Request(request, prompt_tokens=5, workflow=5, stage=stage), now=request)
        assert [p.request for p in router.place(now=request).placed] == [request]
        router.request_ended(request, now=request)
    ended = router.place(now=300).ended
    assert [(end.workflow, end.how, end.deadline) for end in ended] == [(5, "completed", 10**9)]


def test_invalid_facts_are_named() -> None:
    router = takt.Router()
    with pytest.raises(takt.FaultError):
        router.instance_down(3, now=0)
    with pytest.raises(takt.RequestError, match="kv_tokens is -1"):
        router.instance_up(takt.Instance(1, kv_tokens=-1))
    with pytest.raises(takt.OptionError, match="unknown placement"):
        takt.Router(placement="nearest")
    router.instance_up(1, now=0)
    router.arrive(takt.Request(1, prompt_tokens=9), now=0)
    with pytest.raises(takt.FaultError, match="id_in_use"):
        router.arrive(takt.Request(1, prompt_tokens=9), now=0)
    with pytest.raises(takt.FaultError, match="clock_back"):
        router.arrive(takt.Request(2, prompt_tokens=9), now=-5)
    assert router.cancel(2, now=0)  # only the time was ignored
    assert router.place(now=1).placed == [takt.Placement(1, 1, life=1)]


@pytest.mark.parametrize("as_of", [None, 0, 500_000])
def test_a_stale_report_does_not_erase_placements(as_of: int | None) -> None:
    with takt.Router("fcfs", "least_loaded") as router:
        for instance in (1, 2):
            router.instance_up(instance, now=0)
            router.instance_reported(instance, now=0)
        for first, now in ((1, 1_000_000), (11, 3_000_000)):
            router.arrive(*(takt.Request(i, prompt_tokens=100) for i in range(first, first + 10)), now=now)
            placed = [p.instance for p in router.place(now=now).placed]
            assert placed.count(1) == placed.count(2) == 5
            router.instance_reported(1, as_of=as_of, now=now + 1_000_000)  # read before the requests arrived
        router.instance_reported(1, waiting=10, as_of=3_000_000, now=4_000_000)
        with pytest.raises(takt.FaultError, match="invalid_event"):
            router.instance_reported(1, as_of=5_000_000, now=4_000_000)


def test_a_message_of_an_earlier_life_is_late() -> None:
    with takt.Router() as router:
        router.instance_up(1, now=0)
        router.arrive(takt.Request(7, prompt_tokens=100), now=0)
        (first,) = router.place(now=0).placed
        router.instance_down(1, now=1)
        router.instance_up(1, now=2)
        (second,) = router.place(now=2).placed
        assert first[:2] == second[:2] == (7, 1) and second.life > first.life
        router.request_ended(7, instance=1, life=first.life, failed=True, now=3)
        router.request_started(7, 1, life=first.life, now=3)
        router.request_served(7, instance=1, life=first.life, prefill=9, now=3)
        router.instance_reported(1, life=first.life, now=3)
        router.instance_down(1, life=first.life, now=3)
        assert router.instance_of(7) == 1 and router.stats()["reported_late"] == 5
        router.instance_up(takt.Instance(1, life=second.life + 1), now=4)  # it has restarted
        assert router.instance_of(7) is None and router.stats()["returned"] == 2
