"""Tests of takt in vLLM's own scheduler, without a device: vLLM plans and counts KV, and this file makes up the model's
outputs."""

from __future__ import annotations

import json
import logging
import os
import random
import sys
from collections import deque
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parent))
vllm = pytest.importorskip("vllm", reason="vLLM is not installed: bench/peers/peer-vllm creates an environment with it")

from vllm.config import SchedulerConfig
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.interface import PauseState
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.outputs import KVConnectorOutput
from vllm.v1.request import RequestStatus
from vllm_host import model as config_of
from vllm_host import outputs_of, request, scheduler as made_by, step

import takt
from takt import OptionError, TaktError, ToolError, _tool
from takt.vllm import Options, TaktScheduler, TaktSyncScheduler
from takt.vllm.gate import Returns
from takt.vllm.identity import identity_of, number_of
from takt.vllm.lengths import Lengths


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    return config_of(tmp_path_factory.mktemp("model"))


@pytest.fixture
def make(model, monkeypatch):
    for name in [name for name in os.environ if name.startswith("TAKT_VLLM_")]:
        monkeypatch.delenv(name)
    return lambda kind=TaktSyncScheduler, **options: made_by(model, kind, **options)


def drain(scheduler, steps=2000):
    """Returns the order in which requests first ran."""
    begun = []
    for _ in range(steps):
        if not scheduler.has_unfinished_requests():
            return begun
        output = step(scheduler)
        begun += [each.req_id for each in output.scheduled_new_reqs]
    raise AssertionError("it stalls")


KINDS = pytest.mark.parametrize("kind", [TaktSyncScheduler, TaktScheduler])


@KINDS
@pytest.mark.parametrize("policy", ["", "fcfs", "priority", "sjf", "fair_share", "aged(stjf,threshold=100)"])
def test_all_requests_are_served(make, kind, policy):
    scheduler = make(kind, order=policy)
    for i in range(40):
        scheduler.add_request(request(f"r{i}", prompt=10 + 37 * i % 300, most=1 + i % 7, takt_tenant=f"t{i % 3}"))
    assert len(drain(scheduler)) == 40
    assert not scheduler.takt_order.queue and not scheduler.takt_order.running and not len(scheduler.takt_order)
    assert scheduler.takt_counters["ended"] == scheduler.takt_counters["admitted"] == 40


def test_policies_order_requests(make):
    sizes = [120, 40, 80, 20, 60]
    for policy, expected in (("fcfs", "01234"), ("sjf", "31420"), ("priority", "43210")):
        scheduler = make(order=policy, seqs=1)
        for i, size in enumerate(sizes):
            scheduler.add_request(request(str(i), prompt=20, most=size, priority=-i))
        assert "".join(drain(scheduler)) == expected, policy


def requests_of(seed, n=60):
    rng = random.Random(seed)
    return [
        (f"q{i}", rng.randint(1, 400), rng.randint(1, 60), rng.randint(0, 3), 1000.0 + rng.random() * 50)
        for i in range(n)
    ]


@pytest.mark.parametrize("kinds", [(Scheduler, TaktSyncScheduler), (AsyncScheduler, TaktScheduler)])
@pytest.mark.parametrize("policy", ["fcfs", "priority"])
@pytest.mark.parametrize("blocks", [1000, 60])
@pytest.mark.parametrize("seed", range(4))
def test_policy_vllm_plans_as_vllm(make, kinds, policy, blocks, seed):
    """With policy "vllm" each plan is vLLM's own, despite preemptions and aborts."""
    plain, ours = make(kinds[0], policy=policy, blocks=blocks), make(kinds[1], order="vllm", policy=policy, blocks=blocks)
    told = requests_of(seed)
    rng = random.Random(seed)
    preempted = 0
    for i in range(3000):
        while told and rng.random() < 0.3:
            name, prompt, most, priority, arrival = told.pop()
            for scheduler in (plain, ours):
                scheduler.add_request(request(name, prompt, most, priority, arrival))
        if rng.random() < 0.02 and plain.requests:
            victim = rng.choice(sorted(plain.requests))
            for scheduler in (plain, ours):
                scheduler.finish_requests(victim, RequestStatus.FINISHED_ABORTED)
        a, b = step(plain), step(ours)
        assert a.num_scheduled_tokens == b.num_scheduled_tokens, i
        assert [r.request_id for r in plain.running] == [r.request_id for r in ours.running], i
        assert len(plain.waiting) == len(ours.waiting), i
        preempted += len(b.preempted_req_ids or ())
        if not told and not plain.has_unfinished_requests():
            break
    else:
        raise AssertionError("it stalls")
    assert preempted > 0 or blocks > 100


def test_a_skipped_request_returns_to_its_place(make):
    """A request that vLLM skips returns to its place, not to the front."""
    scheduler = make(order="sjf", seqs=2)
    scheduler.add_request(request("short", most=2))
    scheduler.add_request(request("long", most=50))
    scheduler.takt_order.begin()
    first = scheduler.waiting.pop_request()
    second = scheduler.waiting.pop_request()
    assert [first.request_id, second.request_id] == ["short", "long"]
    assert not scheduler.waiting and len(scheduler.waiting) == 0
    scheduler.waiting.prepend_requests([second, first])
    assert [each.request_id for each in scheduler.waiting] == ["short", "long"]
    scheduler.takt_order.end([])
    scheduler.takt_order.check()
    assert drain(scheduler) == ["short", "long"]


