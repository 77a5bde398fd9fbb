"""Recommended engines, plans of a cascade, and the alpha of `workload_balance`. The `takt` tool computes them in a
process of its own."""

from __future__ import annotations

import ctypes
import json
import tempfile
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import workloads
from ._library import check, lib, moment, real
from ._tool import Progress, progress_of, run
from .cascades import CascadeStage
from .errors import RequestError
from .replays import Workload, arguments_of, path_of, policies_of, several

__all__ = [
    "AlphaDecision", "AlphaTuner", "CascadePlan", "Recommendation", "plan_cascade", "recommend", "search_alpha", "tail_test",
]  # fmt: skip


def tail_test(before: Sequence[float], now: Sequence[float], tail: float = 0.75) -> float:
    """Returns the p-value of the test that ``now`` has a worse tail than ``before``: a small value means a worse tail.
    Only the excess over the ``tail`` quantile of both samples counts."""
    arrays = [(ctypes.c_double * len(each))(*[real("values", x) for x in each]) for each in (before, now)]
    p = ctypes.c_double()
    status = lib.takt_tail_test(
        ctypes.addressof(arrays[0]), len(arrays[0]), ctypes.addressof(arrays[1]), len(arrays[1]), real("tail", tail),
        ctypes.byref(p),
    )  # fmt: skip
    check(status, "tail_test")
    return p.value


def _run(arguments: Sequence[str], files: Mapping[str, str]) -> dict[str, Any]:
    """Runs the tool with files given by option and contents, and returns its JSON."""
    with tempfile.TemporaryDirectory(prefix="takt-") as folder:
        told = list(arguments)
        for option, contents in files.items():
            path = Path(folder) / option.lstrip("-")
            path.write_text(contents, encoding="utf-8")
            told += [option, str(path)]
        result: dict[str, Any] = json.loads(run([*told, "--quiet", "--json", "-"]))
        return result


@dataclass(frozen=True)
class Recommendation:
    """The fewest GPUs that serve a workload within targets (docs/howto/recommend.md). ``best`` is the chosen candidate,
    with ``gpus``, ``replicas``, ``profile``, ``policy``, ``token_budget``, ``prefix_cache`` and ``figures``. Its
    ``replay`` has the arguments of the tool that repeat its run, without ``--workload`` if the workload was no file.
    ``ranked``: all candidates that ran, the best first. ``json``: all that the tool reports."""

    best: dict[str, Any]
    ranked: list[dict[str, Any]]
    json: dict[str, Any] = field(repr=False)


def recommend(
    workload: Workload = "bundled",
    *,
    slo: str | Mapping[str, Any],
    gpus: int,
    profile: str | Iterable[str] = (),
    policy: str | Iterable[str] = (),
    tp: int | Iterable[int] = (),
    pp: int | Iterable[int] = (),
    token_budgets: int | Iterable[int] = (),
    caches: str | int | Iterable[str | int] = (),
    exhaustive: bool = False,
    estimates: str | None = None,
    profiles: str | Path | None = None,
    placement: str | None = None,
    max_seqs: int | None = None,
    retention: str | None = None,
    gate: str | None = None,
    options: Mapping[str, Any] | None = None,
    rate_scale: float | None = None,
    closed_loop: int | None = None,
    session_rate: float | None = None,
    horizon_s: float | None = None,
    warm_up: float | None = None,
    think_cap_s: float | None = None,
    slo_ttft_s: float | None = None,
    slo_tpot_s: float | None = None,
    format: str | None = None,
    columns: str | Mapping[str, str] | None = None,
    limit: int | None = None,
    draw: int | None = None,
    skip_bad_lines: bool = False,
    seed: int | None = None,
    threads: int | None = None,
    progress: bool | Progress | None = None,
) -> Recommendation:
    """Finds the fewest GPUs, at most ``gpus``, that serve a workload within targets, by ``takt recommend``.

    ``slo``: targets such as ``{"ttft_p95": 2, "tpot_p99": 0.05}``, times in seconds. ``profile``: engines without
    ``/tpN``. ``tp``, ``pp``, ``token_budgets``, ``caches`` and ``policy`` are the grid. ``caches``: "off", "on", or
    tokens per engine in host memory. The other arguments are those of `takt.replay`. `ToolError` if no configuration
    serves; its text has the nearest miss.
    """
    if isinstance(slo, Mapping):
        for name, value in slo.items():
            if not str(name).isidentifier() or "," in str(value):
                raise RequestError("slo", slo, "must have names such as ttft_p95, with one limit each")
        slo = ",".join(f"{name}={value}" for name, value in slo.items())
    elif not isinstance(slo, str):
        raise RequestError("slo", slo, "must be a dict or a text, such as {'ttft_p95': 2}")
    arguments = ["recommend", "--slo", slo, *policies_of(policy)]
    for each in several(profile):
        arguments += ["--profile", str(each)]
    for name, listed in (("--tp", tp), ("--pp", pp), ("--token-budgets", token_budgets), ("--caches", caches)):
        if text := ",".join(str(each) for each in several(listed)):
            arguments += [name, text]
    arguments += arguments_of(
        {
            "--gpus": gpus, "--exhaustive": exhaustive, "--estimates": estimates, "--profiles": profiles,
            "--placement": placement, "--max-seqs": max_seqs, "--retention": retention, "--gate": gate,
            "--rate-scale": rate_scale, "--closed-loop": closed_loop, "--session-rate": session_rate,
            "--horizon": horizon_s, "--warm-up": warm_up, "--think-cap": think_cap_s, "--slo-ttft": slo_ttft_s,
            "--slo-tpot": slo_tpot_s, "--format": format, "--limit": limit, "--draw": draw, "--seed": seed,
            "--skip-bad-lines": skip_bad_lines, "--threads": threads,
        },
        columns, options,
    )  # fmt: skip
    shown = progress_of(progress)
    with tempfile.TemporaryDirectory(prefix="takt-") as folder:
        out, path = Path(folder, "found.json"), path_of(workload, Path(folder))
        arguments += ["--workload", path, "--json", str(out)]
        run(arguments + ([] if shown else ["--quiet"]), shown)
        found = json.loads(out.read_text())
    if not isinstance(workload, (str, Path)):  # its file is gone
        for each in [found["best"], *found["ranked"]]:
            each["replay"] = [text for text in each["replay"] if text not in ("--workload", path)]
    return Recommendation(found["best"], found["ranked"], found)


