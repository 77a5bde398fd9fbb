"""What the peer scripts have in common: children that end with them, and endings of one line."""

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
    """One line: what failed, and where more is told."""


class Missing(Failed):
    """There is no environment to work in: exit 77, by which test runners know what was skipped."""


def start(*command: object, **more) -> int:
    """Runs it to its end, and hands on what ends this program: a child that is killed could not end its servers."""
    # Not while it is begun: it would run, and nobody here would know of it.
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
    """The exit code. Ctrl-C and a TERM end what was begun; what fails is told in a line."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    for each in ENDS:  # a shell's background job is begun with the first one ignored
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
