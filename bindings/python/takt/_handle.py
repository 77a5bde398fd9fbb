"""The base class of queues, schedulers, routers and rankers."""

from __future__ import annotations

import ctypes
import struct
from typing import Any, ClassVar, TypeVar

from . import _abi as abi
from ._library import Single, check, check_options, initialised, lib, moment
from .errors import OptionError, RequestError, TaktError
from .requests import Inside, Key, KeyFunction

SelfT = TypeVar("SelfT", bound="Handle")


class Handle(Single):
    """A handle of the C interface. Only one thread at a time may call it. It is a context manager. A second `close` has
    no effect; any other call after `close` raises `TaktError`."""

    _kind: ClassVar[str]

    def __init__(self) -> None:
        if "_handle" in vars(self):
            raise TaktError(f"{self._kind}: exists already", abi.TAKT_E_BUSY)
        self._handle = ctypes.c_void_p()
        self._key: Key | None = None
        self._inside = Inside()
        self._errors: list[BaseException] = []  # exceptions of callbacks; the call that ran the callback raises them
        self._event = abi.takt_event()
        self._filled = ""  # the call that filled the event

    def _create(self, *arguments: Any) -> None:
        error = initialised(abi.takt_error)
        create = getattr(lib, f"takt_{self._kind}_create")
        status = create(*arguments, ctypes.byref(self._handle), ctypes.byref(error))
        self._raise_errors()
        check_options(status, f"{self._kind}", error)

    def _keep_key(self, key: KeyFunction | None, name: str | None) -> Any:
        """Returns the C pointer for the option `key`, and keeps the function alive as long as the handle."""
        if key is None:
            return None
        self._key = Key(key, name, self._inside)
        return ctypes.pointer(self._key.struct)

    def _raise_errors(self) -> None:
        if self._key is not None and self._key.error is not None:
            self._key.raise_error()
        if self._errors:
            first = self._errors[0]
            self._errors.clear()
            raise first

    def _ready(self, call: str) -> ctypes.c_void_p:
        """Returns the handle. Raises `TaktError` if it is closed or one of its callbacks is running."""
        if self._inside.runs:
            check(abi.TAKT_E_BUSY, call)
        if not self._handle:
            check(abi.TAKT_E_NULL, call)
        return self._handle

    def _fresh(self, call: str) -> Any:
        """Returns the event, zeroed, for this call to fill."""
        self._ready(call)
        ctypes.memset(ctypes.addressof(self._event), 0, ctypes.sizeof(self._event))
        self._filled = call
        return self._event.u

    def _filled_at(self, now: int | None, call: str) -> int:
        """Returns the time of the call that filled the event. Raises `TaktError` if another call has filled it since:
        reading a value may run code of the host."""
        at = moment(now)
        if self._filled != call:
            check(abi.TAKT_E_BUSY, call)
        self._filled = ""
        return at

    def _learnt(self) -> bytes:
        call = getattr(lib, f"takt_{self._kind}_learnt")
        n = call(self._ready("learnt"), None, 0)
        words = (ctypes.c_uint64 * n)()
        call(self._ready("learnt"), words, n)
        return struct.pack(f"<{n}Q", *words)

    def _load_learnt(self, learnt: bytes, *arguments: Any) -> None:
        if not isinstance(learnt, bytes):
            raise RequestError("learnt", learnt, "must be bytes of learnt()")
        n, rest = divmod(len(learnt), 8)
        if rest:
            raise OptionError(f"learnt has {len(learnt)} bytes; expected a multiple of 8")
        words = (ctypes.c_uint64 * n)(*struct.unpack(f"<{n}Q", learnt))
        error = initialised(abi.takt_error)
        call = getattr(lib, f"takt_{self._kind}_load_learnt")
        check_options(call(self._ready("load_learnt"), words, n, *arguments, ctypes.byref(error)), "load_learnt", error)

    def close(self) -> None:
        """Frees all memory. Raises `TaktError` within a callback of the same handle, which then stays open."""
        if self._handle:
            check(getattr(lib, f"takt_{self._kind}_destroy")(self._ready("close")), "close")
            self._handle.value = None  # in place: a call may hold this object while its arguments close the handle

    def __enter__(self: SelfT) -> SelfT:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # at interpreter exit
            pass
