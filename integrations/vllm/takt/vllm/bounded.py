"""A table of bounded size for names that clients choose."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Bounded"]

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


class Bounded(Generic[KeyT, ValueT]):
    """At most ``most`` entries, by tenant and key. If a tenant has a sixteenth of the room, its new entry evicts its
    own least recently used one. A tenant that invents names so evicts no other tenant's entries. Requests without a
    tenant may fill the table. A full table evicts their entries first, then those of the tenant that was unused
    longest.

    ``evicted`` is called with each evicted value."""

    def __init__(self, most: int, evicted: Callable[[ValueT], object] = lambda value: None) -> None:
        self._most, self._share = most, most // 16
        self._evicted = evicted
        self._tenants: OrderedDict[str, OrderedDict[KeyT, ValueT]] = OrderedDict()
        self._n = 0

    def __len__(self) -> int:
        return self._n

    def get(self, tenant: str, key: KeyT) -> ValueT | None:
        """Returns the value of a key, or None; the entry counts as used."""
        own = self._tenants.get(tenant)
        if own is None or key not in own:
            return None
        self._tenants.move_to_end(tenant)
        own.move_to_end(key)
        return own[key]

    def add(self, tenant: str, key: KeyT, value: ValueT) -> ValueT:
        """Adds an entry for a key that is not in the table."""
        if tenant and len(self._tenants.get(tenant, ())) >= self._share:
            self._evicted(self.pop_oldest(tenant))
        elif self._n >= self._most:
            nameless = len(self._tenants.get("", ())) > self._share
            self._evicted(self.pop_oldest("" if nameless else next(iter(self._tenants))))
        self._tenants.setdefault(tenant, OrderedDict())[key] = value
        self._tenants.move_to_end(tenant)
        self._n += 1
        return value

    def newest(self, most: int) -> list[tuple[str, KeyT, ValueT]]:
        """Returns up to ``most`` entries as tenant, key and value. `add` in this order gives the same table. The entries
        are those of the tenants used last, and of each tenant those used last."""
        out: list[tuple[str, KeyT, ValueT]] = []
        for tenant in reversed(self._tenants):
            for key in reversed(self._tenants[tenant]):
                if len(out) == most:
                    break
                out.append((tenant, key, self._tenants[tenant][key]))
        return out[::-1]

    def oldest(self, tenant: str) -> ValueT | None:
        """Returns the least recently used value of a tenant."""
        own = self._tenants.get(tenant)
        return next(iter(own.values())) if own else None

    def silent_longest(self) -> str | None:
        """Returns the least recently used tenant."""
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
