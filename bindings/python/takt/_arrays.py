"""Arrays of structs shared with the library: numpy arrays if numpy is installed, otherwise ctypes arrays."""

from __future__ import annotations

import ctypes
import sys
from typing import TYPE_CHECKING, Any

from . import _abi as abi
from ._library import Single

if TYPE_CHECKING:
    import numpy

try:
    if "numpy" in sys.modules and sys.modules["numpy"] is None:  # tests disable numpy this way
        raise ImportError
    import numpy
except ImportError:
    HAS_NUMPY = False
else:
    HAS_NUMPY = True
    _SAMPLES, _ONE = numpy.array([17], numpy.uint32), numpy.array([1], numpy.uint32)

_DTYPES: dict[type[ctypes.Structure], Any] = {}


def make(kind: type[ctypes.Structure], n: int) -> tuple[Any, int]:
    """Returns n zeroed structs, and their address."""
    if HAS_NUMPY:
        array = numpy.zeros(n, dtype=_DTYPES.get(kind) or _DTYPES.setdefault(kind, numpy.dtype(kind)))
        return array, int(array.ctypes.data)
    made = (kind * n)()
    return made, ctypes.addressof(made)


def first(array: Any, n: int) -> Any:
    """Returns a view of the first n elements."""
    if HAS_NUMPY:
        return array[:n]
    view = (array._type_ * n).from_buffer(array)
    return view


def as_planned(rows: Any, run: Any, n: int) -> Any:
    """Fills the results with the outcome that the plan expects."""
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


class Buffer(Single):
    """Entries and results of one plan."""

    __slots__ = ("_parts", "_run", "_words", "busy", "entries", "entries_at", "newest", "rows", "rows_at", "sliced")

    def __init__(self, n: int) -> None:
        self.entries, self.entries_at = make(abi.takt_plan_entry, n)
        self.rows, self.rows_at = make(abi.takt_row_result, n)
        self.busy = 0  # the plan in flight
        self.sliced, self._run = -1, first(self.entries, 0)
        self._parts: tuple[Any, ...] = ()
        self._words: Any = None
        self.newest: Any = None  # the newest results that results() returned
        if HAS_NUMPY and sys.byteorder == "little":
            # Three operations on words replace five on columns, which numpy copies one by one. An entry is {request},
            # {lane, tokens}, {position, speculative, flags}. A result is {request}, {lane, tokens, drafts, flags}.
            # Their first two words are the same except for the last half word, to which the "samples" flag moves from
            # bit 17.
            self._words = (
                self.rows.view(numpy.uint64).reshape(n, 2),
                self.entries.view(numpy.uint64).reshape(n, 3),
                self.rows.view(numpy.uint32).reshape(n, 4),
                self.entries.view(numpy.uint32).reshape(n, 6),
            )

    def _slice(self, n: int) -> None:
        """Caches views of the first n elements: creating a view costs as much as the work on it."""
        self._run = first(self.entries, n)
        self.sliced, self.newest = len(self._run), None
        if self._words is not None:
            rows, entries, half_rows, half_entries = self._words
            self._parts = (first(self.rows, n), rows[:n], entries[:n, :2], half_rows[:n, 3], half_entries[:n, 5])

    def run(self, n: int) -> Any:
        if n != self.sliced:
            self._slice(n)
        return self._run

    def results(self, n: int) -> Any:
        if n != self.sliced:
            self._slice(n)
        if self._words is None:
            self.newest = as_planned(first(self.rows, n), self._run, n)
            return self.newest
        rows, to, words, tokens, flags = self._parts
        numpy.copyto(to, words)
        numpy.right_shift(flags, _SAMPLES, tokens)
        numpy.bitwise_and(tokens, _ONE, tokens)
        self.newest = rows
        return rows


def tuples(run: Any) -> list[tuple[int, ...]]:
    """Returns the elements as tuples of Python ints."""
    if HAS_NUMPY:
        found: list[tuple[int, ...]] = run.tolist()
        return found
    names = [name for name, *_ in run._type_._fields_]
    return [tuple(getattr(each, name) for name in names) for each in run]


def index_of(run: Any, request: int) -> int:
    """Returns the index of the entry of this request; -1: none."""
    if HAS_NUMPY:
        found = (run["request"] == request).nonzero()[0]
        return int(found[0]) if len(found) else -1
    for i, entry in enumerate(run):
        if entry.request == request:
            return i
    return -1


def address_of(rows: Any, kind: type[ctypes.Structure]) -> tuple[int, int, Any]:
    """Returns the address of the caller's rows, their number, and an object that keeps them alive."""
    if HAS_NUMPY and isinstance(rows, numpy.ndarray):
        wanted = _DTYPES.get(kind) or _DTYPES.setdefault(kind, numpy.dtype(kind))
        if (rows.dtype is not wanted and rows.dtype != wanted) or rows.ndim != 1:
            raise TypeError(f"results must have the dtype {wanted} and one dimension; use Plan.results()")
        if not rows.flags.c_contiguous:
            rows = rows.copy()
        return int(rows.ctypes.data), int(rows.shape[0]), rows
    if isinstance(rows, ctypes.Array) and rows._type_ is kind:
        return ctypes.addressof(rows), int(rows._length_), rows
    if isinstance(rows, (list, tuple)) and all(isinstance(row, kind) for row in rows):  # a slice of such an array
        made = (kind * len(rows))(*rows)
        return ctypes.addressof(made), int(made._length_), made
    raise TypeError("results must be an array from Plan.results(), or a part of one")
