"""Thin helpers for agent frameworks. None of them is imported here; the helpers fit by shape.

LangGraph: nodes are functions of a state; wrap them, or the whole graph's call::

    builder.add_node("planner", takt.frameworks.node("planner", plan))
    graph.invoke(state, takt.frameworks.config("ticket-4711"))

OpenAI Agents: hand the hooks to the run, which sets the agent as agents take turns::

    with takt.workflow("ticket-4711"):
        await Runner.run(agent, text, hooks=takt.frameworks.agent_hooks())
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from . import identity

__all__ = ["agent_hooks", "config", "node"]


def _workflow_of(arguments: tuple[Any, ...], told: dict[str, Any]) -> str | None:
    """The thread of a LangGraph run, which stands in the config that it hands to nodes."""
    for each in (told.get("config"), *arguments[1:]):
        if isinstance(each, dict) and isinstance(each.get("configurable"), dict):
            thread = each["configurable"].get("takt_workflow") or each["configurable"].get("thread_id")
            if thread is not None:
                return str(thread)
    return None


def config(workflow: str, **configurable: Any) -> dict[str, Any]:
    """A LangGraph config that names the workflow; nodes which take ``config`` and are wrapped by `node` see it."""
    return {"configurable": {"takt_workflow": workflow, "thread_id": workflow, **configurable}}


def node(agent: str, function: Callable[..., Any] | None = None, *, upstream: str | None = None) -> Any:
    """Calls that the node makes are the agent's. A function of a state, or of a state and a config; also ``async``.

    Where a `takt.workflow` is around, it is its workflow; else that of the node's config; else each call of the node is a
    workflow. ``node("planner")`` decorates.
    """
    if function is None:
        return functools.partial(node, agent, upstream=upstream)
    call = function

    def around(arguments: tuple[Any, ...], told: dict[str, Any]) -> Any:
        name = None if identity.current() is not None else _workflow_of(arguments, told)
        return identity.workflow(name, agent=agent, upstream=upstream)

    if inspect.iscoroutinefunction(call):

        @functools.wraps(call)
        async def run_async(*arguments: Any, **told: Any) -> Any:
            with around(arguments, told):
                return await call(*arguments, **told)

        return run_async

    @functools.wraps(call)
    def run(*arguments: Any, **told: Any) -> Any:
        with around(arguments, told):
            return call(*arguments, **told)

    return run


def agent_hooks(base: type | None = None) -> Any:
    """Hooks for ``Runner.run(..., hooks=...)`` of OpenAI Agents: as an agent starts or is handed over to, calls are its,
    and the agent before is its upstream. They act within a `takt.workflow`, and do nothing without. Runs that go side by
    side need a `takt.workflow` each.

    ``base`` is ``agents.RunHooks``; left out, it is imported where it is installed.
    """
    if base is None:
        try:
            from agents import RunHooks as base  # type: ignore[import-not-found, no-redef, unused-ignore]
        except ImportError:
            base = object

    class Hooks(base):  # type: ignore[misc, valid-type]
        async def on_agent_start(self, context: Any, agent: Any) -> None:
            identity.turn_of(_name_of(agent))

        async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
            identity.turn_of(_name_of(to_agent), _name_of(from_agent))

    return Hooks()


def _name_of(agent: Any) -> str:
    return str(getattr(agent, "name", agent))
