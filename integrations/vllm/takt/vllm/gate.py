"""The gate admits turns if the prefix cache is too small for all sessions. A cold turn waits while its admission would
cost sessions that are about to return more than it gains."""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from .bounded import Bounded
from .identity import Identity
from .options import Options
from .state import number_in

if TYPE_CHECKING:
    from vllm.v1.request import Request as VllmRequest

__all__ = ["Gate", "Returns"]

_LOOKS = 64  # turns examined in an iteration; those after them wait
_BINS = 24  # bins of ages, each twice as long as the previous one; the first ends at 0.25 s
_FIRST_S = 0.25
# Prior return hazard [1/s] after a turn of a coding agent, by age [s], until this engine has data of its own.
_PRIOR = ((0.0, 0.003), (4.0, 0.10), (8.0, 0.11), (16.0, 0.053), (32.0, 0.022), (64.0, 0.013), (128.0, 0.007),
          (256.0, 0.004), (512.0, 0.001), (1024.0, 0.0003))  # fmt: skip
_TENANTS = 1024  # tenants with their own return statistics; limited because clients choose the names
_PRIOR_RETURNS = 4.0  # weight of the prior, in returns per bin


def _bin(age: float) -> int:
    return 0 if age < _FIRST_S else min(_BINS - 1, 1 + int(math.log2(age / _FIRST_S)))


def _edge(i: int) -> float:
    return 0.0 if i == 0 else _FIRST_S * 2.0 ** (i - 1)


class Returns:
    """Estimates when sessions come back after a turn: returns over time at risk, by age. A session that has not come
    back counts with the time so far. `worth` is the best ratio of return probability to holding time from an age on."""

    def __init__(self) -> None:
        self._returned = [0.0] * _BINS
        self._at_risk = [0.0] * _BINS
        for i in range(_BINS):
            hazard = [h for age, h in _PRIOR if age <= _edge(i)][-1]
            self._returned[i] = _PRIOR_RETURNS
            self._at_risk[i] = _PRIOR_RETURNS / hazard
        self._worth: list[float] | None = None

    def observe(self, gap: float, returned: bool) -> None:
        """Records a gap [s]; below 0 if a session sends a turn before its last one has ended."""
        gap = max(0.0, gap)
        last = _bin(gap)
        for i in range(last):
            self._at_risk[i] += _edge(i + 1) - _edge(i)
        self._at_risk[last] += gap - _edge(last)
        self._returned[last] += returned
        self._worth = None

    def saved(self) -> list[list[float]]:
        return [self._returned[:], self._at_risk[:]]

    @classmethod
    def loaded(cls, saved: Any) -> Returns:
        """ValueError or TypeError if ``saved`` is not from `saved`."""
        made = cls()
        returned, at_risk = saved
        if len(returned) != _BINS or len(at_risk) != _BINS:
            raise ValueError("returns are invalid")
        made._returned = [number_in(each, 1e-9, 1e15) for each in returned]
        made._at_risk = [number_in(each, 1e-9, 1e15) for each in at_risk]
        return made

    def worth(self, age: float) -> float:
        """Returns the largest ratio at this age or later [1/s]."""
        if self._worth is None:
            hazard = [self._returned[i] / self._at_risk[i] for i in range(_BINS)]
            self._worth = []
            for i in range(_BINS):
                stays, held, best = 1.0, 0.0, 0.0
                for j in range(i, _BINS):
                    width = _edge(j + 1) - _edge(j)
                    gone = math.exp(-hazard[j] * width)
                    held += stays * (1 - gone) / hazard[j]
                    stays *= gone
                    best = max(best, (1 - stays) / held)
                self._worth.append(best)
        return self._worth[_bin(age)]


class _Held:
    __slots__ = ("blocks", "since", "seconds")

    def __init__(self, blocks: int, since: int, seconds: float) -> None:
        self.blocks = blocks
        self.since = since
        self.seconds = seconds


