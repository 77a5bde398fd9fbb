"""Tests of the systems by their example programs: better than FCFS, and no better without what they learn."""

from __future__ import annotations

import importlib.util
import statistics
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from takt import (
    AgentLearner, CallRecord, FaultError, Forecast, Instance, NextCall, Request, RequestError, Stage, ToolProfile,
    predictors, systems,
)  # fmt: skip
from takt.planning import CascadePlan
from takt.requests import Estimate
from takt.systems import Cascadia, Chimera, HexGenFlow, Kairos, Lamps

PROFILE = "aic/qwen3-32b/a100/bf16/tp2"
EXAMPLES = Path(__file__).parents[3] / "examples/python"
pytestmark = pytest.mark.skipif(not EXAMPLES.exists(), reason="the examples are in the repository alone")


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.py")))
def test_examples_are_short_and_print_a_gain(name: str) -> None:
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) <= 60
    lines = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py")], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    page = EXAMPLES.parents[1] / "docs/howto/python_systems.md"
    assert "\n".join(lines) in page.read_text()
    figures = [[float(word) for word in line.split() if word.replace(".", "").isdigit()] for line in lines]
    assert len(figures) == 2 and figures[1][0] < 0.9 * figures[0][0]  # the mean


def test_kairos_gains_by_its_ranks() -> None:
    toy = example("kairos")
    calls = toy.draw()

    class Deaf(Kairos):
        def learn(self, lessons: Any, now: int | None = None) -> None:
            return None

    def mean(system: Kairos) -> float:
        return float(statistics.mean(toy.serve(system, calls)))

    fcfs, kairos = mean(Kairos(policy="fcfs", placement="least_loaded")), mean(Kairos())
    assert kairos < 0.9 * fcfs and kairos < 0.9 * mean(Deaf())


def test_kairos_saves_what_it_has_learned() -> None:
    toy, kairos = example("kairos"), Kairos()
    toy.serve(kairos, toy.draw(100))
    again = Kairos()
    again.load(kairos.save())
    assert again.learner.save() == kairos.save() and again.agent("write") == kairos.agent("write")


def test_kairos_survives_a_dead_engine_and_unnamed_calls() -> None:
    kairos = Kairos(most_lessons=1)
    kairos.instance_up(Instance(1), 0)
    kairos.arrive(Request(1, 10), Request(2, 10, workflow=5, agent=kairos.agent("a")), now=0)
    assert len(kairos.place(0).placed) == 2
    kairos.instance_down(1, 1)
    kairos.instance_up(Instance(2), 2)
    assert {each.instance for each in kairos.place(2).placed} == {2}
    kairos.request_ended(1, now=3)
    kairos.request_ended(2, now=1_000_000_002)
    kairos.workflow_ended(5, now=1_000_000_002)
    assert kairos.lessons_dropped == 1
    assert kairos.take_lessons(2_000_000_000) == [CallRecord(5, 1, 2, 1_000_000_002)]  # since it was placed again


def test_lamps_gains_by_what_it_learns_of_tools() -> None:
    toy = example("lamps")
    requests = list(toy.draw())

    class Deaf(ToolProfile):
        def observe(self, *calls: Any) -> int:
            return 0

    lamps = statistics.mean(toy.serve(toy.system(), requests))
    assert lamps < 0.9 * statistics.mean(toy.serve(toy.system(policy="fcfs", pause="keep_all"), requests))
    assert lamps < 0.95 * statistics.mean(toy.serve(toy.system(tools=Deaf()), requests))


def test_lamps_fills_what_a_request_does_not_say() -> None:
    from takt import NextCall, ToolCall

    lamps = Lamps(predict=lambda request: 40.0, kv="none")
    assert lamps.policy.startswith("aged(memory_integral")
    lamps.tools.observe(*(ToolCall(3, 2.0, 30, 50) for _ in range(10)))
    call = lamps.expect(NextCall(3, after=7))
    assert (call.after, call.returned) == (7, 30) and call.duration == pytest.approx(2e9, rel=0.05)
    assert lamps.expect(NextCall(4)).duration > 0  # the average of all tools
    lamps.arrive(Request(1, 10, next_call=NextCall(3)), now=0)
    lamps.commit(lamps.plan(0), now=1)
    lamps.tool_called(1, tool=3, tokens_before=1, now=1)
    before = lamps.tools.expect(3).observations
    lamps.tool_returned(1, 5, now=3_000_000_001)
    assert lamps.tools.expect(3).observations == before + 1


