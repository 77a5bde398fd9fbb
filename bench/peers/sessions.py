"""Replays recorded coding sessions, scaled down, in real `vllm serve`: vLLM's fcfs against takt's gate, with scarce KV.

    python sessions.py --data coding_sessions.jsonl.gz --sessions 8,24,48 --runs 3 --json FILE

One factor scales prompts, outputs and blocks (in tokens), pauses, and the times of the gate's options. A closed loop keeps a
number of sessions alive. Each waits for its answer, pauses as recorded (at most --pause-cap recorded seconds), and sends its next
call. Another session follows an ended one. The first sessions start somewhere within a session, later ones at its beginning.
Only the main agent's calls are replayed, of sessions of at most 262,144 tokens. Figures exclude the first quarter of the time. A
turn that still waits at the end counts in TTFT with its wait so far.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import random
import time
from pathlib import Path

import numpy
from servers import TEXT, VOCABULARY, body_of, call, quantile, serving, until_stopped

LONGEST = 262_144  # recorded tokens


def read(path: str) -> list[dict]:
    """Returns sessions as lists of calls; ids of blocks are unique within a session."""
    found = []
    with gzip.open(path, "rt") as lines:
        for line in lines:
            told = json.loads(line)
            calls = [each for each in told["calls"] if not each.get("agent") and each["in"] > 0]
            if calls and max(each["in"] + each["out"] for each in calls) <= LONGEST:
                found.append({"id": told["id"], "block": told["block_tokens"], "calls": calls})
    return found


def tokens_of(salt: int, session: dict, i: int, factor: int) -> list[int]:
    """Returns a prompt: equal blocks of a session become equal tokens."""
    told = session["calls"][i]
    each = session["block"] // factor
    runs = [numpy.arange(first, first + count, dtype=numpy.uint64) for first, count in told["blocks"]]
    blocks = numpy.concatenate(runs) if runs else numpy.zeros(0, numpy.uint64)
    places = (blocks[:, None] * numpy.uint64(each) + numpy.arange(each, dtype=numpy.uint64)).ravel()
    rest = max(0, told["in"] // factor - len(places)) + (not len(places) and told["in"] < factor)
    places = numpy.concatenate([places, numpy.arange(rest, dtype=numpy.uint64) + numpy.uint64((i + 1) << 40)])
    with numpy.errstate(over="ignore"):
        mixed = (places + numpy.uint64(salt)) * numpy.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> numpy.uint64(29)
        mixed *= numpy.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> numpy.uint64(32)
    return (TEXT + mixed % numpy.uint64(VOCABULARY - TEXT)).tolist()


class Window:
    """Figures, and the time from which they count."""

    def __init__(self, begins: float, ends: float) -> None:
        self.begins, self.ends = begins, ends
        self.turns = 0
        self.prompt_tokens = 0
        self.ttft: list[float] = []
        self.waits: dict[int, float] = {}  # turns without a first token: time of their request


async def user(session, server, recorded: list[dict], order: list[int], u: int, seed: int, window: Window, options) -> None:
    rng = random.Random(seed * 1000 + u)
    first = True
    while True:
        told = recorded[order.pop()]
        name = f"{seed}-{u}-{told['id']}"
        salt = rng.getrandbits(63)
        calls = told["calls"]
        for i in range(rng.randrange(len(calls)) if first else 0, len(calls)):
            prompt = tokens_of(salt, told, i, options.factor)
            extra = {"takt_workflow": name, "takt_agent": "coder", "takt_last": str(int(i + 1 == len(calls)))}
            most = max(1, round(calls[i]["out"] / options.factor))
            body = body_of(prompt, most, temperature=0.0, ignore_eos=True, vllm_xargs=extra)
            began = time.monotonic()
            window.waits[u] = began
            ttft, tokens = await call(session, server, body)
            del window.waits[u]
            now = time.monotonic()
            if began >= window.begins:
                window.ttft.append(ttft)
            if window.begins <= now <= window.ends:
                window.turns += 1
                window.prompt_tokens += len(prompt)
            if i + 1 < len(calls):
                pause = calls[i + 1].get("think_s")
                await asyncio.sleep(min(options.pause_cap, 10.0 if pause is None else pause) / options.factor)
        first = False


async def run(session, server, recorded: list[dict], n: int, seed: int, options) -> dict:
    order = list(range(len(recorded)))
    random.Random(seed).shuffle(order)
    begun = time.monotonic()
    window = Window(begun + options.seconds / 4, begun + options.seconds)
    users = [
        asyncio.ensure_future(user(session, server, recorded, order, u, seed, window, options)) for u in range(n)
    ]

    async def to(when: float) -> None:
        done, _ = await asyncio.wait(users, timeout=when - time.monotonic(), return_when=asyncio.FIRST_EXCEPTION)
        for each in done:
            each.result()

    try:
        await to(window.begins)
        before = await server.metrics(session)
        await to(window.ends)
        after = await server.metrics(session)
    finally:
        for each in users:  # clients that leave during their calls
            each.cancel()
        await asyncio.gather(*users, return_exceptions=True)
    now = time.monotonic()
    ttft = window.ttft + [now - since for since in window.waits.values()]
    took = window.ends - window.begins

    def more(name: str) -> float:
        return after.get(name, 0.0) - before.get(name, 0.0)

    queried = more("vllm:prefix_cache_queries_total")
    row = {
        "order": server.name, "sessions": n, "seed": seed, "turns_per_min": round(60 * window.turns / took, 1),
        "hits": round(more("vllm:prefix_cache_hits_total") / queried, 3) if queried else 0.0,
        "ttft_s": round(sum(ttft) / max(1, len(ttft)), 3), "ttft_p50_s": round(quantile(ttft or [0.0], 0.5), 3),
        "ttft_p95_s": round(quantile(ttft or [0.0], 0.95), 3), "ttft_max_s": round(max(ttft or [0.0]), 3),
        "waiting_at_end": len(window.waits), "prompt_tokens_per_s": round(window.prompt_tokens / took),
        "preemptions": more("vllm:num_preemptions_total"),
    }  # fmt: skip
    if "takt_order_seconds_total" in after:
        row["takt_ms_per_step"] = round(1e3 * more("takt_order_seconds_total") / max(1.0, more("takt_steps_total")), 3)
        row["gate_doors"] = more("takt_gate_doors_total")
    end = time.monotonic() + 60
    while True:  # what was left behind
        told = await server.metrics(session)
        if not told.get("vllm:num_requests_running") and not told.get("vllm:num_requests_waiting"):
            return row
        if time.monotonic() > end:
            row["left_behind"] = told.get("vllm:num_requests_running", 0) + told.get("vllm:num_requests_waiting", 0)
            return row
        await asyncio.sleep(0.5)


async def pace(session, server, factor: int) -> float:
    """Returns the prefill time per token of a cold prompt of 131,072 recorded tokens [s], the minimum of three."""
    times = []
    for i in range(3):
        rng = random.Random(10**6 + i)
        prompt = [rng.randrange(TEXT, VOCABULARY) for _ in range(131_072 // factor)]
        ttft, _ = await call(session, server, body_of(prompt, 1, temperature=0.0, ignore_eos=True))
        times.append(ttft / len(prompt))
    return min(times)


def gate_of(factor: int, prefill_s: float) -> dict:
    """Returns takt's options, scaled to the time of the replay."""
    return {
        "gate": "price", "prefill_s": prefill_s, "gate_patience_s": 300 / factor, "gate_door_s": 60 / factor, "idle_s": 600.0,
    }  # fmt: skip


