"""The seam between processors and the operating system: sets of non-blocking sockets to poll.

Each processor has its own epoll set. An epoll set is itself a file descriptor that is readable
while one of its members has an event, so all of them nest in one more, which is the only thing that
trio's loop watches: one wake-up a round, whatever the number of processors and connections (a task
and a registration per processor cost three times as much, measured with one connection).

The simulation and TLS put their own objects with these methods in place.

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

    def close(self) -> None: ...


class EpollSelector:
    """A level-triggered epoll set."""

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

    def fileno(self) -> int:
        return self._fileno

    def close(self) -> None:
        self._epoll.close()


class SelectorGroup:
    """Waits for any of several epoll sets."""

    __slots__ = ("_by_fileno", "_epoll")

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._by_fileno: dict[int, int] = {}

    def add(self, selector: EpollSelector, index: int) -> None:
        self._by_fileno[selector.fileno()] = index
        self._epoll.register(selector.fileno(), READ)

    async def wait(self) -> None:
        """Return when a set may have something to report."""
        await trio.lowlevel.wait_readable(self._epoll.fileno())

    def ready(self) -> list[int]:
        """The indexes of the sets that have something to report now."""
        by_fileno = self._by_fileno
        return [by_fileno[fileno] for fileno, _ in self._epoll.poll(0)]

    def close(self) -> None:
        trio.lowlevel.notify_closing(self._epoll.fileno())
        self._epoll.close()
