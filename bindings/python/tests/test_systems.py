"""Tests of the systems by their example programs: better than FCFS, and no better without what they learn."""

from __future__ import annotations

import importlib.util
import statistics
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from takt import CallRecord, Instance, Request, ToolProfile
from takt.systems import Cascadia, Chimera, HexGenFlow, Kairos, Lamps

EXAMPLES = Path(__file__).parents[3] / "examples/python"
pytestmark = pytest.mark.skipif(not EXAMPLES.exists(), reason="the examples are in the repository alone")


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.py")))
def test_examples_are_short_and_print_a_gain(name: str) -> None:
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) <= 60
    lines = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py")], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    figures = [[float(word) for word in line.split() if word.replace(".", "").isdigit()] for line in lines]
    assert len(figures) == 2 and figures[1][0] < 0.9 * figures[0][0]  # the mean
