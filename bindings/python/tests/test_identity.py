"""Tests of the identity of calls."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import takt
from takt import frameworks, identity

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_headers_survive_a_round_trip() -> None:
    assert takt.headers() == {} and identity.current() is None
    with takt.workflow("ticket-4711", agent="planner", upstream="user", deadline_s=30, tenant="alice") as told:
        sent = takt.headers({"X-Other": "1"})
        assert set(sent) == {*identity.HEADERS, "X-Other"}
        assert sent["X-Takt-Workflow"] == "ticket-4711" and 29 < float(sent["X-Takt-Deadline"]) <= 30
        assert identity.current() is told
    assert takt.headers() == {}
    got = takt.parse_headers({name.lower(): value for name, value in sent.items()})
    assert (got.workflow, got.agent, got.upstream, got.tenant, got.source) == (
        "ticket-4711", "planner", "user", "alice", "takt",
    )  # fmt: skip
    assert got.deadline_s is not None and 29 < got.deadline_s <= 30


def test_omitted_values_are_inherited_within_a_workflow() -> None:
    with takt.workflow("w", agent="planner", deadline_s=30, tenant="alice") as outer:
        with takt.workflow(agent="coder") as inner:
            assert (inner.workflow, inner.agent, inner.upstream) == ("w", "coder", "planner")
            assert (inner.deadline, inner.tenant) == (outer.deadline, "alice")
            with takt.workflow(agent="coder") as same:
                assert same.upstream == "planner"
        with takt.workflow("another") as other:
            assert (other.agent, other.tenant, other.deadline) == (None, None, None)
        assert identity.current() is outer
    with takt.workflow() as made, takt.workflow(uuid.UUID(int=7)) as by_uuid:
        assert len(made.workflow) == 32 and by_uuid.workflow == f"{7:032x}"


def test_tasks_and_threads_have_separate_contexts() -> None:
    async def call(name: str) -> str:
        with takt.workflow(name):
            await asyncio.sleep(0.001)
            return takt.headers()["X-Takt-Workflow"]

    async def both() -> list[str]:
        return list(await asyncio.gather(call("a"), call("b")))

    assert asyncio.run(both()) == ["a", "b"]
    with takt.workflow("here"), ThreadPoolExecutor(1) as pool:
        assert pool.submit(takt.headers).result() == {}


def test_any_name_travels_in_headers() -> None:
    for name in ("Träger 7", "a%20b", "x" * 200, "日本", 'q"u,o;te', "line\nbreak", 17):
        with takt.workflow(name):
            sent = takt.headers()["X-Takt-Workflow"]
            assert sent.isascii() and sent.isprintable()
            assert takt.parse_headers({"x-takt-workflow": sent}).workflow == str(name)


@pytest.mark.parametrize(
    ("told", "field"),
    [
        ({"id": ""}, "id"), ({"id": " a"}, "id"), ({"id": "x" * 300}, "id"), ({"id": "a", "agent": ""}, "agent"),
        ({"id": "a", "deadline_s": -1}, "deadline_s"), ({"id": "a", "deadline_s": float("inf")}, "deadline_s"),
        ({"id": "a", "deadline_s": "soon"}, "deadline_s"),
    ],
)  # fmt: skip
def test_invalid_values_are_named(told: dict[str, Any], field: str) -> None:
    with pytest.raises(takt.RequestError) as caught, takt.workflow(told.pop("id"), **told):
        pass
    assert caught.value.field == field and identity.current() is None


def test_a_trace_is_a_workflow_if_none_is_named() -> None:
    got = takt.parse_headers({"Traceparent": TRACE})
    assert (got.workflow, got.source) == ("4bf92f3577b34da6a3ce929d0e0e4736", "traceparent")
    assert takt.parse_headers({"traceparent": TRACE, "X-Takt-Workflow": "w"}).workflow == "w"
    wrong = [
        "", "nonsense", TRACE.upper(), "ff" + TRACE[2:], TRACE + "-more", "00-" + "0" * 32 + TRACE[35:],
        TRACE[:36] + "0" * 16 + TRACE[52:],
    ]  # fmt: skip
    names = {takt.parse_headers({"traceparent": text}).workflow for text in wrong}
    assert len(names) == len(wrong)  # each call is a workflow of its own
    assert takt.parse_headers({"traceparent": "01" + TRACE[2:] + "-more"}).source == "traceparent"


SESSIONS = json.loads((Path(__file__).resolve().parents[3] / "tests/session_headers.json").read_text())


def test_the_names_of_session_headers_are_those_of_every_language() -> None:
    assert list(identity.SESSION_HEADERS) == SESSIONS["names"]


@pytest.mark.parametrize("case", SESSIONS["cases"], ids=lambda case: case["why"])
def test_the_session_of_a_coding_agent_is_the_workflow(case: dict[str, Any]) -> None:
    pairs = [(name, value if isinstance(value, str) else value[0] * value[1]) for name, value in case["headers"]]
    assert identity.session_of({name.lower(): value for name, value in pairs}) == (case["session"] or None)
    got = takt.parse_headers(pairs)
    assert (got.workflow if got.source != "none" else "", got.source) == (case["workflow"], case["source"])
    raw = [(name.encode(), value.encode("latin-1")) for name, value in pairs]
    assert takt.parse_headers(raw).source == got.source
    assert takt.parse_headers(pairs, sessions=False).source in ("takt", "traceparent", "none")


def test_foreign_headers_fail_no_request() -> None:
    for deadline in ("nan", "inf", "-1", "1e300", "soon", ""):
        assert takt.parse_headers({"X-Takt-Workflow": "w", "X-Takt-Deadline": deadline}).deadline is None
    got = takt.parse_headers([(b"x-takt-workflow", b"w"), (b"x-takt-agent", b"\xff" * 300), (b"host", b"h")])
    assert (got.workflow, got.agent) == ("w", None)
    assert takt.parse_headers({}).source == "none"


def test_httpx_sends_the_identity_of_the_call() -> None:
    httpx = pytest.importorskip("httpx")
    seen: list[dict[str, str]] = []

    def answer(request: Any) -> Any:
        seen.append(dict(request.headers))
        return httpx.Response(200, json={})

    client = httpx.Client(transport=httpx.MockTransport(answer), event_hooks={"request": [identity.event_hook]})
    with takt.workflow("w", agent="planner"):
        client.get("http://engine/v1/models")
        client.get("http://engine/v1/models", headers={"X-Takt-Workflow": "mine"})
    client.get("http://engine/v1/models")
    assert [each.get("x-takt-workflow") for each in seen] == ["w", "mine", None]
    assert seen[0]["x-takt-agent"] == "planner" and "x-takt-agent" not in seen[1]

    async def later() -> None:
        hooks = {"request": [identity.async_event_hook]}
        async with httpx.AsyncClient(transport=httpx.MockTransport(answer), event_hooks=hooks) as asynchronous:
            with takt.workflow("async"):
                await asynchronous.get("http://engine/")

    asyncio.run(later())
    assert seen[-1]["x-takt-workflow"] == "async"


def test_the_openai_client_sends_headers() -> None:
    openai, httpx = pytest.importorskip("openai"), pytest.importorskip("httpx")
    import json

    seen: list[tuple[dict[str, str], dict[str, Any]]] = []
    completion = {
        "id": "c", "object": "chat.completion", "created": 0, "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "yes"}}],
    }  # fmt: skip

    def answer(request: Any) -> Any:
        seen.append((dict(request.headers), json.loads(request.content)))
        return httpx.Response(200, json=completion)

    messages = [{"role": "user", "content": "well?"}]
    plain = openai.OpenAI(
        api_key="k", base_url="http://engine/v1", http_client=httpx.Client(transport=httpx.MockTransport(answer))
    )
    hooked = openai.OpenAI(
        api_key="k", base_url="http://engine/v1",
        http_client=httpx.Client(
            transport=httpx.MockTransport(answer), event_hooks={"request": [identity.event_hook]}
        ),
    )  # fmt: skip
    with takt.workflow("w", agent="planner"):
        plain.chat.completions.create(model="m", messages=messages, **identity.openai_arguments())
        hooked.chat.completions.create(model="m", messages=messages)
    assert [told["x-takt-workflow"] for told, _ in seen] == ["w", "w"]
    assert seen[0][0]["x-takt-agent"] == "planner"


def test_nodes_like_langgraphs_send_the_identity() -> None:
    seen: list[Any] = []

    @frameworks.node("planner")  # type: ignore[untyped-decorator, unused-ignore]
    def plan(state: dict[str, Any], config: dict[str, Any]) -> dict[str, Any]:
        seen.append(identity.current())
        return state

    async def code(state: dict[str, Any]) -> dict[str, Any]:
        seen.append(identity.current())
        return state

    plan({}, frameworks.config("ticket-1"))
    with takt.workflow("ticket-2", agent="user"):
        plan({}, {})
        asyncio.run(frameworks.node("coder", code)({}))
    assert [(s.workflow, s.agent, s.upstream) for s in seen] == [
        ("ticket-1", "planner", None), ("ticket-2", "planner", "user"), ("ticket-2", "coder", "user"),
    ]  # fmt: skip
    assert plan.__name__ == "plan"


def test_langgraph_nodes_send_the_identity() -> None:
    graphs = pytest.importorskip("langgraph.graph")
    from typing import TypedDict

    from langchain_core.runnables import RunnableConfig

    class State(TypedDict):
        steps: list[str]

    seen: list[Any] = []

    def plan(state: State, config: RunnableConfig) -> dict[str, Any]:
        seen.append(takt.headers())
        return {"steps": [*state["steps"], "plan"]}

    plan.__annotations__ = {"state": State, "config": RunnableConfig}

    def code(state: State) -> dict[str, Any]:
        seen.append(takt.headers())
        return {"steps": [*state["steps"], "code"]}

    builder = graphs.StateGraph(State)
    builder.add_node("plan", frameworks.node("planner", plan))
    builder.add_node("code", frameworks.node("coder", code))
    builder.add_edge(graphs.START, "plan")
    builder.add_edge("plan", "code")
    builder.add_edge("code", graphs.END)
    graph = builder.compile()
    with takt.workflow("ticket-3", tenant="alice"):
        assert graph.invoke({"steps": []})["steps"] == ["plan", "code"]
    assert [(s["X-Takt-Workflow"], s["X-Takt-Agent"], s["X-Takt-Tenant"]) for s in seen] == [
        ("ticket-3", "planner", "alice"), ("ticket-3", "coder", "alice"),
    ]  # fmt: skip
    graph.invoke({"steps": []}, frameworks.config("ticket-4"))
    assert seen[2]["X-Takt-Workflow"] == "ticket-4"


def test_hooks_like_openai_agents_send_the_identity() -> None:
    class Agent:
        def __init__(self, name: str) -> None:
            self.name = name

    hooks = frameworks.agent_hooks(object)

    async def run() -> list[Any]:
        with takt.workflow("ticket-5"):
            await hooks.on_agent_start(None, Agent("triage"))
            first = identity.current()
            await hooks.on_handoff(None, Agent("triage"), Agent("coder"))
            await hooks.on_agent_start(None, Agent("coder"))
            return [first, identity.current()]

    first, second = asyncio.run(run())
    assert (first.agent, first.upstream) == ("triage", None)
    assert (second.workflow, second.agent, second.upstream) == ("ticket-5", "coder", "triage")
    asyncio.run(hooks.on_agent_start(None, Agent("lost")))  # no effect outside of a workflow
    assert identity.current() is None


def test_openai_agents_send_the_identity() -> None:
    agents = pytest.importorskip("agents")
    openai, httpx = pytest.importorskip("openai"), pytest.importorskip("httpx")
    seen: list[dict[str, str]] = []
    completion = {
        "id": "c", "object": "chat.completion", "created": 0, "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "yes"}}],
    }  # fmt: skip

    def answer(request: Any) -> Any:
        seen.append(dict(request.headers))
        return httpx.Response(200, json=completion)

    client = openai.AsyncOpenAI(
        api_key="k", base_url="http://engine/v1",
        http_client=httpx.AsyncClient(
            transport=httpx.MockTransport(answer), event_hooks={"request": [identity.async_event_hook]}
        ),
    )  # fmt: skip
    agents.set_tracing_disabled(True)
    model = agents.OpenAIChatCompletionsModel(model="m", openai_client=client)
    agent = agents.Agent(name="planner", instructions="answer", model=model)

    async def run() -> str:
        with takt.workflow("ticket-6", deadline_s=60):
            done = await agents.Runner.run(agent, "well?", hooks=frameworks.agent_hooks())
            return str(done.final_output)

    assert asyncio.run(run()) == "yes"
    assert (seen[0]["x-takt-workflow"], seen[0]["x-takt-agent"]) == ("ticket-6", "planner")


def test_a_deadline_counts_down() -> None:
    with takt.workflow("w", deadline_s=0.0):
        time.sleep(0.002)
        assert takt.headers()["X-Takt-Deadline"] == "0.000"
        assert identity.current().deadline_s < 0  # type: ignore[union-attr, operator]


def test_values_without_a_text_are_refused() -> None:
    for value in ("\ud800", 10**5000):
        with pytest.raises(takt.RequestError, match="whole characters"), takt.workflow(value):
            pass
        with pytest.raises(takt.RequestError, match="whole characters"), takt.workflow("w", agent=value):  # type: ignore[arg-type]
            pass
    assert takt.parse_headers({"X-Takt-Workflow": 10**5000}).source == "none"
    assert takt.parse_headers({"X-Takt-Workflow": 17, "X-Takt-Agent": 10**5000}).agent is None
