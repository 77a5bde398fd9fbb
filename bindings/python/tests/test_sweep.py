"""Tests of sweeps, which run the tool."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable

import pytest

import takt
from takt import sweeps, workloads

try:
    from takt._tool import tool

    tool()
except takt.ToolError:
    pytest.skip("this build has no tool", allow_module_level=True)

POISSON = "gen:poisson,requests=60,rate=40,output=lognormal:300:1.2"
MINE = [{"arrival_s": i / 10, "calls": [{"prompt": 100, "output": 40}]} for i in range(20)]
GRID: dict[str, Any] = {
    "workload": {"poisson": POISSON, "mine": MINE}, "policy": ["fcfs", "sjf"], "load": [0.5, 0.9], "seed": range(2),
    "max_seqs": 32,
}  # fmt: skip
CELLS = 16


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, bytes]:
    """The table and the store of the grid, by one worker."""
    store = tmp_path_factory.mktemp("sweep") / "store.jsonl"
    table = takt.sweep(**GRID, workers=1, store=store)
    assert len(table) == table.cells == CELLS and not table.failed
    return table.to_csv(), store.read_bytes()


def test_a_row_has_the_cell_and_the_figures_of_a_replay(expected: tuple[str, bytes], tmp_path: Path) -> None:
    table = takt.sweep(POISSON, ["fcfs", "sjf"], load=0.9, seed=[0, 1])
    row = table[3]
    assert list(row)[:6] == ["workload", "load", "policy", "estimates", "seed", "error"]
    assert (row["workload"], row["load"], row["policy"], row["seed"], row["error"]) == (POISSON, 0.9, "sjf", 1, None)
    report = takt.replay(f"{POISSON},seed=1", "sjf", load=0.9, seed=1)
    assert {name: row[name] for name in report[0]} == report[0]
    assert table[2]["e2e_s.mean"] != row["e2e_s.mean"]  # the seed is the generator's, too
    assert table.best("e2e_s.mean")["policy"] == "sjf"
    assert table.to_csv(tmp_path / "table.csv") == (tmp_path / "table.csv").read_text()
    assert table.to_csv().count("\n") == 5 and expected[0].startswith("workload,max_seqs,load,policy,estimates,seed,error,")
    pandas = pytest.importorskip("pandas")
    frame = table.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert len(frame.groupby("policy")["e2e_s.mean"].mean()) == 2


@pytest.mark.parametrize(
    "make", [lambda: ProcessPoolExecutor(1), lambda: ProcessPoolExecutor(2), lambda: ThreadPoolExecutor(3), lambda: None]
)
def test_every_executor_gives_the_same_bytes(
    make: Callable[[], Executor | None], expected: tuple[str, bytes], tmp_path: Path
) -> None:
    executor = make()
    table = takt.sweep(**GRID, executor=executor, store=tmp_path / "store.jsonl")
    if executor is not None:
        executor.shutdown()
    assert (table.to_csv(), (tmp_path / "store.jsonl").read_bytes()) == expected


def test_dask_gives_the_same_bytes(expected: tuple[str, bytes], tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="dask's distributed is not installed")
    store = tmp_path / "store.jsonl"
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, local_directory=str(tmp_path)
    ) as cluster, distributed.Client(cluster) as client:
        assert len(client.scheduler_info()["workers"]) == 2
        table = takt.sweep(**GRID, executor=client.get_executor(), store=store)
    assert (table.to_csv(), store.read_bytes()) == expected


KILLED = """
import json, sys, takt
from concurrent.futures import ProcessPoolExecutor
grid = json.loads(sys.argv[1])
takt.sweep(**grid, store=sys.argv[2], executor=ProcessPoolExecutor(2) if sys.argv[3] == "processes" else None)
"""


@pytest.mark.parametrize("pool", ["processes", "default"])
def test_a_killed_sweep_resumes_to_the_same_bytes(pool: str, expected: tuple[str, bytes], tmp_path: Path) -> None:
    store = tmp_path / "store.jsonl"
    grid = json.dumps({**GRID, "seed": [0, 1]})
    for finished in (2, 5):
        child = subprocess.Popen([sys.executable, "-c", KILLED, grid, str(store), pool], start_new_session=True)
        while child.poll() is None and _lines(store) < 1 + finished:
            time.sleep(0.002)
        child.kill()
        child.wait()
        assert 1 + finished <= _lines(store) < 1 + CELLS
    told: list[str] = []
    table = takt.sweep(**GRID, store=store, progress=lambda share, what: told.append(what))
    assert told[0] != f"0 of {CELLS} cells" and told[-1] == f"{CELLS} of {CELLS} cells"
    assert (table.to_csv(), store.read_bytes()) == expected
    if pool == "processes":
        os.killpg(child.pid, signal.SIGKILL)  # the workers of the pool outlive it


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_a_complete_store_runs_nothing(expected: tuple[str, bytes], tmp_path: Path) -> None:
    class None_(Executor):
        def submit(self, *_: Any, **__: Any) -> Any:
            pytest.fail("runs a cell")

    store = tmp_path / "store.jsonl"
    store.write_bytes(expected[1])
    assert takt.sweep(**GRID, store=store, executor=None_()).to_csv() == expected[0]


@pytest.mark.parametrize("damage", ["half", "flipped", "garbage", "other", "no newline"])
def test_a_damaged_line_is_named_and_runs_again(damage: str, expected: tuple[str, bytes], tmp_path: Path) -> None:
    store = tmp_path / "store.jsonl"
    lines = expected[1].splitlines(keepends=True)
    at = len(lines) - 1
    if damage == "half":
        lines[at] = lines[at][:100]
    elif damage == "flipped":
        at = 3
        lines[at] = lines[at].replace(b"1", b"2", 1)
    elif damage == "garbage":
        at = 4
        lines[at] = b"\0\xff[[[\n"
    elif damage == "other":
        at = 5
        lines[at] = lines[0]
    else:
        lines[at] = lines[at][:-1]
    store.write_bytes(b"".join(lines))
    if damage == "no newline":
        table = takt.sweep(**GRID, store=store)
    else:
        with pytest.warns(RuntimeWarning, match=f"store.jsonl:{at + 1}: the line is .*; its cell runs again") as caught:
            table = takt.sweep(**GRID, store=store)
        assert len(caught) == 1 and caught[0].filename == __file__
    assert (table.to_csv(), store.read_bytes()) == expected


def test_a_store_of_another_sweep_is_refused(expected: tuple[str, bytes], tmp_path: Path) -> None:
    store = tmp_path / "store.jsonl"

    def refused(field: str, content: bytes = expected[1], **changed: Any) -> None:
        store.write_bytes(content)
        with pytest.raises(takt.RequestError) as caught:
            takt.sweep(**{**GRID, **changed}, store=store)
        assert caught.value.field == field and str(store) in str(caught.value)
        assert store.read_bytes() == content

    refused("store.seed", seed=range(3))
    refused("store.policy", policy=["fcfs"])
    refused("store.workload", workload=POISSON)
    refused("store.content of mine", workload={"poisson": POISSON, "mine": MINE[:-1]})
    refused("store.token_budget", token_budget=512)
    refused("store", b"ts,in,out\n1,2,3\n")
    refused("store", expected[1][1:])
    from takt import sweeps

    header = sweeps._unsealed(expected[1].splitlines()[0])
    assert header is not None
    refused("store.takt", sweeps._sealed({**header, "takt": "0.0.1"}))
    refused("store.takt_sweep", sweeps._sealed({**header, "takt_sweep": 99}))
    with pytest.raises(takt.RequestError, match="^store is .*Is a directory"):
        takt.sweep(**GRID, store=tmp_path)
    with pytest.raises(takt.RequestError, match="^store is .*No such file"):
        takt.sweep(**GRID, store=tmp_path / "absent" / "store.jsonl")


def test_a_changed_file_is_another_sweep(tmp_path: Path) -> None:
    trace, store = tmp_path / "mine.jsonl", tmp_path / "store.jsonl"
    workloads.write(MINE, trace)
    takt.sweep(trace, "fcfs", store=store)
    workloads.write(MINE[:-1], trace)
    with pytest.raises(takt.RequestError, match="^store.content of .*mine.jsonl is "):
        takt.sweep(trace, "fcfs", store=store)


def test_a_store_that_was_replaced_before_it_was_locked_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store.jsonl"
    takt.sweep("bundled", "fcfs", store=store)
    written, lock = store.read_bytes(), sweeps._Store._lock
    copy = tmp_path / "copy"

    def replaced_first(self: sweeps._Store) -> None:
        if not copy.exists():
            copy.write_bytes(written)
            os.link(copy, tmp_path / "new")
            os.replace(tmp_path / "new", store)
        lock(self)

    monkeypatch.setattr(sweeps._Store, "_lock", replaced_first)
    header, *cells = [json.loads(line) for line in written.splitlines()]
    del header["digest"]
    kept = sweeps._Store(store, header, [cell["arguments"] for cell in cells])
    try:
        assert os.path.samestat(os.fstat(kept.file), os.stat(store))
    finally:
        kept.close()


def test_a_store_serves_one_sweep_at_a_time(tmp_path: Path) -> None:
    store = tmp_path / "store.jsonl"

    def again(share: float, what: str) -> None:
        with pytest.raises(takt.RequestError, match="^store is .*in use by another sweep"):
            takt.sweep(MINE, "fcfs", store=store)

    assert len(takt.sweep(MINE, "fcfs", store=store, progress=again)) == 1


def test_a_failing_cell_is_reported_and_the_others_finish(tmp_path: Path) -> None:
    store = tmp_path / "store.jsonl"
    bad = [{"arrival_s": 0, "calls": [{"promt": 10, "output": 5}]}]
    told: list[str] = []
    tables = [
        takt.sweep({"good": MINE, "bad": bad}, ["sjff", "fcfs"], seed=[1, 2], store=store, workers=workers,
                   progress=lambda share, what: told.append(what))
        for workers in (1, 3)
    ]  # fmt: skip
    assert told[-1] == "8 of 8 cells, 6 failed"
    assert tables[0].to_csv() == tables[1].to_csv() and _lines(store) == 1 + 2
    table = tables[0]
    assert [(row["workload"], row["policy"], row["seed"]) for row in table if row["error"] is None] == [
        ("good", "fcfs", 1), ("good", "fcfs", 2)
    ]  # fmt: skip
    assert len(table.failed) == 6
    assert "unknown policy 'sjff'" in table.failed[0]["error"]
    assert all("/tmp" not in row["error"] for row in table.failed)
    assert "promt" in table.failed[-1]["error"] and table.failed[-1]["error"].find("bad:") >= 0


LONG = "gen:multi_stage,workflows=400000,rate=6"


def test_a_cancelled_sweep_keeps_finished_cells(tmp_path: Path) -> None:
    for executor in (None, ThreadPoolExecutor(2)):
        store, cancel = tmp_path / f"{executor is None}.jsonl", threading.Event()

        def when(share: float, what: str, cancel: threading.Event = cancel) -> None:
            if what.startswith("2 of"):
                cancel.set()

        began = time.monotonic()
        table = takt.sweep(
            {"short": MINE, "long": LONG}, "fcfs", seed=[1, 2], store=store, workers=None if executor else 2,
            executor=executor, cancel=cancel, progress=when,
        )  # fmt: skip
        assert time.monotonic() - began < 20
        assert [row["workload"] for row in table] == ["short", "short"] and table.cells == 4 and _lines(store) == 3
        if executor is not None:
            executor.shutdown()
    assert _tools() == []


def test_an_exception_of_the_callback_ends_the_sweep(tmp_path: Path) -> None:
    def fail(share: float, what: str) -> None:
        if share > 0:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        takt.sweep({"short": MINE, "long": LONG}, "fcfs", store=tmp_path / "store.jsonl", workers=2, progress=fail)
    assert _lines(tmp_path / "store.jsonl") == 2 and _tools() == []


def test_a_full_disk_ends_the_sweep_and_loses_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, fsync, left = tmp_path / "store.jsonl", os.fsync, [4]  # the file and the folder of the header, and two cells

    def full(file: int) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(file)

    grid: dict[str, Any] = {"workload": MINE, "policy": "fcfs", "seed": range(6), "workers": 1}
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            takt.sweep(**grid, store=store)
    assert _lines(store) >= 3 and _tools() == []
    assert takt.sweep(**grid, store=store).to_csv() == takt.sweep(**grid).to_csv()


INTERRUPTED = f"""
import signal, sys, takt
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    takt.sweep({{"short": {MINE!r}, "long": {LONG!r}}}, ["fcfs", "sjf"], store=sys.argv[1], workers=3, progress=True)
except KeyboardInterrupt:
    sys.exit(130)
