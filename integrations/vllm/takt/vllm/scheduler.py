"""vLLM's scheduler with takt's order: a `takt.Queue` replaces vLLM's waiting queues."""

from __future__ import annotations

import atexit
import logging
import os
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.request_queue import RequestQueue
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.request import RequestStatus

from .._library import version as takt_version
from ..errors import TaktError
from ..queues import Queue
from ..requests import NEVER, Request, RequestState
from .forest import CallsLog, Forest
from .gate import Gate
from .identity import Identity, identity_of, number_of
from .lengths import Lengths
from .metrics import Metrics
from .options import Options
from .order import Order, TaktRequestQueue
from .state import StateFile
from .systems import SYSTEMS

if TYPE_CHECKING:
    from vllm.v1.core.sched.output import SchedulerOutput
    from vllm.v1.request import Request as VllmRequest

__all__ = ["TaktScheduler", "TaktSyncScheduler"]

_SECOND = 1_000_000_000
_POLICIES = 8  # policies in a saved state
_LOOK_S = 1.0  # time between two looks at `off_file`

logger = logging.getLogger("vllm.takt")  # vLLM's handlers print it


class _Known:
    """Data about a request in addition to vLLM's."""

    __slots__ = ("who", "calls", "tokens", "arrival", "workflow_arrival", "start")

    def __init__(self, who: Identity, calls: int, tokens: int, arrival: int, workflow_arrival: int) -> None:
        self.who = who
        self.calls = calls  # earlier calls of its workflow
        self.tokens = tokens  # their output
        self.arrival = arrival
        self.workflow_arrival = workflow_arrival
        self.start = 0  # of its first iteration [ns]; 0: it has not run


class _Contained:
    """A `with` statement in which an exception of takt becomes a fault. KeyboardInterrupt and the like pass."""

    def __init__(self, fault: Callable[[Exception], None]) -> None:
        self._fault = fault

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        if not isinstance(error, Exception):
            return False
        self._fault(error)
        return True


