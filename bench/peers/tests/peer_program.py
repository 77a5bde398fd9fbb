"""The peer scripts as programs, in an environment that a script of the shell pretends to be. They need no engine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PEERS = Path(__file__).resolve().parent.parent


class Peer:
    """bench/peers/peer-NAME. Its environment counts as `ready` if its folder has a file of this name."""

    def __init__(self, name: str, ready: str) -> None:
        self.script, self.name, self.ready = PEERS / f"peer-{name}", name, ready

    def start(self, home: Path, *arguments: object) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, str(self.script), *map(str, arguments)], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=os.environ | {f"TAKT_PEER_{self.name.upper()}": str(home)},
        )  # fmt: skip

    def pretend(self, home: Path, body: str) -> None:
        """Makes an environment whose Python is a shell script."""
        python = home / "venv" / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text(f"#!/bin/sh\n{body}\n")
        python.chmod(0o755)
        (home / self.ready).write_text("")

    def lacks_an_environment(self, home: Path, told: str) -> None:
        child = self.start(home, "--existing")
        out, error = child.communicate(timeout=60)
        assert child.returncode == 77 and not out
        assert error == f"peer-{self.name}: no environment with {told} in {home}\n"
        assert not list(home.iterdir())

    def refuses(self, home: Path, arguments: list[str]) -> None:
        child = self.start(home, "--existing", *arguments)
        _, error = child.communicate(timeout=60)
        assert child.returncode == 2 and "Traceback" not in error

    def ends_with_what_it_began(self, home: Path, sent: signal.Signals, *arguments: object) -> None:
        """Its environment is `endless`."""
        child = self.start(home, "--existing", *arguments)
        pid, told = home / "pid", home / "told"
        end = time.monotonic() + 60
        while not (pid.exists() and pid.read_text().strip()) and time.monotonic() < end:
            time.sleep(0.05)
        child.send_signal(sent)
        _, error = child.communicate(timeout=60)
        assert child.returncode == 130 and error == f"peer-{self.name}: stopped; what it had begun has ended\n"
        assert told.exists(), "the child was killed, and could not end its servers"
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid.read_text()), 0)


def endless(home: Path) -> str:
    return f'trap "echo told > {home}/told; exit 0" INT\necho $$ > {home}/pid\nwhile :; do sleep 0.05; done'
