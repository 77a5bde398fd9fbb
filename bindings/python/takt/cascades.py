"""A cascade of models: the first model answers a request, and a judge's score accepts the answer or escalates it."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from . import _abi as abi
from ._handle import Handle
from ._library import check, check_options, chosen, flag, initialised, lib, moment, names, read_stats, real, whole
from .errors import RequestError

__all__ = ["CascadeAction", "CascadeRouter", "CascadeStage"]

_U64, _I64, _I32 = (0, 2**64 - 1), (-(2**63), 2**63 - 1), (-(2**31), 2**31 - 1)
_VERDICTS = names("TAKT_VERDICT_AS_PLANNED").numbers()
_KINDS = names("TAKT_CASCADE_NONE")


@dataclass(frozen=True)
class CascadeStage:
    """A model of the cascade. ``accept_at``: minimum score at which an answer is accepted. ``escalated_share``: planned
    share of judged answers that escalate. ``served``: False: the plan gives it no GPUs, so it is skipped."""

    accept_at: float = 0.0
    escalated_share: float = 0.0
    served: bool = True


class CascadeAction(NamedTuple):
    """``kind``: "send" to the router of ``model``, "judge" the model's answer, "accept" it, "fail" the request, or
    "none": the event was ignored."""

    kind: str
    model: int
    request: int


def _stages(stages: Sequence[CascadeStage]) -> Any:
    told = list(stages)
    array = (abi.takt_cascade_stage * len(told))()
    for into, stage in zip(array, told):
        if not isinstance(stage, CascadeStage):
            raise RequestError("stages", stage, "must be a takt.CascadeStage")
        accept = stage.accept_at
        into.accept_at = accept if isinstance(accept, float) and math.isinf(accept) else real("accept_at", accept)
        into.escalated_share = real("escalated_share", stage.escalated_share)
        into.served = flag("served", stage.served)
    return array


class CascadeRouter(Handle):
    """Chooses the model for each request. Each model's own `Router` chooses an instance (docs/howto/cascade_router.md).

    ``on_missing``, ``on_late``: decision about an answer whose judge gave no score, or none within ``judge_timeout_s``:
    "as_planned" (escalate the planned share), "accept" or "escalate". Call `expire` at `wake_at`: then every request
    ends once, by "accept", "fail" or `cancelled`.
    """

    _kind = "cascade_router"

    def __init__(
        self,
        stages: Sequence[CascadeStage],
        *,
        judge_timeout_s: float = 2.0,
        on_missing: str = "as_planned",
        on_late: str = "as_planned",
        seed: int = 1,
        reserve_requests: int = 1024,
    ) -> None:
        super().__init__()
        array = _stages(stages)
        options = initialised(abi.takt_cascade_options)
        options.stages, options.n_stages = ctypes.cast(array, ctypes.POINTER(abi.takt_cascade_stage)), len(array)
        timeout = real("judge_timeout_s", judge_timeout_s) * 1e9
        options.judge_timeout = int(max(-(2.0**62), min(2.0**62, timeout)))
        options.on_missing = chosen("on_missing", on_missing, _VERDICTS)
        options.on_late = chosen("on_late", on_late, _VERDICTS)
        options.seed = whole("seed", seed, _U64)
        options.reserve_requests = whole("reserve_requests", reserve_requests, _I64)
        self._create(ctypes.byref(options))
        self._action = abi.takt_cascade_action()

    def _act(self, call: str, *arguments: Any) -> CascadeAction:
        function = getattr(lib, f"takt_cascade_router_{call}")
        check(function(self._ready(call), *arguments, ctypes.addressof(self._action)), call)
        return CascadeAction(_KINDS[self._action.kind], self._action.model, self._action.request)

    def arrived(self, request: int) -> CascadeAction:
        """Returns "send" to the first model."""
        return self._act("arrived", whole("request", request, _U64))

    def answered(self, request: int, model: int, now: int | None = None) -> CascadeAction:
        """Returns "judge", or "accept" for the last model."""
        return self._act("answered", whole("request", request, _U64), whole("model", model, _I32), moment(now))

    def judged(self, request: int, model: int, score: float | None, now: int | None = None) -> CascadeAction:
        """Returns "accept" or "send". ``score`` None: the judge gave none."""
        value = math.nan if score is None else real("score", score)
        number, stage = whole("request", request, _U64), whole("model", model, _I32)
        return self._act("judged", number, stage, value, moment(now))

    def failed(self, request: int, model: int) -> CascadeAction:
        """Returns "send" to the next model, "accept" of the last answer, or "fail"."""
        return self._act("failed", whole("request", request, _U64), whole("model", model, _I32))

    def cancelled(self, request: int) -> bool:
        """Forgets a request. Returns False if it is unknown."""
        status = lib.takt_cascade_router_cancelled(self._ready("cancelled"), whole("request", request, _U64))
        if status == abi.TAKT_E_INVALID:
            return False
        check(status, "cancelled")
        return True

    def expire(self, now: int | None = None) -> list[CascadeAction]:
        """Decides requests that have waited too long for a score."""
        found, n = ctypes.c_void_p(), ctypes.c_size_t()
        at = moment(now)
        status = lib.takt_cascade_router_expire(self._ready("expire"), at, ctypes.byref(found), ctypes.byref(n))
        check(status, "expire")
        told = (abi.takt_cascade_action * n.value).from_address(found.value or 0) if n.value else ()
        return [CascadeAction(_KINDS[each.kind], each.model, each.request) for each in told]

    @property
    def wake_at(self) -> int:
        """Time of the next `expire` [ns]; `NEVER`: no request waits for a score."""
        at = ctypes.c_int64()
        check(lib.takt_cascade_router_wake_at(self._ready("wake_at"), ctypes.byref(at)), "wake_at")
        return at.value

    def replan(self, stages: Sequence[CascadeStage]) -> None:
        """Sets the stages of a new plan, as many as before. Requests keep their models."""
        array = _stages(stages)
        error = initialised(abi.takt_error)
        self._ready("replan")
        status = lib.takt_cascade_router_replan(self._handle, ctypes.addressof(array), len(array), ctypes.byref(error))
        check_options(status, "replan", error)

    def model_of(self, request: int) -> int | None:
        """Returns the model that has the request, or whose answer is judged; None: the request is not alive."""
        model = ctypes.c_int32()
        number = whole("request", request, _U64)
        check(lib.takt_cascade_router_model_of(self._ready("model_of"), number, ctypes.byref(model)), "model_of")
        return None if model.value < 0 else model.value

    @property
    def stats(self) -> dict[str, int]:
        """Counters since creation."""
        return read_stats(lib.takt_cascade_router_stats, self._ready("stats"))
