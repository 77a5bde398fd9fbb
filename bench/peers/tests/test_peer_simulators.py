"""bench/peers/peer-simulators writes one workload for four simulators, and reads their reports. These tests need none of them."""

from __future__ import annotations

import csv
import importlib
import json
import lzma
import signal
import sys
from pathlib import Path

import pytest
from peer_program import PEERS, Peer, endless

sys.path.insert(0, str(PEERS))
simulators = importlib.import_module("simulators")

CALLS = [simulators.Call(0, 300, 20), simulators.Call(0.04, 400, 2)]


def test_a_workload_is_the_same_again_and_a_longer_one_begins_with_it() -> None:
    calls = simulators.workload(50)
    assert calls == simulators.workload(100)[:50]
    assert all(call.prompt + call.output <= simulators.LONGEST for call in simulators.workload(5000))
    assert calls[1].arrival == 1 / simulators.RATE


def test_all_formats_have_the_same_requests(tmp_path: Path) -> None:
    simulators.write_takt(CALLS, tmp_path)
    simulators.write_inference_lab(CALLS, tmp_path)
    simulators.write_sched_sim(CALLS, tmp_path)
    simulators.write_vidur(CALLS, tmp_path, tmp_path / "cache")
    lengths = [(300, 20), (400, 2)]
    with (tmp_path / "takt.csv").open() as file:
        assert [(int(row["prompt"]), int(row["output"])) for row in csv.DictReader(file)] == lengths
    with (tmp_path / "vidur.csv").open() as file:
        assert [(int(row["PromptTokenCount"]), int(row["CompletionTokenCount"])) for row in csv.DictReader(file)] == lengths
    sessions = [json.loads(line)["steps"] for line in (tmp_path / "sessions.jsonl").read_text().splitlines()]
    assert [[(step["new"], step["output"]) for step in steps] for steps in sessions] == [[each] for each in lengths]
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert [(row["prompt_tokens"], row["output_tokens"]) for row in trace] == lengths
    assert [row["timestamp"] for row in trace] == [0, 0.04]


def test_inference_lab_draws_lengths_only_if_asked(tmp_path: Path) -> None:
    simulators.write_inference_lab(CALLS, tmp_path, generated=True)
    drawn = (tmp_path / "workload.toml").read_text()
    assert "num_requests = 2" in drawn and "lognormal" in drawn and "sessions" not in drawn
    simulators.write_inference_lab(CALLS, tmp_path)
    given = (tmp_path / "workload.toml").read_text()
    assert "num_sessions = 2" in given and "lognormal" not in given


def test_all_have_the_same_time_of_a_decode_step(tmp_path: Path) -> None:
    batch, context = 64, 64 * 512
    step = simulators.BASE + simulators.TOKEN * batch + simulators.CONTEXT * context
    simulators.write_takt(CALLS, tmp_path)
    takt = json.loads((tmp_path / "takt.json").read_text())["e2e"][0]
    assert takt["a0"] + takt["aB"] * batch + takt["aS"] * context == pytest.approx(1e3 * step)
    mlp, attention = simulators.vidur_tables()
    dense = next(row for row in mlp if row["num_tokens"] == batch)["time_stats.attn_pre_proj.median"]
    decode = next(r for r in attention if (r["batch_size"], r["kv_cache_size"], r["prefill_chunk_size"]) == (batch, context // batch, 0))
    assert simulators.LAYERS * (dense + decode["time_stats.attn_decode.median"]) == pytest.approx(1e3 * step)
    simulators.write_sched_sim(CALLS, tmp_path)
    gpu = json.loads((tmp_path / "gpu.json").read_text())
    read = (2e9 * gpu["parameter_count_billions"] + context * simulators.KV_BYTES) / (1e9 * gpu["memory_bandwidth_gb_s"])
    assert gpu["kernel_launch_overhead_ms"] + 1e3 * read == pytest.approx(1e3 * (step - simulators.TOKEN * batch))  # the roofline


def test_vidur_finds_its_tables_as_a_snapshot(tmp_path: Path) -> None:
    arguments = simulators.write_vidur(CALLS, tmp_path, tmp_path / "cache")
    name = next(str(each).split("=takt/")[1] for each in arguments if "model_profiling_dataset" in str(each))
    root = tmp_path / "cache" / "profiling_data" / "compute" / f"datasets--takt--{name}"
    folder = root / "snapshots" / (root / "refs" / "main").read_text()
    with lzma.open(folder / "mlp.csv.xz", "rt") as file:
        assert len(list(csv.DictReader(file))) == len(simulators.vidur_tables()[0])
    assert json.loads((folder / "config.json").read_text())["device_sku"] == "h100"


def test_means_are_in_milliseconds() -> None:
    summary = {"ttft_s": {"mean": 0.02}, "tpot_s": {"mean": 0.01}, "e2e_s": {"mean": 2}}
    assert simulators.takt_means(json.dumps({"runs": [{"metrics": summary}]}).encode()) == simulators.Means(20, 10, 2000)
    rows = "prefill_e2e_time,request_e2e_time,request_num_decode_tokens\n0.5,1.5,11\n0.5,0.5,1\n"
    assert simulators.vidur_means(rows.encode()) == simulators.Means(500, 100, 1000)


def test_rates_leave_out_the_start() -> None:
    assert simulators.rates([3.0, 2.0, 6.0], 1.0, 100) == (50, 20, 100)


def test_without_an_environment_it_is_skipped(tmp_path: Path) -> None:
    tool = tmp_path / "takt"
    tool.write_text("")
    home = tmp_path / "home"
    home.mkdir()
    child = Peer("simulators", "ready").start(home, "--existing", "--takt", tool)
    out, error = child.communicate(timeout=60)
    assert child.returncode == 77 and not out
    assert error == f"peer-simulators: no environment with simulators in {home}\n"


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_simulator(tmp_path: Path, sent: signal.Signals) -> None:
    peer = Peer("simulators", "ready")
    peer.pretend(tmp_path, endless(tmp_path))
    tool = tmp_path / "takt"
    tool.write_text("")
    peer.ends_with_what_it_began(tmp_path, sent, "--quick", "--only", "simulators", "--takt", str(tool))


def test_a_missing_takt_is_an_error(tmp_path: Path) -> None:
    Peer("simulators", "ready").refuses(tmp_path, ["--takt", str(tmp_path / "none")])


def test_the_queues_return_the_same_requests() -> None:
    queues = importlib.import_module("queues")  # needs takt's library

    times = queues.measured(200, 3)  # raises if the queues differ
    assert all(len(each[name]) == 3 for each in times.values() for name in ("heapq", "takt"))
    assert [line.split(" | ")[1] for line in queues.rows(200, times)] == list(queues.OPERATIONS)


def test_the_heap_drops_cancelled_entries() -> None:
    queues = importlib.import_module("queues")

    queue = queues.HeapqQueue()
    for request in range(1, 1001):
        queue.push(request, 5000 - request)
    for request in range(1, 991):
        queue.cancel(request)
    queue.rerank(995, 1)
    assert len(queue.heap) < 200
    assert queue.best(3) == [995, 1000, 999]
    assert [queue.pop() for _ in range(3)] == [995, 1000, 999]
