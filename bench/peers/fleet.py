"""Places the calls of workflows on two real `vllm serve` with takt's router, which runs in this process.

    python fleet.py --runs 3 --workflows 100 --json FILE

Each fleet has two servers. In `fcfs` vLLM has its own order, and each call goes to the least loaded server. In `kairos` vLLM
has takt's scheduler with `"system": "kairos"`, and `takt.systems.Kairos` places the calls. The fleets take turns with the same
workflows, which are those of serve.py.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from typing import Any

from serve import draw, run, tokens_of_a_workflow
from servers import Server, call, serving, until_stopped

from takt import Instance, Request
from takt.systems import Kairos

ENGINES = {"fcfs": [], "kairos": ["--scheduler-cls", "takt.vllm.TaktScheduler", "--additional-config", '{"takt": {"system": "kairos"}}']}
ROUTERS: dict[str, dict] = {"fcfs": {"policy": "fcfs", "placement": "least_loaded"}, "kairos": {}}


class Fleet:
    """Two servers behind a router. Calls wait in the router while both servers have `lanes` calls."""

    def __init__(self, name: str, servers: list[Server], lanes: int) -> None:
        self.name, self.servers = name, servers
        self.router = Kairos(**ROUTERS[name])
        for i in range(len(servers)):
            self.router.instance_up(Instance(i + 1, capacity=2 * lanes, kv_tokens=1 << 17), time.monotonic_ns())
        self.calls = 0
        self.workflows: dict[str, int] = {}
        self.waiting: dict[int, asyncio.Future[int]] = {}
        self.placed = [0] * len(servers)

    def place(self) -> None:
        now = time.monotonic_ns()
        self.router.advance(now)  # vLLM's schedulers learn their own table
        for placement in self.router.place(now).placed:
            self.placed[placement.instance - 1] += 1
            self.waiting.pop(placement.request).set_result(placement.instance)

    async def ask(self, session: Any, _: Any, body: dict) -> tuple[float, list[int]]:
        began, told = time.monotonic(), body["vllm_xargs"]
        self.calls += 1
        request, name = self.calls, told["takt_workflow"]
        first = name not in self.workflows
        number = self.workflows.setdefault(name, len(self.workflows) + 1)
        self.waiting[request] = asyncio.get_running_loop().create_future()
        instance = self.waiting[request]
        agent = told["takt_agent"]
        arrived = Request(request, prompt_tokens=len(body["prompt"]), workflow=number, agent=self.router.agent(agent))
        self.router.arrive(arrived, upstream="" if first else agent, now=time.monotonic_ns())
        self.place()
        server = self.servers[await instance - 1]
        waited = time.monotonic() - began
        ttft, tokens = await call(session, server, body)
        self.router.request_ended(request, now=time.monotonic_ns())
        if told["takt_last"] == "1":
            self.router.workflow_ended(number, now=time.monotonic_ns())
        self.place()
        return waited + ttft, tokens


async def main_async(options) -> dict:
    common = [
        "--max-num-seqs", str(options.max_num_seqs), "--max-num-batched-tokens", "8192", "--max-model-len", "8192",
        "--stream-interval", "16", "--no-enable-chunked-prefill",
    ]  # fmt: skip
    orders = {f"{name}_{i}": [*common, *ENGINES[name]] for name in ENGINES for i in (1, 2)}
    async with serving(orders, options.logs, 8192) as (session, servers):
        rows = []
        for i in range(options.runs):
            fleets = [Fleet(name, [s for s in servers if s.name.startswith(name)], options.max_num_seqs) for name in ENGINES]
            for fleet in fleets if i % 2 == 0 else fleets[::-1]:
                row, _ = await run(session, fleet, draw(options.workflows, 100 + i, options.rate), fleet.ask)
                rows.append({**row, "seed": 100 + i, "placed": fleet.placed})
                print(json.dumps(rows[-1]), flush=True)
        means = {name: statistics.fmean(r["mean_workflow_s"] for r in rows if r["order"] == name) for name in ENGINES}
        print(json.dumps(means))
        return {"settings": vars(options), "tokens_of_a_workflow": tokens_of_a_workflow(), "runs": rows, "mean_workflow_s": means}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=3, help="of each fleet")
    parser.add_argument("--workflows", type=int, default=100)
    parser.add_argument("--rate", type=float, default=2.0, help="arriving workflows per second")
    parser.add_argument("--max-num-seqs", type=int, default=8)
    parser.add_argument("--logs", help="folder for the servers' logs")
    parser.add_argument("--json", help="file for the results")
    options = parser.parse_args()
    until_stopped(main_async(options), options.json)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