"""


def test_ctrl_c_ends_a_sweep_cleanly(tmp_path: Path) -> None:
    store = tmp_path / "store.jsonl"
    child = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(store)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while child.poll() is None and (_lines(store) < 3 or not _tools(child.pid)):
        time.sleep(0.01)
    tools = _tools(child.pid)
    child.send_signal(signal.SIGINT)
    output, said = child.communicate(timeout=30)
    assert tools and child.returncode == 130 and output == "" and "Traceback" not in said
    assert "2 of 4 cells" in said and said.endswith(" \n")  # in text mode, a carriage return is a newline
    assert not any(Path("/proc", each).exists() for each in tools)
    assert _lines(store) == 3


def _tools(process: int | None = None) -> list[str]:
    """Returns the children of a process that are the tool."""
    found = []
    for each in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = each.read_text().rpartition(")")
        except OSError:
            continue
        if name.endswith("(takt") and int(rest.split()[1]) == (process or os.getpid()):
            found.append(each.parent.name)
    return found


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"polices": "fcfs"}, "polices"), ({"sweep": [0.5]}, "sweep"), ({"html": "a.html"}, "html"), ({"seed": []}, "seed"),
        ({"seed": [1, 1]}, "seed"), ({"seed": {1, 2}}, "seed"), ({"load": float("nan")}, "load"), ({"policy": 3}, "policy"),
        ({"estimates": [None]}, "estimates"), ({"workload": []}, "workload"), ({"workload": 3}, "workload"),
        ({"workload": ["a", "a"]}, "workload"), ({"workload": {"a": 3}}, "workload.a"), ({"workers": 0}, "workers"),
        ({"workers": 2, "executor": ThreadPoolExecutor(1)}, "workers"), ({"executor": 3}, "executor"),
        ({"workload": [[{"arrival_s": 0}]]}, "workflows[0].calls"), ({"load": object()}, "load"),
    ],
)  # fmt: skip
def test_an_invalid_argument_is_named(arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(takt.RequestError) as caught:
        takt.sweep(**{"workload": MINE, **arguments})
    assert caught.value.field == field


def test_an_axis_may_be_any_argument_of_replay() -> None:
    table = takt.sweep(MINE, "fcfs", instances=[1, 2], options=[{"chunk_tokens": 64}, {"chunk_tokens": 128}])
    assert [(row["instances"], row["options"]) for row in table] == [
        (1, "chunk_tokens=64"), (1, "chunk_tokens=128"), (2, "chunk_tokens=64"), (2, "chunk_tokens=128")
    ]  # fmt: skip
    assert not table.failed
