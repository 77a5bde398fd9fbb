"""Finds, runs and stops the `takt` tool of this package."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ._library import NATIVE
from .errors import ToolError

Progress = Callable[[float, str], None]
"""Callback with the share that is done, 0 to 1, and a description of the current work."""

started = threading.local()
"""``started.hook``, if set in a thread, gets the process of each tool that this thread runs."""

_BAR = re.compile(rb"\r\[[#.]*\] +(\d+) % +([^\x1b\r\n]*)\x1b\[K")
_CLEARED = re.compile(rb"\r\x1b\[K")


def tool() -> Path:
    """Returns the path of the tool: TAKT_TOOL, or the bundled tool, or one on the PATH."""
    if "TAKT_TOOL" in os.environ:
        return Path(os.environ["TAKT_TOOL"])
    bundled = NATIVE / "takt"
    if bundled.exists():
        return bundled
    # Excludes this package's own entry point, which would call itself forever.
    beside = str(Path(sys.executable).parent)
    others = os.pathsep.join(p for p in os.environ.get("PATH", "").split(os.pathsep) if p != beside)
    found = shutil.which("takt", path=others)
    if found is None:
        raise ToolError("this build of the package has no takt tool, and the PATH has none; set TAKT_TOOL", 127)
    return Path(found)


def main() -> None:
    """Entry point of the console script: replaces this process by the tool."""
    try:
        path = tool()
    except ToolError as error:
        raise SystemExit(f"takt: {error}") from None
    os.execv(path, [str(path), *sys.argv[1:]])


def _notebook() -> bool:
    try:
        from IPython import get_ipython  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return False
    return hasattr(get_ipython(), "kernel")


def _bar(share: float, what: str) -> None:
    filled = int(share * 28)
    line = f"[{'#' * filled}{'.' * (28 - filled)}] {share:4.0%}  {what}" if what else ""
    sys.stderr.write(f"\r{line:78.78}" + ("" if what else "\r"))
    sys.stderr.flush()


def progress_of(progress: bool | Progress | None) -> Progress | None:
    """Returns the progress callback. None: a bar in terminals and notebooks only."""
    if progress is None:
        progress = "ipykernel" in sys.modules and _notebook() or bool(getattr(sys.stderr, "isatty", bool)())
    if progress is True:
        return _bar
    return progress or None


def run(arguments: Sequence[str], progress: Progress | None = None) -> str:
    """Runs the tool and returns its standard output; `ToolError` with its messages if it fails. An exception meanwhile,
    such as Ctrl-C, first stops the tool."""
    command = [str(tool()), *arguments]
    master = -1
    stderr: int = subprocess.PIPE
    environment = dict(os.environ)
    if progress is not None and hasattr(os, "openpty"):
        master, stderr = os.openpty()  # the tool shows its bar only in terminals
        environment["TERM"] = "xterm"
    environment["NO_COLOR"] = "1"
    try:
        # A new session, so that only this process receives Ctrl-C; it then stops the tool and waits for it.
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, env=environment,
            start_new_session=True,
        )  # fmt: skip
    except (OSError, ValueError) as error:  # an argument has a null character or a lone surrogate
        if master >= 0:
            os.close(master)
            os.close(stderr)
        raise ToolError(f"{command[0]}: {error}", 127) from error
    hook: Callable[[subprocess.Popen[bytes]], None] | None = getattr(started, "hook", None)
    if hook is not None:
        hook(child)
    said = bytearray()
    wrong: list[BaseException] = []

    def listen() -> None:
        pending = b""
        source = master if master >= 0 else child.stderr.fileno() if child.stderr else -1
        while True:
            try:
                piece = os.read(source, 65536)
            except OSError:  # the other end of the terminal is closed
                piece = b""
            if not piece:
                break
            if progress is None:
                said.extend(piece)
                continue
            pending += piece
            last = None
            for last in _BAR.finditer(pending):
                pass
            if last is not None:
                try:
                    progress(int(last[1]) / 100, last[2].decode(errors="replace").strip())
                except BaseException as error:
                    wrong.append(error)
                    child.send_signal(signal.SIGINT)
                    return
            pending = _CLEARED.sub(b"", _BAR.sub(b"", pending))
            at = pending.rfind(b"\r[")
            said.extend(pending if at < 0 else pending[:at])
            pending = b"" if at < 0 else pending[at:]
        said.extend(pending)

    if master >= 0:
        os.close(stderr)
    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    try:
        assert child.stdout is not None
        output = child.stdout.read()
        code = child.wait()
    except BaseException:
        stop(child)
        raise
    finally:
        listener.join(timeout=5)
        if child.stdout is not None:
            child.stdout.close()
        if child.stderr is not None:
            child.stderr.close()
        if master >= 0:
            os.close(master)
        if progress is _bar:
            _bar(1.0, "")
    if wrong:
        raise wrong[0]
    if code != 0:
        message = said.decode(errors="replace").replace("\r\n", "\n").strip()
        raise ToolError(message or f"takt {arguments[0]} exited with {code}", code)
    return output.decode()


def stop(*children: subprocess.Popen[bytes]) -> None:
    """Stops these tools with SIGINT, and with SIGKILL those that have not ended after 2 s."""
    for end in (signal.SIGINT, signal.SIGKILL):
        for child in children:
            child.send_signal(end)  # no effect on a process that has been waited for
        limit = time.monotonic() + 2
        for child in children:
            try:
                child.wait(timeout=max(0.0, limit - time.monotonic()))
            except subprocess.TimeoutExpired:
                continue
