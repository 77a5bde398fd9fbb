"""Sweeps: a grid of replays on any executor, with a store from which an interrupted sweep resumes."""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import inspect
import itertools
import json
import os
import subprocess
import tempfile
import threading
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import (
    FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, ThreadPoolExecutor, wait,
)  # fmt: skip
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from . import _tool, workloads
from ._library import real
from ._library import version as takt_version
from ._library import whole
from .errors import RequestError, TaktError
from .replays import Table, Workload, replay

__all__ = ["Sweep", "sweep"]

_FORMAT = 1  # of the store
_SUBMITTED = 512  # maximum cells that an executor holds, so that large workloads are not copied for each cell at once
_FIRST, _LAST = ("workload", "profile"), ("load", "policy", "estimates", "seed")  # the rest varies between these
_NOT_SWEPT = ("by", "html", "progress", "requests", "sweep", "threads")
_ARGUMENTS = [name for name in inspect.signature(replay).parameters if name not in _NOT_SWEPT]
_ORDER = [*_FIRST, *(name for name in _ARGUMENTS if name not in _FIRST + _LAST), *_LAST]


class Cancel(Protocol):
    """An object such as `threading.Event`."""

    def is_set(self) -> bool: ...


class Sweep(Table):
    """The table of a sweep, one row per finished cell, in the order of the grid.

    A row has the cell's arguments, ``error`` (None, or the text of the failure), ``warnings`` of the tool, and the
    figures of `Report`. ``cells`` is the number of cells of the grid; a cancelled sweep has fewer rows.
    """

    cells: int

    @property
    def failed(self) -> list[dict[str, Any]]:
        """The rows of failed cells."""
        return [row for row in self if row["error"] is not None]


class _Source(NamedTuple):
    """A workload for any machine: ``content`` (gzipped workflow JSONL), or ``text`` for the tool if it is None."""

    text: str
    content: bytes | None
    digest: str | None  # of the content or the file


class _Job(NamedTuple):
    """One cell, for any process."""

    group: str
    version: str
    label: str
    source: _Source
    arguments: dict[str, Any]