def test_chimera_gains_by_its_predictions() -> None:
    toy = example("chimera")
    calls = list(toy.draw())
    order = "aged(stjf,threshold=100)"

    class Deaf:
        def predict(self, *calls: Any) -> list[Any]:
            from takt import Forecast

            return [Forecast(None, None)] * len(calls)

    def mean(predictor: Any, order: str, **options: str) -> float:
        return float(statistics.mean(toy.serve(Chimera(toy.MODELS, predictor, **options), calls, order)))

    chimera = mean(toy.Predictor(), order)
    assert chimera < 0.9 * mean(toy.Predictor(), "fcfs", policy="fcfs", placement="least_loaded")
    assert chimera < 0.9 * mean(Deaf(), order)


def test_chimera_hands_over_the_median_of_the_chosen_model_alone() -> None:
    class Knows:
        def predict(self, *calls: Any) -> list[Any]:
            return [Forecast(Estimate(9.0, (1, 2, 3, 4, 5)) if call.model == "a" else None, 0.5) for call in calls]

    chimera = Chimera({"a": 1, "b": 2}, Knows())
    chimera.instance_up(Instance(1, model=1), 0)
    chimera.arrive_calls((Request(1, 10), predictors.Call()), now=0)
    chimera.place(0)
    assert chimera.tokens_left == {1: 3.0}
    chimera.instance_down(1, 1)
    chimera.instance_up(Instance(2, model=2), 1)
    assert len(chimera.place(1).placed) == 1 and not chimera.tokens_left
    assert Estimate(2.0).median == pytest.approx(1.386, abs=1e-3)


def test_hexgen_flow_gains_by_cost_models_and_tunes_alpha() -> None:
    toy = example("hexgen_flow")
    workflows = toy.draw()
    searched: list[int] = []

    class Tuned(HexGenFlow):
        def search(self, served: Any) -> dict[str, Any]:
            searched.append(len(served))
            assert all(len(call["after"]) <= 1 for each in served for call in each["calls"])
            return {"alpha": 0.2 * len(searched)}

    class Blind(HexGenFlow):
        def add_profile(self, name: str, cost_model: Any = None) -> int:
            return super().add_profile(name)

    flow = Tuned(cluster=[PROFILE])
    tuned = statistics.mean(toy.serve(flow, workflows))
    assert len(searched) >= 1 and flow.alpha == pytest.approx(0.2 * len(searched))
    assert tuned < 0.9 * statistics.mean(toy.serve(HexGenFlow(policy="fcfs", placement="round_robin"), workflows))
    assert tuned < 0.97 * statistics.mean(toy.serve(Blind(), workflows))


def test_cascadia_keeps_its_quality_by_planning_again() -> None:
    toy = example("cascadia")
    requests = list(toy.draw())
    system = toy.make(toy.MODELS, requests)
    _, scores = toy.serve(system, requests)
    assert system.drifts and statistics.mean(scores[2000:]) >= toy.GOAL["quality"] - 1

    class Deaf(Cascadia):
        def advance(self, now: int | None = None) -> None:
            return None

    vars(toy)["Cascadia"] = Deaf
    _, scores = toy.serve(toy.make(toy.MODELS, requests), requests)
    assert statistics.mean(scores[2000:]) < toy.GOAL["quality"] - 5


