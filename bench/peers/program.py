"""Helpers of the peer scripts: children that end with their parent, and one-line error messages."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable


ENDS = (signal.SIGINT, signal.SIGTERM)


def say(*words: object) -> None:
    print(*words, flush=True)


class Failed(Exception):
    """A failure: one line of text, with the path of its log."""


class Missing(Failed):
    """A missing environment. The program exits with 77, which test runners count as skipped."""


def start(*command: object, **more) -> int:
    """Runs a program to its end. Forwards signals that end this program, because a killed child would leave its servers running."""
    # Signals are blocked while it starts, so that no child is left behind.
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
    try:
        child = subprocess.Popen(
            [str(word) for word in command], start_new_session=True,
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDS), **more,
        )  # fmt: skip
    except BaseException:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDS)
        raise
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDS)
        return child.wait()
    except BaseException:
        try:
            child.send_signal(signal.SIGINT)
            child.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        raise


def run(*command: object, **more) -> None:
    code = start(*command, **more)
    if code:
        raise Failed(f"exit {code}: {' '.join(str(word) for word in command)}")


def until_ended(name: str, work: Callable[[], int]) -> int:
    """Returns the exit code. Ctrl-C and TERM end all children; a failure prints one line."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    for each in ENDS:  # a shell starts background jobs with the first one ignored
        signal.signal(each, stop)
    try:
        return work()
    except KeyboardInterrupt:
        print(f"{name}: stopped; what it had begun has ended", file=sys.stderr)
        return 130
    except Failed as why:
        print(f"{name}: {why}", file=sys.stderr)
        return 77 if isinstance(why, Missing) else 1
    except (OSError, subprocess.CalledProcessError, StopIteration) as why:
        print(f"{name}: {type(why).__name__}: {why}", file=sys.stderr)
    return 1
