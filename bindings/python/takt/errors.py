"""The exceptions of takt. Each names the invalid field, option or request."""

from __future__ import annotations

from typing import NamedTuple

from . import _abi as abi

__all__ = ["TaktError", "OptionError", "RequestError", "FaultError", "Fault", "ToolError"]

_STATUSES, _FAULTS = abi.ENUMS["TAKT_OK"], abi.ENUMS["TAKT_FAULT_NONE"]


class TaktError(Exception):
    """Base class of takt's exceptions. ``status`` is the status of the C interface, for example
    ``"TAKT_E_INVALID"``."""

    def __init__(self, message: str, status: int = abi.TAKT_E_INVALID) -> None:
        super().__init__(message)
        self.status = f"TAKT_{_STATUSES[status].upper()}" if status in _STATUSES else str(status)


class OptionError(TaktError, ValueError):
    """One or more options are invalid; the text names each of them."""


def _shown(value: object) -> str:
    try:
        shown = repr(value)
    except Exception:  # repr fails on an int of more than 4,300 digits
        return f"a {type(value).__name__}"
    return shown if len(shown) <= 200 else f"{shown[:200]}..."


class RequestError(TaktError, ValueError):
    """A field is invalid, and the call had no effect. ``field`` is its name, ``value`` the invalid value."""

    def __init__(self, field: str, value: object, why: str) -> None:
        super().__init__(f"{field} is {_shown(value)}: {why}")
        self.field = field
        self.value = value


class Fault(NamedTuple):
    """An invalid input of the host; docs/reference/mistakes.md lists the kinds.

    ``kind`` is a name such as ``"id_in_use"``. ``faults`` counts all faults of the handle, including this one. ``step``
    is the plan whose results were invalid, ``request`` the request involved (0: none), ``at`` the time of the call
    [ns]. ``received`` is the received number and ``expected`` the valid one; below 0: no number was valid. ``lane`` is None
    if the fault is not in a row of results.
    """

    kind: str
    faults: int
    step: int
    request: int
    at: int
    received: int
    expected: int
    lane: int | None

    @classmethod
    def of(cls, told: abi.takt_fault) -> Fault:
        lane = None if told.lane == 0xFFFFFFFF else told.lane
        kind = _FAULTS.get(told.kind, str(told.kind))
        return cls(kind, told.count, told.step, told.request, told.at, told.received, told.expected, lane)

    def __str__(self) -> str:
        text = f"{self.kind}: request {self.request}" if self.request else self.kind
        if self.lane is not None:
            text += f", lane {self.lane} of step {self.step}"
        text += f", received {self.received}"
        return text + (f", expected {self.expected}" if self.expected >= 0 else "")


class FaultError(TaktError):
    """An input was invalid and ignored; the rest of the call took effect. ``fault`` describes it."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault))
        self.fault = fault


class ToolError(TaktError):
    """The ``takt`` tool failed; the text is its error output. ``code`` is its exit code: 1 failed, 2 wrong usage."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code