@dataclass(frozen=True)
class CascadePlan:
    """A cascade plan (docs/howto/plan.md). ``models``: per model its ``name``, ``gpus``, ``share`` of all requests,
    ``p95_s`` and ``replicas`` (``profile``, ``tp``, ``pp``, ``count``). ``json``: all that the tool reports."""

    thresholds: list[float]
    models: list[dict[str, Any]]
    quality: float
    latency_p95_s: float
    json: dict[str, Any] = field(repr=False)

    @property
    def stages(self) -> list[CascadeStage]:
        """The stages for a `CascadeRouter`."""
        shares = [model["share"] for model in self.models] + [0.0]
        return [
            CascadeStage(
                self.thresholds[i] if i < len(self.thresholds) else 0.0,
                min(1.0, shares[i + 1] / shares[i]) if shares[i] > 0 else 0.0,
                model["gpus"] > 0,
            )
            for i, model in enumerate(self.models)
        ]


def plan_cascade(
    sample: Iterable[Mapping[str, Any]],
    models: Iterable[Mapping[str, Any]],
    *,
    gpus: int,
    rate: float,
    quality: float | None = None,
    latency_s: float | None = None,
    judge_s: float = 0.27,
    alternation: bool = False,
    requests: int | None = None,
    profiles: str | Path | None = None,
    threads: int | None = None,
) -> CascadePlan:
    """Plans GPUs, replicas and thresholds by ``takt plan``. ``sample``: requests such as ``{"prompt": 400, "outputs":
    [600, 550], "scores": [62, 91]}``, one number per model. ``models``: such as ``{"name": "32b", "profile":
    "aic/qwen3-32b/h100/bf16", "tp": [2], "pp": [1]}``, the smallest first. ``rate``: requests per second. Goal:
    the least p95 latency with a mean score of ``quality``, or the best score within ``latency_s`` [s]. `ToolError` if
    there is no plan."""
    if (quality is None) == (latency_s is None):
        raise RequestError("quality", quality, "must be given, or latency_s, but not both")
    arguments = ["plan", "--gpus", str(gpus), "--rate", repr(real("rate", rate)), "--judge-s", repr(real("judge_s", judge_s))]
    if quality is not None:
        arguments += ["--quality", repr(real("quality", quality))]
    if latency_s is not None:
        arguments += ["--latency", repr(real("latency_s", latency_s))]
    arguments += ["--alternation"] if alternation else []
    arguments += [] if requests is None else ["--requests", str(requests)]
    arguments += [] if profiles is None else ["--profiles", str(profiles)]
    arguments += [] if threads is None else ["--threads", str(threads)]
    lines = "".join(json.dumps(dict(each), allow_nan=False) + "\n" for each in sample)
    told = _run(arguments, {"--workload": lines, "--models": json.dumps({"models": [dict(m) for m in models]})})
    plan = told["plan"]
    return CascadePlan(plan["thresholds"], plan["models"], plan["quality"], plan["latency_p95_s"], told)


