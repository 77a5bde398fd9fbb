"""Whose call it is, from the program that makes calls to the engine that serves them.

An agentic program says once which workflow it is in, and every call that is made within carries it::

    with takt.workflow("ticket-4711", agent="planner", deadline_s=30):
        client.responses.create(..., extra_headers=takt.headers())

`headers` gives the headers X-Takt-Workflow, X-Takt-Agent, X-Takt-Upstream, X-Takt-Deadline and X-Takt-Tenant;
`parse_headers` reads them where a request comes in. Without them the trace id of a W3C ``traceparent`` header is the
workflow, and without that each call is a workflow of its own. Contexts follow threads' and tasks' own rules
(`contextvars`): an asyncio task sees what was set where it was made.

Deadlines travel as the seconds that are left, because the clocks of two machines differ; takt counts them from when a
request comes in.
"""

from __future__ import annotations

import contextlib
import contextvars
import math
import re
import time
import uuid
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, replace
from typing import Any, Protocol
from urllib.parse import quote, unquote

from .errors import RequestError

__all__ = [
    "AGENT",
    "DEADLINE",
    "HEADERS",
    "Identity",
    "TENANT",
    "UPSTREAM",
    "WORKFLOW",
    "async_event_hook",
    "current",
    "event_hook",
    "headers",
    "openai_arguments",
    "parse_headers",
    "turn_of",
    "workflow",
]

WORKFLOW, AGENT, UPSTREAM = "X-Takt-Workflow", "X-Takt-Agent", "X-Takt-Upstream"
DEADLINE, TENANT = "X-Takt-Deadline", "X-Takt-Tenant"
HEADERS = (WORKFLOW, AGENT, UPSTREAM, DEADLINE, TENANT)

_LONGEST = 256  # bytes of a name as it travels
_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


@dataclass(frozen=True)
class Identity:
    """Whose call it is. ``workflow`` is the run of an agentic program, ``agent`` the role that calls, ``upstream`` the
    agent whose answer led to this call, ``deadline`` the end of the workflow on `time.monotonic` [s], ``tenant`` who pays.
    ``source`` says where it comes from: "takt", "traceparent" or "none" (one workflow for this call alone)."""

    workflow: str
    agent: str | None = None
    upstream: str | None = None
    deadline: float | None = None
    tenant: str | None = None
    source: str = "takt"

    @property
    def deadline_s(self) -> float | None:
        """Seconds that are left; below 0 where it is late."""
        return None if self.deadline is None else self.deadline - time.monotonic()

    def headers(self) -> dict[str, str]:
        """The headers of a call that it makes now."""
        out = {WORKFLOW: _sent(self.workflow)}
        for name, value in ((AGENT, self.agent), (UPSTREAM, self.upstream), (TENANT, self.tenant)):
            if value is not None:
                out[name] = _sent(value)
        if self.deadline is not None:
            out[DEADLINE] = f"{max(0.0, self.deadline - time.monotonic()):.3f}"
        return out


class _Scope:
    """What a `with` has set. Tasks that are made within share it, so that a framework's hooks, which may run in tasks of
    their own, can say whose turn it is."""

    __slots__ = ("told",)

    def __init__(self, told: Identity) -> None:
        self.told = told


_current: contextvars.ContextVar[_Scope | None] = contextvars.ContextVar("takt_identity", default=None)


def _sent(name: str) -> str:
    """As it travels in a header: what is not plain ASCII is quoted as in a URL."""
    return quote(name, safe=" !#$&'()*+,-./:;<=>?@[]^_`{|}~")


def _checked(field: str, value: object) -> str:
    try:
        text = str(value)
        sent = _sent(text)
    except ValueError:  # half a character, or a number of too many digits
        raise RequestError(field, value, "must be a text of whole characters") from None
    if not text.strip():
        raise RequestError(field, value, "must not be empty")
    if text != text.strip():
        raise RequestError(field, value, "must not begin or end with a blank")
    if len(sent) > _LONGEST:
        raise RequestError(field, value, f"must be at most {_LONGEST} bytes as a header")
    return text


def current() -> Identity | None:
    """What holds here; None outside of `workflow`."""
    scope = _current.get()
    return None if scope is None else scope.told


def turn_of(agent: str, upstream: str | None = None) -> None:
    """From here on calls of the `workflow` around are this agent's, in all tasks that were made within. The agent before
    becomes its upstream, where none is named. Without a workflow around nothing happens."""
    scope = _current.get()
    if scope is None or scope.told.agent == agent:
        return
    scope.told = replace(scope.told, agent=agent, upstream=upstream or scope.told.agent or scope.told.upstream)


