"""scripts/peer-llama as a program: what it says where it cannot go on, and that it leaves nothing behind. Needs no library."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "peer-llama"
pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason="scripts/peer-llama is in the tree, and not in the package")


def start(home: Path, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), *map(str, arguments)], env=dict(os.environ, TAKT_PEER_LLAMA=str(home)), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def pretend(home: Path, body: str) -> list[object]:
    """An environment whose Python is a script of the shell; the arguments that keep it from building anything."""
    for folder in ("venv/bin", "programs"):
        (home / folder).mkdir(parents=True)
    python = home / "venv" / "bin" / "python"
    python.write_text(f"#!/bin/sh\n{body}\n")
    python.chmod(0o755)
    (home / "programs" / "llama_host").write_text("")
    (home / "ready-0.3.36").write_text("")
    return ["--existing", "--programs", home / "programs"]


def test_without_an_environment(tmp_path: Path) -> None:
    child = start(tmp_path, "--existing")
    out, error = child.communicate(timeout=60)
    assert child.returncode == 1 and not out
    assert error == f"peer-llama: no environment with llama-cpp-python 0.3.36 in {tmp_path}\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("arguments", [["--only", "nothing"], ["--programs", "no/such/folder"], ["--json", "no/such/folder/f"]])
def test_wrong_arguments(tmp_path: Path, arguments: list[str]) -> None:
    child = start(tmp_path, "--existing", *arguments)
    _, error = child.communicate(timeout=60)
    assert child.returncode == 2 and "Traceback" not in error


def test_what_fails_is_one_line(tmp_path: Path) -> None:
    child = start(tmp_path, *pretend(tmp_path, "exit 3"), "--only", "identity")
    _, error = child.communicate(timeout=60)
    assert child.returncode == 1 and error == f"peer-llama: exit 3: llama_identity.py; see {tmp_path / 'logs'}\n"


@pytest.mark.parametrize("code", [0, 1])
def test_its_file_and_its_exit_code_are_of_what_came_out(tmp_path: Path, code: int) -> None:
    figures = '{"requests": 7, "different": 0, "totals": {}}'
    arguments = pretend(tmp_path, f"echo '{figures}' > \"{tmp_path}/identity.json\"; exit {code}")
    child = start(tmp_path, *arguments, "--only", "identity", "--json", tmp_path / "out.json")
    child.communicate(timeout=60)
    assert child.returncode == code
    told = (tmp_path / "out.json").read_text()
    assert told.split() == '{ "version": "0.3.36", "identical": { "requests": 7, "different": 0 } }'.split()


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_what_it_had_begun_ends_with_it(tmp_path: Path, sent: signal.Signals) -> None:
    body = f'trap "echo told > {tmp_path}/told; exit 0" INT\necho $$ > {tmp_path}/pid\nwhile :; do sleep 0.05; done'
    child = start(tmp_path, *pretend(tmp_path, body), "--only", "serve")
    pid = tmp_path / "pid"
    end = time.monotonic() + 60
    while not (pid.exists() and pid.read_text().strip()) and time.monotonic() < end:
        time.sleep(0.05)
    child.send_signal(sent)
    _, error = child.communicate(timeout=60)
    assert child.returncode == 130 and error == "peer-llama: stopped; what it had begun has ended\n"
    assert (tmp_path / "told").exists(), "the child was killed, and could not end its servers"
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
