"""Arrays of structs that the library writes and reads: numpy's where numpy is there, else those of ctypes."""

from __future__ import annotations

import ctypes
import sys
from typing import TYPE_CHECKING, Any

from . import _abi as abi

if TYPE_CHECKING:
    import numpy

try:
    if "numpy" in sys.modules and sys.modules["numpy"] is None:  # switched off, for tests
        raise ImportError
    import numpy
except ImportError:
    HAS_NUMPY = False
else:
    HAS_NUMPY = True


def make(kind: type[ctypes.Structure], n: int) -> tuple[Any, int]:
    """n zeros of a struct, and their address."""
    if HAS_NUMPY:
        array = numpy.zeros(n, dtype=numpy.dtype(kind))
        return array, int(array.ctypes.data)
    made = (kind * n)()
    return made, ctypes.addressof(made)


def first(array: Any, n: int) -> Any:
    """The first n elements, sharing memory."""
    if HAS_NUMPY:
        return array[:n]
    view = (array._type_ * n).from_buffer(array)
    return view


def as_planned(rows: Any, run: Any, n: int) -> Any:
    """Results that say what the entries of a plan said."""
    if HAS_NUMPY:
        rows["request"] = run["request"]
        rows["lane"] = run["lane"]
        rows["tokens"] = (run["flags"] & abi.TAKT_ENTRY_SAMPLES) >> 1
        rows["drafts"] = 0
        rows["flags"] = 0
        return rows
    for row, entry in zip(rows, run):
        row.request, row.lane = entry.request, entry.lane
        row.tokens = 1 if entry.flags & abi.TAKT_ENTRY_SAMPLES else 0
        row.drafts = row.flags = 0
    return rows


def tuples(run: Any) -> list[tuple[int, ...]]:
    """Elements as tuples of Python's ints."""
    if HAS_NUMPY:
        found: list[tuple[int, ...]] = run.tolist()
        return found
    names = [name for name, *_ in run._type_._fields_]
    return [tuple(getattr(each, name) for name in names) for each in run]


def index_of(run: Any, request: int) -> int:
    """Where an entry of this request stands; -1: nowhere."""
    if HAS_NUMPY:
        found = (run["request"] == request).nonzero()[0]
        return int(found[0]) if len(found) else -1
    for i, entry in enumerate(run):
        if entry.request == request:
            return i
    return -1


def address_of(rows: Any, kind: type[ctypes.Structure]) -> tuple[int, Any]:
    """The address of rows that a caller hands back, and what must stay alive meanwhile."""
    if HAS_NUMPY and isinstance(rows, numpy.ndarray):
        wanted = numpy.dtype(kind)
        if rows.dtype != wanted or rows.ndim != 1:
            raise TypeError(f"results must have the dtype {wanted} and one dimension; Plan.results() makes such")
        if not rows.flags.c_contiguous:
            rows = rows.copy()
        return int(rows.ctypes.data), rows
    if isinstance(rows, ctypes.Array) and rows._type_ is kind:
        return ctypes.addressof(rows), rows
    raise TypeError("results must be an array that Plan.results() has made, or a part of it")
