"""A table of bounded size for names that clients choose."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Bounded"]

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


class Bounded(Generic[KeyT, ValueT]):
    """At most ``most`` entries by tenant and key. A new entry evicts the least recently used one of its own tenant if that
    tenant has a sixteenth of the room, so that a tenant that makes up names displaces no other. Requests without a tenant
    may fill the table. If it is full, they give way first, then the tenant that was silent longest.

    ``evicted`` is called with what has been evicted."""

    def __init__(self, most: int, evicted: Callable[[ValueT], object] = lambda value: None) -> None:
        self._most, self._share = most, most // 16
        self._evicted = evicted
        self._tenants: OrderedDict[str, OrderedDict[KeyT, ValueT]] = OrderedDict()
        self._n = 0

    def __len__(self) -> int:
        return self._n

    def get(self, tenant: str, key: KeyT) -> ValueT | None:
        """It counts as used."""
        own = self._tenants.get(tenant)
        if own is None or key not in own:
            return None
        self._tenants.move_to_end(tenant)
        own.move_to_end(key)
        return own[key]

    def add(self, tenant: str, key: KeyT, value: ValueT) -> ValueT:
        """Of a key that is not there."""
        if tenant and len(self._tenants.get(tenant, ())) >= self._share:
            self._evicted(self.pop_oldest(tenant))
        elif self._n >= self._most:
            nameless = len(self._tenants.get("", ())) > self._share
            self._evicted(self.pop_oldest("" if nameless else next(iter(self._tenants))))
        self._tenants.setdefault(tenant, OrderedDict())[key] = value
        self._tenants.move_to_end(tenant)
        self._n += 1
        return value

    def oldest(self, tenant: str) -> ValueT | None:
        """The least recently used one of a tenant."""
        own = self._tenants.get(tenant)
        return next(iter(own.values())) if own else None

    def silent_longest(self) -> str | None:
        """The tenant that was used least recently."""
        return next(iter(self._tenants), None)

    def pop(self, tenant: str, key: KeyT) -> ValueT:
        own = self._tenants[tenant]
        value = own.pop(key)
        self._n -= 1
        if not own:
            del self._tenants[tenant]
        return value

    def pop_oldest(self, tenant: str) -> ValueT:
        return self.pop(tenant, next(iter(self._tenants[tenant])))
