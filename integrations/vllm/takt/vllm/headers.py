"""Copies the headers X-Takt-Workflow, X-Takt-Agent, ... and the session of a coding agent into vLLM's ``vllm_xargs``,
because headers do not reach vLLM's engine.

    vllm serve MODEL --scheduler-cls takt.vllm.TaktScheduler --middleware takt.vllm.headers.Headers
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from ..identity import SESSION_HEADERS, _name_in, headers, session_of
from .identity import NUMBERS, PREFIX, SESSION, TEXTS

__all__ = ["Headers", "extra_body"]

_Message = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[_Message]]
_NAMES = {
    f"x-takt-{name.replace('_', '-')}".encode(): PREFIX + name for name in (*TEXTS, *NUMBERS, "last")
}
_TEXTS = {PREFIX + name for name in TEXTS}
_TENANT = PREFIX + "tenant"
_SESSION_NAMES = {name.encode() for name in SESSION_HEADERS}
_PATHS = ("/v1/completions", "/v1/chat/completions", "/v1/responses", "/v1/messages")


def extra_body() -> dict[str, Any]:
    """Returns the values of `takt.headers` as ``vllm_xargs`` of a request's body, for proxies that drop headers:
    ``client.chat.completions.create(..., extra_body=takt.vllm.extra_body())``. Empty outside of `takt.workflow`."""
    told = {_NAMES[name.lower().encode()]: value for name, value in headers().items()}
    return {"vllm_xargs": told} if told else {}


class Headers:
    """An ASGI application around vLLM's. It reads headers as `takt.parse_headers` does. A value in the body takes
    precedence over its header, except for the tenant, which a proxy sets in a header. If that header is invalid, the
    request has no tenant. A body that is not a JSON object passes unchanged."""

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self.app = app

    async def __call__(self, scope: MutableMapping[str, Any], receive: _Receive, send: Any) -> None:
        if scope["type"] != "http" or scope.get("method") != "POST" or not scope.get("path", "").endswith(_PATHS):
            return await self.app(scope, receive, send)
        told: dict[str, str] = {}
        sessions: dict[str, str] = {}
        for name, value in scope["headers"]:
            if name in _NAMES:
                told[_NAMES[name]] = value.decode("latin-1")
            elif name in _SESSION_NAMES:
                sessions[name.decode()] = value.decode("latin-1")
        for key in told.keys() & _TEXTS:
            name = _name_in(told[key])
            if name is None and key != _TENANT:
                del told[key]
            else:
                told[key] = name or ""
        if sessions and (session := session_of(sessions)):
            told[SESSION] = session
        if not told:
            return await self.app(scope, receive, send)
        parts, more = [], True
        while more:
            message = await receive()
            if message["type"] != "http.request":  # the client has disconnected
                return None
            parts.append(message.get("body", b""))
            more = message.get("more_body", False)
        body = _with(b"".join(parts), told)
        headers = [(name, value) for name, value in scope["headers"] if name != b"content-length"]
        headers.append((b"content-length", str(len(body)).encode()))
        given = False

        async def again() -> _Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        return await self.app({**scope, "headers": headers}, again, send)


def _with(body: bytes, told: dict[str, str]) -> bytes:
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):  # RecursionError: brackets nested too deeply
        return body
    if not isinstance(parsed, dict):
        return body
    known = parsed.get("vllm_xargs") or {}
    if not isinstance(known, dict):
        return body
    parsed["vllm_xargs"] = {**told, **known, **{name: told[name] for name in (_TENANT,) if name in told}}
    return json.dumps(parsed).encode()
