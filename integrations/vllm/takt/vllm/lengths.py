"""Learns output lengths and the work that follows a call, from ended calls, by agent and position in the workflow."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..requests import Estimate, Request, WorkAfter
from .bounded import Bounded
from .forest import Forest
from .identity import Identity
from .state import number_in

__all__ = ["Lengths"]

_WINDOW = 512  # observations after which old ones count half
_ENOUGH = 4  # observations that a class needs; otherwise a wider class is used
_PLACES = 16  # positions in a workflow that are distinguished; later ones share one
_CALLS = 1024  # calls of a workflow that are learned from when it ends
_CLASSES = 65536  # classes kept; limited because clients choose the names
_WORKFLOWS = 65536  # workflows kept, likewise
_QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
_KEPT = 64  # last values of a class, for its quantiles
_SAVED = 2048  # classes in a saved state: those used last
# Largest number in a saved state. Sums of context-steps are below it: _WINDOW * _CALLS * 1.5 * (2**28)**2, since takt
# has no prompt or output above 2**28 tokens.
_MOST = 1e24


@dataclass
class _Class:
    weight: float = 0.0
    sums: list[float] = field(default_factory=lambda: [0.0] * 5)
    last: list[float] = field(default_factory=list)
    known: Estimate | None = None  # estimate from these values, until the next one

    def learn(self, values: tuple[float, ...]) -> None:
        if self.weight >= _WINDOW:
            self.weight /= 2
            self.sums = [each / 2 for each in self.sums]
        self.weight += 1
        for i, value in enumerate(values):
            self.sums[i] += value
        self.last.append(values[0])
        if len(self.last) > _KEPT:
            del self.last[0]
        self.known = None

    def mean(self, i: int) -> float:
        return self.sums[i] / self.weight

    def estimate(self, most: float) -> Estimate:
        if self.known is None:
            ordered = sorted(self.last)
            a, b, c, d, e = (ordered[min(len(ordered) - 1, int(level * len(ordered)))] for level in _QUANTILES)
            self.known = Estimate(self.mean(0), (a, b, c, d, e))
        return _at_most(most, self.known)


def _at_most(most: float, of: Estimate) -> Estimate:
    """Limits an estimate to ``most``, the maximum output in vLLM."""
    if of.mean <= most and of.quantiles[4] <= most:
        return of
    a, b, c, d, e = (min(most, q) for q in of.quantiles)
    return Estimate(min(most, of.mean), (a, b, c, d, e))


_Classes = Bounded[tuple[str, int], _Class]  # by agent and position; tenant "": all tenants together


def _saved(table: _Classes) -> list[Any]:
    rows = table.newest(_SAVED)
    return [[tenant, agent, place, of.weight, of.sums[:], of.last[:]] for tenant, (agent, place), of in rows]


def _loaded(rows: Any) -> _Classes:
    table: _Classes = Bounded(_CLASSES)
    if not isinstance(rows, list) or len(rows) > _SAVED:
        raise ValueError("a table of classes is invalid")
    for tenant, agent, place, weight, sums, last in rows:
        if not isinstance(tenant, str) or not isinstance(agent, str) or max(len(tenant), len(agent)) > 256:
            raise ValueError("a name is invalid")
        key = agent, int(number_in(place, -1, _PLACES - 1))
        if len(sums) != 5 or not 1 <= len(last) <= _KEPT or table.get(tenant, key) is not None:
            raise ValueError("a class is invalid")
        of = _Class(number_in(weight, 0.5, _WINDOW), [number_in(each, 0, _MOST) for each in sums])
        of.last = [number_in(each, 0, _MOST) for each in last]
        table.add(tenant, key, of)
    return table


@dataclass
class _Workflow:
    name: str
    # Identity, calls before, prompt, output of the last calls; bounded, because a client may use one name forever.
    calls: deque[tuple[Identity, int, int, int]] = field(default_factory=lambda: deque(maxlen=_CALLS))
    tokens: int = 0  # total output of `calls`
    alive: int = 0
    begun: int = 0
    arrival: int = 0
    touched: int = 0


class Lengths:
    """Class means. A class is an agent and a position in its workflow; if it has too few observations, the agent. Each
    tenant has its own classes; if these have too few observations, those of all tenants are used. A client's own
    estimate is passed to takt unchanged: takt's default order corrects it by tenant, within bounds.

    For the rest of a workflow, the classes hold the number of calls, prompt, output and context-steps after the call.
    They learn from a workflow when it ends: by `takt_last`, or after `idle_ns` without a call. A trained forest takes
    precedence over the classes.
    """

    def __init__(self, idle_ns: int, forest: Forest | None = None) -> None:
        self._idle = idle_ns
        self._forest = forest
        self._outputs: _Classes = Bounded(_CLASSES)
        self._after: _Classes = Bounded(_CLASSES)
        self.workflows: Bounded[str, _Workflow] = Bounded(_WORKFLOWS, self._learn_after)

    def saved(self) -> dict[str, Any]:
        """Returns the classes that were used last, for `load`."""
        return {name: _saved(table) for name, table in (("outputs", self._outputs), ("after", self._after))}

    def load(self, state: Mapping[str, Any]) -> None:
        """Replaces the classes. ValueError or TypeError, without effect, if ``state`` is not from `saved`."""
        self._outputs, self._after = _loaded(state["outputs"]), _loaded(state["after"])

    def _learn(self, table: _Classes, who: Identity, place: int, values: tuple[float, ...]) -> None:
        for tenant in {who.tenant, ""}:
            for key in {(who.agent, min(place, _PLACES - 1)), (who.agent, -1), ("", -1)}:
                (table.get(tenant, key) or table.add(tenant, key, _Class())).learn(values)

    def _ask(self, table: _Classes, who: Identity, place: int) -> _Class | None:
        keys = (who.agent, min(place, _PLACES - 1)), (who.agent, -1)
        for tenant, key in [(who.tenant, key) for key in keys] + [("", key) for key in (*keys, ("", -1))]:
            known = table.get(tenant, key)
            if known is not None and known.weight >= _ENOUGH:
                return known
        return None

    def begins(self, who: Identity, now: int, arrival: int) -> tuple[int, int, int]:
        """Records the begin of a call. Returns the earlier calls of its workflow, the output of the ended ones
        [tokens], and the workflow's arrival [ns]."""
        self.forget(now, who.tenant)
        if not who.workflow:
            return 0, 0, arrival
        known = self.workflows.get(who.tenant, who.workflow)
        if known is None:
            known = self.workflows.add(who.tenant, who.workflow, _Workflow(who.workflow, arrival=arrival))
        known.alive += 1
        known.begun += 1
        known.touched = now
        return known.begun - 1, known.tokens, known.arrival

    def tell(self, told: Request, who: Identity, calls: int, tokens: int) -> None:
        """Sets a request's estimates of its output and of the work that follows."""
        told.output_tokens = output = self.output(who, calls, told.max_output_tokens)
        told.after = after = self.after(who, calls)
        left: Estimate | float | None = who.workflow_tokens_left
        if left is None and self._forest is not None:
            left = forecast = self._forest.left(who, told.prompt_tokens, calls, tokens)
            if forecast is not None and who.output_tokens is None and (who.last or not who.workflow):
                most = float(told.max_output_tokens) if told.max_output_tokens > 0 else 1e9
                told.output_tokens = left = _at_most(most, forecast)
        if left is not None:
            told.workflow_tokens_left = left
            if who.workflow and not who.last:
                told.after = None  # orders would use it first
        elif output is not None and after is not None:
            told.workflow_tokens_left = output.mean + (after.output_tokens or 0.0)

    def output(self, who: Identity, place: int, most: int) -> Estimate | None:
        """Returns the estimated output of a call; vLLM stops it at ``most`` [tokens]."""
        bound = float(most) if most > 0 else 1e9
        if who.output_tokens is not None:
            return Estimate(min(bound, who.output_tokens))
        known = self._ask(self._outputs, who, place)
        if known is not None:
            return known.estimate(bound)
        return Estimate(float(most)) if most > 0 else None  # the only known bound

    def after(self, who: Identity, place: int) -> WorkAfter | None:
        """Returns the estimated work after the call in its workflow."""
        if not who.workflow or who.last:
            return WorkAfter(0, 0, 0, 0, 0)
        known = self._ask(self._after, who, place)
        if known is None:
            return None
        return WorkAfter(known.mean(0), known.mean(1), known.mean(2), known.mean(3), known.mean(2))

    def ends(self, who: Identity, place: int, prompt: int, output: int, now: int, whole: bool) -> None:
        """Records the end of a call. ``whole``: it ended by itself and was not aborted."""
        if whole:
            self._learn(self._outputs, who, place, (float(output),))
        known = self.workflows.get(who.tenant, who.workflow)
        if known is None:
            return
        known.alive = max(0, known.alive - 1)  # some of its calls may have begun before it was evicted
        known.touched = now
        if whole:
            known.calls.append((who, place, prompt, output))
            known.tokens += output
        if who.last and known.alive == 0:
            self._learn_after(self.workflows.pop(who.tenant, who.workflow))

    def forget(self, now: int, tenant: str = "") -> None:
        """Ends idle workflows of this tenant and of the least recently used one."""
        for each in (tenant, self.workflows.silent_longest()):
            while each is not None and (known := self.workflows.oldest(each)) is not None:
                if now - known.touched < self._idle:
                    break
                if known.alive > 0:  # one of its calls still waits or runs
                    known.touched = now
                    self.workflows.get(each, known.name)
                    break
                self._learn_after(self.workflows.pop_oldest(each))

    def _learn_after(self, known: _Workflow) -> None:
        calls = prompt = output = steps = 0.0
        for who, place, p, o in reversed(known.calls):
            self._learn(self._after, who, place, (calls, prompt, output, steps))
            calls, prompt, output = calls + 1, prompt + p, output + o
            steps += o * (p + o / 2)