def test_the_queue_behaves_as_vllms(make):
    queue = make(order="fcfs").waiting
    with pytest.raises(IndexError):
        queue.peek_request()
    with pytest.raises(IndexError):
        queue.pop_request()
    a, b, c = (request(name) for name in "abc")
    for each in (a, b, c):
        queue.add_request(each)
    assert queue[1] is b and b in queue and request("z") not in queue
    queue.remove_requests([b, request("never")])
    assert list(queue) == [a, c] and len(queue) == 2
    with pytest.raises(ValueError):
        queue.remove_request(b)
    queue.remove_request(a)
    assert queue.peek_request() is c and queue.pop_request() is c and not queue


def test_a_paused_scheduler_admits_nothing(make):
    scheduler = make(order="sjf")
    scheduler.add_request(request("a"))
    scheduler.set_pause_state(PauseState.PAUSED_NEW)
    assert not step(scheduler).num_scheduled_tokens
    scheduler.set_pause_state(PauseState.PAUSED_ALL)
    assert not step(scheduler).num_scheduled_tokens
    scheduler.set_pause_state(PauseState.UNPAUSED)
    assert drain(scheduler) == ["a"]


def test_a_reset_of_the_prefix_cache_requeues_running_requests(make):
    scheduler = make(order="sjf", caching=True)
    for name in "abc":
        scheduler.add_request(request(name, most=30))
    step(scheduler)
    scheduler.reset_prefix_cache(reset_running_requests=True)
    scheduler.takt_order.check()
    assert len(scheduler.waiting) == 3 and not scheduler.running
    drain(scheduler)


def test_an_id_may_be_used_again(make):
    scheduler = make(order="sjf")
    for _ in range(3):
        scheduler.add_request(request("same"))
        assert drain(scheduler) == ["same"]
    scheduler.add_request(request("same"))
    scheduler.finish_requests("same", RequestStatus.FINISHED_ABORTED)
    assert not len(scheduler.takt_order)


def test_requests_without_grammar_keep_their_place(make):
    """vLLM skips requests that wait for their grammar in every step; takt's order stays."""
    scheduler = make(order="sjf", seqs=1)
    for name, most in (("blocked", 1), ("b", 5), ("a", 3)):
        scheduler.add_request(request(name, most=most))
    blocked = scheduler.requests["blocked"]
    blocked.status = RequestStatus.WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR

    class NotReady:
        grammar = None

    blocked.structured_output_request = NotReady()
    begun = []
    for _ in range(12):
        begun += [each.req_id for each in step(scheduler).scheduled_new_reqs]
    assert begun == ["a", "b"] and len(scheduler.waiting) + len(scheduler._takt_other) == 1
    blocked.status, blocked.structured_output_request = RequestStatus.WAITING, None
    assert drain(scheduler) == ["blocked"]


def test_streaming_sessions_continue_in_order(make):
    """vLLM holds a session that waits for input; it continues in takt's order."""
    scheduler = make(order="sjf")
    session = request("session", most=3)
    session.resumable = True
    session.streaming_queue = deque()
    scheduler.add_request(session)
    scheduler.add_request(request("other", most=9))
    for _ in range(5):
        step(scheduler)
    assert session.status == RequestStatus.WAITING_FOR_STREAMING_REQ
    scheduler.takt_order.check()
    more = request("session", prompt=50, most=3)
    more.resumable = True
    scheduler.add_request(more)  # the next input: vLLM changes the session in place
    scheduler.takt_order.check()
    output = step(scheduler)
    assert output.num_scheduled_tokens["session"] >= 50 and scheduler.requests["session"] is session
    for _ in range(4):
        step(scheduler)
    assert session.status == RequestStatus.WAITING_FOR_STREAMING_REQ
    scheduler.finish_requests("session", RequestStatus.FINISHED_ABORTED)
    drain(scheduler)
    scheduler.takt_order.check()


@KINDS
def test_sessions_that_wait_for_input_hold_rows(make, kind):
    """If sessions take all rows, no request is admitted until one ends (thread 53130 of vLLM)."""
    scheduler = make(kind, order="sjf", seqs=2)
    for name in ("s0", "s1"):
        session = request(name, most=2)
        session.resumable = True
        scheduler.add_request(session)
    for _ in range(5):
        step(scheduler)
    scheduler.add_request(request("other", most=1))
    assert not step(scheduler).scheduled_new_reqs and scheduler._takt_head(SimpleNamespace(total_num_scheduled_tokens=0)) == "sequences"
    scheduler.finish_requests("s0", RequestStatus.FINISHED_ABORTED)
    assert [each.req_id for each in step(scheduler).scheduled_new_reqs] == ["other"]


