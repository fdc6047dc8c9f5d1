"""The seam between a processor and the operating system: a set of non-blocking sockets to poll.

An epoll set is itself a file descriptor that is readable while one of its members has an event, so
it nests in trio's own loop: one trio registration per processor and wake-up, whatever the number
of connections. The simulation and TLS put their own object with these methods in its place.

Mirrors `org.apache.kafka.common.network.Selector`, of which only the polling is here: buffers are
in `connection`, idle closing and muting in `processor`.
"""

from __future__ import annotations

import select
from typing import Protocol

import trio

READ = select.EPOLLIN
WRITE = select.EPOLLOUT
BROKEN = select.EPOLLHUP | select.EPOLLERR

# One round never handles more sockets than this; the rest is reported by the next poll.
MAX_EVENTS_PER_POLL = 512


class Selector(Protocol):
    """What a processor needs of a set of sockets."""

    def register(self, fileno: int, events: int) -> None: ...

    def modify(self, fileno: int, events: int) -> None: ...

    def unregister(self, fileno: int) -> None: ...

    def poll(self) -> list[tuple[int, int]]:
        """The sockets that are ready now, without waiting."""
        ...

    async def wait(self) -> None:
        """Return when `poll` may have something to report."""
        ...

    def close(self) -> None: ...


class EpollSelector:
    """A level-triggered epoll set nested in trio's loop."""

    __slots__ = ("_epoll", "_fileno", "modify", "register", "unregister")

    def __init__(self) -> None:
        epoll = select.epoll()
        self._epoll = epoll
        self._fileno = epoll.fileno()
        self.register = epoll.register
        self.modify = epoll.modify
        self.unregister = epoll.unregister

    def poll(self) -> list[tuple[int, int]]:
        return self._epoll.poll(0, MAX_EVENTS_PER_POLL)

    async def wait(self) -> None:
        await trio.lowlevel.wait_readable(self._fileno)

    def close(self) -> None:
        trio.lowlevel.notify_closing(self._fileno)
        self._epoll.close()
