"""Traces of other tools, converted for takt."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from takt import convert


def write(path: Path, *records: Any) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def converted(kind: str, *paths: Path, skip: bool = False) -> tuple[list[dict[str, Any]], list[str]]:
    out = paths[0].with_suffix(".out")
    with out.open("w") as file:
        _, faults = convert.convert(kind, paths, file, skip_bad_lines=skip)
    return [json.loads(line) for line in out.read_text().splitlines()], [str(fault) for fault in faults]


def dynamo(end_ms: int, took_ms: float, session: str = "", parent: str = "", **request: Any) -> dict[str, Any]:
    record: dict[str, Any] = {"schema": "dynamo.request.trace.v1", "event_type": "request_end", "event_time_unix_ms": end_ms}
    if session:
        record["agent_context"] = {"session_id": session} | ({"parent_session_id": parent} if parent else {})
    record["request"] = {"model": "m", "output_tokens": 16, "total_time_ms": took_ms} | request
    return record


def replay(length: int, *hashes: int) -> dict[str, Any]:
    return {"trace_block_size": 64, "input_length": length, "input_sequence_hashes": list(hashes)}


def test_dynamos_sessions_and_their_subagents_are_workflows(tmp_path: Path) -> None:
    trace = write(
        tmp_path / "t.jsonl",
        {"timestamp": 1, "event": dynamo(11_000, 1000, "run", replay=replay(128, 2**64 - 1, 7))},
        dynamo(14_000, 2000, "run:sub", "run", replay=replay(64, 9)),  # begins 1 s after the first call's end
        dynamo(16_500, 500, "run", replay=replay(200, 2**64 - 1, 7, 8, 5)),  # 2 s after the subagent's end
        {"schema": "dynamo.request.trace.v1", "event_type": "tool_end", "tool": {}},
        dynamo(10_500, 300, input_tokens=40),  # without a session: begins at 10.2 s
    )
    lines, _ = converted("dynamo", trace)
    assert lines[0] == {"takt_workload": 1, "prefix_block_tokens": 64}
    run, alone = lines[1], lines[2]
    assert run["arrival_s"] == 0 and run["class"] == "m"
    assert [call["prompt"] for call in run["calls"]] == [128, 64, 200]
    assert "after" not in run["calls"][0] and run["calls"][0]["prefix"] == [2**64 - 1, 7]
    assert (run["calls"][1]["after"], run["calls"][1]["delay_s"], run["calls"][1]["branch"]) == ([0], 1, 1)
    assert (run["calls"][2]["after"], run["calls"][2]["delay_s"]) == ([1], 2)
    assert alone["arrival_s"] == 0.2 and alone["calls"] == [{"prompt": 40, "output": 16}]


def test_parallel_calls_follow_what_had_ended(tmp_path: Path) -> None:
    # 0 [0, 1], then 1 [2, 5] and 2 [3, 4] in parallel, then 3 [6, 7] after both.
    times = [(0, 1), (2, 5), (3, 4), (6, 7)]
    trace = write(tmp_path / "t.jsonl",
                  *(dynamo(1000 * end, 1000.0 * (end - begin), "s", input_tokens=8) for begin, end in times))
    lines, _ = converted("dynamo", trace)
    assert [call.get("after", []) for call in lines[1]["calls"]] == [[], [0], [0], [1, 2]]
    assert [call.get("delay_s", 0) for call in lines[1]["calls"]] == [0, 1, 2, 1]


def span(trace: str, begin: float, end: float, **attributes: Any) -> dict[str, Any]:
    kinds = {int: "intValue", str: "stringValue"}
    listed = [{"key": key.replace("__", "."), "value": {kinds[type(value)]: str(value)}} for key, value in attributes.items()]
    return {"traceId": trace, "name": "chat m", "startTimeUnixNano": str(int(begin * 1e9)),
            "endTimeUnixNano": str(int(end * 1e9)), "attributes": listed}


def test_spans_of_generative_ai_are_calls(tmp_path: Path) -> None:
    def usage(tokens: int) -> dict[str, Any]:
        return {"gen_ai__usage__input_tokens": tokens, "gen_ai__usage__output_tokens": 5, "gen_ai__operation__name": "chat"}

    spans = [span("a", 1, 2, **usage(10)), span("a", 3, 4, **usage(20), gen_ai__agent__name="coder"),
             span("b", 2, 3, **usage(30), gen_ai__conversation__id="k"), span("c", 5, 6, **usage(40), gen_ai__conversation__id="k"),
             span("a", 0, 9, gen_ai__operation__name="invoke_agent", gen_ai__usage__input_tokens=30, gen_ai__usage__output_tokens=10),
             span("a", 0, 9)]
    trace = write(tmp_path / "t.jsonl", {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})
    lines, _ = converted("otel", trace)
    assert [[call["prompt"] for call in line["calls"]] for line in lines[1:]] == [[10, 20], [30, 40]]
    assert lines[1]["calls"][1] == {"prompt": 20, "output": 5, "after": [0], "delay_s": 1, "agent": "coder", "stage": "chat m",
                                    "branch": 1}
    assert lines[2]["arrival_s"] == 1


def test_sessions_of_weka_keep_blocks_and_subagents(tmp_path: Path) -> None:
    session = {
        "id": "trace_1", "models": ["big"], "block_size": 64, "hash_id_scope": "local",
        "requests": [
            {"t": 0.0, "type": "n", "in": 130, "out": 9, "hash_ids": [1, 2], "api_time": 4.0, "stop": "tool_use"},
            {"t": 6.0, "type": "subagent", "agent_type": "explore",
             "requests": [{"t": 1.0, "type": "s", "in": 64, "out": 3, "hash_ids": [8], "api_time": 2.0}]},
            {"t": 12.0, "type": "s", "in": 200, "out": 9, "hash_ids": [1, 2, 3], "think_time": 1.5, "stop": "end_turn"},
            {"t": 20.0, "type": "s", "in": 200, "out": 9, "hash_ids": [1, 3], "input_types": ["text"]},
        ],
    }
    path = tmp_path / "trace_1.json"
    path.write_text(json.dumps(session, indent=1))  # one object of several lines
    lines, _ = converted("weka", path)
    assert lines == [{
        "id": "trace_1", "block_tokens": 64, "model": "big", "subagents": [{"agent": 1, "kind": "explore"}],
        "calls": [
            {"t": 0, "in": 130, "out": 9, "blocks": [[1, 2]], "api_s": 4, "next": "tool"},
            {"t": 7, "in": 64, "out": 3, "blocks": [[3, 1]], "api_s": 2, "agent": 1},
            {"t": 12, "in": 200, "out": 9, "blocks": [[1, 2], [4, 1]], "think_s": 1.5, "next": "user"},
            # Block 3 after block 1 is another prefix than after block 2.
            {"t": 20, "in": 200, "out": 9, "blocks": [[1, 1], [5, 1]]},
        ],
    }]


@pytest.mark.parametrize(
    ("kind", "record", "fault"),
    [
        ("dynamo", {"schema": "other"}, 'schema is "other"; expected dynamo'),
        ("dynamo", dynamo(1, 1, input_tokens=-1), "input_tokens is -1; expected a whole number"),
        ("dynamo", dynamo(1, 1, input_tokens=True), "input_tokens is true"),
        ("dynamo", dynamo(1, 1, replay=replay(64, 1, 2)), "input_sequence_hashes is .* at most 1"),
        ("dynamo", dynamo(1, 1, replay=replay(64, 2**64)), "input_sequence_hashes"),
        ("dynamo", dynamo(1, 1, replay=[1]), "replay is .* an object"),
        ("dynamo", dynamo(1, float("inf"), input_tokens=4), "total_time_ms"),
        ("dynamo", [1], "expected a JSON object"),
        ("otel", {"spans": []}, "resourceSpans is null"),
        ("otel", {"resourceSpans": [{"scopeSpans": [3]}]}, "scopeSpans"),
        ("otel", {"resourceSpans": [{"scopeSpans": [{"spans": [span("a", 2, 1, gen_ai__usage__input_tokens=1,
                                                                  gen_ai__usage__output_tokens=1)]}]}]}, "endTimeUnixNano"),
        ("weka", {"requests": []}, "block_size is null"),
        ("weka", {"block_size": 64, "requests": []}, "at least one request"),
        ("weka", {"block_size": 64, "requests": [{"t": 0, "in": 1, "out": "x"}]}, 'out is "x"'),
    ],
)
def test_faults_name_file_line_and_field(tmp_path: Path, kind: str, record: Any, fault: str) -> None:
    trace = write(tmp_path / "t.jsonl", record)
    with pytest.raises(convert.TraceError, match=rf"t\.jsonl:1.*{fault}"):
        converted(kind, trace)


def test_bad_lines_can_be_left_out(tmp_path: Path) -> None:
    trace = tmp_path / "t.jsonl.gz"
    with gzip.open(trace, "wt") as file:
        file.write(json.dumps(dynamo(1000, 10, input_tokens=4)) + "\n\n{\n" + json.dumps(dynamo(2000, 10, input_tokens=5)) + "\n")
    with pytest.raises(convert.TraceError, match=r":3: is no JSON"):
        converted("dynamo", trace)
    lines, faults = converted("dynamo", trace, skip=True)
    assert len(lines) == 3 and len(faults) == 1
    trace.write_bytes(trace.read_bytes()[:40])  # cut off
    with pytest.raises(convert.TraceError):
        converted("dynamo", trace)


def test_earlier_records_of_dynamo_name_programs(tmp_path: Path) -> None:
    def record(end: int, program: str, parent: str = "") -> dict[str, Any]:
        told = dynamo(end, 100, input_tokens=8) | {"schema": "dynamo.agent.trace.v1"}
        told["agent_context"] = {"workflow_type_id": "research", "workflow_id": "run", "program_id": program}
        return told | ({"agent_context": told["agent_context"] | {"parent_program_id": parent}} if parent else {})

    lines, _ = converted("dynamo", write(tmp_path / "t.jsonl", record(1000, "a"), record(2000, "b", "a"), record(3000, "c")))
    assert [len(line["calls"]) for line in lines[1:]] == [3] and lines[1]["class"] == "research"


def test_a_call_inside_a_span_with_the_sum_counts_once(tmp_path: Path) -> None:
    def usage(tokens: int, name: str, parent: str = "", begin: float = 0, **more: Any) -> dict[str, Any]:
        told = span("a", begin, begin + 1, gen_ai__usage__input_tokens=tokens, gen_ai__usage__output_tokens=5, **more)
        return told | {"spanId": name, "parentSpanId": parent}

    spans = [usage(300, "1"), usage(100, "2", "1", 1), usage(200, "3", "1", 2, gen_ai__operation__name="responses"),
             usage(100, "2", "1", 1)]  # exported twice
    trace = write(tmp_path / "t.jsonl", *({"resourceSpans": [{"scopeSpans": [{"spans": [each]}]}]} for each in spans))
    lines, _ = converted("otel", trace)
    assert [call["prompt"] for call in lines[1]["calls"]] == [100, 200]


def test_many_parallel_calls_name_few_predecessors(tmp_path: Path) -> None:
    records = [dynamo(2000, 1000, "s", input_tokens=1) for _ in range(3000)]
    records += [dynamo(4000, 1000, "s", input_tokens=1) for _ in range(3000)]
    lines, _ = converted("dynamo", write(tmp_path / "t.jsonl", *records))
    assert {len(call.get("after", [])) for call in lines[1]["calls"]} == {0, 32}


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("dynamo", '{"schema": ' + "1" * 5000 + "}"),
        ("dynamo", json.dumps(dynamo(1, 1, replay={"trace_block_size": 0, "input_length": 8}))),
        ("dynamo", json.dumps(dynamo(1, 1, input_tokens=600_000_000))),
        ("otel", ('{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "a", "startTimeUnixNano": "\u00b9", "endTimeUnixNano": "1",'
                 '"attributes": [{"key": "gen_ai.usage.input_tokens", "value": {"intValue": "1"}},'
                 '{"key": "gen_ai.usage.output_tokens", "value": {"intValue": "1"}}]}]}]}]}')),
        ("weka", '{"block_size": 64, "requests": [{"t": -1, "in": 1, "out": 1}]}'),
        ("weka", '{"block_size": 64, "requests": [{"t": 0, "in": 1, "out": 1, "hash_ids": [1, 2]}]}'),
        ("weka", "{"),
    ],
)
def test_a_bad_line_costs_only_itself(tmp_path: Path, kind: str, line: str) -> None:
    good = {"dynamo": dynamo(1000, 10, input_tokens=4),
            "otel": {"resourceSpans": [{"scopeSpans": [{"spans": [span("b", 1, 2, gen_ai__usage__input_tokens=1,
                                                                       gen_ai__usage__output_tokens=1)]}]}]},
            "weka": {"block_size": 64, "requests": [{"t": 0, "in": 1, "out": 1}]}}[kind]
    trace = tmp_path / "t.jsonl"
    trace.write_text(line + "\n" + json.dumps(good) + "\n")
    lines, faults = converted(kind, trace, skip=True)
    assert len(lines) == (1 if kind == "weka" else 2) and len(faults) == 1


def test_the_output_replaces_a_file_only_at_the_end(tmp_path: Path) -> None:
    trace = write(tmp_path / "t.jsonl", {"schema": "other"})
    before = trace.read_text()
    assert convert.main(["dynamo", str(trace), "--output", str(trace)]) == 1
    assert trace.read_text() == before
    write(trace, dynamo(1000, 10, input_tokens=4))
    assert convert.main(["dynamo", str(trace), "--output", str(trace)]) == 0
    assert '"prompt":4' in trace.read_text()
    assert list(tmp_path.iterdir()) == [trace]


@pytest.mark.parametrize("kind", ["dynamo", "otel", "weka"])
def test_the_samples_of_the_page_are_read(tmp_path: Path, kind: str) -> None:
    page = Path(__file__).parents[3] / "docs/howto/traces.md"
    if not page.exists():
        pytest.skip("the pages are not here")
    sample = page.read_text().split(f"```json {kind}\n")[1].split("```")[0]
    trace = tmp_path / "t.jsonl"
    trace.write_text(sample)
    lines, _ = converted(kind, trace)
    call = lines[-1]["calls"][0]
    assert (call.get("prompt", call.get("in")), call.get("output", call.get("out"))) == (128, 16)


def test_takt_replays_what_was_converted(tmp_path: Path) -> None:
    sessions = [dynamo(1000 * (i + 2 * k), 400, f"s{i}", replay=replay(64 * (k + 1), *range(100 * i, 100 * i + k + 1)))
                for i in range(30) for k in range(4)]
    trace, out = write(tmp_path / "t.jsonl", *sessions), tmp_path / "w.jsonl"
    run = [sys.executable, "-m", "takt.convert", "dynamo", str(trace), "--output", str(out)]
    told = subprocess.run(run, capture_output=True, text=True, check=True)
    assert told.stderr == "takt.convert: 30 workflows\n"
    told = subprocess.run([sys.executable, "-m", "takt", "workload", str(out)], capture_output=True, text=True, check=True)
    assert "30" in told.stdout and "120" in told.stdout
    missing = subprocess.run([*run[:4], "/no/such/file"], capture_output=True, text=True, check=False)
    assert missing.returncode == 1 and "/no/such/file" in missing.stderr
