"""The timers of the group machine: each has an action and the group or member it concerns.

They wait in a wheel (`protocol/timer_wheel.py`), as Kafka's DelayedJoin, DelayedSync and
DelayedHeartbeat do.
"""

from enum import Enum
from typing import Any

from ...protocol.timer_wheel import TimerEntry


class TimerKind(Enum):
    """The action when a timer fires."""

    SESSION = "session"
    PENDING_MEMBER = "pending member"
    JOIN = "join"
    SYNC = "sync"
    OFFSET_EXPIRY = "offset expiry"
    CONSUMER_SESSION = "consumer session"
    CONSUMER_REBALANCE = "consumer rebalance"
    # Of classic members of consumer groups.
    CONSUMER_JOIN = "consumer join"
    CONSUMER_SYNC = "consumer sync"
    STREAMS_SESSION = "streams session"
    STREAMS_REBALANCE = "streams rebalance"
    STREAMS_INITIAL_DELAY = "streams initial delay"


class Timer(TimerEntry):
    """One timer of a group, its `owner`; it has one deadline at a time."""

    __slots__ = ("kind", "member_id", "owner")

    def __init__(self, kind: TimerKind, owner: Any = None, member_id: str = "") -> None:
        super().__init__()
        self.kind = kind
        self.owner = owner  # a Group, or a ChangingGroup
        self.member_id = member_id
