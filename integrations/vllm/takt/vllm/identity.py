"""Whose call a request of vLLM is: workflow, agent, tenant, deadline, from what its client has sent along."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vllm.v1.request import Request as VllmRequest

__all__ = ["Identity", "identity_of", "number_of"]

PREFIX = "takt_"
"""Of names in ``vllm_xargs``: takt_workflow, takt_agent, ... The headers X-Takt-Workflow, ... become these."""

TEXTS = ("workflow", "agent", "upstream", "stage", "tenant", "branch")
NUMBERS = ("deadline", "output_tokens", "workflow_tokens_left")
_NAMES = {PREFIX + name: name for name in (*TEXTS, *NUMBERS, "last")}


@dataclass
class Identity:
    workflow: str = ""
    """Empty: a workflow of its own."""
    agent: str = ""
    upstream: str = ""
    """The agent that caused the call."""
    stage: str = ""
    tenant: str = ""
    branch: str = ""
    deadline: float | None = None
    """Of the workflow: seconds from the call's arrival."""
    output_tokens: float | None = None
    """The client's own guess of the output's length [tokens]."""
    workflow_tokens_left: float | None = None
    """The client's own guess of all that is left of the workflow [tokens], this call with it."""
    last: bool = False
    """No call of the workflow comes after this one."""


def identity_of(request: VllmRequest) -> Identity:
    """From ``vllm_xargs``, else vLLM's session id, else the trace id of W3C's traceparent. What cannot be meant is left
    out: it comes from clients."""
    told: Mapping[str, Any] = {}
    for parameters in (request.sampling_params, request.pooling_params):
        extra = getattr(parameters, "extra_args", None)
        if isinstance(extra, Mapping):
            told = extra
            break
    found = Identity()
    for key, value in told.items():
        name = _NAMES.get(key)
        if name is None or isinstance(value, int) and not -(2**63) <= value < 2**64:  # Python has no text for the longest
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
            setattr(found, name, str(value)[:256].encode(errors="replace").decode())  # JSON may hold half a character
    if not found.workflow:
        session = getattr(request, "session_id", None)
        if isinstance(session, str) and session:
            found.workflow = "session:" + session[:256]
    if not found.workflow and request.trace_headers:
        parts = str(request.trace_headers.get("traceparent", "")).split("-")
        if len(parts) >= 4 and len(parts[1]) == 32 and set(parts[1]) != {"0"}:
            found.workflow = "trace:" + parts[1]
    return found


def number_of(text: str, tenant: str = "") -> int:
    """An id of takt's for a text that needs no way back; 0 for the empty one. Texts of two tenants have two ids."""
    if not text:
        return 0
    key = hashlib.blake2b(tenant.encode(errors="replace")).digest() if tenant else b""
    digest = hashlib.blake2b(text.encode(errors="replace"), digest_size=8, key=key).digest()  # of clients' names: no collisions
    return int.from_bytes(digest, "little") | 1
