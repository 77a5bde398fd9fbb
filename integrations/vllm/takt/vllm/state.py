"""A file of learnt state, which survives a restart of vLLM."""

from __future__ import annotations

import atexit
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from ..states import StateError, read_state, write_state

__all__ = ["StateFile", "number_in"]

logger = logging.getLogger("vllm.takt")


def number_in(value: Any, least: float, most: float) -> float:
    """Returns a number from a file; ValueError if it is no number from ``least`` to ``most``."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError("a number is invalid")
    if not least <= value <= most:
        raise ValueError("a number is out of range")
    return float(value)


class StateFile:
    """Reads ``path`` at the start, and writes it every ``every_s`` seconds and at the end.

    ``collect`` returns the state, and runs in the step loop; a thread of its own compresses and writes it. An
    unusable file is moved to ``path.refused``, or ``path.refused.2`` if that exists, and takt starts without knowledge.
    If the read or the move fails, takt leaves the file as it is and writes no state. Each of these logs one line.
    """

    def __init__(self, path: str, every_s: float, collect: Callable[[], dict[str, Any]]) -> None:
        self.path = path
        self._every_s, self._collect = every_s, collect
        self._next = time.monotonic() + every_s
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()  # of the file
        self._failed = False  # the last write has failed, and was logged
        self.off = False  # the file must not be written

    def load(self, use: Callable[[Mapping[str, Any]], None]) -> bool:
        """Passes the state in the file to ``use``, which raises an exception without effect if it is invalid. Returns
        True if it was used."""
        try:
            state = read_state(self.path)
            use(state)
        except FileNotFoundError:
            logger.info("takt: no state file %s yet", self.path)
            self._check_folder()
        except StateError as error:
            self._refuse(error.reason)
        except OSError as error:  # no permission, or a failure of the disk: the file may be valid
            self._leave("could not be read", error)
        except Exception as error:  # the content may have any shape
            self._refuse(f"is unusable: {error or type(error).__name__}")
        else:
            logger.info("takt: learnt state from %s", self.path)
            return True
        return False

    def _check_folder(self) -> None:
        folder = os.path.dirname(self.path) or "."
        if not os.path.isdir(folder):
            logger.warning("takt: state file %s: its folder is missing; nothing is saved until it exists", self.path)

    def _refuse(self, reason: str) -> None:
        aside, number = f"{self.path}.refused", 1
        try:
            if not os.path.isfile(self.path):
                raise OSError("it is no file")
            while os.path.lexists(aside):
                number += 1
                aside = f"{self.path}.refused.{number}"
            os.replace(self.path, aside)
        except OSError as error:
            self._leave(reason, error)
        else:
            logger.warning("takt: state file %s %s; it is now %s, and takt starts without it", self.path, reason, aside)

    def _leave(self, reason: str, error: OSError) -> None:
        self.off = True
        logger.warning(
            "takt: state file %s %s; it stays (%s), takt starts without it and saves nothing", self.path, reason, error
        )

    def turn(self) -> None:
        """In the step loop: saves if it is time. Costs a look at the clock otherwise."""
        if self.off or (now := time.monotonic()) < self._next:
            return
        self._next = now + self._every_s
        if self._thread is not None and self._thread.is_alive():
            return  # the disk is slow
        state = self._gathered()
        if state is not None:
            thread = threading.Thread(target=self._write, args=(state,), name="takt state", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # the process has its maximum of threads, or ends
                self._warn(error)
            else:
                self._thread = thread

    def end(self) -> None:
        """Saves at the end, in this thread."""
        atexit.unregister(self.end)
        state = None if self.off else self._gathered()
        if state is not None:
            self._write(state)
        self.off = True

    def _gathered(self) -> dict[str, Any] | None:
        """An exception here is no fault of the order: takt goes on, and saves nothing this time."""
        try:
            return self._collect()
        except Exception as error:
            self._warn(error)
            return None

    def _warn(self, error: Exception) -> None:
        if not self._failed:
            logger.warning("takt: state file %s was not written: %s", self.path, error or type(error).__name__)
        self._failed = True

    def _write(self, state: dict[str, Any]) -> None:
        with self._lock:
            if self.off:
                return
            try:
                write_state(self.path, state)
            except Exception as error:  # such as a full disk; the old file is as it was
                self._warn(error)
            else:
                self._failed = False
