"""The topology of a Streams application: its subtopologies, with their topics.

It is a value, sent by the first member and kept in a record. Topics of a copartition group must
have the same number of partitions; the group names them by their places in the subtopology's lists.

Mirrors StreamsTopology.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple


class TopicInfo(NamedTuple):
    """An internal topic of the application."""

    name: str
    # 0: as many as its subtopology, or the one that writes it, has tasks.
    partitions: int = 0
    # 0: the cluster's default.
    replication_factor: int = 0
    configs: tuple[tuple[str, str], ...] = ()


class CopartitionGroup(NamedTuple):
    source_topics: tuple[int, ...] = ()
    source_topic_regex: tuple[int, ...] = ()
    repartition_source_topics: tuple[int, ...] = ()


class Subtopology(NamedTuple):
    """A part of the topology whose tasks are independent: what it reads, writes and keeps."""

    subtopology_id: str
    source_topics: tuple[str, ...] = ()
    source_topic_regex: tuple[str, ...] = ()
    state_changelog_topics: tuple[TopicInfo, ...] = ()
    repartition_sink_topics: tuple[str, ...] = ()
    repartition_source_topics: tuple[TopicInfo, ...] = ()
    copartition_groups: tuple[CopartitionGroup, ...] = ()

    @property
    def inputs(self) -> Iterator[str]:
        """The topics that it reads."""
        yield from self.source_topics
        for topic in self.repartition_source_topics:
            yield topic.name


class Topology:
    """Equal to one with the same subtopologies in any order."""

    def __init__(self, epoch: int, subtopologies: tuple[Subtopology, ...]) -> None:
        self.epoch = epoch
        # As they were sent.
        self.subtopologies = subtopologies

    def __repr__(self) -> str:
        return f"Topology({self.epoch}, {self.subtopologies!r})"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Topology) and self.epoch == other.epoch and self.by_id == other.by_id
        )

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def by_id(self) -> Mapping[str, Subtopology]:
        return {one.subtopology_id: one for one in self.subtopologies}

    @cached_property
    def readers(self) -> Mapping[str, Subtopology]:
        """The subtopology that reads a topic, by its name."""
        return {topic: one for one in self.subtopologies for topic in one.inputs}

    @cached_property
    def topics(self) -> frozenset[str]:
        """All topics that it needs."""
        changelogs = (
            topic.name for one in self.subtopologies for topic in one.state_changelog_topics
        )
        return frozenset(self.readers) | frozenset(changelogs)


def topology_of(message: Any) -> Topology:
    """The topology in a request or a record."""
    return Topology(message.epoch, tuple(map(_subtopology, message.subtopologies)))


def _subtopology(message: Any) -> Subtopology:
    return Subtopology(
        message.subtopology_id,
        tuple(message.source_topics),
        tuple(message.source_topic_regex),
        tuple(map(_topic_info, message.state_changelog_topics)),
        tuple(message.repartition_sink_topics),
        tuple(map(_topic_info, message.repartition_source_topics)),
        tuple(
            CopartitionGroup(
                tuple(group.source_topics),
                tuple(group.source_topic_regex),
                tuple(group.repartition_source_topics),
            )
            for group in message.copartition_groups
        ),
    )


def _topic_info(message: Any) -> TopicInfo:
    return TopicInfo(
        message.name,
        message.partitions,
        message.replication_factor,
        tuple((config.key, config.value) for config in message.topic_configs),
    )