class Gate:
    """The price gate of docs/reference/gates.md for vLLM's cache. vLLM evicts by LRU, so the KV of sessions is evicted
    in the order in which their turns ended. A list in that order gives the blocks that a cold turn would evict."""

    def __init__(self, scheduler: Any, options: Options) -> None:
        self._scheduler = scheduler
        self._options = options
        self._held: OrderedDict[tuple[str, str, str], _Held] = OrderedDict()  # in the order in which turns ended
        self.returns: Bounded[str, Returns] = Bounded(_TENANTS)  # by tenant
        self._second_s = options.prefill_s
        self._since: dict[int, int] = {}  # time when a turn was first kept out [ns]
        self._door_opens = 0  # time when the door opens next [ns]
        self._at_door: tuple[int, int] | None = None  # the turn admitted next through the door, and its cost [ns]

    def saved(self) -> list[Any]:
        """Returns the tenants' return statistics, for `loaded`."""
        return [[tenant, returns.saved()] for tenant, _, returns in self.returns.newest(_TENANTS)]

    @staticmethod
    def loaded(rows: Any) -> Bounded[str, Returns]:
        """Returns a table for `returns`. ValueError or TypeError if ``rows`` is not from `saved`."""
        table: Bounded[str, Returns] = Bounded(_TENANTS)
        if not isinstance(rows, list) or len(rows) > _TENANTS:
            raise ValueError("a table of returns is invalid")
        for tenant, returns in rows:
            if not isinstance(tenant, str) or len(tenant) > 256 or table.get(tenant, "") is not None:
                raise ValueError("a tenant is invalid")
            table.add(tenant, "", Returns.loaded(returns))
        return table

    def _session(self, who: Identity) -> tuple[str, str, str]:
        return who.tenant, who.workflow, who.branch

    def _returns_of(self, session: tuple[str, str, str]) -> Returns:
        tenant = session[0]
        return self.returns.get(tenant, "") or self.returns.add(tenant, "", Returns())

    def ended(self, request: VllmRequest, who: Identity, now: int) -> None:
        """Records the end of a turn; its blocks stay until vLLM needs them."""
        if not who.workflow:
            return
        session = self._session(who)
        self._held.pop(session, None)
        tokens = min(int(request.num_computed_tokens), int(request.num_tokens))
        blocks = tokens // self._scheduler.block_size
        if not who.last and blocks:  # the number of sessions is then at most the number of blocks
            self._held[session] = _Held(blocks, now, tokens * self._second_s)

    def admitted(self, numbers: list[int], now: int) -> None:
        for number in numbers:
            self._since.pop(number, None)
            if self._at_door is not None and number == self._at_door[0]:
                self._door_opens = now + int(self._at_door[1] / max(1e-6, self._options.gate_door_share))
                self._at_door = None
            request = self._scheduler.takt_order.request(number)
            known = self._scheduler._takt_known.get(request.request_id) if request is not None else None
            if known is None:
                continue
            session = self._session(known.who)
            held = self._held.pop(session, None)
            if held is not None:
                self._returns_of(session).observe((known.arrival - held.since) * 1e-9, True)

    def keep_out(self, now: int) -> set[int]:
        """Returns the turns that must not be admitted in this iteration."""
        scheduler, options = self._scheduler, self._options
        order = scheduler.takt_order
        members = scheduler.waiting.members
        waiting = [n for n in order.queue.list(_LOOKS) if n in members]
        if not waiting:
            return set()
        if self._at_door is not None:
            if self._at_door[0] in members:  # until it gets blocks and a row
                scheduler.takt_counters["gate_kept_out"] += len(members) - 1
                return set(members) - {self._at_door[0]}
            self._at_door = None  # it has gone, or vLLM holds it back
        out = members.keys() - set(waiting) if len(members) > len(waiting) else set()
        self._since = {n: t for n, t in self._since.items() if order.request(n) is not None}
        for number in out:
            self._since.setdefault(number, now)
        pool = scheduler.kv_cache_manager.block_pool
        size = scheduler.block_size
        free = pool.get_num_free_blocks()
        held = sum(each.blocks for each in self._held.values())  # an upper bound: sessions share prefixes
        while held > free:  # the oldest entries have been evicted if the sum exceeds the free blocks
            session, gone = self._held.popitem(last=False)
            held -= gone.blocks
            self._returns_of(session).observe((now - gone.since) * 1e-9, False)
        # Sessions with a waiting turn return for certain, so their KV has its full value.
        back: set[tuple[str, str, str]] = set()
        session_of: dict[int, tuple[str, str, str]] = {}
        for number in waiting:
            known = scheduler._takt_known.get(order.request(number).request_id)
            if known is not None and known.who.workflow:
                session_of[number] = self._session(known.who)
        back.update(session_of.values())
        empty = max(0, free - held)  # free blocks of no session
        present = len(waiting) + len(scheduler.running)
        kept: list[int] = []
        for number in waiting:
            request = order.request(number)
            uncached = scheduler.takt_uncached_tokens(request)
            need = -(-(uncached + 1) // size)
            lack = need - empty
            if lack <= 0:
                empty = max(0, empty - need)
                continue
            waited = (now - self._since.get(number, now)) * 1e-9
            mine = session_of.get(number)
            loss, found = 0.0, 0
            for session, each in self._held.items():  # in LRU order
                if found >= lack:
                    break
                if session == mine:
                    continue
                part = min(1.0, (lack - found) / max(1, each.blocks))
                if session in back:
                    loss += part * each.seconds  # it is needed within a second
                else:
                    loss += part * each.seconds * self._returns_of(session).worth((now - each.since) * 1e-9)
                found += each.blocks
            if loss * present < options.gate_kappa * (lack / need) * (1 + waited / max(1e-9, options.gate_patience_s)):
                empty = 0
                continue
            self._since.setdefault(number, now)
            kept.append(number)
        # The door: the turn that has waited longest is admitted next at any cost, within the door's share of time. No
        # other is admitted before it.
        if (kept or out) and now >= self._door_opens:
            oldest = min((*kept, *out), key=lambda n: (self._since[n], n))
            if (now - self._since[oldest]) * 1e-9 >= options.gate_door_s:
                cost = scheduler.takt_uncached_tokens(order.request(oldest)) * self._second_s
                self._at_door = oldest, int(cost * 1e9)
                scheduler.takt_counters["gate_doors"] += 1
                scheduler.takt_counters["gate_kept_out"] += len(members) - 1
                return set(members) - {oldest}
        if kept and not scheduler.running and len(kept) == len(waiting):
            kept.remove(waiting[0])  # if nothing runs, one turn is admitted
        scheduler.takt_counters["gate_kept_out"] += len(kept)
        return out.union(kept)
