"""Runs vLLM's own scheduler and KV manager with a virtual engine: workflows of many calls, in virtual time.

    python virtual.py --json FILE

It runs the experiment of serve.py without the noise of a shared machine: steps take the time of a linear profile. Lengths of
outputs are unknown in advance. Orders are those of serve.py.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "integrations" / "vllm" / "tests"))

from serve import AGENTS, MOST, draw, first_half  # noqa: E402
from servers import quantile  # noqa: E402
from vllm.v1.core.sched.scheduler import Scheduler  # noqa: E402
from vllm_host import ModelRunnerOutput, model, request, scheduler  # noqa: E402

from takt.vllm import TaktSyncScheduler  # noqa: E402

STOP = 9
STEP_S, PREFILL_S, SEQUENCE_S = 0.009, 6e-5, 1.5e-5
ORDERS = {
    "vllm_fcfs": (Scheduler, {}),
    "vllm_priority": (Scheduler, {"policy": "priority"}),
    "takt": (TaktSyncScheduler, {}),
}


def run(folder: str, name: str, workflows: list[dict], seqs: int, start: float = 1000.0) -> dict:
    kind, options = ORDERS[name]
    host = scheduler(folder, kind, seqs=seqs, tokens=512, blocks=4000, caching=True, **options)
    now = start
    if hasattr(host, "takt_order"):
        host.takt_order.now = lambda: int(now * 1e9)
    states, coming = {}, []
    for i, told in enumerate(workflows):
        calls, mean, first, adds, pause, _ = AGENTS[told["agent"]]
        rng = random.Random(told["seed"])
        n = max(1, calls + rng.randint(-calls // 4, calls // 4))
        lengths = [min(MOST, 1 + int(rng.expovariate(1 / mean))) for _ in range(n)]
        pauses = [rng.expovariate(1 / pause) for _ in range(n)]
        states[i] = {"told": told, "lengths": lengths, "pauses": pauses, "at": 0, "adds": adds, "rng": rng,
                     "prompt": [10 + rng.randrange(900) for _ in range(first)]}  # fmt: skip
        heapq.heappush(coming, (start + told["at"], i))
    living: dict[str, tuple[int, int, float]] = {}  # id: its workflow, its length, its arrival
    latency, ttft, ends, tokens = [], [], [], 0
    while coming or living:
        if not living and coming[0][0] > now:
            now = coming[0][0]
        while coming and coming[0][0] <= now:
            at, i = heapq.heappop(coming)
            state = states[i]
            told = state["told"]
            call = state["at"]
            one = request(
                f"{told['id']}.{call}", len(state["prompt"]), MOST, int(1000 * told["at"]), at, state["prompt"],
                takt_workflow=told["id"], takt_agent=told["agent"], takt_last=str(int(call + 1 == len(state["lengths"]))),
            )  # fmt: skip
            one.sampling_params.stop_token_ids = [STOP]
            living[one.request_id] = (i, state["lengths"][call], at)
            host.add_request(one)
        output = host.schedule()
        scheduled = output.num_scheduled_tokens
        if scheduled:
            prefill = sum(n for n in scheduled.values() if n > 1)
            now += STEP_S + PREFILL_S * prefill + SEQUENCE_S * len(scheduled)
        elif coming:
            now = max(now, coming[0][0])
        names, sampled, ended = list(scheduled), [], []
        for each in names:
            one = host.requests[each]
            if one.num_computed_tokens < one.num_tokens:
                sampled.append([])
                continue
            i, length, at = living[each]
            if one.num_output_tokens == 0:
                ttft.append(now - at)
            last = one.num_output_tokens + 1 >= length
            sampled.append([STOP if last else 10 + one.num_output_tokens % 900])
            tokens += 1
            if last:
                ended.append((each, i, list(one.all_token_ids)))
        host.update_from_output(
            output,
            ModelRunnerOutput(
                req_ids=names, req_id_to_index={n: k for k, n in enumerate(names)}, sampled_token_ids=sampled,
                logprobs=None, prompt_logprobs_dict={}, pooler_output=[],
            ),
        )  # fmt: skip
        for each, i, context in ended:
            assert each not in host.requests
            del living[each]
            state = states[i]
            ends.append((now - start, state["lengths"][state["at"]]))
            pause = state["pauses"][state["at"]]
            state["at"] += 1
            if state["at"] == len(state["lengths"]):
                latency.append((state["told"]["agent"], now - start - state["told"]["at"]))
                continue
            rng = state["rng"]
            state["prompt"] = context + [STOP] + [10 + rng.randrange(900) for _ in range(state["adds"])]
            heapq.heappush(coming, (now + pause, i))
    seconds = [s for _, s in latency]
    return {
        "order": name, "mean_workflow_s": round(statistics.fmean(seconds), 3),
        "p95_workflow_s": round(quantile(seconds, 0.95), 3), "p99_workflow_s": round(quantile(seconds, 0.99), 3),
        "ttft_s": round(statistics.fmean(ttft), 3), "ttft_p95_s": round(quantile(ttft, 0.95), 3),
        "tokens_per_s": round(tokens / (now - start), 1),
        "tokens_per_s_of_first_half": round(first_half(ends, tokens), 1), "tokens": tokens, "seconds": round(now - start, 1),
        "by_agent_s": {a: round(statistics.fmean([s for b, s in latency if b == a] or [0.0]), 3) for a in AGENTS},
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--workflows", type=int, default=200)
    parser.add_argument("--rate", type=float, default=6.0, help="arriving workflows per second")
    parser.add_argument("--max-num-seqs", type=int, default=8)
    parser.add_argument("--json")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = model(Path(folder))
        for i in range(options.runs):
            for name in ORDERS:
                row = run(path, name, draw(options.workflows, 100 + i, options.rate), options.max_num_seqs)
                rows.append({**row, "seed": 100 + i})
                print(json.dumps(rows[-1]), flush=True)
                if options.json:
                    Path(options.json).write_text(json.dumps({"runs": rows}, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
