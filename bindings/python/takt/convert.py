"""Converts traces of other tools to files that takt replays.

``python -m takt.convert dynamo trace.jsonl.gz --output workload.jsonl`` reads request traces of Dynamo. ``weka`` reads
sessions of coding agents, and ``otel`` spans of generative AI in OTLP JSON. Prompts and answers are not copied."""

from __future__ import annotations

import argparse
import contextlib
import gzip
import heapq
import itertools
import json
import math
import os
import re
import sys
import tempfile
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

__all__ = ["TraceError", "convert", "main"]

_MOST_TOKENS = 500_000_000
_MOST_BRANCHES = 2**16 - 1
_MOST_SECONDS = 1e9  # between the first and the last arrival
_MOST_AFTER = 32  # predecessors of a call that a file names: the last ones to end


class TraceError(ValueError):
    """A trace is invalid. The text names file, line and field."""


@dataclass
class _Record:
    """A JSON object, and its place in messages."""

    of: dict[str, Any]
    place: str

    def fault(self, key: str, wish: str) -> TraceError:
        return TraceError(f"{self.place}: {key} is {json.dumps(self.of.get(key))[:80]}; expected {wish}")

    def inner(self, key: str) -> _Record:
        value = self.of.get(key)
        if not isinstance(value, dict):
            raise self.fault(key, "an object")
        return _Record(value, f"{self.place}: {key}")

    def text(self, key: str) -> str:
        value = self.of.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.fault(key, "a text")
        return value.encode("utf-8", "replace").decode()  # without halves of characters

    def whole(self, key: str, least: int = 0, most: int = _MOST_TOKENS) -> int:
        value = self.of.get(key)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.fault(key, f"a whole number from {least} to {most}")
        return value

    def number(self, key: str, otherwise: float | None = None) -> float:
        value = self.of.get(key)
        if value is None and otherwise is not None:
            return otherwise
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e15:
            raise self.fault(key, "a number of at least 0")
        return float(value)

    def hashes(self, key: str, prompt: int, block: int) -> list[int]:
        value = self.of.get(key) or []
        if not isinstance(value, list) or not all(
            isinstance(h, int) and not isinstance(h, bool) and 0 <= h < 2**64 for h in value
        ):
            raise self.fault(key, "whole numbers from 0 to 2^64-1")
        if len(value) > math.ceil(prompt / block):
            raise self.fault(key, f"at most {math.ceil(prompt / block)} of these, as many as the prompt has blocks")
        return value


@dataclass
class _Call:
    """A call of a workflow. Times in seconds."""

    begin: float
    end: float
    prompt: int
    output: int
    branch: str = ""
    agent: str = ""
    stage: str = ""
    prefix: Sequence[int] = ()


@dataclass
class _Workflow:
    name: str = ""
    calls: list[_Call] = field(default_factory=list)


