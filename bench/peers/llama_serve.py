"""Compares `llama-server` with llama_host on one library, model and machine, with the same limits, for chat and agents.

    python llama_serve.py --llama PREFIX --host llama_host --model small.gguf --logs FOLDER --json FILE

Three servers are up at once and take turns, round by round: `llama-server`, takt(fcfs) and takt's default. Loads:

- `throughput`: as many clients as lanes, one call after another. It measures the tokens per second of each server.
- `mixed`: chat, and agents with several calls and tool pauses. The rate is a multiple of the throughput of `llama-server` on
  this mix (`saturation`, measured once before).
- `pressure`: a KV cache for about a third of the lanes' need.

Outputs end at the model's end token or at the agent's cap, so no program knows a length in advance.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import time
from pathlib import Path

from llama_servers import Kit, Llama, Refused, complete, drawn, running
from servers import quantile, until_stopped

# agent: calls, cap of an output, tokens of the first prompt, tokens that a tool adds, mean pause of the tool [s], share
AGENTS = {
    "chat": (1, 64, 48, 0, 0.0, 0.50),
    "lookup": (3, 32, 64, 32, 0.1, 0.25),
    "support": (6, 64, 96, 48, 0.2, 0.15),
    "research": (14, 96, 160, 64, 0.3, 0.10),
}


def draw(n: int, seed: int, rate: float) -> list[dict]:
    rng = random.Random(seed)
    names, at, workflows = list(AGENTS), 0.0, []
    for i in range(n):
        at += rng.expovariate(rate)
        agent = rng.choices(names, [AGENTS[name][5] for name in names])[0]
        calls = AGENTS[agent][0]
        workflows.append({"id": f"{seed}-{i}", "agent": agent, "at": at, "seed": rng.randrange(2**31),
                          "calls": max(1, calls + rng.randint(-calls // 4, calls // 4))})  # fmt: skip
    return workflows


class Out:
    def __init__(self) -> None:
        self.ttft: list[float] = []
        self.latency: list[tuple[str, float]] = []
        self.tokens = self.failed = self.calls = 0
        self.why: str | None = None


async def workflow(session, server: Llama, told: dict, begun: float, out: Out) -> None:
    _, cap, first_prompt, adds, pause, _ = AGENTS[told["agent"]]
    rng = random.Random(told["seed"])
    await asyncio.sleep(max(0.0, begun + told["at"] - time.monotonic()))
    arrived = time.monotonic()
    prompt = drawn(rng, first_prompt)
    for i in range(told["calls"]):
        headers = {"X-Takt-Workflow": told["id"], "X-Takt-Agent": told["agent"], "X-Takt-Last": str(int(i + 1 == told["calls"]))}
        try:
            ttft, tokens, _ = await complete(session, server, list(prompt), cap, headers)
        except Refused as why:
            out.failed += 1
            out.why = str(why)
            return
        out.ttft.append(ttft)
        out.tokens += len(tokens)
        out.calls += 1
        prompt += tokens + drawn(rng, adds)
        if i + 1 < told["calls"]:
            await asyncio.sleep(rng.expovariate(1 / pause))
    out.latency.append((told["agent"], time.monotonic() - arrived))


async def play(session, server: Llama, workflows: list[dict], load: str) -> dict:
    out, begun = Out(), time.monotonic()
    await asyncio.gather(*(workflow(session, server, told, begun, out) for told in workflows))
    took = time.monotonic() - begun
    latency = [seconds for _, seconds in out.latency] or [0.0]
    return {
        "server": server.name.split(":")[0],
        "order": server.name.split(":")[1],
        "load": load,
        "mean_workflow_s": round(statistics.fmean(latency), 3),
        "p95_workflow_s": round(quantile(latency, 0.95), 3),
        "ttft_s": round(statistics.fmean(out.ttft or [0.0]), 3),
        "ttft_p95_s": round(quantile(out.ttft or [0.0], 0.95), 3),
        "tokens_per_s": round(out.tokens / took, 1),
        "failed": out.failed,
        "why": out.why,
        "calls": out.calls,
        "seconds": round(took, 1),
        "by_agent_s": {a: round(statistics.fmean([s for b, s in out.latency if a == b] or [0.0]), 3) for a in AGENTS},
        "machine_load": os.getloadavg()[0],
    }


def closed(lanes: int, seed: int, calls: int) -> list[dict]:
    """So many clients at once, each with calls that follow one another."""
    return [{"id": f"c{seed}-{i}", "agent": "flat", "at": 0.0, "seed": seed * 1000 + i, "calls": calls} for i in range(lanes)]


AGENTS["flat"] = (1, 64, 96, 32, 1e-4, 0.0)


async def saturation(session, server: Llama, workflows: list[dict], clients: int) -> float:
    """Returns the workflows per second of this number of clients, which take them one after another until the list is empty."""
    left, out, until = list(reversed(workflows)), Out(), []

    async def client() -> None:
        while left:
            await workflow(session, server, left.pop() | {"at": 0.0}, 0.0, out)
        if not until:
            until.append((time.monotonic(), out.tokens))

    begun = time.monotonic()
    await asyncio.gather(*(client() for _ in range(clients)))
    end, tokens = until[0]
    return tokens / (end - begun) / (out.tokens / len(workflows))


async def main_async(options) -> dict:
    kit = Kit(options.llama, options.host, options.logs)
    size = (options.model, options.lanes, options.cells, options.batch)
    default = options.default or "room_to_pass"
    # llama-server keeps KV that left its slots in 8 GiB of memory.
    shared = ("--prefix-cache", "--saved-cells", 1 << 22, "--host-cells", 4 * options.cells, "--connections", 512)
    servers = [
        kit.llama_server("llama-server:own", *size),
        kit.llama_host("takt:fcfs", *size, "--policy", "fcfs", *shared),
        kit.llama_host("takt:default", *size, "--policy", default, *shared),
    ]
    tight = (options.model, options.lanes, options.pressure_cells, options.batch)
    rows: list[dict] = []

    def keep(row: dict, **more) -> None:
        rows.append({**row, **more})
        print(json.dumps(rows[-1]), flush=True)
        if options.json:
            options.json.write_text(json.dumps({"settings": {k: str(v) for k, v in vars(options).items()}, "runs": rows}, indent=1))

    loads = options.loads.split(",")
    if "throughput" in loads or "mixed" in loads:
        async with running(*servers) as session:
            for server in servers:  # warm-up, in which takt learns lengths
                await play(session, server, draw(40, 999, 20.0), "warm")
            rate = 0.0
            if "mixed" in loads:
                rate = options.load * await saturation(session, servers[0], draw(options.workflows, 998, 1.0), 3 * options.lanes)
                print(json.dumps({"rate_per_s": round(rate, 3)}), flush=True)
            for i in range(options.runs):
                turns = servers[i % 3 :] + servers[: i % 3]
                for server in turns if "throughput" in loads else []:
                    keep(await play(session, server, closed(options.lanes, i, options.calls), "throughput"), round=i)
                for server in turns if "mixed" in loads else []:
                    workflows = draw(options.workflows, 100 + i, rate)
                    keep(await play(session, server, workflows, "mixed"), round=i, rate=round(rate, 3), workflows=len(workflows))
            metrics = {server.name: await server.metrics(session) for server in servers[1:]}
    else:
        metrics = {}
    if "pressure" in loads:
        servers = [
            kit.llama_server("llama-server:own", *tight),
            kit.llama_host("takt:fcfs", *tight, "--policy", "fcfs", *shared),
            kit.llama_host("takt:default", *tight, "--policy", default, *shared),
        ]
        async with running(*servers) as session:
            for i in range(max(1, options.runs // 2)):
                for server in servers:
                    keep(await play(session, server, closed(options.lanes, 50 + i, options.calls), "pressure"), round=i)
    shares = {}
    for name, told in metrics.items():
        planning, computing = told["llama_host_scheduling_seconds_total"], told["llama_host_computing_seconds_total"]
        steps = told["llama_host_steps_total"]
        shares[name] = {
            "plan_commit_us": round(1e6 * planning / steps, 1), "step_ms": round(1e3 * computing / steps, 3),
            "share": round(planning / (planning + computing), 5), "steps": steps, "steps_lost": told["llama_host_steps_lost_total"],
            "preempted": told["takt_preempted_recompute_total"] + told["takt_preempted_swap_total"],
            "prefill_tokens": told["takt_tokens_prefill_total"], "cached_tokens": told["takt_tokens_cached_total"],
        }  # fmt: skip
    return {"settings": {k: str(v) for k, v in vars(options).items()}, "runs": rows, "plan_commit": shares}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("llama", "host", "model", "logs"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--loads", default="throughput,mixed,pressure")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--workflows", type=int, default=500)
    parser.add_argument("--calls", type=int, default=24, help="calls of each client in `throughput`")
    parser.add_argument("--load", type=float, default=1.1, help="arrivals as a multiple of the throughput")
    parser.add_argument("--lanes", type=int, default=8)
    parser.add_argument("--cells", type=int, default=24576)
    parser.add_argument("--pressure-cells", type=int, default=768)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--default", help="spec of takt's default with its own pace")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    result = until_stopped(main_async(options))
    print(json.dumps(result["plan_commit"]), flush=True)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
