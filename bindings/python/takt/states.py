"""A file of learnt state, for a warm restart.

    queue = takt.Queue()
    try:
        queue.load_learnt(takt.read_state("takt.state")["learnt"])
    except FileNotFoundError:
        pass  # the first start
    ...
    takt.write_state("takt.state", {"learnt": queue.learnt()})

The file has a version and a checksum, and is replaced as a whole: a crash leaves the old or the new file.
"""

from __future__ import annotations

import base64
import binascii
import errno
import hashlib
import json
import os
import stat
import tempfile
import zlib
from collections.abc import Mapping
from typing import Any, Final

from .errors import TaktError

__all__ = ["STATE_VERSION", "StateError", "read_state", "write_state"]

STATE_VERSION: Final = 1
_MAGIC = b"takt state "
_MOST = 1 << 28  # largest file, and largest content [bytes]
_BYTES = "base64:"  # mark of bytes in the JSON
_TEXT = "text:"  # mark of a text that begins with a mark


class StateError(TaktError):
    """A file of learnt state is damaged or has another version. ``reason`` is a short text such as "is truncated"."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"state file {path}: {reason}")
        self.reason = reason


def _packed(value: Any) -> Any:
    if isinstance(value, bytes):
        return _BYTES + base64.b64encode(value).decode()
    if isinstance(value, str) and value.startswith((_BYTES, _TEXT)):
        return _TEXT + value
    if isinstance(value, Mapping):
        return {str(key): _packed(each) for key, each in value.items()}
    return [_packed(each) for each in value] if isinstance(value, (list, tuple)) else value


def _unpacked(value: Any) -> Any:
    if isinstance(value, str) and value.startswith(_BYTES):
        return base64.b64decode(value[len(_BYTES) :], validate=True)
    if isinstance(value, str):
        return value.removeprefix(_TEXT)
    if isinstance(value, dict):
        return {key: _unpacked(each) for key, each in value.items()}
    return [_unpacked(each) for each in value] if isinstance(value, list) else value


def write_state(path: str | os.PathLike[str], state: Mapping[str, Any]) -> None:
    """Writes ``state``, whose values are bytes, texts, finite numbers, lists and mappings of these. Replaces the file at
    once, through a temporary file in the same folder, and keeps its mode; a new file has mode 0600. Writes to the target
    of a symbolic link. Raises `OSError` if the write fails or the path names no regular file; the old file is then
    unchanged. A killed process may leave a temporary file, named as the state with ``.new-`` and a random text."""
    content = zlib.compress(json.dumps(_packed(state), allow_nan=False, separators=(",", ":")).encode(), 6)
    digest = hashlib.sha256(content).hexdigest()
    target = os.path.realpath(path)
    mode = 0o600
    try:
        mode = os.stat(target).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "is not a regular file", target)
    except FileNotFoundError:
        pass
    folder, name = os.path.split(target)
    descriptor, temporary = tempfile.mkstemp(prefix=f"{name}.new-", dir=folder)
    try:
        with open(descriptor, "wb") as file:
            file.write(_MAGIC + b"%d %s %d\n" % (STATE_VERSION, digest.encode(), len(content)) + content)
            file.flush()
            os.fchmod(descriptor, stat.S_IMODE(mode))
            os.fsync(descriptor)
        os.replace(temporary, target)
    except BaseException:
        try:
            os.unlink(temporary)
        except OSError:
            pass
        raise


def read_state(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Returns the state that `write_state` wrote. Raises `StateError` if the file is damaged, truncated or empty, or has
    another version, or is no regular file. Raises `OSError` if the read fails; `FileNotFoundError`: no file."""
    name = os.fspath(path)
    # Not blocking, because a pipe without a writer would block.
    descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise StateError(name, "is not a regular file")
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(_MOST + 1)
    finally:
        os.close(descriptor)
    if not data:
        raise StateError(name, "is empty")
    if len(data) > _MOST:
        raise StateError(name, "is too long")
    if not data.startswith(_MAGIC):
        raise StateError(name, "is truncated" if _MAGIC.startswith(data) else "is no state of takt")
    head, newline, content = data.partition(b"\n")
    words = head[len(_MAGIC) :].split(b" ")
    if not newline:
        raise StateError(name, "is truncated")
    if words[0] != b"%d" % STATE_VERSION:
        shown = words[0][:20].decode(errors="replace")
        raise StateError(name, f"has version {shown}; expected {STATE_VERSION}")
    if len(words) != 3 or not words[2].isdigit() or len(words[2]) > 12:
        raise StateError(name, "is damaged: its first line")
    if len(content) < int(words[2]):
        raise StateError(name, "is truncated")
    if len(content) > int(words[2]) or hashlib.sha256(content).hexdigest().encode() != words[1]:
        raise StateError(name, "is damaged: its checksum")
    try:
        unzip = zlib.decompressobj()
        text = unzip.decompress(content, _MOST)
        if unzip.unconsumed_tail or not unzip.eof:
            raise StateError(name, "is too long")
        state = _unpacked(json.loads(text, parse_constant=_refused))
    except (zlib.error, ValueError, RecursionError, binascii.Error):
        raise StateError(name, "is damaged: its content") from None
    if not isinstance(state, dict):
        raise StateError(name, "is damaged: its content")
    return state


def _refused(constant: str) -> float:
    raise ValueError(constant)
