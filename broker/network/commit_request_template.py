"""Reading an OffsetCommit by its likeness to the previous one of the same connection.

A consumer's commits differ in the correlation id and in the committed offsets only, which have a
fixed size: a frame of the same size whose other bytes are all the same means the same message with
other offsets.

Invariants: anything that does not match to the last byte goes through the codec, so this file can
make a request faster but not different (a test compares both). The message is the same for all
requests made from a template: its offsets are those of the last one that was read, which is no
concern of one that waits, whose offsets are on their way to the log.
"""

from __future__ import annotations

from copy import copy
from struct import Struct
from typing import TYPE_CHECKING, Any

from ...protocol import codec
from ...protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from .receive_buffer import ReceiveBuffer

if TYPE_CHECKING:
    from .request import Route

# Of a frame with its size: size, api key, version, correlation id; what follows is compared.
PREFIX_START = 12
MAX_PARTITIONS = 64
MAX_MISSES = 16

_SIZE_BYTES = 4
_OFFSET_BYTES = 8
_INT64 = Struct(">q").unpack_from


class RepeatedCommit:
    """The body of a request that was read by its likeness: as OffsetCommitRequest, with a place
    where its handler may keep what stays the same."""

    __slots__ = ("memo", "message")

    def __init__(self, message: OffsetCommitRequest) -> None:
        self.message = message
        self.memo: Any = None

    def __copy__(self) -> OffsetCommitRequest:
        """An ordinary message: of whoever takes out of it what its sender may not commit."""
        return copy(self.message)

    @property
    def group_id(self) -> str:
        return self.message.group_id

    @property
    def topics(self) -> list[OffsetCommitRequestTopic]:
        return self.message.topics


class CommitRequestTemplate:
    __slots__ = (
        "_equal", "_offsets", "_size", "body", "client_id", "misses", "route", "was_seen_again",
    )  # fmt: skip

    def __init__(
        self,
        route: Route,
        frame: bytes,
        body: OffsetCommitRequest,
        places: list[tuple[OffsetCommitRequestPartition, int]],
        client_id: str | None,
        misses: int,
    ) -> None:
        """`frame` is without its size, and `places` are those of the offsets in it."""
        self.route = route
        self.client_id = client_id
        self.misses = misses  # templates before this one, one after the other, seen once each
        self.was_seen_again = False
        self.body = RepeatedCommit(body)
        self._size = len(frame) + _SIZE_BYTES
        # Both by their positions in the whole frame: bytes that are equal, and offsets.
        self._offsets = [(entry, place + _SIZE_BYTES) for entry, place in places]
        self._equal: list[tuple[int, int, bytes]] = []
        start = PREFIX_START
        for _, place in [*self._offsets, (None, self._size)]:
            self._equal.append((start, place, frame[start - _SIZE_BYTES : place - _SIZE_BYTES]))
            start = place + _OFFSET_BYTES

    def matches(self, buffer: ReceiveBuffer, view: memoryview, begin: int, end: int) -> bool:
        """Whether the frame from `begin` to `end` is like the last one; if so, `body` is it."""
        if end - begin != self._size:
            return False
        for start, stop, expected in self._equal:
            if buffer[begin + start : begin + stop] != expected:
                return False
        for entry, place in self._offsets:
            entry.committed_offset = _INT64(buffer, begin + place)[0]
        self.was_seen_again = True
        return True

    def give_away(self) -> None:
        """A request that waits may share the message."""


def commit_template_of(
    route: Route,
    frame: bytes,
    body_start: int,
    body: OffsetCommitRequest,
    client_id: str | None,
    previous: Any,
) -> Any:
    """A template made of a request that the codec has read to its last byte.

    `previous`, a template of any kind, stays if this request cannot come again in the same form, or
    if looking has been in vain `MAX_MISSES` times on this connection.
    """
    misses = 0
    if previous is not None and not previous.was_seen_again:
        misses = previous.misses + 1
        if misses > MAX_MISSES:
            return previous
    entries = [entry for topic in body.topics for entry in topic.partitions]
    if not 0 < len(entries) <= MAX_PARTITIONS:
        return previous
    places = _places_of_offsets(body, entries, route.api_version, frame[body_start:])
    if len(places) != len(entries):
        return previous
    at = [(entry, body_start + place) for entry, place in zip(entries, places, strict=True)]
    return CommitRequestTemplate(route, frame, body, at, client_id, misses)


def _places_of_offsets(
    body: OffsetCommitRequest,
    entries: list[OffsetCommitRequestPartition],
    api_version: int,
    data: bytes,
) -> list[int]:
    """Where their offsets stand in the encoded body; empty if it is encoded in another way than
    ours. They are found by what changes with them."""
    if codec.encode(body, api_version) != data:
        return []
    offsets = [entry.committed_offset for entry in entries]
    forms = []
    for value in (0, -1):
        for entry in entries:
            entry.committed_offset = value
        forms.append(codec.encode(body, api_version))
    for entry, offset in zip(entries, offsets, strict=True):
        entry.committed_offset = offset
    zeros, ones = forms
    places = []
    position = 0
    while position < len(zeros):
        if zeros[position] == ones[position]:
            position += 1
        else:
            places.append(position)
            position += _OFFSET_BYTES
    return places
