"""Partitions on the command line: `TOPIC`, `TOPIC:0` or `TOPIC:0,2,5-7`.

Mirrors: the `--topic` of kafka-consumer-groups, to which ranges are added.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from .options import UserError

if TYPE_CHECKING:
    from ..client.admin.admin import Admin
    from ..protocol.apis.metadata import MetadataResponseTopic
    from ..protocol.topics import TopicPartition

MAX_RANGE = 100_000
EXPECTED = "TOPIC, TOPIC:PARTITION or TOPIC:0,2,5-7"


def parse_place(text: str) -> tuple[str, list[int] | None]:
    """A topic, and its partitions or None for all. Raises UserError."""
    topic, separator, numbers = text.partition(":")
    if not topic or (separator and not numbers):
        raise UserError(f"{text!r} is not {EXPECTED}")
    if not separator:
        return topic, None
    found: list[int] = []
    for part in numbers.split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise UserError(f"{text!r} is not {EXPECTED}")
        end = int(last) if dash else int(first)
        if end - int(first) > MAX_RANGE:
            raise UserError(f"{part!r} is too long a range")
        found += range(int(first), end + 1)
    return topic, found


async def find_topics(admin: Admin, names: Sequence[str] | None) -> list[MetadataResponseTopic]:
    """The named topics (None: all), by name. Raises UserError for one that is not there."""
    from ..protocol.errors import ErrorCode

    answer = await admin.client.metadata(names)
    for topic in answer.topics:
        code = ErrorCode(topic.error_code)
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise UserError(
                f"there is no topic {topic.name!r}; create it with: "
                f"pybroker topics create {topic.name}"
            )
        if code and code != ErrorCode.LEADER_NOT_AVAILABLE:
            admin.client.asks("describe", topic.name or "").check(
                code, None, f"topic {topic.name!r}"
            )
    return sorted(answer.topics, key=lambda topic: topic.name or "")


def partitions_of(topics: Iterable[MetadataResponseTopic]) -> list[TopicPartition]:
    """All partitions of the topics, in order."""
    return sorted(
        (topic.name or "", part.partition_index) for topic in topics for part in topic.partitions
    )


async def find_places(admin: Admin, texts: Sequence[str]) -> list[TopicPartition]:
    """The named partitions; without texts, those of all topics. Raises UserError."""
    wanted = [parse_place(text) for text in texts]
    names = sorted({topic for topic, _ in wanted}) if texts else None
    there = partitions_of(await find_topics(admin, names))
    if not texts:
        return there
    found: list[TopicPartition] = []
    for topic, numbers in wanted:
        mine = [place for place in there if place[0] == topic]
        for number in [n for _, n in mine] if numbers is None else numbers:
            if (topic, number) not in mine:
                raise UserError(f"topic {topic!r} has no partition {number}: it has {len(mine)}")
            found.append((topic, number))
    return sorted(set(found))
