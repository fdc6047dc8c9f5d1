"""Limits for connections, and for the buffered bytes of requests.

- `ConnectionQuotas` counts connections per listener and address: `max.connections`,
  `max.connections.per.ip` with its overrides, `listener.name.<l>.max.connections`; the rate of new
  connections is limited by `ConnectionRates`. Mirrors `kafka.network.ConnectionQuotas`.
- Beyond Kafka, it reserves the file descriptors that the logs need: a connection with a descriptor
  at or above `connection_limit` is refused, and idle connections make room (`idlest`).
- `MemoryPool` bounds the bytes of requests that are buffered or being handled
  (`queued.max.request.bytes`). Like Kafka's `SimpleMemoryPool` it is not strict: a request is
  admitted while any memory is left, so one large request cannot wait for ever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import trio

from ...protocol import invariants
from ...protocol.invariants import BrokenInvariant
from ..quotas.connection_rates import UNLIMITED, ConnectionRates
from ..resources.descriptors import connection_limit


class ConnectionQuotas:
    """Connection counts of one broker and the limits on them."""

    __slots__ = (
        "_by_address",
        "_by_listener",
        "_freed",
        "descriptors",
        "inter_broker_listener",
        "max_by_listener",
        "max_connections",
        "max_per_ip",
        "max_per_ip_overrides",
        "rates",
        "refused_descriptors",
        "total",
    )

    def __init__(
        self,
        *,
        max_connections: int = UNLIMITED,
        max_per_ip: int = UNLIMITED,
        max_per_ip_overrides: Mapping[str, int] | None = None,
        max_by_listener: Mapping[str, int] | None = None,
        rates: ConnectionRates | None = None,
        inter_broker_listener: str = "PLAINTEXT",
        descriptors: int = UNLIMITED,
    ) -> None:
        self.descriptors = descriptors  # that this process may have
        self.refused_descriptors = 0  # connections, since the last sweep
        self.max_connections = max_connections
        self.max_per_ip = max_per_ip
        self.max_per_ip_overrides = dict(max_per_ip_overrides or {})
        self.max_by_listener = dict(max_by_listener or {})
        self.rates = rates or ConnectionRates()
        self.inter_broker_listener = inter_broker_listener
        self.total = 0
        self._by_address: Counter[str] = Counter()
        self._by_listener: dict[str, int] = {}
        self._freed = trio.lowlevel.ParkingLot()

    def add_listener(self, listener: str) -> None:
        self._by_listener.setdefault(listener, 0)

    def count_of(self, address: str) -> int:
        return self._by_address[address]

    def slot_available(self, listener: str) -> bool:
        """May the acceptor of `listener` take one more connection now? If not, it waits."""
        of_listener = self._by_listener.get(listener, 0)
        if of_listener >= self.max_by_listener.get(listener, UNLIMITED):
            return False
        return self._protected(listener) or self.total < self.max_connections

    def may_have(self, fileno: int) -> bool:
        """Whether one more connection may take this descriptor."""
        return fileno < connection_limit(self.total, self.descriptors)

    async def wait_for_slot(self, listener: str) -> None:
        while not self.slot_available(listener):
            await self._freed.park()

    def address_allowed(self, address: str) -> bool:
        limit = self.max_per_ip_overrides.get(address, self.max_per_ip)
        return self._by_address[address] < limit

    def must_shed(self, listener: str) -> bool:
        """A protected listener pushed the total over the limit: others close an idle connection."""
        return self.total > self.max_connections and not self._protected(listener)

    def accept_delay(self, listener: str, now: float) -> float:
        """Seconds that the acceptor of `listener` has to wait with one more connection."""
        is_protected = self._protected(listener)
        return self.rates.accept_wait_ms(listener, now * 1000, is_protected=is_protected) / 1000

    def turn_away_delay(self, listener: str, address: str, now: float) -> float:
        """Seconds to hold one more connection of `address` until it is closed; 0 lets it in."""
        is_protected = self._protected(listener)
        wait_ms = self.rates.turn_away_ms(listener, address, now * 1000, is_protected=is_protected)
        return wait_ms / 1000

    def opened(self, listener: str, address: str) -> None:
        self.total += 1
        self._by_address[address] += 1
        self._by_listener[listener] = self._by_listener.get(listener, 0) + 1

    def closed(self, listener: str, address: str) -> None:
        self.total -= 1
        self._by_listener[listener] -= 1
        left = self._by_address[address] - 1
        if left < 0 or self._by_listener[listener] < 0:
            raise BrokenInvariant(f"more connections of {address} to {listener} closed than opened")
        if invariants.THOROUGH and self.total != sum(self._by_listener.values()):
            raise BrokenInvariant(f"{self.total} connections: {self._by_listener}")
        if left:
            self._by_address[address] = left
        else:
            del self._by_address[address]
        self._freed.unpark_all()

    def _protected(self, listener: str) -> bool:
        return listener == self.inter_broker_listener and len(self._by_listener) > 1


class MemoryPool:
    """Bytes of requests between the first byte of a frame and its response."""

    __slots__ = ("available", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.available = size

    @property
    def used(self) -> int:
        return self.size - self.available

    def try_reserve(self, amount: int) -> bool:
        if self.available <= 0:
            return False
        self.available -= amount
        return True

    def release(self, amount: int) -> None:
        self.available += amount
        if self.available > self.size:
            raise BrokenInvariant(f"{amount} bytes released: {self.available} of {self.size}")
