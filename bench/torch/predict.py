"""Compares runs by measure.py with takt's simulator, which has seen only the step log of one of them.

    python bench/torch/predict.py OUT --takt build/release/bin/takt

OUT: the folder of measure.py. It gets own.json (the profile), predicted-N.json and measured-N.json for takt compare.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
from pathlib import Path
from typing import Any

ID = "own/llama/torch_engine/any/tp1"
METRICS = {"ttft_s": "TTFT", "tpot_s": "TPOT", "e2e_s": "request", "workflow_s": "workflow"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path, help="read the results from this folder")
    parser.add_argument("--takt", type=Path, required=True, help="run this tool")
    options = parser.parse_args()
    takt, out = options.takt.resolve(), options.out
    measured = json.loads((out / "measured.json").read_text())
    for name, text in json.loads((out / "workloads.json").read_text()).items():
        (out / name).write_text(text)

    def run(*command: object) -> str:
        return subprocess.run([str(takt), *map(str, command)], cwd=out, check=True, stdout=subprocess.PIPE, text=True).stdout

    engine = measured["reports"][0]["engine"]
    limits = ["--token-budget", engine["token_budget"], "--max-seqs", engine["max_seqs"]]
    print(run("calibrate", "steps.jsonl.gz", "--id", ID, "--kv-tokens", engine["kv_tokens"], *limits, "--out", "own.json"))
    print(f"{measured['size']} on {measured['device']}, torch {measured['torch']}. Measured mean and p95, and the errors of the prediction [%]\n")
    print(f"{'run':11} {'policy':18}" + "".join(f"{name + ' [ms]':>20} {'errors':>14}" for name in METRICS.values()))
    errors: dict[str, list[tuple[float, float]]] = {key: [] for key in METRICS}
    means: dict[tuple[str, str, bool], float] = {}
    for n, report in enumerate(measured["reports"]):
        served, name = report["runs"][0], report["workload"]["source"]
        (out / f"measured-{n}.json").write_text(json.dumps(report))
        run("replay", "--workload", name, "--policy", served["policy"], "--profiles", "own.json", "--profile", ID, *limits, "--prefix-cache",
            "--retention", "lru", "--gate", "none", "--kv-tokens", report["engine"]["kv_tokens"], "--json", f"predicted-{n}.json", "-q")  # fmt: skip
        predicted: dict[str, Any] = json.loads((out / f"predicted-{n}.json").read_text())["runs"][0]
        line = f"{report['workload']['name']:11} {served['policy']:18}"
        for key in METRICS:
            a, b = served["metrics"][key], predicted["metrics"][key]
            off = tuple(100 * (b[at] / a[at] - 1) for at in ("mean", "p95"))
            line += f"{1e3 * a['mean']:10.1f}{1e3 * a['p95']:10.1f} {off[0]:+7.1f}{off[1]:+7.1f}"
            if report["workload"]["name"] != "fit":
                errors[key].append(off)  # type: ignore[arg-type]
        means[name, served["policy"], False] = served["metrics"]["workflow_s"]["mean"]
        means[name, served["policy"], True] = predicted["metrics"]["workflow_s"]["mean"]
        print(line)
    print(f"\n{'mean absolute error':30}" + "".join(
        f"{'':20} {sum(abs(e[0]) for e in each) / len(each):+7.1f}{sum(abs(e[1]) for e in each) / len(each):+7.1f}" for each in errors.values()))  # fmt: skip
    for name in dict.fromkeys(name for name, *_ in means):
        policies = [p for n, p, predicted in means if n == name and not predicted]
        for a, b in itertools.combinations(policies, 2):
            ratios = [means[name, b, side] / means[name, a, side] for side in (False, True)]
            print(f"{name[:-6]}: mean workflow latency of {b} over {a}: {ratios[0]:.3f} measured, {ratios[1]:.3f} predicted")
    print("\nThe cost of a step\nrun         policy              steps    rows   model [ms]   takt [us]: mean  p50  p99   share [%]   engine's Python [us]")
    for report in measured["reports"]:
        run_, s = report["runs"][0], report["runs"][0]["steps"]
        t = s["takt_us"]
        print(f"{report['workload']['name']:11} {run_['policy']:18} {s['steps']:6} {s['rows']['mean']:7.1f} {s['model_ms']['mean']:12.2f} "
              f"{t['mean']:16.1f} {t['p50']:4.0f} {t['p99']:4.0f} {100 * s['takt_share']:11.3f} {s['other_us']['mean']:22.0f}")  # fmt: skip


if __name__ == "__main__":
    main()