def test_requests_without_adapter_room_keep_their_place(make):
    """vLLM skips a request whose adapter exceeds the limit."""
    scheduler = make(order="sjf", seqs=4)
    for name, most, adapter in (("a", 9, 1), ("b", 10, 2), ("c", 11, 1)):
        one = request(name, most=most)
        one.lora_request = SimpleNamespace(lora_int_id=adapter, lora_name=str(adapter))
        scheduler.add_request(one)
    scheduler.lora_config = SimpleNamespace(max_loras=1)
    assert [each.req_id for each in step(scheduler).scheduled_new_reqs] == ["a", "c"]
    assert len(scheduler.takt_order.queue) == 1
    assert drain(scheduler) == ["b"]


class Loads:
    """A KV connector that loads `tokens[request]`; None: not known yet. Every undefined method returns None, which vLLM
    ignores."""

    def __init__(self, tokens):
        self.tokens = tokens

    def get_num_new_matched_tokens(self, request, cached):
        told = self.tokens.get(request.request_id, 0)
        return (None, False) if told is None else (told, told > 0)

    def get_loaded_kv_cache_group_ids(self, request):
        return ()

    def take_events(self):
        return ()

    def request_finished(self, *_):
        return False, None

    def __getattr__(self, name):
        return lambda *_, **__: None


def loaded(scheduler, *names):
    """Runs a step in which the KV of these requests has arrived."""
    output = scheduler.schedule()
    scheduler.takt_order.check()
    results = outputs_of(scheduler, output)
    results.kv_connector_output = KVConnectorOutput(finished_recving=set(names))
    scheduler.update_from_output(output, results)


@KINDS
def test_a_request_whose_kv_is_loading_is_not_blocked(make, kind):
    """A waiting request holds blocks while its KV is loaded. A request that ranks first and does not fit must not block
    it: no other request would free blocks. Threads 45388, 57104 and 57841 of vLLM."""
    scheduler = make(kind, order="sjf", blocks=12, seqs=4)
    scheduler.connector = Loads({"loads": 96})
    scheduler.add_request(request("loads", prompt=100, most=30))
    step(scheduler)
    assert scheduler.requests["loads"].status == RequestStatus.WAITING_FOR_REMOTE_KVS
    scheduler.add_request(request("first", prompt=150, most=1))  # does not fit together with it
    scheduler.add_request(request("small", prompt=10, most=2))
    step(scheduler)
    scheduler.takt_order.check()
    assert scheduler.takt_order.queue.list()[0] == scheduler.takt_order.number(scheduler.requests["first"])
    loaded(scheduler, "loads")
    assert drain(scheduler, 100) == ["loads", "first", "small"]


@KINDS
def test_a_connector_may_answer_later(make, kind):
    scheduler = make(kind, order="sjf", seqs=1)
    scheduler.connector = Loads({"asked": None})
    for name, most in (("asked", 1), ("b", 5), ("a", 3)):
        scheduler.add_request(request(name, most=most))
    begun = []
    for _ in range(12):
        begun += [each.req_id for each in step(scheduler).scheduled_new_reqs]
    assert begun == ["a", "b"]
    scheduler.connector.tokens = {}
    scheduler.add_request(request("c", most=2))
    assert drain(scheduler) == ["asked", "c"]


@KINDS
def test_requests_wait_for_encoder_inputs(make, kind):
    scheduler = make(kind, order="sjf", seqs=1)
    scheduler._ec_transfer_pending = lambda each, _: each.request_id == "image"
    for name, most in (("image", 1), ("text", 5)):
        scheduler.add_request(request(name, most=most))
    assert [each.req_id for each in step(scheduler).scheduled_new_reqs] == ["text"]
    del scheduler._ec_transfer_pending
    scheduler.add_request(request("later", most=3))
    assert drain(scheduler) == ["image", "later"]


@KINDS
@pytest.mark.parametrize("held", ["grammar", "load", "unknown", "session", "waiting"])
def test_a_held_request_can_be_aborted(make, kind, held):
    """A client may abort a request in any waiting state, and the id may be used again."""
    scheduler = make(kind, order="sjf", seqs=4)
    scheduler.connector = Loads({"load": {"id": 64}, "unknown": {"id": None}}.get(held, {}))
    one = request("id", prompt=80, most=2)
    if held == "grammar":
        one.status, one.structured_output_request = RequestStatus.WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR, SimpleNamespace(grammar=None)
    one.resumable = held == "session"
    scheduler.add_request(one)
    scheduler.add_request(request("other", most=30))
    for _ in range(0 if held == "waiting" else 6):
        step(scheduler)
    assert one.status != RequestStatus.RUNNING
    scheduler.finish_requests("id", RequestStatus.FINISHED_ABORTED)
    if held == "load":
        loaded(scheduler, "id")  # vLLM keeps its blocks until then
    scheduler.takt_order.check()
    assert "id" not in scheduler.requests and len(scheduler.takt_order) == 1
    scheduler.connector.tokens = {}
    scheduler.add_request(request("id", most=1))
    drain(scheduler)
    assert not len(scheduler.takt_order) and not scheduler._takt_known
    assert not any(view.members or view.holding for view in scheduler.takt_order._views)


