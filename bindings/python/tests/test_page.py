"""The code of the pages runs and prints what they show."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

import takt
from takt import _tool

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGES = {"start/python.md": 11, "howto/python_engine.md": 24, "howto/workflow_identity.md": 5, "howto/sweep.md": 11, "howto/recommend.md": 3}  # least number of examples


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs(page: str) -> None:
    path = DOCS / page
    if not DOCS.exists():
        pytest.skip("the pages are not next to the package")
    try:
        _tool.tool()
    except takt.ToolError:
        pytest.skip("this build has no tool")
    result = doctest.testfile(str(path), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted >= PAGES[page] and result.failed == 0
