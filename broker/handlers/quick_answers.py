"""Produce responses of the commonest kind, without building and encoding a message each time.

Most produce requests append to one partition and succeed; their responses differ in three numbers
that lie next to each other on the wire. The codec writes such a response once per partition and
version; from then on only the numbers and the correlation id are put in (one `Struct.pack`). The
partition keeps that template (`Partition.quick_answers`).

Invariant: the bytes are those of the codec; a test compares them in all versions.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final

from ...protocol.api import ApiKey
from ...protocol.apis.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from ...protocol.framing import encode_response
from ...protocol.topics import TopicPartition
from ...replication.partition import Partition
from ...replication.types import ProduceResult

# Numbers that occur nowhere else in a response.
_OFFSET: Final = 0x5A11C0DE5A11C0DE
_APPEND_TIME: Final = 0x5A22C0DE5A22C0DE
_START_OFFSET: Final = 0x5A33C0DE5A33C0DE
_FIRST_VERSION_WITH_TIME: Final = 2
_FIRST_VERSION_WITH_START: Final = 5
_CORRELATION_ID_END: Final = 8

Pack = Callable[..., bytes]


class _Template:
    __slots__ = ("head", "numbers", "pack", "size", "tail")

    def __init__(self, version: int, key: TopicPartition, topic_id: bytes) -> None:
        partition = PartitionProduceResponse(
            index=key[1],
            base_offset=_OFFSET,
            log_append_time_ms=_APPEND_TIME,
            log_start_offset=_START_OFFSET,
        )
        topic = TopicProduceResponse(
            name=key[0], topic_id=topic_id, partition_responses=[partition]
        )
        parts = encode_response(ApiKey.PRODUCE, version, 0, ProduceResponse(responses=[topic]))
        frame = b"".join(bytes(part) for part in parts)  # type: ignore[arg-type]
        begin = frame.index(_OFFSET.to_bytes(8, "big"), _CORRELATION_ID_END)
        self.numbers = (
            1 + (version >= _FIRST_VERSION_WITH_TIME) + (version >= _FIRST_VERSION_WITH_START)
        )
        end = begin + 8 * self.numbers
        self.size = len(frame) - 4
        self.head = frame[_CORRELATION_ID_END:begin]
        self.tail = frame[end:]
        self.pack: Pack = Struct(f">ii{len(self.head)}s{self.numbers}q{len(self.tail)}s").pack


def quick_answer(
    version: int, correlation_id: int, partition: Partition, result: ProduceResult
) -> bytes:
    """The whole response frame of one successful append."""
    template: _Template | None = partition.quick_answers.get(version)
    if template is None:
        template = partition.quick_answers[version] = _Template(
            version, partition.key, partition.topic_id
        )
    if template.numbers == 3:
        return template.pack(
            template.size,
            correlation_id,
            template.head,
            result.base_offset,
            result.log_append_time_ms,
            result.log_start_offset,
            template.tail,
        )
    numbers = (result.base_offset, result.log_append_time_ms)[: template.numbers]
    return template.pack(template.size, correlation_id, template.head, *numbers, template.tail)