def test_a_duplicate_id_is_refused(make):
    """vLLM refuses a duplicate id, and takt continues."""
    scheduler = make(order="sjf", seqs=1)
    for name in ("a", "b"):
        scheduler.add_request(request(name))
    with pytest.raises(AssertionError):
        scheduler.add_request(request("b"))
    scheduler.takt_order.check()
    assert drain(scheduler) == ["a", "b"]


def test_pause_while_requests_are_held(make):
    scheduler = make(order="sjf", seqs=4, blocks=40)
    scheduler.connector = Loads({"load": 64})
    scheduler.add_request(request("load", prompt=80))
    step(scheduler)
    for state in (PauseState.PAUSED_ALL, PauseState.PAUSED_NEW):
        scheduler.set_pause_state(state)
        scheduler.add_request(request(f"during {state.name}"))
        step(scheduler)
        scheduler.takt_order.check()
        assert not scheduler.running and len(scheduler.takt_order.queue) == len(scheduler.requests)
    scheduler.set_pause_state(PauseState.UNPAUSED)
    loaded(scheduler, "load")
    assert set(drain(scheduler)) >= {"load"}


def test_a_first_request_that_does_not_fit_blocks_others(make):
    """vLLM stops at a request that does not fit. takt counts no later request as admitted, and records that KV was
    short."""
    scheduler = make(order="priority", blocks=12, seqs=4)
    told = []
    plain = scheduler.takt_order.end
    scheduler.takt_order.end = lambda ran, **pressure: (told.append(pressure), plain(ran, **pressure))[1]
    scheduler._takt_pressed = True
    scheduler.add_request(request("runs", prompt=100, most=8))
    step(scheduler)
    scheduler.add_request(request("large", prompt=150, most=2, priority=1))
    scheduler.add_request(request("small", prompt=10, most=2, priority=2))
    assert not step(scheduler).scheduled_new_reqs
    assert told[-1] == {"head": "kv", "kv_tokens": 12 * 16}
    assert [each.request_id for each in scheduler.waiting] == ["large", "small"]
    assert drain(scheduler) == ["large", "small"]


def test_a_preempted_request_returns_to_its_place(make):
    """In vLLM it would return to the front. A step that preempts admits no request."""
    scheduler = make(order="sjf", blocks=14, seqs=4)
    scheduler.add_request(request("a", prompt=60, most=140))
    step(scheduler)
    scheduler.add_request(request("b", prompt=60, most=100))
    while True:
        if "c" not in scheduler.requests and len(scheduler.running) == 2 and scheduler.kv_cache_manager.usage > 0.8:
            scheduler.add_request(request("c", prompt=60, most=10))
        output = step(scheduler)
        if output.preempted_req_ids:
            break
    assert not output.scheduled_new_reqs and list(output.preempted_req_ids) == ["b"]
    assert [each.request_id for each in scheduler.waiting] == ["c", "b"]
    drain(scheduler)


def test_a_request_is_described_to_takt(make):
    scheduler = make()
    one = request("r", 33, 12, priority=-2, arrival=1000.5, takt_workflow="w", takt_tenant="t", takt_branch="b", takt_deadline=2)
    one.lora_request = SimpleNamespace(lora_int_id=7, lora_name="seven")
    told = scheduler._takt_describe(one, 5)
    assert (told.id, told.prompt_tokens, told.max_output_tokens, told.priority, told.adapter) == (5, 33, 12, -2, 7)
    assert (told.arrival, told.deadline) == (1000_500_000_000, 1002_500_000_000)
    assert (told.workflow, told.tenant, told.branch) == (number_of("w", "t"), number_of("t"), number_of("b"))
    assert told.agent == 0 and told.output_tokens.mean == 12
    later = scheduler._takt_describe(request("later", arrival=1e12), 6)
    assert later.arrival <= scheduler.takt_order.now(), "an arrival in the future"


def test_learnt_state_survives_a_restart(make, tmp_path):
    path = str(tmp_path / "state")
    first = make(state_file=path, gate="price", caching=True, blocks=40, seqs=2)
    for i in range(8):
        first.add_request(request(f"r{i}", most=9, takt_workflow=f"w{i % 3}", takt_agent="coder"))
        drain(first)
    first.shutdown()
    second = make(state_file=path, gate="price", caching=True, blocks=40, seqs=2)
    assert second._takt_saved() == first._takt_saved()
    assert second._takt_lengths.output(identity_of(request("r", takt_agent="coder")), 0, 100).mean == 9
    assert first.takt_counters["faults"] == second.takt_counters["faults"] == 0


def test_vllm_finds_takts_scheduler_classes(make):
    for name, kind, base in (("TaktScheduler", TaktScheduler, AsyncScheduler), ("TaktSyncScheduler", TaktSyncScheduler, Scheduler)):
        config = SchedulerConfig(max_model_len=64, is_encoder_decoder=False, scheduler_cls=f"takt.vllm.{name}")
        assert config.get_scheduler_cls() is kind and issubclass(kind, base)
    assert not issubclass(TaktSyncScheduler, AsyncScheduler)