@contextlib.contextmanager
def workflow(
    id: str | int | uuid.UUID | None = None,
    *,
    agent: str | None = None,
    upstream: str | None = None,
    deadline_s: float | None = None,
    tenant: str | None = None,
) -> Iterator[Identity]:
    """Calls that are made within are of this workflow.

    ``id``: any name that is unique among the living; left out, it is that of the workflow around, or a new one where there
    is none. ``deadline_s``: the workflow is to end so many seconds from now. Within another `workflow` of the same id what
    is left out is inherited, and ``upstream`` becomes the agent around, where another agent is named.
    """
    around = current()
    if id is None:
        name = around.workflow if around is not None else uuid.uuid4().hex
    else:
        name = _checked("id", id.hex if isinstance(id, uuid.UUID) else id)
    deadline = None
    if deadline_s is not None:
        if isinstance(deadline_s, bool) or not isinstance(deadline_s, (int, float)) or not math.isfinite(deadline_s):
            raise RequestError("deadline_s", deadline_s, "must be seconds from now")
        if deadline_s < 0:
            raise RequestError("deadline_s", deadline_s, "must not be below 0")
        deadline = time.monotonic() + deadline_s
    told = Identity(
        name,
        None if agent is None else _checked("agent", agent),
        None if upstream is None else _checked("upstream", upstream),
        deadline,
        None if tenant is None else _checked("tenant", tenant),
    )
    if around is not None and around.workflow == name:
        if told.upstream is None:
            changed = told.agent is not None and told.agent != around.agent
            told = replace(told, upstream=around.agent if changed else around.upstream)
        told = replace(
            told,
            agent=told.agent or around.agent,
            deadline=around.deadline if told.deadline is None else told.deadline,
            tenant=told.tenant or around.tenant,
        )
    token = _current.set(_Scope(told))
    try:
        yield told
    finally:
        _current.reset(token)


def headers(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The headers of a call that is made here, and ``more`` of the caller's own, which win. Outside of `workflow` there
    are none of takt's."""
    told = current()
    out = told.headers() if told is not None else {}
    out.update(more or {})
    return out


def parse_headers(headers: Mapping[str, str] | Any) -> Identity:
    """Whose call a request is, by its headers; any mapping will do, and the case of names does not matter.

    Where X-Takt-Workflow is absent, the trace id of a valid ``traceparent`` is the workflow; else the call is a workflow of
    its own, with a new name. What cannot be meant (an endless deadline, a name of more than 256 bytes) is taken as not
    said, since a header that a stranger sent must not fail a request.
    """
    pairs: Any = headers.items() if hasattr(headers, "items") else headers
    told: dict[str, str] = {}
    for name, value in pairs:
        key = name.decode("latin-1") if isinstance(name, bytes) else str(name)
        try:
            told[key.lower()] = value.decode("latin-1") if isinstance(value, bytes) else str(value)
        except ValueError:  # Python has no text for the longest numbers
            continue

    def said(name: str) -> str | None:
        value = told.get(name.lower(), "").strip()
        return unquote(value) if value and len(value) <= _LONGEST else None

    deadline = None
    try:
        seconds = float(told.get(DEADLINE.lower(), "nan"))
        if math.isfinite(seconds) and 0 <= seconds <= 1e9:
            deadline = time.monotonic() + seconds
    except ValueError:
        pass
    name, source = said(WORKFLOW), "takt"
    if name is None:
        trace = _TRACEPARENT.fullmatch(told.get("traceparent", "").strip())
        # Version ff is forbidden, version 00 has four parts, and an id of zeros is none.
        valid = trace and trace[1] != "ff" and not (trace[1] == "00" and trace[5])
        if trace and valid and int(trace[2], 16) and int(trace[3], 16):
            name, source = trace[2], "traceparent"
    if name is None:
        name, source = uuid.uuid4().hex, "none"
    return Identity(name, said(AGENT), said(UPSTREAM), deadline, said(TENANT), source)


# ---- clients of the OpenAI interface --------------------------------------------------------------------------------


def openai_arguments() -> dict[str, Any]:
    """Keyword arguments for a call of the OpenAI client: ``client.chat.completions.create(..., **openai_arguments())``."""
    return {"extra_headers": headers()}


class _HasHeaders(Protocol):
    @property
    def headers(self) -> MutableMapping[str, str]: ...


def event_hook(request: _HasHeaders) -> None:
    """A hook for httpx: every request of the client carries the identity of where it is made.

    ``OpenAI(http_client=httpx.Client(event_hooks={"request": [takt.identity.event_hook]}))``. Headers that the caller has
    set stay; where that is X-Takt-Workflow, none is added.
    """
    told = current()
    if told is None or WORKFLOW in request.headers:
        return
    for name, value in told.headers().items():
        if name not in request.headers:
            request.headers[name] = value


async def async_event_hook(request: _HasHeaders) -> None:
    """`event_hook` for ``httpx.AsyncClient``."""
    event_hook(request)
