"""Detect late requests: requests from a connection that its client has abandoned.

A sender that uses one connection at a time (a producer to its coordinator, a coordinator to the
leader of a partition) retries on a new connection when the old one breaks. A request that then
arrives from the old one, out of a socket's buffer, would be taken for a part of the sender's next
step: an EndTxn would end the next transaction too soon, offsets would go back, a marker would cut a
transaction in two. Connections are numbered in the order in which they were accepted.

Invariants: a request on the latest connection is never late; a sender that retries on the older
connection after that answer is alive, and its request is accepted. The state is in memory only, and
may be lost.

Goes beyond Kafka, which accepts late requests. Transactions of version 2 (KIP-890, part 2) do not
need it: each has an epoch of its own.
"""

from __future__ import annotations

from typing import Generic, TypeVar

Sender = TypeVar("Sender")


class ConnectionOrder:
    """The connections of one sender."""

    __slots__ = ("_doubted", "_newest")

    def __init__(self) -> None:
        self._newest = 0
        self._doubted = 0

    def is_late(self, connection: int) -> bool:
        """Whether a request comes from a connection that its sender has abandoned."""
        if connection >= self._newest:
            self._newest = connection
            return False
        is_first = connection != self._doubted
        self._doubted = connection
        return is_first


class ConnectionOrders(Generic[Sender]):
    """The connections of up to `limit` senders; the sender added first is forgotten first."""

    __slots__ = ("_limit", "_orders")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._orders: dict[Sender, ConnectionOrder] = {}

    def is_late(self, sender: Sender, connection: int) -> bool:
        """Like `ConnectionOrder.is_late`, for one of the senders."""
        order = self._orders.get(sender)
        if order is None:
            if len(self._orders) >= self._limit:
                del self._orders[next(iter(self._orders))]
            order = self._orders[sender] = ConnectionOrder()
        return order.is_late(connection)