def test_victims_rank_last(make):
    """vLLM preempts the request admitted last. With victims on, it preempts the one that takt ranks last."""
    for victims, expected in ((False, "short"), (True, "long")):
        scheduler = make(order="sjf", blocks=14, seqs=4, victims=victims, victims_above=0.5)
        scheduler.add_request(request("long", prompt=60, most=140))
        step(scheduler)
        scheduler.add_request(request("short", prompt=60, most=60))
        lost = []
        while scheduler.requests and not lost:
            lost = list(step(scheduler).preempted_req_ids or ())
        assert lost == [expected]
        drain(scheduler)


def test_identity():
    trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    assert identity_of(request("r")).workflow == ""
    assert identity_of(request("r", trace=trace)).workflow == "trace:0af7651916cd43dd8448eb211c80319c"
    who = identity_of(
        request("r", trace=trace, takt_workflow="w", takt_agent="coder", takt_deadline="2.5", takt_last="1",
                takt_output_tokens=-3, takt_stage=4)
    )  # fmt: skip
    assert (who.workflow, who.agent, who.deadline, who.last, who.output_tokens, who.stage) == ("w", "coder", 2.5, True, None, "4")
    assert identity_of(request("r", takt_workflow=["no"], takt_deadline="nan")).workflow == ""
    assert identity_of(request("r", takt_agent="a\ud800")).agent == "a?"
    assert number_of("") == 0 and number_of("a") != number_of("b") and 0 < number_of("a") < 2**64


def test_workflows_keep_their_place(make):
    scheduler = make(order="workflow_fcfs", seqs=1)
    for name, workflow in (("a1", "a"), ("b1", "b"), ("a2", "a"), ("c1", "c"), ("b2", "b")):
        scheduler.add_request(request(name, takt_workflow=workflow))
    assert drain(scheduler) == ["a1", "a2", "b1", "b2", "c1"]


def test_lengths():
    second = 10**9
    lengths = Lengths(idle_ns=60 * second)
    told = [identity_of(request("r", takt_workflow=f"w{i}", takt_agent="a")) for i in range(8)]
    assert lengths.output(told[0], 0, 100).mean == 100 and lengths.after(told[0], 0) is None
    for i, who in enumerate(told):
        for place, (prompt, output) in enumerate(((100, 10), (200, 20), (300, 30))):
            got, tokens, arrival = lengths.begins(who, i * second, i * second)
            assert (got, tokens, arrival) == (place, (0, 10, 30)[place], i * second)
            lengths.ends(who, got, prompt, output, i * second, True)
    lengths.forget(200 * second)
    assert not lengths.workflows
    new = identity_of(request("r", takt_workflow="new", takt_agent="a"))
    assert lengths.output(new, 1, 100).mean == 20 and lengths.output(new, 1, 15).mean == 15
    after = lengths.after(new, 0)
    assert (after.calls, after.prompt_tokens, after.output_tokens) == (2, 500, 50)
    other = identity_of(request("r", takt_workflow="x", takt_agent="unknown"))
    assert lengths.output(other, 1, 100).mean == 20  # of all agents


def test_a_repeated_name_takes_bounded_memory():
    lengths = Lengths(idle_ns=10**9)
    one = identity_of(request("r", takt_workflow="all", takt_agent="a"))
    for i in range(3000):
        lengths.begins(one, i, i)
        lengths.ends(one, i, 10, 5, i, True)
    assert len(lengths.workflows.get("", "all").calls) <= 1024


@pytest.fixture(scope="module")
def forest(model, tmp_path_factory) -> Path:
    """A forest trained on the engine's own log. It has workflows of a short agent and then a long one, and
    single calls of a third agent."""
    try:
        _tool.tool()
    except ToolError:
        pytest.skip("this build has no tool")
    folder = tmp_path_factory.mktemp("forest")
    scheduler = made_by(model, TaktSyncScheduler, calls_log=str(folder / "calls.jsonl"), seqs=8)
    for i in range(60):
        for agent, most, last in (("short", 6, "1"), ("plan", 2, "0"), ("code", 50, "1")):
            workflow = f"s{i}" if agent == "short" else f"w{i}"
            scheduler.add_request(request(f"{agent}{i}", 20, most, takt_workflow=workflow, takt_agent=agent, takt_last=last))
            drain(scheduler)
        scheduler.add_request(request(f"gone{i}", 20, 9, takt_agent="short"))
        scheduler.finish_requests(f"gone{i}", RequestStatus.FINISHED_ABORTED)
    lines = [json.loads(line) for line in (folder / "calls.jsonl").read_text().splitlines()]
    assert len(lines) == 180 and lines[2] == {
        "workflow": "w0", "stage": "code", "model": lines[2]["model"], "prompt_tokens": 20, "output_tokens": 50,
        "calls_before": 1, "tokens_before": 2,
    }  # fmt: skip
    _tool.run(["train", str(folder / "calls.jsonl"), "--out", str(folder / "calls.model"), "-q"])
    return folder / "calls.model"


