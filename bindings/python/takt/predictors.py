"""What `takt train` has learnt of a log of calls: the tokens that a workflow has left, and who solves what."""

from __future__ import annotations

import builtins
import ctypes
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import NamedTuple, Union

from . import _abi as abi
from ._handle import Handle
from ._library import check, encoded, lib, text, whole
from .errors import OptionError, RequestError
from .requests import Estimate

__all__ = ["Call", "Forecast", "Predictor"]

_COUNT = (0, 2**31 - 1)


@dataclass(frozen=True)
class Call:
    """What is known when a call begins, by the names of the log (docs/howto/prediction.md). None: not told."""

    model: str | None = None
    kind: str | None = None
    """Of workflow."""
    stage: str | None = None
    """Which of its calls."""
    text: str | builtins.bytes | None = None
    """Of the prompt."""
    prompt_tokens: int | None = None
    system_tokens: int | None = None
    """Of the prompt."""
    user_tokens: int | None = None
    """Of the prompt."""
    calls_before: int = 0
    """Of its workflow."""
    tokens_before: int | None = 0
    """Output of those [tokens]."""
    generated_tokens: int | None = None
    """By the call itself so far: what is predicted is the rest."""


class Forecast(NamedTuple):
    tokens_left: Estimate | None
    """Output of this call and of all that follow in its workflow [tokens]; None where the model is not known."""
    solved: float | None
    """The probability that the model solves it; None where that is not known."""


_COUNTS = (
    ("prompt_tokens", "prompt_tokens"), ("system_tokens", "system_tokens"), ("user_tokens", "user_tokens"),
    ("tokens_before", "tokens_before"), ("generated", "generated_tokens"),
)  # fmt: skip


class Predictor(Handle):
    """Quantile forests and confidence heads, out of a file that `takt train` has written.

    ``file`` is its path, or what is in it. A file that is damaged, cut off or of another version is a `TaktError` that
    says so.
    """

    _kind = "predictor"

    def __init__(self, file: Union[str, PathLike[str], builtins.bytes]) -> None:
        super().__init__()
        if isinstance(file, builtins.bytes):
            data = file
        else:
            try:
                data = Path(file).read_bytes()
            except OSError as error:
                raise OptionError(f"{file}: {error.strerror}") from None
            except ValueError as error:  # no path has a null character or half a character
                raise OptionError(f"{file!r}: {error}") from None
        self._create(data, len(data))

    @property
    def models(self) -> list[str]:
        """The names of the models that it knows, in ascending order."""
        found: list[str] = []
        while (name := lib.takt_predictor_model(self._ready("models"), len(found))) is not None:
            found.append(text(name))
        return found

    def predict(self, *calls: Call) -> list[Forecast]:
        """One for each call, in their order; together is faster than one by one."""
        n = len(calls)
        told = (abi.takt_call * n)()
        for into, call in zip(told, calls):
            lib.takt_call_init(ctypes.addressof(into), ctypes.sizeof(abi.takt_call))
            for name in ("model", "kind", "stage"):
                setattr(into, name, encoded(name, getattr(call, name), errors="replace"))
            if call.text is not None:
                into.text = data = call.text if isinstance(call.text, builtins.bytes) else call.text.encode(errors="replace")
                into.n_text = len(data)
            into.calls_before = whole("calls_before", call.calls_before, _COUNT)
            for field, name in _COUNTS:
                value = getattr(call, name)
                setattr(into, field, -1 if value is None else whole(name, value, _COUNT))
        left, solved = (abi.takt_estimate * n)(), (ctypes.c_double * n)()
        status = lib.takt_predictor_predict(
            self._handle, ctypes.addressof(told), n, ctypes.sizeof(abi.takt_call), ctypes.addressof(left),
            ctypes.addressof(solved),
        )  # fmt: skip
        check(status, "predict")
        return [
            Forecast(
                None if each.mean < 0 else Estimate(each.mean, tuple(each.quantiles)),
                None if probability < 0 else probability,
            )
            for each, probability in zip(left, solved)
        ]