class _Group:
    """The tools that threads of this process run for one sweep."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.children: set[subprocess.Popen[bytes]] = set()
        self.stopped = False

    def add(self, child: subprocess.Popen[bytes]) -> None:
        with self.lock:
            self.children = {each for each in self.children if each.returncode is None} | {child}
            stopped = self.stopped
        if stopped:
            _tool.stop(child)

    def stop(self) -> None:
        with self.lock:
            self.stopped = True
            children = list(self.children)
        _tool.stop(*children)


_process = os.urandom(8).hex()  # a forked process has the same, but another id
_groups: dict[str, _Group] = {}


def _run(job: _Job) -> tuple[dict[str, Any] | None, str]:
    """Runs a cell, in any thread, process or machine. Returns its figures, or None and the text of the failure."""
    if job.version != takt_version:
        return None, f"takt is {takt_version} on {os.uname().nodename}, but the sweep began with {job.version}"
    if job.group.startswith(f"{_process}-{os.getpid()}-"):
        group = _groups.get(job.group)
        if group is None:
            return None, "the sweep has ended"
        _tool.started.hook = group.add
    try:
        with tempfile.TemporaryDirectory(prefix="takt-") as folder:
            path = job.source.text
            if job.source.content is not None:
                path = os.path.join(folder, "workload.jsonl.gz")
                Path(path).write_bytes(job.source.content)
            try:
                report = replay(path, **job.arguments, threads=1, progress=False)
            except Exception as error:
                text = str(error) if isinstance(error, TaktError) else f"{type(error).__name__}: {error}"
                return None, text.replace(path, job.label)
        warned = "; ".join(str(each) for each in report.json["warnings"]).replace(path, job.label)
        return {"warnings": warned, "saturation_rps": report.json.get("saturation_rps"), **report[0]}, ""
    finally:
        _tool.started.hook = None


def _plain(name: str, value: Any) -> Any:
    """Returns the value of an argument as JSON has it."""
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(f"{name}.{key}", each) for key, each in value.items()}
    if type(value).__name__ == "bool_":  # numpy's
        return bool(value)
    if hasattr(value, "__index__"):
        return whole(name, value, (-(2**63), 2**63 - 1))
    return real(name, value)


def _values(name: str, value: Any) -> list[Any]:
    """Returns the values of an argument: one, or several."""
    if value is None or isinstance(value, (str, bytes, Path, Mapping)) or not isinstance(value, Iterable):
        value = [value]
    elif isinstance(value, (set, frozenset)):
        raise RequestError(name, value, "must be a list, because a set has no order")
    values = [_plain(name, each) for each in value]
    if not values:
        raise RequestError(name, values, "must have at least one value")
    for i, each in enumerate(values):
        if each in values[:i]:
            raise RequestError(name, each, "must not be in the list twice")
    return values


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _file(path: str) -> str | None:
    """Returns the digest of a file; None if the path is not a file, or a file that the tool will refuse."""
    if path == "bundled" or path.startswith("gen:"):
        return None
    try:
        return _digest(Path(path).read_bytes()) if os.path.isfile(path) else None
    except (OSError, ValueError):
        return None


def _sources(workload: Any) -> dict[str, _Source]:
    """Returns the workloads by the names that the table shows."""
    named: dict[str, Any] = {}
    if isinstance(workload, (str, Path)):
        named[str(workload)] = workload
    elif isinstance(workload, Mapping):
        named = {str(name): each for name, each in workload.items()}
    elif not isinstance(workload, Iterable):
        raise RequestError("workload", workload, "must be files, generators, or lists of workflows")
    else:
        header = workload if isinstance(workload, workloads.Workflows) else list(workload)
        if header and all(isinstance(each, Mapping) for each in header):
            named["workflows"] = header
        else:
            for number, each in enumerate(header):
                name = str(each) if isinstance(each, (str, Path)) else f"workload[{number}]"
                if name in named:
                    raise RequestError("workload", name, "must not be in the list twice")
                named[name] = each
    if not named:
        raise RequestError("workload", workload, "must have at least one value")
    return {name: _source(name, each) for name, each in named.items()}


def _source(name: str, workload: Any) -> _Source:
    if isinstance(workload, (str, Path)):
        text = str(workload)
        digest = _file(text)
        return _Source(text if digest is None else os.path.abspath(text), None, digest)
    if not isinstance(workload, Sequence):
        raise RequestError(f"workload.{name}", workload, "must be a file, a generator, or a list of workflows")
    with tempfile.TemporaryDirectory(prefix="takt-") as folder:
        path = Path(folder, "workload.jsonl")
        workloads.write(workload, path)
        content = path.read_bytes()
    return _Source("", gzip.compress(content, mtime=0), _digest(content))


def _shown(name: str, value: Any) -> Any:
    """Returns the value of an argument as a row has it."""
    if not isinstance(value, dict):
        return value
    return workloads.columns_text(value) if name == "columns" else ",".join(f"{k}={each}" for k, each in value.items())


class _Store:
    """A file of JSON lines: a header with the grid, and a line for each finished cell.

    Each line ends with a digest of the rest. One write appends a line, and fsync follows. The header, and the whole
    file at the end, replace the file in one step. A crash leaves at most one incomplete line, the last.
    """

    def __init__(self, path: Path, header: dict[str, Any], cells: Sequence[dict[str, Any]]) -> None:
        self.path = path
        self.header = header
        self.cells = cells
        self.figures: dict[int, dict[str, Any]] = {}
        self.file = -1
        _stores.add(self)
        try:
            self._open()
        except OSError as error:
            self.close()
            raise RequestError("store", str(path), f"must be a file that takt can write: {error}") from error
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        while True:
            self.file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
            self._lock()
            if self._is_the_file():
                break
            os.close(self.file)  # another sweep replaced the file before the lock was taken
            self.file = -1
        lines = self.path.read_bytes().split(b"\n")
        if lines == [b""]:
            self.rewrite()
            return
        self._check_header(lines[0])
        whole_lines = not lines[-1]
        damaged = [(number, why) for number, line in enumerate(lines[1:], 2) if line and (why := self._read(line))]
        for number, why in damaged:
            if number == len(lines):
                why = "the line is incomplete"
            warnings.warn(f"{self.path}:{number}: {why}; its cell runs again", RuntimeWarning, stacklevel=4)
        if damaged or not whole_lines:
            self.rewrite()

    def _is_the_file(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self.file), os.stat(self.path))
        except FileNotFoundError:
            return False

    def _lock(self) -> None:
        limit = time.monotonic() + 1  # a tool that a killed sweep was starting has the file open until exec
        while True:
            try:
                fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > limit:
                    raise RequestError("store", str(self.path), "is in use by another sweep") from None
                time.sleep(0.01)
            except OSError:  # a file system without locks
                return

    def _check_header(self, line: bytes) -> None:
        found = _unsealed(line)
        if found is None or "takt_sweep" not in found:
            raise RequestError("store", str(self.path), "must be new, or a store of takt.sweep: line 1 is no header")
        flat, wanted = _fields(found), _fields(json.loads(json.dumps(self.header)))
        for name in [*wanted, *(name for name in flat if name not in wanted)]:
            if flat.get(name) != wanted.get(name):
                why = f"expected {wanted.get(name)!r}; {self.path} belongs to another sweep, so choose another store"
                raise RequestError(f"store.{name}", flat.get(name), why)

    def _read(self, line: bytes) -> str:
        """Reads the line of a cell, and returns its fault; an empty text if it has none."""
        found = _unsealed(line)
        if found is None:
            return "the line is damaged"
        cell, figures = found.get("cell"), found.get("figures")
        if not isinstance(cell, int) or not 0 <= cell < len(self.cells) or found.get("arguments") != self.cells[cell]:
            return "the line is of no cell of the grid"
        if not isinstance(figures, dict):
            return "the line has no figures"
        self.figures[cell] = figures
        return ""

    def add(self, cell: int, figures: dict[str, Any]) -> None:
        self.figures[cell] = figures
        data = self._line(cell)
        while data:
            data = data[os.write(self.file, data) :]
        os.fsync(self.file)

    def rewrite(self) -> None:
        """Replaces the file by one with the finished cells in the order of the grid."""
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}.tmp")
        old, self.file = self.file, os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o666)
        try:
            self._lock()
            with open(self.file, "wb", closefd=False) as out:
                out.write(_sealed(self.header))
                out.writelines(self._line(cell) for cell in sorted(self.figures))
            os.fsync(self.file)
            os.replace(temporary, self.path)
        except BaseException:
            temporary.unlink()
            raise
        finally:
            os.close(old)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _line(self, cell: int) -> bytes:
        return _sealed({"cell": cell, "arguments": self.cells[cell], "figures": self.figures[cell]})

    def close(self) -> None:
        _stores.discard(self)
        if self.file >= 0:
            os.close(self.file)
            self.file = -1


_stores: set[_Store] = set()


def _close_stores() -> None:
    """Closes the stores in a forked process, which would otherwise keep the lock after the end of the sweep."""
    for store in list(_stores):
        store.close()


os.register_at_fork(after_in_child=_close_stores)


def _sealed(record: dict[str, Any]) -> bytes:
    """Returns the record as a line that ends with its digest."""
    text = json.dumps(record)
    return f'{text[:-1]}, "digest": "{_digest(text.encode())}"}}\n'.encode()


def _unsealed(line: bytes) -> dict[str, Any] | None:
    """Returns the record of a line; None if the line is damaged."""
    try:
        record = json.loads(line)
        digest = record.pop("digest")
        return record if digest == _digest(json.dumps(record).encode()) else None
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
        return None


def _fields(header: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of a header; an argument of the grid is a field of its own."""
    flat = {key: value for key, value in header.items() if not isinstance(value, dict)}
    for group in ("grid", "content"):
        prefix = "" if group == "grid" else "content of "
        flat.update((prefix + key, value) for key, value in dict(header.get(group) or {}).items())
    return flat