def test_a_trained_forest(make, forest):
    """A new engine has learned nothing yet; the forest predicts the work after an agent's call."""
    for options, expected in (({}, ["plan", "short"]), ({"forest": str(forest)}, ["short", "plan"])):
        scheduler = make(order="stjf", seqs=1, **options)
        for agent in ("plan", "short"):
            scheduler.add_request(request(agent, 20, 100, takt_workflow=agent, takt_agent=agent))
        assert drain(scheduler) == expected

    scheduler = make(forest=str(forest))

    def of(agent, most=100, **said):
        return scheduler._takt_describe(request(f"{agent}{said}{most}", 20, most, takt_agent=agent, **said), 1)

    plan = of("plan", takt_workflow="w")
    assert plan.after is None and 45 < plan.workflow_tokens_left.mean < 60 and plan.output_tokens.mean == 100
    alone = of("short")
    assert 5 < alone.output_tokens.mean < 8 and alone.after.calls == 0 and alone.workflow_tokens_left == alone.output_tokens
    assert of("short", most=3).output_tokens.mean <= 3
    assert of("short", takt_output_tokens=44).output_tokens.mean == 44  # the client's estimate takes precedence
    told = of("plan", takt_workflow="w", takt_workflow_tokens_left=9)
    assert told.workflow_tokens_left == 9 and told.after is None  # an order would use `after` first
    odd = scheduler._takt_describe(request("odd", 20, takt_workflow="x", takt_agent="\ud800"), 1)
    assert odd.workflow_tokens_left.mean > 0  # an unknown agent whose name is not valid text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"forest": "no/such.model"}, "forest is 'no/such.model': .*No such file"),
        ({"forest": __file__}, "forest is .*predictor"),
        ({"forest": "TRAINED", "forest_model": "70b"}, "forest_model is '70b'"),
        ({"forest": "TRAINED", "lengths": False}, "forest needs lengths"),
        ({"forest_model": "70b"}, "forest_model needs forest"),
        ({"calls_log": "no/such/folder/f"}, "calls_log is 'no/such/folder/f': No such file"),
    ],
)
def test_an_invalid_forest_fails_at_start(make, forest, options, said):
    told = {name: str(forest) if value == "TRAINED" else value for name, value in options.items()}
    with pytest.raises(OptionError, match=said) as error:
        make(**told)
    assert "\n" not in str(error.value)


def test_a_forest_of_several_models(make, tmp_path):
    lines = [{"model": m, "prompt_tokens": 10, "output_tokens": n + i % 3} for m, n in (("a", 5), ("b", 90)) for i in range(60)]
    (tmp_path / "log").write_text("".join(json.dumps(line) + "\n" for line in lines))
    _tool.run(["train", str(tmp_path / "log"), "--out", str(tmp_path / "m"), "-q"])
    with pytest.raises(OptionError, match="forest_model is needed: .* has 'a', 'b'; vLLM serves "):
        make(forest=str(tmp_path / "m"))
    scheduler = make(forest=str(tmp_path / "m"), forest_model="b")
    assert scheduler._takt_describe(request("r", 10, 500), 1).output_tokens.mean > 80


def test_a_full_disk_ends_the_log_alone(make, caplog):
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    scheduler = make(calls_log="/dev/full")
    for i in range(3):
        scheduler.add_request(request(f"r{i}"))
    assert len(drain(scheduler)) == 3 and not len(scheduler.takt_order)


def test_the_start_logs_the_policy_and_the_gate(make, monkeypatch):
    lines = []
    monkeypatch.setattr(logging.getLogger("vllm.takt"), "info", lambda text, *values: lines.append(text % values))
    make()
    make(order="aged(sjf,threshold=9)")
    make(gate="price")
    start = f"takt {takt.__version__} in vLLM {vllm.__version__}: policy "
    assert lines == [start + "room_to_pass, gate none", start + "aged(sjf,threshold=9), gate none",
                     start + "custom(uncached), gate price"]  # fmt: skip


def test_options(monkeypatch):
    assert Options.of({}, {}) == Options()
    assert Options.of({"takt": {"policy": "sjf"}}, {"TAKT_VLLM_POLICY": "edf"}).policy == "sjf"
    assert Options.of({}, {"TAKT_VLLM_LENGTHS": "false", "TAKT_VLLM_GATE_KAPPA": "2"}) == Options(lengths=False, gate_kappa=2.0)
    for wrong in ({"polciy": "sjf"}, {"lengths": 3}, {"gate": "shut"}, {"gate_kappa": -1}, {"policy": 5}):
        with pytest.raises(OptionError, match=next(iter(wrong))):
            Options.of({"takt": wrong}, {})


def test_an_unknown_policy_fails_at_start(make):
    with pytest.raises(OptionError):
        make(order="no_such_policy")


def test_an_unknown_vllm_fails_at_start(make, monkeypatch):
    plain = Scheduler.__init__

    def later(self, *args, **kwargs):
        plain(self, *args, **kwargs)
        self.third_queue = type(self.waiting)()

    monkeypatch.setattr(Scheduler, "__init__", later)
    with pytest.raises(TaktError, match="third_queue") as told:
        make()
    assert "\n" not in str(told.value)


