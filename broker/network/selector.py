"""The seam between processors and the operating system: sets of non-blocking sockets to poll.

The sockets of all processors are in one epoll set, polled once a round; its reports are distributed
to the processors' own selectors. The set is itself a file descriptor that is readable while one of
its members has an event, and the only one that trio's loop watches: one wake-up a round for any
number of processors and connections. (A set a processor, nested in one more, costs a system call
more a round and the kernel a walk through the nests; a task and a registration in trio a processor
cost three times as much, measured with one connection.) kqueue, which macOS has, is used in the
same way. With neither (tests; see `machine`) the set is polled once in POLL_SECONDS.

The simulation has a set of its own (`socket_server.Sockets`).

Mirrors `org.apache.kafka.common.network.Selector`, of which only the polling is here: buffers are
in `connection`, idle closing and muting in `processor`.
"""

from __future__ import annotations

import select
import sys
from time import perf_counter
from typing import Protocol

import trio

from ..resources import machine

# The values of epoll and poll; kqueue's are translated.
READ = 0x01
WRITE = 0x04
BROKEN = 0x08 | 0x10
# The other side sends nothing more: also reported, once watched, without a read. (Linux: RDHUP.)
HANGUP = 0x2000

# One round never handles more sockets than this; the rest is reported by the next poll.
MAX_EVENTS_PER_POLL = 512
POLL_SECONDS = 0.001


class Selector(Protocol):
    """A set of sockets as a processor uses it."""

    def register(self, fileno: int, events: int) -> None: ...

    def modify(self, fileno: int, events: int) -> None: ...

    def unregister(self, fileno: int) -> None: ...

    def poll(self) -> list[tuple[int, int]]:
        """The sockets that are ready, without waiting."""
        ...

    def close(self) -> None: ...


class KernelSet(Protocol):
    """A set of sockets in the kernel."""

    def fileno(self) -> int:
        """The descriptor that trio waits for; negative if there is none."""
        ...

    def register(self, fileno: int, events: int) -> None: ...

    def modify(self, fileno: int, events: int) -> None: ...

    def unregister(self, fileno: int) -> None: ...

    def poll(self, seconds: float = 0.0) -> list[tuple[int, int]]:
        """The sockets that are ready, after waiting for one of them for so long."""
        ...

    def close(self) -> None: ...


def new_group() -> SelectorGroup:
    """A group of the best kind that this machine has."""
    if machine.HAS_EPOLL:
        return SelectorGroup(EpollSelector())
    if sys.platform != "linux" and machine.HAS_KQUEUE:
        return SelectorGroup(KqueueSelector())
    return SelectorGroup(PollSelector())


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

    def poll(self, seconds: float = 0.0) -> list[tuple[int, int]]:
        return self._epoll.poll(seconds, MAX_EVENTS_PER_POLL)

    def close(self) -> None:
        self._epoll.close()


class PollSelector:
    """A set for poll(2), which is no file descriptor."""

    def fileno(self) -> int:
        return -1

    __slots__ = ("_poll", "modify", "register", "unregister")

    def __init__(self) -> None:
        poll = select.poll()
        self._poll = poll
        self.register = poll.register
        self.modify = poll.modify
        self.unregister = poll.unregister

    def poll(self, seconds: float = 0.0) -> list[tuple[int, int]]:
        return self._poll.poll(seconds * 1000)

    def close(self) -> None:
        pass


