"""A host that passes arbitrary values to schedulers, queues and routers.

    TAKT_LIBRARY=... python hostile_host.py SEED SECONDS

Each call either succeeds or raises one of takt's errors or a TypeError. No call ends the process.
"""

from __future__ import annotations

import copy
import datetime
import decimal
import pickle
import random
import sys
import time
from collections.abc import Callable
from typing import Any

import takt

MS = 1_000_000
EDGES = [0, 1, -1, 255, 256, 65535, 65536, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**32, 2**62, 2**63 - 1, 2**63, -(2**63),
         -(2**63) - 1, 2**64 - 1, 2**64, 2**200, -(2**200), 10**5000]  # fmt: skip
OTHERS = [None, True, 0.0, 1.5, -0.5, 1e308, float("inf"), float("nan"), "", "x", "a\0b", "\ud800", "\x1b[2J", b"x", [], (), {},
          object(), datetime.datetime(2026, 1, 1), decimal.Decimal("1e30"), range(3), [1, 2], (1, 2, 3), {1: 2}]  # fmt: skip
POLICIES = ["fcfs", "sjf", "aged(sjf,threshold=20)", "room_to_pass", "edf", "fair_share", "lpm", "hrrn", None]


class Acts:
    """A number that runs the host's code when it is first read."""

    def __init__(self, act: Callable[[], object]) -> None:
        self.act = act

    def __index__(self) -> int:
        act, self.act = self.act, lambda: None
        act()
        return 5