def test_warm_turns_go_first(make):
    scheduler = make(caching=True, seqs=1, blocks=200, warm_first=True)
    first = [5 + i % 900 for i in range(160)]
    scheduler.add_request(request("turn1", prompt=160, first=first))
    drain(scheduler)
    scheduler.add_request(request("cold", prompt=100))
    scheduler.add_request(request("turn2", prompt=180, first=first))
    assert scheduler.takt_uncached_tokens(scheduler.requests["turn2"]) == 180 - 160
    assert drain(scheduler) == ["turn2", "cold"]


def test_returns():
    returns = Returns()
    assert returns.worth(5) > returns.worth(100) > returns.worth(2000) > 0
    for _ in range(500):
        returns.observe(100.0, True)
    assert returns.worth(64) > 0.01 > returns.worth(2000)


def sessions(scheduler, n, turns, prompt, seed):
    """Runs sessions whose turns grow by 64 tokens and think for some steps. Returns hits over prompts, and turns per
    step."""
    rng = random.Random(seed)
    state = [{"turn": 0, "tokens": [3 + rng.randrange(1000) for _ in range(prompt)], "at": i, "busy": ""} for i in range(n)]
    hits = total = done = steps = 0
    while done < n * turns and steps < 20000:
        for i, each in enumerate(state):
            if each["busy"] and each["busy"] not in scheduler.requests:
                each["busy"] = ""
                each["turn"] += 1
                done += 1
                each["tokens"] += [3 + rng.randrange(1000) for _ in range(64)]
                each["at"] = steps + rng.randint(2, 8)
            if not each["busy"] and each["turn"] < turns and steps >= each["at"]:
                each["busy"] = f"s{i}t{each['turn']}"
                scheduler.add_request(
                    request(each["busy"], len(each["tokens"]), 4, first=each["tokens"], takt_workflow=f"s{i}",
                            takt_last=str(int(each["turn"] == turns - 1)))
                )  # fmt: skip
        output = step(scheduler)
        for new in output.scheduled_new_reqs:
            total += len(scheduler.requests[new.req_id].prompt_token_ids) if new.req_id in scheduler.requests else 0
            hits += new.num_computed_tokens
        steps += 1
    assert done == n * turns, "a turn waits at the gate forever"
    return hits / total, done / steps


@pytest.mark.parametrize("gate", ["none", "price"])
def test_cached_blocks_are_known_without_a_scan(make, gate):
    """The gate's value for a waiting turn equals vLLM's lookup, in a cache that loses blocks at every step."""
    scheduler = make(caching=True, blocks=200, seqs=2, tokens=256, gate=gate)
    find = scheduler.kv_cache_manager.coordinator.find_longest_cache_hit
    looked, compared, quick = 0, 0, 0

    def counted(*args):
        nonlocal looked
        looked += 1
        return find(*args)

    scheduler.kv_cache_manager.coordinator.find_longest_cache_hit = counted
    plain = scheduler.schedule

    def schedule():
        nonlocal compared, quick
        for each in scheduler.waiting:
            before = looked
            total = each.num_tokens
            assert scheduler.takt_uncached_tokens(each) == max(1, total - find(each.block_hashes, total - 1)[1])
            compared += 1
            quick += looked == before
        return plain()

    scheduler.schedule = schedule
    sessions(scheduler, 12, 6, 400, 2)
    assert compared > 300 and 0.5 * compared < quick < compared, (compared, quick)
    assert not scheduler._takt_found


def test_the_gate_keeps_the_cache(make):
    """Twelve sessions of at least 640 tokens in a cache for six: vLLM's LRU loses them all, the gate keeps most."""
    results = {}
    for name, options in (("none", {"order": "fcfs"}), ("price", {"gate": "price", "gate_door_s": 1000.0})):
        scheduler = make(caching=True, blocks=300, seqs=4, tokens=256, **options)
        results[name] = sessions(scheduler, 12, 8, 640, 1)
    assert results["price"][0] > results["none"][0] + 0.1, results
    assert results["price"][1] > results["none"][1], results


@pytest.mark.parametrize("n", [20, 90])
def test_the_gate_admits_every_turn_in_time(make, n):
    """Cold turns wait while warm sessions take every row; 90 of them are more than the gate examines. The door admits
    each of them within its share of time, even if no row is free when it opens."""
    scheduler = make(
        caching=True, blocks=300, seqs=2, tokens=256, gate="price", gate_kappa=1e-9, gate_door_s=0.5, gate_door_share=1.0, prefill_s=2e-3
    )  # fmt: skip
    now = 10**12
    scheduler.takt_order.now = lambda: now
    rng = random.Random(n)
    cold = {f"cold{i}": 1600 + rng.randrange(800) for i in range(n)}
    for name, tokens in cold.items():
        scheduler.add_request(request(name, tokens, 4, arrival=1000.0, takt_workflow=name))
    warm = {f"w{k}": [3 + rng.randrange(1000) for _ in range(300)] for k in range(6)}
    busy = dict.fromkeys(warm, "")
    steps = 0
    while scheduler.requests.keys() & cold.keys() and steps < 200 * n:
        for name, tokens in warm.items():
            if busy[name] not in scheduler.requests:
                tokens += [3 + rng.randrange(1000) for _ in range(8)]
                busy[name] = f"{name}.{steps}"
                scheduler.add_request(request(busy[name], len(tokens), 30, first=tokens, takt_workflow=name))
                del tokens[2000:]
        step(scheduler)
        now += 50_000_000
        steps += 1
    assert not scheduler.requests.keys() & cold.keys()
    assert n <= scheduler.takt_counters["gate_doors"] < 2 * n


