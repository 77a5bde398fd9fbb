"""Compares runs by measure.py with takt's simulator, and prints Markdown tables.

    python bench/torch/predict.py bench/torch/h200 --takt build/release/bin/takt

The simulator has seen only the step log of the run `fit`. A second prediction of each run is fitted on that run's own
steps, with the mean context for all of them. Its errors have other causes than the times of steps.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import itertools
import json
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any

ID = "own/llama/torch_engine/any/tp1"
METRICS = {"ttft_s": "TTFT", "tpot_s": "TPOT", "workflow_s": "workflow latency"}


class Runs:
    def __init__(self, takt: Path, given: Path, work: Path) -> None:
        self.takt, self.work = takt, work
        files = ("measured.json", "workloads.json", "other_steps.json")
        self.measured, workloads, self.steps = (json.loads(read(given, name)) for name in files)
        self.requests = list(csv.DictReader(read(given, "requests.csv").splitlines()))
        for name, text in workloads.items():
            (work / name).write_text(text)
        shutil.copy(given / "steps.jsonl.gz", work)

    def run(self, *command: object) -> str:
        return subprocess.run([str(self.takt), *map(str, command)], cwd=self.work, check=True, stdout=subprocess.PIPE, text=True).stdout

    def limits(self, report: dict[str, Any]) -> list[object]:
        e = report["engine"]
        return ["--kv-tokens", e["kv_tokens"], "--token-budget", e["token_budget"], "--max-seqs", e["max_seqs"]]

    def calibrate(self, log: str, report: dict[str, Any], profile: str) -> str:
        return self.run("calibrate", log, "--id", ID, *self.limits(report), "--out", profile)

    def predict(self, report: dict[str, Any], profile: str) -> dict[str, Any]:
        self.run("replay", "--workload", report["workload"]["source"], "--policy", report["runs"][0]["policy"],
                 "--profiles", profile, "--profile", ID, *self.limits(report), "--prefix-cache", "--retention", "lru", "--gate", "none", "--json", "p.json", "-q")  # fmt: skip
        metrics: dict[str, Any] = json.loads((self.work / "p.json").read_text())["runs"][0]["metrics"]
        return metrics

    def own_log(self, report: dict[str, Any]) -> str:
        """Writes a step log of this run. Each step with prompt tokens has one chunk, and the other rows decode."""
        name, policy = report["workload"]["name"], report["runs"][0]["policy"]
        mine = [(int(r["prompt_tokens"]), int(r["output_tokens"])) for r in self.requests if (r["run"], r["policy"]) == (name, policy)]
        context = sum(output * (prompt + output / 2) for prompt, output in mine) // sum(output for _, output in mine)
        with open(self.work / "own.jsonl", "w") as file:
            for rows, tokens, model, other in self.steps[f"{name} {policy}"]:
                decode = rows if tokens == rows else rows - 1
                entries = [[1, int(context), 0, 1]] * decode + ([[tokens - decode, 0, 1, 1]] if tokens > decode else [])
                file.write(json.dumps({"time_s": model, "plan_s": other, "rows": entries}) + "\n")
        return "own.jsonl"


def read(folder: Path, name: str) -> str:
    packed = folder / f"{name}.gz"
    return gzip.decompress(packed.read_bytes()).decode() if packed.exists() else (folder / name).read_text()


def linear_fit(points: list[tuple[float, float]]) -> list[float]:
    """Fits y = a + b x with the least squares of relative errors. Returns the coefficients, and the
    mean and p95 of the errors [%]."""
    w = [1 / y**2 for _, y in points]
    x_mean, y_mean = (sum(each * point[at] for each, point in zip(w, points)) / sum(w) for at in (0, 1))
    spread = sum(each * (x - x_mean) ** 2 for each, (x, _) in zip(w, points))
    slope = sum(each * (x - x_mean) * (y - y_mean) for each, (x, y) in zip(w, points)) / spread
    at_zero = y_mean - slope * x_mean
    off = sorted(100 * abs((at_zero + slope * x) / y - 1) for x, y in points)
    return [at_zero, slope, statistics.mean(off), off[int(0.95 * len(off))]]


def table(*lines: list[object]) -> None:
    for n, line in enumerate(lines):
        print("| " + " | ".join(map(str, line)) + " |" + ("\n|" + "---|" * len(line) if n == 0 else ""))
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path, help="read the results from this folder")
    parser.add_argument("--takt", type=Path, required=True, help="run this tool")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        compare(Runs(options.takt.resolve(), options.out, Path(work)))


def compare(runs: Runs) -> None:
    measured = runs.measured
    reports = measured["reports"]
    print(f"A model of size {measured['size']} on {measured['device']}, torch {measured['torch']}.\n")
    print(runs.calibrate("steps.jsonl.gz", reports[0], "fit.json"))
    served = [(r["workload"]["name"], r["runs"][0]["policy"], r["runs"][0]["metrics"]) for r in reports]
    blind, own = [runs.predict(r, "fit.json") for r in reports], []
    for report in reports:
        runs.calibrate(runs.own_log(report), report, "own.json")
        own.append(runs.predict(report, "own.json"))

    for title, predicted in (("fitted on the run fit", blind), ("with the run's own step times", own)):
        print(f"Measured mean and p95 [ms], and errors [%] of the prediction {title}:\n")
        lines: list[list[object]] = [["Run", "Policy", *itertools.chain.from_iterable((name, "Error") for name in METRICS.values())]]
        errors: list[list[float]] = []
        for (name, policy, true), guess in zip(served, predicted):
            if name != "fit":
                errors.append([100 * (guess[key][at] / true[key][at] - 1) for key in METRICS for at in ("mean", "p95")])
                cells = [(f"{1e3 * true[key]['mean']:,.1f}, {1e3 * true[key]['p95']:,.1f}", f"{errors[-1][i]:+.1f}, {errors[-1][i + 1]:+.1f}")
                         for i, key in zip((0, 2, 4), METRICS)]  # fmt: skip
                lines.append([name, f"`{policy}`", *itertools.chain.from_iterable(cells)])
        off = [statistics.mean(abs(e[i]) for e in errors) for i in range(6)]
        lines.append(["mean absolute error", "", *itertools.chain.from_iterable(("", f"{off[i]:.1f}, {off[i + 1]:.1f}") for i in (0, 2, 4))])
        table(*lines)

    print("Mean workflow latency of the second policy over that of the first:\n")
    lines = [["Run", "Policies", "Measured", "Predicted", "With own step times"]]
    for i, j in itertools.combinations(range(len(served)), 2):
        if served[i][0] == served[j][0]:
            ratios = [each[j]["workflow_s"]["mean"] / each[i]["workflow_s"]["mean"] for each in ([s[2] for s in served], blind, own)]
            lines.append([served[i][0], f"`{served[i][1]}`, `{served[j][1]}`", *(f"{ratio:.3f}" for ratio in ratios)])
    table(*lines)

    print("Mean times of the model's steps [ms], by prompt tokens in the step, and p10 and p90 of those with 1 to 999:\n")
    lines = [["Run", "Policy", "None", "1 to 999", "p10, p90", "1,000 to 1,899", "1,900 or more"]]
    for name, policy, _ in served:
        steps = [(tokens - rows, 1e3 * model) for rows, tokens, model, _ in runs.steps[f"{name} {policy}"]]
        ranges = ((0, 1), (1, 1000), (1000, 1900), (1900, 1e9))
        kinds = [sorted(t for more, t in steps if low <= more < high) for low, high in ranges]
        mean = [f"{statistics.mean(k):.1f}" for k in kinds]
        some = kinds[1]
        lines.append([name, f"`{policy}`", *mean[:2], f"{some[len(some) // 10]:.1f}, {some[9 * len(some) // 10]:.1f}", *mean[2:]])
    table(*lines)

    print("Steps of the run fit that only decode, fitted linearly:\n")
    log = [json.loads(line) for line in read(runs.work, "steps.jsonl").splitlines()]
    decodes = [([tokens + before for tokens, before, *_ in s["rows"]], 1e3 * s["time_s"])
               for s in log if not any(row[2] for row in s["rows"])]  # fmt: skip
    lines = [["By", "At zero [ms]", "1,000 tokens [ms]", "Mean error [%]", "p95 [%]"]]
    for what, of in (("sum of the contexts", sum), ("longest context", max)):
        a, b, mean_off, p95 = linear_fit([(of(contexts), t) for contexts, t in decodes])
        lines.append([what, f"{a:.2f}", f"{1e3 * b:.2f}", f"{mean_off:.1f}", f"{p95:.1f}"])
    table(*lines)

    print("The cost of a step:\n")
    lines = [["Run", "Policy", "Steps", "Rows", "Model [ms]", "takt [us]: mean, p50, p99", "takt's share [%]", "The engine's Python [us]"]]
    for (name, policy, _), report in zip(served, reports):
        s = report["runs"][0]["steps"]
        t = s["takt_us"]
        lines.append([name, f"`{policy}`", f"{s['steps']:,}", f"{s['rows']['mean']:.1f}", f"{s['model_ms']['mean']:.2f}",
                      f"{t['mean']:.0f}, {t['p50']:.0f}, {t['p99']:.0f}", f"{100 * s['takt_share']:.2f}", f"{s['other_us']['mean']:.0f}"])  # fmt: skip
    table(*lines)


if __name__ == "__main__":
    main()
