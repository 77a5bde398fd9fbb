"""bench/peers/peer-aiconfigurator reads AIConfigurator's table. These tests need no AIConfigurator."""

from __future__ import annotations

import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / "peer-aiconfigurator"
sys.path.insert(0, str(SCRIPT.parent))  # for its imports
loader = SourceFileLoader("peer_aiconfigurator", str(SCRIPT))
spec = spec_from_loader("peer_aiconfigurator", loader)
assert spec is not None
peer = module_from_spec(spec)
sys.modules[spec.name] = peer  # for its dataclasses
loader.exec_module(peer)

HEAD = "model,ttft,tpot,tp,pp,replicas_needed,total_gpus_needed\n"


def test_the_first_row_has_the_fewest_gpus() -> None:
    answer = peer.first_row(HEAD + "m,144.481,27.699,2,2,3,12\nm,1,1,4,1,4,16\n")
    assert answer == peer.Answer(gpus=12, replicas=3, tp=2, pp=2, ttft_ms=144.481, tpot_ms=27.699)
    assert answer.engines == "3 x tp2 pp2"


def test_a_table_without_rows_is_no_answer() -> None:
    with pytest.raises(peer.Failed, match="no configuration"):
        peer.first_row(HEAD)
