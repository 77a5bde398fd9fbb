"""Finds and loads libtakt_c, and provides helpers for all handles."""

from __future__ import annotations

import ctypes
import math
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from . import _abi as abi
from .errors import Fault, OptionError, RequestError, TaktError

I64 = (-(2**63), 2**63 - 1)

NATIVE = Path(__file__).resolve().parent / "_native"

StructT = TypeVar("StructT", bound=ctypes.Structure)


def _load() -> ctypes.PyDLL:
    # TAKT_LIBRARY selects another build of the library, for example one with assertions.
    path = os.environ.get("TAKT_LIBRARY") or str(NATIVE / "libtakt_c.so.0")
    try:
        # PyDLL keeps the interpreter lock: a call takes microseconds, but getting the lock back may take milliseconds.
        library = ctypes.PyDLL(path)
    except OSError as error:
        raise ImportError(f"takt: cannot load {path}: {error}") from error
    library.takt_abi_version.restype = ctypes.c_uint32
    if library.takt_abi_version() != abi.TAKT_ABI_VERSION:
        raise ImportError(
            f"takt: {path} has version {library.takt_abi_version()} of the C interface, "
            f"but this package needs version {abi.TAKT_ABI_VERSION}"
        )
    for name, (result, arguments) in abi.FUNCTIONS.items():
        function = getattr(library, name, None)
        if function is None:
            raise ImportError(f"takt: {path} has no {name}: it belongs to another release")
        function.restype = result
        function.argtypes = arguments
    return library


lib = _load()
version: str = lib.takt_version().decode()


def initialised(kind: type[StructT]) -> StructT:
    """Returns a struct with takt's defaults."""
    made = kind()
    name = f"{kind.__name__}_init"
    if name in abi.FUNCTIONS:
        getattr(lib, name)(ctypes.addressof(made), ctypes.sizeof(made))
    else:
        made.struct_size = ctypes.sizeof(made)
    return made


def check(status: int, call: str) -> None:
    """Raises the exception for a status other than TAKT_OK."""
    if status == abi.TAKT_OK:
        return
    if status == abi.TAKT_E_NOMEM:
        raise MemoryError(f"{call}: out of memory")
    name = lib.takt_status_name(status).decode()
    if status == abi.TAKT_E_BUSY:
        raise TaktError(f"{call}: called from within a callback of the same handle ({name})", status)
    if status in (abi.TAKT_E_HANDLE, abi.TAKT_E_NULL):
        raise TaktError(f"{call}: the handle has been closed ({name})", status)
    raise TaktError(f"{call}: {name}", status)


def check_options(status: int, call: str, error: abi.takt_error) -> None:
    """Like check, with the library's error text."""
    text = error.text.decode(errors="replace").strip()
    if status == abi.TAKT_E_INVALID:
        raise OptionError(text or f"{call}: an option is invalid", status)
    if status not in (abi.TAKT_OK, abi.TAKT_E_NOMEM) and text:
        raise TaktError(text, status)
    check(status, call)


def field_types(kind: type[ctypes.Structure]) -> dict[str, Any]:
    """Returns the type of each field."""
    return {field[0]: field[1] for field in kind._fields_}


def whole(field: str, value: object, bounds: tuple[int, int]) -> int:
    """Returns the value as a C integer; accepts numpy integers. `RequestError` if it is not an integer or is out of
    bounds."""
    try:
        number = value.__index__()  # type: ignore[attr-defined]
    except (AttributeError, TypeError):  # an array has __index__, but it raises
        raise RequestError(field, value, "must be a whole number") from None
    if isinstance(value, bool) or not bounds[0] <= number <= bounds[1]:
        raise RequestError(field, value, f"must be a whole number from {bounds[0]} to {bounds[1]}")
    return int(number)


def real(field: str, value: object) -> float:
    """Returns the value as a C double. `RequestError` if it is a text, NaN, or infinite."""
    try:
        number = math.nan if isinstance(value, (str, bytes, bool)) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise RequestError(field, value, "must be a number")
    return number


def flag(field: str, value: object) -> int:
    """Returns 1 for True or 1, and 0 for False or 0. `RequestError` for any other value."""
    if type(value).__name__ in ("bool", "bool_"):  # also numpy's
        return int(bool(value))
    try:
        return whole(field, value, (0, 1))
    except RequestError:
        raise RequestError(field, value, "must be True or False") from None


def moment(now: int | None) -> int:
    """Returns `now` [ns], or the time of the monotonic clock if it is None."""
    return time.monotonic_ns() if now is None else whole("now", now, I64)


def text(of: bytes | None) -> str:
    return of.decode() if of is not None else ""


def changed(options: Mapping[str, int | float | str | None]) -> bytes | None:
    """Returns options as NAME=VALUE,... for C. None is no limit."""
    told = []
    for name, value in options.items():
        if not isinstance(value, (int, float, str, type(None))):
            raise TypeError(f"{name} is {value!r}; expected a number, a text or None")
        if isinstance(value, str) and "," in value:
            raise OptionError(f"{name} is {value!r}; expected a text without commas")
        told.append(f"{name}={'forever' if value is None else str(value).lower()}")
    return encoded("changes", ",".join(told))


def encoded(field: str, of: str | None, errors: str = "strict") -> bytes | None:
    """Returns a text as bytes for C. `RequestError` if C would read a different text."""
    if of is None:
        return None
    if not isinstance(of, str):
        raise RequestError(field, of, "must be a text")
    if "\0" in of:
        raise RequestError(field, of, "must not contain a null character")
    try:
        return of.encode(errors=errors)
    except UnicodeEncodeError:
        raise RequestError(field, of, "must be a text of whole characters") from None


def last_fault(function: Any, handle: ctypes.c_void_p) -> Fault | None:
    told = abi.takt_fault(struct_size=ctypes.sizeof(abi.takt_fault))
    check(function(handle, ctypes.addressof(told)), "last_fault")
    return Fault.of(told) if told.count else None


def read_stats(function: Any, handle: ctypes.c_void_p) -> dict[str, int]:
    n = function(handle, None, 0)
    stats = (abi.takt_stat * n)()
    function(handle, ctypes.addressof(stats), n)
    return {text(stat.name): stat.value for stat in stats}


class Names(dict[int, str]):
    """Names of an enum's numbers. A number from a newer library is named by its digits."""

    def __missing__(self, number: int) -> str:
        return str(number)

    def numbers(self, *chosen: str) -> dict[str, int]:
        """Returns the numbers of these names; of all names if none is given."""
        return {name: number for number, name in self.items() if not chosen or name in chosen}


def names(first: str) -> Names:
    """Returns the names of the enum that begins with this constant: "TAKT_IDLE_BUSY" gives {0: "busy", ...}."""
    return Names(abi.ENUMS[first])


def items(field: str, value: object) -> list[tuple[Any, Any]]:
    """Returns the pairs of a mapping; None gives an empty list."""
    if value is None:
        return []
    if not isinstance(value, Mapping):
        raise RequestError(field, value, "must be a mapping")
    return list(value.items())


def chosen(field: str, value: object, choices: dict[str, int]) -> int:
    """Returns the number of a name."""
    number = choices.get(value) if isinstance(value, str) else None
    if number is None:
        raise RequestError(field, value, f"must be one of {', '.join(choices)}")
    return number


class Single:
    """An object that owns or shares memory of the library. It must not be copied, because a copy would outlive that
    memory."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError(f"cannot copy or pickle a {type(self).__name__}: it owns or shares memory of the library")
