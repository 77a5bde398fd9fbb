"""HexGen-Flow on two unequal engines: urgent calls first, on the engine that suits them, next to FCFS."""

import heapq
import random
import statistics

from takt import CostModel, Instance, Request, Stage
from takt.systems import HexGenFlow

SECOND = 1_000_000_000
ENGINES = {1: ("fast", CostModel(5.0, 0.01, 0.05)), 2: ("slow", CostModel(25.0, 0.05, 0.25))}
KINDS = [([(1, 30)], 4.0), ([(2, 20), (3, 120), (4, 40)], 30.0)]  # stages with their output [tokens]; deadline [s]


def draw(workflows=400, rate=1.5, seed=1):
    """Returns workflows: arrival [ns], calls as (stage, output), and deadline [ns]."""
    rng, at, drawn = random.Random(seed), 0.0, []
    for _ in range(workflows):
        at += rng.expovariate(rate)
        calls, deadline = rng.choice(KINDS)
        drawn.append((int(at * SECOND), calls, int((at + deadline) * SECOND)))
    return drawn


def serve(flow, workflows):
    """Serves workflows on engines that run one call at a time, and queue another. Returns the workflows' times [s]."""
    for engine, (name, cost) in ENGINES.items():
        flow.instance_up(Instance(engine, profile=flow.add_profile(name, cost), capacity=2), 0)
    events = [(arrival, number, -1) for number, (arrival, _, _) in enumerate(workflows, 1)]
    times, free = [], dict.fromkeys(ENGINES, 0)
    while events:
        now, number, ended = heapq.heappop(events)
        arrival, calls, deadline = workflows[number - 1]
        if ended < 0:
            stages = [Stage(stage, after=(i - 1,) if i else ()) for i, (stage, _) in enumerate(calls)]
            flow.workflow_declared(number, stages, deadline=deadline, now=now)
        else:
            flow.request_ended(number * 4 + ended, output=calls[ended][1], now=now)
        if ended + 1 < len(calls):
            stage, output = calls[ended + 1]
            request = Request(number * 4 + ended + 1, 200, workflow=number, stage=stage, output_tokens=output)
            flow.arrive(request, now=now)
        routing = flow.place(now)
        times += [(each.end - each.arrival) / SECOND for each in routing.ended]
        for placed in routing.placed:
            number, call = divmod(placed.request, 4)
            cost = ENGINES[placed.instance][1]
            ms = cost.constant_ms * workflows[number - 1][1][call][1] + cost.per_prefill_ms * 200
            free[placed.instance] = max(now, free[placed.instance]) + int(ms * 1e6)
            heapq.heappush(events, (free[placed.instance], number, call))
        if (served := flow.advance(now)) is not None:  # none without a cluster to replay on; slow: another thread's work
            flow.finished(flow.search(served), now)
    return times


if __name__ == "__main__":
    for name, flow in {"FCFS": HexGenFlow(policy="fcfs", placement="round_robin"), "HexGenFlow": HexGenFlow()}.items():
        times = serve(flow, draw())
        print(f"{name:10} mean {statistics.mean(times):6.1f} s   p95 {statistics.quantiles(times, n=20)[-1]:6.1f} s")
