"""Measures schedule() and update_from_output() of vLLM's scheduler, with vLLM's order and with takt's, in turns in one process.

    python cost.py --json FILE

No model runs: made-up outputs are fed back. All schedulers receive the same requests. Prompts have 128 tokens and begin with one of
eight prefixes of 64 tokens; outputs have 192 to 255. A finished request is replaced, so the numbers of running and waiting requests
stay. Each step is checked: these numbers; one token for each decoding request; and for `takt fcfs`, vLLM's own plan.
Prints rows of the table in docs/howto/vllm_cost_measured.md: median, and in brackets the extreme medians of the rounds [ms]. Times
are the thread's CPU time, because other programs may use the cores.

FILE: [{"vllm", "running", "waiting", "caching", "name", "schedule", "update", "add", "order"}]. Times are [median, least, most] in us.
The field "order" is takt's share of schedule() by the wall clock, a mean without peeks and pops.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "integrations" / "vllm" / "tests"))

os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")  # some versions log to the standard output

from vllm import __version__  # noqa: E402
from vllm.v1.core.sched.async_scheduler import AsyncScheduler  # noqa: E402
from vllm_host import model, outputs_of, request, scheduler  # noqa: E402

from takt.vllm import TaktScheduler  # noqa: E402

KINDS = {
    "vLLM fcfs": (AsyncScheduler, {}),
    "takt fcfs": (TaktScheduler, {"order": "fcfs"}),
    "takt room_to_pass": (TaktScheduler, {"order": "room_to_pass"}),
}
PROMPT, LEAST, MOST = 128, 192, 256  # [tokens]
BLOCKS = 27_259  # KV cache of an 8B model on an H100, by the profile aic/llama-3.1-8b/h100/bf16/tp1
BUDGET = 8192  # tokens of a step
SPREAD = 97  # spreads lengths over requests: coprime with their range


class Host:
    """A scheduler in a steady state, and the times that its calls took [ns]."""

    def __init__(self, folder: str, kind: type, running: int, waiting: int, caching: bool, **options: Any) -> None:
        self.host = scheduler(folder, kind, seqs=running, tokens=BUDGET, blocks=BLOCKS, caching=caching, **options)
        self.running, self.waiting, self.n = running, waiting, 0  # n: requests so far
        self.times: dict[str, list[int]] = {"schedule": [], "update": [], "add": []}
        self.plans: list[dict[str, int]] = []
        self.fill()
        for _ in range(2 + (PROMPT + 1) * running // BUDGET):  # all rows decode after these steps
            self.iterate()
            self.fill()

    def restart(self) -> None:
        for each in self.times.values():
            each.clear()
        if hasattr(self.host, "takt_counters"):
            self.host.takt_counters.update(order_ns=0, steps=0)

    def fill(self) -> None:
        while len(self.host.waiting) < self.waiting:
            self.add()

    def add(self) -> None:
        i = self.n
        self.n += 1
        # The first ones end evenly over time, as in a steady state.
        most = 2 + i * SPREAD % MOST if i < self.running else LEAST + i * SPREAD % (MOST - LEAST)
        shared = [3 + (i % 8 + j) % 1000 for j in range(PROMPT // 2)]
        one = request(f"r{i}", PROMPT, most, first=shared, takt_workflow=f"w{i // 4}", takt_agent=f"a{i % 3}")
        began = time.thread_time_ns()
        self.host.add_request(one)
        self.times["add"].append(time.thread_time_ns() - began)

    def iterate(self) -> None:
        began = time.thread_time_ns()
        output = self.host.schedule()
        scheduled = time.thread_time_ns()
        made_up = outputs_of(self.host, output)
        resumed = time.thread_time_ns()
        self.host.update_from_output(output, made_up)
        self.times["update"].append(time.thread_time_ns() - resumed)
        self.times["schedule"].append(scheduled - began)
        self.plans.append(output.num_scheduled_tokens)
        self.computed = output

    def steps(self, n: int) -> list[dict[str, int]]:
        """Runs and checks n steps, and returns their plans: tokens by request."""
        self.plans = []
        for _ in range(n):
            decoding = {each.request_id for each in self.host.running}
            assert len(self.host.waiting) == self.waiting, f"{len(self.host.waiting)} requests wait"
            self.iterate()
            plan, new = self.plans[-1], {each.req_id for each in self.computed.scheduled_new_reqs}
            assert len(plan) == self.running, f"the step ran {len(plan)} requests"
            assert decoding <= plan.keys() and all(plan[name] == 1 for name in decoding), "a decoding request got no token"
            assert new == plan.keys() - decoding and all(0 < plan[name] <= PROMPT for name in new), "the step admitted others"
            assert sum(plan.values()) == self.computed.total_num_scheduled_tokens <= BUDGET
            self.fill()
        return self.plans


def measured(folder: str, running: int, waiting: int, caching: bool, rounds: int, steps: int) -> list[dict[str, Any]]:
    hosts = {name: Host(folder, kind, running, waiting, caching, **more) for name, (kind, more) in KINDS.items()}
    medians: dict[str, dict[str, list[float]]] = {name: {"schedule": [], "update": [], "add": []} for name in hosts}
    gc.collect()
    gc.freeze()  # as vLLM's engine does after its start
    order = {name: [0, 0] for name in hosts}
    for turn in range(rounds + 1):  # the first one warms up
        plans = {}
        for name, each in hosts.items():
            each.restart()
            plans[name] = each.steps(steps)
            counters = getattr(each.host, "takt_counters", None)
            for what, times in each.times.items():
                if turn and times:
                    medians[name][what].append(statistics.median(times) / 1e3)
            if turn and counters:
                order[name][0] += counters["order_ns"]
                order[name][1] += counters["steps"]
        assert plans["vLLM fcfs"] == plans["takt fcfs"], "takt's plans with fcfs differ from vLLM's"
    rows = []
    for name, each in medians.items():
        row = {"vllm": __version__, "running": running, "waiting": waiting, "caching": caching, "name": name}
        row |= {what: [round(f(of), 1) for f in (statistics.median, min, max)] for what, of in each.items()}
        if order[name][1]:
            row["order"] = round(order[name][0] / order[name][1] / 1e3, 1)
        rows.append(row)
    gc.unfreeze()
    return rows


def line(rows: list[dict[str, Any]]) -> str:
    """Returns the table's row for the orders of one measurement."""
    cells = [rows[0]["vllm"], f"{rows[0]['running']:,}", "on" if rows[0]["caching"] else "off"]
    for what in ("schedule", "update"):
        cells += ["{:.2f} ({:.2f} to {:.2f})".format(*(each / 1e3 for each in row[what])) for row in rows]
    return "| " + " | ".join(cells + [f"{row['add'][0] / 1e3:.2f}" for row in rows]) + " |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--running", type=int, nargs="+", default=[256, 1024])
    parser.add_argument("--waiting", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=20, help="steps of each scheduler in a round")
    parser.add_argument("--json")
    options = parser.parse_args()
    rows = []
    columns = [f"`{what}()`, {name}" for what in ("schedule", "update_from_output", "add_request") for name in KINDS]
    print("|", " | ".join(["vLLM", "running", "prefix caching", *columns]), "|\n|" + "---|" * (3 + len(columns)), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        path = model(Path(folder))
        for running in options.running:
            for caching in (False, True):
                found = measured(path, running, options.waiting, caching, options.rounds, options.steps)
                rows += found
                print(line(found), flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