def sweep(
    workload: Workload | Sequence[Workload] | Mapping[str, Workload] = "bundled",
    policy: str | Iterable[str] = ("fcfs", "room_to_pass"),
    *,
    store: str | Path | None = None,
    executor: Executor | None = None,
    workers: int | None = None,
    progress: bool | _tool.Progress | None = None,
    cancel: Cancel | None = None,
    **arguments: Any,
) -> Sweep:
    """Replays each cell of a grid: all combinations of the values of the arguments.

    ``workload``: one or several, or a dict of names and workloads. ``policy``, and each further argument of `replay`
    (``load``, ``profile``, ``seed``, ``estimates``, ``instances``, ...): one value, or a list of values. A generator
    without a seed gets the cell's ``seed``. ``store``: file that keeps finished cells; a sweep with the same arguments
    resumes from it. ``executor``: any `concurrent.futures.Executor`; by default, ``workers`` processes of the tool run
    at a time (None: one per core). ``progress``: as for `replay`. ``cancel``: an event, such as `threading.Event`; after it
    is set, the sweep returns the finished cells.

    The table and the completed store have the same bytes for every executor. A cell that fails has a row with its
    ``error``, and runs again if the sweep resumes. Ctrl-C stops the sweep and raises KeyboardInterrupt; the store keeps
    the finished cells. `RequestError` names an invalid argument, or the field in which the store differs.
    """
    for name, value in arguments.items():
        if name in _NOT_SWEPT:
            raise RequestError(name, value, "is not supported by takt.sweep")
        if name not in _ARGUMENTS:
            raise RequestError(name, value, "is no argument of takt.replay")
    if executor is not None and workers is not None:
        raise RequestError("workers", workers, "must be None if executor is given")
    if executor is not None and not hasattr(executor, "submit"):
        raise RequestError("executor", executor, "must be a concurrent.futures.Executor")
    count = whole("workers", os.cpu_count() or 1 if workers is None else workers, (1, 2**16))
    sources = _sources(workload)
    grid: dict[str, list[Any]] = {"workload": list(sources)}
    given = {"estimates": "oracle", **arguments, "policy": policy}
    grid.update((name, _values(name, given[name])) for name in _ORDER if name in given)
    cells = [dict(zip(grid, values)) for values in itertools.product(*grid.values())]
    for each in grid["policy"] + grid["estimates"]:
        if not isinstance(each, str):
            raise RequestError("policy" if each in grid["policy"] else "estimates", each, "must be a name")

    files = {name: source.digest for name, source in sources.items() if source.digest is not None}
    profiles = {each: digest for each in grid.get("profiles", []) if each and (digest := _file(each)) is not None}
    files.update((f"profile {each}", digest) for each, digest in profiles.items())
    header = {"takt_sweep": _FORMAT, "takt": takt_version, "grid": grid, "content": files}
    kept = None if store is None else _Store(Path(store), header, cells)
    try:
        running = _Running(cells, sources, kept, _tool.progress_of(progress), cancel)
        if executor is not None:
            running.run(executor)
        else:
            with ThreadPoolExecutor(min(count, len(cells)), "takt-sweep") as threads:
                running.run(threads)
        if kept is not None and len(running.rows) == len(cells):
            kept.rewrite()
        table = Sweep(running.rows[cell] for cell in sorted(running.rows))
        table.cells = len(cells)
        return table
    finally:
        if kept is not None:
            kept.close()


