"""takt's simulator against llama_host: a profile fitted to one run, and what it says of others, beside what the host does.

    python llama_fidelity.py --llama PREFIX --host llama_host --takt takt --model middle.gguf --logs FOLDER --json FILE

The host's clock is the processor time of the thread that computes (--processor-time): on a machine that others use it repeats
itself better than seconds do. Each run that is predicted is made twice, so that one sees how well the host repeats itself.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
from pathlib import Path

ID = "own/random/host/fp32/tp1"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("llama", "host", "takt", "model", "logs"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--requests", type=int, default=150, help="of each run")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    folder = options.logs
    limits = ["--token-budget", 128, "--max-seqs", 8]

    def run(*command: object) -> str:
        return subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True).stdout

    def workload(seed: int) -> list[object]:
        lengths = "prompt=lognormal:60:0.6,output=lognormal:24:0.6"
        return [f"gen:poisson,requests={options.requests},rate=1,{lengths},seed={seed}"]

    def serve(name: str, seed: int, rate: float, policy: str, steps: bool = False) -> dict:
        report = folder / f"fidelity-{name}.json"
        log = ["--steps", folder / f"fidelity-{name}.jsonl"] if steps else []
        run(options.host, "--trace", *workload(seed), "--rate-scale", rate, "--policy", policy, "--model", options.model, "--threads", 1,
            "--cells", 4096, "--ubatch", 128, *limits, "--processor-time", "--json", report, *log, "-q")  # fmt: skip
        return json.loads(report.read_text())["runs"][0]

    def fit(name: str) -> Path:
        profile = folder / f"fidelity-{name}-profile.json"
        print(run(options.takt, "calibrate", folder / f"fidelity-{name}.jsonl", "--id", ID, "--kv-tokens", 4096, *limits, "--out", profile))
        return profile

    def predict(profile: Path, seed: int, rate: float, policy: str) -> dict:
        told = run(options.takt, "replay", "--workload", *workload(seed), "--rate-scale", rate, "--policy", policy, *limits,
                   "--profiles", profile, "--profile", ID, "--json", "-", "-q", "--no-wall")  # fmt: skip
        return json.loads(told)["runs"][0]

    # At once: what is served in a second, and with it the rates.
    serve("pilot", 1, 1e6, "fcfs", steps=True)
    pilot = predict(fit("pilot"), 1, 1e6, "fcfs")
    served = options.requests / pilot["metrics"]["e2e_s"]["max"]
    serve("learn", 2, 0.9 * served, "fcfs", steps=True)
    profile = fit("learn")

    rows = []
    for policy in ("fcfs", "sjf"):
        for load in (0.6, 0.9, 1.2):
            seed = 3 + int(10 * load)
            measured = [serve(f"run-{i}", seed, load * served, policy) for i in range(options.repeats)]
            told = predict(profile, seed, load * served, policy)
            row: dict = {"policy": policy, "load": load}
            for name in ("mean", "p95"):
                ours, first = (each["metrics"]["e2e_s"][name] for each in (told, measured[0]))
                row[f"measured_{name}_s"], row[f"predicted_{name}_s"] = first, ours
                row[f"{name}_error"] = ours / first - 1
                row[f"repeats_{name}"] = measured[-1]["metrics"]["e2e_s"][name] / first - 1
            rows.append(row)
            print(json.dumps(row), flush=True)

    def worst(name: str) -> float:
        return round(max(abs(row[name]) for row in rows), 4)

    result = {
        "fidelity": {name: worst(name) for name in ("mean_error", "p95_error", "repeats_mean", "repeats_p95")}
        | {"median_mean_error": round(statistics.median(abs(row["mean_error"]) for row in rows), 4), "clock": "processor time", "runs": len(rows)},
        "rows": rows,
        "served_per_s": served,
    }  # fmt: skip
    print(json.dumps(result["fidelity"]), flush=True)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
