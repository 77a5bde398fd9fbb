"""Restarts of a real `vllm serve` with a file of learnt state, on a CPU. bench/peers/peer-vllm sets TAKT_TEST_SERVE."""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

if "TAKT_TEST_SERVE" not in os.environ:
    pytest.skip("bench/peers/peer-vllm starts servers", allow_module_level=True)

import servers  # bench/peers

import takt

TOKENS = 12


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("served") / "model"
    servers.make_model(path, 256)
    return path


@contextmanager
def serve(model: Path, log: Path, timeout: int = 30, **options):
    """A server. `timeout`: time that vLLM gives its engine to end [s]."""
    arguments = [
        "--scheduler-cls", "takt.vllm.TaktScheduler", "--max-model-len", "256", "--shutdown-timeout", str(timeout),
        "--additional-config", json.dumps({"takt": options}),
    ]  # fmt: skip
    server = servers.Server(model, log.stem, arguments, log)
    try:
        until = time.monotonic() + 600
        while True:
            assert server.process.poll() is None and time.monotonic() < until, log.read_text()[-4000:]
            try:
                urllib.request.urlopen(server.url + "/health", timeout=5).close()
                break
            except OSError:
                time.sleep(0.5)
        yield server
    finally:
        server.stop()


def call(server, **fields) -> int:
    """Returns the number of generated tokens."""
    body = {
        "model": "tiny", "prompt": [300] * 20, "max_tokens": TOKENS, "ignore_eos": True,
        "vllm_xargs": {"takt_agent": "coder", "takt_last": "1", **fields},
    }  # fmt: skip
    request = urllib.request.Request(
        server.url + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)["usage"]["completion_tokens"]


def end(server, how: signal.Signals) -> None:
    os.kill(server.process.pid, how)
    server.process.wait(60)


def coder(state) -> list:
    rows = [row for row in state["lengths"]["outputs"] if row[1] == "coder"]
    assert rows, state["lengths"]
    return rows


def warnings(log: Path) -> list[str]:
    return [line for line in log.read_text().splitlines() if "takt: state file" in line]


def test_a_restart_goes_on_with_what_was_learnt(model, tmp_path):
    path = tmp_path / "state"
    with serve(model, tmp_path / "first.log", state_file=str(path)) as server:
        for i in range(6):
            assert call(server, takt_workflow=f"w{i}") == TOKENS
        end(server, signal.SIGTERM)
    first = takt.read_state(path)
    assert coder(first) and not warnings(tmp_path / "first.log")
    before = path.stat().st_mtime_ns
    with serve(model, tmp_path / "second.log", state_file=str(path)) as server:
        end(server, signal.SIGINT)
    assert takt.read_state(path) == first and path.stat().st_mtime_ns > before, "loaded, and saved again"
    with serve(model, tmp_path / "third.log", state_file=str(path)) as server:
        assert call(server, takt_workflow="w9") == TOKENS
        end(server, signal.SIGTERM)
    assert coder(takt.read_state(path)) != coder(first)
    assert sorted(file.name for file in tmp_path.iterdir() if file.suffix != ".log") == ["state"]


def test_an_engine_that_vllm_kills_leaves_the_last_written_state(model, tmp_path):
    """By default vLLM kills the engine at once."""
    path, log = tmp_path / "state", tmp_path / "killed.log"
    with serve(model, log, timeout=0, state_file=str(path), state_every_s=0.2) as server:
        for i in range(6):
            call(server, takt_workflow=f"w{i}")
            time.sleep(0.3)
        end(server, signal.SIGTERM)
    assert "--shutdown-timeout" in log.read_text()
    state = takt.read_state(path)
    assert coder(state)
    with serve(model, tmp_path / "again.log", state_file=str(path)) as server:
        end(server, signal.SIGTERM)
    assert takt.read_state(path) == state and not warnings(tmp_path / "again.log")


def test_a_damaged_file_is_refused_and_serving_goes_on(model, tmp_path):
    path, log = tmp_path / "state", tmp_path / "damaged.log"
    takt.write_state(path, {"policy": "x", "learnt": b"", "lengths": {}})
    good = path.read_bytes()
    bad = good[:-3] + bytes([good[-3] ^ 4]) + good[-2:]
    path.write_bytes(bad)
    with serve(model, log, state_file=str(path)) as server:
        assert call(server) == TOKENS
        end(server, signal.SIGTERM)
    assert len(warnings(log)) == 1 and "takt starts without it" in warnings(log)[0], log.read_text()[-2000:]
    assert (tmp_path / "state.refused").read_bytes() == bad
    assert coder(takt.read_state(path))
