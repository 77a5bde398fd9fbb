"""The systems of five papers, put together from takt's parts: `Chimera`, `HexGenFlow`, `Lamps`, `Kairos`, `Cascadia`.

Each takes the events of the part that it extends, and learns from them. `advance` does the slow work and publishes its
result. A host with threads calls the slow part itself (`learn`, `search`, `plan`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Union

from . import _arrays
from ._library import moment, real, whole
from .cascades import CascadeAction, CascadeRouter
from .errors import Fault, FaultError, OptionError, RequestError, ToolError
from .learners import AgentLearner, AgentRanks, CallRecord, ToolCall, ToolExpectation, ToolProfile
from .planning import AlphaTuner, CascadePlan, plan_cascade, search_alpha, tail_test
from .predictors import Call, Predictor
from .requests import Estimate, ModelScore, NextCall, Request
from .routers import Router, Routing, Stage
from .schedulers import Plan, Scheduler

__all__ = ["Cascadia", "Chimera", "HexGenFlow", "Kairos", "Lamps"]

Lesson = Union[CallRecord, tuple[int, bool]]  # an ended call, or an ended workflow and whether it was cancelled


_MOST, _TOKENS = (0, 2**63 - 1), (0, 2**31 - 1)


def _seconds(field: str, value: object, least: float = 0.0) -> int:
    """Returns a time in nanoseconds."""
    seconds = real(field, value)
    if not least <= seconds <= 1e9:
        raise RequestError(field, value, f"must be {least:g} to 1e9 [s]")
    return int(seconds * 1e9)


class _Recorder(Router):
    """A router with records of its requests: `_arrived` makes one, `_ended` and `_forget` drop it."""

    def arrive(self, *requests: Request, now: int | None = None) -> None:
        at = moment(now)
        for request in requests:
            alive = self.counts()["alive"]
            try:
                super().arrive(request, now=at)
            finally:  # a request may arrive, and the call raise nevertheless
                if self.counts()["alive"] > alive:
                    self._arrived(request)

    def request_ended(self, request: int, *, now: int | None = None, **more: Any) -> None:
        at, alive = moment(now), self.counts()["alive"]
        try:
            super().request_ended(request, now=at, **more)
        finally:
            if self.counts()["alive"] < alive:  # otherwise it is a late message of an earlier placement
                self._ended(request, at, **more)

    def cancel(self, request: int, now: int | None = None) -> bool:
        known = super().cancel(request, now)
        self._forget(request)
        return known

    def place(self, now: int | None = None) -> Routing:
        routing = super().place(now)
        for failed in routing.failed:
            if failed.reason != "id_in_use":  # the older request lives on
                self._forget(failed.request)
        return routing

    def _arrived(self, request: Request) -> None:
        raise NotImplementedError

    def _ended(self, request: int, at: int, **more: Any) -> None:
        self._forget(request)

    def _forget(self, request: int) -> None:
        raise NotImplementedError


class Kairos(_Recorder):
    """Kairos: learns from calls which agents come first, and packs requests by their KV memory over time.

    ``policy``: order of waiting requests, here and on engines (section 5.2). ``placement``: equations 1 to 3, with decode
    rates from the instances' cost models. ``learner``: an `AgentLearner` (sections 4.2 to 5.1); by default an agent has a
    rank once the distribution of its remaining latency has converged. ``refresh_s``: shortest time between two tables [s].
    ``most_lessons``: limit on ended calls and workflows that wait for `learn`; more are not learned. ``router``: options
    of `Router`; set ``max_outstanding`` to the engine's maximum batch size, so that requests wait here.

    Requests without a workflow are placed, but teach nothing. A call without `request_started` counts from its
    placement. `workflow_ended` is needed for undeclared workflows, too.
    """

    def __init__(
        self,
        *,
        policy: str = "agent_priority",
        placement: str = "time_slot_packer(cost_batch=128)",
        learner: AgentLearner | None = None,
        refresh_s: float = 1.0,
        most_lessons: int = 65536,
        **router: Any,
    ) -> None:
        super().__init__(policy, placement, **router)
        self.learner = AgentLearner(converged_only=True) if learner is None else learner
        self.lessons_dropped = 0
        self._refresh = _seconds("refresh_s", refresh_s)
        self._most = whole("most_lessons", most_lessons, _MOST)
        self._lessons: list[Lesson] = []
        self._loaded = False  # a table that no one has yet
        self._calls: dict[int, list[Any]] = {}  # by request: workflow, agent, upstream, start, instance, its life
        self._upstream: str | int = ""
        self._next = 0

    def agent(self, name: str) -> int:
        """Returns the number of an agent's name, for ``Request.agent``."""
        return self.learner.agent(name)

    def arrive(self, *requests: Request, upstream: str | int = "", now: int | None = None) -> None:
        """``upstream``: the agent whose answer led to these calls; empty: the user's question did."""
        self._upstream = upstream
        super().arrive(*requests, now=now)

    def request_started(self, request: int, instance: int, now: int | None = None, *, life: int = 0) -> None:
        at = moment(now)
        super().request_started(request, instance, at, life=life)
        call = self._calls.get(request)
        if call is not None and self.instance_of(request) == instance and (not life or life == (call[5] or life)):
            call[3] = at

    def instance_down(self, instance: int, now: int | None = None, *, life: int = 0) -> None:
        super().instance_down(instance, now, life=life)
        for request, call in self._calls.items():
            if call[4] == instance and self.instance_of(request) is None:
                call[3:] = [None, 0, 0]

    def _arrived(self, request: Request) -> None:
        self._calls[request.id] = [request.workflow, request.agent, self._upstream, None, 0, 0]

    def _ended(self, request: int, at: int, **more: Any) -> None:
        call = self._calls.pop(request, None)
        if call is not None and call[0] and call[3] is not None and not more.get("failed"):
            self._add(CallRecord(call[0], call[1], call[3], at, call[2]))

    def _forget(self, request: int) -> None:
        self._calls.pop(request, None)

    def workflow_ended(self, workflow: int, *, cancelled: bool = False, now: int | None = None) -> None:
        at = moment(now)
        strict, self.strict = self.strict, False  # an undeclared workflow is no fault here
        try:
            super().workflow_ended(workflow, cancelled=cancelled, now=at)
        finally:
            self.strict = strict
        self._add((workflow, cancelled))

    def place(self, now: int | None = None) -> Routing:
        at = moment(now)
        routing = super().place(at)
        for placed in routing.placed:
            call = self._calls.get(placed.request)
            if call is not None:
                call[3:] = [at, placed.instance, placed.life]
        for ended in routing.ended:
            self._add((ended.workflow, ended.how != "completed"))
        return routing

    def advance(self, now: int | None = None) -> AgentRanks | None:
        """Learns from calls that have ended. Returns new or loaded ranks for the engines, if any; the router has them
        already."""
        at = moment(now)
        lessons = self.take_lessons(at)
        ranks = None if lessons is None else self.learn(lessons, at)
        if ranks is not None:
            self.publish(ranks, at)
        return ranks

    def take_lessons(self, now: int | None = None) -> list[Lesson] | None:
        """Returns what has ended since the last time; None if nothing has, or if ``refresh_s`` has not passed. The list
        may be empty after `load`; `learn` then returns the loaded ranks."""
        at = moment(now)
        if at < self._next or not (self._lessons or self._loaded):
            return None
        self._next, self._loaded = at + self._refresh, False
        lessons, self._lessons = self._lessons, []
        return lessons

    def learn(self, lessons: Iterable[Lesson], now: int | None = None) -> AgentRanks | None:
        """Slow: ranks agents. Another thread may call this, because it uses only the learner."""
        at = moment(now)
        for lesson in lessons:
            if isinstance(lesson, CallRecord):
                self.learner.add(lesson, now=at)
            elif lesson[1]:
                self.learner.forget(lesson[0])
            else:
                self.learner.close_workflow(lesson[0])
        return self.learner.ranks()

    def publish(self, ranks: AgentRanks, now: int | None = None) -> None:
        """Gives the ranks to the router."""
        self.epoch(ranks.ranks, otherwise=ranks.otherwise, now=now)

    def save(self) -> str:
        return self.learner.save()

    def load(self, text: str) -> None:
        """As `AgentLearner.load`. The next `advance` returns the loaded ranks, and gives them to the router."""
        self.learner.load(text)
        self._loaded = True

    def _add(self, lesson: Lesson) -> None:
        if len(self._lessons) < self._most:
            self._lessons.append(lesson)
        else:
            self.lessons_dropped += 1