class _Takt(Scheduler):
    takt_order: Order | None = None  # None: vLLM's own order, until the end of __init__ and if takt is off
    _takt_orders: Order  # the last order
    waiting: TaktRequestQueue
    _takt_logged = False  # a fault has been logged since takt was turned on or off

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        from vllm import __version__

        self._takt_generation = _probe(self, __version__)
        self.takt_options = options = Options.of(self.vllm_config.additional_config)
        self.takt_counters = dict.fromkeys(
            ("requests", "admitted", "requeued", "ended", "aborted", "steps", "order_ns", "gate_kept_out", "gate_doors",
             "system_lessons", "system_epochs", "faults"), 0
        )  # fmt: skip
        self._takt_contained = _Contained(self._takt_fault)
        self._takt_wanted = True  # False: takt is turned off, or has had a fault
        self._takt_off_file, self._takt_looks = False, 0.0  # True: the file exists; when to look again [s]
        self._takt_known: dict[str, _Known] = {}
        served = _served(self.vllm_config) if options.forest or options.calls_log else []
        self._takt_forest = Forest(options.forest, options.forest_model, served) if options.forest else None
        self._takt_lengths = Lengths(int(options.idle_s * _SECOND), self._takt_forest) if options.lengths else None
        self._takt_log = CallsLog(options.calls_log, served[0]) if options.calls_log else None
        self._takt_found: dict[str, int] = {}  # tokens found in the prefix cache at the last query
        self._takt_chained = _chained(self)
        self._takt_updating = False
        self._takt_kv_tokens = self._takt_blocks() * self.block_size
        self._takt_metrics = Metrics(self) if options.metrics else None
        self._takt_unused: dict[str, Any] = {}  # parts of the loaded state that these options do not use
        self._takt_start()
        self._takt_state = None
        if options.state_file:
            path = options.state_file + _rank(self.vllm_config)
            self._takt_state = StateFile(path, options.state_every_s, self._takt_saved)
            self._takt_state.load(self._takt_load)
            atexit.register(self._takt_state.end)
            if getattr(self.vllm_config, "shutdown_timeout", None) == 0:
                logger.warning(
                    "takt: vLLM kills its engine at the end, so the state file gets only what is written every %g s; "
                    "expected --shutdown-timeout above 0",
                    options.state_every_s,
                )
        policy = self._takt_orders.queue.policy
        logger.info("takt %s in vLLM %s: policy %s, gate %s", takt_version, __version__, policy, options.gate)

    # ---- off and on -------------------------------------------------------------------------------------------------

    def _takt_start(self) -> None:
        """Puts all requests in takt's order. If it raises, vLLM's queues are unchanged."""
        options = self.takt_options
        policy: str | None = options.policy or None
        of_vllm = str(getattr(self.scheduler_config, "policy", "fcfs"))
        if policy == "vllm" or (policy is None and of_vllm == "priority" and not options.warm_first):
            policy = of_vllm
        self._takt_system = SYSTEMS[options.system](options.idle_s, self.takt_counters) if options.system else None
        if self._takt_system is not None:
            queue = self._takt_system.queue
        elif options.warm_first or (options.gate != "none" and policy is None):
            queue = Queue(key=self._takt_uncached, key_name="uncached")
        else:
            queue = Queue(policy)
        gate = Gate(self, options) if options.gate != "none" else None
        if hasattr(self, "_takt_orders"):
            self._takt_carry(queue, gate)
        self._takt_in_order_of_entry = policy == "fcfs"
        self._takt_learns = "learns" in queue.traits
        self._takt_pressed = "pressure" in queue.traits
        self._takt_orders = order = Order(queue, self._takt_describe, self._takt_fault)
        self._takt_prefilling: set[int] = set()
        self._takt_ended: list[VllmRequest] = []
        self._takt_gate = gate
        waits = [_own(self.waiting), _own(getattr(self, self._takt_generation))]
        views = [TaktRequestQueue(order, type(own)()) for own in waits]
        if self.running:
            order.begin()
            for request in self.running:
                number = order.enter(request)
                order.popped[number] = None
                if request.num_computed_tokens < request.num_tokens:
                    self._takt_prefilling.add(number)
            order.end(order.admitted())
        for view, own in zip(views, waits):
            for request in own:
                view.enter(request)
        self.waiting, self._takt_other = views
        setattr(self, self._takt_generation, self._takt_other)
        self.takt_order = order

    def _takt_carry(self, queue: Queue, gate: Gate | None) -> None:
        """Loads what the last queue and gate have learnt. If the queue fails, that is a fault, and the policy begins
        anew: takt could otherwise not be turned on again."""
        if gate is not None and self._takt_gate is not None:
            gate.returns = self._takt_gate.returns
        try:
            learnt = self._takt_orders.queue.learnt()
            if learnt:
                queue.load_learnt(learnt)
        except Exception as error:
            self.takt_counters["faults"] += 1
            logger.error("takt.vllm: an exception in takt; the policy's state is lost", exc_info=error)

    def _takt_saved(self) -> dict[str, Any]:
        """Returns the learnt state, for `_takt_load`, with the loaded parts that these options do not use."""
        queue = self._takt_orders.queue
        state: dict[str, Any] = {**self._takt_unused, "policy": queue.policy, "learnt": queue.learnt()}
        if self._takt_lengths is not None:
            state["lengths"] = self._takt_lengths.saved()
        if self._takt_gate is not None:
            state["returns"] = self._takt_gate.saved()
        return state

    def _takt_load(self, state: Mapping[str, Any]) -> None:
        """Has no effect if it raises. Keeps parts that these options do not use, for the next file."""
        queue = self._takt_orders.queue
        lengths = Lengths(int(self.takt_options.idle_s * _SECOND), self._takt_forest) if self._takt_lengths else None
        if lengths is not None and "lengths" in state:
            lengths.load(state["lengths"])
        gate = self._takt_gate
        returns = gate.loaded(state["returns"]) if gate is not None and "returns" in state else None
        learnt = _policies(state)
        mine = learnt.pop(queue.policy, None)
        if mine:
            queue.load_learnt(mine)
        self._takt_lengths = lengths
        if gate is not None and returns is not None:
            gate.returns = returns
        unused = {"lengths": lengths is None, "returns": gate is None}
        self._takt_unused = {name: state[name] for name in unused if unused[name] and name in state}
        if learnt:
            self._takt_unused["others"] = learnt

    def takt_switch(self, on: bool) -> None:
        """Turns takt off or on before the next step, and on again after a fault. Requests stay."""
        self._takt_wanted = on

    def _takt_stop(self) -> None:
        """Gives all requests to vLLM's own queues. Calls nothing of takt."""
        self.takt_order = None
        for view in self._takt_orders._views:
            view.leave()
        self._takt_ended.clear()
        self._takt_prefilling.clear()
        self._takt_found.clear()

    def _takt_fault(self, error: Exception) -> None:
        """Goes on in vLLM's order after an exception inside takt."""
        self.takt_counters["faults"] += 1
        self._takt_wanted = False
        if self.takt_order is not None:
            self._takt_stop()
        if not self._takt_logged:
            self._takt_logged = True
            logger.error("takt.vllm: an exception in takt; requests continue in vLLM's order", exc_info=error)

    def _takt_turn(self) -> None:
        """Before a step: turns takt off or on, if `takt_switch` or the file asks for it."""
        if self.takt_options.off_file and (at := time.monotonic()) >= self._takt_looks:
            self._takt_looks = at + _LOOK_S
            off = os.path.exists(self.takt_options.off_file)
            if off != self._takt_off_file:
                self._takt_off_file = off
                self._takt_wanted = not off
        if self._takt_wanted == (self.takt_order is not None):
            return
        self._takt_logged = False
        if not self._takt_wanted:
            self._takt_stop()
            logger.info("takt is off: requests continue in vLLM's order")
            return
        try:
            self._takt_start()
        except Exception as error:
            self._takt_fault(error)
        else:
            logger.info("takt is on: policy %s", self._takt_orders.queue.policy)

    # ---- input of takt ----------------------------------------------------------------------------------------------

    def _takt_describe(self, request: VllmRequest, number: int) -> Request:
        now = self._takt_orders.now()
        arrival = now if self._takt_in_order_of_entry else min(now, int(request.arrival_time * 1e9))
        known = self._takt_known.get(request.request_id)
        if known is None:
            who = identity_of(request, self.takt_options.session_headers)
            calls, tokens, workflow_arrival = 0, 0, arrival
            if self._takt_lengths is not None:
                calls, tokens, workflow_arrival = self._takt_lengths.begins(who, now, arrival)
            known = _Known(who, calls, tokens, arrival, min(arrival, workflow_arrival))
            self._takt_known[request.request_id] = known
            self.takt_counters["requests"] += 1
        who = known.who
        told = Request(
            number,
            request.num_prompt_tokens,
            workflow=number_of(who.workflow, who.tenant),
            agent=number_of(who.agent),
            stage=number_of(who.stage),
            tenant=number_of(who.tenant),
            branch=number_of(who.branch),
            adapter=getattr(request.lora_request, "lora_int_id", 0) if request.lora_request else 0,
            arrival=arrival,
            workflow_arrival=known.workflow_arrival,
            max_output_tokens=min(max(int(request.max_tokens or 0), 0), 2**28),
            priority=max(-(2**31), min(2**31 - 1, int(request.priority))),
        )
        if who.deadline is not None:
            told.deadline = min(NEVER - 1, arrival + int(who.deadline * _SECOND))
        if self._takt_lengths is not None:
            self._takt_lengths.tell(told, who, known.calls, known.tokens)
        if self._takt_system is not None:
            self._takt_system.describe(told, who, now)
        return told

    def _takt_uncached(self, state: RequestState) -> float:
        """Key function: the uncached prefill of a prompt [tokens], from vLLM's block hashes at the time when the
        request joins."""
        request = self._takt_orders.request(state.request.id)
        return float(self.takt_uncached_tokens(request) if request is not None else state.request.prompt_tokens)

    def takt_uncached_tokens(self, request: VllmRequest) -> int:
        """Returns the tokens of its context that vLLM's prefix cache does not hold now. Changes nothing.

        The gate calls this in each iteration, and a long context has thousands of blocks. If the last block found is
        still cached and the next one still is not, the earlier result holds: vLLM evicts the ends of contexts first.
        """
        total = int(request.num_tokens)
        manager = self.kv_cache_manager
        hashes = request.block_hashes
        if not manager.enable_caching or request.skip_reading_prefix_cache or not hashes:
            return total
        found = self._takt_found.get(request.request_id, -1)
        if found < 0 or not self._takt_stands(hashes, found, total):
            found = int(manager.coordinator.find_longest_cache_hit(hashes, total - 1)[1])
            if self._takt_chained and request.request_id in self._takt_known:
                self._takt_found[request.request_id] = found
        return max(1, total - found)

    def _takt_stands(self, hashes: Any, found: int, total: int) -> bool:
        pool, size = self.kv_cache_manager.block_pool, self.block_size
        blocks = found // size
        if blocks and pool.get_cached_block(hashes[blocks - 1], [0]) is None:
            return False
        most = min(len(hashes), (total - 1) // size)
        return blocks >= most or pool.get_cached_block(hashes[blocks], [0]) is None

    def _takt_blocks(self) -> int:
        return int(self.kv_cache_manager.block_pool.num_gpu_blocks)

    # ---- one iteration ----------------------------------------------------------------------------------------------

    def shutdown(self, *args: Any, **kwargs: Any) -> Any:
        if self._takt_state is not None:
            with self._takt_contained:
                self._takt_state.end()
        return super().shutdown(*args, **kwargs)

    def schedule(self, *args: Any, **kwargs: Any) -> SchedulerOutput:
        with self._takt_contained:
            self._takt_turn()
            if self._takt_state is not None:
                self._takt_state.turn()
        order = self.takt_order
        if order is None:
            return super().schedule(*args, **kwargs)
        began = time.perf_counter_ns()
        now = 0
        with self._takt_contained:
            now = self._takt_begin(order)
        spent = time.perf_counter_ns() - began
        try:
            output = super().schedule(*args, **kwargs)
        except BaseException:
            if self.takt_order is not None:
                with self._takt_contained:
                    order.end([])
            raise
        began = time.perf_counter_ns()
        if self.takt_order is not None:
            with self._takt_contained:
                self._takt_end(order, output, now)
        self.takt_counters["order_ns"] += spent + time.perf_counter_ns() - began
        return output

    def _takt_begin(self, order: Order) -> int:
        if self._takt_system is not None:
            self._takt_system.begin(order.now())
        now = order.begin()
        if self._takt_gate is not None and order.queue:
            order.kept_out = self._takt_gate.keep_out(now)
            order.changed()
        if self.takt_options.victims:
            self._takt_steer(now)
        return now

    def _takt_end(self, order: Order, output: SchedulerOutput, now: int) -> None:
        admitted = order.admitted()
        counters = self.takt_counters
        counters["admitted"] += len(admitted)
        counters["steps"] += 1
        ran: list[Any] = list(admitted)
        if self._takt_learns:
            ran = self._takt_prefilled(admitted, output)
        pressure: dict[str, Any] = {}
        if self._takt_pressed:
            pressure = {"head": self._takt_head(output), "kv_tokens": self._takt_kv_tokens}
        order.end(ran, **pressure)
        order.stranded = not self.running and self._takt_stranded()
        if self._takt_gate is not None and admitted:
            self._takt_gate.admitted(admitted, now)
        if self._takt_system is not None:
            self._takt_begun(admitted, now)

    def _takt_prefilled(self, admitted: list[int], output: SchedulerOutput) -> list[tuple[int, int, int]]:
        """Returns the prefill of this step; empty for a step that only decodes."""
        order, now_in = self._takt_orders, set(admitted)
        self._takt_prefilling |= now_in
        ran = []
        for number in sorted(self._takt_prefilling):
            request = order.request(number)
            if request is None or not (number in now_in or request.request_id in order.running):
                self._takt_prefilling.discard(number)
                continue
            tokens = output.num_scheduled_tokens.get(request.request_id, 0)
            if tokens or number in now_in:
                ran.append((number, tokens, 0))
            if request.num_computed_tokens >= request.num_tokens:
                self._takt_prefilling.discard(number)
        return ran

    def _takt_begun(self, admitted: list[int], now: int) -> None:
        """Records the time of the first iteration of each admitted request."""
        for number in admitted:
            request = self._takt_orders.request(number)
            known = self._takt_known.get(request.request_id) if request is not None else None
            if known is not None and not known.start:
                known.start = now

    def _takt_head(self, output: SchedulerOutput) -> str:
        """Returns the reason why the first waiting request was not admitted."""
        if not self.waiting.members:
            return "nothing"
        if len(self.running) + self.num_waiting_for_streaming_input >= self.max_num_running_reqs:
            return "sequences"
        if output.total_num_scheduled_tokens >= self.max_num_scheduled_tokens:
            return "budget"
        return "kv"

    def _takt_steer(self, now: int) -> None:
        """Moves the request that takt ranks last to the end of the running list, which vLLM preempts first."""
        if len(self.running) < 2 or self.kv_cache_manager.usage < self.takt_options.victims_above:
            return
        order = self._takt_orders
        holding = {}
        for request in self.running:
            number = order.running.get(request.request_id)
            if number is not None:
                holding[number] = sum(len(blocks) for blocks in self.kv_cache_manager.get_block_ids(request.request_id))
        worst = order.queue.victims(holding, sum(holding.values()), now=now)
        rank = {number: i for i, number in enumerate(worst)}
        self.running.sort(key=lambda request: -rank.get(order.number(request) or 0, len(rank)))

    def _takt_stranded(self) -> bool:
        """Returns True if nothing runs and a request that holds blocks could go on. vLLM stops at the first request
        that does not fit, so those blocks would never become free. vLLM since 0.31 has a queue for such requests, which
        goes first."""
        landed = getattr(self, "finished_recving_kv_req_ids", ())
        return any(
            view.members[number].status in (RequestStatus.WAITING, RequestStatus.PREEMPTED)
            or view.members[number].request_id in landed
            for view in (self.waiting, self._takt_other)
            for number in view.holding
        )

    # vLLM before 0.31 admits skipped requests before waiting ones; takt has one order for both.
    def _select_waiting_queue_for_scheduling(self) -> RequestQueue | None:
        if self.takt_order is not None:
            with self._takt_contained:
                return self._takt_select(self.takt_order)
        return super()._select_waiting_queue_for_scheduling()  # type: ignore[misc]

    def _takt_select(self, order: Order) -> RequestQueue | None:
        waiting, other = self.waiting, self._takt_other
        if not waiting:
            return other or None
        if not other:
            return waiting
        if order.stranded and (waiting.holding or other.holding):
            return other if other.holding else waiting
        first, passed_over = waiting._first(), other._first()
        for number in order.queue.list(max(waiting.read, other.read)):
            if number == first:
                return waiting
            if number == passed_over:
                return other
        return waiting

    def update_from_output(self, scheduler_output: SchedulerOutput, *args: Any, **kwargs: Any) -> Any:
        if self.takt_order is None:
            return super().update_from_output(scheduler_output, *args, **kwargs)
        self._takt_updating = True
        result = None
        try:
            result = super().update_from_output(scheduler_output, *args, **kwargs)
        finally:
            self._takt_updating = False
            ended, self._takt_ended = self._takt_ended, []
            if self.takt_order is not None:
                with self._takt_contained:
                    if self._takt_learns:
                        self._takt_computed(result)
                    for request in ended:
                        self.takt_order.ended(request)
        return result

    def _takt_computed(self, result: Any) -> None:
        order = self._takt_orders
        numbers, running = order._numbers, order.running
        # Names of running requests, because the table of all numbers is large: a lookup in it costs a cache miss.
        every = [each for outputs in (result or {}).values() for each in outputs.outputs]
        names = {each.request_id for each in every}
        other = {each.request_id: len(each.new_token_ids) for each in every if len(each.new_token_ids) != 1}
        absent: set[str] = set()
        if names != running.keys():
            absent = running.keys() - names
            other.update(dict.fromkeys(names - running.keys() - other.keys(), 1))
        named = [(numbers[name], 0, tokens) for name, tokens in other.items() if name in numbers]
        # All running requests have yielded one token, except the listed ones.
        one = len(other) < len(names)
        if one:
            named += [(running[name], 0, 0) for name in absent]
        if one or named:
            order.queue.computed(named, rest_output=1 if one else 0)

    def _free_request(self, request: VllmRequest, *args: Any, **kwargs: Any) -> Any:
        self._takt_found.pop(request.request_id, None)
        known = self._takt_known.pop(request.request_id, None)
        with self._takt_contained:
            self._takt_freed(request, known)
        return super()._free_request(request, *args, **kwargs)

    def _takt_freed(self, request: VllmRequest, known: _Known | None) -> None:
        order = self.takt_order
        if known is not None:
            now = self._takt_orders.now()
            whole = request.status in _WHOLE
            self.takt_counters["ended" if whole else "aborted"] += 1
            prompt, output = request.num_prompt_tokens, request.num_output_tokens
            if self._takt_lengths is not None:
                self._takt_lengths.ends(known.who, known.calls, prompt, output, now, whole)
            if self._takt_log is not None and whole:
                self._takt_log.add(known.who, prompt, output, known.calls, known.tokens)
            if order is not None and self._takt_gate is not None:
                self._takt_gate.ended(request, known.who, now)
            if order is not None and self._takt_system is not None and whole and known.start:
                self._takt_system.ended(known.who, prompt, output, known.start, now)
        if order is None:
            return
        self._takt_prefilling.discard(order.number(request) or 0)
        if self._takt_updating:
            self._takt_ended.append(request)
        else:
            order.ended(request)

    def _preempt_request(self, request: VllmRequest, *args: Any, **kwargs: Any) -> None:
        if self.takt_order is not None:
            with self._takt_contained:
                self.takt_counters["requeued"] += 1
                self._takt_prefilling.discard(self.takt_order.number(request) or 0)
        super()._preempt_request(request, *args, **kwargs)

    def _update_request_as_session(self, session: VllmRequest, *args: Any, **kwargs: Any) -> None:
        super()._update_request_as_session(session, *args, **kwargs)
        if self.takt_order is not None:
            with self._takt_contained:
                self.takt_order.restated(session)

    def make_stats(self, *args: Any, **kwargs: Any) -> Any:
        if self._takt_metrics is not None:
            with self._takt_contained:
                metrics, self._takt_metrics = self._takt_metrics, None  # none after a fault, so that it counts once
                metrics.told()
                self._takt_metrics = metrics
        return super().make_stats(*args, **kwargs)


def _own(queue: Any) -> Any:
    """Returns the queue of vLLM that holds the requests."""
    return queue.own if isinstance(queue, TaktRequestQueue) else queue


class TaktSyncScheduler(_Takt):
    """For engines that do not overlap their steps (--no-async-scheduling)."""


class TaktScheduler(_Takt, AsyncScheduler):
    """``vllm serve MODEL --scheduler-cls takt.vllm.TaktScheduler``."""


_WHOLE = (RequestStatus.FINISHED_STOPPED, RequestStatus.FINISHED_LENGTH_CAPPED)

_FIELDS = (
    "vllm_config", "scheduler_config", "kv_cache_manager", "requests", "running", "max_num_running_reqs",
    "max_num_scheduled_tokens", "num_waiting_for_streaming_input", "block_size",
    "kv_cache_config",
)  # fmt: skip
_METHODS = ("schedule", "update_from_output", "finish_requests", "_free_request", "_preempt_request", "make_stats")


def _rank(config: Any) -> str:
    """Returns the suffix for files of this engine: ".dp1" with data parallelism, or else empty. If the model is dense,
    vLLM sets the size to 1 and the rank to 0 in each engine, and only `data_parallel_index` has the rank. Engine 0 of
    these then has no suffix."""
    parallel = getattr(config, "parallel_config", None)
    rank = getattr(parallel, "data_parallel_index", None)
    if rank is None:
        rank = getattr(parallel, "data_parallel_rank", None) or 0
    return f".dp{rank}" if rank > 0 or getattr(parallel, "data_parallel_size", 1) > 1 else ""


def _policies(state: Mapping[str, Any]) -> dict[str, bytes]:
    """Returns the learnt words in a saved state, by the policy's text; at most _POLICIES, those saved last."""
    learnt = {**state.get("others", {}), state.get("policy"): state.get("learnt")}
    wanted = {policy: words for policy, words in learnt.items() if words}
    if not all(isinstance(policy, str) and isinstance(words, bytes) for policy, words in wanted.items()):
        raise ValueError("the state of a policy is invalid")
    return dict(list(wanted.items())[-_POLICIES:])


def _served(config: Any) -> list[str]:
    """Returns the served names of the model; logs use the first one."""
    names = config.model_config.served_model_name or config.model_config.model
    return [names] if isinstance(names, str) else list(names)


def _chained(scheduler: Scheduler) -> bool:
    """Returns True if a cached block implies that all earlier blocks are cached: one group of full attention, hashed
    per block."""
    groups = scheduler.kv_cache_config.kv_cache_groups
    plain = len(groups) == 1 and type(groups[0].kv_cache_spec).__name__ == "FullAttentionSpec"
    return plain and groups[0].kv_cache_spec.block_size == scheduler.block_size


def _probe(scheduler: Scheduler, version: str) -> str:
    """Returns the name of the queue besides `waiting`. vLLM's scheduler is not a public interface, so startup fails if
    takt does not know it."""
    missing = [name for name in _FIELDS if not hasattr(scheduler, name)]
    missing += [name for name in _METHODS if not callable(getattr(Scheduler, name, None))]
    if not isinstance(getattr(scheduler, "waiting", None), RequestQueue):
        missing.append("waiting: RequestQueue")
    others = [
        name
        for name in ("skipped_waiting", "kv_holding_waiting")
        if isinstance(getattr(scheduler, name, None), RequestQueue)
    ]
    known = {"waiting", *others}
    unknown = [
        name
        for name, value in vars(scheduler).items()
        if isinstance(value, RequestQueue) and name not in known
    ]
    if others == ["skipped_waiting"] and not callable(getattr(Scheduler, "_select_waiting_queue_for_scheduling", None)):
        missing.append("_select_waiting_queue_for_scheduling")
    if missing or unknown or len(others) != 1:
        what = [f"has no {', '.join(missing)}"] if missing else []
        what += [f"has queues that takt does not know: {', '.join(unknown)}"] if unknown else []
        if len(others) != 1:
            what.append("has neither skipped_waiting nor kv_holding_waiting" if not others else "has two generations' queues")
        raise TaktError(f"takt.vllm: the scheduler of vLLM {version} {'; it '.join(what)}; takt knows 0.30, 0.32 and 0.33")
    return others[0]
