"""Statistics that a host learns from ended calls: ranks of agents, and expectations about tools."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from . import _abi as abi
from ._handle import Handle
from ._library import check, check_options, chosen, encoded, flag, initialised, lib, moment, names, real, whole
from .errors import RequestError
from .requests import Estimate, NextCall
from .schedulers import AgentRank

__all__ = ["AgentLearner", "AgentRanks", "CallRecord", "ToolCall", "ToolExpectation", "ToolProfile"]

_U64, _I64, _COUNT = (0, 2**64 - 1), (-(2**63), 2**63 - 1), (0, 2**31 - 1)
_ORDERS = names("TAKT_AGENTS_BY_CLASSICAL").numbers()


class CallRecord(NamedTuple):
    """A call that has ended. ``agent`` and ``upstream`` are names, or numbers from `AgentLearner.agent`. ``upstream``:
    the agent whose answer led to this call; empty: the user's question did. ``start``: start of its execution, after it
    has waited [ns]."""

    workflow: int
    agent: str | int
    start: int
    end: int
    upstream: str | int = ""


@dataclass(frozen=True)
class AgentRanks:
    """Arguments of `Queue.epoch`, `Scheduler.epoch` and `Router.epoch`: the ranks, by number of the agent, and the rank
    of all other agents."""

    ranks: Mapping[int, AgentRank]
    otherwise: AgentRank


class AgentLearner(Handle):
    """Learns ranks of agents from ended calls, as Kairos does: agents whose workflows end soonest are first.

    Add each call when it ends, close a workflow when its user has the answer, and ask for `ranks` regularly. Its
    methods allocate memory. Call them outside of the step loop, on another thread if there are many calls. `agent`
    returns the number for ``Request.agent``.

    ``order``: the distance from zero of an agent's remaining time: "classical", "smacof", "mean" or "median".
    ``wall_clock``: remaining time includes queues and tools. ``converged_only``: an agent's rank changes only while its
    distribution has converged. ``retire_after_s``: time without a call after which a workflow is closed [s].
    ``max_agents``, ``max_workflows``: bounds, as clients may choose the names.
    """

    _kind = "agent_learner"

    def __init__(
        self,
        *,
        order: str | None = None,
        wall_clock: bool | None = None,
        converged_only: bool | None = None,
        retire_after_s: float | None = None,
        max_agents: int | None = None,
        max_workflows: int | None = None,
        hash_seed: int = 0,
    ) -> None:
        super().__init__()
        options = initialised(abi.takt_agent_learner_options)
        if order is not None:
            options.order = chosen("order", order, _ORDERS)
        if wall_clock is not None:
            options.wall_clock = flag("wall_clock", wall_clock)
        if converged_only is not None:
            options.converged_only = flag("converged_only", converged_only)
        if retire_after_s is not None:
            options.retire_after = max(_I64[0], min(_I64[1], int(real("retire_after_s", retire_after_s) * 1e9)))
        if max_agents is not None:
            options.max_agents = whole("max_agents", max_agents, (0, 2**32 - 1))
        if max_workflows is not None:
            options.max_workflows = whole("max_workflows", max_workflows, (0, 2**32 - 1))
        options.hash_seed = whole("hash_seed", hash_seed, _U64)
        self._create(ctypes.byref(options))
        self._number = ctypes.c_uint64()

    def agent(self, name: str) -> int:
        """Returns the number of an agent's name, for ``Request.agent``; 0 for the empty name, or if there is no room."""
        if name == "":
            return 0
        data = encoded("agent", name) or b""
        self._ready("agent")
        check(lib.takt_agent_learner_agent(self._handle, data, len(data), ctypes.byref(self._number)), "agent")
        return self._number.value

    def _number_of(self, agent: str | int) -> int:
        return self.agent(agent) if isinstance(agent, str) else whole("agent", agent, _U64)

    def add(self, *calls: CallRecord, now: int | None = None) -> int:
        """Adds ended calls, in any order. Returns the number of valid ones."""
        array = (abi.takt_call_record * len(calls))()
        for into, call in zip(array, calls):
            into.workflow = whole("workflow", call.workflow, _U64)
            into.agent, into.upstream = self._number_of(call.agent), self._number_of(call.upstream)
            into.start, into.end = whole("start", call.start, _I64), whole("end", call.end, _I64)
        kept = ctypes.c_size_t()
        at = moment(now)
        self._ready("add")
        status = lib.takt_agent_learner_add(
            self._handle, ctypes.addressof(array), len(array), at, ctypes.byref(kept)
        )
        check(status, "add")
        return kept.value

    def close_workflow(self, workflow: int) -> bool:
        """Ends a workflow, from whose calls it then learns. Returns False if no such workflow is open."""
        return self._end(lib.takt_agent_learner_close, workflow, "close_workflow")

    def forget(self, workflow: int) -> bool:
        """Drops a workflow without learning from it. Returns False if no such workflow is open."""
        return self._end(lib.takt_agent_learner_forget, workflow, "forget")

    def _end(self, function: Callable[..., int], workflow: int, call: str) -> bool:
        number = whole("workflow", workflow, _U64)
        status = function(self._ready(call), number)
        if status == abi.TAKT_E_INVALID:
            return False
        check(status, call)
        return True

    def ranks(self) -> AgentRanks | None:
        """Returns the ranks for `Queue.epoch` and the like; None: no rank has changed since the last call."""
        epoch = initialised(abi.takt_epoch)
        check(lib.takt_agent_learner_epoch(self._ready("ranks"), ctypes.addressof(epoch)), "ranks")
        if not epoch.fields:
            return None

        def rank(of: abi.takt_agent_rank) -> AgentRank:
            return AgentRank(of.rank, of.execution_s, of.stages_left)

        return AgentRanks({r.agent: rank(r) for r in epoch.ranks[: epoch.n_ranks]}, rank(epoch.otherwise))

    def save(self) -> str:
        """Returns the learned state and the names, as text with a version and a checksum."""
        found, n = ctypes.c_void_p(), ctypes.c_size_t()
        check(lib.takt_agent_learner_save(self._ready("save"), ctypes.byref(found), ctypes.byref(n)), "save")
        return ctypes.string_at(found.value or 0, n.value).decode(errors="surrogateescape")

    def load(self, text: str) -> None:
        """Replaces the learned state by that of `save`. `OptionError`, without effect, if the text is damaged."""
        if not isinstance(text, str):
            raise RequestError("text", text, "must be a text")
        data = text.encode(errors="surrogateescape")
        error = initialised(abi.takt_error)
        status = lib.takt_agent_learner_load(self._ready("load"), data, len(data), ctypes.byref(error))
        check_options(status, "load", error)


