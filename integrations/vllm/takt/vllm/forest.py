"""A forest that `takt train` has grown, as vLLM's engine can ask it; and the log of calls that it is grown from."""

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

logger = logging.getLogger("vllm.takt")  # vLLM's handlers show it


def _stage(who: Identity) -> str:
    """The column `stage` of a log: the call site where the client says it, else the role."""
    return who.stage or who.agent


class Forest:
    """The engine has token ids and no text: a forest is asked by model, stage, length of the prompt, and the calls and
    tokens of the workflow before. What it was taught of texts counts as not told."""

    def __init__(self, file: str, model: str, served: Sequence[str]) -> None:
        try:
            self._predictor = Predictor(file)
        except TaktError as error:
            raise OptionError(f"takt.vllm: forest is {file!r}: {error}") from None
        known = self._predictor.models
        if model and model not in known:
            raise OptionError(f"takt.vllm: forest_model is {model!r}, and {file} knows {', '.join(map(repr, known))}")
        found = [model] if model else [name for name in served if name in known]
        if not found and len(known) != 1:
            raise OptionError(
                f"takt.vllm: forest_model is needed: {file} knows {', '.join(map(repr, known))}, and vLLM serves {', '.join(map(repr, served))}"
            )
        self.model = (found or known)[0]

    def left(self, who: Identity, prompt: int, calls: int, tokens: int) -> Estimate | None:
        """Output of a call and of all that follow it in its workflow, after ``calls`` that have generated ``tokens``."""
        told = Call(self.model, stage=_stage(who), prompt_tokens=prompt, calls_before=calls, tokens_before=tokens)
        return self._predictor.predict(told)[0].tokens_left


class CallsLog:
    """Lines of JSON that `takt train` reads, one for each call that has ended by itself."""

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
        except OSError as error:  # the engine must not end for want of disk
            logger.warning("takt.vllm: calls_log takes no more: %s", error.strerror)
            self._out = None
