"""The topics of a topology as they are and should be: tasks, and internal topics that are missing.

A subtopology has as many tasks as the largest topic that it reads has partitions. A repartition
topic without a number of its own has as many partitions as the largest input of a subtopology that
writes it, and as the other topics of its copartition group; a changelog topic has as many as its
subtopology has tasks. What cannot be (topics of a copartition group that differ, an internal topic
of another size, source topics that do not exist) is a problem, and no task is assigned.

Mirrors InternalTopicManager, RepartitionTopics, CopartitionedTopicsEnforcer and ChangelogTopics.
Subtopologies and topics are in the order of ids and names, where Kafka has that of hash tables.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from ....protocol.errors import ErrorCode, KafkaError
from ..consumer.topics import TopicImage
from .topology import Subtopology, TopicInfo, Topology

_MAX_NAMED_TOPICS = 3


class Status(IntEnum):
    """What an answer tells about the group; the value is that of the wire."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class Problem(NamedTuple):
    status: Status
    detail: str


class ConfiguredSubtopology(NamedTuple):
    task_count: int
    source_topics: Collection[str]
    repartition_source_topics: Mapping[str, TopicInfo]
    repartition_sink_topics: Collection[str]
    state_changelog_topics: Mapping[str, TopicInfo]


class ConfiguredTopology(NamedTuple):
    """A topology with the sizes of its topics."""

    epoch: int
    # By id, in their order; None with a problem that leaves the sizes open.
    subtopologies: Mapping[str, ConfiguredSubtopology] | None
    # By name.
    missing_topics: Mapping[str, TopicInfo] = {}
    problem: Problem | None = None

    @property
    def is_ready(self) -> bool:
        return self.problem is None


class _WrongTopics(Exception):
    def __init__(self, status: Status, detail: str) -> None:
        super().__init__(detail)
        self.problem = Problem(status, detail)


def configure(topology: Topology, image: TopicImage) -> ConfiguredTopology:
    """What its topics are; raises KafkaError if the topology can never be right."""
    groups = [
        _copartition_group(one, group.source_topics, group.repartition_source_topics)
        for one in topology.by_id.values()
        for group in one.copartition_groups
    ]
    try:
        _check_source_topics(topology, image)
        counts = _partition_counts(topology, image, groups)
        subtopologies = {
            name: _configured(topology.by_id[name], counts) for name in sorted(topology.by_id)
        }
        missing = _missing_topics(subtopologies, topology, image)
    except _WrongTopics as wrong:
        return ConfiguredTopology(topology.epoch, None, problem=wrong.problem)
    problem = None
    if missing:
        detail = f"Internal topics are missing: {_summary(missing)}"
        problem = Problem(Status.MISSING_INTERNAL_TOPICS, detail)
    return ConfiguredTopology(topology.epoch, subtopologies, missing, problem)


def _summary(topics: Iterable[str]) -> str:
    names = sorted(topics)
    more = len(names) - _MAX_NAMED_TOPICS
    text = ", ".join(names[:_MAX_NAMED_TOPICS])
    return f"{text} and {more} additional topics" if more > 0 else text


def _copartition_group(
    subtopology: Subtopology, sources: Iterable[int], repartition: Iterable[int]
) -> frozenset[str]:
    names = dict(enumerate(subtopology.source_topics))
    others = dict(enumerate(topic.name for topic in subtopology.repartition_source_topics))
    try:
        return frozenset(
            [names[index] for index in sources] + [others[index] for index in repartition]
        )
    except KeyError:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR, "a copartition group names a topic that is not there"
        ) from None


def _check_source_topics(topology: Topology, image: TopicImage) -> None:
    missing = {
        name
        for one in topology.subtopologies
        for name in one.source_topics
        if image.topic_id(name) is None
    }
    if missing:
        detail = f"Source topics {_summary(missing)} are missing."
        raise _WrongTopics(Status.MISSING_SOURCE_TOPICS, detail)


class _Counts:
    """The numbers of partitions: of topics that exist, and decided ones of others."""

    def __init__(self, image: TopicImage) -> None:
        self._image = image
        self.decided: dict[str, int] = {}

    def actual(self, name: str) -> int | None:
        topic_id = self._image.topic_id(name)
        return None if topic_id is None else self._image.partition_count(topic_id)

    def find(self, name: str) -> int | None:
        found = self.actual(name)
        return self.decided.get(name) if found is None else found

    def get(self, name: str) -> int:
        found = self.find(name)
        if found is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"Number of partitions is not set for topic: {name}"
            )
        return found

    def most(self, subtopology: Subtopology) -> int:
        """The largest topic that a subtopology reads."""
        counts = [self.get(name) for name in subtopology.inputs]
        if not counts:
            raise KafkaError(
                ErrorCode.STREAMS_INVALID_TOPOLOGY,
                f"No source topics found for subtopology {subtopology.subtopology_id}",
            )
        return max(counts)


