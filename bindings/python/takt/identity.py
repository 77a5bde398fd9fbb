"""Identity of a call: its workflow, agent and tenant, carried from the client to the engine in headers.

An agentic program names its workflow once, and every call within the block carries it::

    with takt.workflow("ticket-4711", agent="planner", deadline_s=30):
        client.responses.create(..., extra_headers=takt.headers())

`headers` returns the headers X-Takt-Workflow, X-Takt-Agent, X-Takt-Upstream, X-Takt-Deadline and X-Takt-Tenant.
`parse_headers` reads them when a request arrives. Without them the workflow is the session of a coding agent
(`SESSION_HEADERS`), or else the trace id of a W3C ``traceparent`` header. Without all of these, each call is its own
workflow. Contexts follow the rules of `contextvars`: an asyncio task sees the values that were set when it was created.

A deadline travels as the number of seconds left, because the clocks of two machines differ. takt counts them from the
arrival of the request.
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
    "SESSION_HEADERS",
    "TENANT",
    "UPSTREAM",
    "WORKFLOW",
    "async_event_hook",
    "current",
    "event_hook",
    "headers",
    "openai_arguments",
    "parse_headers",
    "session_of",
    "turn_of",
    "workflow",
]

WORKFLOW, AGENT, UPSTREAM = "X-Takt-Workflow", "X-Takt-Agent", "X-Takt-Upstream"
DEADLINE, TENANT = "X-Takt-Deadline", "X-Takt-Tenant"
HEADERS = (WORKFLOW, AGENT, UPSTREAM, DEADLINE, TENANT)

SESSION_HEADERS = ("x-claude-code-session-id", "x-session-affinity", "session-id", "x-session-id")
"""Headers in which coding agents and gateways name a session, in order of precedence."""

_LONGEST = 256  # longest name in a header [bytes]
_SESSION = re.compile(rf"[ \t]*([!-~](?:[ -~]{{0,{_LONGEST - 2}}}[!-~])?)[ \t]*")
_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


@dataclass(frozen=True)
class Identity:
    """The identity of a call. ``workflow`` is the run of an agentic program, ``agent`` the role that makes the call,
    and ``upstream`` the agent whose answer led to it. ``deadline`` is the end of the workflow on `time.monotonic` [s],
    ``tenant`` the payer. ``source`` is "takt", "session", "traceparent" or "none" (a workflow of this call alone)."""

    workflow: str
    agent: str | None = None
    upstream: str | None = None
    deadline: float | None = None
    tenant: str | None = None
    source: str = "takt"

    @property
    def deadline_s(self) -> float | None:
        """Seconds left until the deadline; negative if it has passed."""
        return None if self.deadline is None else self.deadline - time.monotonic()

    def headers(self) -> dict[str, str]:
        """Returns the headers for a call at this moment."""
        out = {WORKFLOW: _sent(self.workflow)}
        for name, value in ((AGENT, self.agent), (UPSTREAM, self.upstream), (TENANT, self.tenant)):
            if value is not None:
                out[name] = _sent(value)
        if self.deadline is not None:
            out[DEADLINE] = f"{max(0.0, self.deadline - time.monotonic()):.3f}"
        return out


class _Scope:
    """The identity that a `with` block set. Tasks created within the block share it, so that a framework's hooks, which
    may run in their own tasks, can set the agent."""

    __slots__ = ("told",)

    def __init__(self, told: Identity) -> None:
        self.told = told


_current: contextvars.ContextVar[_Scope | None] = contextvars.ContextVar("takt_identity", default=None)


def _sent(name: str) -> str:
    """Returns a name as a header value: characters other than plain ASCII are percent-encoded."""
    return quote(name, safe=" !#$&'()*+,-./:;<=>?@[]^_`{|}~")


def _checked(field: str, value: object) -> str:
    try:
        text = str(value)
        sent = _sent(text)
    except ValueError:  # a lone surrogate, or a number of too many digits
        raise RequestError(field, value, "must be a text of whole characters") from None
    if not text.strip():
        raise RequestError(field, value, "must not be empty")
    if text != text.strip():
        raise RequestError(field, value, "must not begin or end with a blank")
    if len(sent) > _LONGEST:
        raise RequestError(field, value, f"must be at most {_LONGEST} bytes as a header")
    return text


def current() -> Identity | None:
    """Returns the identity of the enclosing `workflow`; None outside of one."""
    scope = _current.get()
    return None if scope is None else scope.told


def turn_of(agent: str, upstream: str | None = None) -> None:
    """Sets the agent of all further calls in the enclosing `workflow`, in all tasks created within it. Without
    ``upstream``, the previous agent becomes the upstream. Does nothing outside of a workflow."""
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
    """Calls within this block belong to this workflow.

    ``id`` is any name that is unique among the workflows alive; None: the enclosing workflow, or a new name if there is
    none. ``deadline_s`` is the time until the workflow should end [s]. A nested `workflow` with the same id inherits
    the values that it does not set. If it names another agent, the enclosing agent becomes its ``upstream``.
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
    """Returns the headers for a call made here, combined with ``more``, which takes precedence. Outside of a `workflow`
    takt adds none."""
    told = current()
    out = told.headers() if told is not None else {}
    out.update(more or {})
    return out