def resident() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) // 1024
    return 0


@pytest.mark.parametrize("overlap", [0, 1])
def test_soak(make, overlap):
    """Clients disconnect, also during a step; requests are preempted; workflows run. No request is lost, and the
    queue's length equals vLLM's at every step. TAKT_SOAK_REQUESTS sets the number of requests."""
    rng = random.Random(3 + overlap)
    scheduler = make(TaktScheduler if overlap else TaktSyncScheduler, blocks=60, seqs=8, caching=True)
    most = int(os.environ.get("TAKT_SOAK_REQUESTS", 1500))
    came, n, preempted, steps, gone, in_flight_gone = set(), 0, 0, 0, 0, 0
    longest, memory = 0, []
    flight = deque()

    def agrees():
        scheduler.takt_order.check()
        assert len(scheduler.takt_order.queue) == scheduler.get_request_counts()[1] == len(scheduler.waiting) + len(
            scheduler._takt_other
        )

    while n < most or scheduler.has_unfinished_requests() or flight:
        for _ in range(rng.randrange(4) if n < most and len(scheduler.waiting) < 200 else 0):
            scheduler.add_request(
                request(f"r{n}", rng.randint(1, 200), rng.randint(1, 40), takt_workflow=f"w{rng.randrange(100)}",
                        takt_agent=rng.choice("abc"), takt_last=str(rng.randrange(2)))
            )  # fmt: skip
            n += 1
        output = scheduler.schedule()
        agrees()
        flight.append((output, outputs_of(scheduler, output)))
        preempted += len(output.preempted_req_ids or ())
        if rng.random() < 0.1 and scheduler.requests:  # clients disconnect while the step runs
            names = rng.sample(sorted(scheduler.requests), min(3, len(scheduler.requests)))
            in_flight_gone += sum(name in output.num_scheduled_tokens for name in names)
            gone += len(names)
            scheduler.finish_requests([*names, "never"], RequestStatus.FINISHED_ABORTED)
            agrees()
        while len(flight) > (overlap if scheduler.has_unfinished_requests() else 0):
            for told in scheduler.update_from_output(*flight.popleft()).values():
                for each in told.outputs:
                    if each.finish_reason is not None:
                        assert each.request_id not in came, "a request ended twice"
                        came.add(each.request_id)
            agrees()
        steps += 1
        longest = max(longest, len(scheduler.takt_order.queue))
        assert steps < 100 * most
        if n >= (len(memory) + 1) * most // 4:
            memory.append(resident())
    print(
        f"{n} requests, {steps} steps, {preempted} preemptions, {gone} aborted, {in_flight_gone} of them during a step;"
        f" longest queue {longest}, resident memory [MB]: {memory}"
    )
    assert memory[-1] < 1.02 * memory[0] + 5
    counters = scheduler.takt_counters
    assert len(came) == counters["ended"] == n - gone and counters["aborted"] == gone
    assert preempted > 0 and in_flight_gone > 0 and counters["requeued"] == preempted
    assert not scheduler._takt_known and not len(scheduler.takt_order) and not scheduler._takt_found


@pytest.mark.parametrize("body", [{"prompt": "p"}, {"vllm_xargs": {"takt_agent": "of the body"}}, [1], None])
def test_headers(body):
    import asyncio

    from takt.vllm.headers import Headers

    raw = b"no json" if body is None else json.dumps(body).encode()
    seen = {}

    async def app(scope, receive, send):
        message = await receive()
        seen["body"] = message["body"]
        seen["length"] = int(dict(scope["headers"])[b"content-length"])

    async def receive():
        part = parts.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(parts)}

    parts = [raw[:3], raw[3:]]
    headers = [(b"content-length", b"%d" % len(raw)), (b"x-takt-workflow", b"w1"), (b"x-takt-agent", b"coder")]
    scope = {"type": "http", "method": "POST", "path": "/v1/completions", "headers": headers}
    asyncio.run(Headers(app)(scope, receive, None))
    assert seen["length"] == len(seen["body"])
    if isinstance(body, dict):
        agent = body.get("vllm_xargs", {}).get("takt_agent", "coder")
        assert json.loads(seen["body"])["vllm_xargs"] == {"takt_workflow": "w1", "takt_agent": agent}
    else:
        assert seen["body"] == raw


if __name__ == "__main__":
    sys.exit(pytest.main([str(Path(__file__))]))
