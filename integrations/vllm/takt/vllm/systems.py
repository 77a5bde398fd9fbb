"""The scheduler half of Kairos and of LAMPS in vLLM's engine: what they learn from ended requests, and their order."""

from __future__ import annotations

from ..learners import AgentLearner, CallRecord, ToolCall, ToolProfile
from ..queues import Queue
from ..requests import Request
from .bounded import Bounded
from .identity import Identity, number_of

__all__ = ["SYSTEMS", "Kairos", "Lamps"]

_SECOND = 1_000_000_000
_AGENTS = 512  # agents with a rank: a table of more costs more than a millisecond, in the step loop
_WORKFLOWS = 65536  # workflows remembered; limited because clients choose the names
_REFRESH = _SECOND  # shortest time between two tables [ns]


class Kairos:
    """Ranks agents by the time that remains in their workflows. A client names the agent of each request by
    `takt_agent`, and the agent whose answer led to it by `takt_upstream`. A workflow ends with a request that has
    `takt_last`, or after ``idle_s`` without a request; then its calls are learned from."""

    def __init__(self, idle_s: float, counters: dict[str, int]) -> None:
        self.queue = Queue("agent_priority", ranks={})
        self.learner = AgentLearner(
            converged_only=True, retire_after_s=max(1e-3, idle_s), max_agents=_AGENTS, max_workflows=_WORKFLOWS
        )
        # Agents of ended requests: the learner's number by the request's, and the other way. Clients choose the names,
        # so the learner's name for an agent is a number, too.
        self._learned_as: dict[int, int] = {}
        self._told_as: dict[int, int] = {}
        self._counters = counters
        self._next = 0
        self._learned = False  # something since the last table

    def describe(self, told: Request, who: Identity, now: int) -> None:
        told.agent = number_of(who.agent, who.tenant)

    def ended(self, who: Identity, prompt: int, output: int, start: int, now: int) -> None:
        """Learns from a request that ended by itself. ``start``: its first iteration [ns]."""
        told = number_of(who.agent, who.tenant)
        if not who.workflow or not told:
            return
        agent = self._learned_as.get(told) or self.learner.agent(f"{told:x}")
        if not agent:  # there is no room
            return
        self._learned_as[told], self._told_as[agent] = agent, told
        workflow = number_of(who.workflow, who.tenant)
        upstream = self._learned_as.get(number_of(who.upstream, who.tenant), 0)
        kept = self.learner.add(CallRecord(workflow, agent, start, now, upstream), now=now)
        self._counters["system_lessons"] += kept
        if who.last:
            self.learner.close_workflow(workflow)
        self._learned = True

    def begin(self, now: int) -> None:
        """Before an iteration: gives the queue a new table, if there is one."""
        if not self._learned or now < self._next:
            return
        self._next, self._learned = now + _REFRESH, False
        ranks = self.learner.ranks()
        if ranks is not None:
            table = {self._told_as[agent]: rank for agent, rank in ranks.ranks.items() if agent in self._told_as}
            self.queue.epoch(table, otherwise=ranks.otherwise, now=now)
            self._counters["system_epochs"] += 1


class Lamps:
    """Ranks requests by the memory that they will hold over time. It counts the prompt, the expected output, and the wait
    for the workflow's next request, while the prefix cache keeps the context. Waits and answers are learned by agent. vLLM's own
    requests end at a tool call, so there is no choice of a handling strategy."""

    def __init__(self, idle_s: float, counters: dict[str, int]) -> None:
        self.queue = Queue("aged(memory_integral,threshold=100,quantum=forever,count_from=first_run)")
        self.tools = ToolProfile(max_seconds=max(1e-3, idle_s))
        self._counters = counters
        # By workflow: agent, end [ns], context and output [tokens] of its last request.
        self._waits: Bounded[str, tuple[int, int, int, int]] = Bounded(_WORKFLOWS)

    def describe(self, told: Request, who: Identity, now: int) -> None:
        if not who.workflow:
            return
        if self._waits.get(who.tenant, who.workflow) is not None:
            agent, end, context, output = self._waits.pop(who.tenant, who.workflow)
            returned = max(0, told.prompt_tokens - context)
            seconds = max(0, now - end) / _SECOND
            self._counters["system_lessons"] += self.tools.observe(ToolCall(agent, seconds, returned, output))
        if not who.last:
            agent = number_of(who.agent, who.tenant)
            told.next_call = self.tools.expect(agent).next_call(agent)

    def ended(self, who: Identity, prompt: int, output: int, start: int, now: int) -> None:
        if not who.workflow or who.last:
            return
        if self._waits.get(who.tenant, who.workflow) is not None:
            self._waits.pop(who.tenant, who.workflow)
        self._waits.add(who.tenant, who.workflow, (number_of(who.agent, who.tenant), now, prompt + output, output))

    def begin(self, now: int) -> None:
        pass


SYSTEMS: dict[str, type[Kairos] | type[Lamps]] = {"kairos": Kairos, "lamps": Lamps}
