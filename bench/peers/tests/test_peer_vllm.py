"""Tests of bench/peers/peer-vllm as a program: its error messages, and that it leaves no processes behind."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from peer_program import Peer, endless

peer = Peer("vllm", "ready-0.32.0")


def test_without_an_environment(tmp_path: Path) -> None:
    peer.lacks_an_environment(tmp_path, "vLLM 0.32.0")


@pytest.mark.parametrize("arguments", [["--only", "sessions"], ["--sessions", "no/such/file"], ["--json", "no/such/folder/f"]])
def test_wrong_arguments(tmp_path: Path, arguments: list[str]) -> None:
    peer.refuses(tmp_path, arguments)


def test_what_fails_is_one_line(tmp_path: Path) -> None:
    peer.pretend(tmp_path, "exit 3")
    child = peer.start(tmp_path, "--existing", "--only", "cost")
    _, error = child.communicate(timeout=60)
    assert child.returncode == 1 and error.startswith("peer-vllm: exit 3: ") and error.count("\n") == 1
    child = peer.start(tmp_path, "--existing", "--only", "adapter")
    assert child.wait(60) == 1


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_what_it_had_begun_ends_with_it(tmp_path: Path, sent: signal.Signals) -> None:
    peer.pretend(tmp_path, endless(tmp_path))
    peer.ends_with_what_it_began(tmp_path, sent, "--only", "serve")
