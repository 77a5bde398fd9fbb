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

from takt import CallRecord, Instance, Request, ToolProfile
from takt.systems import Cascadia, Chimera, HexGenFlow, Kairos, Lamps

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
    assert kairos < 0.9 * fcfs < mean(Deaf())


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

    flow = Tuned(cluster=["any"])
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
