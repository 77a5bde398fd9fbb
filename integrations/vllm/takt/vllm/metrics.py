"""takt's counters on vLLM's /metrics. The engine runs in another process than the server, so the counters need
prometheus_client's directory, which vLLM takes from PROMETHEUS_MULTIPROC_DIR."""

from __future__ import annotations

import os
import time
from typing import Any

__all__ = ["Metrics"]

_HELP = {
    "requests": "requests that arrived",
    "admitted": "admissions, including those after a preemption",
    "requeued": "preemptions",
    "ended": "requests that ended by themselves",
    "aborted": "requests that were aborted or failed",
    "steps": "iterations",
    "gate_kept_out": "turns that the gate let wait, summed over iterations",
    "gate_doors": "turns that the gate admitted at any cost after a long wait",
    "system_lessons": "ended requests and waits from which the system has learned",
    "system_epochs": "tables of ranks published by the system",
    "faults": "exceptions inside takt, after which requests continue in vLLM's order",
}
_EVERY_S = 1.0
_made: dict[str, Any] = {}


class Metrics:
    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler
        self._told: dict[str, int] = {}
        self._next = 0.0
        self._on = "PROMETHEUS_MULTIPROC_DIR" in os.environ
        if self._on and not _made:
            from prometheus_client import Counter, Gauge

            for name, text in _HELP.items():
                _made[name] = Counter(f"takt_{name}", f"takt: {text}")
            _made["order_ns"] = Counter("takt_order_seconds", "takt: time spent on the order within schedule()")
            _made["waiting"] = Gauge("takt_waiting", "takt: waiting requests", multiprocess_mode="livesum")
            _made["on"] = Gauge("takt_on", "takt: engines that use takt's order", multiprocess_mode="livesum")
            _made["workflows"] = Gauge("takt_workflows", "takt: workflows alive", multiprocess_mode="livesum")

    def told(self) -> None:
        """Publishes the counters, at most once a second."""
        now = time.monotonic()
        if not self._on or now < self._next:
            return
        self._next = now + _EVERY_S
        scheduler = self._scheduler
        for name, value in scheduler.takt_counters.items():
            more = value - self._told.get(name, 0)
            if more:
                _made[name].inc(more * 1e-9 if name == "order_ns" else more)
                self._told[name] = value
        order = scheduler.takt_order
        _made["on"].set(order is not None)
        _made["waiting"].set(len(order.queue) if order is not None else 0)
        lengths = scheduler._takt_lengths
        _made["workflows"].set(len(lengths.workflows) if lengths is not None else 0)
