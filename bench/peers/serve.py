"""Runs real `vllm serve` on a CPU with a model of random weights, under workflows of many calls.

    python serve.py --runs 5 --workflows 200 --json FILE

The load is relative to the servers' throughput, which is measured before each round because machines are shared.

Orders: vLLM's fcfs, vLLM's priority (each call has the arrival of its workflow), and takt's default. All servers are up at once
and the runs take turns. A call ends at a token of a list whose length gives the mean output of its agent. So no program knows an
output's length in advance; max_tokens is the same for all calls. Each call has its own seed, so that its output does not depend
on the order. Outputs under load are compared call by call, and so are the outputs of a burst at temperature 0.
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

from servers import TEXT, VOCABULARY, body_of, call, digest, quantile, serving, until_stopped

MOST = 256  # max_tokens of every call

# agent: calls, mean output, tokens of the first prompt, tokens that a tool adds, mean pause of the tool [s], share
AGENTS = {
    "lookup": (2, 12, 64, 48, 0.2, 0.55),
    "support": (4, 24, 128, 64, 0.3, 0.30),
    "research": (10, 60, 256, 128, 0.5, 0.15),
}

ORDERS = {
    "vllm_fcfs": [],
    "vllm_priority": ["--scheduling-policy", "priority"],
    "takt": ["--scheduler-cls", "takt.vllm.TaktScheduler"],
}


def draw(n: int, seed: int, rate: float) -> list[dict]:
    rng = random.Random(seed)
    names = list(AGENTS)
    at, workflows = 0.0, []
    for i in range(n):
        at += rng.expovariate(rate)
        agent = rng.choices(names, [AGENTS[name][5] for name in names])[0]
        workflows.append({"id": f"{seed}-{i}", "agent": agent, "at": at, "seed": rng.randrange(2**31)})
    return workflows


def stops(mean: float) -> list[int]:
    """Returns the tokens that end an output, as many as give this mean length if all tokens are about equally likely."""
    return list(range(16, 16 + max(1, round(VOCABULARY / mean))))


async def workflow(session, server, told: dict, begun: float, out: dict, ask=call) -> None:
    calls, mean, first_prompt, adds, pause, _ = AGENTS[told["agent"]]
    rng = random.Random(told["seed"])
    await asyncio.sleep(max(0.0, begun + told["at"] - time.monotonic()))
    arrived = time.monotonic()
    n = max(1, calls + rng.randint(-calls // 4, calls // 4))
    prompt = [rng.randrange(TEXT, VOCABULARY) for _ in range(first_prompt)]
    for i in range(n):
        body = body_of(
            list(prompt),
            MOST,
            temperature=1.0,
            seed=told["seed"] % 2**20 + i,
            ignore_eos=True,
            stop_token_ids=stops(mean),
            vllm_xargs={"takt_workflow": told["id"], "takt_agent": told["agent"], "takt_last": str(int(i == n - 1))},
        )
        if server.name == "vllm_priority":
            body["priority"] = int(1000 * told["at"])
        ttft, tokens = await ask(session, server, body)
        out["ttft"].append(ttft)
        out["tokens"] += len(tokens)
        out["ends"].append((time.monotonic() - begun, len(tokens)))
        out["outputs"][f"{told['id']}.{i}"] = digest(tokens)
        prompt += tokens + [rng.randrange(TEXT, VOCABULARY) for _ in range(adds)]
        if i + 1 < n:
            await asyncio.sleep(rng.expovariate(1 / pause))
    out["latency"].append((told["agent"], time.monotonic() - arrived))


def first_half(ends: list[tuple[float, int]], tokens: int) -> float:
    """Returns the tokens per second until half of them have come. Until then all lanes are busy in any order; later, the longest
    workflows run alone, one call after another."""
    got = 0
    for when, n in sorted(ends):
        got += n
        if 2 * got >= tokens:
            return got / when
    return 0.0


async def run(session, server, workflows: list[dict], ask=call) -> tuple[dict, dict[str, str]]:
    """Returns the figures, and a digest of each call's output. `ask` sends a call, to `server` by default."""
    out: dict = {"ttft": [], "tokens": 0, "ends": [], "latency": [], "outputs": {}}
    begun = time.monotonic()
    await asyncio.gather(*(workflow(session, server, told, begun, out, ask) for told in workflows))
    took = time.monotonic() - begun
    latency = [seconds for _, seconds in out["latency"]]
    return {
        "order": server.name,
        "mean_workflow_s": round(statistics.fmean(latency), 3),
        "p95_workflow_s": round(quantile(latency, 0.95), 3),
        "ttft_s": round(statistics.fmean(out["ttft"]), 3),
        "ttft_p95_s": round(quantile(out["ttft"], 0.95), 3),
        "tokens_per_s": round(out["tokens"] / took, 1),
        "tokens_per_s_of_first_half": round(first_half(out["ends"], out["tokens"]), 1),
        "tokens": out["tokens"],
        "calls": len(out["ttft"]),
        "seconds": round(took, 1),
        "by_agent_s": {
            agent: round(statistics.fmean([s for a, s in out["latency"] if a == agent] or [0.0]), 3) for agent in AGENTS
        },
    }, out["outputs"]


