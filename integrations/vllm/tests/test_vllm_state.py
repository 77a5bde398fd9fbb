"""Tests of the file of learnt state in takt's half of vLLM's scheduler, with a stub of vLLM's half."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import vllm_stub
from vllm_stub import request

import takt
from takt.vllm.bounded import Bounded
from takt.vllm.gate import Gate, Returns
from takt.vllm.identity import Identity
from takt.vllm.lengths import Lengths
from takt.vllm.state import StateFile


@pytest.fixture
def make():
    with vllm_stub.installed():
        from takt.vllm.scheduler import TaktSyncScheduler

        def made(shutdown_timeout=None, **options):
            config = SimpleNamespace(additional_config={"takt": options}, shutdown_timeout=shutdown_timeout)
            return TaktSyncScheduler(config, 4)

        yield made


@pytest.fixture
def lines(monkeypatch):
    found = []
    logger = logging.getLogger("vllm.takt")
    for level in ("info", "warning", "error"):
        monkeypatch.setattr(logger, level, lambda text, *values, level=level, **more: found.append((level, text % values)))
    return found


def serve(scheduler, n=40, output=30):
    for i in range(n):
        scheduler.add_request(request(f"r{i}", most=output, takt_agent="coder", takt_workflow=f"w{i}", takt_last="1"))
        while scheduler.has_unfinished_requests():
            scheduler.update_from_output(scheduler.schedule())


def known(scheduler):
    return scheduler._takt_lengths.output(Identity(agent="coder"), 0, 5000)


@pytest.mark.parametrize("options", [{}, {"policy": "footprint"}, {"lengths": False}])
def test_a_restart_goes_on_with_what_was_learnt(make, tmp_path, lines, options):
    path = str(tmp_path / "state")
    first = make(state_file=path, **options)
    serve(first)
    first.shutdown()
    assert os.listdir(tmp_path) == ["state"]
    second = make(state_file=path, **options)
    assert second._takt_orders.queue.learnt() == first._takt_orders.queue.learnt()
    if options.get("lengths", True):
        assert known(second) == known(first) and known(second).mean == 30
    assert second._takt_saved() == first._takt_saved()
    assert not [text for level, text in lines if level != "info"]
    second.shutdown()
    second.shutdown()  # no effect


def test_the_gate_goes_on_with_its_return_times(make, tmp_path):
    path = str(tmp_path / "state")
    first = make(state_file=path, gate="price")
    first._takt_gate._returns_of(("t", "w", "")).observe(3.0, True)
    first.shutdown()
    again = make(state_file=path, gate="price")._takt_gate
    assert again.saved() == first._takt_gate.saved() and len(again.saved()) == 1


def test_state_of_other_options_is_used_as_far_as_it_fits(make, tmp_path, lines):
    path = str(tmp_path / "state")
    first = make(state_file=path)
    serve(first)
    first.shutdown()
    second = make(state_file=path, policy="fcfs")
    assert known(second).mean == 30 and not [text for level, text in lines if level != "info"]


def test_the_file_is_written_while_serving(make, tmp_path):
    path = tmp_path / "state"
    scheduler = make(state_file=str(path), state_every_s=0.0)
    serve(scheduler, 3)
    scheduler._takt_state._thread.join()
    scheduler._takt_state._every_s = 3600.0
    scheduler.update_from_output(scheduler.schedule())
    scheduler._takt_state._thread.join()
    before = takt.read_state(path)
    assert before["lengths"] == scheduler._takt_lengths.saved()
    serve(scheduler, 3, output=9)
    assert takt.read_state(path) == before
    scheduler.shutdown()
    assert takt.read_state(path)["lengths"] == scheduler._takt_lengths.saved()


def good_state():
    lengths = Lengths(10**9)
    for i in range(9):
        lengths.ends(Identity(agent="a", tenant="t"), 0, 10, 20 + i, i, True)
    return {"policy": "x", "learnt": b"", "lengths": lengths.saved()}


def damage(path, kind):
    """Writes a file that must be refused. Returns a part of the reason."""
    takt.write_state(path, good_state())
    good = path.read_bytes()
    if kind == "empty":
        path.write_bytes(b"")
        return "is empty"
    if kind == "truncated":
        path.write_bytes(good[:-7])
        return "is truncated"
    if kind == "version":
        path.write_bytes(good.replace(b"state 1 ", b"state 9 "))
        return "has version 9; expected 1"
    if kind == "flipped":
        path.write_bytes(good[:-3] + bytes([good[-3] ^ 4]) + good[-2:])
        return "its checksum"
    if kind == "foreign":
        path.write_text(json.dumps({"lengths": 3}))
        return "is no state of takt"
    state = good_state()
    rows = state["lengths"]["outputs"]
    changes = {
        "weight": lambda: rows[0].__setitem__(3, -1.0),
        "huge": lambda: rows[0].__setitem__(4, [1e300] * 5),
        "sums": lambda: rows[0].__setitem__(4, [1.0]),
        "name": lambda: rows[0].__setitem__(1, "x" * 300),
        "place": lambda: rows[0].__setitem__(2, 99),
        "twice": lambda: rows.append(rows[0]),
        "short row": lambda: rows.append([1]),
        "no list": lambda: state["lengths"].__setitem__("outputs", 3),
        "no lengths": lambda: state.__setitem__("lengths", None),
    }
    changes[kind]()
    takt.write_state(path, state)
    return "is unusable"


KINDS = ["empty", "truncated", "version", "flipped", "foreign", "weight", "huge", "sums", "name", "place", "twice",
         "short row", "no list", "no lengths"]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_is_refused_and_kept(make, tmp_path, lines, kind):
    path = tmp_path / "state"
    reason = damage(path, kind)
    before = path.read_bytes()
    scheduler = make(state_file=str(path))
    warnings = [text for level, text in lines if level == "warning"]
    assert len(warnings) == 1 and reason in warnings[0] and str(path) in warnings[0]
    assert (tmp_path / "state.refused").read_bytes() == before
    assert known(scheduler).mean == 5000 and not scheduler.takt_counters["faults"]  # cold: only the cap is known
    serve(scheduler, 8)
    scheduler.shutdown()
    assert known(make(state_file=str(path))).mean == 30
    assert sorted(os.listdir(tmp_path)) == ["state", "state.refused"]


def test_learnt_words_of_another_version_are_refused(make, tmp_path, lines):
    path = tmp_path / "state"
    first = make(state_file=str(path))
    serve(first, 8)
    state = first._takt_saved()
    takt.write_state(path, {**state, "learnt": bytes(8) + state["learnt"][8:]})  # another number of the format
    second = make(state_file=str(path))
    assert known(second).mean == 5000  # nothing of the file is used
    assert len([text for level, text in lines if level == "warning"]) == 1 and (tmp_path / "state.refused").exists()


def test_what_cannot_be_moved_stays(make, tmp_path, lines, monkeypatch):
    folder = tmp_path / "folder"
    folder.mkdir()
    scheduler = make(state_file=str(folder))
    assert len([text for level, text in lines if level == "warning"]) == 1 and scheduler._takt_state.off
    serve(scheduler, 3)
    scheduler.shutdown()
    assert folder.is_dir() and not os.listdir(folder) and os.listdir(tmp_path) == ["folder"]
    # A file of another user, without permission to read it; its folder would permit the move.
    path = tmp_path / "state"
    path.write_bytes(b"secret")
    lines.clear()

    def refused(*_):
        raise PermissionError("denied")

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refused)
        scheduler = make(state_file=str(path))
    assert "denied" in lines[0][1] and lines[0][0] == "warning"
    serve(scheduler, 3)
    scheduler.shutdown()
    assert path.read_bytes() == b"secret" and sorted(os.listdir(tmp_path)) == ["folder", "state"]


def test_a_second_refused_file_keeps_the_first(make, tmp_path):
    path = tmp_path / "state"
    for i in range(3):
        path.write_bytes(b"%d" % i)
        make(state_file=str(path)).shutdown()
    kept = [(tmp_path / name).read_bytes() for name in ("state.refused", "state.refused.2", "state.refused.3")]
    assert kept == [b"0", b"1", b"2"]


def test_a_process_without_room_for_a_thread_keeps_takts_order(make, tmp_path, lines, monkeypatch):
    scheduler = make(state_file=str(tmp_path / "state"), state_every_s=0.0)

    def full(*_):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", full)
        serve(scheduler, 3)
    assert scheduler.takt_order is not None and not scheduler.takt_counters["faults"]
    assert len([text for level, text in lines if level == "warning" and "new thread" in text]) == 1
    scheduler.shutdown()
    assert (tmp_path / "state").exists()


def teach(scheduler):
    """Loads what a queue of footprint learns from 100 calls, since the stub generates no output, and a return time."""
    queue = takt.Queue("footprint")
    for i in range(1, 101):
        queue.push(takt.Request(i, prompt_tokens=200, agent=1, arrival=i), now=i)
        queue.begin(i)
        queue.take(i)
        queue.end([takt.Ran(i, 200, 900)], now=i)
        queue.erase(i)
    assert queue.learnt() != takt.Queue("footprint").learnt()
    scheduler._takt_orders.queue.load_learnt(queue.learnt())
    scheduler._takt_gate._returns_of(("t", "w", "")).observe(3.0, True)
    return scheduler._takt_saved()


@pytest.mark.parametrize("fault", [False, True])
def test_off_and_on_again_keeps_what_was_learnt(make, tmp_path, monkeypatch, fault):
    monkeypatch.setattr(Gate, "keep_out", lambda gate, now: set())  # the stub has no blocks
    scheduler = make(state_file=str(tmp_path / "state"), policy="footprint", gate="price")
    serve(scheduler)
    before = teach(scheduler)
    if fault:
        scheduler._takt_fault(ValueError("planted"))
    else:
        scheduler.takt_switch(False)
        scheduler.schedule()
    assert scheduler.takt_order is None
    scheduler.takt_switch(True)
    scheduler.schedule()
    assert scheduler.takt_order is not None and scheduler._takt_saved() == before
    # A queue that a fault has broken does not keep takt off.
    scheduler.takt_switch(False)
    scheduler.schedule()
    scheduler._takt_orders.queue.close()
    scheduler.takt_switch(True)
    scheduler.schedule()
    assert scheduler.takt_counters["faults"] == fault + 1
    assert scheduler.takt_order is not None and scheduler._takt_saved()["returns"] == before["returns"]


def test_a_start_with_other_options_keeps_the_rest_of_the_file(make, tmp_path, lines, monkeypatch):
    monkeypatch.setattr(Gate, "keep_out", lambda gate, now: set())  # the stub has no blocks
    path = str(tmp_path / "state")
    first = make(state_file=path, policy="footprint", gate="price")
    serve(first)
    before = teach(first)
    first.shutdown()
    for options in ({"policy": "fcfs", "lengths": False}, {"lengths": False}):
        other = make(state_file=path, **options)
        serve(other)
        other.shutdown()
    again = make(state_file=path, policy="footprint", gate="price")
    saved = again._takt_saved()
    assert {name: saved[name] for name in before} == before and len(saved["others"]) == 1
    assert not [text for level, text in lines if level != "info"]
    takt.write_state(path, {**saved, "others": {"sjf": 3}})
    assert make(state_file=path)._takt_saved().get("others") is None and os.path.exists(path + ".refused")


def test_long_workflows_of_long_calls_are_saved_and_loaded():
    lengths = Lengths(10**9)
    who = Identity(agent="a", workflow="w")
    for i in range(3000):
        lengths.begins(who, i, i)
        who = Identity(agent="a", workflow="w", last=i == 2999)
        lengths.ends(who, i, 900_000, 100_000, i, True)
    assert max(max(row[4]) for row in lengths.saved()["after"]) > 1e15
    again = Lengths(10**9)
    again.load(lengths.saved())
    assert again.saved() == lengths.saved()


def test_a_full_disk_and_a_broken_state_stop_nothing(make, tmp_path, lines, monkeypatch):
    path = tmp_path / "state"
    scheduler = make(state_file=str(path), state_every_s=0.0)

    def full(*_):
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        serve(scheduler, 5)
        scheduler._takt_state._thread.join()
    assert len([text for level, text in lines if level == "warning"]) == 1
    with monkeypatch.context() as patch:
        patch.setattr(scheduler._takt_state, "_collect", full)
        serve(scheduler, 5)
    assert scheduler.takt_counters["faults"] == 0 and scheduler.takt_order is not None
    scheduler.shutdown()
    assert takt.read_state(path)["policy"] == scheduler._takt_orders.queue.policy


def test_a_missing_folder_is_named_and_its_later_appearance_used(make, tmp_path, lines):
    path = tmp_path / "later" / "state"
    scheduler = make(state_file=str(path))
    assert [level for level, _ in lines].count("warning") == 1
    path.parent.mkdir()
    scheduler.shutdown()
    assert path.exists()


def test_an_engine_that_vllm_will_kill_warns(make, tmp_path, lines):
    for timeout, warned in ((0, 1), (5, 0), (None, 0)):
        lines.clear()
        scheduler = make(state_file=str(tmp_path / "state"), shutdown_timeout=timeout)
        assert [level for level, text in lines if "--shutdown-timeout" in text] == ["warning"] * warned
        scheduler.shutdown()


def test_ranks_have_files_of_their_own(make):
    from takt.vllm.scheduler import _rank

    def suffix(**parallel):
        return _rank(SimpleNamespace(parallel_config=SimpleNamespace(**parallel)))

    assert suffix(data_parallel_size=1, data_parallel_rank=0) == _rank(SimpleNamespace()) == ""
    assert suffix(data_parallel_size=4, data_parallel_rank=3) == ".dp3"
    dense = [suffix(data_parallel_size=1, data_parallel_rank=0, data_parallel_index=i) for i in range(3)]
    assert dense == ["", ".dp1", ".dp2"]  # vLLM forgets the size and the rank if the model is dense
    assert suffix(data_parallel_size=4, data_parallel_rank=0, data_parallel_index=0) == ".dp0"


def test_a_killed_process_leaves_the_old_or_the_new_file(tmp_path):
    """A child writes states of 1 MB as fast as it can, and is killed."""
    path = tmp_path / "state"
    code = f"""
