#!/usr/bin/env python3
"""Compares profiles with served runs on GPUs: median errors of TPOT and TTFT, by model, GPU and engine.

    bench/served/served_runs.py RUNS.csv.gz build/tool/bin/takt            # the table of docs/background/served_runs.md
    bench/served/served_runs.py RUNS.csv.gz build/tool/bin/takt --old      # the profiles without an engine in the id
    bench/served/served_runs.py RUNS.csv.gz build/tool/bin/takt --fit      # also fits the front end of each engine

RUNS has the columns of aiconfigurator-core's silicon_sample.csv. Each run is a closed loop of batch_size requests.
Runs of InferenceMAX draw lengths from 0.8 to 1 times isl and osl, as its client does (RANDOM_RANGE_RATIO). All others
have fixed lengths; there, the first answers are cut at random, or all places of the loop would stay in step. A replay has 10 requests per place in the loop, as InferenceMAX has.
"""
import argparse
import collections
import csv
import gzip
import json
import random
import re
import statistics
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor

MODELS = {
    "deepseek-ai/DeepSeek-R1": "deepseek-r1", "deepseek-ai/DeepSeek-V3": "deepseek-r1",
    "nvidia/DeepSeek-R1-NVFP4": "deepseek-r1", "moonshotai/Kimi-K2.5": "kimi-k2.5", "zhipuai/GLM-5": "glm-5",
    "Qwen/Qwen3-32B": "qwen3-32b", "Qwen/Qwen3-235B-A22B-FP8": "qwen3-235b-a22b",
    "Qwen/Qwen3.5-397B-A17B": "qwen3.5-397b-a17b", "MiniMaxAI/MiniMax-M2.5": "minimax-m2.5",
    "openai/gpt-oss-120b": "gpt-oss-120b", "meta-llama/Llama-3.1-70B": "llama-3.1-70b",
    "meta-llama/Llama-3.1-8B-Instruct": "llama-3.1-8b", "nvidia/Llama-3.1-8B-Instruct-FP8": "llama-3.1-8b",
}
INFERENCE_MAX = ((1024, 1024), (1024, 8192), (8192, 1024))  # its lengths; no other source of RUNS has them
FORMATS = {"": "bf16", "fp8": "fp8", "fp8_block": "fp8", "nvfp4": "fp4", "int4_wo": "int4"}


def layout(row):
    """Returns the layout's part of the engine's name, and the number of GPUs.

    The source multiplies the degrees of some runs with expert parallelism: 64 = tp8 x ep8 are 8 GPUs. Their ids have
    the true ones."""
    tp, dp, ep, moe_tp = (int(row[k] or 1) or 1 for k in ("tp_size", "attention_dp_size", "moe_ep_size", "moe_tp_size"))
    named = re.search(r"_tp(\d+)(?:_\d)?_ep(\d+)_", row["id"])
    if named:
        gpus, ep = int(named[1]), int(named[2])
    elif dp > 1:
        gpus = ep = round(max(ep, moe_tp * ep) ** 0.5) if tp * dp in (16, 64) or tp == dp else max(ep, dp)
    elif ep > 1 and moe_tp == ep and tp == ep * ep and tp > 8:
        gpus = ep
    else:
        gpus = max(tp, moe_tp * ep)
        if gpus > tp:
            dp = gpus // tp
    return (f"-ep{ep}" if ep > 1 else "") + (f"-dp{gpus}" if dp > 1 else ""), gpus


def profile_of(row, old):
    model = MODELS.get(row["model_path"])
    part, gpus = layout(row)
    gpu = row["system"].replace("_sxm", "")
    dtype = FORMATS[row["gemm_quant_mode"]]
    if old:
        if part or model not in ("llama-3.1-70b", "llama-3.1-8b", "qwen3-32b", "deepseek-r1"):
            return None
        if model == "deepseek-r1":
            return f"e2e/deepseek-r1/h200/fp8/sglang/tp{gpus}"
        return f"{'aic' if gpu == 'h100' else 'derived'}/{model}/{gpu}/{dtype}/tp{gpus}"
    return f"aic/{model}/{gpu}/{dtype}/{row['backend']}{part}/tp{gpus}"


def workload(row, path):
    isl, osl, batch = int(row["isl"]), int(row["osl"]), int(row["batch_size"])
    drawn = (isl, osl) in INFERENCE_MAX
    draw = random.Random(row["id"])
    with open(path, "w") as out:
        out.write("arrival,prompt,output\n")
        for i in range(batch * 10):
            least = 0.8 if drawn else 1
            prompt, output = draw.randint(int(isl * least), isl), draw.randint(int(osl * least), osl)
            if not drawn and i < batch:
                output = draw.randint(1, osl)
            out.write(f"{i * 1e-6:.6f},{prompt},{output}\n")