class Lamps(Scheduler):
    """LAMPS: predicts a request's output and its tool call, and ranks by the memory that the request will hold.

    ``stall``: weight of the time that other requests lose; 0: the plain integral of section 4.3. ``refresh``: with
    ``stall``, plans between two scores of a waiting request. ``threshold``: plans that pass over a request before its
    promotion (section 4.4); 0: no guard. ``at_tool_call``: effect of a tool call on the guard. "reset_count": the count
    starts again, and a promotion lasts until the request ends; "reset" (the authors' code); "keep". ``policy``: another
    order instead. ``pause``: handling of KV during a call, chosen before the request runs (section 4.2). ``tools``: a
    `ToolProfile` that learns durations and answers. ``predict``: a function that returns the expected output of a
    request [tokens] or an `Estimate`; None: unknown. It fills requests without ``output_tokens``. ``scheduler``: options
    of `Scheduler`.

    A request that will call a tool has ``next_call=NextCall(tool)``. Numbers that are 0 there come from ``tools``.
    """

    def __init__(
        self,
        *,
        stall: float = 0.0,
        refresh: int = 0,
        threshold: int = 100,
        at_tool_call: str = "reset_count",
        policy: str | None = None,
        pause: str = "least_waste",
        tools: ToolProfile | None = None,
        predict: Callable[[Request], Estimate | float | None] | None = None,
        **scheduler: Any,
    ) -> None:
        if policy is None:
            order = f"memory_integral(stall={real('stall', stall)},refresh={whole('refresh', refresh, (0, 2**31 - 1))})"
            guard = f"threshold={whole('threshold', threshold, (0, 2**31 - 1))},quantum=forever,count_from=first_run"
            policy = f"aged({order},{guard},at_tool_call={at_tool_call})" if threshold else order
        super().__init__(policy, pause=pause, **scheduler)
        self.tools = ToolProfile() if tools is None else tools
        self.predict = predict
        self._calls: dict[int, tuple[int, int, int]] = {}  # by paused request: tool, time of the call, tokens before it
        self._tools: dict[int, int] = {}  # by living request: the tool of its expected or present call; 0: unknown

    def seed(self, tool: int, expectation: ToolExpectation) -> None:
        """As `ToolProfile.seed`."""
        self.tools.seed(tool, expectation)

    def expect(self, call: NextCall) -> NextCall:
        """Returns the call with the numbers that ``tools`` expects in place of zeros."""
        known = self.tools.expect(call.tool).next_call(call.tool)
        if known is None:
            return call
        return NextCall(
            call.tool, call.after or known.after, call.returned or known.returned, call.duration or known.duration
        )

    def arrive(self, *requests: Request, now: Any = None) -> None:
        arrived = []
        for request in requests:
            if request.output_tokens is None and self.predict is not None:
                request = replace(request, output_tokens=self.predict(request))
            if request.next_call is not None:
                request = replace(request, next_call=self.expect(request.next_call))
            arrived.append(request)
        try:
            super().arrive(*arrived, now=now)
        except FaultError:  # the valid ones have arrived
            self._arrived(arrived)
            raise
        self._arrived(arrived)

    def _arrived(self, requests: Iterable[Request]) -> None:
        for each in requests:  # an id in use belongs to the older request
            self._tools.setdefault(each.id, 0 if each.next_call is None else each.next_call.tool)

    def revise(self, request: int, *, now: int | None = None, **changes: Any) -> None:
        call = changes.get("next_call")
        if isinstance(call, NextCall):
            changes["next_call"] = self.expect(call)
        super().revise(request, now=now, **changes)
        if isinstance(call, NextCall) and request in self._tools and request not in self._calls:
            self._tools[request] = call.tool

    def tool_called(
        self, request: int, *, tool: int = 0, tokens_before: int = -1, now: int | None = None, **expected: Any
    ) -> None:
        """``tool`` 0: the tool of the request's ``next_call``. ``tokens_before``: output since the prompt or the call
        before [tokens]; below 0: unknown."""
        at, paused = moment(now), self.counts()["paused"]
        tool = tool or self._tools.get(request, 0)
        known = self.tools.expect(tool).next_call(tool)
        if known is not None:
            expected = {"expected": known.duration, "expected_returned": known.returned, **expected}
        super().tool_called(request, tool=tool, now=at, **expected)
        if self.counts()["paused"] > paused:
            self._calls[request] = (tool, at, tokens_before)
            self._tools[request] = tool

    def tool_returned(
        self, request: int, returned: int = 0, *, next_call: NextCall | None = None, now: int | None = None
    ) -> None:
        at, paused = moment(now), self.counts()["paused"]
        super().tool_returned(
            request, returned, next_call=None if next_call is None else self.expect(next_call), now=at
        )
        if self.counts()["paused"] == paused:
            return
        self._tools[request] = 0 if next_call is None else next_call.tool
        call = self._calls.pop(request, None)
        if call is not None:
            self.tools.observe(ToolCall(call[0], max(0, at - call[1]) * 1e-9, returned, call[2]))

    def cancel(self, request: int, now: Any = None) -> bool:
        known = super().cancel(request, now)
        self._forget(request)
        return known

    def _told(self, buffer: _arrays.Buffer, fault: Fault | None) -> Plan:
        try:
            return super()._told(buffer, fault)
        finally:
            plan = self.last_plan
            for failed in () if plan is None else plan.failed:
                if failed.reason != "id_in_use":  # the older request lives on
                    self._forget(failed.request)
            for released in () if plan is None else plan.released:
                self._forget(released)

    def _forget(self, request: int) -> None:
        self._calls.pop(request, None)
        self._tools.pop(request, None)