class ToolCall(NamedTuple):
    """A tool call that has returned. ``tool`` 0: unknown. ``tokens_before``: output before the call; below 0:
    unknown."""

    tool: int
    seconds: float
    returned_tokens: int = 0
    tokens_before: int = -1


@dataclass(frozen=True)
class ToolExpectation:
    """Expectations about a tool class. None: unknown. ``pooled``: True: the class is unknown, so these are averages
    over all classes. Spreads are standard deviations of single calls."""

    seconds: Estimate | None = None
    returned_tokens: Estimate | None = None
    tokens_before: Estimate | None = None
    seconds_spread: float = 0.0
    returned_spread: float = 0.0
    before_spread: float = 0.0
    observations: int = 0
    pooled: bool = False

    def next_call(self, tool: int = 0) -> NextCall | None:
        """Returns the expected call for ``Request.next_call``; None: nothing is known."""
        if self.seconds is None:
            return None

        def tokens(of: Estimate | None) -> int:
            return 0 if of is None else min(2**28, max(0, round(of.mean)))

        duration = min(2**62, int(self.seconds.mean * 1e9))
        return NextCall(tool, tokens(self.tokens_before), tokens(self.returned_tokens), duration)


def _estimate(of: abi.takt_estimate) -> Estimate | None:
    if of.mean < 0:
        return None
    a, b, c, d, e = of.quantiles
    return Estimate(of.mean, (a, b, c, d, e))


class ToolProfile(Handle):
    """Durations and answers of tool calls, by class of tool, for LAMPS' predictions (docs/howto/tool_profile.md).

    ``max_classes``: maximum tool classes; further ones are pooled. ``window``: calls of a class after which older calls
    count half. ``seed_weight``: number of calls that a seed counts as. ``max_seconds``: longer calls are clamped to
    this.
    """

    _kind = "tool_profile"

    def __init__(
        self,
        *,
        max_classes: int | None = None,
        window: int | None = None,
        seed_weight: int | None = None,
        max_seconds: float | None = None,
        hash_seed: int = 0,
    ) -> None:
        super().__init__()
        options = initialised(abi.takt_tool_profile_options)
        if max_classes is not None:
            options.max_classes = whole("max_classes", max_classes, (0, 2**32 - 1))
        if window is not None:
            options.window = whole("window", window, _I64)
        if seed_weight is not None:
            options.seed_weight = whole("seed_weight", seed_weight, _I64)
        if max_seconds is not None:
            options.max_seconds = real("max_seconds", max_seconds)
        options.hash_seed = whole("hash_seed", hash_seed, _U64)
        self._create(ctypes.byref(options))

    def seed(self, tool: int, expectation: ToolExpectation) -> None:
        """Sets means and spreads of a tool from other data, for example from before a restart. `TaktError` if there is
        no room."""
        seed = initialised(abi.takt_tool_expectation)
        for name in ("seconds", "returned_tokens", "tokens_before"):
            estimate = getattr(expectation, name)
            getattr(seed, name).mean = -1.0 if estimate is None else real(name, getattr(estimate, "mean", estimate))
        for name in ("seconds_spread", "returned_spread", "before_spread"):
            setattr(seed, name, real(name, getattr(expectation, name)))
        number = whole("tool", tool, _U64)
        check(lib.takt_tool_profile_seed(self._ready("seed"), number, ctypes.addressof(seed)), "seed")

    def observe(self, *calls: ToolCall) -> int:
        """Learns from calls that have returned. Returns the number of valid ones: a call needs a duration."""
        array = (abi.takt_tool_call * len(calls))()
        for into, call in zip(array, calls):
            into.tool = whole("tool", call.tool, _U64)
            into.seconds = float(call.seconds) if isinstance(call.seconds, (int, float)) else math.nan
            into.returned_tokens = whole("returned_tokens", call.returned_tokens, _I64)
            into.tokens_before = whole("tokens_before", call.tokens_before, _I64)
        counted = ctypes.c_size_t()
        self._ready("observe")
        status = lib.takt_tool_profile_observe(
            self._handle, ctypes.addressof(array), len(array), ctypes.byref(counted)
        )
        check(status, "observe")
        return counted.value

    def expect(self, tool: int) -> ToolExpectation:
        """Returns the expectations about a tool."""
        expected = initialised(abi.takt_tool_expectation)
        number = whole("tool", tool, _U64)
        check(lib.takt_tool_profile_expect(self._ready("expect"), number, ctypes.addressof(expected)), "expect")
        return ToolExpectation(
            _estimate(expected.seconds), _estimate(expected.returned_tokens), _estimate(expected.tokens_before),
            expected.seconds_spread, expected.returned_spread, expected.before_spread, expected.observations, bool(expected.pooled),
        )  # fmt: skip