def replay(takt, row, profile, front_end=()):
    """Returns (TTFT, TPOT) as medians and as means in ms, or None if the profile is unknown."""
    with tempfile.NamedTemporaryFile(suffix=".csv") as file:
        workload(row, file.name)
        command = [takt, "replay", "--workload", file.name, "--columns", "arrival=arrival,prompt=prompt,output=output",
                   "--profile", profile, "--policy", "fcfs", "--closed-loop", row["batch_size"], "--token-budget", "8192",
                   "--max-seqs", str(max(256, int(row["batch_size"]))), "--json", "-", "-q", "--no-wall", *front_end]
        result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        return None
    metrics = json.loads(result.stdout)["runs"][0]["metrics"]
    return {k: (1e3 * metrics["ttft_s"][k], 1e3 * metrics["tpot_s"][k]) for k in ("p50", "mean")}


def percent(values):
    return f"{statistics.median(values):+.0f}"


def absolute(values):
    return f"{statistics.median(map(abs, values)):.0f}"


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("runs")
    parse.add_argument("takt")
    parse.add_argument("--old", action="store_true")
    parse.add_argument("--fit", action="store_true")
    parse.add_argument("--statistic", choices=("mean", "p50"), default="mean",
                       help="figure of the replay that RUNS has; the source does not name it [mean, which fits better]")
    parse.add_argument("--option", action="append", default=[], help="one more argument of takt replay")
    parse.add_argument("--only", default="", help="only profiles whose id contains this text")
    parse.add_argument("--rows", help="write each run to this CSV file")
    parse.add_argument("-j", type=int, default=1)
    arguments = parse.parse_args()
    rows = list(csv.DictReader(gzip.open(arguments.runs, "rt")))
    chosen = [(row, profile_of(row, arguments.old)) for row in rows]
    chosen = [(row, p) for row, p in chosen if p and arguments.only in p]
    off = [*(("--front-end", "1e-6") if arguments.fit else ()), *arguments.option]
    with ThreadPoolExecutor(arguments.j) as pool:
        results = list(pool.map(lambda c: replay(arguments.takt, *c, off), chosen))
    groups, waits, missing = collections.defaultdict(list), collections.defaultdict(list), collections.Counter()
    table = []
    for (row, profile), ours in zip(chosen, results):
        if ours is None:
            missing[profile] += 1
            continue
        truth = float(row["silicon_ttft_ms"]), float(row["silicon_tpot_ms"])
        groups[profile].append([100 * (ours[arguments.statistic][i] / truth[i] - 1) for i in (0, 1)])
        waits[row["backend"]].append((int(row["isl"]), truth[0], ours[arguments.statistic][0]))
        table.append([row["id"], profile, row["isl"], row["osl"], row["batch_size"], *truth, *ours["p50"], *ours["mean"]])
    if arguments.rows:
        with open(arguments.rows, "w") as out:
            csv.writer(out).writerows([["id", "profile", "isl", "osl", "batch", "ttft", "tpot", "our_ttft_p50",
                                        "our_tpot_p50", "our_ttft_mean", "our_tpot_mean"], *table])
    families = collections.defaultdict(list)
    for profile, errors in groups.items():
        families[profile.split("/")[1]].extend(errors)
    for name, parts in (("Profile", groups), ("Model", families)):
        print(f"| {name} | Runs | TPOT, median % | absolute % | TTFT, median % | absolute % |\n|---|---|---|---|---|---|")
        for key, errors in sorted(parts.items()):
            ttft, tpot = zip(*errors)
            print(f"| `{key}` | {len(errors)} | {percent(tpot)} | {absolute(tpot)} | {percent(ttft)} | {absolute(ttft)} |")
        print()
    print(f"{sum(missing.values())} runs have no profile: " + ", ".join(f"{k} ({v})" for k, v in sorted(missing.items())))
    if arguments.fit:
        print("\n| Engine | Runs | ms per request | us per prompt token |\n|---|---|---|---|")
        for backend, runs in sorted(waits.items()):
            # Least median of the absolute relative error, over a grid: two constants per engine.
            best = min((statistics.median(abs((ours + a + b * isl / 1e3) / truth - 1) for isl, truth, ours in runs), a, b)
                       for a in range(0, 305, 5) for b in range(0, 60, 3))
            print(f"| {backend} | {len(runs)} | {best[1]} | {best[2]} |")


if __name__ == "__main__":
    main()
