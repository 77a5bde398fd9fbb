"""Serves random loads by examples/torch_engine in real time, and writes what predict.py compares with the simulator.

    python bench/torch/measure.py --size 8b --minutes 9 --out OUT      # one GPU; on a CPU: --size tiny --minutes 1

| File in OUT | Content |
|---|---|
| steps.jsonl.gz | the steps of the run to fit, for takt calibrate |
| measured.json | a report per run, as takt replay --json |
| requests.csv | a line per request |
| workloads.json | the workload of each run, as workflow JSONL |
| other_steps.json | rows, tokens and times of each step of the other runs |

All files are complete after each run, so an early end keeps them.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import gzip
import heapq
import json
import random
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import takt
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples/torch_engine"))
from engine import Engine  # noqa: E402
from kv import Sequence  # noqa: E402
from model import SIZES, Llama  # noqa: E402

BLOCK = 16
# By size: tokens of a step, maximum requests, KV blocks, scale of the lengths.
ENGINES = {"tiny": (256, 32, 2048, 0.125), "small": (512, 64, 4096, 0.25), "1b": (2048, 256, 24_576, 1), "8b": (2048, 256, 24_576, 1)}
# Load, lengths (median and spread of prompt and output; calls of a workflow), share of the capacity, policies, weight.
RUNS: list[tuple[str, tuple[float, float, float, float, int], float, list[str], float]] = [
    ("chat-0.7", (400, 1.0, 120, 0.8, 1), 0.7, ["fcfs", "room_to_pass"], 1.0),
    ("chat-1.15", (400, 1.0, 120, 0.8, 1), 1.15, ["fcfs", "sjf", "room_to_pass"], 1.0),
    ("long-0.7", (1800, 0.5, 60, 0.7, 1), 0.7, ["fcfs", "sjf"], 1.0),
    ("agents-0.7", (500, 0.6, 80, 0.6, 4), 0.7, ["fcfs", "room_to_pass"], 1.0),
    ("tight-0.9", (300, 0.6, 200, 0.6, 1), 0.9, ["fcfs"], 1.0),  # a small KV memory, so that requests are preempted
]
FIT = ("fit", (500, 1.3, 100, 1.0, 1), (0.15, 0.5, 0.85, 1.5), 2.0)


@dataclasses.dataclass
class Call:
    prompt: int
    output: int
    arrival: float = 0.0
    first: float = 0.0
    end: float = 0.0


@dataclasses.dataclass
class Workflow:
    arrival: float  # [s]
    calls: list[Call]  # each begins when the one before it has ended; its prompt continues that one's


def draw(dice: random.Random, lengths: tuple[float, float, float, float, int], scale: float) -> list[Call]:
    prompt, prompt_spread, output, output_spread, most = lengths
    calls, before = [], 0
    for _ in range(dice.randint(2, most) if most > 1 else 1):
        before += max(4, min(int(scale * prompt * 2.718 ** dice.gauss(0, prompt_spread)), int(scale * 6000 / most)))
        calls.append(Call(before, max(2, min(int(scale * output * 2.718 ** dice.gauss(0, output_spread)), int(scale * 1000)))))
    return calls


def jsonl(name: str, workflows: list[Workflow]) -> str:
    lines: list[Any] = [{"takt_workload": 1, "name": name, "prefix_block_tokens": BLOCK}]
    for workflow in workflows:
        calls: list[dict[str, Any]] = [{"prompt": c.prompt, "output": c.output} for c in workflow.calls]
        for i, call in enumerate(calls):
            call |= {"after": [i - 1]} if i else {}
            call |= {"blocks": [[0, call["prompt"] // BLOCK]]} if call["prompt"] >= BLOCK else {}
        lines.append({"arrival_s": round(workflow.arrival, 6), "calls": calls})
    return "".join(json.dumps(line) + "\n" for line in lines)


class Scheduler(takt.Scheduler):
    """A scheduler with methods that can be timed."""


class Bench:
    def __init__(self, options: argparse.Namespace) -> None:
        self.begin, self.options, self.out = time.perf_counter(), options, options.out
        self.tokens, self.seqs, self.blocks, self.scale = ENGINES[options.size]
        gpu = torch.cuda.is_available()
        self.device = torch.cuda.get_device_name() if gpu else "CPU"
        model = Llama.random(SIZES[options.size], dtype=torch.bfloat16 if gpu else torch.float32, device="cuda" if gpu else "cpu",
                             compiled=gpu and not options.no_compile)  # fmt: skip
        self.engine = Engine(model, blocks=self.blocks, block_tokens=BLOCK, graphs=gpu and not options.no_graphs, max_seqs=self.seqs)
        self.vocab, self.report, self.requests, self.workloads, self.steps = model.shape.vocab, [], [], {}, {}
        self.ids, self.seconds = 0, {"takt": 0.0, "model": 0.0}
        self.timed(self.engine, "compute", "model")
        self.say(f"{options.size} on {self.device}, torch {torch.__version__}: ready")

    def say(self, what: str) -> None:
        print(f"{time.perf_counter() - self.begin:7.1f} s  {what}", flush=True)

    def fresh(self, policy: str, blocks: int) -> None:
        """Replaces the scheduler, and empties the prefix cache."""
        self.engine.takt.close()
        for hash in list(self.engine.kv.by_hash):
            self.engine.kv.drop(hash)
        self.engine.takt = Scheduler(policy, kv_blocks=blocks, kv_block_tokens=BLOCK, prefix_cache=True,
                                     limits=takt.Limits(tokens=self.tokens, max_seqs=self.seqs))  # fmt: skip
        self.timed(self.engine.takt, "plan", "takt")
        self.timed(self.engine.takt, "commit", "takt")

    def timed(self, owner: Any, name: str, what: str) -> None:
        """Adds the seconds in a method to ``seconds[what]``."""
        method = getattr(owner, name)

        def call(*values: Any, **named: Any) -> Any:
            begin = time.perf_counter()
            result = method(*values, **named)
            self.seconds[what] += time.perf_counter() - begin
            return result

        setattr(owner, name, call)

    def serve(self, workflows: list[Workflow], policy: str, blocks: int, until: float = 1e9) -> list[tuple[Any, ...]]:
        """Serves the workflows, or as many as end within a time. Returns a line per step: entries, seconds of the model,
        of takt and of all other work."""
        self.fresh(policy, blocks)
        engine, steps = self.engine, []
        due: list[tuple[float, int, int]] = [(w.arrival, i, 0) for i, w in enumerate(workflows)]
        heapq.heapify(due)
        texts = [random.Random(i).choices(range(self.vocab), k=w.calls[-1].prompt) for i, w in enumerate(workflows)]
        gc.collect()
        gc.disable()
        start, start_ns = time.perf_counter(), time.monotonic_ns()

        def submit(when: float, i: int, c: int) -> None:
            workflow = workflows[i]
            call, later = workflow.calls[c], workflow.calls[c + 1 :]
            call.arrival = when

            def on_token(token: int | None, end: str | None) -> None:
                now = time.perf_counter() - start
                call.first = call.first or now
                if end is None:
                    return
                assert end == "length", end
                call.end = now
                if later:
                    heapq.heappush(due, (now, i, c + 1))

            outputs = sum(each.output for each in later)
            after = takt.WorkAfter(len(later), sum(each.prompt for each in later), outputs,
                                   sum(each.output * each.prompt + each.output**2 / 2 for each in later), outputs)  # fmt: skip
            self.ids += 1
            engine.submit(
                Sequence(self.ids, texts[i][: call.prompt], call.output, on_token), output_tokens=takt.Estimate.exact(call.output),
                workflow=self.ids - c if c == 0 else named[i], arrival=start_ns + int(when * 1e9), after=after,
                workflow_arrival=start_ns + int(workflow.arrival * 1e9), workflow_tokens_left=takt.Estimate.exact(call.output + outputs),
            )  # fmt: skip
            named.setdefault(i, self.ids)

        named: dict[int, int] = {}
        while due or engine.sequences:
            begin = time.perf_counter()
            while due and due[0][0] <= begin - start:
                submit(*heapq.heappop(due))
            if begin - start > until:
                break
            plan = engine.step()
            if plan is None:
                if due and not engine.takt.counts()["alive"]:
                    time.sleep(max(min(due[0][0] - (time.perf_counter() - start), 0.01), 0))
            elif len(plan):
                seconds, model = time.perf_counter() - begin, self.seconds["model"]
                steps.append((plan.entries(), model, self.seconds["takt"], seconds - model))
            self.seconds = dict.fromkeys(self.seconds, 0.0)
        gc.enable()
        for request in list(engine.sequences):
            engine.takt.cancel(request)
        while engine.sequences:
            engine.step()
        return steps

    def capacity(self, lengths: tuple[float, float, float, float, int], seconds: float, blocks: int) -> float:
        """Returns the workflows per second that the engine serves if it never lacks any."""
        dice = random.Random(1)
        workflows = [Workflow(0, draw(dice, lengths, self.scale)) for _ in range(int(self.seqs * 4))]
        steps = self.serve(workflows, "fcfs", blocks, until=seconds)
        late = steps[2 * len(steps) // 5 :]  # at first there are only prompts
        done = sum(entry.samples for entries, *_ in late for entry in entries) / sum(s[1] + s[3] for s in late)
        return done / statistics.mean(sum(call.output for call in w.calls) for w in workflows)

    def arrivals(self, seed: int, lengths: tuple[float, float, float, float, int], rates: list[float], seconds: float) -> list[Workflow]:
        """Workflows at random times, at each rate for an equal share of the time."""
        dice, now, made = random.Random(seed), 0.0, []
        while True:
            rate = rates[min(int(now / seconds * len(rates)), len(rates) - 1)]
            now += dice.expovariate(rate)
            if now > seconds:
                return made or [Workflow(0, draw(dice, lengths, self.scale))]
            made.append(Workflow(now, draw(dice, lengths, self.scale)))

    def run(self, name: str, workflows: list[Workflow], policy: str, blocks: int, load: float) -> list[tuple[Any, ...]]:
        for call in (call for workflow in workflows for call in workflow.calls):
            call.first = call.end = 0.0
        steps = self.serve(workflows, policy, blocks)
        calls = [(i, c) for i, w in enumerate(workflows) for c in w.calls]
        self.requests += [(name, policy, i, round(c.arrival, 6), round(c.first - c.arrival, 6), round(c.end - c.arrival, 6), c.prompt, c.output)
                          for i, c in calls]  # fmt: skip
        stats = self.engine.takt.stats()
        figures = {
            "ttft_s": summary(c.first - c.arrival for _, c in calls),
            "tpot_s": summary((c.end - c.first) / (c.output - 1) for _, c in calls),
            "e2e_s": summary(c.end - c.arrival for _, c in calls),
            "workflow_s": summary(w.calls[-1].end - w.arrival for w in workflows),
            "makespan_s": max(c.end for _, c in calls), "preemptions": stats["preempted_recompute"], "cached_tokens": stats["tokens_cached"],
        }  # fmt: skip
        cost = {"steps": len(steps), "model_ms": summary(1e3 * s[1] for s in steps), "takt_us": summary(1e6 * s[2] for s in steps),
                "other_us": summary(1e6 * (s[3] - s[2]) for s in steps), "rows": summary(len(s[0]) for s in steps)}  # fmt: skip
        cost["takt_share"] = sum(s[2] for s in steps) / sum(s[1] + s[3] for s in steps)
        self.report.append({
            "takt": takt.__version__, "workload": {"source": f"{name}.jsonl", "name": name, "workflows": len(workflows), "requests": len(calls)},
            "engine": {"kv_tokens": blocks * BLOCK, "token_budget": self.tokens, "max_seqs": self.seqs, "load": load},
            "runs": [{"policy": policy, "rate_scale": 1, "requests": len(calls), "completed": len(calls), "workflows": len(workflows),
                      "metrics": figures, "steps": cost}]})  # fmt: skip
        self.steps[f"{name} {policy}"] = [[len(s[0]), sum(e.tokens for e in s[0]), round(s[1], 6), round(s[3], 6)] for s in steps]
        self.say(f"{name:12} {policy:18} {len(calls):5} requests, {len(steps):5} steps of {cost['model_ms']['mean']:6.2f} ms, "
                 f"{cost['rows']['mean']:5.1f} rows; TTFT {figures['ttft_s']['mean']:.3f} s, TPOT {1e3 * figures['tpot_s']['mean']:.2f} ms, "
                 f"workflow {figures['workflow_s']['mean']:.3f} s; {stats['preempted_recompute']} preempted; takt {cost['takt_us']['mean']:.0f} us, "
                 f"{100 * cost['takt_share']:.2f} % of a step, the engine's Python {cost['other_us']['mean']:.0f} us")  # fmt: skip
        self.write()
        return steps

    def write(self) -> None:
        about = {"device": self.device, "torch": torch.__version__, "size": self.options.size, "reports": self.report}
        (self.out / "measured.json").write_text(json.dumps(about))
        (self.out / "workloads.json").write_text(json.dumps(self.workloads))
        (self.out / "other_steps.json").write_text(json.dumps(self.steps))
        header = "run,policy,workflow,arrival_s,ttft_s,e2e_s,prompt_tokens,output_tokens\n"
        (self.out / "requests.csv").write_text(header + "".join(",".join(map(str, line)) + "\n" for line in self.requests))

    def warm_up(self) -> None:
        """Runs steps of many shapes, so that all kernels are compiled."""
        dice = random.Random(0)
        for seqs, prompt in ((1, 1), (1, 700), (2, 1), (3, 90), (40, 30), (self.seqs, 8), (4, self.tokens // 2)):
            calls = [[Call(max(1, int(prompt * self.scale) + dice.randint(0, 3)), dice.randint(2, 5))] for _ in range(seqs)]
            self.serve([Workflow(0, each) for each in calls], "fcfs", self.blocks)
        self.say("warm")

    def main(self) -> None:
        self.warm_up()
        left = self.options.minutes * 60 - (time.perf_counter() - self.begin)
        weight = FIT[3] + sum(len(policies) * w for *_, policies, w in RUNS)
        probe = max(2.0, min(6.0, left / 80))
        unit = (left - probe * (len(RUNS) + 1)) / weight / 1.35  # the last requests end later than they arrive
        self.say(f"{unit:.1f} s of arrivals in each run")
        name, lengths, loads, share = FIT
        capacity = self.capacity(lengths, probe, self.blocks)
        workflows = self.arrivals(100, lengths, [load * capacity for load in loads], unit * share)
        self.workloads[f"{name}.jsonl"] = jsonl(name, workflows)
        steps = self.run(name, workflows, "fcfs", self.blocks, 0)
        with gzip.open(self.out / "steps.jsonl.gz", "wt") as file:
            for entries, model, _, host in steps:
                rows = [[e.tokens, e.position, int(e.prefill), int(e.samples)] for e in entries]
                file.write(json.dumps({"time_s": round(model, 7), "plan_s": round(host, 7), "rows": rows}) + "\n")
        for seed, (name, lengths, load, policies, share) in enumerate(RUNS):
            blocks = self.blocks if "tight" not in name else int(self.seqs * 380 * self.scale) // BLOCK
            capacity = self.capacity(lengths, probe, blocks)
            workflows = self.arrivals(seed, lengths, [load * capacity], unit * share)
            self.workloads[f"{name}.jsonl"] = jsonl(name, workflows)
            for policy in policies:
                left = self.options.minutes * 60 - (time.perf_counter() - self.begin)
                if left < 1.2 * unit * share:
                    self.say(f"{name} {policy}: left out, {left:.0f} s are left")
                    continue
                self.run(name, workflows, policy, blocks, load)
        self.say("done")


def summary(values: Any) -> dict[str, float]:
    v = sorted(values)
    at = lambda q: v[min(int(q * len(v)), len(v) - 1)]  # noqa: E731
    return {"mean": statistics.fmean(v), "p50": at(0.5), "p90": at(0.9), "p95": at(0.95), "p99": at(0.99), "min": v[0], "max": v[-1], "count": len(v)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", choices=ENGINES, default="tiny", help="serve a random model of this size [tiny]")
    parser.add_argument("--minutes", type=float, default=1, help="run for at most this time [1]")
    parser.add_argument("--out", type=Path, required=True, help="write the results to this folder")
    parser.add_argument("--no-graphs", action="store_true", help="decode without CUDA graphs")
    parser.add_argument("--no-compile", action="store_true", help="do not fuse small operations by torch.compile")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    Bench(given).main()
