"""Runs llama_host under faults: clients that disappear, slow readers, failing batches and copies, missing cells, and SIGTERM
during streams. No request may be lost or hang, and all memory must be freed. --seconds 3600 makes it a soak test.

    python llama_faults.py --llama PREFIX --host llama_host --model small.gguf --logs FOLDER --seconds 60 --json FILE
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import time
from collections import Counter
from pathlib import Path

from llama_servers import Alone, Kit, Llama, Refused, complete, drawn, running
from servers import until_stopped

SETTINGS = ("--kv-f32", "--no-flash-attention", "--prefix-cache", "--sequences", 24, "--policy", "room_to_pass", "--option", "preempt=by_rank")
LEFT = ("vllm:num_requests_running", "vllm:num_requests_waiting", "takt_kv_blocks_used", "takt_cpu_blocks_used")


async def drained(session, server: Llama) -> dict[str, float]:
    """Returns the remaining resources without clients, which must all become zero."""
    told: dict[str, float] = {}
    for _ in range(200):
        metrics = await server.metrics(session)
        told = {name: metrics[name] for name in LEFT}
        if not any(told.values()):
            break
        await asyncio.sleep(0.1)
    return told


async def vanish(session, server: Llama, prompt: list[int], most: int, after: float) -> None:
    """A client that closes its connection after a while, before its answer or during it."""
    body = {"prompt": prompt, "max_tokens": most, "stream": True}
    try:
        async with asyncio.timeout(after):
            async with session.post(server.url + "/v1/completions", json=body, headers={"Connection": "close"}) as answer:
                async for _ in answer.content:
                    pass
    except TimeoutError:
        pass


async def read_slowly(session, server: Llama, prompt: list[int], most: int) -> bool:
    body = {"prompt": prompt, "max_tokens": most, "stream": True, "return_token_ids": True}
    text = b""
    async with session.post(server.url + "/v1/completions", json=body) as answer:
        while piece := await answer.content.read(200):
            text += piece
            await asyncio.sleep(0.02)
    return b"[DONE]" in text


async def storm(session, server: Llama, seconds: float, known: dict, counts: Counter, memory: list[int]) -> None:
    """Runs clients of all kinds. `known`: the expected output of each prompt."""
    end = time.monotonic() + seconds

    async def client(number: int) -> None:
        rng = random.Random(number)
        while time.monotonic() < end:
            kind = rng.random()
            prompt = drawn(rng, rng.randint(1, 120))
            if kind < 0.25:
                await vanish(session, server, prompt, 120, rng.choice([0.001, 0.02, 0.1, 0.3]))
                counts["vanished"] += 1
            elif kind < 0.35:
                counts["slow" if await read_slowly(session, server, prompt, 60) else "slow_cut"] += 1
            else:
                key = rng.choice(list(known))
                headers = {"X-Takt-Workflow": f"w{rng.randrange(50)}", "X-Takt-Agent": f"a{rng.randrange(3)}", "X-Takt-Last": str(rng.randrange(2))}
                try:
                    _, tokens, _ = await complete(session, server, list(key), len(known[key]), headers)
                except Refused as why:
                    counts["failed"] += 1
                    print("failed:", why, flush=True)
                    continue
                counts["same" if tokens == known[key] else "different"] += 1

    async def watch() -> None:
        while time.monotonic() < end:
            memory.append(server.resident())
            if len(memory) % 60 == 0:
                print(f"{seconds - (end - time.monotonic()):.0f} s: {memory[-1] / 1e6:.1f} MB,", dict(counts), flush=True)
            await asyncio.sleep(max(0.5, seconds / 600))

    await asyncio.gather(watch(), *(client(i) for i in range(24)))


async def ended_by_term(kit: Kit, model: Path) -> dict:
    """Sends SIGTERM during 24 streams: each must end with all of its tokens or an error, and then the process must end."""
    server = kit.llama_host("takt:term", model, 8, 600, 64, "--drain", 1, *SETTINGS)
    async with running(server) as session:
        rng = random.Random(1)
        calls = [asyncio.create_task(complete(session, server, drawn(rng, 20), 500)) for _ in range(24)]
        await asyncio.sleep(1.0)
        began = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        done = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 120)
        code = await asyncio.to_thread(server.process.wait, 120)
        whole = sum(isinstance(each, tuple) for each in done)
        told = sum(isinstance(each, Refused) for each in done)
        return {"streams": len(done), "whole": whole, "told": told, "exit": code, "seconds": round(time.monotonic() - began, 2)}


async def cells_missing(kit: Kit, model: Path) -> dict:
    """Makes llama_decode fail for lack of cells: takt gets 400 cells more than there are."""
    server = kit.llama_host("takt:missing", model, 8, 656, 64, "--fault", "missing_cells=400", *SETTINGS)
    async with running(server) as session:
        rng = random.Random(2)
        calls = [complete(session, server, drawn(rng, rng.randint(10, 60)), 60) for _ in range(24)]
        done = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 300)
        metrics = await server.metrics(session)
        return {
            "requests": len(done), "whole": sum(isinstance(each, tuple) for each in done),
            "told": sum(isinstance(each, Refused) for each in done),
            "steps_lost": metrics["llama_host_steps_lost_total"], "left": await drained(session, server),
        }  # fmt: skip


async def main_async(options) -> dict:
    kit = Kit(options.llama, options.host, options.logs)
    alone = kit.llama_server("alone", options.model, 1, 2048, 512, "-ctk", "f32", "-ctv", "f32", "-fa", "off", "--cache-ram", 0)
    known: dict[tuple[int, ...], list[int]] = {}
    async with running(alone):
        judge, rng = Alone(alone), random.Random(3)
        while len(known) < 60:
            prompt = drawn(rng, rng.randint(2, 100))
            known[tuple(prompt)] = judge.ask(prompt, rng.randint(2, 40))
    settings = ("--host-cells", 2000, "--option", "preempt_action=out", "--fault", "no_room=0.01,aborted=0.01,move=0.05", *SETTINGS)
    server = kit.llama_host("takt:faults", options.model, 8, 600, 64, *settings)
    counts: Counter = Counter()
    memory: list[int] = []
    async with running(server) as session:
        await storm(session, server, options.seconds, known, counts, memory)
        left = await drained(session, server)
        metrics = await server.metrics(session)
    third = len(memory) // 3
    early, late = max(memory[third : 2 * third] or [0]), max(memory[2 * third :] or [0])
    names = ("steps_total", "steps_lost_total", "moves_out_total", "moves_lost_total")
    result = {
        "seconds": options.seconds, "counts": counts, "left": left, "server": {name: metrics[f"llama_host_{name}"] for name in names},
        "memory_mb": {name: round(mb / 1e6, 1) for name, mb in (("first", memory[0]), ("middle", memory[len(memory) // 2]), ("last", memory[-1]),
                                                              ("most_middle_third", early), ("most_last_third", late))},
        "term": await ended_by_term(kit, options.model), "missing_cells": await cells_missing(kit, options.model),
    }  # fmt: skip
    term, missing = result["term"], result["missing_cells"]
    result["wrong"] = [
        what
        for what, is_so in {
            "outputs differ": counts["different"] > 0,
            "calls failed": counts["failed"] + counts["slow_cut"] > 0,
            "memory is not given back": any(left.values()) or any(missing["left"].values()),
            "no fault struck": metrics["llama_host_steps_lost_total"] == 0 or missing["steps_lost"] == 0,
            "memory grows": late > 1.05 * early + 4e6,
            "a stream was lost": term["whole"] + term["told"] != term["streams"] or term["exit"] not in (0, 1),
            "a request was lost": missing["whole"] + missing["told"] != missing["requests"],
        }.items()
        if is_so
    ]
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("llama", "host", "model", "logs"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    result = until_stopped(main_async(options))
    print(json.dumps(result), flush=True)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1))
    return 1 if result["wrong"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
