"""LAMPS on a toy engine: requests that will hold little memory for a short time run first, next to FCFS."""

import heapq
import random
import statistics

from takt import Limits, NextCall, Request
from takt.systems import Lamps

SECOND = 1_000_000_000
TOOLS = {1: (0.3, 20), 2: (6.0, 1200)}  # duration [s] and answer [tokens]; LAMPS learns both from the calls


def draw(requests=400, rate=5.0, seed=1):
    """Returns requests: arrival [ns], prompt, output before its tool call, output after it [tokens], and its tool."""
    rng, at = random.Random(seed), 0.0
    for tool in rng.choices((0, 1, 2), k=requests):
        at += rng.expovariate(rate)
        yield int(at * SECOND), rng.randint(100, 400), rng.randint(5, 60), rng.randint(5, 100), tool


def serve(lamps, requests):
    """Runs the engine until all requests have finished. Returns their times [s]."""
    events = [(arrival, number, 0) for number, (arrival, *_) in enumerate(requests, 1)]
    now, made, times = 0, [0] * (len(requests) + 1), []
    while len(times) < len(requests):
        while events and events[0][0] <= now:
            _, number, tool = heapq.heappop(events)
            _, prompt, before, after, expected = requests[number - 1]
            if tool:
                lamps.tool_returned(number, TOOLS[tool][1], now=now)
            else:
                call = NextCall(expected, after=before) if expected else None
                lamps.arrive(Request(number, prompt, output_tokens=before + after, next_call=call), now=now)
        plan = lamps.plan(now)
        if not len(plan):
            now = min([plan.wake_at, *(event[0] for event in events[:1])])
            continue
        now += 20_000_000 + 100_000 * plan.tokens  # a step takes 20 ms, and 0.1 ms per token
        sampled = [entry.request for entry in plan.entries() if entry.samples]
        made = [tokens + (number in sampled) for number, tokens in enumerate(made)]
        finished = [number for number in sampled if made[number] == sum(requests[number - 1][2:4])]
        times += [(now - requests[number - 1][0]) / SECOND for number in finished]
        lamps.commit(plan, finished=finished, now=now)
        for number in sampled:
            _, _, before, _, tool = requests[number - 1]
            if tool and made[number] == before:
                lamps.tool_called(number, tool=tool, tokens_before=before, now=now)
                heapq.heappush(events, (now + int(TOOLS[tool][0] * SECOND), number, tool))
    return times


def system(**options):
    return Lamps(kv="ledger", kv_blocks=400, limits=Limits(tokens=1024), **options)


if __name__ == "__main__":
    for name, lamps in {"FCFS": system(policy="fcfs", pause="keep_all"), "LAMPS": system()}.items():
        times = serve(lamps, list(draw()))
        print(f"{name:8} mean {statistics.mean(times):6.1f} s   p95 {statistics.quantiles(times, n=20)[-1]:6.1f} s")