def tokens_of_a_workflow() -> float:
    """Returns the mean number of output tokens."""
    total = 0.0
    for calls, mean, _, _, _, share in AGENTS.values():
        total += share * calls * mean * (1 - (1 - 1 / mean) ** MOST)  # geometric and truncated
    return total


async def capacity(session, server, lanes: int, seconds: float = 8.0) -> float:
    """Returns the workflows per second that this machine serves now, with one client per lane and no pauses."""
    got = 0
    end = time.monotonic() + seconds

    async def client(i: int) -> None:
        nonlocal got
        rng = random.Random(i)
        names = list(AGENTS)
        while time.monotonic() < end:
            agent = rng.choices(names, [AGENTS[name][0] * AGENTS[name][5] for name in names])[0]
            _, mean, first, adds, _, _ = AGENTS[agent]
            prompt = [rng.randrange(TEXT, VOCABULARY) for _ in range(first + adds)]
            extra = {"takt_workflow": f"capacity-{rng.random()}", "takt_agent": "capacity", "takt_last": "1"}
            body = body_of(prompt, MOST, temperature=1.0, seed=rng.randrange(2**20), ignore_eos=True,
                           stop_token_ids=stops(mean), vllm_xargs=extra)  # fmt: skip
            _, tokens = await call(session, server, body)
            got += len(tokens) if time.monotonic() < end else 0

    await asyncio.gather(*(client(i) for i in range(lanes)))
    return got / seconds / tokens_of_a_workflow()


async def at_temperature_0(session, server, n: int = 64) -> dict[str, str]:
    """Runs a burst of calls of many lengths, so that each order forms different batches."""
    rng = random.Random(5)
    bodies = []
    for i in range(n):
        prompt = [rng.randrange(TEXT, VOCABULARY) for _ in range(rng.randint(20, 200))]
        extra = {"takt_workflow": f"burst-{i}", "takt_agent": "burst", "takt_last": "1"}
        most, priority = rng.randint(4, 64), rng.randrange(9)
        more = {"priority": priority} if server.name == "vllm_priority" else {}
        bodies.append(body_of(prompt, most, temperature=0.0, ignore_eos=True, vllm_xargs=extra, **more))
    answers = await asyncio.gather(*(call(session, server, body) for body in bodies))
    return {str(i): digest(tokens) for i, (_, tokens) in enumerate(answers)}


def compared(outputs: dict[str, dict[str, str]]) -> dict:
    """Returns the number of calls with the same output in all orders, and the number of others. A workflow's later prompts contain
    its earlier outputs, so one difference causes more."""
    first = next(iter(outputs.values()))
    differ = sorted(name for name in first if any(each.get(name) != first[name] for each in outputs.values()))
    return {"calls": len(first), "same": len(first) - len(differ), "differ": differ[:20]}


async def main_async(options) -> dict:
    common = [
        "--max-num-seqs", str(options.max_num_seqs), "--max-num-batched-tokens", "8192", "--max-model-len", "8192",
        "--stream-interval", "16",
        "--no-enable-chunked-prefill",  # vLLM 0.32 on a CPU fails on a chunk of a request with a seed
    ]  # fmt: skip
    orders = {name: [*common, *ORDERS[name]] for name in options.orders.split(",")}
    async with serving(orders, options.logs, 8192) as (session, servers):
        burst = {server.name: await at_temperature_0(session, server) for server in servers}
        result: dict = {"settings": vars(options), "temperature_0": compared(burst), "under_load": [], "runs": []}
        print(json.dumps({"temperature_0": result["temperature_0"]}), flush=True)
        for server in servers:  # warm-up
            await run(session, server, draw(10, 999, 4.0))
        for i in range(options.runs):
            served = [await capacity(session, server, options.max_num_seqs) for server in servers]
            rate = options.rate or round(options.load * statistics.fmean(served), 2)
            print(json.dumps({"round": i, "capacity": [round(each, 2) for each in served], "rate": rate}), flush=True)
            workflows = draw(options.workflows, 100 + i, rate)
            outputs = {}
            for server in servers[i % len(servers) :] + servers[: i % len(servers)]:
                row, outputs[server.name] = await run(session, server, workflows)
                result["runs"].append({**row, "seed": 100 + i, "rate": rate, "machine_load": os.getloadavg()[0]})
                print(json.dumps(result["runs"][-1]), flush=True)
            result["under_load"].append(compared(outputs))
            print(json.dumps({"under_load": result["under_load"][-1]}), flush=True)
            if options.json:
                Path(options.json).write_text(json.dumps(result, indent=1))
        told = await servers[-1].metrics(session)
        result["metrics"] = {name: value for name, value in told.items() if name.startswith("takt_")}
        return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=1, help="of each order")
    parser.add_argument("--workflows", type=int, default=40)
    parser.add_argument("--load", type=float, default=2.0, help="arriving workflows as a multiple of the servers' throughput")
    parser.add_argument("--rate", type=float, help="arriving workflows per second, instead of --load")
    parser.add_argument("--max-num-seqs", type=int, default=8)
    parser.add_argument("--orders", default=",".join(ORDERS))
    parser.add_argument("--logs", help="folder for the servers' logs")
    parser.add_argument("--json", help="file for the results")
    options = parser.parse_args()
    until_stopped(main_async(options), options.json)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
