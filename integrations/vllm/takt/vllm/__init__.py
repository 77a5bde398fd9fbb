"""takt's order in vLLM: ``vllm serve MODEL --scheduler-cls takt.vllm.TaktScheduler``.

takt is the order, and vLLM stays the planner: it admits, counts KV, preempts and batches as before, and asks takt who is
next. docs/howto/vllm.md tells what can be chosen and what a client can say of itself.
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
    from . import scheduler  # which needs vLLM

    return getattr(scheduler, name)
