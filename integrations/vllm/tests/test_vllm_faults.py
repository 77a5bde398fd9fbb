"""Tests of exceptions inside takt, at each call, and of the switch, in vLLM's own scheduler without a device."""

from __future__ import annotations

import importlib
import inspect
import json
import logging
import os
import random
import sys
from collections import Counter, deque
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
vllm = pytest.importorskip("vllm", reason="vLLM is not installed: bench/peers/peer-vllm creates an environment with it")

from vllm.v1.request import RequestStatus
from vllm_host import model as config_of
from vllm_host import outputs_of, request, scheduler as made_by

from takt import _tool
from takt.vllm import TaktScheduler, TaktSyncScheduler
from takt.vllm import scheduler as module

PARTS = ("bounded", "forest", "gate", "identity", "lengths", "metrics", "order", "scheduler", "systems")
LIBRARY = {"takt.queues", "takt.learners", "takt.predictors", "takt.requests"}
# vLLM calls the methods of these classes. Only the private ones, and `enter`, are takt's.
OUTER = {"_Takt", "TaktScheduler", "TaktSyncScheduler", "TaktRequestQueue"}
# These run after the fault, or only in tests.
KEPT = {"_takt_fault", "_takt_stop", "leave", "check", "_next", "_entered", "_Contained"}


class Injected(Exception):
    pass


def calls():
    """Returns each call into takt that the adapter can make, by introspection: (owner, attribute)."""
    found = {}
    for part in PARTS:
        here = importlib.import_module(f"takt.vllm.{part}")
        for name, value in vars(here).items():
            home = getattr(value, "__module__", "") or ""
            if not callable(value) or name in KEPT or not (home.startswith("takt.vllm.") or home in LIBRARY):
                continue
            if not inspect.isclass(value):
                found[here.__name__, name] = here, name
                continue
            for method, body in vars(value).items():
                private = method.startswith(("_takt_", "_first", "enter"))
                wanted = private if name in OUTER else not method.startswith("__") or method in ("__len__", "__iter__", "__init__")
                if wanted and method not in KEPT and (inspect.isfunction(body) or isinstance(body, property)):
                    found[value.__qualname__, method] = value, method
    return found


