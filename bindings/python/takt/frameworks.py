"""Helpers for agent frameworks. This module imports no framework; the helpers rely on the shape of its objects.

LangGraph: wrap nodes, which are functions of a state, and name the workflow in the config of the graph's call::

    builder.add_node("planner", takt.frameworks.node("planner", plan))
    graph.invoke(state, takt.frameworks.config("ticket-4711"))

OpenAI Agents: pass hooks to the run. They set the current agent whenever an agent starts or hands over::

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
    """Returns the thread of a LangGraph run, from the config that LangGraph passes to nodes."""
    for each in (told.get("config"), *arguments[1:]):
        if isinstance(each, dict) and isinstance(each.get("configurable"), dict):
            thread = each["configurable"].get("takt_workflow") or each["configurable"].get("thread_id")
            if thread is not None:
                return str(thread)
    return None


def config(workflow: str, **configurable: Any) -> dict[str, Any]:
    """Returns a LangGraph config that names the workflow. Nodes read it if they take ``config`` and are wrapped by
    `node`."""
    return {"configurable": {"takt_workflow": workflow, "thread_id": workflow, **configurable}}


def node(agent: str, function: Callable[..., Any] | None = None, *, upstream: str | None = None) -> Any:
    """Wraps a node so that its calls belong to the agent. The node is a function of a state, or of a state and a
    config; it may be ``async``.

    The calls belong to the enclosing `takt.workflow`, otherwise to the workflow of the node's config. Without either,
    each call of the node is its own workflow. ``node("planner")`` is a decorator.
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
    """Returns hooks for ``Runner.run(..., hooks=...)`` of OpenAI Agents. When an agent starts or takes over, calls
    belong to it, and the previous agent becomes its upstream. Without an enclosing `takt.workflow` the hooks do
    nothing. Parallel runs need a `takt.workflow` each.

    ``base`` is ``agents.RunHooks``; None: imported if it is installed.
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
