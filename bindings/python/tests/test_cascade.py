"""Tests of the cascade router and of planning."""

from __future__ import annotations

import pytest

from takt import CascadeAction, CascadeRouter, CascadeStage, OptionError, RequestError
from takt.planning import AlphaTuner, plan_cascade, tail_test

SECOND = 1_000_000_000


def test_an_answer_is_accepted_or_escalated() -> None:
    cascade = CascadeRouter([CascadeStage(70.0, 0.5), CascadeStage()], judge_timeout_s=1.0, on_late="escalate")
    assert cascade.arrived(1) == CascadeAction("send", 0, 1)
    assert cascade.answered(1, 0, 0) == CascadeAction("judge", 0, 1)
    assert cascade.wake_at == SECOND
    assert cascade.judged(1, 0, 69.0, 1) == CascadeAction("send", 1, 1)
    assert cascade.model_of(1) == 1 and cascade.model_of(2) is None
    assert cascade.answered(1, 1, 2) == CascadeAction("accept", 1, 1)
    cascade.arrived(2), cascade.answered(2, 0, 10)
    assert cascade.expire(10 + SECOND) == [CascadeAction("send", 1, 2)]
    assert cascade.failed(2, 1) == CascadeAction("accept", 0, 2)
    cascade.arrived(3)
    assert cascade.cancelled(3) and not cascade.cancelled(3)
    cascade.replan([CascadeStage(served=False), CascadeStage()])
    assert cascade.arrived(4).model == 1
    assert cascade.judged(4, 0, None, 20).kind == "none"
    assert cascade.stats["late"] == 1 and cascade.stats["arrived"] == 4
    with pytest.raises(OptionError):
        cascade.replan([CascadeStage()])
    with pytest.raises(OptionError):
        CascadeRouter([])
    with pytest.raises(RequestError):
        CascadeRouter([CascadeStage()], on_late="perhaps")


def test_the_tail_test_finds_a_worse_tail() -> None:
    before = [1 + i / 100 for i in range(50)]
    assert tail_test(before, [2 * x for x in before]) < 0.01
    assert tail_test([2 * x for x in before], before) > 0.9


def test_alpha_is_searched_after_the_first_window_and_when_latencies_rise() -> None:
    tuner, now = AlphaTuner(window_s=10.0), 0
    tuner.advance(0)
    searches = []
    for window, latency in enumerate([1.0, 1.0, 3.0, 3.0]):
        for i in range(20):
            now = window * 10 * SECOND + i * SECOND // 4
            tuner.ended({"arrival_s": 0, "calls": [{"prompt": 1, "output": 1}]}, latency + i / 100, now)
        served = tuner.advance((window + 1) * 10 * SECOND)
        searches.append(served is not None)
        if served is not None:
            assert tuner.finished({"alpha": 0.1 * (window + 1)}) is not None
    assert searches == [True, False, True, False] and tuner.alpha == pytest.approx(0.3)


def test_a_plan_becomes_the_stages_of_a_router() -> None:
    sample = [{"prompt": 100, "outputs": [50, 50], "scores": [40 + i % 60, 90]} for i in range(60)]
    models = [
        {"name": "small", "profile": "lamps/gpt-j-6b/a100-40gb/fp16", "tp": [1], "pp": [1]},
        {"name": "large", "profile": "aic/qwen3-32b/h100/bf16", "tp": [2], "pp": [1]},
    ]
    plan = plan_cascade(sample, models, gpus=8, rate=1.0, quality=80.0, requests=0)
    assert plan.quality >= 80 and len(plan.thresholds) == 1 and sum(m["gpus"] for m in plan.models) <= 8
    with CascadeRouter(plan.stages) as cascade:
        assert cascade.arrived(1).kind == "send"
    with pytest.raises(RequestError, match="not both"):
        plan_cascade(sample, models, gpus=8, rate=1.0)
