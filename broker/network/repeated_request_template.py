"""Reading a request by comparison with an earlier one of the same connection.

The repeated requests of a client differ only in the correlation id and in some numbers of a fixed
size: a consumer's commits in the offsets, its fetches in the offsets and the epoch of its session,
its heartbeats in the generation or epoch. A frame of the same size with the same other bytes is the
same message with other numbers. (Produce has `produce_request_template`.)

Invariants: anything that does not match to the last byte goes through the codec, so this file can
make a request faster but not different (a test compares both). The message is the same for all
requests made from a template: it holds the numbers of the last request that was read. So the
handlers of these APIs read the numbers before they return, and a waiting request keeps its
connection muted.

A template costs as much as the codec for some twenty requests. So it is made when two frames in a
row have the same size, and dropped after PATIENCE requests without a match; after MAX_MISSES
templates in a row that never matched or could not be made, no more are tried on that connection.
(Large frames never come here: the dispatcher reads them in turns.)
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...protocol import codec
from ...protocol.api import ApiKey
from .receive_buffer import ReceiveBuffer

if TYPE_CHECKING:
    from .request import Route

# Of a frame with its size: size, api key, version, correlation id; all bytes behind are compared.
PREFIX_START: Final = 12
MAX_NUMBERS: Final = 64
MAX_MISSES: Final = 16
PATIENCE: Final = 8
FIRST_FETCH_VERSION_WITH_SESSION: Final = 7

# Of members whose generation is an epoch.
_HEARTBEATS: Final = (
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.SHARE_GROUP_HEARTBEAT,
    ApiKey.STREAMS_GROUP_HEARTBEAT,
)

_SIZE_BYTES: Final = 4
_INT32: Final = Struct(">i").unpack_from
_INT64: Final = Struct(">q").unpack_from
_INT32_BYTES: Final = 4
_INT64_BYTES: Final = 8


class Number(NamedTuple):
    """A field that may have another value in the next request."""

    owner: Any
    name: str
    size: int


class RepeatedRequestTemplate:
    __slots__ = (
        "_equal",
        "_int32s",
        "_int64s",
        "_size",
        "body",
        "client_id",
        "frame_bytes",
        "kept",
        "missed",
        "misses",
        "route",
        "was_seen_again",
    )

    def __init__(self, route: Route, frame_bytes: int, misses: int) -> None:
        """A template without a match until `learn`: so far there was one frame of this size."""
        self.route = route
        self.frame_bytes = frame_bytes  # without its size
        self.misses = misses  # templates before this one, one after the other, of no use
        self.missed = 0  # requests since the last one that matched
        self.was_seen_again = False
        self.client_id: str | None = None
        self.body: Any = None
        self.kept: Any = None  # by the handler: data common to all requests like this one
        self._size = -1  # of a frame that matches, with its size
        # By their positions in the whole frame: bytes that are equal, and numbers.
        self._equal: list[tuple[int, int, bytes]] = []
        self._int32s: list[tuple[Any, str, int]] = []
        self._int64s: list[tuple[Any, str, int]] = []

    @property
    def is_learned(self) -> bool:
        return self._size >= 0

    def learn(
        self, frame: bytes, body: Any, places: list[tuple[Number, int]], client_id: str | None
    ) -> None:
        """`frame` is without its size, and `places` are those of the numbers in it."""
        self._size = len(frame) + _SIZE_BYTES
        self.client_id = client_id
        self.body = body
        start = PREFIX_START
        for number, place in places:
            position = place + _SIZE_BYTES
            self._equal.append((start, position, frame[start - _SIZE_BYTES : place]))
            numbers = self._int64s if number.size == _INT64_BYTES else self._int32s
            numbers.append((number.owner, number.name, position))
            start = position + number.size
        self._equal.append((start, self._size, frame[start - _SIZE_BYTES :]))

    def matches(self, buffer: ReceiveBuffer, view: memoryview, begin: int, end: int) -> bool:
        """Whether the frame from `begin` to `end` is like the last one; if so, `body` is it."""
        if end - begin != self._size:
            return False
        for start, stop, expected in self._equal:
            if buffer.find(expected, begin + start, begin + stop) < 0:  # there only as a whole
                return False
        for owner, name, place in self._int32s:
            setattr(owner, name, _INT32(buffer, begin + place)[0])
        for owner, name, place in self._int64s:
            setattr(owner, name, _INT64(buffer, begin + place)[0])
        self.was_seen_again = True
        self.missed = 0
        return True

    def give_away(self) -> None:
        """A request that waits may share the message."""


def repeated_template_of(
    route: Route,
    frame: bytes,
    body_start: int,
    body: Any,
    client_id: str | None,
    previous: Any,
) -> Any:
    """The template of the connection, now that the codec has read this request to its last byte.

    `previous` is a template of any kind, or None; it may stay.
    """
    misses = 0
    if previous is not None and not previous.was_seen_again:
        misses = previous.misses
        if misses > MAX_MISSES:
            return previous
    if type(previous) is RepeatedRequestTemplate:
        if previous.is_learned:
            previous.missed += 1
            if previous.missed <= PATIENCE:
                return previous
            misses += 1
        elif previous.route is route and previous.frame_bytes == len(frame):
            numbers = _numbers_of(body, route)
            places = None
            if len(numbers) <= MAX_NUMBERS:
                places = _places(body, numbers, route.api_version, frame[body_start:])
            if places is not None:
                at = [(n, body_start + place) for n, place in zip(numbers, places, strict=True)]
                previous.learn(frame, body, at, client_id)
                return previous
            misses += 1  # looking for the places costs as much as a template that is of no use
    return RepeatedRequestTemplate(route, len(frame), misses)


def _numbers_of(body: Any, route: Route) -> list[Number]:
    """The numbers that change from request to request, in their order on the wire."""
    if route.api_key is ApiKey.OFFSET_COMMIT:
        return [
            Number(entry, "committed_offset", _INT64_BYTES)
            for topic in body.topics
            for entry in topic.partitions
        ]
    if route.api_key is ApiKey.FETCH:
        numbers = [
            Number(partition, "fetch_offset", _INT64_BYTES)
            for topic in body.topics
            for partition in topic.partitions
        ]
        if route.api_version >= FIRST_FETCH_VERSION_WITH_SESSION:
            numbers.insert(0, Number(body, "session_epoch", _INT32_BYTES))
        return numbers
    if route.api_key is ApiKey.HEARTBEAT:
        return [Number(body, "generation_id", _INT32_BYTES)]
    if route.api_key in _HEARTBEATS:
        return [Number(body, "member_epoch", _INT32_BYTES)]
    return []


def _places(body: Any, numbers: list[Number], api_version: int, data: bytes) -> list[int] | None:
    """The offsets of `numbers` in the encoded body; None if our codec would encode it differently.
    They are found by encoding other numbers and comparing."""
    if codec.encode(body, api_version) != data:
        return None
    values = [getattr(number.owner, number.name) for number in numbers]
    forms = []
    for value in (0, -1):
        for number in numbers:
            setattr(number.owner, number.name, value)
        forms.append(codec.encode(body, api_version))
    for number, value in zip(numbers, values, strict=True):
        setattr(number.owner, number.name, value)
    zeros, ones = forms
    places: list[int] = []
    position = 0
    while position < len(zeros):
        if zeros[position] == ones[position]:
            position += 1
        else:
            places.append(position)
            position += numbers[len(places) - 1].size
    assert len(places) == len(numbers), "two numbers without a byte between them"
    return places
