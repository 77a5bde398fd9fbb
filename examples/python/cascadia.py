"""Cascadia on a toy cluster: a judge escalates answers, a drift gives a new plan. Next to FCFS on the large model."""

import heapq
import random
import statistics

from takt import Instance, Request
from takt.planning import plan_cascade
from takt.systems import Cascadia

MODELS = [{"name": n, "profile": f"aic/llama-3.1-{n}/h100/bf16", "tp": [tp], "pp": [1]} for n, tp in (("8b", 1), ("70b", 4))]
SECOND, SECONDS = 1_000_000_000, (2.0, 8.0)  # of an answer, by model; a replica makes eight answers at once
RATE, GOAL = 5.0, {"gpus": 16, "quality": 75.0}


def draw(requests=3000, seed=1):  # arrivals [ns], and the score of each model's answer; half way, they become harder
    rng, at = random.Random(seed), 0.0
    for number in range(requests):
        at += rng.expovariate(RATE)
        yield int(at * SECOND), (min(100, max(0, rng.gauss(85 if number < requests / 2 else 55, 10))), rng.uniform(85, 99))


def make(models, requests):
    sample = [{"prompt": 400, "outputs": [300] * len(models), "scores": s[-len(models) :]} for _, s in requests[:100]]
    return Cascadia(models, plan_cascade(sample, models, rate=RATE, requests=0, **GOAL), window_s=30.0, **GOAL)


def serve(system, requests):
    times, scores, skip, plan, now = [], [], len(MODELS) - len(system.models), system.plan_in_use, 0
    events = [(arrival, number, -1) for number, (arrival, _) in enumerate(requests, 1)]
    while events:
        for router, model in zip(system.routers, plan.models if plan else ()):
            router.instance_up(Instance(1, capacity=8 * sum(each["count"] for each in model["replicas"])), now)
        plan = plan and system.changed(plan)  # a real host first changes the replicas
        now, number, model = heapq.heappop(events)
        arrival, score = requests[number - 1]
        if model < 0:
            system.sampled(400, [300] * len(system.models), score[skip:])
        else:
            system.routers[model].request_ended(number, now=now)
        action = system.arrived(number, now) if model < 0 else system.answered(number, model, now)
        if action.kind == "judge":
            action = system.judged(number, model, score[skip + model], now)
        if action.kind == "send":
            system.routers[action.model].arrive(Request(number, 400), now=now)
        else:
            times.append((now - arrival) / SECOND)
            scores.append(score[skip + action.model])
        for model, router in enumerate(system.routers):
            for placed in router.place(now).placed:
                heapq.heappush(events, (now + int(SECONDS[skip + model] * SECOND), placed.request, model))
        plan = system.advance(now)
    return times, scores


if __name__ == "__main__":
    for name, models in {"FCFS": MODELS[1:], "Cascadia": MODELS}.items():
        times, scores = serve(make(models, list(draw())), list(draw()))
        p95, quality = statistics.quantiles(times, n=20)[-1], statistics.mean(scores)
        print(f"{name:8} mean {statistics.mean(times):6.1f} s   p95 {p95:6.1f} s   quality {quality:.1f}")
