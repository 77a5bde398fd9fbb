"""Workloads as plain records: reading traces, generating, writing.

A workload is a list of workflows. A workflow is a dict with ``arrival_s`` [s] and ``calls``. It can have ``class``,
``deadline_s``, ``tenant`` and ``priority``. A call is a dict with ``prompt`` and ``output`` [tokens]. It can have
``stage``, ``agent``, ``after`` (calls that must end first, by position or stage), ``delay_s``, ``tools`` and
``prefix``. docs/reference/workloads.md lists all keys.
"""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ._tool import run
from .errors import RequestError, TaktError
from ._library import real, whole
from .requests import NEVER, Estimate, Request

__all__ = ["Workflows", "calls", "columns_text", "generate", "read", "requests", "write"]

_TOKENS = (0, 2**31 - 1)


class Workflows(list[dict[str, Any]]):
    """A list of workflows. ``header`` has properties of the whole workload: name, tokens per prefix block, names of
    tenants."""

    header: dict[str, Any]

    def __init__(self, workflows: Iterable[dict[str, Any]] = (), header: Mapping[str, Any] | None = None) -> None:
        super().__init__(workflows)
        self.header = dict(header or {"takt_workload": 1})


def columns_text(columns: str | Mapping[str, str]) -> str:
    """Returns {"arrival": "ts:ms", "prompt": "in"} as text for the tool."""
    if isinstance(columns, str):
        return columns

    def quoted(text: str) -> str:
        return '"' + text.replace('"', '""') + '"' if "," in text or '"' in text else text

    return ",".join(quoted(f"{key}={value}") for key, value in columns.items())


def _parse(text: str) -> Workflows:
    workflows = Workflows()
    for line in text.split("\n"):  # not splitlines(), which also splits at characters that names may contain
        if not line.strip():
            continue
        told = json.loads(line)
        if "takt_workload" in told:
            workflows.header = told
        else:
            workflows.append(told)
    return workflows


def _made(arguments: Sequence[str]) -> Workflows:
    with tempfile.TemporaryDirectory(prefix="takt-") as folder:
        path = Path(folder, "workload.jsonl")
        run([*arguments, "--output", str(path)])
        return _parse(path.read_text())


def read(
    path: str | Path = "bundled",
    *,
    format: str | None = None,
    columns: str | Mapping[str, str] | None = None,
    limit: int | None = None,
    draw: int | None = None,
    length_scale: float | None = None,
    skip_bad_lines: bool = False,
    seed: int | None = None,
) -> Workflows:
    """Reads a trace: workflow JSONL, Azure, Mooncake, BurstGPT, ShareGPT, sessions, ..., also gzipped. With ``columns``
    ({"arrival": "ts:ms", "prompt": "in", "output": "out"}) it reads any CSV file or JSON lines. "bundled" is the
    workload that ships with the tool. An invalid line raises `ToolError` with file, line, field and value."""
    arguments = ["workload", str(path)]
    told: dict[str, Any] = {
        "--format": format, "--limit": limit, "--draw": draw, "--length-scale": length_scale, "--seed": seed,
    }  # fmt: skip
    for name, value in told.items():
        if value is not None:
            arguments += [name, str(value)]
    if columns is not None:
        arguments += ["--columns", columns_text(columns)]
    if skip_bad_lines:
        arguments.append("--skip-bad-lines")
    return _made(arguments)


def generate(name: str, **keys: Any) -> Workflows:
    """Generates random arrivals and lengths; the same keys give the same workload on every machine. "poisson",
    "constant", "gamma" and "weibull" give single requests, "multi_stage" gives workflows. ``generate("poisson",
    requests=1000, rate=5, output="lognormal:200:0.8")``."""
    spec = name if name.startswith("gen:") else f"gen:{name}"
    return _made(["generate", ",".join([spec, *(f"{key}={value}" for key, value in keys.items())])])


def _checked(workflows: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields each workflow with its name for errors, after checking that it has calls."""
    for number, workflow in enumerate(workflows):
        name = f"workflows[{number}]"
        if not isinstance(workflow, Mapping):
            raise RequestError(name, workflow, "must be a dict with the key calls")
        told = workflow.get("calls")
        if not isinstance(told, Sequence) or isinstance(told, (str, bytes)) or not told:
            raise RequestError(f"{name}.calls", told, "must be a list of at least one call")
        for position, call in enumerate(told):
            if not isinstance(call, Mapping):
                raise RequestError(f"{name}.calls[{position}]", call, "must be a dict with prompt and output")
        yield name, workflow


def write(workflows: Iterable[Mapping[str, Any]], path: str | Path) -> None:
    """Writes workflow JSONL, which `read` and the tool accept; gzipped if the name ends in ".gz"."""
    header = workflows.header if isinstance(workflows, Workflows) else {"takt_workload": 1}
    lines = [workflow for _, workflow in _checked(workflows)]
    try:
        text = "".join(json.dumps(each, allow_nan=False) + "\n" for each in [header, *lines])
    except (TypeError, ValueError) as error:
        raise TaktError(f"workflows: {error}") from error
    data = text.encode()
    Path(path).write_bytes(gzip.compress(data) if str(path).endswith(".gz") else data)


def calls(workflows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns one flat record per call, which ``pandas.DataFrame`` accepts. A record has the positions ``workflow`` and
    ``call``, the keys of the workflow (``arrival_s``, ...) and the keys of the call (``prompt``, ...)."""
    records = []
    for number, (_, workflow) in enumerate(_checked(workflows)):
        about = {key: value for key, value in workflow.items() if key not in ("calls", "id")}
        for position, call in enumerate(workflow["calls"]):
            records.append({"workflow": number, "call": position, **about, **call})
    return records


def requests(workflows: Iterable[Mapping[str, Any]], *, lengths: bool = True) -> list[Request]:
    """Returns a `Request` per call, in the order of `calls`. Ids and workflows are numbered from 1; names of stages,
    agents and tenants become numbers from 1 in order of appearance. With ``lengths`` the true outputs become exact
    estimates."""
    numbers: dict[tuple[str, str], int] = {}

    def number(kind: str, name: Any) -> int:
        if name in (None, "", 0):
            return 0
        return numbers.setdefault((kind, str(name)), 1 + sum(known == kind for known, _ in numbers))

    made: list[Request] = []
    for record in calls(workflows):
        of_workflow = f"workflows[{record['workflow']}]"
        of_call = f"{of_workflow}.calls[{record['call']}]"

        def seconds(name: str) -> int:
            value = real(f"{of_workflow}.{name}", record.get(name))
            if not 0 <= value <= 9e9:
                raise RequestError(f"{of_workflow}.{name}", value, "must be seconds from 0 to 9e9")
            return round(value * 1e9)

        arrival = seconds("arrival_s")
        output = whole(f"{of_call}.output", record.get("output"), _TOKENS)
        made.append(
            Request(
                len(made) + 1,
                prompt_tokens=whole(f"{of_call}.prompt", record.get("prompt"), _TOKENS),
                output_tokens=Estimate.exact(output) if lengths else None,
                workflow=record["workflow"] + 1,
                stage=number("stage", record.get("stage")),
                agent=number("agent", record.get("agent")),
                tenant=number("tenant", record.get("tenant")),
                arrival=arrival,
                workflow_arrival=arrival,
                deadline=NEVER if record.get("deadline_s") is None else arrival + seconds("deadline_s"),
                priority=whole(f"{of_workflow}.priority", record.get("priority", 0), (-(2**31), 2**31 - 1)),
            )
        )
    return made
