"""Tests of learnt state: it survives a restart, and a damaged file is refused."""

from __future__ import annotations

import hashlib
import os
import random
import stat
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import takt
from takt.states import STATE_VERSION

SECOND = 1_000_000_000


def taught(policy: str | None = None) -> takt.Queue:
    """A queue whose policy has seen 300 requests of two agents end."""
    queue, dice = takt.Queue(policy), random.Random(3)
    for i in range(1, 301):
        now = i * SECOND
        agent = 1 + i % 2
        queue.push(takt.Request(i, prompt_tokens=200, agent=agent, arrival=now), now=now)
        queue.begin(now)
        assert queue.take(i)
        queue.end([takt.Ran(i, 200, 900 if agent == 1 else 10 + dice.randrange(5))], now=now + 1)
        queue.erase(i)
    return queue


def order_of(queue: takt.Queue) -> list[int]:
    now = 1000 * SECOND
    for i, agent in enumerate((1, 2, 1, 2), start=1001):
        queue.push(takt.Request(i, prompt_tokens=200, agent=agent, arrival=now), now=now)
    queue.begin(now)
    return queue.list()


def test_a_queue_goes_on_with_what_it_has_learnt(tmp_path: Path) -> None:
    queue = taught("footprint")
    takt.write_state(tmp_path / "state", {"learnt": queue.learnt(), "policy": queue.policy})
    state = takt.read_state(tmp_path / "state")
    again = takt.Queue(state["policy"])
    again.load_learnt(state["learnt"])
    assert again.learnt() == queue.learnt() != takt.Queue("footprint").learnt()
    assert order_of(again) == order_of(queue) == [1002, 1004, 1001, 1003]
    assert order_of(takt.Queue("footprint")) == [1001, 1002, 1003, 1004]


def test_a_scheduler_goes_on_with_what_a_queue_has_learnt() -> None:
    learnt = taught().learnt()
    scheduler = takt.Scheduler(kv_blocks=100)
    scheduler.load_learnt(learnt)
    assert scheduler.learnt() == learnt
    scheduler.arrive(takt.Request(1, prompt_tokens=4))
    with pytest.raises(takt.OptionError):
        scheduler.load_learnt(learnt)  # a request is alive


def test_a_router_goes_on_with_what_its_policy_has_learnt() -> None:
    learnt = taught("footprint").learnt()
    router = takt.Router("footprint")
    assert router.learnt() == takt.Queue("footprint").learnt()
    router.load_learnt(learnt)
    assert router.learnt() == learnt
    with pytest.raises(takt.OptionError, match="numbers"):
        router.load_learnt(learnt[:-8])
    with pytest.raises(takt.OptionError):
        takt.Router("fcfs").load_learnt(learnt)
    router.arrive(takt.Request(1, prompt_tokens=4))
    with pytest.raises(takt.OptionError, match="expected none"):
        router.load_learnt(learnt)  # a request is alive
    assert router.learnt() == learnt


@pytest.mark.parametrize("policy", [None, "footprint"])
def test_words_that_are_no_learnt_state_change_nothing(policy: str | None) -> None:
    queue, dice = taught(policy), random.Random(7)
    learnt = queue.learnt()
    for wrong in (b"", learnt[:-8], learnt[:-1], learnt + bytes(8), b"\xff" * len(learnt), bytes(8)):
        with pytest.raises(takt.OptionError):
            queue.load_learnt(wrong)
        assert queue.learnt() == learnt
    for _ in range(100):  # a flipped bit is refused, or gives a valid state
        at = dice.randrange(len(learnt))
        flipped = bytes([*learnt[:at], learnt[at] ^ 1 << dice.randrange(8), *learnt[at + 1 :]])
        other = takt.Queue(policy)
        try:
            other.load_learnt(flipped)
        except takt.OptionError:
            pass
        assert len(order_of(other)) == 4
    with pytest.raises(takt.RequestError):
        queue.load_learnt("text")  # type: ignore[arg-type]
    with pytest.raises(takt.OptionError):
        takt.Queue("fcfs").load_learnt(learnt)
    assert takt.Queue("fcfs").learnt() == b""


STATE = {"bytes": bytes(range(256)), "text": "é\n", "deep": [{"a": [1, 2.5, None, True]}, b""],
         "marks": ["base64:*", "base64:AAAA", "text:", "text:text:base64:", "a text:"]}  # fmt: skip


