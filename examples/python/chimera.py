"""Chimera on a toy fleet: the best model that is fast enough, and the shortest predicted call first, next to FCFS."""

import heapq
import random
import statistics

from takt import Call, Estimate, Forecast, Instance, Queue, Request
from takt.systems import Chimera

SECOND = 1_000_000_000
MODELS = {"7b": 1, "32b": 2}
ENGINES = {1: (1, 0.005), 2: (1, 0.005), 3: (2, 0.02)}  # model, and time of an output token [s]
KINDS = {"chat": (60, {"7b": 0.9, "32b": 0.95}), "proof": (900, {"7b": 0.4, "32b": 0.8})}  # tokens, success by model


class Predictor:  # in place of `takt.Predictor`, whose file `takt train` writes from a log of calls
    def predict(self, *calls):
        return [Forecast(Estimate(KINDS[call.kind][0]), KINDS[call.kind][1][call.model]) for call in calls]


def draw(calls=600, rate=0.8, seed=1):
    """Returns calls: arrival [ns], kind, and output [tokens]."""
    rng, at = random.Random(seed), 0.0
    for kind in rng.choices(list(KINDS), k=calls):
        at += rng.expovariate(rate)
        yield int(at * SECOND), kind, max(1, int(rng.gauss(1, 0.3) * KINDS[kind][0]))


def serve(chimera, calls, order):
    """Serves calls on engines that run one at a time, in this order. Returns the calls' times [s]."""
    for engine, (model, token_s) in ENGINES.items():
        chimera.instance_up(Instance(engine, model=model, token_s=token_s), 0)
    queues, busy, times = {engine: Queue(order) for engine in ENGINES}, set(), []
    events = [(arrival, number, 0) for number, (arrival, _, _) in enumerate(calls, 1)]
    while events:
        now, number, engine = heapq.heappop(events)
        arrival, kind, _ = calls[number - 1]
        if engine:
            chimera.request_ended(number, now=now)
            queues[engine].erase(number)
            busy.discard(engine)
            times.append((now - arrival) / SECOND)
        else:
            chimera.arrive_calls((Request(number, 100), Call(kind=kind)), now=now)
        for placed in chimera.place(now).placed:
            left = chimera.tokens_left.get(placed.request)  # the chosen model's prediction is the priority there
            queues[placed.instance].push(Request(placed.request, 100, workflow_tokens_left=left), now=now)
        for engine in [engine for engine, queue in queues.items() if engine not in busy and len(queue)]:
            queues[engine].begin(now)
            queues[engine].end([first := queues[engine].top()], now=now)
            busy.add(engine)
            heapq.heappush(events, (now + int(calls[first - 1][2] * ENGINES[engine][1] * SECOND), first, engine))
    return times


if __name__ == "__main__":
    fcfs, chimera = Chimera(MODELS, Predictor(), policy="fcfs", placement="least_loaded"), Chimera(MODELS, Predictor())
    for name, system, order in (("FCFS", fcfs, "fcfs"), ("Chimera", chimera, "aged(stjf,threshold=100)")):
        times = serve(system, list(draw()), order)
        print(f"{name:8} mean {statistics.mean(times):6.1f} s   p95 {statistics.quantiles(times, n=20)[-1]:6.1f} s")
