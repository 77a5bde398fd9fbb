"""bench/peers/peer-otlp compares each field. These tests need no collector."""

from __future__ import annotations

import copy
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent))
from peer_program import Peer

SCRIPT = Path(__file__).resolve().parent.parent / "peer-otlp"
loader = SourceFileLoader("peer_otlp", str(SCRIPT))
spec = spec_from_loader("peer_otlp", loader)
assert spec is not None
peer = module_from_spec(spec)
loader.exec_module(peer)

TRACE = "0123456789abcdef0123456789abcdef"


def span(name: str, number: int, parent: int, start: int, end: int, **more: Any) -> dict[str, Any]:
    return {
        "traceId": TRACE, "spanId": f"{number:016x}", "parentSpanId": f"{parent:016x}" if parent else "", "name": name, "kind": 1,
        "startTimeUnixNano": str(start), "endTimeUnixNano": str(end),
        "attributes": [{"key": "takt.generated", "value": {"intValue": "3"}}], **more,
    }  # fmt: skip


def batch(*spans: dict[str, Any]) -> dict[str, Any]:
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {"name": "takt"}, "spans": list(spans)}]}]}


ROOT, CHILD = span("request", 1, 0, 10, 30, status={"code": 0}), span("waiting", 2, 1, 10, 20)


def test_equal_spans_have_no_faults() -> None:
    came = copy.deepcopy([ROOT, CHILD])
    del came[0]["parentSpanId"]
    came[0]["status"] = {}
    came[1]["attributes"][0]["value"]["intValue"] = 3
    sent = peer.spans([batch(ROOT, CHILD)])
    assert len(sent) == 2 and not peer.faults(sent, peer.spans([batch(came[1]), batch(came[0])]))


@pytest.mark.parametrize(
    "change",
    [
        {"name": "running"}, {"parentSpanId": ""}, {"parentSpanId": f"{9:016x}"}, {"startTimeUnixNano": "9"},
        {"endTimeUnixNano": "31"}, {"attributes": []}, {"status": {"code": 2}}, {"spanId": f"{5:016x}"}, {"kind": 2},
    ],
)  # fmt: skip
def test_each_changed_field_is_a_fault(change: dict[str, Any]) -> None:
    assert peer.faults(peer.spans([batch(ROOT, CHILD)]), peer.spans([batch(ROOT, CHILD | change)]))


def test_a_lost_span_is_a_fault_and_a_double_one_fails() -> None:
    assert peer.faults(peer.spans([batch(ROOT, CHILD)]), peer.spans([batch(ROOT)]))
    with pytest.raises(peer.Failed):
        peer.spans([batch(ROOT), batch(ROOT)])


def test_without_a_collector_it_is_skipped(tmp_path: Path) -> None:
    Peer("otlp", "").lacks_an_environment(tmp_path, f"the collector {peer.VERSION}")
