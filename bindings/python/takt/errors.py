"""What goes wrong, as exceptions. Each names the field, the option or the request that is at fault."""

from __future__ import annotations

from typing import NamedTuple

from . import _abi as abi

__all__ = ["TaktError", "OptionError", "RequestError", "FaultError", "Fault", "ToolError"]

_STATUSES, _FAULTS = abi.ENUMS["TAKT_OK"], abi.ENUMS["TAKT_FAULT_NONE"]


class TaktError(Exception):
    """Any error of takt. ``status`` is that of the C interface, such as ``"TAKT_E_INVALID"``, where there is one."""

    def __init__(self, message: str, status: int = abi.TAKT_E_INVALID) -> None:
        super().__init__(message)
        self.status = f"TAKT_{_STATUSES[status].upper()}" if status in _STATUSES else str(status)


class OptionError(TaktError, ValueError):
    """An option of a handle cannot be meant; the text names each that is at fault."""


def _shown(value: object) -> str:
    try:
        shown = repr(value)
    except Exception:  # an int of 5,000 digits has none
        return f"a {type(value).__name__}"
    return shown if len(shown) <= 200 else f"{shown[:200]}..."


class RequestError(TaktError, ValueError):
    """A field cannot be meant, and nothing has happened. ``field`` is its name, ``value`` what stood there."""

    def __init__(self, field: str, value: object, why: str) -> None:
        super().__init__(f"{field} is {_shown(value)}: {why}")
        self.field = field
        self.value = value


class Fault(NamedTuple):
    """The last thing that the host said and that cannot be: docs/reference/mistakes.md lists the kinds.

    ``kind`` is such as ``"id_in_use"``. ``faults`` counts all of the handle so far, with this one. ``step`` is the
    plan whose result it was in, ``request`` the request that it names (0: none), ``at`` the time of the call [ns].
    ``said`` and ``expected`` are the numbers, and an ``expected`` below 0 means that nothing would do. ``lane`` is None
    where the fault is not in a row of results.
    """

    kind: str
    faults: int
    step: int
    request: int
    at: int
    said: int
    expected: int
    lane: int | None

    @classmethod
    def of(cls, told: abi.takt_fault) -> Fault:
        lane = None if told.lane == 0xFFFFFFFF else told.lane
        kind = _FAULTS.get(told.kind, str(told.kind))
        return cls(kind, told.count, told.step, told.request, told.at, told.said, told.expected, lane)

    def __str__(self) -> str:
        text = f"{self.kind}: request {self.request}" if self.request else self.kind
        if self.lane is not None:
            text += f", lane {self.lane} of step {self.step}"
        text += f", said {self.said}"
        return text + (f", expected {self.expected}" if self.expected >= 0 else "")


class FaultError(TaktError):
    """A fact that cannot be was told, and was ignored. ``fault`` says which; everything else of the call holds."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault))
        self.fault = fault


class ToolError(TaktError):
    """The ``takt`` tool has failed; the text is what it said. ``code`` is its exit code: 1 failed, 2 wrong usage."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code
