"""Purgatories: operations that wait for a change of a key or for their deadline.

Job: remember which operations wait on which keys and until when. It is pure bookkeeping: the owner
asks for the operations of a key, decides which of them are complete, and removes those with
`remove`; `expire` returns expired operations, a limited number at a time. Nothing is called back.
`Purgatory` does the timing; `KeyedPurgatory` returns all operations that wait on a changed key.
Fetches have their own purgatory, which selects the fetches that a change concerns
(`fetch_purgatory`).

Invariants: an operation is either waiting (on all its keys, and in the wheel if it has a deadline)
or gone entirely; it leaves exactly once, by `remove` or by `expire`. A key without operations is
not in `watched`, so that the hot path sees with one dict look-up that no operation waits. `expire`
removes no more than its caller can answer in a turn.

Mirrors Kafka's DelayedOperationPurgatory. Leaves out its try-watch-try dance (no threads here) and
its purge of finished entries: watchers are ordered sets, a finished operation leaves them at once.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator
from itertools import chain
from typing import Generic, TypeVar

from mypy_extensions import mypyc_attr

from ..protocol.invariants import BrokenInvariant
from ..protocol.timer_wheel import TimerEntry, TimerWheel


@mypyc_attr(allow_interpreted_subclasses=True)
class Operation(TimerEntry):
    """Base of everything that can wait: `token` is the caller's object, given at entry."""

    __slots__ = ("keys", "token")

    def __init__(self, token: object) -> None:
        super().__init__()
        # The caller's, given back with the results; never changes.
        self.token = token
        # Set by `watch`, all different; empty before it and after `remove` or `expire`.
        self.keys: tuple[Hashable, ...] = ()

    @property
    def is_waiting(self) -> bool:
        return bool(self.keys)


OperationT = TypeVar("OperationT", bound=Operation)


class Purgatory(ABC, Generic[OperationT]):
    """The waiting operations and their deadlines; a subclass knows the keys."""

    __slots__ = ("_size", "_wheel", "expired_count", "name")

    def __init__(self, name: str, now_ms: int = 0) -> None:
        self.name = name
        self.expired_count = 0
        self._size = 0
        self._wheel = TimerWheel[OperationT](now_ms)

    def __len__(self) -> int:
        return self._size

    def watch(
        self, operation: OperationT, keys: Iterable[Hashable], deadline_ms: int | None
    ) -> None:
        """Let `operation` wait on each of `keys`, all different; no deadline: it waits for ever."""
        if operation.keys:
            raise BrokenInvariant(f"{self.name}: {operation.keys} are waited for already")
        operation.keys = tuple(keys)
        if not operation.keys:
            raise BrokenInvariant(f"{self.name}: {operation.token!r} waits for nothing")
        self._enter(operation)
        if deadline_ms is not None:
            self._wheel.schedule(operation, deadline_ms)
        self._size += 1

    def remove(self, operation: OperationT) -> bool:
        """Take an operation out; False if it has left already."""
        if not operation.keys:
            return False
        self._wheel.cancel(operation)
        self._forget(operation)
        return True

    def expire(self, now_ms: int, limit: int) -> list[OperationT]:
        """Take out operations whose deadline is at or before `now_ms`, at most `limit` of them;
        `next_deadline_ms` shows if there are more."""
        due = self._wheel.advance(now_ms, limit)
        for operation in due:
            self._forget(operation)
        self.expired_count += len(due)
        return due

    def next_deadline_ms(self) -> int | None:
        return self._wheel.next_deadline_ms()

    @abstractmethod
    def waiting(self) -> Iterator[OperationT]:
        """The waiting operations, each once per key."""

    def _forget(self, operation: OperationT) -> None:
        self._leave(operation)
        operation.keys = ()
        self._size -= 1
        if self._size < 0:
            raise BrokenInvariant(f"{self.name}: {operation.token!r} leaves, and none waited")

    @abstractmethod
    def _enter(self, operation: OperationT) -> None:
        """Start to wait on the keys of `operation`."""

    @abstractmethod
    def _leave(self, operation: OperationT) -> None:
        """Stop waiting on the keys of `operation`."""


class KeyedPurgatory(Purgatory[OperationT]):
    """A purgatory that finds all operations that wait on a key."""

    __slots__ = ("watched",)

    def __init__(self, name: str, now_ms: int = 0) -> None:
        super().__init__(name, now_ms)
        # The operations that wait on each key, oldest first; other modules only read it.
        self.watched: dict[Hashable, dict[OperationT, None]] = {}

    def watchers(self, key: Hashable) -> list[OperationT]:
        """The operations waiting on `key`, oldest first (a copy: removing is safe meanwhile)."""
        waiting = self.watched.get(key)
        return [] if waiting is None else list(waiting)

    def waiting(self) -> Iterator[OperationT]:
        return chain.from_iterable(self.watched.values())

    def _enter(self, operation: OperationT) -> None:
        watchers = self.watched
        for key in operation.keys:
            if key in watchers:
                watchers[key][operation] = None
            else:
                watchers[key] = {operation: None}

    def _leave(self, operation: OperationT) -> None:
        watchers = self.watched
        for key in operation.keys:
            waiting = watchers[key]
            if len(waiting) == 1:
                del watchers[key]
            else:
                del waiting[operation]