def test_a_late_end_of_an_earlier_placement_is_no_end() -> None:
    kairos, flow = Kairos(), HexGenFlow()
    flow.workflow_declared(5, [Stage(1)], now=0)
    for system in (kairos, flow):
        system.instance_up(Instance(1), 0)
        system.arrive(Request(1, 10, workflow=5, agent=1, stage=1), now=0)
        system.place(0)
        system.instance_down(1, 1)
        system.instance_up(Instance(2), 2)
        assert system.place(2).placed[0].instance == 2
        system.request_ended(1, instance=1, output=9, now=3)
        assert 1 in system._calls
    kairos.request_started(1, 1, 4)  # late, too
    kairos.request_ended(1, instance=2, now=5)
    assert kairos.take_lessons(6) == [CallRecord(5, 1, 2, 5)]
    flow.request_ended(1, instance=2, output=7, now=5)
    assert flow._workflows[5]["calls"] == [(1, 10, 7)] and not flow._calls


def test_kairos_publishes_a_loaded_table_at_the_next_advance(monkeypatch: pytest.MonkeyPatch) -> None:
    toy, kairos = example("kairos"), Kairos(learner=AgentLearner(converged_only=False))
    toy.serve(kairos, toy.draw(50))
    again = Kairos(learner=AgentLearner(converged_only=False))
    with monkeypatch.context() as patch:
        patch.setattr("time.monotonic_ns", lambda: pytest.fail("reads a clock"))
        again.load(kairos.save())
        told: list[int] = []
        patch.setattr(again, "publish", lambda ranks, now: told.append(now))
        ranks = again.advance(77)
    assert ranks is not None and again.agent("write") in ranks.ranks and told == [77]
    assert again.advance(10**12) is None


def test_systems_forget_requests_that_do_not_end_by_themselves() -> None:
    class Knows:
        def predict(self, *calls: Any) -> list[Any]:
            return [Forecast(Estimate(9.0), 0.5)] * len(calls)

    chimera = Chimera({"a": 1}, Knows(), fail_unfit=True)
    kairos, flow = Kairos(fail_unfit=True), HexGenFlow(fail_unfit=True)
    flow.workflow_declared(5, [Stage(1)], now=0)
    large = Request(1, 1000, workflow=5, stage=1)
    systems_of: list[Any] = [chimera, kairos, flow]
    for system in systems_of:
        system.instance_up(Instance(1, kv_tokens=100, model=1), 0)
        for number in (1, 2):
            request = Request(number, 1000 if number == 1 else 10, workflow=5, stage=1)
            if system is chimera:
                chimera.arrive_calls((request, predictors.Call()), now=0)
            else:
                system.arrive(request, now=0)
        assert [each.request for each in system.place(0).failed] == [large.id]
        assert list(system._scores if system is chimera else system._calls) == [2]
        assert system.cancel(2, 1)
        assert not (system._scores if system is chimera else system._calls)


def test_lamps_forgets_requests_that_fail_or_are_cancelled() -> None:
    lamps = Lamps(kv_blocks=10, kv_block_tokens=16)
    lamps.arrive(Request(1, 100_000, next_call=NextCall(3)), Request(2, 10), Request(3, 10), now=0)
    plan = lamps.plan(0)
    assert [each.request for each in plan.failed] == [1] and sorted(lamps._tools) == [2, 3]
    lamps.commit(plan, finished=[2], now=1)
    lamps.tool_called(3, tool=4, now=1)
    assert lamps.plan(1).released == [2] and list(lamps._tools) == [3]
    lamps.cancel(3, 2)
    lamps.plan(2)
    assert not lamps._tools and not lamps._calls


@pytest.mark.parametrize("strict", [False, True])
def test_a_second_arrival_with_an_id_in_use_changes_no_record(strict: bool) -> None:
    def again(arrive: Any) -> None:
        if strict:
            with pytest.raises(FaultError):
                arrive()
        else:
            arrive()

    kairos, flow, lamps = Kairos(strict=strict), HexGenFlow(strict=strict), Lamps(strict=strict, kv="none")
    flow.workflow_declared(5, [Stage(1)], now=0)
    first, second = Request(1, 10, workflow=5, agent=1, stage=1), Request(1, 99, workflow=5, agent=2, stage=1)
    for system in (kairos, flow):
        system.instance_up(Instance(1), 0)
        again(lambda system=system: system.arrive(first, Request(2, 10, workflow=5, agent=1), second, now=0))
        assert sorted(system._calls) == [1, 2]  # the first two have arrived
        system.place(1)
    assert kairos._calls[1][:2] == [5, 1] and flow._calls[1] == (5, 1, 10)
    again(lambda: flow.workflow_declared(5, [Stage(8)], now=2))
    assert [each.stage for each in flow._workflows[5]["stages"]] == [1]
    lamps.arrive(Request(1, 10, next_call=NextCall(3)), now=0)
    again(lambda: lamps.arrive(Request(1, 10, next_call=NextCall(4)), now=0))
    lamps.commit(lamps.plan(0), now=1)
    assert lamps._tools == {1: 3}