if sys.platform != "linux":

    class KqueueSelector:
        """A kqueue, level-triggered. Unlike epoll it reports nothing about a socket without watched
        events. For HANGUP alone it watches a read of more bytes than ever come: the end of a stream
        and a broken connection fulfil that, and are reported once."""

        __slots__ = ("_events", "_queue", "fileno")

        def __init__(self) -> None:
            self._queue = select.kqueue()
            self._events: dict[int, int] = {}
            self.fileno = self._queue.fileno

        def register(self, fileno: int, events: int) -> None:
            self._events[fileno] = 0
            self.modify(fileno, events)

        def modify(self, fileno: int, events: int) -> None:
            before, self._events[fileno] = self._events[fileno], events
            changes = []
            if (before ^ events) & WRITE:
                action = select.KQ_EV_ADD if events & WRITE else select.KQ_EV_DELETE
                changes.append(select.kevent(fileno, select.KQ_FILTER_WRITE, action))
            if _reads(before) != _reads(events):
                if _reads(before):
                    changes.append(
                        select.kevent(fileno, select.KQ_FILTER_READ, select.KQ_EV_DELETE)
                    )
                if events & READ:
                    changes.append(select.kevent(fileno, select.KQ_FILTER_READ, select.KQ_EV_ADD))
                elif events & HANGUP:
                    changes.append(
                        select.kevent(
                            fileno,
                            select.KQ_FILTER_READ,
                            select.KQ_EV_ADD | select.KQ_EV_CLEAR,
                            select.KQ_NOTE_LOWAT,
                            2**31 - 1,
                        )
                    )
            if changes:
                self._queue.control(changes, 0)

        def unregister(self, fileno: int) -> None:
            self.modify(fileno, 0)
            del self._events[fileno]

        def poll(self, seconds: float = 0.0) -> list[tuple[int, int]]:
            found: dict[int, int] = {}
            for event in self._queue.control(None, MAX_EVENTS_PER_POLL, seconds):
                flags = WRITE
                if event.filter == select.KQ_FILTER_READ:
                    flags = self._events[event.ident] & READ
                    if event.flags & select.KQ_EV_EOF:
                        flags |= HANGUP
                if flags:
                    found[event.ident] = found.get(event.ident, 0) | flags
            return list(found.items())

        def close(self) -> None:
            self._queue.close()

    def _reads(events: int) -> int:
        """The read to watch for: any, one of too many bytes, or none."""
        return READ if events & READ else events & HANGUP


class SelectorGroup:
    """One set of sockets, and the selectors that share its sockets."""

    __slots__ = ("_fileno", "_owners", "_set")

    def __init__(self, kernel_set: KernelSet) -> None:
        self._set = kernel_set
        self._fileno = kernel_set.fileno()
        self._owners: dict[int, SharedSelector] = {}  # by the socket's file descriptor

    def new_selector(self, index: int) -> SharedSelector:
        """A new selector, which `ready` calls by this index."""
        return SharedSelector(index, self._set, self._owners)

    async def wait(self) -> None:
        """Return when there may be something to report, or for nothing after a moment."""
        if self._fileno >= 0:
            await trio.lowlevel.wait_readable(self._fileno)
        else:
            await trio.sleep(POLL_SECONDS)

    def ready(self, seconds: float = 0.0) -> set[int]:
        """The indexes of the selectors that have something to report; waits so long for one."""
        owners = self._owners
        found = set()
        for event in self._set.poll(seconds):
            owner = owners[event[0]]
            owner.reported.append(event)
            found.add(owner.index)
        return found

    def look(self, seconds: float) -> set[int]:
        """Like `ready`, but polls repeatedly for `seconds` instead of going to sleep."""
        ends = perf_counter() + seconds
        while perf_counter() < ends:
            if found := self.ready():
                return found
        return set()

    def close(self) -> None:
        if self._fileno >= 0:
            trio.lowlevel.notify_closing(self._fileno)
        self._set.close()


class SharedSelector:
    """A processor's part of the group's set."""

    __slots__ = ("_owners", "_set", "index", "modify", "reported")

    def __init__(
        self, index: int, kernel_set: KernelSet, owners: dict[int, SharedSelector]
    ) -> None:
        self.index = index
        self.reported: list[tuple[int, int]] = []  # by the last `ready`, until `poll`
        self.modify = kernel_set.modify
        self._set = kernel_set
        self._owners = owners

    def register(self, fileno: int, events: int) -> None:
        self._set.register(fileno, events)
        self._owners[fileno] = self

    def unregister(self, fileno: int) -> None:
        self._set.unregister(fileno)
        del self._owners[fileno]

    def poll(self) -> list[tuple[int, int]]:
        """The events that the group's last `ready` found."""
        reported, self.reported = self.reported, []
        return reported

    def close(self) -> None:
        """The set is the group's."""
