"""The share partitions of a group whose states are kept, or on their way.

Mirrors ShareGroupStatePartitionMetadataInfo.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from ..consumer.assignment import Assignment


class TopicStates(NamedTuple):
    name: str
    partitions: frozenset[int]


Topics = Mapping[bytes, TopicStates]  # by topic id, never without partitions


class States(NamedTuple):
    """Partitions whose states begin, or are there, and topics whose states are being deleted."""

    initializing: Topics = {}
    initialized: Topics = {}
    deleting: Mapping[bytes, str] = {}  # names by topic id


class SetStates(NamedTuple):
    """A change of the group, as in `consumer.changes`."""

    value: States | None


NO_STATES: Final = States()


def with_topics(topics: Topics, more: Topics) -> Topics:
    found = dict(topics)
    for topic_id, topic in more.items():
        known = found.get(topic_id, topic)
        found[topic_id] = TopicStates(known.name, known.partitions | topic.partitions)
    return found


def without(topics: Topics, partitions: Assignment) -> Topics:
    found = {}
    for topic_id, topic in topics.items():
        left = topic.partitions - partitions.get(topic_id, frozenset())
        if left:
            found[topic_id] = topic._replace(partitions=left)
    return found