class Injector:
    """Counts calls while `on`, and raises at the chosen one."""

    def __init__(self, monkeypatch):
        self.on, self.counts, self.at, self.raised = False, Counter(), (None, 0), 0
        for key, (owner, name) in calls().items():
            body = vars(owner)[name]
            monkeypatch.setattr(
                owner, name, property(self.around(key, body.fget)) if isinstance(body, property) else self.around(key, body)
            )

    def around(self, key, body):
        if inspect.isclass(body):
            return body

        def called(*args, **more):
            if self.on:
                self.counts[key] += 1
                if self.at == (key, self.counts[key]):
                    self.raised += 1
                    raise Injected(key)
            return body(*args, **more)

        return called

    def start(self, key=None, n=0):
        self.on, self.counts, self.at, self.raised = True, Counter(), (key, n), 0


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return config_of(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def forest(tmp_path_factory):
    folder = tmp_path_factory.mktemp("forest")
    lines = [{"model": "m", "prompt_tokens": 10, "output_tokens": 5 + i % 3} for i in range(60)]
    (folder / "log").write_text("".join(json.dumps(line) + "\n" for line in lines))
    _tool.run(["train", str(folder / "log"), "--out", str(folder / "model"), "-q"])
    return str(folder / "model")


@pytest.fixture
def make(model, monkeypatch):
    for name in [name for name in os.environ if name.startswith("TAKT_VLLM_")]:
        monkeypatch.delenv(name)
    return lambda kind=TaktSyncScheduler, **options: made_by(model, kind, **options)


@pytest.fixture
def errors(monkeypatch):
    lines = []
    monkeypatch.setattr(logging.getLogger("vllm.takt"), "error", lambda text, *values, **more: lines.append(text))
    return lines


def serve(scheduler, injector, n=24, switches=(9, 13), seed=5):
    """Serves requests while takt is turned off and on. Each request must end once, with all its tokens, or be aborted."""
    rng = random.Random(seed)
    sizes = {f"r{i}": rng.randint(1, 30) for i in range(n)}
    coming = deque(sizes)
    tokens, ended, aborted = Counter(), Counter(), set()
    flight = deque()
    overlap = isinstance(scheduler, TaktScheduler)
    for at in range(3000):
        for _ in range(rng.randrange(4)):
            if coming:
                name = coming.popleft()
                first = range(3, 3 + 16 * rng.randrange(4))
                scheduler.add_request(
                    request(name, rng.randint(65, 160), sizes[name], first=first, takt_workflow=f"w{rng.randrange(5)}",
                            takt_agent=rng.choice("ab"), takt_upstream="a", takt_last=str(rng.randrange(2)))
                )  # fmt: skip
        if at in switches:
            scheduler.takt_switch(at == switches[1])
        output = scheduler.schedule()
        flight.append((output, outputs_of(scheduler, output)))
        if at in (6, 15) and scheduler.requests:
            names = rng.sample(sorted(scheduler.requests), min(2, len(scheduler.requests)))
            aborted.update(names)
            scheduler.finish_requests(names, RequestStatus.FINISHED_ABORTED)
        while len(flight) > (overlap if scheduler.has_unfinished_requests() else 0):
            for told in scheduler.update_from_output(*flight.popleft()).values():
                for each in told.outputs:
                    tokens[each.request_id] += len(each.new_token_ids)
                    ended[each.request_id] += each.finish_reason is not None
        list(scheduler.waiting)
        scheduler.make_stats()
        running, waiting = scheduler.get_request_counts()
        assert running + waiting == len(scheduler.requests), "a request is lost, or in two queues"
        if scheduler.takt_order is not None:
            injector.on = False
            scheduler.takt_order.check()
            injector.on = True
        if not coming and not flight and not scheduler.has_unfinished_requests():
            break
    else:
        raise AssertionError("it stalls")
    assert not scheduler.requests and not scheduler.running and not len(scheduler.waiting) + len(scheduler._takt_other)
    whole = sizes.keys() - aborted
    assert {name: tokens[name] for name in whole} == {name: sizes[name] for name in whole}
    assert all(ended[name] == 1 for name in whole)
    assert not scheduler._takt_known
    assert scheduler.kv_cache_manager.block_pool.get_num_free_blocks() == scheduler.kv_cache_manager.block_pool.num_gpu_blocks - 1


SETTINGS = {
    "default": {},
    "vllm": {"order": "vllm"},
    "priority": {"order": "vllm", "policy": "priority"},
    "gate": {"gate": "price", "victims": True, "victims_above": 0.0, "caching": True},
    "warm": {"warm_first": True, "caching": True},
    "kairos": {"system": "kairos"},
    "lamps": {"system": "lamps"},
    "forest": {"forest": "TRAINED", "calls_log": "LOG"},
}


@pytest.mark.parametrize("kind", [TaktSyncScheduler, TaktScheduler])
@pytest.mark.parametrize("setting", SETTINGS)
def test_an_exception_at_each_call_keeps_every_request(make, forest, tmp_path, monkeypatch, errors, kind, setting):
    files = {"TRAINED": forest, "LOG": str(tmp_path / "calls")}
    options = {name: files.get(value, value) if isinstance(value, str) else value for name, value in SETTINGS[setting].items()}
    injector = Injector(monkeypatch)

    def run(key=None, n=0):
        injector.on = False
        errors.clear()
        scheduler = make(kind, blocks=34, seqs=6, **options)
        injector.start(key, n)
        serve(scheduler, injector)
        injector.on = False
        return scheduler

    scheduler = run()
    assert scheduler.takt_order is not None and scheduler.takt_counters["faults"] == 0 and not errors
    assert setting != "default" or scheduler.takt_counters["requeued"] > 0
    counts = dict(injector.counts)
    assert len(counts) > 30, "the introspection finds too little"
    raised = 0
    for key, n in counts.items():
        for at in sorted({1, (n + 1) // 2, n}):
            scheduler = run(key, at)
            assert scheduler.takt_counters["faults"] == injector.raised == len(errors), (key, at, errors)
            raised += injector.raised
    assert raised >= 0.9 * len(counts)  # a call that depends on the time may not occur again


def test_takt_stays_off_after_a_fault_until_it_is_turned_on(make, errors, monkeypatch):
    scheduler = make(order="sjf", seqs=1)
    for i in range(6):
        scheduler.add_request(request(f"r{i}", most=9 - i))

    def fails(*args, **more):
        raise Injected("list")

    with monkeypatch.context() as patch:
        patch.setattr(module.Queue, "list", fails)
        patch.setattr(module.Queue, "push", fails)
        begun = [each.req_id for _ in range(12) for each in step(scheduler).scheduled_new_reqs]
        assert begun == ["r0", "r1"]  # vLLM's order
        scheduler.takt_switch(True)
        step(scheduler)
        assert scheduler.takt_order is None and len(scheduler.waiting) == 4 and len(errors) == 2
    assert scheduler.takt_counters["faults"] == 2
    step(scheduler)
    assert scheduler.takt_order is None
    scheduler.takt_switch(True)
    step(scheduler)
    scheduler.takt_order.check()
    assert [each.request_id for each in scheduler.waiting] == ["r5", "r4", "r3", "r2"]  # takt knows all of them
    assert len(scheduler.takt_order) == 5 and len(errors) == 2


def step(scheduler):
    output = scheduler.schedule()
    scheduler.update_from_output(output, outputs_of(scheduler, output))
    return output


def test_a_file_turns_takt_off_and_on(make, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_LOOK_S", 0.0)
    file = tmp_path / "off"
    file.touch()
    scheduler = make(order="sjf", seqs=1, off_file=str(file))
    for i in range(4):
        scheduler.add_request(request(f"r{i}", most=9 - i))
    assert [each.req_id for each in step(scheduler).scheduled_new_reqs] == ["r0"]
    assert scheduler.takt_order is None
    file.unlink()
    step(scheduler)
    assert [each.request_id for each in scheduler.waiting] == ["r3", "r2", "r1"]
    scheduler.takt_order.check()
    file.touch()
    step(scheduler)
    assert scheduler.takt_order is None and [each.request_id for each in scheduler.waiting] == ["r1", "r2", "r3"]
    assert scheduler.takt_counters["faults"] == 0


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_is_no_fault(make, monkeypatch, error):
    scheduler = make()

    def interrupted(*args, **more):
        raise error

    monkeypatch.setattr(module.Queue, "begin", interrupted)
    with pytest.raises(error):
        scheduler.schedule()
    assert scheduler.takt_counters["faults"] == 0
