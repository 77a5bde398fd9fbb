"""Measures the cost of the order within vLLM's schedule(), with 64 running and 2,000 waiting requests, in turns in one process.

    python cost.py --json FILE
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "integrations" / "vllm" / "tests"))

from vllm.v1.core.sched.async_scheduler import AsyncScheduler  # noqa: E402
from vllm_host import finish, model, request, scheduler  # noqa: E402

from takt.vllm import TaktScheduler  # noqa: E402


def filled(folder: str, kind: type, running: int, waiting: int, **options) -> dict:
    host = scheduler(folder, kind, seqs=running, tokens=2048, blocks=20000, **options)
    each = {"host": host, "n": 0, "schedule": [], "update": [], "add": []}
    for _ in range(running + waiting):
        add(each)
    return each


def add(each: dict) -> None:
    # Requests end one by one, so that a step admits one or two.
    i = each["n"]
    each["n"] += 1
    one = request(f"r{i}", 64, 40 + i * 7 % 48, i % 5, takt_workflow=f"w{i // 4}", takt_agent=f"a{i % 3}")
    began = time.perf_counter_ns()
    each["host"].add_request(one)
    each["add"].append(time.perf_counter_ns() - began)


def iterate(each: dict, steps: int, waiting: int) -> None:
    host = each["host"]
    for _ in range(steps):
        began = time.perf_counter_ns()
        output = host.schedule()
        each["schedule"].append(time.perf_counter_ns() - began)
        began = time.perf_counter_ns()
        finish(host, output)
        each["update"].append(time.perf_counter_ns() - began)
        while len(host.waiting) < waiting:
            add(each)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--running", type=int, default=64)
    parser.add_argument("--waiting", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--json")
    options = parser.parse_args()
    kinds = {
        "vllm fcfs": (AsyncScheduler, {}),
        "vllm priority": (AsyncScheduler, {"policy": "priority"}),
        "takt fcfs": (TaktScheduler, {"order": "fcfs"}),
        "takt priority": (TaktScheduler, {"order": "priority"}),
        "takt default": (TaktScheduler, {}),
    }
    with tempfile.TemporaryDirectory() as folder:
        path = model(Path(folder))
        hosts = {
            name: filled(path, kind, options.running, options.waiting, **more) for name, (kind, more) in kinds.items()
        }
        for each in hosts.values():
            iterate(each, 60, options.waiting)
            each["schedule"].clear(), each["update"].clear(), each["add"].clear()
            if hasattr(each["host"], "takt_counters"):
                each["host"].takt_counters.update(order_ns=0, steps=0)
        for _ in range(options.rounds):
            for each in hosts.values():
                iterate(each, options.steps, options.waiting)
    rows = {}
    for name, each in hosts.items():
        row = {what: round(statistics.median(each[what]) / 1e3, 1) for what in ("schedule", "update", "add")}
        row["schedule_mean"] = round(statistics.fmean(each["schedule"]) / 1e3, 1)
        counters = getattr(each["host"], "takt_counters", None)
        if counters:
            row["order"] = round(counters["order_ns"] / counters["steps"] / 1e3, 1)
        rows[name] = row
        print(f"{name:14} [us]", row, flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
