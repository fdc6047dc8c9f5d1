"""A group that is changed by nothing but its records: the base of all kinds but the classic one.

A change is applied when it goes to the log and undone if it does not get there, so that the state
is always that of the log. `apply` returns the change that undoes another; changes that are on their
way are remembered with what undoes them, by append.

Mirrors ModernGroup and the snapshots of CoordinatorRuntime.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from mypy_extensions import mypyc_attr

from ...protocol.errors import ErrorCode
from .timers import Timer


class TargetEpoch(NamedTuple):
    epoch: int
    # Of the wall clock; 0: unknown.
    timestamp_ms: int = 0


@mypyc_attr(allow_interpreted_subclasses=True)
class ChangingGroup(ABC):
    """One group; a `Group` has its offsets."""

    __slots__ = (
        "_epoch",
        "_in_flight",
        "_target_epoch",
        "group_id",
        "is_unproven",
        "members",
        "rebalance_timers",
        "session_timers",
        "targets",
        "unproven_ms",
    )

    def __init__(self, group_id: str) -> None:
        # Never changes.
        self.group_id = group_id
        # From here on set by `apply` only. By member id.
        self.members: dict[str, Any] = {}
        # The epoch, and that of the target, with all that their records have; None: there is no
        # such record.
        self._epoch: Any = None
        self._target_epoch: TargetEpoch | None = None
        # The target of each member with one, by member id.
        self.targets: dict[str, Any] = {}
        # The log has changes of which it is not known whether they are replicated, and since when.
        self.is_unproven = False
        self.unproven_ms = 0
        # By member id.
        self.session_timers: dict[str, Timer] = {}
        # With the epoch in which the member has to give up what it should not have.
        self.rebalance_timers: dict[str, tuple[Timer, int]] = {}
        # What was applied and may still be undone, by append, in their order.
        self._in_flight: dict[int, tuple[list[Any], list[Any]]] = {}

    # Of each kind

    @property
    @abstractmethod
    def is_persisted(self) -> bool:
        """Whether the log has anything of it."""

    @property
    @abstractmethod
    def epoch_change(self) -> Any:
        """The change to its present epoch, as its record says."""

    @property
    @abstractmethod
    def subscribed_topics(self) -> Collection[str]:
        """The topics whose offsets do not expire."""

    @abstractmethod
    def is_subscribed_to(self, topic: str) -> bool: ...

    @abstractmethod
    def record(self, change: Any) -> tuple[bytes, bytes | None]:
        """The key and value of a change."""

    @abstractmethod
    def refusal(self, error: ErrorCode) -> Any:
        """The answer to a member's heartbeat."""

    @abstractmethod
    def apply(self, change: Any) -> Any:
        """Apply a change; returns the one that undoes it."""

    @abstractmethod
    def forget_what_was_seen(self) -> None:
        """Changes were undone: what this process noted when they were made may not hold."""

    def timers(self) -> Iterator[Timer]:
        """All that may be in the coordinator's queue."""
        yield from self.session_timers.values()
        for timer, _ in self.rebalance_timers.values():
            yield timer

    # Changes of each kind, to be applied

    def _set_epoch(self, change: Any) -> Any:
        undo = type(change)(self._epoch)
        self._epoch = change.value
        return undo

    def _set_target_epoch(self, change: Any) -> Any:
        undo = type(change)(self._target_epoch)
        self._target_epoch = change.value
        return undo

    def _set_target(self, change: Any) -> Any:
        undo = type(change)(change.member_id, self.targets.get(change.member_id))
        if change.value is None:
            self.targets.pop(change.member_id, None)
        else:
            self.targets[change.member_id] = change.value
        return undo

    # Appends

    def sent(self, append_id: int, changes: list[Any], undo: list[Any]) -> None:
        """Changes that were applied are on their way to the log."""
        self._in_flight[append_id] = (changes, undo)

    @property
    def last_append_id(self) -> int | None:
        """The last append that is not complete."""
        return next(reversed(self._in_flight), None)

    def stored(self, append_id: int) -> None:
        self._in_flight.pop(append_id, None)

    def lost(self, append_id: int) -> None:
        """Changes did not get into the log: undo them, and keep those that came after them."""
        if append_id not in self._in_flight:
            return
        later = list(self._in_flight.items())
        while later[0][0] != append_id:
            del later[0]
        for _, (_, undo) in later[::-1]:
            for change in undo[::-1]:
                self.apply(change)
        del self._in_flight[append_id]
        for other, (changes, _) in later[1:]:
            self._in_flight[other] = (changes, [self.apply(change) for change in changes])
        self.forget_what_was_seen()
