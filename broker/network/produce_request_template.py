"""Reading a produce request by comparison with the previous one of the same connection.

A producer's small requests differ in the correlation id, the partition and the records only: all
other bytes (client id, acks, timeout, topic) repeat. If they match, the message decoded last time
is reused with the new partition and records, and nothing is decoded.

Invariants: anything that does not match to the last byte goes through the codec, so this file can
make a request faster but not different (a test compares both). A template belongs to one buffer of
one connection, which has one request at a time whose records are not in the log yet, and records in
the log are not read through the message any more; the rest of the message is the same for all
requests made from the template. A request that is not answered when its handler returns keeps the
message (`give_away`).
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from ...protocol.apis.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from .receive_buffer import ReceiveBuffer

if TYPE_CHECKING:
    from .request import Route

# Of a frame with its size: size, api key, version, correlation id; all bytes behind are compared.
PREFIX_START: Final = 12
MAX_FRAME_BYTES: Final = 64 * 1024
MAX_MISSES: Final = 16

_SIZE_BYTES: Final = 4
_INDEX_BYTES: Final = 4
_NO_TAGS: Final = b"\0\0\0"  # of the partition, the topic and the request
_INT32: Final = Struct(">i").unpack_from


class ProduceRequestTemplate:
    __slots__ = (
        "body", "client_id", "misses", "partition", "prefix", "route", "size", "was_seen_again",
    )  # fmt: skip

    def __init__(
        self,
        route: Route,
        prefix: bytes,
        body: ProduceRequest,
        partition: PartitionProduceData,
        client_id: str | None,
        misses: int,
    ) -> None:
        self.route = route
        self.client_id = client_id
        self.misses = misses  # templates before this one, one after the other, seen once each
        self.was_seen_again = False
        # From the client id up to the partition's index: all that is equal.
        self.prefix = prefix
        self.size = len(prefix)
        # The message to use again, and its only partition, of which index and records are set anew.
        self.body = body
        self.partition = partition

    def matches(self, buffer: ReceiveBuffer, view: memoryview, begin: int, end: int) -> bool:
        """Whether the frame from `begin` to `end` is like the last one; if so, `body` is it."""
        start = begin + PREFIX_START
        position = start + self.size
        if position + _INDEX_BYTES + _SIZE_BYTES > end:
            return False
        if buffer.find(self.prefix, start, position) < 0:  # there it can only be as a whole
            return False
        index: int = _INT32(buffer, position)[0]
        position += _INDEX_BYTES
        if self.route.flexible:
            length = buffer[position]
            position += 1
            if length > 127:
                more = buffer[position]
                length += (more << 7) - 128
                position += 1
                if more > 127:
                    more = buffer[position]
                    length += (more << 14) - (128 << 7)
                    position += 1
                    if more > 127:
                        return False
            stop = position + length - 1
            if stop + 3 != end or not length or buffer.find(_NO_TAGS, stop, end) < 0:
                return False
        else:
            stop = position + _SIZE_BYTES + _INT32(buffer, position)[0]
            position += _SIZE_BYTES
            if stop != end or stop < position:
                return False
        self.partition.index = index
        self.partition.records = view[position:stop]
        self.was_seen_again = True
        return True

    def give_away(self) -> None:
        """Leave the message to its request, which is not answered yet, and have another one."""
        given = self.body
        self.partition = PartitionProduceData(index=self.partition.index, records=None)
        of = given.topic_data[0]
        topic = TopicProduceData(
            name=of.name, topic_id=of.topic_id, partition_data=[self.partition]
        )
        self.body = ProduceRequest(
            transactional_id=given.transactional_id,
            acks=given.acks,
            timeout_ms=given.timeout_ms,
            topic_data=[topic],
        )


def template_of(
    route: Route,
    frame: memoryview,
    body: ProduceRequest,
    client_id: str | None,
    previous: Any,
) -> Any:
    """A template made of a request that the codec has read to its last byte.

    `previous`, a template of any kind, stays if there is more than one partition in the request, if
    it is so large that decoding does not matter, or if looking has been in vain `MAX_MISSES` times
    on this connection.
    """
    misses = 0
    if previous is not None and not previous.was_seen_again:
        misses = previous.misses + 1
        if misses > MAX_MISSES:
            return previous
    if len(frame) > MAX_FRAME_BYTES or len(body.topic_data) != 1:
        return previous
    topic = body.topic_data[0]
    if len(topic.partition_data) != 1:
        return previous
    partition = topic.partition_data[0]
    records = partition.records
    if records is None:
        return previous
    start = len(frame) - len(records)
    if route.flexible:
        if bytes(frame[-3:]) != _NO_TAGS:
            return previous
        start -= len(_NO_TAGS) + ((len(records) + 1).bit_length() + 6) // 7
    else:
        start -= _SIZE_BYTES
    prefix = bytes(frame[PREFIX_START - _SIZE_BYTES : start - _INDEX_BYTES])
    return ProduceRequestTemplate(route, prefix, body, partition, client_id, misses)
