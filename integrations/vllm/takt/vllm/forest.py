"""Forests from `takt train` for vLLM's engine, and the log of calls that they are trained on."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import TextIO

from ..errors import OptionError, TaktError
from ..predictors import Call, Predictor
from ..requests import Estimate
from .identity import Identity

__all__ = ["CallsLog", "Forest"]

logger = logging.getLogger("vllm.takt")  # vLLM's handlers print it


def _stage(who: Identity) -> str:
    """Returns the column `stage` of a log: the call site that the client sent, otherwise the role."""
    return who.stage or who.agent


class Forest:
    """Predicts from model, stage, length of the prompt, and the earlier calls and tokens of the workflow. The engine
    has token ids but no text, so text features of the forest count as unknown."""

    def __init__(self, file: str, model: str, served: Sequence[str]) -> None:
        try:
            self._predictor = Predictor(file)
        except TaktError as error:
            raise OptionError(f"takt.vllm: forest is {file!r}: {error}") from None
        known = self._predictor.models
        if model and model not in known:
            raise OptionError(f"takt.vllm: forest_model is {model!r}; {file} has {', '.join(map(repr, known))}")
        found = [model] if model else [name for name in served if name in known]
        if not found and len(known) != 1:
            raise OptionError(
                f"takt.vllm: forest_model is needed: {file} has {', '.join(map(repr, known))}; "
                f"vLLM serves {', '.join(map(repr, served))}"
            )
        self.model = (found or known)[0]

    def left(self, who: Identity, prompt: int, calls: int, tokens: int) -> Estimate | None:
        """Returns the output of a call and of all later ones in its workflow, after ``calls`` calls that have generated
        ``tokens``."""
        told = Call(self.model, stage=_stage(who), prompt_tokens=prompt, calls_before=calls, tokens_before=tokens)
        return self._predictor.predict(told)[0].tokens_left


class CallsLog:
    """Writes lines of JSON for `takt train`, one for each call that has ended by itself."""

    def __init__(self, file: str, model: str) -> None:
        self._model = model
        try:
            self._out: TextIO | None = open(file, "a", buffering=1, encoding="utf-8")
        except OSError as error:
            raise OptionError(f"takt.vllm: calls_log is {file!r}: {error.strerror}") from None

    def add(self, who: Identity, prompt: int, output: int, calls: int, tokens: int) -> None:
        if self._out is None:
            return
        line = {
            "workflow": who.workflow, "stage": _stage(who), "model": self._model, "prompt_tokens": prompt,
            "output_tokens": output, "calls_before": calls, "tokens_before": tokens,
        }  # fmt: skip
        try:
            self._out.write(json.dumps(line) + "\n")
        except OSError as error:  # a full disk must not end the engine
            logger.warning("takt.vllm: calls_log has stopped: %s", error.strerror)
            self._out = None
