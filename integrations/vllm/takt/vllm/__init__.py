"""takt's order in vLLM: ``vllm serve MODEL --scheduler-cls takt.vllm.TaktScheduler``.

takt orders the requests, and vLLM plans: it admits, counts KV, preempts and batches as before, in takt's order.
docs/howto/vllm.md describes the options and the values that a client may send.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .headers import extra_body
from .options import Options

if TYPE_CHECKING:
    from .scheduler import TaktScheduler, TaktSyncScheduler

__all__ = ["Options", "TaktScheduler", "TaktSyncScheduler", "extra_body"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(name)
    from . import scheduler  # this import needs vLLM

    return getattr(scheduler, name)