def _partition_counts(
    topology: Topology, image: TopicImage, groups: Iterable[frozenset[str]]
) -> _Counts:
    counts = _Counts(image)
    counts.decided.update(_repartition_counts(topology, counts.find))
    topics = [topic for one in topology.by_id.values() for topic in one.repartition_source_topics]
    fixed = {topic.name for topic in topics if topic.partitions}
    flexible = {topic.name for topic in topics if not topic.partitions}
    for group in groups:
        counts.decided.update(_enforced(group, fixed, flexible, counts))
    changelogs = {
        topic.name: counts.most(one)
        for one in topology.by_id.values()
        for topic in one.state_changelog_topics
    }
    for one in topology.by_id.values():
        counts.most(one)  # each reads something
    counts.decided.update(changelogs)
    return counts


def _repartition_counts(topology: Topology, find: Callable[[str], int | None]) -> dict[str, int]:
    """The numbers of all repartition topics, from the topics that are read where they are written;
    these may be repartition topics themselves."""
    subtopologies = topology.by_id.values()
    found = {
        topic.name: topic.partitions
        for one in subtopologies
        for topic in one.repartition_source_topics
        if topic.partitions
    }
    is_open = True
    while is_open:
        is_open = has_progress = False
        for one in subtopologies:
            for sink in one.repartition_sink_topics:
                if sink in found:
                    continue
                inputs = [found.get(topic.name) for topic in one.repartition_source_topics]
                inputs += map(find, one.source_topics)
                known = [count for count in inputs if count is not None]
                if known:
                    found[sink] = max(known)
                    has_progress = True
                else:
                    is_open = True
        if is_open and not has_progress:
            raise KafkaError(
                ErrorCode.STREAMS_INVALID_TOPOLOGY,
                "Failed to compute number of partitions for all repartition topics. There may be "
                "loops in the topology that cannot be resolved.",
            )
    for one in subtopologies:
        if any(topic.name not in found for topic in one.repartition_source_topics):
            raise KafkaError(
                ErrorCode.STREAMS_INVALID_TOPOLOGY,
                "Failed to compute number of partitions for all repartition topics, because a "
                "repartition source topic is never used as a sink topic.",
            )
    return found


def _enforced(
    group: frozenset[str], fixed: Collection[str], flexible: Collection[str], counts: _Counts
) -> dict[str, int]:
    """The number of partitions that all repartition topics of a copartition group have."""
    if not group:
        return {}
    repartition = {
        name: counts.get(name) for name in sorted(group) if name in fixed or name in flexible
    }
    others = {name: counts.get(name) for name in sorted(group) if name not in repartition}
    if others:
        number = _same(others, others)
    elif fixed:
        # All of the topology, as in Kafka.
        number = _same({name: counts.get(name) for name in sorted(fixed)}, repartition)
    else:
        number = max(repartition.values())
    for name, count in repartition.items():
        if name in fixed and count != number:
            raise _WrongTopics(
                Status.INCORRECTLY_PARTITIONED_TOPICS,
                f"Number of partitions [{count}] of repartition topic [{name}] doesn't match "
                f"number of partitions [{number}] of the source topic.",
            )
    return dict.fromkeys(repartition, number)


def _same(counts: Mapping[str, int], named: Mapping[str, int]) -> int:
    """The one number of partitions that these have."""
    if len(set(counts.values())) > 1:
        text = ", ".join(f"{name}={named[name]}" for name in sorted(named))
        raise _WrongTopics(
            Status.INCORRECTLY_PARTITIONED_TOPICS,
            f"Following topics do not have the same number of partitions: [{{{text}}}]",
        )
    return next(iter(counts.values()))


def _configured(subtopology: Subtopology, counts: _Counts) -> ConfiguredSubtopology:
    return ConfiguredSubtopology(
        counts.most(subtopology),
        frozenset(subtopology.source_topics),
        _sized(subtopology.repartition_source_topics, counts),
        frozenset(subtopology.repartition_sink_topics),
        _sized(subtopology.state_changelog_topics, counts),
    )


def _sized(topics: Iterable[TopicInfo], counts: _Counts) -> dict[str, TopicInfo]:
    found = {}
    for topic in topics:
        count = topic.partitions or counts.decided[topic.name]
        if count <= 0:
            problem = f"Number of partitions of {topic.name} must be at least 1."
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, problem)
        found[topic.name] = topic._replace(partitions=count)
    return found


def _missing_topics(
    subtopologies: Mapping[str, ConfiguredSubtopology], topology: Topology, image: TopicImage
) -> dict[str, TopicInfo]:
    wanted: dict[str, TopicInfo] = {}
    for one in subtopologies.values():
        wanted.update(one.repartition_source_topics)
        wanted.update(one.state_changelog_topics)
    for name in sorted(topology.topics & wanted.keys()):
        topic_id = image.topic_id(name)
        if topic_id is None:
            continue
        expected, count = wanted.pop(name).partitions, image.partition_count(topic_id)
        if count != expected:
            raise _WrongTopics(
                Status.INCORRECTLY_PARTITIONED_TOPICS,
                f"Existing topic {name} has different number of partitions: expected {expected}, "
                f"found {count}",
            )
    return {name: wanted[name] for name in sorted(wanted)}
