"""Tests of replays and workloads, which run the tool."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
import types
from pathlib import Path
from typing import Any

import pytest

import takt
from takt import planning, workloads

try:
    from takt._tool import tool

    tool()
except takt.ToolError:
    pytest.skip("this build has no tool", allow_module_level=True)


def test_a_replay_in_five_lines() -> None:
    report = takt.replay("gen:poisson,requests=400,rate=90,output=lognormal:300:1.2,seed=5", ["fcfs", "sjf"], max_seqs=32)
    for run in report:
        print(run["policy"], run["e2e_s.mean"])
    best = report.best("e2e_s.mean")
    assert best["policy"] == "sjf" and best["completed"] == best["requests"] == 400


def test_records_are_plain_and_pandas_takes_them() -> None:
    report = takt.replay("gen:poisson,requests=50,rate=5", "fcfs", estimates=["oracle", "none"], requests=True, by="class")
    assert [run["estimates"] for run in report] == ["oracle", "none"]
    assert len(report.requests) == 100 and report.requests[0]["outcome"] == "completed"
    assert isinstance(report.requests[0]["ttft_s"], float) and isinstance(report.requests[0]["prompt_tokens"], int)
    assert report.json["engine"]["instances"] == 1
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(report)
    assert frame["ttft_s.p95"].dtype == float and len(pandas.DataFrame(report.requests)) == 100


def test_a_users_workload_is_read_back(tmp_path: Path) -> None:
    mine = [
        {"arrival_s": 0.0, "class": "agents", "calls": [
            {"stage": "plan", "prompt": 700, "output": 25},
            {"stage": "code", "agent": "coder", "prompt": 1200, "output": 30, "after": [0]},
        ]},
        {"arrival_s": 0.5, "tenant": "alice", "calls": [{"prompt": 10, "output": 5}]},
    ]  # fmt: skip
    assert takt.replay(mine, "fcfs")[0]["workflows_completed"] == 2
    for name in ("own.jsonl", "own.jsonl.gz"):
        workloads.write(mine, tmp_path / name)
        again = workloads.read(tmp_path / name)
        assert [[c["output"] for c in w["calls"]] for w in again] == [[25, 30], [5]]
    records = workloads.calls(again)
    assert records[1]["stage"] == "code" and records[1]["class"] == "agents" and records[2]["workflow"] == 1
    made = workloads.requests(again)
    assert [r.workflow for r in made] == [1, 1, 2] and made[2].tenant == 1 and made[2].arrival == 500_000_000
    ordered = takt.order(made, "sjf", now=10**9)
    assert ordered[0].id == 3


def test_equal_keys_give_equal_generators() -> None:
    first = workloads.generate("poisson", requests=5, rate=2, seed=7)
    assert first == workloads.generate("poisson", requests=5, rate=2, seed=7) != workloads.generate("poisson", requests=5)
    assert len(first) == 5 and first.header["takt_workload"] == 1


def test_a_table_of_any_columns_is_read(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("ts,in,out\n1000,10,5\n2500,20,6\n")
    read = workloads.read(tmp_path / "log.csv", columns={"arrival": "ts:ms", "prompt": "in", "output": "out"})
    assert [w["arrival_s"] for w in read] == [0, 1.5]
    (tmp_path / "log.csv").write_text("ts,in,out\n1000,10,5\n2500,x,6\n")
    with pytest.raises(takt.ToolError, match='log.csv:3: in: "x"'):
        workloads.read(tmp_path / "log.csv", columns={"arrival": "ts:ms", "prompt": "in", "output": "out"})


def test_mistakes_are_named() -> None:
    with pytest.raises(takt.ToolError, match="unknown policy 'sjff'") as caught:
        takt.replay("bundled", "sjff")
    assert caught.value.code in (1, 2)
    with pytest.raises(takt.ToolError, match="absent.csv"):
        takt.replay("absent.csv")
    with pytest.raises(TypeError):
        takt.replay("bundled", policies="fcfs")  # type: ignore[call-arg]


CALL = {"prompt": 10, "output": 5}


@pytest.mark.parametrize(
    ("workflow", "field"),
    [
        (7, "workflows[0]"), ({"arrival_s": 0}, "workflows[0].calls"), ({"arrival_s": 0, "calls": "ab"}, "workflows[0].calls"),
        ({"arrival_s": 0, "calls": []}, "workflows[0].calls"), ({"arrival_s": 0, "calls": [3]}, "workflows[0].calls[0]"),
        ({"calls": [CALL]}, "workflows[0].arrival_s"), ({"arrival_s": float("nan"), "calls": [CALL]}, "workflows[0].arrival_s"),
        ({"arrival_s": "1", "calls": [CALL]}, "workflows[0].arrival_s"), ({"arrival_s": -1, "calls": [CALL]}, "workflows[0].arrival_s"),
        ({"arrival_s": 0, "deadline_s": float("inf"), "calls": [CALL]}, "workflows[0].deadline_s"),
        ({"arrival_s": 0, "priority": 0.5, "calls": [CALL]}, "workflows[0].priority"),
        ({"arrival_s": 0, "calls": [CALL, {"prompt": -1, "output": 5}]}, "workflows[0].calls[1].prompt"),
        ({"arrival_s": 0, "calls": [{"prompt": 10}]}, "workflows[0].calls[0].output"),
        ({"arrival_s": 0, "calls": [{"prompt": 10, "output": float("nan")}]}, "workflows[0].calls[0].output"),
    ],
)  # fmt: skip
def test_an_invalid_field_of_a_workflow_is_named(workflow: Any, field: str) -> None:
    with pytest.raises(takt.RequestError) as caught:
        workloads.requests([workflow])
    assert caught.value.field == field
    with pytest.raises(takt.TaktError):
        takt.replay([workflow], "fcfs")


def test_an_unknown_field_is_named() -> None:
    with pytest.raises(takt.ToolError, match="promt"):
        takt.replay([{"arrival_s": 0, "calls": [{"promt": 10, "output": 5}]}], "fcfs")
    with pytest.raises(takt.ToolError, match="deadlin_s"):
        takt.replay([{"arrival_s": 0, "deadlin_s": 3, "calls": [CALL]}], "fcfs")


SECONDS = "gen:multi_stage,workflows=20000,rate=6"


def test_progress_is_reported() -> None:
    told: list[tuple[float, str]] = []
    takt.replay(SECONDS, ["fcfs", "sjf"], threads=1, progress=lambda share, what: told.append((share, what)))
    assert told and all(0 <= share <= 1 for share, _ in told)
    with pytest.raises(takt.ToolError, match="unknown policy"):
        takt.replay("bundled", "sjff", progress=lambda share, what: None)


def test_a_terminal_shows_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    takt.replay(SECONDS, ["fcfs", "sjf"], threads=1)
    assert "[" in screen.getvalue() and screen.getvalue().endswith("\r")


def test_a_notebook_shows_a_bar_and_a_pipe_none(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = io.StringIO()  # not a terminal
    monkeypatch.setattr(sys, "stderr", cell)
    takt.replay("gen:poisson,requests=50,rate=5", "fcfs")
    assert cell.getvalue() == ""
    shell = types.ModuleType("IPython")
    shell.get_ipython = lambda: types.SimpleNamespace(kernel=object())  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setitem(sys.modules, "ipykernel", types.ModuleType("ipykernel"))
    takt.replay(SECONDS, ["fcfs", "sjf"], threads=1)
    assert "[#" in cell.getvalue() and cell.getvalue().endswith("\r")


LONG = (
    "import signal, sys, takt\n"
    "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # shells start background jobs without this handler
    "print('begins', flush=True)\n"
    "try:\n"
    "    takt.replay('gen:multi_stage,workflows=400000,rate=6', ['fcfs', 'sjf', 'stjf'], progress=False)\n"
    "except KeyboardInterrupt:\n"
    "    print('interrupted', flush=True)\n"
    "    sys.exit(130)\n"
)


def test_ctrl_c_ends_a_replay_cleanly(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", LONG], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert child.stdout is not None and child.stdout.readline() == "begins\n"
    tools: list[str] = []
    for _ in range(200):
        tools = _children(child.pid)
        if tools:
            break
        time.sleep(0.05)
    assert tools, "the tool has not started"
    time.sleep(0.3)
    child.send_signal(signal.SIGINT)
    output, said = child.communicate(timeout=30)
    assert (child.returncode, output, said) == (130, "interrupted\n", "")
    assert not any(Path("/proc", each).exists() for each in tools)
    assert list(tmp_path.iterdir()) == []


def _children(process: int) -> list[str]:
    found = []
    for each in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = each.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == process:
            found.append(each.parent.name)
    return found


def test_the_tool_is_a_module_and_an_entry_point() -> None:
    told = subprocess.run([sys.executable, "-m", "takt", "--version"], capture_output=True, text=True, check=True)
    assert told.stdout.splitlines()[0] == f"takt {takt.__version__}"


def test_recommend_finds_the_fewest_engines() -> None:
    found = planning.recommend(slo={"ttft_p95": 3, "tpot_p99": "50ms"}, gpus=4, tp=1, policy="stjf", rate_scale=4)
    assert (found.best["gpus"], found.best["policy"], found.best["serves"]) == (2, "stjf", True)
    again = takt.replay(policy="stjf", profile=found.best["profile"], instances=2, token_budget=2048, rate_scale=4)
    assert again[0]["ttft_s.p95"] == pytest.approx(found.best["figures"]["ttft_p95"])
    assert found.json["candidates"] >= len(found.ranked) > 1
    with pytest.raises(takt.ToolError, match="nearest misses"):
        planning.recommend(slo="ttft_p95=1ms", gpus=1, policy=["fcfs"], caches="off")
    mine = [{"arrival_s": 0.1 * i, "calls": [{"prompt": 90, "output": 20}]} for i in range(9)]
    found = planning.recommend(mine, slo={"ttft_p95": 3}, gpus=1, policy="fcfs", caches="off", options={"overlap": 1})
    assert found.best["replay"][:2] == ["replay", "--option"] and found.json["workload"]["requests"] == 9
    for wrong in ({"ttft_p95=1,e2e_mean": 5}, {"ttft_p95": "3,tpot_p99=1ms"}, None, ["ttft_p95=1"]):
        with pytest.raises(takt.RequestError, match="^slo is "):
            planning.recommend(slo=wrong, gpus=1)  # type: ignore[arg-type]
    with pytest.raises(takt.RequestError, match="^policy is "):
        planning.recommend(slo="ttft_p95=1", gpus=1, policy=[len])  # type: ignore[list-item]
