"""Waits of coroutine handlers on behalf of a client; they end when its connection closes.

There are few places for such handlers (`MAX_ASYNC_HANDLERS`), and clients choose how long they
wait: a closed connection holds none. Only waits are cancelled, never a change that is under way.

Goes beyond Kafka, whose delayed operations stay until their time is over.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import trio

from ..network.request import Request


@contextmanager
def waiting_for(request: Request) -> Iterator[None]:
    """The block ends early when the connection of `request` closes."""
    with trio.CancelScope() as scope:
        wait = _Waits(scope)
        request.connection.add_wait(wait)
        try:
            yield
        finally:
            request.connection.remove_wait(wait)


class _Waits:
    __slots__ = ("_scope",)

    def __init__(self, scope: trio.CancelScope) -> None:
        self._scope = scope

    def hurry(self) -> None:
        """No effect: the answer comes in time."""

    def cancel(self) -> None:
        self._scope.cancel()
