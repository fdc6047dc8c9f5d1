"""The mute state of a connection, which admits its next request: legal transitions as one table.

A connection has one request in progress. It is unmuted when the response has been handed to the
socket AND any throttle delay is over. Kafka's plain MUTED state exists only inside one call there,
so it has no row here.

PIPELINING is an addition: all requests in progress are produce requests whose records are in the
log and wait for other replicas (see `produce_pipeline`). The next produce request may be taken.

Mirrors `ChannelMuteState` and `handleChannelMuteEvent` of `KafkaChannel`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from ...protocol.invariants import BrokenConnection


class MuteState(IntEnum):
    READING = 0
    RESPONSE_PENDING = 1
    THROTTLED_AND_RESPONSE_PENDING = 2
    THROTTLED = 3
    PIPELINING = 4


class MuteEvent(IntEnum):
    REQUEST_RECEIVED = 0
    THROTTLE_STARTED = 1
    RESPONSE_SENT = 2
    THROTTLE_ENDED = 3
    RECORDS_APPENDED = 4


READING: Final = MuteState.READING
RESPONSE_PENDING: Final = MuteState.RESPONSE_PENDING
THROTTLED_AND_RESPONSE_PENDING: Final = MuteState.THROTTLED_AND_RESPONSE_PENDING
THROTTLED: Final = MuteState.THROTTLED
PIPELINING: Final = MuteState.PIPELINING

# TRANSITIONS[state][event]; None is illegal.
TRANSITIONS: Final[tuple[tuple[MuteState | None, ...], ...]] = (
    (RESPONSE_PENDING, None, None, None, None),
    (None, THROTTLED_AND_RESPONSE_PENDING, READING, None, PIPELINING),
    (None, None, THROTTLED, RESPONSE_PENDING, None),
    (None, None, None, READING, None),
    (RESPONSE_PENDING, None, READING, None, None),
)


def next_state(state: MuteState, event: MuteEvent) -> MuteState:
    """The state after `event`; an illegal event is a broken invariant."""
    following = TRANSITIONS[state][event]
    if following is None:
        raise BrokenConnection(f"{event.name} is illegal in {state.name}")
    return following
