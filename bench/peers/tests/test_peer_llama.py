"""Tests of bench/peers/peer-llama as a program: its error messages, and that it leaves no processes behind."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from peer_program import Peer, endless

peer = Peer("llama", "ready-0.3.36")


def pretend(home: Path, body: str) -> list[object]:
    """The arguments that keep it from building anything."""
    peer.pretend(home, body)
    (home / "programs").mkdir()
    (home / "programs" / "llama_host").write_text("")
    return ["--programs", home / "programs"]


def test_without_an_environment(tmp_path: Path) -> None:
    peer.lacks_an_environment(tmp_path, "llama-cpp-python 0.3.36")


@pytest.mark.parametrize("arguments", [["--only", "nothing"], ["--programs", "no/such/folder"], ["--json", "no/such/folder/f"]])
def test_wrong_arguments(tmp_path: Path, arguments: list[str]) -> None:
    peer.refuses(tmp_path, arguments)


def test_what_fails_is_one_line(tmp_path: Path) -> None:
    child = peer.start(tmp_path, "--existing", *pretend(tmp_path, "exit 3"), "--only", "identity")
    _, error = child.communicate(timeout=60)
    assert child.returncode == 1 and error == f"peer-llama: exit 3: llama_identity.py; see {tmp_path / 'logs'}\n"


@pytest.mark.parametrize("code", [0, 1])
def test_its_file_and_its_exit_code_are_of_what_came_out(tmp_path: Path, code: int) -> None:
    figures = '{"requests": 7, "different": 0, "totals": {}}'
    arguments = pretend(tmp_path, f"echo '{figures}' > \"{tmp_path}/identity.json\"; exit {code}")
    child = peer.start(tmp_path, "--existing", *arguments, "--only", "identity", "--json", tmp_path / "out.json")
    child.communicate(timeout=60)
    assert child.returncode == code
    told = (tmp_path / "out.json").read_text()
    assert told.split() == '{ "version": "0.3.36", "identical": { "requests": 7, "different": 0 } }'.split()


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_what_it_had_begun_ends_with_it(tmp_path: Path, sent: signal.Signals) -> None:
    peer.ends_with_what_it_began(tmp_path, sent, *pretend(tmp_path, endless(tmp_path)), "--only", "serve")
