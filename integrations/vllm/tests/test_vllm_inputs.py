"""Tests of arbitrary input to takt.vllm from clients and users."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import takt
from takt import OptionError
from takt.vllm import Options, extra_body
from takt.vllm.gate import Gate, Returns
from takt.vllm.headers import Headers, _with
from takt.vllm.identity import Identity, identity_of, number_of
from takt.vllm.lengths import Lengths


def said(**xargs):
    parameters = SimpleNamespace(extra_args={f"takt_{name}": value for name, value in xargs.items()})
    return identity_of(SimpleNamespace(sampling_params=parameters, pooling_params=None, trace_headers=None))


@pytest.mark.parametrize("value", [10**400, -(10**400), "1" * 400, "nan", float("inf"), -1, [1], {}, None, True, "1e999"])
def test_an_invalid_number_is_left_out(value):
    who = said(deadline=value, output_tokens=value, workflow_tokens_left=value, workflow="w")
    if value is not True:
        assert (who.deadline, who.output_tokens, who.workflow_tokens_left) == (None, None, None)
    assert who.workflow == "w"


def test_a_number_without_a_text_is_left_out():
    for number in (10**5000, -(10**5000)):  # Python refuses to convert it to text
        who = said(workflow=number, agent=number, tenant=number, last=number, deadline=number)
        assert who == Identity()
    assert said(last=1).last and said(last=True).last and said(last="TRUE").last and not said(last=[1]).last
    assert said(workflow=17, agent=1.5) == Identity(workflow="17", agent="1.5")


def test_a_client_sends_its_workflow_in_the_body():
    assert extra_body() == {}
    with takt.workflow("w", agent="a", deadline_s=5):
        told = extra_body()["vllm_xargs"]
    assert set(told) == {"takt_workflow", "takt_agent", "takt_deadline"}
    who = said(**{name.removeprefix("takt_"): value for name, value in told.items()})
    assert (who.workflow, who.agent) == ("w", "a") and 4 < who.deadline <= 5


def test_workflows_of_one_name_and_two_tenants_have_two_ids():
    ids = {number_of("w", tenant) for tenant in ("", "a", "b", "aw", "\ud800")}
    assert len(ids) == 5 and number_of("w") in ids and number_of("", "a") == 0
    assert number_of("bc", "a") != number_of("c", "ab")


def test_names_with_equal_length_and_checksum_differ():
    # These two have the same CRC-32 with any start value, because CRC-32 is linear and they are equally long.
    one, other = "plumless", "buckeroo"
    assert number_of(one) != number_of(other)
    assert len({number_of(f"w{i:06}") for i in range(200_000)}) == 200_000
    assert number_of("") == 0 and number_of("\ud800") != 0


def ended(lengths, who, output, now=0, times=1):
    for _ in range(times):
        place, *_ = lengths.begins(who, now, now)
        lengths.ends(who, place, 10, output, now, True)


def test_a_tenants_guess_changes_no_others():
    lengths = Lengths(10**9)
    ended(lengths, Identity(agent="a", tenant="liar", output_tokens=1e12), 10, times=50)
    honest = Identity(agent="a", tenant="honest", output_tokens=500.0)
    assert lengths.output(honest, 0, 1000).mean == 500
    assert lengths.output(Identity(agent="a", tenant="liar", output_tokens=1e12), 0, 1000).mean == 1000


def test_takts_order_corrects_guesses_by_tenant():
    queue, lengths, last = takt.Queue(), Lengths(10**9), 0

    def waits(tenant, guess):
        nonlocal last
        last += 1
        who = Identity(agent="a", tenant=tenant, output_tokens=guess)
        told = takt.Request(last, 10, agent=1, tenant=number_of(tenant), max_output_tokens=10**6)
        lengths.tell(told, who, 0, 0)
        queue.push(told, now=last)
        return last

    def rank(first, second):
        order = queue.list()
        queue.erase(first), queue.erase(second)
        return order.index(first) < order.index(second)

    assert rank(waits("liar", 100), waits("honest", 400))
    for _ in range(100):  # the liar takes more than it estimates
        for tenant, guess, taken in (("liar", 100.0, 10_000), ("honest", 400.0, 400)):
            number = waits(tenant, guess)
            queue.begin(last)
            queue.take(number)
            queue.end([(number, 10, taken)], now=last)
            queue.erase(number)
    assert rank(waits("honest", 400), waits("liar", 100))
    assert rank(waits("honest", 400), waits("new", 900))


def test_classes_are_per_tenant_and_newcomers_share_them():
    lengths = Lengths(10**9)
    ended(lengths, Identity(agent="a", tenant="one"), 20, times=8)
    assert lengths.output(Identity(agent="a", tenant="new"), 0, 1000).mean == 20
    ended(lengths, Identity(agent="a", tenant="two"), 900, times=80)
    assert lengths.output(Identity(agent="a", tenant="one"), 0, 1000).mean == 20
    assert lengths.output(Identity(agent="a", tenant="two"), 0, 1000).mean == 900
    assert 20 < lengths.output(Identity(agent="a", tenant="new"), 0, 1000).mean < 900


def test_unlimited_names_displace_their_own_tenants_names():
    lengths = Lengths(10**18)
    ended(lengths, Identity("w", "a", tenant="honest"), 20, now=7, times=8)
    for i in range(70_000):
        ended(lengths, Identity(f"w{i}", f"a{i}", tenant="flood"), 5, now=8 + i)
    assert len(lengths._outputs) <= 65536 and len(lengths.workflows) <= 65536
    honest = Identity("w", "a", tenant="honest")
    assert lengths.output(honest, 0, 100).mean == 20 and lengths.output(Identity(agent="a69999", tenant="flood"), 0, 100).mean == 5
    assert lengths.begins(honest, 10**6, 10**6) == (8, 160, 7)
    for i in range(70_000):  # without a tenant
        ended(lengths, Identity(f"w{i}", f"a{i}"), 5, now=10**6 + i)
    assert len(lengths._outputs) <= 65536 and len(lengths.workflows) <= 65536
    assert lengths.begins(honest, 2 * 10**6, 2 * 10**6) == (9, 160, 7)
    assert lengths.output(Identity(agent="a69999"), 0, 100) is not None
    for i in range(70_000):  # each with a tenant of its own
        ended(lengths, Identity("w", "a", tenant=f"t{i}"), 5, now=3 * 10**6 + i)
        if i % 1000 == 0:
            lengths.begins(honest, 3 * 10**6 + i, 0)
    assert len(lengths.workflows) <= 65536 and lengths.begins(honest, 4 * 10**6, 0)[2] == 7


def test_workflows_of_one_name_and_two_tenants_are_two():
    lengths = Lengths(100)
    assert lengths.begins(Identity("w", tenant="one"), 5, 5) == (0, 0, 5)
    assert lengths.begins(Identity("w", tenant="two"), 6, 6) == (0, 0, 6)
    assert lengths.begins(Identity("w", tenant="one"), 7, 7) == (1, 0, 5)
    for tenant in ("one", "one", "two"):
        lengths.ends(Identity("w", tenant=tenant), 0, 10, 5, 8, True)
    lengths.forget(200)
    lengths.forget(200)
    assert not len(lengths.workflows)


def test_overlapping_turns_leave_hazards_valid():
    returns = Returns()
    for _ in range(5_000):
        returns.observe(-300.0, True)
    assert all(each > 0 for each in returns._at_risk)
    assert all(0 < returns.worth(age) < 1e9 for age in (0.0, 1.0, 30.0, 1e6))


@pytest.mark.parametrize("body", [b"[" * 200_000, b"\xff\xfe", b"", b"3", b'{"vllm_xargs": 3}', b'{"a": ' * 100_000])
def test_a_body_that_is_no_object_reaches_vllm_unchanged(body):
    reached = []

    async def app(scope, receive, send):
        reached.append((await receive())["body"])

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    scope = {"type": "http", "method": "POST", "path": "/v1/completions", "headers": [(b"x-takt-workflow", b"w")]}
    asyncio.run(Headers(app)(scope, receive, None))
    assert reached == [body]


def test_a_header_becomes_an_argument_unless_the_body_sets_it():
    reached = []

    async def app(scope, receive, send):
        reached.append(json.loads((await receive())["body"]))

    parts = [b'{"prompt": "x", "vllm_xargs": ', b'{"takt_agent": "coder"}}']

    async def receive():
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

    headers = [(b"x-takt-workflow", b"w"), (b"x-takt-agent", b"planner")]
    scope = {"type": "http", "method": "POST", "path": "/v1/completions", "headers": headers}
    asyncio.run(Headers(app)(scope, receive, None))
    assert reached == [{"prompt": "x", "vllm_xargs": {"takt_workflow": "w", "takt_agent": "coder"}}]


SESSIONS = json.loads((Path(__file__).resolve().parents[3] / "tests/session_headers.json").read_text())


@pytest.mark.parametrize("case", SESSIONS["cases"], ids=lambda case: case["why"])
def test_the_session_of_a_coding_agent_reaches_the_engine(case):
    """The middleware copies the session, and the engine's half prefers X-Takt-Workflow."""
    pairs = [(name, value if isinstance(value, str) else value[0] * value[1]) for name, value in case["headers"]]
    reached = []

    async def app(scope, receive, send):
        reached.append(json.loads((await receive())["body"]))

    async def receive():
        return {"type": "http.request", "body": b"{}", "more_body": False}

    headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in pairs]  # as ASGI has them
    scope = {"type": "http", "method": "POST", "path": "/v1/messages", "headers": headers}
    asyncio.run(Headers(app)(scope, receive, None))
    told = reached[0].get("vllm_xargs", {})
    assert told.get("takt_session", "") == case["session"]
    trace = {name: value for name, value in pairs if name == "traceparent"}
    asked = SimpleNamespace(
        sampling_params=SimpleNamespace(extra_args=told), pooling_params=None, session_id=None, trace_headers=trace
    )
    who = identity_of(asked)
    assert who.workflow.removeprefix("session:").removeprefix("trace:") == case["workflow"]
    assert not identity_of(asked, sessions=False).workflow.startswith("session:")


