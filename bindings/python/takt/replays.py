"""Replays of workloads in the simulator, to compare policies."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Union

from . import workloads
from ._tool import Progress, progress_of, run
from .errors import RequestError

__all__ = ["Report", "Table", "replay"]

Workload = Union[str, "Path", Sequence[Mapping[str, Any]]]


class Table(list[dict[str, Any]]):
    """A list of flat dicts, one per row."""

    def best(self, figure: str = "workflow_s.mean") -> dict[str, Any]:
        """Returns the row with the smallest value of the figure."""
        known = [row for row in self if row.get(figure) is not None]
        if not known:
            raise KeyError(figure)
        return min(known, key=lambda row: row[figure])

    def to_csv(self, path: str | Path | None = None) -> str:
        """Returns the table as CSV with a header, and writes it to the file ``path``, if given. A missing value is an
        empty field."""
        text = io.StringIO()
        columns = dict.fromkeys(column for row in self for column in row)
        writer = csv.DictWriter(text, list(columns), lineterminator="\n")
        writer.writeheader()
        writer.writerows(self)
        if path is not None:
            Path(path).write_bytes(text.getvalue().encode())
        return text.getvalue()

    def to_pandas(self) -> Any:
        """Returns a `pandas.DataFrame`. Needs pandas."""
        import pandas

        return pandas.DataFrame(list(self))


class Report(Table):
    """A table with one row per run.

    Keys: ``policy``, ``estimates``, ``load``, ``rate_scale``; counts ``requests``, ``completed``, ``failed``, ...;
    latencies [s] ``workflow_s.mean``, ``workflow_s.p99``, ``ttft_s.p95``, ``e2e_s.mean``, ``tpot_s.p50``, ...;
    ``throughput_rps``, ``kv_peak``, ``preemptions``, ... (docs/reference/cli.md). ``json`` is the tool's whole report.
    ``requests`` is a dict per request and run, if requested.
    """

    json: dict[str, Any]
    requests: list[dict[str, Any]]
    parts: list[dict[str, Any]]


def _flat(run: Mapping[str, Any]) -> dict[str, Any]:
    out = {key: value for key, value in run.items() if not isinstance(value, (dict, list))}
    for name, figure in run.get("metrics", {}).items():
        if isinstance(figure, dict):
            out.update((f"{name}.{part}", value) for part, value in figure.items())
        else:
            out[name] = figure
    out.update((f"failed.{reason}", count) for reason, count in run.get("failures", {}).items())
    return out


def _number(text: str) -> Any:
    if text == "":
        return None
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


def several(value: Any) -> list[Any]:
    return [value] if isinstance(value, (str, int, float)) else list(value)


def replay(
    workload: Workload = "bundled",
    policy: str | Iterable[str] = ("fcfs", "room_to_pass"),
    *,
    estimates: str | Iterable[str] = "oracle",
    profile: str | None = None,
    profiles: str | Path | None = None,
    instances: int | None = None,
    placement: str | None = None,
    token_budget: int | None = None,
    max_seqs: int | None = None,
    kv_tokens: int | None = None,
    prefix_cache: bool = False,
    retention: str | None = None,
    gate: str | None = None,
    options: Mapping[str, Any] | None = None,
    rate_scale: float | None = None,
    load: float | None = None,
    sweep: Sequence[float] | None = None,
    closed_loop: int | None = None,
    session_rate: float | None = None,
    horizon_s: float | None = None,
    warm_up: float | None = None,
    think_cap_s: float | None = None,
    slo_ttft_s: float | None = None,
    slo_tpot_s: float | None = None,
    by: str | None = None,
    regret: bool = False,
    format: str | None = None,
    columns: str | Mapping[str, str] | None = None,
    limit: int | None = None,
    draw: int | None = None,
    skip_bad_lines: bool = False,
    seed: int | None = None,
    threads: int | None = None,
    requests: bool = False,
    html: str | Path | None = None,
    progress: bool | Progress | None = None,
) -> Report:
    """Replays a workload on simulated engines, once per load, policy and kind of estimates.

    ``workload``: a file, "bundled", a generator such as ``"gen:multi_stage,rate=6"``, or a list of workflows from
    `takt.workloads`. ``policy``: one or several. ``estimates``: how output lengths are estimated ("oracle",
    "noise:0.5", "class-mean", "none", ...), one or several. ``rate_scale``: factor on the request rate. ``load``:
    request rate as a share of the engines' maximum. ``sweep``: several loads. ``profile``: name of the engine.
    ``kv_tokens``: size of each KV cache [tokens]. ``options``: of the scheduler or a policy, such as ``{"preempt":
    "by_rank"}``. ``by``: also report figures by "tenant", "class", "agent" or "stage" (`Report.parts`). ``requests``:
    also a record per request. ``html``: path of a page with plots. ``progress``: True for a bar, None for a bar in
    terminals and notebooks only, or a function of the share done and a description. ``takt replay --help`` describes
    the other arguments; names that end in ``_s`` are in seconds.

    The tool runs in a process of its own. Ctrl-C stops it and raises KeyboardInterrupt. `ToolError` has the tool's
    error text.
    """
    if prefix_cache and not isinstance(prefix_cache, bool):
        raise RequestError("prefix_cache", prefix_cache, "must be True or False")
    with tempfile.TemporaryDirectory(prefix="takt-") as folder:
        arguments = ["replay", "--workload", path_of(workload, Path(folder)), "--no-wall", *policies_of(policy)]
        for each in several(estimates):
            arguments += ["--estimates", str(each)]
        arguments += arguments_of(
            {
                "--profile": profile, "--profiles": profiles, "--instances": instances, "--placement": placement,
                "--token-budget": token_budget, "--max-seqs": max_seqs, "--kv-tokens": kv_tokens, "--retention": retention,
                "--gate": gate, "--rate-scale": rate_scale, "--load": load, "--closed-loop": closed_loop,
                "--session-rate": session_rate, "--horizon": horizon_s, "--warm-up": warm_up, "--think-cap": think_cap_s,
                "--slo-ttft": slo_ttft_s, "--slo-tpot": slo_tpot_s, "--by": by, "--format": format, "--limit": limit,
                "--draw": draw, "--seed": seed, "--threads": threads, "--html": html, "--prefix-cache": prefix_cache,
                "--regret": regret, "--skip-bad-lines": skip_bad_lines,
            },
            columns, options,
        )  # fmt: skip
        if sweep is not None:
            arguments += ["--sweep", ",".join(str(each) for each in several(sweep))]
        report_path, rows_path = Path(folder, "report.json"), Path(folder, "requests.csv")
        arguments += ["--json", str(report_path)]
        if requests:
            arguments += ["--csv", str(rows_path)]
        shown = progress_of(progress)
        if shown is None:
            arguments.append("--quiet")
        run(arguments, shown)
        whole_report = json.loads(report_path.read_text())
        report = Report(_flat(each) for each in whole_report["runs"])
        report.json = whole_report
        report.requests = []
        if requests:
            with rows_path.open(newline="") as rows:
                names = ("policy", "estimates", "outcome", "stage", "agent", "tenant", "class")
                report.requests = [
                    {key: text if key in names else _number(text) for key, text in row.items()}
                    for row in csv.DictReader(rows)
                ]
        report.parts = [
            {"policy": each["policy"], "estimates": each["estimates"], "load": each["load"], **_flat(part)}
            for each in whole_report["runs"]
            for part in each.get("parts", ())
        ]
        return report


def policies_of(policy: Any) -> list[str]:
    """Returns the arguments for one or several policies."""
    arguments = []
    for each in [policy] if callable(policy) else several(policy):
        if not isinstance(each, str):
            raise RequestError("policy", each, "must be the name of a C++ policy; the simulator runs no Python functions")
        arguments += ["--policy", each]
    return arguments


def arguments_of(
    told: Mapping[str, Any], columns: str | Mapping[str, str] | None, options: Mapping[str, Any] | None
) -> list[str]:
    """Returns arguments of the tool. A value of True makes a flag; None and False are left out."""
    arguments = []
    for name, value in told.items():
        if value is not None and value is not False:
            arguments += [name] if value is True else [name, str(value)]
    if columns is not None:
        arguments += ["--columns", workloads.columns_text(columns)]
    for name, value in (options or {}).items():
        arguments += ["--option", f"{name}={value}"]
    return arguments


def path_of(workload: Workload, folder: Path) -> str:
    if isinstance(workload, (str, Path)):
        return str(workload)
    path = folder / "workload.jsonl"
    workloads.write(workload, path)
    return str(path)