def session_of(headers: Mapping[str, str]) -> str | None:
    """Returns the session of a coding agent: the value of the first of `SESSION_HEADERS` with a valid value; None: no
    session. Names in ``headers`` have lower case. A valid value has 1 to 256 printable ASCII characters between blanks.
    Percent signs have no meaning."""
    for name in SESSION_HEADERS:
        found = _SESSION.fullmatch(headers.get(name, ""))
        if found:
            return found[1]
    return None


def _name_in(value: str) -> str | None:
    """Returns the name in a header X-Takt-...; None if the value is blank or has more than 256 bytes."""
    value = value.strip()
    return unquote(value) if value and len(value) <= _LONGEST else None


def parse_headers(headers: Mapping[str, str] | Any, *, sessions: bool = True) -> Identity:
    """Returns the identity of a request from its headers, a mapping or pairs. The case of names does not matter. The
    last value of a repeated header counts.

    Without X-Takt-Workflow the workflow is the session of a coding agent (`session_of`), unless ``sessions`` is false.
    Without a session it is the trace id of a valid ``traceparent``. Without all of these the call is its own workflow
    with a new name. Invalid values, such as an infinite deadline or a name of more than 256 bytes, are ignored. So headers of untrusted clients
    never fail a request.
    """
    pairs: Any = headers.items() if hasattr(headers, "items") else headers
    told: dict[str, str] = {}
    for name, value in pairs:
        key = name.decode("latin-1") if isinstance(name, bytes) else str(name)
        try:
            told[key.lower()] = value.decode("latin-1") if isinstance(value, bytes) else str(value)
        except ValueError:  # Python converts no number of more than 4,300 digits to text
            continue

    def said(name: str) -> str | None:
        return _name_in(told.get(name.lower(), ""))

    deadline = None
    try:
        seconds = float(told.get(DEADLINE.lower(), "nan"))
        if math.isfinite(seconds) and 0 <= seconds <= 1e9:
            deadline = time.monotonic() + seconds
    except ValueError:
        pass
    name, source = said(WORKFLOW), "takt"
    if name is None and sessions:
        name, source = session_of(told), "session"
    if name is None:
        trace = _TRACEPARENT.fullmatch(told.get("traceparent", "").strip())
        # Version ff is forbidden, version 00 has four parts, and an id of only zeros is invalid.
        valid = trace and trace[1] != "ff" and not (trace[1] == "00" and trace[5])
        if trace and valid and int(trace[2], 16) and int(trace[3], 16):
            name, source = trace[2], "traceparent"
    if name is None:
        name, source = uuid.uuid4().hex, "none"
    return Identity(name, said(AGENT), said(UPSTREAM), deadline, said(TENANT), source)


# ---- clients of the OpenAI interface --------------------------------------------------------------------------------


def openai_arguments() -> dict[str, Any]:
    """Returns keyword arguments for the OpenAI client: ``client.chat.completions.create(...,
    **openai_arguments())``."""
    return {"extra_headers": headers()}


class _HasHeaders(Protocol):
    @property
    def headers(self) -> MutableMapping[str, str]: ...


def event_hook(request: _HasHeaders) -> None:
    """A hook for httpx: every request of the client carries the identity of the code that makes it.

    ``OpenAI(http_client=httpx.Client(event_hooks={"request": [takt.identity.event_hook]}))``. It keeps headers that the
    caller has set, and adds none if the caller has set X-Takt-Workflow.
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