import sys; sys.path[:0] = {sys.path!r}
import os, takt
i = 0
while True:
    i += 1
    takt.write_state({str(path)!r}, {{"i": i, "bytes": os.urandom(300_000)}})
"""
    seen = 0
    for _ in range(5):
        child = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
        until = time.monotonic() + 20
        while not path.exists() and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.05)
        child.kill()
        child.wait()
        seen += takt.read_state(path)["i"]
    assert seen >= 5


def test_a_saved_state_is_bounded_and_fast():
    lengths = Lengths(10**9)
    for i in range(20_000):
        lengths.ends(Identity(agent=f"a{i}", tenant=f"t{i % 40}"), 0, 10, 20, i, True)
    best = 1e9
    for _ in range(5):
        began = time.perf_counter()
        state = lengths.saved()
        best = min(best, time.perf_counter() - began)
    assert len(state["outputs"]) == 2048
    again = Lengths(10**9)
    again.load(json.loads(json.dumps(state)))
    assert again.saved() == state
    assert best < 0.1


def test_newest_gives_the_same_table_again():
    table = Bounded(64)
    for i in range(100):
        table.add(f"t{i % 7}" if i % 3 else "", i, i)
    for i in (90, 95, 91):
        table.get(f"t{i % 7}" if i % 3 else "", i)
    again = Bounded(64)
    for tenant, key, value in table.newest(1000):
        again.add(tenant, key, value)
    assert again._tenants == table._tenants and list(again._tenants) == list(table._tenants)
    assert [list(each) for each in again._tenants.values()] == [list(each) for each in table._tenants.values()]
    assert table.newest(5) == table.newest(1000)[-5:]


@pytest.mark.parametrize("wrong", [3, [], [[1.0] * 24], [[1.0] * 24, [0.0] * 24], [[1.0] * 23, [1.0] * 24], [["x"] * 24] * 2])
def test_returns_that_are_invalid_are_refused(wrong):
    with pytest.raises((ValueError, TypeError)):
        Returns.loaded(wrong)


def test_an_end_without_a_file_does_nothing(tmp_path):
    state = StateFile(str(tmp_path / "state"), 1.0, lambda: {"a": 1})
    assert not state.load(lambda told: None)
    state.end()
    assert takt.read_state(tmp_path / "state") == {"a": 1}
