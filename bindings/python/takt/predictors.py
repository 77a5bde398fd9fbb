"""Predictions of a model that `takt train` has written: the tokens left in a workflow, and which model solves a
request."""

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
    """Facts known when a call begins, named like the columns of the log (docs/howto/prediction.md). None: unknown."""

    model: str | None = None
    kind: str | None = None
    """Kind of workflow."""
    stage: str | None = None
    """Call site within the workflow."""
    text: str | builtins.bytes | None = None
    """Text of the prompt."""
    prompt_tokens: int | None = None
    system_tokens: int | None = None
    """Length of the system prompt [tokens]."""
    user_tokens: int | None = None
    """Length of the user's prompt [tokens]."""
    calls_before: int = 0
    """Number of earlier calls of the workflow."""
    tokens_before: int | None = 0
    """Output of the earlier calls [tokens]."""
    generated_tokens: int | None = None
    """Output of this call so far [tokens]; the prediction covers the rest."""


class Forecast(NamedTuple):
    tokens_left: Estimate | None
    """Output of this call and of all later ones in its workflow [tokens]; None: unknown model."""
    solved: float | None
    """Probability that the model solves the request; None: unknown."""


_COUNTS = (
    ("prompt_tokens", "prompt_tokens"), ("system_tokens", "system_tokens"), ("user_tokens", "user_tokens"),
    ("tokens_before", "tokens_before"), ("generated", "generated_tokens"),
)  # fmt: skip


class Predictor(Handle):
    """Quantile forests and confidence heads from a file that `takt train` has written.

    ``file`` is a path, or the contents of the file as bytes. `TaktError` if the file is damaged, truncated or of
    another version.
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
            except ValueError as error:  # a path has a null character or a lone surrogate
                raise OptionError(f"{file!r}: {error}") from None
        self._create(data, len(data))

    @property
    def models(self) -> list[str]:
        """Names of the models in the file, in ascending order."""
        found: list[str] = []
        while (name := lib.takt_predictor_model(self._ready("models"), len(found))) is not None:
            found.append(text(name))
        return found

    def predict(self, *calls: Call) -> list[Forecast]:
        """Returns a forecast for each call, in order. One call with many is faster than many calls."""
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