def test_state_survives_a_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "state"
    for state in ({}, STATE):
        takt.write_state(path, state)
        assert takt.read_state(path) == state
        assert os.listdir(tmp_path) == ["state"]
    for wrong in ({"a": float("nan")}, {"a": object()}):
        with pytest.raises((ValueError, TypeError)):
            takt.write_state(path, wrong)
        assert takt.read_state(path) == STATE


def test_damaged_files_are_refused_with_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "state"
    takt.write_state(path, STATE)
    good, dice = path.read_bytes(), random.Random(5)
    head = good[: good.index(b"\n") + 1]

    def signed(content: bytes, version: int = STATE_VERSION) -> bytes:
        return b"takt state %d %s %d\n" % (version, hashlib.sha256(content).hexdigest().encode(), len(content)) + content

    wrong = {
        b"": "is empty",
        b"takt st": "is truncated",
        b"takt state 1": "is truncated",
        good[:-1]: "is truncated",
        head: "is truncated",
        good + b"x": "is damaged: its checksum",
        b"takt state 1\n": "is damaged: its first line",
        b"takt state 1 " + b"0" * 64 + b" \xb2\n": "is damaged: its first line",
        b"takt state 2 a 3\nabc": "has version 2; expected 1",
        signed(b"", 0): "has version 0; expected 1",
        b"#!/bin/sh\n" * 100: "is no state of takt",
        signed(b"no zip"): "is damaged: its content",
        signed(zlib.compress(b"[]")): "is damaged: its content",
        signed(zlib.compress(b"[" * 100_000)): "is damaged: its content",
        signed(zlib.compress(b'{"a": NaN}')): "is damaged: its content",
        signed(zlib.compress(b'{"a": "base64:*"}')): "is damaged: its content",
        signed(zlib.compress(b"{}")[:-1]): "is too long",
    }  # fmt: skip
    for data, reason in wrong.items():
        path.write_bytes(data)
        with pytest.raises(takt.StateError) as caught:
            takt.read_state(path)
        assert caught.value.reason == reason and str(path) in str(caught.value)
    for _ in range(300):
        at = dice.randrange(len(good))
        path.write_bytes(bytes([*good[:at], good[at] ^ 1 << dice.randrange(8), *good[at + 1 :]]))
        with pytest.raises(takt.StateError):
            takt.read_state(path)
        path.write_bytes(good[:at])
        with pytest.raises(takt.StateError):
            takt.read_state(path)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        takt.read_state(tmp_path / "none")
    opened = os.listdir("/proc/self/fd")
    with pytest.raises(takt.StateError, match="is not a regular file"):
        takt.read_state(tmp_path)
    assert os.listdir("/proc/self/fd") == opened
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="is not a regular file"):
        takt.write_state(tmp_path / "pipe", {})
    with pytest.raises(takt.StateError, match="is not a regular file"):
        takt.read_state(tmp_path / "pipe")
    with pytest.raises(OSError):
        takt.write_state(tmp_path / "none" / "state", {})
    with pytest.raises(OSError):
        takt.write_state(tmp_path, {})
    assert sorted(os.listdir(tmp_path)) == ["pipe"]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state"
    takt.write_state(path, {"a": 1})

    def fails(*_: Any) -> None:
        raise OSError("no space")

    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, fails)
            with pytest.raises(OSError, match="no space"):
                takt.write_state(path, {"a": 2})
        assert takt.read_state(path) == {"a": 1} and os.listdir(tmp_path) == ["state"]


def test_a_write_keeps_the_mode_and_follows_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    link.symlink_to("real")
    takt.write_state(link, {"a": 1})
    assert link.is_symlink() and stat.S_IMODE(real.stat().st_mode) == 0o600
    real.chmod(0o640)
    takt.write_state(link, {"a": 2})
    assert takt.read_state(real) == {"a": 2} and stat.S_IMODE(real.stat().st_mode) == 0o640
    assert sorted(os.listdir(tmp_path)) == ["link", "real"]


def test_writers_of_one_path_do_not_disturb_each_other(tmp_path: Path) -> None:
    """Threads, or containers whose processes have the same number."""
    path = tmp_path / "state"
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(takt.write_state, path, {"i": i, "bytes": os.urandom(20_000)}) for i in range(60)]:
            done.result()
    assert 0 <= takt.read_state(path)["i"] < 60 and os.listdir(tmp_path) == ["state"]