async def main_async(options) -> dict:
    recorded = read(options.data)
    longest = LONGEST // options.factor + 64
    common = [
        "--max-num-seqs", str(options.max_num_seqs), "--max-num-batched-tokens", "2048", "--max-model-len", str(longest),
        "--block-size", "32", "--num-gpu-blocks-override", str(options.kv_tokens // 32), "--stream-interval", "16",
    ]  # fmt: skip
    takt = gate_of(options.factor, options.prefill_s)
    orders = {
        "vllm_fcfs": common,
        "takt_gate": [
            *common, "--scheduler-cls", "takt.vllm.TaktScheduler", "--additional-config", json.dumps({"takt": takt}),
        ],
    }  # fmt: skip
    result: dict = {"settings": vars(options) | {"data": Path(options.data).name}, "usable_sessions": len(recorded), "runs": []}
    async with serving(orders, options.logs, longest) as (session, servers):
        paces = {server.name: round(await pace(session, server, options.factor), 7) for server in servers}
        result["prefill_s_per_token"] = paces
        print(json.dumps({"prefill_s_per_token": paces}), flush=True)
        for i in range(options.runs):
            for j, n in enumerate(int(each) for each in options.sessions.split(",")):
                for server in servers if (i + j) % 2 == 0 else servers[::-1]:
                    result["runs"].append(await run(session, server, recorded, n, 100 + i, options))
                    print(json.dumps(result["runs"][-1]), flush=True)
                    if options.json:
                        Path(options.json).write_text(json.dumps(result, indent=1))
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", required=True, help="coding_sessions.jsonl.gz")
    parser.add_argument("--runs", type=int, default=1, help="runs of each order and number of sessions")
    parser.add_argument("--sessions", default="8,24,48", help="numbers of sessions that are alive at once")
    parser.add_argument("--seconds", type=float, default=100.0, help="duration of a run; its first quarter is warm-up")
    parser.add_argument("--factor", type=int, default=16, choices=(8, 16, 32, 64), help="divisor of tokens and times")
    parser.add_argument("--pause-cap", type=float, default=600.0, help="recorded seconds")
    parser.add_argument("--kv-tokens", type=int, default=131_072)
    parser.add_argument("--max-num-seqs", type=int, default=16)
    parser.add_argument("--prefill-s", type=float, default=1e-4, help="prefill time per token that the gate assumes [s]")
    parser.add_argument("--logs", help="folder for the servers' logs")
    parser.add_argument("--json", help="file for the results")
    options = parser.parse_args()
    until_stopped(main_async(options), options.json)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
