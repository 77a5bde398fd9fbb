"""Compares greedy outputs of llama_host, in any configuration, with those of `llama-server`: alone, and in its own batches.

    python llama_identity.py --llama PREFIX --host llama_host --model small.gguf --json FILE

Each configuration serves its own workflows in llama_host in real time. Their calls share prefixes, run in sequence and at once,
and call tools during which KV is kept, dropped or swapped out. Memory is too small for all of them. Then `llama-server`
continues the same context of each piece of output: once alone in one slot, once in eight slots at once.

Low bits of logits depend on the cells of a sequence and the shape of a batch, also between runs of llama-server. The difference
is 5e-6 here, at a standard deviation of 4. Flash attention on a processor has a difference of 1.5e-3 between single and several
rows of a sequence, so it is off on both sides. At 5e-6, one in about 250,000 tokens is a tie. If an output differs, the program
prints the distance of the two best logits at the first different token.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
from collections import Counter
from pathlib import Path

from llama_servers import Alone, Kit, complete, running
from servers import until_stopped

POLICIES = ["fcfs", "sjf", "stjf", "room_to_pass", "footprint", "priority", "aged(sjf)", "mlfq", "fair_share", "uncached"]


def configuration(rng: random.Random, number: int) -> dict:
    preempt = rng.choice(["on_memory", "by_rank", "on_memory"])
    swaps = rng.random() < 0.6
    options = {"preempt": preempt, "pause": rng.choice(["keep_all", "drop_all", *(["swap_all"] * 2 if swaps else [])])}
    if swaps and rng.random() < 0.7:
        options["preempt_action"] = "out"
    if rng.random() < 0.3:
        options["chunk_tokens"] = rng.choice([8, 16, 32])
    told = {
        "policy": POLICIES[number % len(POLICIES)],
        "max-seqs": rng.choice([4, 8, 16]),
        "cells": rng.choice([256, 300, 400, 900]),
        "token-budget": rng.choice([16, 32, 64, 256]),
        "ubatch": rng.choice([8, 32, 256]),
        "host-cells": rng.choice([128, 1000]) if swaps else 0,
        "option": [f"{name}={value}" for name, value in options.items()],
    }
    told["sequences"] = told["max-seqs"] + rng.choice([1, 4, 32])
    told["prefix-cache"] = rng.random() < 0.6
    if rng.random() < 0.4:
        told["fault"] = f"no_room=0.02,aborted=0.02,move=0.05,seed={number}"
    return told


def workload(rng: random.Random, calls: int) -> str:
    """Returns a workload as JSON lines: calls whose prefixes of 8 tokens per block come from a few families."""
    lines = [json.dumps({"takt_workload": 1, "name": "identity", "prefix_block_tokens": 8})]
    made = 0
    at = 0.0
    families = [[rng.randrange(2**40) for _ in range(6)] for _ in range(4)]
    while made < calls:
        at += rng.expovariate(200.0)
        steps = []
        for i in range(rng.choice([1, 1, 2, 3])):
            prompt, output = rng.randint(4, 90), rng.randint(2, 24)
            prefix = rng.choice(families)[: rng.randint(0, min(6, prompt // 8))]
            each: dict = {"prompt": prompt, "output": output, "prefix": prefix}
            if i and rng.random() < 0.7:
                each["after"] = [i - 1]
            if output > 4 and rng.random() < 0.4:
                after = sorted(rng.sample(range(1, output - 1), rng.choice([1, 2]) if output > 6 else 1))
                each["tools"] = [{"after": a, "duration_s": rng.choice([0.0, 0.01, 0.05]), "returned": rng.randint(0, 12)} for a in after]
            steps.append(each)
            made += 1
        lines.append(json.dumps({"arrival_s": at, "priority": rng.randrange(4), "calls": steps}))
    return "\n".join(lines) + "\n"


def pieces(call: dict) -> list[tuple[list[int], list[int]]]:
    """Returns the contexts, and the tokens generated after each."""
    context, output, at, out = list(call["prompt"]), call["output"], 0, []
    for tool in [*call["tools"], {"after": len(output), "answer": []}]:
        told = output[at : tool["after"]]
        out.append((list(context), told))
        context += told + tool["answer"]
        at = tool["after"]
    return out


def serve(options, number: int, config: dict, folder: Path) -> tuple[list[dict], dict]:
    file, tokens, report = folder / "workload.jsonl", folder / "tokens.jsonl", folder / "report.json"
    file.write_text(workload(random.Random(1000 + number), options.calls))
    command = [options.host, "--trace", file, "--model", options.model, "--kv-f32", "--no-flash-attention", "--threads", 1, "--seed", number + 1, "-q",
               "--tokens", tokens, "--json", report]  # fmt: skip
    for name, value in config.items():
        if value is True:
            command.append(f"--{name}")
        elif value is not False:
            for each in value if isinstance(value, list) else [value]:
                command += [f"--{name}", each]
    with (folder / f"host-{number}.log").open("w") as log:
        subprocess.run([str(word) for word in command], check=True, stdout=log, stderr=log)
    return [json.loads(line) for line in tokens.read_text().splitlines()], json.loads(report.read_text())


async def in_batches(session, server, asked: list[tuple[list[int], list[int]]]) -> int:
    """Returns the number of different outputs, eight at a time."""
    queue, wrong = list(asked), 0

    async def client() -> None:
        nonlocal wrong
        while queue:
            context, told = queue.pop()
            _, tokens, _ = await complete(session, server, context, len(told))
            wrong += tokens != told

    await asyncio.gather(*(client() for _ in range(8)))
    return wrong


async def main_async(options) -> dict:
    folder = options.logs
    kit = Kit(options.llama, options.host, folder)
    precise = ("-ctk", "f32", "-ctv", "f32", "-fa", "off", "--cache-ram", 0)
    alone = kit.llama_server("alone", options.model, 1, 2048, 512, *precise)
    batched = kit.llama_server("batched", options.model, 8, 4096, 512, *precise)
    totals: Counter = Counter()
    features: Counter = Counter()
    rows = []
    async with running(alone, batched) as session:
        judge = Alone(alone)
        for number in range(options.configurations):
            config = configuration(random.Random(number), number)
            calls, report = serve(options, number, config, folder)
            row: Counter = Counter(requests=len(calls))
            asked = []
            for call in calls:
                for context, told in pieces(call):
                    tokens = judge.ask(context, len(told))
                    asked.append((context, tokens))
                    if tokens == told:
                        continue
                    row["different"] += 1
                    at = next(i for i in range(len(told)) if told[i] != tokens[i])
                    print("differs:", json.dumps({"call": call["call"], "token": at, "gap": judge.gap(context + told[:at])}), flush=True)
                    break
            row["pieces"] = len(asked)
            row["different_in_batches"] = await in_batches(session, batched, asked)
            told = report["runs"][0]
            stats = told.get("stats", {})
            rows.append({"configuration": config, **row, "stats": stats})
            totals.update(row)
            features.update({name: value for name, value in stats.items() if isinstance(value, int)})
            print(json.dumps({"configuration": number, **config, **row}), flush=True)
    wrong = totals["different"] + totals["different_in_batches"]
    return {"requests": totals["requests"], "different": wrong, "totals": totals, "stats": features, "rows": rows}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("llama", "host", "model", "logs"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--configurations", type=int, default=20)
    parser.add_argument("--calls", type=int, default=110, help="of each configuration, at least")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    result = until_stopped(main_async(options))
    print(json.dumps({name: result[name] for name in ("requests", "different", "totals")}), flush=True)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1))
    return 1 if result["different"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