class Chimera(_Recorder):
    """Chimera: places each request on the best model that is fast enough (algorithm 1). The chosen model's prediction
    becomes the request's priority.

    ``models``: the predictor's name of each ``Instance.model``. ``predictor``: a `Predictor`, or any object with its
    `predict`. ``policy``: shortest predicted total first, with the aging of section 3.7. ``placement``: slack and margin
    of algorithm 1. ``router``: options of `Router`.
    """

    def __init__(
        self,
        models: Mapping[str, int],
        predictor: Predictor | Any,
        *,
        policy: str = "aged(stjf,threshold=100,quantum=10)",
        placement: str = "confidence_slack",
        **router: Any,
    ) -> None:
        super().__init__(policy, placement, **router)
        self.models = dict(models)
        self.predictor = predictor
        self.tokens_left: dict[int, float] = {}
        """The chosen model's prediction by placed request [tokens], for ``workflow_tokens_left`` on the engine."""
        self._scores: dict[int, dict[int, float]] = {}
        self._asked: dict[int, float] | None = None  # scores of the call that arrives
        self._model_of: dict[int, int] = {}

    def arrive_calls(self, *calls: tuple[Request, Call], now: int | None = None) -> None:
        """Scores the calls for all models in one batch, then reports their arrival. ``Call.model`` is not read."""
        asked = [replace(call, model=name) for _, call in calls for name in self.models]
        forecasts = iter(self.predictor.predict(*asked))
        scored, at = [], moment(now)
        for request, _ in calls:
            scores = []
            for model in self.models.values():
                forecast = next(forecasts)
                tokens = None if forecast.tokens_left is None else forecast.tokens_left.median
                scores.append((model, 0.0 if forecast.solved is None else forecast.solved, tokens))
            left = {model: tokens for model, _, tokens in scores if tokens is not None}
            told = [ModelScore(model, solved, tokens) for model, solved, tokens in scores]
            scored.append((replace(request, scores=told), left))
        for request, self._asked in scored:
            try:
                self.arrive(request, now=at)
            finally:
                self._asked = None

    def _arrived(self, request: Request) -> None:
        if self._asked is not None:
            self._scores[request.id] = self._asked

    def instance_up(self, instance: Any, now: int | None = None) -> None:
        super().instance_up(instance, now)
        self._model_of[getattr(instance, "id", instance)] = getattr(instance, "model", 0)

    def place(self, now: int | None = None) -> Routing:
        """Places waiting requests, and sets `tokens_left` of each."""
        routing = super().place(now)
        for placed in routing.placed:
            tokens = self._scores.get(placed.request, {}).get(self._model_of.get(placed.instance, 0))
            if tokens is None:
                self.tokens_left.pop(placed.request, None)
            else:
                self.tokens_left[placed.request] = tokens
        return routing

    def _forget(self, request: int) -> None:
        self._scores.pop(request, None)
        self.tokens_left.pop(request, None)


