"""Identity of a vLLM request: workflow, agent, tenant and deadline, from values that its client has sent."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vllm.v1.request import Request as VllmRequest

__all__ = ["Identity", "identity_of", "number_of"]

PREFIX = "takt_"
"""Prefix of names in ``vllm_xargs``: takt_workflow, takt_agent, ... The headers X-Takt-Workflow, ... become these."""

SESSION = PREFIX + "session"
"""Name in ``vllm_xargs`` of a coding agent's session, which a header names."""

TEXTS = ("workflow", "agent", "upstream", "stage", "tenant", "branch")
NUMBERS = ("deadline", "output_tokens", "workflow_tokens_left")
_NAMES = {PREFIX + name: name for name in (*TEXTS, *NUMBERS, "last")}


@dataclass
class Identity:
    workflow: str = ""
    """Empty: a workflow of its own."""
    agent: str = ""
    upstream: str = ""
    """Agent that caused the call."""
    stage: str = ""
    tenant: str = ""
    branch: str = ""
    deadline: float | None = None
    """Deadline of the workflow, from the call's arrival [s]."""
    output_tokens: float | None = None
    """The client's estimate of the output length [tokens]."""
    workflow_tokens_left: float | None = None
    """The client's estimate of the output left in the workflow, including this call [tokens]."""
    last: bool = False
    """True: the last call of the workflow."""


def identity_of(request: VllmRequest, sessions: bool = True) -> Identity:
    """Returns the identity from ``vllm_xargs``, else the session of a coding agent, else vLLM's session id, else the
    trace id of a W3C traceparent. If ``sessions`` is false, sessions have no effect. Invalid values, such as a blank
    name or one of more than 256 characters, are ignored, because clients send them."""
    told: Mapping[str, Any] = {}
    for parameters in (request.sampling_params, request.pooling_params):
        extra = getattr(parameters, "extra_args", None)
        if isinstance(extra, Mapping):
            told = extra
            break
    found = Identity()
    for key, value in told.items():
        name = _NAMES.get(key)
        if name is None or isinstance(value, int) and not -(2**63) <= value < 2**64:  # too long for str()
            continue
        if name == "last":
            found.last = value in (1, True) or isinstance(value, str) and value.lower() in ("1", "true", "yes", "1.0")
        elif name in NUMBERS:
            try:
                number = float(value)
            except (TypeError, ValueError, OverflowError):
                continue
            if 0 <= number <= 1e12:
                setattr(found, name, number)
        elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
            text = str(value).encode(errors="replace").decode()  # JSON may hold a lone surrogate
            if text.strip() and len(text) <= 256:
                setattr(found, name, text)
    if not found.workflow and sessions:
        for session in (told.get(SESSION), getattr(request, "session_id", None)):
            if isinstance(session, str) and session:
                found.workflow = "session:" + session[:256].encode(errors="replace").decode()
                break
    if not found.workflow and request.trace_headers:
        parts = str(request.trace_headers.get("traceparent", "")).split("-")
        if len(parts) >= 4 and len(parts[1]) == 32 and set(parts[1]) != {"0"}:
            found.workflow = "trace:" + parts[1]
    return found


def number_of(text: str, tenant: str = "") -> int:
    """Returns takt's id for a text; 0 for the empty text. The same text of two tenants gives two ids."""
    if not text:
        return 0
    key = hashlib.blake2b(tenant.encode(errors="replace")).digest() if tenant else b""
    digest = hashlib.blake2b(text.encode(errors="replace"), digest_size=8, key=key).digest()
    return int.from_bytes(digest, "little") | 1
