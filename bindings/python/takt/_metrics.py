"""Metrics of schedulers and routers."""

from __future__ import annotations

import ctypes
from typing import Any

from . import _abi as abi
from ._handle import Handle
from ._library import check, check_options, chosen, encoded, initialised, lib, moment, real, whole
from ._library import names as names_of
from .errors import RequestError

_CLASS_BY = names_of("TAKT_CLASS_BY_PRIORITY").numbers()
_I64 = (-(2**63), 2**63 - 1)


class Measured(Handle):
    """A handle that can measure its requests (docs/reference/metrics.md)."""

    def _metric(self, name: str) -> Any:
        self._ready(name)
        return getattr(lib, f"takt_{self._kind}_{name}")

    def measure(
        self,
        by: str = "priority",
        *,
        max_classes: int | None = None,
        max_requests: int | None = None,
        window_s: float | None = None,
    ) -> None:
        """Measures all requests that arrive from now on, and forgets earlier figures.

        ``by``: the class of a request ("priority", "tenant", "agent" or "adapter"), a label of histograms.
        ``max_classes``: maximum label values, at most 64; later values share "other". ``max_requests``: maximum living
        requests that are measured. ``window_s``: time constant of the drain rate and the late share [s]. None: takt's
        default.
        """
        options, error = initialised(abi.takt_metrics_options), initialised(abi.takt_error)
        options.by = chosen("by", by, _CLASS_BY)
        for name, value in (("max_classes", max_classes), ("max_requests", max_requests)):
            if value is not None:
                setattr(options, name, whole(name, value, (-(2**31), 2**31 - 1)))
        if window_s is not None:
            options.window_s = real("window_s", window_s)
        measure = self._metric("measure")
        check_options(measure(self._handle, ctypes.byref(options), ctypes.byref(error)), "measure", error)

    def name_class(self, key: int, name: str) -> None:
        """Names the class of requests with this priority (or tenant, ...), before its first request. Classes with equal
        names are one."""
        error, text = initialised(abi.takt_error), encoded("name", name)
        name_class, key = self._metric("name_class"), whole("key", key, _I64)
        check_options(name_class(self._handle, key, text, ctypes.byref(error)), "name_class", error)

    def saturation(self, now: int | None = None) -> dict[str, float]:
        """Returns the load of the queue. Requires `measure`.

        - ``seconds_to_clear``: time until the waiting requests have rows or instances, at most 3600
        - ``drain_tokens_per_s``: rate at which waiting tokens left the queue
        - ``kv_share``: share of the KV cache in use; 0: unknown
        - ``late_share``: share of ended requests with a deadline or an expiry that were late
        - ``backlog_tokens``: context tokens of the waiting requests
        """
        told = initialised(abi.takt_saturation)
        check(self._metric("saturation")(self._handle, moment(now), ctypes.addressof(told)), "saturation")
        return {name: getattr(told, name) for name, *_ in told._fields_ if name not in ("struct_size", "reserved")}

    def metrics_text(self, now: int | None = None, *, names: str = "takt", model: str | None = None) -> str:
        """Returns all metrics in Prometheus' text format.

        ``names``: "takt", or the names that another program has for the same metrics (docs/reference/metrics.md).
        ``model``: label ``model_name`` of every sample. Without `measure`, the text has only counters and gauges.
        """
        text, n = ctypes.c_void_p(), ctypes.c_size_t()
        label, style = encoded("model", model, "surrogateescape"), encoded("names", names)
        write = self._metric("metrics")
        status = write(self._handle, moment(now), style, label, ctypes.byref(text), ctypes.byref(n))
        if status == abi.TAKT_E_INVALID:
            raise RequestError("names", names, "must be a column of the page of metrics")
        check(status, "metrics_text")
        return ctypes.string_at(text.value or 0, n.value).decode()