class _Running:
    """The cells of a sweep while it runs. ``rows``: finished and failed cells."""

    def __init__(
        self,
        cells: Sequence[dict[str, Any]],
        sources: Mapping[str, _Source],
        store: _Store | None,
        progress: _tool.Progress | None,
        cancel: Cancel | None,
    ) -> None:
        self.cells, self.sources, self.store = cells, sources, store
        self.progress, self.cancel = progress, cancel
        self.rows: dict[int, dict[str, Any]] = {}
        self.failures = 0
        self.group = f"{_process}-{os.getpid()}-{os.urandom(8).hex()}"
        for cell, figures in (store.figures if store is not None else {}).items():
            self._finish(cell, figures, "")

    def run(self, executor: Executor) -> None:
        waiting = iter([cell for cell in range(len(self.cells)) if cell not in self.rows])
        futures: dict[Future[Any], int] = {}
        group = _groups[self.group] = _Group()
        try:
            self._show()
            while not (self.cancel is not None and self.cancel.is_set()):
                for cell in itertools.islice(waiting, _SUBMITTED - len(futures)):
                    futures[executor.submit(_run, self._job(cell))] = cell
                if not futures:
                    break
                done, _ = wait(futures, timeout=None if self.cancel is None else 0.1, return_when=FIRST_COMPLETED)
                self._collect(futures, done)
                if done:
                    self._show()
        finally:
            unstarted = [future for future in futures if future.cancel()]
            for future in unstarted:
                del futures[future]
            try:
                self._collect_quietly(futures)
            finally:
                del _groups[self.group]
                group.stop()
                if self.progress is _tool._bar:
                    _tool._bar(1.0, "")

    def _collect_quietly(self, futures: dict[Future[Any], int]) -> None:
        """Keeps cells that have finished while the sweep ends; the reason for the end is raised elsewhere."""
        for future in [each for each in futures if each.done() and not each.cancelled() and each.exception() is None]:
            figures, error = future.result()
            if not error:
                self._finish(futures.pop(future), figures, error, new=True)

    def _collect(self, futures: dict[Future[Any], int], done: Iterable[Future[Any]]) -> None:
        for future in done:
            failure = CancelledError("by the executor") if future.cancelled() else future.exception()
            if isinstance(failure, (KeyboardInterrupt, BrokenExecutor)):
                raise failure
            figures, error = (None, f"{type(failure).__name__}: {failure}") if failure is not None else future.result()
            self._finish(futures.pop(future), figures, error, new=True)

    def _finish(self, cell: int, figures: dict[str, Any] | None, error: str, *, new: bool = False) -> None:
        if new and not error and self.store is not None and figures is not None:
            self.store.add(cell, figures)
        shown = {name: _shown(name, value) for name, value in self.cells[cell].items()}
        self.rows[cell] = {**shown, "error": error or None}
        self.rows[cell].update((name, value) for name, value in (figures or {}).items() if name not in shown)
        self.failures += error != ""

    def _show(self) -> None:
        if self.progress is not None:
            failed = f", {self.failures} failed" if self.failures else ""
            self.progress(len(self.rows) / len(self.cells), f"{len(self.rows)} of {len(self.cells)} cells{failed}")

    def _job(self, cell: int) -> _Job:
        arguments = dict(self.cells[cell])
        label = arguments.pop("workload")
        source = self.sources[label]
        if source.text.startswith("gen:") and ",seed=" not in source.text and arguments.get("seed") is not None:
            source = source._replace(text=f"{source.text},seed={arguments['seed']}")
        if arguments.get("profiles") is not None and os.path.isfile(arguments["profiles"]):
            arguments["profiles"] = os.path.abspath(arguments["profiles"])
        return _Job(self.group, takt_version, label, source, arguments)