def test_hexgen_flow_searches_with_its_own_options(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[dict[str, Any]] = []
    flow = HexGenFlow(policy="sjf", budgets="whole", cluster=[PROFILE])
    monkeypatch.setattr(systems, "search_alpha", lambda *_, **options: told.append(options))
    flow.search([])
    assert told == [{"placement": "workload_balance", "policy": "sjf", "budgets": "whole"}]
    monkeypatch.undo()
    with pytest.raises(RequestError, match='^cluster is .*"any" is unknown'):
        HexGenFlow(cluster=["any"])
    with pytest.raises(RequestError, match="^placement is .*must have an alpha"):
        HexGenFlow(cluster=[PROFILE], placement="round_robin")


def test_lamps_takes_the_tool_that_it_expects() -> None:
    lamps = Lamps(kv="none")
    lamps.arrive(Request(1, 10, next_call=NextCall(3)), now=0)
    lamps.commit(lamps.plan(0), now=1)
    lamps.tool_called(1, now=1)
    lamps.tool_returned(1, 5, next_call=NextCall(4), now=2)
    lamps.commit(lamps.plan(2), now=3)
    lamps.tool_called(1, now=3)
    lamps.tool_returned(1, 5, now=4)
    assert [lamps.tools.expect(tool).observations for tool in (3, 4)] == [1, 1]


def test_invalid_options_raise_errors_that_name_them() -> None:
    first = CascadePlan([50.0], [{"gpus": 1, "share": 1.0}, {"gpus": 1, "share": 0.5}], 75.0, 1.0, {})
    models = [{"name": "a"}, {"name": "b"}]

    def made(**options: Any) -> Cascadia:
        return Cascadia(models, first, **{"gpus": 2, "quality": 75.0, **options})

    for name, value in {"quality": float("nan"), "p": 0.0, "window_s": 0.0}.items():
        with pytest.raises(RequestError, match=f"^{name} is"):
            made(**{name: value})
    invalid: list[tuple[Any, str, Any]] = [
        (Kairos, "refresh_s", -1.0),
        (Kairos, "most_lessons", 1.5),
        (HexGenFlow, "most_lessons", -1),
    ]
    for make, name, wrong in invalid:
        with pytest.raises(RequestError, match=f"^{name} is"):
            make(**{name: wrong})
    with pytest.raises(RequestError, match="^scores is nan"):
        made().sampled(10, [1, 1], [float("nan"), 2.0])


def test_cascadia_plans_again_after_a_plan_that_failed() -> None:
    first = CascadePlan([50.0], [{"gpus": 1, "share": 1.0}, {"gpus": 1, "share": 0.5}], 75.0, 1.0, {})
    answers: list[Any] = [RuntimeError("no plan"), first]

    def planner(*_: Any, **__: Any) -> CascadePlan:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, CascadePlan)
        return answer

    system = Cascadia([{"name": "a"}, {"name": "b"}], first, gpus=2, quality=75.0, window_s=100.0, planner=planner)
    second = 1_000_000_000

    def window(number: int, score: float) -> CascadePlan | None:
        for i in range(40):
            at = (100 * number + 2 * i) * second
            assert i or system.advance(at) is None
            system.arrived(1000 * number + i + 1, at)
            system.sampled(100, [10, 10], [score + i % 3, 90.0])
        return system.advance(100 * (number + 1) * second)

    assert window(0, 90.0) is None
    with pytest.raises(RuntimeError):
        window(1, 20.0)
    assert window(2, 20.0) is first