class HexGenFlow(_Recorder):
    """HexGen-Flow: divides a workflow's remaining time among its calls, balances the engines' work, and serves the most
    urgent call first. It tunes alpha on what it has served.

    ``policy``: urgency (equations 6 to 8). ``placement``: workload balance (equations 3 and 4). ``budgets``: equation 5.
    ``tuner``: an `AlphaTuner` (section 4.3). ``cluster``: profile names of the instances for replays, such as
    "aic/qwen3-32b/a100/bf16/tp2"; empty: alpha stays. A short replay checks the names and the placement at creation.
    ``most_lessons``: limit on recorded workflows; more are not learned. ``router``: options of `Router`.

    The tuner learns from declared workflows whose calls ended with ``output``.
    """

    def __init__(
        self,
        *,
        policy: str = "urgency",
        placement: str = "workload_balance",
        budgets: str | None = "share",
        tuner: AlphaTuner | None = None,
        cluster: Sequence[str] = (),
        most_lessons: int = 65536,
        **router: Any,
    ) -> None:
        super().__init__(policy, placement, budgets=budgets, **router)
        self.tuner = AlphaTuner() if tuner is None else tuner
        self.cluster = [cluster] if isinstance(cluster, str) else list(cluster)
        self.lessons_dropped = 0
        self._most = whole("most_lessons", most_lessons, _MOST)
        self._replay: dict[str, Any] = {"placement": placement, "policy": policy, "budgets": budgets or "none"}
        for name in self.cluster:
            if not isinstance(name, str):
                raise RequestError("cluster", name, "must be names of profiles")
        if self.cluster:
            self._check_cluster()
        self._workflows: dict[int, dict[str, Any]] = {}
        self._calls: dict[int, tuple[int, int, int]] = {}  # by request: workflow, stage, prompt

    def workflow_declared(self, workflow: int, stages: Iterable[Stage] = (), *, now: int | None = None, **more: Any) -> None:
        at, listed, faults = moment(now), list(stages), self._faults
        super().workflow_declared(workflow, listed, now=at, **more)
        if self._faults != faults:
            return
        if len(self._workflows) >= self._most:
            self.lessons_dropped += 1
            return
        deadline = more.get("deadline")
        self._workflows[workflow] = {"arrival": at, "deadline": deadline, "stages": listed, "calls": []}

    def _arrived(self, request: Request) -> None:
        if request.workflow in self._workflows:
            self._calls[request.id] = (request.workflow, request.stage, request.prompt_tokens)

    def _ended(self, request: int, at: int, **more: Any) -> None:
        call, output = self._calls.pop(request, None), more.get("output")
        if call is not None and output and not more.get("failed"):
            self._workflows.get(call[0], {"calls": []})["calls"].append((call[1], call[2], output))

    def _forget(self, request: int) -> None:
        self._calls.pop(request, None)

    def place(self, now: int | None = None) -> Routing:
        at = moment(now)
        routing = super().place(at)
        for ended in routing.ended:
            known = self._workflows.pop(ended.workflow, None)
            if known is not None and ended.how == "completed" and known["calls"]:
                self.tuner.ended(_served(known), (ended.end - ended.arrival) * 1e-9, at)
        return routing

    @property
    def alpha(self) -> float:
        return self.tuner.alpha

    def advance(self, now: int | None = None) -> list[dict[str, Any]] | None:
        """Closes windows that are over. Returns the workflows to `search`, if a search is due; the host passes its
        result to `finished`."""
        served = self.tuner.advance(now)
        if served is not None and not self.cluster:
            self.tuner.finished(None)
            return None
        return served

    def search(self, served: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Replays served workflows under each alpha, which is slow. Another thread may call it."""
        return search_alpha(served, self.cluster, **self._replay)

    def _check_cluster(self) -> None:
        """Replays one call, so that a wrong option raises an error now, and not at the first search."""
        call = {"stage": "1", "prompt": 1, "output": 1, "after": []}
        try:
            search_alpha([{"arrival_s": 0.0, "calls": [call]}], self.cluster, alphas=[0.0], seeds=2, **self._replay)
        except ToolError as error:
            if error.code == 127:
                raise
            for word, field in (("--engine", "cluster"), ("placement", "placement")):
                if word in str(error):
                    raise RequestError(field, {**self._replay, "cluster": self.cluster}[field], str(error)) from None
            raise OptionError(str(error)) from None

    def finished(self, choice: Mapping[str, Any] | None, now: int | None = None) -> bool:
        """Sets alpha of the placement. ``choice`` None: the search failed. Returns True if alpha has changed."""
        alpha = self.tuner.finished(choice)
        if alpha is not None:
            self.epoch(alpha=alpha, now=now)
        return alpha is not None


def _served(known: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an ended workflow as `takt.workloads` describes it."""
    calls = sorted(known["calls"])
    sites = {stage.stage: [str(known["stages"][i].stage) for i in stage.after] for stage in known["stages"]}
    present = {str(stage) for stage, _, _ in calls}
    order = [stage.stage for stage in known["stages"]]
    calls.sort(key=lambda call: order.index(call[0]) if call[0] in order else len(order))
    record: dict[str, Any] = {
        "arrival_s": known["arrival"] * 1e-9,
        "calls": [
            {
                "stage": str(stage), "prompt": prompt, "output": output,
                "after": [site for site in sites.get(stage, []) if site in present],
            }
            for stage, prompt, output in calls
        ],
    }  # fmt: skip
    if isinstance(known["deadline"], int) and known["deadline"] < 2**62:
        record["deadline_s"] = max(0.0, (known["deadline"] - known["arrival"]) * 1e-9)
    return record


class Cascadia:
    """Cascadia: plans a cascade of models, runs it by thresholds, watches what arrives, and plans again (section 4.4).

    ``models``: of `plan_cascade`, the smallest first. ``plan``: the first `CascadePlan`. ``gpus``: GPUs of the cluster.
    ``quality``: least mean score. ``judge_timeout_s``, ``no_verdict``: options of the `CascadeRouter`, and ``router`` of
    each model's `Router` (`routers`, by position). ``window_s``, ``sample``: requests observed per window, 50 per 5 minutes in the
    paper. ``p``: level of the tests of drift.

    The host carries out each returned `CascadeAction`, as with `CascadeRouter`. `sampled` adds a request that every
    model has answered and the judge has scored. `advance` tests the window and returns a new plan after a drift; the
    host changes the replicas, then calls `changed`.
    """

    def __init__(
        self,
        models: Sequence[Mapping[str, Any]],
        plan: CascadePlan,
        *,
        gpus: int,
        quality: float,
        window_s: float = 300.0,
        sample: int = 50,
        p: float = 0.01,
        judge_timeout_s: float = 2.0,
        no_verdict: str = "as_planned",
        planner: Callable[..., CascadePlan] = plan_cascade,
        **router: Any,
    ) -> None:
        self.models, self.plan_in_use = [dict(model) for model in models], plan
        self.cascade = CascadeRouter(
            plan.stages, judge_timeout_s=judge_timeout_s, on_missing=no_verdict, on_late=no_verdict
        )
        self.routers = [Router(**router) for _ in self.models]
        self.drifts: list[str] = []
        self._gpus, self._quality, self._p, self._planner = gpus, real("quality", quality), real("p", p), planner
        if not 0 < self._p < 1:
            raise RequestError("p", p, "must be above 0 and below 1")
        self._window = _seconds("window_s", window_s, 1e-9)
        self._end: int | None = None
        self._sample: deque[dict[str, Any]] = deque(maxlen=whole("sample", sample, (2, 2**31 - 1)))
        self._before: list[dict[str, Any]] = []
        self._gaps: list[float] = []
        self._gaps_before: list[float] = []
        self._last: int | None = None

    def arrived(self, request: int, now: int | None = None) -> CascadeAction:
        at = moment(now)
        if self._last is not None:
            self._gaps.append(max(0.0, (at - self._last) * 1e-9))
        self._last = at
        return self.cascade.arrived(request)

    def answered(self, request: int, model: int, now: int | None = None) -> CascadeAction:
        return self.cascade.answered(request, model, now)

    def judged(self, request: int, model: int, score: float | None, now: int | None = None) -> CascadeAction:
        return self.cascade.judged(request, model, score, now)

    def failed(self, request: int, model: int) -> CascadeAction:
        return self.cascade.failed(request, model)

    def cancelled(self, request: int) -> bool:
        return self.cascade.cancelled(request)

    def expire(self, now: int | None = None) -> list[CascadeAction]:
        return self.cascade.expire(now)

    def sampled(self, prompt: int, outputs: Sequence[int], scores: Sequence[float]) -> None:
        """Adds a request of the sample: its length, and each model's output [tokens] and score."""
        if len(outputs) != len(self.models) or len(scores) != len(self.models):
            raise RequestError("outputs", outputs, "must have one number per model, and so must scores")
        told = {
            "prompt": whole("prompt", prompt, _TOKENS),
            "outputs": [whole("outputs", each, _TOKENS) for each in outputs],
            "scores": [real("scores", each) for each in scores],
        }
        self._sample.append(told)

    def advance(self, now: int | None = None) -> CascadePlan | None:
        """Ends a window that is over. Returns a new plan if the requests have changed."""
        at = moment(now)
        if self._end is None:
            self._end = at + self._window
        if at < self._end:
            return None
        self._end = at + self._window
        sample, gaps = list(self._sample), self._gaps
        drift = self._drift(sample, gaps) if self._before else ""
        if not self._before:
            self._before, self._gaps_before = sample, gaps
        self._sample.clear()
        self._gaps = []
        if not drift or not gaps:
            return None
        self.drifts.append(drift)
        plan = self.plan(sample, len(gaps) / max(1e-9, sum(gaps)))
        self._before, self._gaps_before = sample, gaps  # not before: a plan that failed is due again
        return plan

    def plan(self, sample: Sequence[Mapping[str, Any]], rate: float) -> CascadePlan:
        """Makes a plan for a sample and a rate [1/s], which is slow. Another thread may call it."""
        return self._planner(sample, self.models, gpus=self._gpus, rate=rate, quality=self._quality)

    def changed(self, plan: CascadePlan) -> None:
        """Routes by a new plan, whose replicas are up."""
        self.cascade.replan(plan.stages)
        self.plan_in_use = plan

    def _drift(self, sample: Sequence[Mapping[str, Any]], gaps: Sequence[float]) -> str:
        """Returns the changes since the plan's window; empty: no change."""
        figures: dict[str, tuple[list[float], list[float]]] = {
            "rate": (self._gaps_before, list(gaps)),
            "prompt": ([float(each["prompt"]) for each in self._before], [float(each["prompt"]) for each in sample]),
            "score": ([float(each["scores"][0]) for each in self._before], [float(each["scores"][0]) for each in sample]),
        }
        for name, (before, now) in figures.items():
            if min(len(before), len(now)) >= 10:
                least = min(tail_test(before, now, 0.0), tail_test(now, before, 0.0))
                if least < self._p / (2 * len(figures)):
                    return name
        return ""