def search_alpha(
    served: Iterable[Mapping[str, Any]],
    engines: Iterable[str],
    *,
    placement: str = "workload_balance",
    policy: str = "fcfs",
    budgets: str = "none",
    alphas: Sequence[float] | None = None,
    seeds: int = 5,
    quantile: float = 0.95,
    threads: int | None = None,
    profiles: str | Path | None = None,
) -> dict[str, Any]:
    """Replays served workflows under each alpha by ``takt tune``, and returns its choice: ``alpha``, ``why`` and the
    results of each alpha (docs/howto/alpha_tuner.md). ``served``: workflows as in `takt.workloads`. ``engines``: the
    profile of each instance."""
    arguments = ["tune", "--placement", placement, "--policy", policy, "--budget", budgets, "--seeds", str(seeds),
                 "--quantile", repr(real("quantile", quantile))]  # fmt: skip
    for engine in engines:
        arguments += ["--engine", engine]
    arguments += [] if alphas is None else ["--alphas", ",".join(repr(real("alphas", a)) for a in alphas)]
    arguments += [] if threads is None else ["--threads", str(threads)]
    arguments += [] if profiles is None else ["--profiles", str(profiles)]
    with tempfile.TemporaryDirectory(prefix="takt-") as folder:
        path = Path(folder) / "served.jsonl"
        workloads.write(served, path)
        result: dict[str, Any] = json.loads(run([*arguments, "--workload", str(path), "--quiet", "--json", "-"]))
        return result


@dataclass(frozen=True)
class AlphaDecision:
    """The decision at the end of a window. ``action``: "kept" or "searched". ``p``: p-value of the test that the window
    is worse than the one before."""

    time: int
    action: str
    before: int
    now: int
    p: float


class AlphaTuner:
    """Decides when to search for another alpha, as HexGen-Flow does (section 4.3). A search is due after the first full
    window, and after each window with worse latencies than the one before.

    ``window_s``: length of a window [s]. ``p``: greatest p-value that counts as worse. ``least``: minimum workflows of
    a window for the test. ``most``: maximum workflows to replay, the newest.
    """

    def __init__(self, *, window_s: float = 100.0, p: float = 0.01, tail: float = 0.75, least: int = 10, most: int = 1000) -> None:
        self.alpha = 0.0
        self.searching = False
        self.history: deque[AlphaDecision] = deque(maxlen=100)
        self._window = int(real("window_s", window_s) * 1e9)
        if self._window <= 0:
            raise RequestError("window_s", window_s, "must be above 0")
        self._p, self._tail, self._least = p, tail, least
        self._served: deque[tuple[int, dict[str, Any]]] = deque(maxlen=most)
        self._latencies: list[float] = []
        self._before: list[float] = []
        self._searched = False
        self._end: int | None = None

    def ended(self, workflow: Mapping[str, Any], latency_s: float, now: int | None = None) -> None:
        """Adds an ended workflow, as in `takt.workloads`, and its latency [s]."""
        self._served.append((moment(now), dict(workflow)))
        self._latencies.append(real("latency_s", latency_s))

    def advance(self, now: int | None = None) -> list[dict[str, Any]] | None:
        """Closes windows that are over. Returns the workflows for `search_alpha`, if a search is due."""
        at = moment(now)
        if self._end is None:
            self._end = at + self._window
        if at < self._end:
            return None
        before, latencies, self._before, self._latencies = self._before, self._latencies, self._latencies, []
        enough = min(len(before), len(latencies)) >= self._least
        p = tail_test(before, latencies, self._tail) if enough else 1.0
        first = not self._searched and len(latencies) >= self._least
        due = (first or p < self._p) and not self.searching
        self.history.append(AlphaDecision(self._end, "searched" if due else "kept", len(before), len(latencies), p))
        old = self._end - self._window
        self._end += self._window * ((at - self._end) // self._window + 1)
        while self._served and self._served[0][0] <= old:
            self._served.popleft()
        if not due:
            return None
        self.searching = self._searched = True
        return [workflow for _, workflow in self._served]

    def finished(self, choice: Mapping[str, Any] | None) -> float | None:
        """Takes the result of the search; None: it failed. Returns the new alpha for `Router.epoch`; None: it stays."""
        self.searching = False
        if choice is None or choice["alpha"] == self.alpha:
            return None
        self.alpha = float(choice["alpha"])
        return self.alpha
