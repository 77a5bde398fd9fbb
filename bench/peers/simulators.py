"""One workload in the formats of takt, inference-lab, Vidur and sched-sim, and the commands that simulate it. peer-simulators

All simulate one engine, first come first served, with chunked prefill and without prefix cache. Its step time is BASE, plus TOKEN for
each prefill token and each decoding request, plus CONTEXT for each token of context of decoding requests.
"""

from __future__ import annotations

import csv
import json
import lzma
import math
import random
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BASE, TOKEN, CONTEXT = 5.5e-3, 25e-6, 40e-9  # step time [s], [s per token], [s per token of context]: near an 8B model on an H100
RATE = 25  # requests per second
PROMPT, OUTPUT, SIGMA = 400, 150, 0.6  # medians of log-normal lengths [tokens], and their spread
BUDGET, ROWS, BLOCK = 2048, 128, 16  # tokens of a step, requests of a step, tokens of a KV block
KV_TOKENS = 400_000  # tokens of the KV cache: more than the workload needs
LONGEST = 4096  # tokens of a prompt and its output

# The model that all know: Llama 3 8B in bf16.
LAYERS, HEADS, KV_HEADS, HIDDEN, INNER, VOCABULARY = 32, 32, 8, 4096, 14336, 128256
KV_BYTES = 131_072  # of a token
PARAMETERS = 8.03e9


@dataclass(frozen=True)
class Call:
    arrival: float  # [s]
    prompt: int
    output: int


def workload(n: int, seed: int = 1) -> list[Call]:
    """Returns n requests at equal gaps, because inference-lab reads no arrival times. Lengths are log-normal."""
    draw = random.Random(seed)

    def length(median: float, least: int, most: int) -> int:
        return min(max(round(median * draw.lognormvariate(0, SIGMA)), least), most)

    return [Call(i / RATE, length(PROMPT, 16, 3000), length(OUTPUT, 2, 1000)) for i in range(n)]


