"""takt's order in vLLM: ``vllm serve MODEL --scheduler-cls takt.vllm.TaktScheduler``.

takt is the order, and vLLM stays the planner: it admits, counts KV, preempts and batches as before, and asks takt who is
next. docs/howto/vllm.md tells what can be chosen and what a client can say of itself.
"""

from __future__ import annotations

from .options import Options
from .scheduler import TaktScheduler, TaktSyncScheduler

__all__ = ["Options", "TaktScheduler", "TaktSyncScheduler"]