def test_a_session_in_the_body_is_an_identity_of_vllm_too():
    def asked(session_id=None, **told):
        params = SimpleNamespace(extra_args=told)
        return SimpleNamespace(sampling_params=params, pooling_params=None, session_id=session_id, trace_headers=None)

    assert identity_of(asked("v")).workflow == "session:v"
    assert identity_of(asked("v", takt_session="s")).workflow == "session:s"
    assert identity_of(asked("v", takt_session=["s"])).workflow == "session:v"
    assert identity_of(asked("v", takt_session="s"), sessions=False).workflow == ""
    assert identity_of(asked("a\ud800" + "x" * 300)).workflow == "session:a?" + "x" * 254
    assert Options.of({"takt": {"session_headers": False}}, {}).session_headers is False
    assert Options.of({}, {"TAKT_VLLM_SESSION_HEADERS": "0"}).session_headers is False


def test_a_headers_tenant_overrides_the_bodys():
    body = _with(b'{"vllm_xargs": {"takt_tenant": "victim", "takt_agent": "a"}}', {"takt_tenant": "me", "takt_agent": "b"})
    assert json.loads(body)["vllm_xargs"] == {"takt_tenant": "me", "takt_agent": "a"}
    body = _with(b'{"vllm_xargs": {"takt_tenant": "me"}}', {"takt_agent": "b"})
    assert json.loads(body)["vllm_xargs"] == {"takt_tenant": "me", "takt_agent": "b"}