def write_takt(calls: Iterable[Call], place: Path) -> list[object]:
    """Writes a table and a profile. Returns the arguments of `takt replay`."""
    with (place / "takt.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["arrival", "prompt", "output"])
        rows.writerows([f"{call.arrival:.9f}", call.prompt, call.output] for call in calls)
    profile = {
        "id": "e2e/llama-3-8b/h100/bf16/tp1", "a0": 1e3 * BASE, "aB": 1e3 * TOKEN, "aQ": 1e3 * TOKEN, "aS": 1e3 * CONTEXT,
        "weight_bytes": int(2 * PARAMETERS), "kv_bytes_per_token": KV_BYTES,
    }  # fmt: skip
    (place / "takt.json").write_text(json.dumps({"e2e": [profile]}))
    return [
        "--workload", place / "takt.csv", "--columns", "arrival=arrival:s,prompt=prompt,output=output", "--profiles", place / "takt.json",
        "--profile", profile["id"], "--policy", "fcfs", "--max-seqs", ROWS, "--token-budget", BUDGET, "--kv-tokens", KV_TOKENS,
    ]  # fmt: skip


def write_inference_lab(calls: list[Call], place: Path, generated: bool = False) -> list[object]:
    """Writes each request as a session of one step: the only format of inference-lab that has lengths of each request. `generated`:
    inference-lab draws lengths of the same distributions itself, which is its faster way."""
    cost = f'step_cost = {{ model = "linear", t0 = {BASE}, tp = {TOKEN}, td = {TOKEN}, tk = {CONTEXT:.12f} }}'
    (place / "model.toml").write_text(
        f'model = "llama-3.1-8b-instruct"\n[scheduler]\nmax_num_batched_tokens = {BUDGET}\nmax_num_seqs = {ROWS}\npolicy = "fcfs"\n'
        f"enable_chunked_prefill = true\nblock_size = {BLOCK}\nkv_cache_capacity = {KV_TOKENS * KV_BYTES}\n[hardware.h100]\n{cost}\n"
    )
    if generated:
        prompt, output = (f'{{ type = "lognormal", mean = {math.log(median)}, std_dev = {SIGMA} }}' for median in (PROMPT, OUTPUT))
        number = f"num_requests = {len(calls)}"
    else:
        steps = ({"input": call.prompt, "new": call.prompt, "output": call.output} for call in calls)
        lines = (f'{{"id": "{i}", "steps": [{json.dumps(step)}]}}\n' for i, step in enumerate(steps))
        (place / "sessions.jsonl").write_text("".join(lines))
        prompt = output = '{ type = "fixed", value = 1 }'  # required, and not used
        number = f'num_sessions = {len(calls)}\nsessions_path = "{place / "sessions.jsonl"}"'
    (place / "workload.toml").write_text(
        f'arrival_pattern = "uniform"\narrival_rate = {RATE}\nseed = 1\n{number}\ninput_len_dist = {prompt}\noutput_len_dist = {output}\n'
    )
    return ["-c", place / "model.toml", "-w", place / "workload.toml"]


def write_sched_sim(calls: Iterable[Call], place: Path) -> list[object]:
    """Writes a trace and a GPU. Its roofline takes the longer of memory and compute, so its steps are shorter than the sum."""
    rows = [{"id": str(i), "timestamp": c.arrival, "prompt_tokens": c.prompt, "output_tokens": c.output} for i, c in enumerate(calls)]
    (place / "trace.json").write_text(json.dumps(rows))
    bandwidth = KV_BYTES / CONTEXT
    gpu = {
        "name": "linear", "vram_gb": (2 * PARAMETERS + KV_TOKENS * KV_BYTES) / 2**30 + 0.5, "memory_bandwidth_gb_s": bandwidth / 1e9,
        "fp16_tflops": 2 * PARAMETERS / TOKEN / 1e12, "tensor_core_efficiency": 1.0,
        "kernel_launch_overhead_ms": 1e3 * (BASE - 2 * PARAMETERS / bandwidth), "model_name": "llama-3-8b",
        "parameter_count_billions": PARAMETERS / 1e9, "num_layers": LAYERS, "hidden_size": HIDDEN, "num_heads": HEADS,
        "num_kv_heads": KV_HEADS, "head_dim": HIDDEN // HEADS, "dtype_bytes": 2,
    }  # fmt: skip
    (place / "gpu.json").write_text(json.dumps(gpu))
    return [place / "trace.json", place / "gpu.json", BUDGET]


DATE = "2026-01-01"
GRAIN = 64  # tokens of context between two entries of Vidur's tables
OPERATIONS = (
    "attn_post_proj", "mlp_up_proj", "mlp_down_proj", "mlp_act", "input_layernorm", "post_attention_layernorm", "attn_rope", "add",
)  # fmt: skip


def vidur_tables() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Returns the rows of Vidur's tables of kernels [ms] whose sum over the layers is the step time."""
    share = 1e3 / LAYERS
    common = {"num_tensor_parallel_workers": 1, "n_kv_head": KV_HEADS, "n_embd": HIDDEN}
    dense = {"n_head": HEADS, "n_expanded_embd": INNER, "use_gated_mlp": True, "vocab_size": VOCABULARY}
    zeros = {f"time_stats.{name}.median": 0.0 for name in OPERATIONS}
    mlp = [
        common | dense | zeros | {"num_tokens": n, "time_stats.attn_pre_proj.median": share * (BASE + TOKEN * n)}
        for n in range(8, BUDGET + ROWS + 1, 8)
    ]

    def attention(batch: int, context: int, chunk: int) -> dict[str, Any]:
        decode = share * CONTEXT * batch * context if chunk == 0 else 0.0
        return common | {
            "n_q_head": HEADS, "block_size": BLOCK, "batch_size": batch, "kv_cache_size": context, "prefill_chunk_size": chunk,
            "time_stats.attn_decode.median": decode, "time_stats.attn_prefill.median": 0.0, "time_stats.attn_kv_cache_save.median": 0.0,
        }  # fmt: skip

    contexts = range(0, LONGEST + 1, GRAIN)
    rows = [attention(batch, context, 0) for batch in range(1, ROWS + 1) for context in contexts]
    return mlp, rows + [attention(1, context, chunk) for context in contexts for chunk in (32, BUDGET)]


def write_hub(place: Path, name: str, files: Mapping[str, list[dict[str, Any]]], about: dict[str, str]) -> None:
    """Writes a dataset as huggingface_hub keeps it, so that Vidur finds it without a network."""
    root = place / f"datasets--takt--{name}"
    folder = root / "snapshots" / "1"
    folder.mkdir(parents=True, exist_ok=True)
    (root / "refs").mkdir(exist_ok=True)
    (root / "refs" / "main").write_text("1")
    (folder / "config.json").write_text(json.dumps(about))
    for file, rows in files.items():
        with lzma.open(folder / file, "wt", newline="") as out:
            table = csv.DictWriter(out, list(rows[0]))
            table.writeheader()
            table.writerows(rows)


def write_vidur(calls: Iterable[Call], place: Path, cache: Path) -> Sequence[object]:
    """Writes a trace, and once the tables. Vidur's own tables are on Hugging Face."""
    name = f"linear-{BASE * 1e9:.0f}-{TOKEN * 1e9:.0f}-{CONTEXT * 1e12:.0f}"
    if not (cache / "profiling_data" / "network").exists():
        mlp, attention = vidur_tables()
        about = {"model": "meta-llama/Llama-3-8B", "device_sku": "h100"}
        write_hub(cache / "profiling_data" / "compute", name, {"mlp.csv.xz": mlp, "attention.csv.xz": attention}, about)
        write_hub(cache / "profiling_data" / "network", name, {}, {"sku": "h100_dgx"})
    with (place / "vidur.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["Date", "Time", "PromptTokenCount", "CompletionTokenCount"])
        rows.writerows([DATE, f"{call.arrival:.9f}", call.prompt, call.output] for call in calls)
    options: dict[str, object] = {
        "log_level": "warning", "cache_config_num_blocks": KV_TOKENS // BLOCK, "cache_config_block_size": BLOCK,
        "replica_config_num_pipeline_stages": 1, "replica_config_tensor_parallel_size": 1,
        "replica_scheduler_config_type": "sarathi", "sarathi_scheduler_config_chunk_size": BUDGET,
        "sarathi_scheduler_config_batch_size_cap": ROWS, "request_generator_config_type": "trace_replay",
        "execution_time_predictor_config_type": "random_forrest", "metrics_config_output_dir": place / "vidur",
    }  # fmt: skip
    options |= {
        f"trace_request_generator_config_{key}": value
        for key, value in {
            "trace_file": place / "vidur.csv", "date": DATE, "prefill_scale_factor": 1, "decode_scale_factor": 1, "time_scale_factor": 1,
            "max_tokens": LONGEST,
        }.items()
    }  # fmt: skip
    options |= {
        f"random_forrest_execution_time_predictor_config_{key}": value
        for key, value in {
            "model_profiling_dataset": f"takt/{name}", "network_profiling_dataset": f"takt/{name}", "cache_dir": cache,
            "kv_cache_prediction_granularity": GRAIN, "prediction_max_prefill_chunk_size": BUDGET, "prediction_max_batch_size": ROWS,
            "prediction_max_tokens_per_request": LONGEST, "attention_decode_batching_overhead_fraction": 0, "num_training_job_threads": 1,
            "k_fold_cv_splits": 2, "num_estimators": 20, "max_depth": 32, "min_samples_split": 2,
        }.items()
    }  # fmt: skip
    off = ("enable_chrome_trace", "store_plots", "store_batch_metrics", "store_utilization_metrics")
    return [f"--{key}={value}" for key, value in options.items()] + [f"--no-metrics_config_{name}" for name in off]


@dataclass(frozen=True)
class Means:
    """Mean times [ms]."""

    ttft: float
    tpot: float
    e2e: float


def takt_means(report: bytes) -> Means:
    metrics = json.loads(report)["runs"][0]["metrics"]
    return Means(*(1e3 * metrics[name]["mean"] for name in ("ttft_s", "tpot_s", "e2e_s")))


def inference_lab_means(report: bytes) -> Means:
    metrics = json.loads(report)["latency_metrics"]
    return Means(*(metrics[f"{name}_ms"]["mean"] for name in ("ttft", "per_token", "e2e")))


def sched_sim_means(report: bytes) -> Means:
    metrics = json.loads(report)
    return Means(*(metrics[f"{name}_ms"]["mean"] for name in ("ttft", "tpot", "e2e")))


def vidur_means(report: bytes) -> Means:
    rows = list(csv.DictReader(report.decode().splitlines()))
    ttft, e2e = ([float(row[name]) for row in rows] for name in ("prefill_e2e_time", "request_e2e_time"))
    later = [int(row["request_num_decode_tokens"]) - 1 for row in rows]
    tpot = [(end - first) / n for first, end, n in zip(ttft, e2e, later) if n > 0]
    return Means(*(1e3 * statistics.mean(each) for each in (ttft, tpot, e2e)))


def rates(cpu: list[float], start: float, n: int) -> tuple[float, float, float]:
    """Returns requests per second of CPU, without the CPU time of a start: by the median, the most and the least time."""
    times = [max(each - start, 1e-4) for each in cpu]
    return n / statistics.median(times), n / max(times), n / min(times)
