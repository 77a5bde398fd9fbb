"""Tests of the predictor, on a model that `takt train` writes."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

import takt
from takt import _tool


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of two-call workflows: a planner outputs 20 tokens, and a coder as many as its prompt has."""
    try:
        _tool.tool()
    except takt.ToolError:
        pytest.skip("this build has no tool")
    folder = tmp_path_factory.mktemp("predictor")
    with (folder / "calls.jsonl").open("w") as log:
        for i in range(120):
            for stage, prompt, output in (("plan", 50, 20), ("code", 100 + 300 * (i % 2), 100 + 300 * (i % 2))):
                told = {"workflow": f"w{i}", "stage": stage, "model": "8b", "prompt_tokens": prompt, "output_tokens": output}
                log.write(json.dumps(told) + "\n")
    _tool.run(["train", str(folder / "calls.jsonl"), "--out", str(folder / "calls.model"), "-q"])
    return folder / "calls.model"


CODE = [takt.Call("8b", stage="code", prompt_tokens=n, calls_before=1, tokens_before=20) for n in (100, 400)]


def test_the_predictor_answers_as_the_tool(model: Path, tmp_path: Path) -> None:
    predictor = takt.Predictor(model)
    assert predictor.models == ["8b"]
    forecasts = predictor.predict(*CODE, takt.Call("8b", stage="plan", prompt_tokens=50), takt.Call("70b", prompt_tokens=5))
    short, long = (each.tokens_left for each in forecasts[:2])
    assert short is not None and long is not None
    assert abs(short.mean - 100) < 40 and abs(long.mean - 400) < 40 and short.quantiles[2] < long.quantiles[2]
    assert forecasts[3] == (None, None) and forecasts[0].solved is None

    names = ("model", "stage", "prompt_tokens", "calls_before", "tokens_before")
    lines = [json.dumps({name: getattr(call, name) for name in names}) for call in CODE]
    (tmp_path / "next.jsonl").write_text("\n".join(lines) + "\n")
    told = list(csv.DictReader(_tool.run(["predict", str(model), str(tmp_path / "next.jsonl")]).splitlines()))
    assert [float(row["mean"]) for row in told] == pytest.approx([short.mean, long.mean], rel=1e-4)
    assert predictor.predict() == [] and predictor.predict(CODE[1])[0] == forecasts[1]


def test_invalid_files_are_refused(model: Path, tmp_path: Path) -> None:
    data = model.read_bytes()
    assert takt.Predictor(data).predict(CODE[0]) == takt.Predictor(model).predict(CODE[0])
    with pytest.raises(takt.OptionError, match="no/such.model: No such file"):
        takt.Predictor("no/such.model")
    for wrong in (b"", data[:-9], data[:200] + bytes([data[200] ^ 1]) + data[201:], b"not a model at all"):
        with pytest.raises(takt.TaktError) as told:
            takt.Predictor(wrong)
        assert "predictor" in str(told.value) and "\n" not in str(told.value)


def test_invalid_calls_are_refused(model: Path) -> None:
    predictor = takt.Predictor(model)
    with pytest.raises(takt.RequestError, match="prompt_tokens is -3"):
        predictor.predict(takt.Call("8b", prompt_tokens=-3))
    with pytest.raises(takt.RequestError, match="stage is 7"):
        predictor.predict(takt.Call("8b", stage=7))  # type: ignore[arg-type]
    assert predictor.predict(takt.Call("8b", stage="\ud800", text=b"a\0b\xff"))[0].tokens_left is not None
    predictor.close()
    with pytest.raises(takt.TaktError):
        predictor.predict(CODE[0])
