"""The errors that peer-observe prints, from reports written here."""

import importlib.machinery
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from peer_program import PEERS

sys.path.insert(0, str(PEERS))


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    loader = importlib.machinery.SourceFileLoader("peer_observe", str(PEERS / "peer-observe"))
    spec = importlib.util.spec_from_loader("peer_observe", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def metrics(ttft: float, tpot: float, workflow: float) -> dict[str, Any]:
    return {f"{name}_s": {"mean": mean, "p95": 2 * mean} for name, mean in (("ttft", ttft), ("tpot", tpot), ("workflow", workflow))}


def test_errors(peer: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bench = peer.Bench(Path("takt"), tmp_path, 3)
    kind = type("Kind", (), {"name": "vllm"})
    rows = []
    for number, ttft in enumerate((0.1, 0.2, 0.4)):
        report = {"runs": [{"requests": 6, "metrics": metrics(ttft, 0.01, 2.0)}]}
        (tmp_path / "seen.json").write_text(json.dumps(report))
        rows.append(bench.compared(kind, "fcfs", 2.5, number, tmp_path / "seen", metrics(0.3, 0.008, 2.0)))
    assert rows[0]["errors_pct"]["ttft_mean"] == pytest.approx(200)
    assert rows[0]["errors_pct"]["tpot_p95"] == pytest.approx(-20)
    assert rows[0]["errors_pct"]["workflow_p95"] == pytest.approx(0)
    peer.show(rows)
    # The median of the server's rounds is 0.2 s, and the largest is four times the least.
    assert "50.0 ( 300)" in capsys.readouterr().out


def test_missing_environment(
    peer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TAKT_PEER_LLAMA", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["peer-observe", "--server", "llama", "--takt", __file__, "--library", __file__, "--folder", str(tmp_path)])
    assert peer.main() == 77
    assert "no environment of peer-llama" in capsys.readouterr().out
