"""The seam between processors and the operating system: sets of non-blocking sockets to poll.

Each processor has its own epoll set. An epoll set is itself a file descriptor that is readable
while one of its members has an event, so all of them nest in one more, which is the only thing that
trio's loop watches: one wake-up a round, whatever the number of processors and connections (a task
and a registration per processor cost three times as much, measured with one connection). kqueue,
which macOS has, nests as well. With neither (tests; see `machine`) sets are polled once in
POLL_SECONDS.

The simulation and TLS put their own objects with these methods in place.

Mirrors `org.apache.kafka.common.network.Selector`, of which only the polling is here: buffers are
in `connection`, idle closing and muting in `processor`.
"""

from __future__ import annotations

import select
import sys
from typing import Protocol

import trio

from ..resources import machine

# As epoll and poll have them; kqueue's are translated.
READ = 0x01
WRITE = 0x04
BROKEN = 0x08 | 0x10

# One round never handles more sockets than this; the rest is reported by the next poll.
MAX_EVENTS_PER_POLL = 512
POLL_SECONDS = 0.001


class Selector(Protocol):
    """What a processor needs of a set of sockets."""

    def register(self, fileno: int, events: int) -> None: ...

    def modify(self, fileno: int, events: int) -> None: ...

    def unregister(self, fileno: int) -> None: ...

    def poll(self) -> list[tuple[int, int]]:
        """The sockets that are ready now, without waiting."""
        ...

    def close(self) -> None: ...


class SelectorGroup(Protocol):
    """Waits for any of several sets."""

    def new_selector(self, index: int) -> Selector:
        """One more set, which `ready` calls by this index."""
        ...

    async def wait(self) -> None:
        """Return when a set may have something to report, or for nothing after a moment."""
        ...

    def ready(self) -> list[int]:
        """The indexes of the sets that have something to report now."""
        ...

    def close(self) -> None: ...


def new_group() -> SelectorGroup:
    """Of the best kind that this machine has."""
    if machine.HAS_EPOLL:
        return _NestedGroup(EpollSelector)
    if sys.platform != "linux" and machine.HAS_KQUEUE:
        return _NestedGroup(KqueueSelector)
    return _PolledGroup()


class EpollSelector:
    """A level-triggered epoll set."""

    __slots__ = ("_epoll", "fileno", "modify", "register", "unregister")

    def __init__(self) -> None:
        epoll = select.epoll()
        self._epoll = epoll
        self.fileno = epoll.fileno
        self.register = epoll.register
        self.modify = epoll.modify
        self.unregister = epoll.unregister

    def poll(self) -> list[tuple[int, int]]:
        return self._epoll.poll(0, MAX_EVENTS_PER_POLL)

    def close(self) -> None:
        self._epoll.close()


class PollSelector:
    """A set for poll(2), which is no file descriptor."""

    __slots__ = ("_poll", "modify", "register", "unregister")

    def __init__(self) -> None:
        poll = select.poll()
        self._poll = poll
        self.register = poll.register
        self.modify = poll.modify
        self.unregister = poll.unregister

    def poll(self) -> list[tuple[int, int]]:
        return self._poll.poll(0)

    def close(self) -> None:
        pass


if sys.platform != "linux":

    class KqueueSelector:
        """A kqueue, level-triggered. Unlike epoll it says nothing of a socket that is watched for
        nothing, so a broken connection that is muted is noticed when it is read again."""

        __slots__ = ("_events", "_queue", "fileno")

        def __init__(self) -> None:
            self._queue = select.kqueue()
            self._events: dict[int, int] = {}
            self.fileno = self._queue.fileno

        def register(self, fileno: int, events: int) -> None:
            self._events[fileno] = 0
            self.modify(fileno, events)

        def modify(self, fileno: int, events: int) -> None:
            changed = self._events[fileno] ^ events
            self._events[fileno] = events
            changes = [
                select.kevent(
                    fileno, kind, select.KQ_EV_ADD if events & flag else select.KQ_EV_DELETE
                )
                for flag, kind in ((READ, select.KQ_FILTER_READ), (WRITE, select.KQ_FILTER_WRITE))
                if changed & flag
            ]
            if changes:
                self._queue.control(changes, 0)

        def unregister(self, fileno: int) -> None:
            self.modify(fileno, 0)
            del self._events[fileno]

        def poll(self) -> list[tuple[int, int]]:
            found: dict[int, int] = {}
            for event in self._queue.control(None, MAX_EVENTS_PER_POLL, 0):
                flag = READ if event.filter == select.KQ_FILTER_READ else WRITE
                found[event.ident] = found.get(event.ident, 0) | flag
            return list(found.items())

        def close(self) -> None:
            self._queue.close()


class _NestedGroup:
    """Sets that are file descriptors, in one more of their kind."""

    __slots__ = ("_by_fileno", "_kind", "_sets")

    def __init__(self, kind: type[EpollSelector]) -> None:
        self._kind = kind
        self._sets = kind()
        self._by_fileno: dict[int, int] = {}

    def new_selector(self, index: int) -> Selector:
        selector = self._kind()
        self._by_fileno[selector.fileno()] = index
        self._sets.register(selector.fileno(), READ)
        return selector

    async def wait(self) -> None:
        await trio.lowlevel.wait_readable(self._sets.fileno())

    def ready(self) -> list[int]:
        by_fileno = self._by_fileno
        return [by_fileno[fileno] for fileno, _ in self._sets.poll()]

    def close(self) -> None:
        trio.lowlevel.notify_closing(self._sets.fileno())
        self._sets.close()


class _PolledGroup:
    """Sets that nothing can wait for."""

    __slots__ = ("_selectors",)

    def __init__(self) -> None:
        self._selectors: dict[int, PollSelector] = {}

    def new_selector(self, index: int) -> Selector:
        selector = self._selectors[index] = PollSelector()
        return selector

    async def wait(self) -> None:
        await trio.sleep(POLL_SECONDS)

    def ready(self) -> list[int]:
        return [index for index, selector in self._selectors.items() if selector.poll()]

    def close(self) -> None:
        self._selectors.clear()
