"""Kairos on a toy fleet: calls of agents whose workflows end soonest run first.

python examples/python/kairos.py prints the mean and p95 of the workflows' times, next to FCFS on the same arrivals.
"""

import heapq
import random
import statistics

from takt import Instance, Request
from takt.systems import Kairos

SECOND = 1_000_000_000
# Each kind of workflow is a chain of agents, and the mean time of their calls [s].
KINDS = [[("answer", 1.0)], [("search", 1.0), ("read", 4.0), ("write", 2.0)], [("plan", 1.0), ("code", 8.0), ("test", 1.0)]]
CALLS = 4  # more than the calls of any workflow


def draw(workflows=2000, load=0.9, engines=2, seed=1):
    """Returns workflows: their arrival [ns] and their calls, an agent and a time [ns] each."""
    rng, at, drawn = random.Random(seed), 0.0, []
    mean = statistics.mean(sum(seconds for _, seconds in kind) for kind in KINDS)
    for _ in range(workflows):
        at += rng.expovariate(engines * load / mean)
        calls = [(agent, int(rng.gammavariate(4, s / 4) * SECOND)) for agent, s in rng.choice(KINDS)]
        drawn.append((int(at * SECOND), calls))
    return drawn


def serve(kairos, workflows, engines=2):
    """Serves workflows on engines that run one call at a time. Returns the workflows' times [s]."""
    for engine in range(1, engines + 1):
        kairos.instance_up(Instance(engine, capacity=1), 0)
    events = [(at, "arrives", workflow, 0) for workflow, (at, _) in enumerate(workflows)]
    times = []
    while events:
        now, what, workflow, call = heapq.heappop(events)
        arrival, calls = workflows[workflow]
        if what == "ends":
            kairos.request_ended(workflow * CALLS + call + 1, now=now)
            call += 1
        if call == len(calls):
            kairos.workflow_ended(workflow + 1, now=now)
            times.append((now - arrival) / SECOND)
        else:
            agent, upstream = kairos.agent(calls[call][0]), calls[call - 1][0] if call else ""
            request = Request(workflow * CALLS + call + 1, 100, workflow=workflow + 1, workflow_arrival=arrival, agent=agent)
            kairos.arrive(request, upstream=upstream, now=now)
        kairos.advance(now)  # the returned ranks are for the engines; these engines have no queue
        for placed in kairos.place(now).placed:
            workflow, call = divmod(placed.request - 1, CALLS)
            heapq.heappush(events, (now + workflows[workflow][1][call][1], "ends", workflow, call))
    return times


if __name__ == "__main__":
    for name, system in {"FCFS": Kairos(policy="fcfs", placement="least_loaded"), "Kairos": Kairos()}.items():
        times = serve(system, draw())
        print(f"{name:8} mean {statistics.mean(times):6.1f} s   p95 {statistics.quantiles(times, n=20)[-1]:6.1f} s")
