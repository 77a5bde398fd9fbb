"""Finds and loads libtakt_c, and the few things that every handle needs."""

from __future__ import annotations

import ctypes
import os
import time
from pathlib import Path
from typing import Any, TypeVar

from . import _abi as abi
from .errors import Fault, OptionError, TaktError

NATIVE = Path(__file__).resolve().parent / "_native"

StructT = TypeVar("StructT", bound=ctypes.Structure)


def _load() -> ctypes.PyDLL:
    # TAKT_LIBRARY names another build of the library, such as one with assertions.
    path = os.environ.get("TAKT_LIBRARY") or str(NATIVE / "libtakt_c.so.0")
    try:
        # The interpreter's lock is kept: a call takes microseconds, and to get the lock back may take milliseconds.
        library = ctypes.PyDLL(path)
    except OSError as error:
        raise ImportError(f"takt: cannot load {path}: {error}") from error
    library.takt_abi_version.restype = ctypes.c_uint32
    if library.takt_abi_version() != abi.TAKT_ABI_VERSION:
        raise ImportError(
            f"takt: {path} has version {library.takt_abi_version()} of the C interface, "
            f"and this package is of version {abi.TAKT_ABI_VERSION}"
        )
    for name, (result, arguments) in abi.FUNCTIONS.items():
        function = getattr(library, name, None)
        if function is None:
            raise ImportError(f"takt: {path} has no {name}: it is of another release")
        function.restype = result
        function.argtypes = arguments
    return library


lib = _load()
version: str = lib.takt_version().decode()


def initialised(kind: type[StructT]) -> StructT:
    """A struct with takt's own defaults."""
    made = kind()
    name = f"{kind.__name__}_init"
    if name in abi.FUNCTIONS:
        getattr(lib, name)(ctypes.addressof(made), ctypes.sizeof(made))
    else:
        made.struct_size = ctypes.sizeof(made)
    return made


def check(status: int, call: str) -> None:
    """Raises what a status other than TAKT_OK means."""
    if status == abi.TAKT_OK:
        return
    if status == abi.TAKT_E_NOMEM:
        raise MemoryError(f"{call}: memory has ended")
    name = lib.takt_status_name(status).decode()
    if status == abi.TAKT_E_BUSY:
        raise TaktError(f"{call}: called from within a callback of the same handle ({name})", status)
    if status in (abi.TAKT_E_HANDLE, abi.TAKT_E_NULL):
        raise TaktError(f"{call}: the handle has been closed ({name})", status)
    raise TaktError(f"{call}: {name}", status)


def check_options(status: int, call: str, error: abi.takt_error) -> None:
    """As check, with the text of what is wrong."""
    text = error.text.decode(errors="replace").strip()
    if status == abi.TAKT_E_INVALID:
        raise OptionError(text or f"{call}: an option cannot be meant", status)
    if status not in (abi.TAKT_OK, abi.TAKT_E_NOMEM) and text:
        raise TaktError(text, status)
    check(status, call)


def field_types(kind: type[ctypes.Structure]) -> dict[str, Any]:
    """The type of each field."""
    return {field[0]: field[1] for field in kind._fields_}


def moment(now: int | None) -> int:
    """The time of a call [ns]: what the host says, else the monotonic clock's."""
    return time.monotonic_ns() if now is None else now


def text(of: bytes | None) -> str:
    return of.decode() if of is not None else ""


def encoded(of: str | None) -> bytes | None:
    return None if of is None else of.encode()


def last_fault(function: Any, handle: ctypes.c_void_p) -> Fault | None:
    told = abi.takt_fault(struct_size=ctypes.sizeof(abi.takt_fault))
    check(function(handle, ctypes.addressof(told)), "last_fault")
    return Fault.of(told) if told.count else None


def read_stats(function: Any, handle: ctypes.c_void_p) -> dict[str, int]:
    n = function(handle, None, 0)
    stats = (abi.takt_stat * n)()
    function(handle, ctypes.addressof(stats), n)
    return {text(stat.name): stat.value for stat in stats}


def names(prefix: str, lower: bool = True) -> dict[int, str]:
    """Names of the numbers of an enum: {0: "busy", ...} of "TAKT_IDLE_"."""
    found = {value: name[len(prefix) :] for name, value in vars(abi).items() if name.startswith(prefix)}
    return {value: name.lower() for value, name in found.items()} if lower else found
