"""The state of one share group.

It is a group of the consumer protocol whose members have no instance ids, regular expressions or
partitions to give up, and which knows the share partitions whose states have begun: only those
are assigned.

Mirrors ShareGroup.
"""

from typing import Any, Final

from ....protocol.apis.share_group_heartbeat import ShareGroupHeartbeatResponse
from ....protocol.errors import ErrorCode
from ..consumer.assignment import Assignment
from ..consumer.consumer_group import ConsumerGroup, ConsumerGroupState, Undo
from . import records
from .states import NO_STATES, SetStates, States

GROUP_TYPE: Final = "share"


class ShareGroup(ConsumerGroup):
    has_offsets = False

    __slots__ = ("begun_ms", "changed_topics", "states")

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        # Set by `apply` only.
        self.states: States | None = None
        # By topic id: when this process began its states, by the monotonic clock.
        self.begun_ms: dict[bytes, int] = {}
        # In memory only: names of topics that were made, deleted or changed.
        self.changed_topics: set[str] = set()

    def record(self, change: Any) -> tuple[bytes, bytes | None]:
        return records.record(self.group_id, change)

    def refusal(self, error: ErrorCode) -> Any:
        return ShareGroupHeartbeatResponse(error_code=error)

    def last_changes(self) -> list[Any]:
        return [SetStates(None)]

    @property
    def known_states(self) -> States:
        return self.states or NO_STATES

    @property
    def assignable(self) -> Assignment:
        """The partitions whose states are there."""
        return {
            topic_id: topic.partitions for topic_id, topic in self.known_states.initialized.items()
        }

    @property
    def state(self) -> ConsumerGroupState:
        return ConsumerGroupState.STABLE if self.members else ConsumerGroupState.EMPTY

    def apply(self, change: Any) -> Any:
        if isinstance(change, SetStates):
            undo = SetStates(self.states)
            self.states = change.value
            return undo
        found: Undo = super().apply(change)
        return found

    def forget_what_was_seen(self) -> None:
        super().forget_what_was_seen()
        self.begun_ms.clear()
