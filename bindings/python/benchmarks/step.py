#!/usr/bin/env python3
"""Measures the cost of a step from Python and from C (docs/howto/c.md).

    benchmarks/step.py [--rounds 30] [--steps 2000]

256 or 64 requests run. Every few steps one ends and another arrives. The C compiler of this machine builds the same
loop from step.c. Rounds of Python and C alternate. Each figure is the median, with the 10th and 90th percentile in
brackets. A Python step fills in results, calls step, makes the plan, and reads its failed and released requests.
Arrivals are not timed. The slowest 5 % of the steps of a round are dropped for both languages, because other programs
interrupt them.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
from pathlib import Path
from time import perf_counter_ns

import takt
from takt import _arrays, _library

HERE = Path(__file__).resolve().parent
TREE = next(t for t in (HERE.parent / "cpp", HERE.parent.parent.parent) if (t / "include/takt/c/takt.h").exists())
LIFE = 1000


class Host:
    def __init__(self, running: int) -> None:
        self.running, self.last, self.now = running, 0, 0
        self.scheduler = takt.Scheduler(
            "sjf", kv_blocks=1 << 22, max_running=running, limits=takt.Limits(tokens=8192, max_seqs=running)
        )
        for _ in range(running):
            self.arrive()
        self.plan = self.scheduler.step(now=0)

    def arrive(self) -> None:
        self.last += 1
        self.scheduler.arrive(takt.Request(self.last, prompt_tokens=32), now=self.now)

    def round(self, steps: int, by_exception: bool) -> float:
        running, scheduler, plan = self.running, self.scheduler, self.plan
        took = []
        for step in range(steps):
            self.now += 10_000_000
            ends = (step * running) // LIFE != ((step + 1) * running) // LIFE
            begin = perf_counter_ns()
            at = (step * 7919) % len(plan.run)
            if by_exception:
                finished = (int(plan.run["request"][at]),) if ends else ()
                plan = scheduler.step(now=self.now, finished=finished)
            else:
                results = plan.results()
                if ends:
                    results["flags"][at] = takt.FINISHED
                plan = scheduler.step(results, self.now)
            if plan.failed or plan.fault:
                raise SystemExit("a step failed")
            plan.released
            took.append(perf_counter_ns() - begin)
            if ends:
                self.arrive()
        self.plan = plan
        took.sort()
        return sum(took[: steps * 19 // 20]) / (steps * 19 // 20)


def figure(values: list[float]) -> str:
    tenths = statistics.quantiles(values, n=10)
    return f"{statistics.median(values) / 1000:6.2f} us [{tenths[0] / 1000:.2f} to {tenths[-1] / 1000:.2f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--steps", type=int, default=2000)
    arguments = parser.parse_args()
    if not _arrays.HAS_NUMPY:
        raise SystemExit("step.py needs numpy")
    with tempfile.TemporaryDirectory() as folder:
        binary = str(Path(folder, "step"))
        library = _library.lib._name
        subprocess.run(
            ["cc", "-O2", "-std=gnu11", "-I", str(TREE / "include"), str(HERE / "step.c"), "-o", binary, library,
             f"-Wl,-rpath,{Path(library).parent}", "-Wl,--allow-shlib-undefined"],
            check=True,
        )  # fmt: skip
        for running in (256, 64):
            for by_exception in (False, True):
                host = Host(running)
                host.round(200, by_exception)
                python, c = [], []
                for _ in range(arguments.rounds):
                    python.append(host.round(arguments.steps, by_exception))
                    told = subprocess.run(
                        [binary, str(running), str(arguments.steps), "2", str(int(by_exception)), str(LIFE)],
                        check=True, capture_output=True, text=True,
                    )  # fmt: skip
                    c.append(float(told.stdout.split()[1]))  # the first line is a warm-up
                beyond = [a - b for a, b in zip(python, c)]
                bar = 2000 + 50 * running
                met = "met" if statistics.median(beyond) <= bar else "missed"
                print(f"{running} running, {'by exception' if by_exception else 'a row for each'}")
                print(f"  C              {figure(c)}")
                print(f"  Python         {figure(python)}")
                print(f"  Python beyond C{figure(beyond)}   bar {bar / 1000:.1f} us: {met}", flush=True)


if __name__ == "__main__":
    main()
