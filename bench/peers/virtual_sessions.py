"""Replays recorded coding sessions in vLLM's own scheduler and KV manager, in virtual time: its fcfs against takt's gate.

    python virtual_sessions.py --data coding_sessions.jsonl.gz --sessions 8,24,48 --json FILE

It runs the experiment of sessions.py with the step times of virtual.py's profile, so that runs are reproducible. Figures exclude
the first quarter of the time. A turn that still waits at the end counts in TTFT with its wait so far.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "integrations" / "vllm" / "tests"))

from servers import quantile  # noqa: E402
from sessions import LONGEST, gate_of, read, tokens_of  # noqa: E402
from virtual import PREFILL_S, SEQUENCE_S, STEP_S  # noqa: E402
from vllm.v1.core.sched.scheduler import Scheduler  # noqa: E402
from vllm_host import BLOCK, finish, model, request, scheduler  # noqa: E402

from takt.vllm import TaktSyncScheduler  # noqa: E402


class User:
    """One session after another; each of its turns waits for the one before."""

    def __init__(self, seed: int, u: int, recorded: list[dict], order: list[int]) -> None:
        self.rng = random.Random(seed * 1000 + u)
        self.prefix, self.recorded, self.order = f"{seed}-{u}", recorded, order
        self.take()
        self.at = self.rng.randrange(len(self.told["calls"]))

    def take(self) -> None:
        self.told = self.recorded[self.order.pop()]
        self.salt, self.at = self.rng.getrandbits(63), 0

    def ask(self, name: str, factor: int):
        each = self.told["calls"][self.at]
        prompt = tokens_of(self.salt, self.told, self.at, factor)
        return request(
            name, len(prompt), max(1, round(each["out"] / factor)), 0, None, prompt, takt_agent="coder",
            takt_workflow=f"{self.prefix}-{self.told['id']}", takt_last=str(int(self.at + 1 == len(self.told["calls"]))),
        )  # fmt: skip

    def pause(self, options) -> float:
        """Returns the time until its next request [s]."""
        self.at += 1
        if self.at == len(self.told["calls"]):
            self.take()
            return 0.0
        pause = self.told["calls"][self.at].get("think_s")
        return min(options.pause_cap, 10.0 if pause is None else pause) / options.factor


def run(folder: str, name: str, recorded: list[dict], n: int, seed: int, options) -> dict:
    kind, takt = (Scheduler, {}) if name == "vllm_fcfs" else (TaktSyncScheduler, gate_of(options.factor, PREFILL_S))
    host = scheduler(
        folder, kind, seqs=options.max_num_seqs, tokens=2048, blocks=options.kv_tokens // BLOCK, caching=True,
        longest=LONGEST // options.factor + 64, **takt,
    )  # fmt: skip
    now = 1000.0
    begins, ends = now + options.seconds / 4, now + options.seconds
    if hasattr(host, "takt_order"):
        host.takt_order.now = lambda: int(now * 1e9)
    order = list(range(len(recorded)))
    random.Random(seed).shuffle(order)
    users = [User(seed, u, recorded, order) for u in range(n)]
    coming = [(now, u) for u in range(n)]
    asked: dict[str, tuple[int, float]] = {}  # id: its user, and the time of the request
    silent: dict[str, float] = {}  # requests without a first token: their time
    turns = prompts = hits = asks = 0
    ttft: list[float] = []
    while now < ends:
        if not asked and coming[0][0] > now:
            now = coming[0][0]
        while coming and coming[0][0] <= now:
            at, u = heapq.heappop(coming)
            one = users[u].ask(f"t{asks}", options.factor)
            asks += 1
            asked[one.request_id], silent[one.request_id] = (u, at), at
            host.add_request(one)
        output = host.schedule()
        scheduled = output.num_scheduled_tokens
        if now >= begins:
            for each in output.scheduled_new_reqs:
                hits += each.num_computed_tokens
                prompts += len(each.prompt_token_ids)
        if not scheduled and not coming:
            raise SystemExit(f"{name}: {len(asked)} turns wait, none runs and none comes")
        now = now + STEP_S + PREFILL_S * sum(k for k in scheduled.values() if k > 1) + SEQUENCE_S * len(scheduled) if scheduled else coming[0][0]
        whole = [each for each in scheduled if host.requests[each].num_computed_tokens >= host.requests[each].num_tokens]
        finish(host, output)
        for each in whole:
            since = silent.pop(each, None)
            if since is not None and since >= begins:
                ttft.append(now - since)
            if each not in host.requests:
                u, _ = asked.pop(each)
                turns += begins <= now <= ends
                heapq.heappush(coming, (now + users[u].pause(options), u))
    ttft += [now - since for since in silent.values()]
    return {
        "order": name, "sessions": n, "seed": seed, "turns_per_min": round(60 * turns / (ends - begins), 1),
        "hits": round(hits / max(1, prompts), 3), "ttft_s": round(sum(ttft) / max(1, len(ttft)), 3),
        "ttft_p95_s": round(quantile(ttft or [0.0], 0.95), 3), "ttft_max_s": round(max(ttft or [0.0]), 3),
        "waiting_at_end": len(silent), "gate_doors": host.takt_counters["gate_doors"] if takt else 0,
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", required=True, help="coding_sessions.jsonl.gz")
    parser.add_argument("--runs", type=int, default=3, help="runs of each order and number of sessions")
    parser.add_argument("--sessions", default="8,24,48", help="numbers of sessions that are alive at once")
    parser.add_argument("--seconds", type=float, default=400.0, help="virtual duration of a run; its first quarter is warm-up")
    parser.add_argument("--factor", type=int, default=16, choices=(8, 16, 32, 64), help="divisor of tokens and times")
    parser.add_argument("--pause-cap", type=float, default=600.0, help="recorded seconds")
    parser.add_argument("--kv-tokens", type=int, default=131_072)
    parser.add_argument("--max-num-seqs", type=int, default=16)
    parser.add_argument("--json")
    options = parser.parse_args()
    recorded = read(options.data)
    result: dict = {"settings": vars(options) | {"data": Path(options.data).name}, "runs": []}
    with tempfile.TemporaryDirectory() as folder:
        path = model(Path(folder))
        for n in (int(each) for each in options.sessions.split(",")):
            for i in range(options.runs):
                for name in ("vllm_fcfs", "takt_gate"):
                    result["runs"].append(run(path, name, recorded, n, 100 + i, options))
                    print(json.dumps(result["runs"][-1]), flush=True)
                    if options.json:
                        Path(options.json).write_text(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
