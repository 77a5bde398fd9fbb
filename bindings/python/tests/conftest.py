"""Tests use the installed package, or the sources with TAKT_LIBRARY and TAKT_TOOL set."""

from __future__ import annotations

import pytest

import takt


@pytest.fixture
def three() -> list[takt.Request]:
    """Three requests of 400, 800 and 1,200 tokens, with known outputs of 9, 8 and 7 tokens."""
    return [
        takt.Request(i, prompt_tokens=400 * i, output_tokens=takt.Estimate.exact(10 - i)) for i in (1, 2, 3)
    ]