class Hostile:
    """``wrong``: share of arguments that are replaced by possibly invalid values."""

    def __init__(self, seed: int, wrong: float = 0.1) -> None:
        self.dice = random.Random(seed)
        self.wrong = wrong
        self.calls = self.refused = 0
        self.actions: set[str] = set()
        self.now = 0
        self.handle: Any = None

    def any(self) -> Any:
        if self.handle is not None and self.dice.random() < 0.05:
            return Acts(lambda: self.random_call(self.handle))
        return self.dice.choice(EDGES if self.dice.random() < 0.5 else OTHERS)

    def may(self, value: Any) -> Any:
        return self.any() if self.dice.random() < self.wrong else value

    def call(self, function: Any, *args: Any, **named: Any) -> Any:
        """Calls the function with some arguments replaced. Returns None if the call was rejected."""
        self.calls += 1
        args = tuple(map(self.may, args))
        named = {name: self.may(value) for name, value in named.items()}
        try:
            return function(*args, **named)
        except (takt.TaktError, TypeError, MemoryError) as error:
            assert str(error), (function, args, named)
            self.refused += 1
            return None

    def moment(self) -> int:
        self.now += self.dice.choice((0, 1, MS, 10 * MS, 1000 * MS))
        return self.now

    def id(self) -> int:
        return self.dice.randint(1, 40)

    def request(self) -> Any:
        dice = self.dice
        hashes: tuple[int, ...] = ()
        if dice.random() < 0.7:
            stem = dice.randint(1, 4)
            hashes = tuple(1000 * stem + i for i in range(dice.randint(1, 12)))
        fields: dict[str, Any] = {
            "prompt_tokens": 16 * len(hashes) + dice.randint(1, 50),
            "prefix_hashes": hashes,
            "prefix_block_tokens": 16 if hashes else 0,
        }
        choices: dict[str, Any] = {
            "output_tokens": takt.Estimate.exact(dice.randint(1, 50)), "workflow": dice.randint(0, 5), "tenant": dice.randint(0, 3),
            "agent": dice.randint(0, 3), "stage": 1, "branch": dice.randint(0, 2), "session": 1, "salt": dice.randint(0, 1),
            "adapter": dice.randint(0, 2), "arrival": self.now, "deadline": self.now + MS, "expires_at": self.now + 50 * MS,
            "max_output_tokens": 100, "sequences": dice.randint(1, 3), "priority": dice.randint(-2, 2),
            "workflow_tokens_left": 100.0, "after": takt.WorkAfter(1.0, self.may(10.0), 5.0), "compute": MS,
            "next_call": takt.NextCall(1, self.may(5), 3, MS), "scores": (takt.ModelScore(1, 0.5, self.may(9.0)),),
            "chunkable": dice.random() < 0.9, "preemptible": dice.random() < 0.9,
        }  # fmt: skip
        for name in dice.sample(sorted(choices), dice.randint(0, 5)):
            fields[name] = choices[name]
        if "output_tokens" in fields and dice.random() < self.wrong:
            fields["output_tokens"] = takt.Estimate(self.any(), self.any())
        return self.call(takt.Request, self.id(), **fields) or takt.Request(1, prompt_tokens=1)

    def copies(self, of: Any) -> None:
        for way in (copy.copy, copy.deepcopy, pickle.dumps):
            try:
                way(of)
            except TypeError:
                continue
            raise AssertionError(f"{way.__name__} of {of!r}")

    def key(self, handles: list[Any]) -> Any:
        """Returns a key function that calls its own handle, keeps its argument, and fails."""
        kept: list[Any] = []

        def key(state: Any) -> Any:
            chance = self.dice.random()
            if chance < 0.05 and handles:
                self.call(handles[0].close)
            elif chance < 0.1 and handles:
                self.random_call(handles[0])
            elif chance < 0.12:
                raise ValueError("no key")
            elif chance < 0.15:
                return self.any()
            kept.append((state, state.request))
            for old, request in kept[:-1]:
                assert old.generated == 0 and not request.n_prefix_hashes and request.prompt_tokens >= 0
            del kept[:-4]
            return state.request.prompt_tokens + state.generated

        return key

    def random_call(self, handle: Any) -> None:
        self.handle = handle
        {takt.Queue: self.of_queue, takt.Scheduler: self.of_scheduler, takt.Router: self.of_router}[type(handle)](handle)

    def guarded(self, function: Any, *args: Any) -> Any:
        """Calls the function and ignores exceptions of the key."""
        try:
            return function(*args)
        except ValueError as error:
            assert isinstance(error, takt.RequestError) or str(error) == "no key" or "float" in str(error), error
        except (OverflowError, takt.TaktError, TypeError):  # of a key's value
            pass
        return None

    # ---- handles ----------------------------------------------------------------------------------------------------

    def of_queue(self, queue: Any) -> None:
        dice, now = self.dice, self.moment()
        what = dice.randrange(14)
        ids = [self.may(self.id()) for _ in range(dice.randint(0, 3))]
        if what < 4:
            self.call(queue.push, *[self.request() for _ in range(dice.choice((1, 1, 1, 2)))], now=now)
        elif what == 4:
            self.call(queue.put, self.request(), now=now)
        elif what == 5:
            self.call(queue.revise, self.id(), now=now, prompt_tokens=dice.randint(1, 99), priority=1, output_tokens=3.0)
        elif what == 6:
            self.call(queue.erase, self.id())
        elif what == 7:
            self.call(queue.begin, now)
            self.call(queue.top)
            for each in self.call(queue.list, dice.randint(0, 9)) or []:
                self.call(queue.take, each)
            ran = [takt.Ran(self.id(), self.may(5), self.may(1)) for _ in ids] + ids
            self.call(queue.end, ran, head=dice.choice((None, "kv", "its_turn")), kv_tokens=99, engines=1, now=now)
        elif what == 8:
            self.call(dice.choice((queue.take, queue.hold, queue.place, queue.__contains__)), self.id())
        elif what == 9:
            self.call(dice.choice((queue.pause, queue.requeue)), self.id(), now=now)
        elif what == 10:
            self.call(queue.computed, [(each, 3, 1) for each in ids], rest_output=dice.randint(0, 1))
        elif what == 11:
            holding = {dice.choice((self.id(), self.may(1.5))): self.may(3) for _ in range(3)}
            self.call(queue.victims, holding, 4, beneficiary=self.id(), now=now)
        elif what == 12:
            self.call(len, queue)
            self.copies(queue)
        else:
            assert queue.policy and queue.traits

    def of_scheduler(self, scheduler: Any) -> None:
        dice, now = self.dice, self.moment()
        what = dice.randrange(24)
        if what < 8:
            self.call(scheduler.arrive, *[self.request() for _ in range(dice.choice((1, 1, 1, 2)))], now=now)
        elif what == 8:
            self.call(scheduler.revise, self.id(), now=now, priority=1, deadline=now + MS, output_tokens=9)
        elif what == 9:
            self.call(scheduler.cancel, self.id(), now)
        elif what == 10:
            way = dice.choice((scheduler.block, scheduler.not_ready, scheduler.kv_pinned, scheduler.kv_freed))
            self.call(way, self.id(), now)
        elif what == 11:
            way = dice.choice((scheduler.unblock, scheduler.kv_arrived, scheduler.kv_lost))
            self.call(way, self.id(), dice.randint(0, 99), now)
        elif what == 12:
            self.call(scheduler.tool_called, self.id(), expected=MS, expected_returned=3, tool=1, now=now)
        elif what == 13:
            self.call(scheduler.tool_returned, self.id(), 5, next_call=takt.NextCall(1, 2, 3, MS), now=now)
        elif what == 14:
            why = dice.choice(("tool", "user", "over", "children"))
            self.call(scheduler.turn_ended, dice.randint(1, 5), branch=0, why=why, expected=MS, pin=MS, now=now)
        elif what == 15:
            self.call(scheduler.turn_expected, dice.randint(1, 5), now + MS, branch=0, now=now)
        elif what == 16:
            self.call(scheduler.workflow_ended, dice.randint(1, 5), cancelled=dice.random() < 0.5, now=now)
        elif what == 17:
            self.call(scheduler.move_done, dice.randint(1, 50), failed=dice.random() < 0.5, now=now)
        elif what == 18:
            self.call(scheduler.explain, self.id())
            self.call(scheduler.explain_held, dice.randint(1, 5), 0)
        elif what == 19:
            ranks = {self.may(1): takt.AgentRank(self.may(0.5), self.may(1.0), self.may(2))}
            self.call(scheduler.epoch, ranks, otherwise=takt.AgentRank(1.0), alpha=0.5, now=now)
        elif what == 20:
            self.call(scheduler.set_policy, dice.choice(POLICIES), key=None, now=now)
        elif what == 21:
            self.call(scheduler.set_retention, "hold_value", "price", alpha_ms=0.05, beta_ns=1.0)
        elif what == 22:
            self.call(lambda limits: setattr(scheduler, "limits", limits), takt.Limits(self.may(256), self.may(16), chunk_align=self.may(1)))
        else:
            self.copies(scheduler)
            for name in ("counts", "kv", "stats"):
                self.call(getattr(scheduler, name))

    def of_router(self, router: Any) -> None:
        dice, now = self.dice, self.moment()
        what = dice.randrange(14)
        instance = dice.randint(1, 3)
        if what < 3:
            self.call(router.arrive, self.request(), now=now)
        elif what == 3:
            self.call(router.revise, self.id(), now=now, priority=1)
        elif what == 4:
            self.call(router.cancel, self.id(), now)
        elif what == 5:
            life = self.may(dice.choice((0, 0, 1, 2, 3)))
            up = takt.Instance(instance, self.may(4000), self.may(0), self.may(9), self.may(0.1), self.may(0), life,
                               role=dice.choice(("both", "prefill", "decode")))  # fmt: skip
            self.call(router.instance_up, up, now)
        elif what == 6:
            read = dice.choice((None, now, now - MS, now + MS))
            self.call(router.instance_reported, instance, waiting=1, running=2, preempted=0, kv_used=9, as_of=read,
                      life=dice.randint(0, 3), now=now)  # fmt: skip
        elif what == 7:
            self.call(router.request_started, self.id(), instance, now, life=dice.randint(0, 3))
            self.call(router.request_served, self.id(), instance=instance, prefill=3, output=1, now=now)
            self.call(router.prefill_ended, self.id(), instance=self.may(0), life=dice.randint(0, 3), now=now)
            hashes = [self.may(dice.randrange(9)) for _ in range(dice.randrange(4))]
            self.call(dice.choice((router.kv_stored, router.kv_removed)), instance, hashes, life=self.may(0), now=now)
            self.call(router.kv_cleared, instance, life=dice.randint(0, 3), now=now) if dice.random() < 0.2 else None
        elif what == 8:
            self.call(router.request_ended, self.id(), instance=0, life=dice.randint(0, 3), prefill=1, output=2, failed=False,
                      now=now)  # fmt: skip
        elif what == 9:
            stages = [takt.Stage(self.may(1)), takt.Stage(2, (self.may(0),), self.may(1), self.may(0.5))]
            self.call(router.workflow_declared, dice.randint(1, 5), stages, tenant=1, deadline=now + MS, open=True, now=now)
        elif what == 10:
            self.call(router.stage_ended, dice.randint(1, 5), 0, now)
            self.call(router.workflow_ended, dice.randint(1, 5), cancelled=False, now=now)
        elif what == 11:
            self.call(router.score, self.request(), [instance, self.may(2)], now)
            self.call(router.place_at, self.id(), instance, now)
        elif what == 12:
            self.call(router.place, now)
            self.call(router.instance_of, self.id())
            self.call(router.add_profile, "h100")
            self.call(router.instance_down, instance, now, life=dice.randint(0, 2)) if dice.random() < 0.2 else None
        else:
            self.copies(router)
            for name in ("counts", "stats", "wake_at"):
                self.call(getattr(router, name))

    def run_scheduler(self, steps: int) -> None:
        """Runs a host that serves its plans and keeps a KV tier in its memory."""
        dice, log = self.dice, list[bytes]()
        handles: list[Any] = []
        key = self.key(handles) if dice.random() < 0.3 else None
        named: dict[str, Any] = {
            "policy": dice.choice(POLICIES), "kv_blocks": dice.choice((12, 24, 60)), "kv_block_tokens": 16, "max_running": 8,
            "prefix_cache": dice.random() < 0.9, "cpu_blocks": dice.choice((0, 80)), "record_plans": True,
        }  # fmt: skip
        if named["prefix_cache"] and named["cpu_blocks"]:
            named["prefix_cpu_blocks"] = 64
        if dice.random() < 0.3:
            named.update(preempt="by_rank", preempt_action=dice.choice(("drop", "out")))
        self.call(takt.Scheduler, **named)  # with some values replaced
        policy = None if key is not None else named.pop("policy")
        named.pop("policy", None)
        limits = takt.Limits(tokens=96)
        try:
            scheduler = takt.Scheduler(policy, key=key, record=log.append, strict=False, limits=limits, **named)
        except takt.OptionError:  # mutually exclusive options
            return
        handles.append(scheduler)
        if named["prefix_cache"] and dice.random() < 0.8:
            scheduler.set_retention("lru", None)
        plan: Any = None
        for _ in range(steps):
            self.guarded(self.random_call, scheduler)
            if dice.random() < 0.4:
                continue
            now = self.moment()
            if plan is not None and len(plan):
                self.guarded(self.land, scheduler, plan, now)
            plan = self.guarded(lambda: scheduler.plan(now=now)) or scheduler.last_plan
            if plan is None:
                continue
            self.copies(plan)
            for move in plan.moves:
                self.actions.add(move.action)
                if dice.random() < 0.8:
                    self.guarded(lambda: scheduler.move_done(move.id, failed=dice.random() < 0.1, now=now))
            self.actions.update(f"chunk {chunk.keep}" for chunk in plan.host_chunks)
        if dice.random() < 0.5:
            scheduler.check()
        self.guarded(scheduler.close)
        if key is None and log and dice.random() < 0.2:
            try:
                assert not takt.replay_log(b"".join(log))["differs"]
            except takt.TaktError as error:
                assert "custom" in str(error), error

    def land(self, scheduler: Any, plan: Any, now: int) -> None:
        dice = self.dice
        way = dice.random()
        if way < 0.6:
            finished = [request for request in plan.requests if dice.random() < 0.5]
            self.call(scheduler.commit, plan, finished=finished, tokens={}, now=now)
        elif way < 0.7:
            self.call(scheduler.commit, plan, tokens={self.may(plan.requests[0]): self.may(1)},
                      drafts={self.may(plan.requests[0]): self.may(0)}, now=now)  # fmt: skip
        elif way < 0.8:
            rows = plan.results()
            at = dice.randint(0, len(rows))
            self.call(scheduler.commit, plan, rows[:at] if dice.random() < 0.5 else rows[::2], now=now)
        elif way < 0.9:
            self.call(scheduler.step, plan.results(), now)
            if scheduler.last_plan is not plan:
                return
        if plan.id in scheduler._in_flight:
            scheduler.commit(plan, plan.results(), now=now)

    def run_queue(self, steps: int) -> None:
        handles: list[Any] = []
        key = self.key(handles) if self.dice.random() < 0.5 else None
        self.call(takt.Queue, "sjf", hash_seed=7)
        queue = takt.Queue(None if key is not None else self.dice.choice(POLICIES), key=key)
        handles.append(queue)
        for _ in range(steps):
            self.guarded(self.random_call, queue)
        queue.close()

    def run_router(self, steps: int) -> None:
        self.call(takt.Router, "fcfs", "least_loaded", window=4, max_outstanding=9, fail_unfit=True)
        router = takt.Router(self.dice.choice(POLICIES), max_outstanding=6, strict=False)
        for _ in range(steps):
            self.guarded(self.random_call, router)
        router.close()

    def run(self, steps: int) -> None:
        self.dice.choice((self.run_scheduler, self.run_scheduler, self.run_queue, self.run_router))(steps)


def main() -> None:
    seed, until = int(sys.argv[1]), time.monotonic() + float(sys.argv[2])
    calls = refused = 0
    actions: set[str] = set()
    began = seed
    while time.monotonic() < until:
        host = Hostile(seed, wrong=(0.0, 0.05, 0.3)[seed % 3])
        try:
            host.run(300)
        except BaseException:
            print(f"seed {seed}", flush=True)
            raise
        calls, refused, seed = calls + host.calls, refused + host.refused, seed + 1
        actions |= host.actions
    print(f"{seed - began} hosts, {calls} calls, {refused} refused, {sorted(actions)}")


if __name__ == "__main__":
    main()
