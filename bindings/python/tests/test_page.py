"""Runs the code of the Python page."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

import takt
from takt import _tool

PAGE = Path(__file__).resolve().parents[3] / "docs" / "start" / "python.md"


@pytest.mark.skipif(not PAGE.exists(), reason="the package has no page next to it")
def test_the_page_says_what_happens() -> None:
    try:
        _tool.tool()
    except takt.ToolError:
        pytest.skip("this build has no tool")
    result = doctest.testfile(str(PAGE), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted > 30 and result.failed == 0
