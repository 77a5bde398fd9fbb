"""scripts/peer-vllm as a program: what it says where it cannot go on, and that it leaves nothing behind. Needs no vLLM."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "peer-vllm"
pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason="scripts/peer-vllm is in the tree, and not in the package")


def start(home: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), *arguments], env=dict(os.environ, TAKT_PEER_VLLM=str(home)), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def pretend(home: Path, body: str) -> None:
    """An environment whose Python is a script of the shell."""
    (home / "venv" / "bin").mkdir(parents=True)
    python = home / "venv" / "bin" / "python"
    python.write_text(f"#!/bin/sh\n{body}\n")
    python.chmod(0o755)
    (home / "ready-0.32.0").write_text("")


def test_without_an_environment(tmp_path: Path) -> None:
    child = start(tmp_path, "--existing")
    out, error = child.communicate(timeout=60)
    assert child.returncode == 77 and not out
    assert error == f"peer-vllm: no environment with vLLM 0.32.0 in {tmp_path}\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("arguments", [["--only", "sessions"], ["--sessions", "no/such/file"], ["--json", "no/such/folder/f"]])
def test_wrong_arguments(tmp_path: Path, arguments: list[str]) -> None:
    child = start(tmp_path, "--existing", *arguments)
    _, error = child.communicate(timeout=60)
    assert child.returncode == 2 and "Traceback" not in error


def test_what_fails_is_one_line(tmp_path: Path) -> None:
    pretend(tmp_path, "exit 3")
    child = start(tmp_path, "--existing", "--only", "cost")
    _, error = child.communicate(timeout=60)
    assert child.returncode == 1 and error.startswith("peer-vllm: exit 3: ") and error.count("\n") == 1
    child = start(tmp_path, "--existing", "--only", "adapter")
    assert child.wait(60) == 1


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_what_it_had_begun_ends_with_it(tmp_path: Path, sent: signal.Signals) -> None:
    pretend(tmp_path, 'trap "echo told > told; exit 0" INT\necho $$ > pid\nwhile :; do sleep 0.05; done')
    child = start(tmp_path, "--existing", "--only", "serve")
    pid = tmp_path / "pid"
    end = time.monotonic() + 60
    while not (pid.exists() and pid.read_text().strip()) and time.monotonic() < end:
        time.sleep(0.05)
    child.send_signal(sent)
    _, error = child.communicate(timeout=60)
    assert child.returncode == 130 and error == "peer-vllm: stopped; what it had begun has ended\n"
    assert (tmp_path / "told").exists(), "the child was killed, and could not end its servers"
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
