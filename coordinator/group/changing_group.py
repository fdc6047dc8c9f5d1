"""A group that is changed by nothing but its records: the base of all kinds but the classic one.

A change is applied when it goes to the log and undone if it does not get there, so that the state
is always that of the log. `apply` returns the change that undoes another; changes that are on their
way are remembered with what undoes them, by append.

Mirrors ModernGroup and the snapshots of CoordinatorRuntime.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ...protocol.errors import ErrorCode
from .timers import Timer


class ChangingGroup:
    """One group; a `Group` has its offsets."""

    __slots__ = ("_in_flight", "group_id", "rebalance_timers", "session_timers")

    # By member id.
    members: Mapping[str, Any]

    def __init__(self, group_id: str) -> None:
        # Never changes.
        self.group_id = group_id
        # By member id.
        self.session_timers: dict[str, Timer] = {}
        # With the epoch in which the member has to give up what it should not have.
        self.rebalance_timers: dict[str, tuple[Timer, int]] = {}
        # What was applied and may still be undone, by append, in their order.
        self._in_flight: dict[int, tuple[list[Any], list[Any]]] = {}

    # Of each kind

    @property
    def is_persisted(self) -> bool:
        """Whether the log has anything of it."""
        raise NotImplementedError

    @property
    def subscribed_topics(self) -> Collection[str]:
        """The topics whose offsets do not expire."""
        raise NotImplementedError

    def is_subscribed_to(self, topic: str) -> bool:
        raise NotImplementedError

    def record(self, change: Any) -> tuple[bytes, bytes | None]:
        """The key and value of a change."""
        raise NotImplementedError

    def refusal(self, error: ErrorCode) -> Any:
        """The answer to a member's heartbeat."""
        raise NotImplementedError

    def apply(self, change: Any) -> Any:
        """Apply a change; returns the one that undoes it."""
        raise NotImplementedError

    def forget_what_was_seen(self) -> None:
        """Changes were undone: what this process noted when they were made may not hold."""
        raise NotImplementedError

    def timers(self) -> Iterator[Timer]:
        """All that may be in the coordinator's queue."""
        yield from self.session_timers.values()
        for timer, _ in self.rebalance_timers.values():
            yield timer

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
        for _, (_, undo) in reversed(later):
            for change in reversed(undo):
                self.apply(change)
        del self._in_flight[append_id]
        for other, (changes, _) in later[1:]:
            self._in_flight[other] = (changes, [self.apply(change) for change in changes])
        self.forget_what_was_seen()
