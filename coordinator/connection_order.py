"""Requests that come late: out of a connection that its client has given up.

Whoever speaks over one connection at a time (a producer to its coordinator, a coordinator to the
leader of a partition) asks again on the next one when that breaks. What then comes out of the
first, from a socket's buffer, would be taken for a request of what it does next: an EndTxn would
end the transaction after it too soon, offsets would go back, a marker would cut a transaction in
two. Connections are numbered in the order in which they were accepted.

Invariants: a request on the latest connection is never late; whoever is told so and does ask again
on the older connection is alive, and believed. What is known is known here only, and may be lost.

Goes beyond Kafka, which takes them (KIP-890 part 2 closes it in 4.0 with an epoch for each
transaction).
"""

from __future__ import annotations

from typing import Generic, TypeVar

Sender = TypeVar("Sender")


class ConnectionOrder:
    """Of one sender."""

    __slots__ = ("_doubted", "_newest")

    def __init__(self) -> None:
        self._newest = 0
        self._doubted = 0

    def is_late(self, connection: int) -> bool:
        """Does a request come from a connection that its sender has given up?"""
        if connection >= self._newest:
            self._newest = connection
            return False
        is_first = connection != self._doubted
        self._doubted = connection
        return is_first


class ConnectionOrders(Generic[Sender]):
    """Of many senders; of more than `limit`, who was first heard of longest ago is forgotten."""

    __slots__ = ("_limit", "_orders")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._orders: dict[Sender, ConnectionOrder] = {}

    def is_late(self, sender: Sender, connection: int) -> bool:
        """As that of one."""
        order = self._orders.get(sender)
        if order is None:
            if len(self._orders) >= self._limit:
                del self._orders[next(iter(self._orders))]
            order = self._orders[sender] = ConnectionOrder()
        return order.is_late(connection)
