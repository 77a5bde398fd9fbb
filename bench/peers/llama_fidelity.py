"""Compares takt's simulator with llama_host: fits a profile to one run, and compares its predictions for other runs.

    python llama_fidelity.py --llama PREFIX --host llama_host --takt takt --model small.gguf --logs FOLDER --json FILE

The host's clock counts the instructions of the program under callgrind, a nanosecond each (instruction_clock.c). These counts
are reproducible, unlike wall-clock and processor time on a shared machine. One run is made twice to show it. Valgrind does not
support AVX-512, so ggml's processor code is built without it (--plain). `--clock processor` uses the processor time of the
computing thread, and makes each run twice.
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
    parser.add_argument("--requests", type=int, default=100, help="of each run")
    parser.add_argument("--budget", type=int, default=63, help="tokens of a step; from 64 rows on, attention is computed differently")
    parser.add_argument("--clock", choices=("instructions", "processor"), default="instructions")
    parser.add_argument("--plain", type=Path, help="libggml-cpu without AVX-512, for instructions")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    folder = options.logs
    counts = options.clock == "instructions"
    if counts and not options.plain:
        parser.error("--plain: is missing; expected with --clock instructions")
    under: list[object] = []
    if counts:
        clock, file = folder / "instruction_clock.so", folder / "callgrind"
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", Path(__file__).with_name("instruction_clock.c"), "-o", clock], check=True)
        under = ["env", f"INSTRUCTION_CLOCK={file}", f"LD_PRELOAD={clock}:{options.plain}", "valgrind", "-q", "--tool=callgrind",
                 f"--callgrind-out-file={file}"]  # fmt: skip
    limits = ["--token-budget", options.budget, "--max-seqs", 8]

    def run(*command: object) -> str:
        return subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True).stdout

    def workload(seed: int) -> list[object]:
        lengths = "prompt=lognormal:60:0.6,output=lognormal:24:0.6"
        return [f"gen:poisson,requests={options.requests},rate=1,{lengths},seed={seed}"]

    def serve(name: str, seed: int, rate: float, policy: str, steps: bool = False) -> dict:
        report = folder / f"fidelity-{name}.json"
        log = ["--steps", folder / f"fidelity-{name}.jsonl"] if steps else []
        run(*under, options.host, "--trace", *workload(seed), "--rate-scale", rate, "--policy", policy, "--model", options.model, "--threads", 1,
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

    # All requests at once give the throughput, from which the rates follow.
    serve("pilot", 1, 1e6, "fcfs", steps=True)
    pilot = predict(fit("pilot"), 1, 1e6, "fcfs")
    served = options.requests / pilot["metrics"]["e2e_s"]["max"]
    # Below and above saturation: the cost of eight rows does not follow from that of two.
    log = ""
    for load, seed in ((0.6, 21), (0.9, 22), (1.2, 23)):
        serve("learn", seed, load * served, "fcfs", steps=True)
        log += (folder / "fidelity-learn.jsonl").read_text()
    (folder / "fidelity-learn.jsonl").write_text(log)
    profile = fit("learn")

    rows = []
    for policy in ("fcfs", "sjf"):
        for load in (0.6, 0.9, 1.2):
            seed = 3 + int(10 * load)
            repeats = 2 if not counts or not rows else 1
            measured = [serve(f"run-{i}", seed, load * served, policy) for i in range(repeats)]
            told = predict(profile, seed, load * served, policy)
            row: dict = {"policy": policy, "load": load}
            for name in ("mean", "p95"):
                ours, first = (each["metrics"]["e2e_s"][name] for each in (told, measured[0]))
                row[f"measured_{name}_s"], row[f"predicted_{name}_s"] = first, ours
                row[f"{name}_error"] = ours / first - 1
                if repeats > 1:
                    row[f"repeats_{name}"] = measured[-1]["metrics"]["e2e_s"][name] / first - 1
            rows.append(row)
            print(json.dumps(row), flush=True)

    def worst(name: str) -> float:
        return round(max(abs(row[name]) for row in rows if name in row), 4)

    result = {
        "fidelity": {name: worst(name) for name in ("mean_error", "p95_error", "repeats_mean", "repeats_p95")}
        | {"median_mean_error": round(statistics.median(abs(row["mean_error"]) for row in rows), 4), "clock": options.clock, "runs": len(rows)},
        "rows": rows,
        "served_per_s": served,
    }  # fmt: skip
    print(json.dumps(result["fidelity"]), flush=True)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
