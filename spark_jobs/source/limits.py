"""The start and the end of a read, as its options give them, and the JSON of the official
connector.

Invariant: a text that cannot be parsed raises an `OptionError` with an example of a valid one.
Pure. Mirrors: JsonUtils and KafkaOffsetRangeLimit of Spark's connector.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeAlias

from ...protocol.topics import TopicPartition

LATEST: Final = -1
EARLIEST: Final = -2

Offsets: TypeAlias = dict[TopicPartition, int]

_OFFSETS_EXAMPLE = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
_TIMESTAMPS_EXAMPLE = '{"topicA":{"0":123456789,"1":123456789},"topicB":{"0":123456789}}'
_PARTITIONS_EXAMPLE = '{"topicA":[0,1],"topicB":[0,1]}'


class OptionError(ValueError):
    """An option of the source or sink cannot be used; the message names it and a valid
    alternative."""


class NoMatch(Enum):
    """The meaning of a starting timestamp in a partition without a record at or after it."""

    ERROR = "error"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Everywhere:
    """The same position in every partition: EARLIEST or LATEST."""

    offset: int


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """An offset for each partition; LATEST and EARLIEST may be among them."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class AtTimestamps:
    """The first record at or after a time, in ms: one for all, or one for each partition."""

    timestamps: Mapping[TopicPartition, int] | int
    no_match: NoMatch = NoMatch.ERROR


OffsetLimit: TypeAlias = Everywhere | AtOffsets | AtTimestamps


def parse_offset_limit(option: str, text: str) -> OffsetLimit:
    """`earliest`, `latest`, or JSON with an offset for each partition. Raises OptionError."""
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return Everywhere(EARLIEST if word == "earliest" else LATEST)
    return AtOffsets(_by_partition(option, text, _OFFSETS_EXAMPLE))


def parse_timestamps(option: str, text: str, no_match: NoMatch) -> AtTimestamps:
    """JSON with a timestamp for each partition. Raises OptionError."""
    return AtTimestamps(_by_partition(option, text, _TIMESTAMPS_EXAMPLE), no_match)


def parse_partitions(option: str, text: str) -> frozenset[TopicPartition]:
    """JSON with the partitions of each topic. Raises OptionError."""
    found = _object(option, text, _PARTITIONS_EXAMPLE)
    partitions: set[TopicPartition] = set()
    for topic, numbers in found.items():
        if not isinstance(numbers, list) or not all(_is_index(n) for n in numbers):
            raise _not(option, text, _PARTITIONS_EXAMPLE)
        partitions |= {(topic, number) for number in numbers}
    if not partitions:
        raise OptionError(f"option {option!r} names no partition: {text}")
    return frozenset(partitions)


def offsets_to_json(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Offsets in the form that the official connector writes into a checkpoint."""
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return found


def offsets_from_json(found: Mapping[str, Mapping[str, int]]) -> Offsets:
    return {
        (topic, int(partition)): offset
        for topic, partitions in found.items()
        for partition, offset in partitions.items()
    }


def _by_partition(option: str, text: str, example: str) -> Offsets:
    found: Offsets = {}
    for topic, partitions in _object(option, text, example).items():
        if not isinstance(partitions, dict):
            raise _not(option, text, example)
        for partition, number in partitions.items():
            if not partition.isdecimal() or isinstance(number, bool) or not isinstance(number, int):
                raise _not(option, text, example)
            found[topic, int(partition)] = number
    return found


def _object(option: str, text: str, example: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        raise _not(option, text, example) from None
    if not isinstance(found, dict):
        raise _not(option, text, example)
    return found


def _is_index(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 0


def _not(option: str, text: str, example: str) -> OptionError:
    return OptionError(f"option {option!r}: expected e.g. {example}, got {text}")