def test_lost_sessions_change_no_other_tenants_price():
    turn = SimpleNamespace(num_computed_tokens=16, num_tokens=16, request_id="r")
    free = 1000
    scheduler = SimpleNamespace(
        block_size=16, running=[], takt_counters=dict.fromkeys(("gate_kept_out", "gate_doors"), 0), _takt_known={},
        waiting=SimpleNamespace(members={1: turn}), takt_uncached_tokens=lambda request: 16,
        takt_order=SimpleNamespace(queue=SimpleNamespace(list=lambda n: [1]), request=lambda n: turn),
        kv_cache_manager=SimpleNamespace(block_pool=SimpleNamespace(get_num_free_blocks=lambda: free)),
    )  # fmt: skip
    gate = Gate(scheduler, Options(gate="price"))
    for i in range(1000):
        gate.ended(turn, Identity(workflow=f"w{i}", tenant="flood"), 0)
    free = 1
    gate.keep_out(3600 * 10**9)  # all but one are evicted
    at = {name: gate._returns_of((name, "w", "")).worth(8.0) for name in ("flood", "honest", "")}
    assert at["honest"] == at[""] == Returns().worth(8.0) > 10 * at["flood"]


def test_options_that_are_no_json_are_named():
    with pytest.raises(OptionError, match="additional_config\\['takt'\\] is no JSON"):
        Options.of({"takt": "{policy: sjf}"}, {})


def test_an_invalid_name_in_the_body_is_ignored_and_not_cut():
    def workflow_of(told):
        params = SimpleNamespace(extra_args={"takt_workflow": told, "takt_session": "s"})
        asked = SimpleNamespace(sampling_params=params, pooling_params=None, session_id=None, trace_headers=None)
        return identity_of(asked).workflow

    assert workflow_of("x" * 256) == "x" * 256 and workflow_of(7) == "7"
    assert workflow_of("x" * 257) == workflow_of("  ") == workflow_of("") == "session:s"


def test_an_invalid_tenant_header_does_not_admit_the_bodys():
    for value in (b" ", b"x" * 257):
        reached = []

        async def app(scope, receive, send):
            reached.append(json.loads((await receive())["body"]))

        async def receive():
            return {"type": "http.request", "body": b'{"vllm_xargs": {"takt_tenant": "victim"}}', "more_body": False}

        scope = {"type": "http", "method": "POST", "path": "/v1/completions", "headers": [(b"x-takt-tenant", value)]}
        asyncio.run(Headers(app)(scope, receive, None))
        assert reached == [{"vllm_xargs": {"takt_tenant": ""}}]