def _lines(paths: Iterable[str | Path]) -> Iterator[tuple[str, str]]:
    """Yields place and text of each line that is not blank."""
    for path in paths:
        opened = gzip.open if str(path).endswith(".gz") else open
        try:
            with opened(path, "rt", encoding="utf-8") as file:
                for number, line in enumerate(file, 1):
                    if line.strip():
                        yield f"{path}:{number}", line
        except (UnicodeDecodeError, EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise TraceError(f"{path}: {error}") from None


def _object(place: str, text: str) -> _Record:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: also a number of too many digits
        raise TraceError(f"{place}: is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise TraceError(f"{place}: expected a JSON object")
    return _Record(value, place)


def _after(calls: Sequence[_Call]) -> list[list[int]]:
    """Returns the predecessors of each call: those that ended before it began, and after which no other such call
    came. `calls` are sorted by their begin."""
    frontier: deque[int] = deque()  # in the order of their ends
    running: list[tuple[float, int]] = []
    after: list[list[int]] = []
    for i, call in enumerate(calls):
        while running and running[0][0] <= call.begin:
            _, ended = heapq.heappop(running)
            while frontier and calls[frontier[0]].end <= calls[ended].begin:
                frontier.popleft()
            frontier.append(ended)
        after.append(sorted(itertools.islice(reversed(frontier), _MOST_AFTER)))
        heapq.heappush(running, (call.end, i))
    return after


def _written(workflows: Iterable[_Workflow], block_tokens: int) -> Iterator[dict[str, Any]]:
    """Yields the lines of a workflow file (docs/reference/workload_files.md). The first arrival is at 0."""
    ordered = [w for w in workflows if w.calls]
    for w in ordered:
        w.calls.sort(key=lambda call: (call.begin, call.end))
    ordered.sort(key=lambda w: w.calls[0].begin)
    if not ordered:
        return
    first = ordered[0].calls[0].begin
    if ordered[-1].calls[0].begin - first > _MOST_SECONDS:
        raise TraceError("the first and the last call lie more than 31 years apart: a time is wrong")
    yield {"takt_workload": 1, "prefix_block_tokens": block_tokens}
    for w in ordered:
        branches: dict[str, int] = {}
        line: dict[str, Any] = {"arrival_s": round(w.calls[0].begin - first, 9), "calls": []}
        if w.name:
            line["class"] = w.name
        for call, after in zip(w.calls, _after(w.calls)):
            told: dict[str, Any] = {"prompt": call.prompt, "output": call.output}
            if after:
                told["after"] = after
                told["delay_s"] = round(max(0.0, call.begin - max(w.calls[i].end for i in after)), 9)
            elif call.begin > w.calls[0].begin:
                told["delay_s"] = round(call.begin - w.calls[0].begin, 9)
            branch = min(branches.setdefault(call.branch, len(branches)), _MOST_BRANCHES)
            told |= {key: value for key, value in (("agent", call.agent), ("stage", call.stage), ("branch", branch)) if value}
            if call.prefix:
                told["prefix"] = list(call.prefix)
            line["calls"].append(told)
        yield line


# ---- Dynamo ---------------------------------------------------------------------------------------------------------


_PARENTS = ("parent_trajectory_id", "parent_program_id", "parent_session_id")


def _dynamo(lines: Iterable[tuple[str, str]], skipped: Callable[[TraceError], None]) -> Iterator[dict[str, Any]]:
    """Reads request_end records of dynamo.request.trace.v1 or dynamo.agent.trace.v1 (docs.nvidia.com/dynamo, "Agent
    tracing"). A session and its subagents are one workflow; a request without a session is a workflow of its own."""
    parents: dict[str, str] = {}
    found: list[tuple[str, _Call, str]] = []  # session or "", call, class
    block: int | None = None
    for where, text in lines:
        try:
            record = _object(where, text)
            if isinstance(record.of.get("event"), dict):  # as file sinks write it
                record = _Record(record.of["event"], record.place)
            schema = record.text("schema")
            if not schema.startswith("dynamo."):
                raise record.fault("schema", "dynamo.request.trace.v1 or dynamo.agent.trace.v1")
            if record.text("event_type") != "request_end":
                continue
            request = record.inner("request")
            replay = request.inner("replay") if request.of.get("replay") is not None else _Record({}, where)
            tokens = replay.whole("trace_block_size", 1) if replay.of else None
            if tokens is not None and block is not None and tokens != block:
                raise replay.fault("trace_block_size", f"{block}, as on earlier lines")
            prompt = replay.whole("input_length") if replay.of else request.whole("input_tokens")
            hashes = replay.hashes("input_sequence_hashes", prompt, tokens or 1)
            end = record.number("event_time_unix_ms") / 1e3
            took = request.number("total_time_ms", 0.0) / 1e3
            begin = request.number("request_received_ms", 1e3 * max(0.0, end - took)) / 1e3
            if took > 0:
                end = begin + took
            context = record.inner("agent_context") if record.of.get("agent_context") else _Record({}, where)
            run = context.text("session_id") or context.text("workflow_id")
            session = context.text("trajectory_id") or context.text("program_id") or run
            parent = next((context.text(key) for key in _PARENTS if context.text(key)), run)
            if context.of and not session:
                raise context.fault("session_id", "an id, or one in trajectory_id, program_id or workflow_id")
            call = _Call(begin, max(begin, end), prompt, request.whole("output_tokens"), session, prefix=hashes)
            kind = context.text("session_type_id") or context.text("workflow_type_id") or request.text("model")
        except TraceError as error:
            skipped(error)
            continue
        block = tokens if tokens is not None else block
        if session and parent and parent != session:
            parents.setdefault(session, parent)
        found.append((session, call, kind))

    roots: dict[str, str] = {}

    def root(session: str) -> str:
        path: dict[str, None] = {}
        while session not in roots and session in parents and session not in path:
            path[session] = None
            session = parents[session]
        found_root = roots.get(session, session)
        roots.update(dict.fromkeys(path, found_root))
        return found_root

    workflows: dict[str, _Workflow] = {}
    for i, (session, call, kind) in enumerate(found):
        workflow = workflows.setdefault(root(session) if session else f"\0{i}", _Workflow(kind))
        workflow.calls.append(call)
    yield from _written(workflows.values(), block or 512)


# ---- spans of OpenTelemetry -------------------------------------------------------------------------------------------

_OTHER_OPERATIONS = {"embeddings", "execute_tool", "invoke_agent", "create_agent", "invoke_workflow", "retrieval"}


def _attributes(span: _Record) -> _Record:
    told: dict[str, Any] = {}
    listed = span.of.get("attributes", [])
    if not isinstance(listed, list):
        raise span.fault("attributes", "a list")
    for each in listed:
        value = each.get("value") if isinstance(each, dict) else None
        if not isinstance(value, dict) or not isinstance(each.get("key"), str):
            raise span.fault("attributes", "objects with key and value")
        for kind, of in value.items():
            whole = kind == "intValue" and isinstance(of, str) and re.fullmatch("[0-9]{1,19}", of)
            told[each["key"]] = int(of) if whole else of
    return _Record(told, span.place)


def _nanoseconds(span: _Record, key: str) -> float:
    value = span.of.get(key)
    if isinstance(value, str) and re.fullmatch("[0-9]{1,19}", value):
        return int(value) / 1e9
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**64:
        return value / 1e9
    raise span.fault(key, "nanoseconds since 1970")


def _spans(record: _Record) -> Iterator[_Record]:
    def each(of: _Record, *keys: str) -> Iterator[_Record]:
        for key in keys:
            if key not in of.of:
                continue
            if not isinstance(of.of[key], list) or not all(isinstance(x, dict) for x in of.of[key]):
                raise of.fault(key, "a list of objects")
            yield from (_Record(x, f"{of.place}: {key}[{i}]") for i, x in enumerate(of.of[key]))

    if "resourceSpans" not in record.of:
        raise record.fault("resourceSpans", "the spans of an OTLP export")
    for resource in each(record, "resourceSpans"):
        for scope in each(resource, "scopeSpans"):
            yield from each(scope, "spans")


def _otel(lines: Iterable[tuple[str, str]], skipped: Callable[[TraceError], None]) -> Iterator[dict[str, Any]]:
    """Reads OTLP JSON, one export per line. A span with gen_ai.usage.input_tokens and .output_tokens is a call
    (OpenTelemetry semantic conventions for generative AI), unless a span inside it is a call. Traces with one
    gen_ai.conversation.id are one workflow; any other trace is a workflow of its own."""
    parents: dict[tuple[str, str], str] = {}  # of all spans
    calls: dict[tuple[str, str], _Call] = {}  # by trace and span; a span that came twice counts once
    conversations: dict[str, str] = {}  # by trace
    for where, text in lines:
        try:
            spans = list(_spans(_object(where, text)))
        except TraceError as error:
            skipped(error)
            continue
        for span in spans:
            try:
                trace, name = span.text("traceId"), span.text("spanId") or f"\0{len(parents)}"
                parents[trace, name] = span.text("parentSpanId")
                told = _attributes(span)
                if conversation := told.text("gen_ai.conversation.id"):
                    conversations.setdefault(trace, conversation)
                prompt = next((k for k in ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens") if k in told.of), "")
                output = next(
                    (k for k in ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens") if k in told.of), "")
                if not prompt or not output or told.text("gen_ai.operation.name") in _OTHER_OPERATIONS:
                    continue
                if not trace:
                    raise span.fault("traceId", "an id")
                begin, end = _nanoseconds(span, "startTimeUnixNano"), _nanoseconds(span, "endTimeUnixNano")
                if end < begin:
                    raise span.fault("endTimeUnixNano", "a time after startTimeUnixNano")
                agent = told.text("gen_ai.agent.name")
                calls[trace, name] = _Call(begin, end, told.whole(prompt), told.whole(output), agent, agent, span.text("name"))
            except TraceError as error:
                skipped(error)
    outer: set[tuple[str, str]] = set()  # spans around a call
    for trace, name in calls:
        above = parents.get((trace, name), "")
        while above and (trace, above) not in outer:
            outer.add((trace, above))
            above = parents.get((trace, above), "")
    workflows: dict[tuple[str, str], _Workflow] = {}
    for (trace, name), call in calls.items():
        if (trace, name) in outer:
            continue
        key = ("conversation", conversations[trace]) if trace in conversations else ("trace", trace)
        workflows.setdefault(key, _Workflow()).calls.append(call)
    yield from _written(workflows.values(), 512)


# ---- sessions of coding agents ----------------------------------------------------------------------------------------


def _weka(lines: Iterable[tuple[str, str]], skipped: Callable[[TraceError], None]) -> Iterator[dict[str, Any]]:
    """Reads sessions of the KV-cache tester of WEKA: one JSON object per line or per file. Writes takt's sessions
    (docs/reference/workload_traces.md). Times of a subagent's calls count from its marker, unless all of them are later
    than the marker."""
    block: int | None = None
    for where, text in lines:
        try:
            session = _session(_object(where, text), block)
        except TraceError as error:
            skipped(error)
            continue
        block = session["block_tokens"]
        yield session


def _session(trace: _Record, expected: int | None) -> dict[str, Any]:
    block = trace.whole("block_size", 1)
    if expected is not None and block != expected:
        raise trace.fault("block_size", f"{expected}, as in earlier sessions")
    chains: dict[tuple[int, int], int] = {}  # (id of the earlier blocks, hash) -> id
    calls: list[dict[str, Any]] = []
    subagents: list[dict[str, Any]] = []

    def requests(of: _Record) -> list[_Record]:
        listed = of.of.get("requests")
        if not isinstance(listed, list) or not all(isinstance(r, dict) for r in listed):
            raise of.fault("requests", "a list of objects")
        return [_Record(r, f"{of.place}: requests[{i}]") for i, r in enumerate(listed)]

    def runs(hashes: Iterable[int]) -> list[list[int]]:
        listed: list[list[int]] = []
        before = 0
        for each in hashes:
            before = chains.setdefault((before, each), len(chains) + 1)
            if listed and listed[-1][0] + listed[-1][1] == before:
                listed[-1][1] += 1
            else:
                listed.append([before, 1])
        return listed

    def add(request: _Record, since: float, agent: int) -> None:
        call: dict[str, Any] = {"t": round(since + request.number("t"), 9), "in": request.whole("in"), "out": request.whole("out")}
        if blocks := runs(request.hashes("hash_ids", call["in"], block)):
            call["blocks"] = blocks
        for key, name in (("api_time", "api_s"), ("think_time", "think_s")):
            if request.of.get(key) is not None:
                call[name] = round(request.number(key), 9)
        stop = request.of.get("stop")
        if stop in ("tool_use", "end_turn"):
            call["next"] = "tool" if stop == "tool_use" else "user"
        if agent:
            call["agent"] = agent
        calls.append(call)

    for request in requests(trace):
        if request.text("type") != "subagent":
            add(request, 0.0, 0)
            continue
        inner, marker = requests(request), request.number("t", 0.0)
        subagents.append({"agent": len(subagents) + 1, "kind": request.text("subagent_type") or request.text("agent_type") or "subagent"})
        absolute = all(r.number("t") >= marker for r in inner)
        for r in inner:
            add(r, 0.0 if absolute else marker, len(subagents))
    if not calls:
        raise trace.fault("requests", "at least one request")
    calls.sort(key=lambda call: float(call["t"]))
    line: dict[str, Any] = {"id": trace.text("id"), "block_tokens": block, "calls": calls}
    models = trace.of.get("models")
    if isinstance(models, list) and models and isinstance(models[0], str):
        line["model"] = _Record({"": models[0]}, trace.place).text("")
    if subagents:
        line["subagents"] = subagents
    return line


_KINDS = {"dynamo": _dynamo, "otel": _otel, "weka": _weka}


def convert(
    kind: str, paths: Sequence[str | Path], output: TextIO, *, skip_bad_lines: bool = False
) -> tuple[int, list[TraceError]]:
    """Converts traces of one kind: "dynamo", "otel" or "weka". Writes JSON lines. Returns the number of workflows, and
    the faults of lines that it left out. Without `skip_bad_lines`, the first fault is raised as `TraceError`."""
    if kind not in _KINDS:
        raise TraceError(f"kind is {kind!r}; expected one of {', '.join(_KINDS)}")
    faults: list[TraceError] = []

    def skipped(fault: TraceError) -> None:
        if not skip_bad_lines:
            raise fault
        faults.append(fault)

    lines = _whole_files(paths) if kind == "weka" else _lines(paths)
    workflows = 0
    for line in _KINDS[kind](lines, skipped):
        workflows += "calls" in line
        output.write(json.dumps(line, separators=(",", ":")) + "\n")
    if workflows == 0:
        why = f"; {len(faults)} invalid lines, the first is {faults[0]}" if faults else ""
        raise TraceError(f"{', '.join(map(str, paths))}: no call was found{why}")
    return workflows, faults


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _whole_files(paths: Iterable[str | Path]) -> Iterator[tuple[str, str]]:
    """Yields each line. A file that is one object of several lines comes as a whole."""
    for path in paths:
        listed = list(_lines([path]))
        whole = "".join(text for _, text in listed)
        if len(listed) > 1 and not _is_json(listed[0][1]) and _is_json(whole):
            yield str(path), whole
        else:
            yield from listed


@contextlib.contextmanager
def _written_to(path: str) -> Iterator[TextIO]:
    """Opens a file that replaces `path` at the end, if there was no error. So an input may be the output."""
    handle, name = tempfile.mkstemp(dir=Path(path).parent, prefix=".takt-")
    os.close(handle)
    opened = gzip.open if path.endswith(".gz") else open
    try:
        with opened(name, "wt", encoding="utf-8") as file:
            yield file
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m takt.convert", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=sorted(_KINDS))
    parser.add_argument("files", nargs="+", metavar="FILE", help="JSON lines; a name that ends in .gz is compressed")
    parser.add_argument("--output", default="-", metavar="FILE", help="write to FILE, or - for standard output")
    parser.add_argument("--skip-bad-lines", action="store_true", help="leave out and count invalid lines")
    told = parser.parse_args(arguments)
    try:
        if told.output == "-":
            workflows, faults = convert(told.kind, told.files, sys.stdout, skip_bad_lines=told.skip_bad_lines)
        else:
            with _written_to(told.output) as file:
                workflows, faults = convert(told.kind, told.files, file, skip_bad_lines=told.skip_bad_lines)
    except (TraceError, OSError) as error:
        print(f"takt.convert: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    left = f"; {len(faults)} invalid lines left out, the first is {faults[0]}" if faults else ""
    print(f"takt.convert: {workflows} workflows{left}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
