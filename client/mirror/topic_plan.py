"""What has to be done at the target so that it has the source's topics; pure.

Partitions are added and never taken away; a topic is created once, and not deleted. A config is
brought over unless it is the source's own default (then the target's default counts, or, as
`use.defaults.from` says, the source's), is read-only, secret, or of a broker's file.
Mirrors: MirrorSourceConnector.computeAndCreateTopicPartitions, targetConfig, targetAclBinding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from ...protocol.topics import TopicPartition
from ..admin.acls import Acl
from ..admin.configs import Alteration, ConfigEntry, ConfigOperation, ConfigSource
from .policies import HEARTBEATS
from .settings import NEVER, FlowSettings

TOPIC: Final = 2  # the numbers are those of the wire
LITERAL: Final = 3
ALL_OPERATIONS: Final = 2
READ: Final = 3
WRITE: Final = 4
ALLOW: Final = 3

# Of topics that are created at once: the first are there soon, and all of them after few requests.
FIRST_PARTITIONS: Final = 2
MOST_PARTITIONS: Final = 128


class OwnTopic(NamedTuple):
    """One that the mirror itself needs."""

    name: str
    replication_factor: int
    partitions: int = 1


def own_topics(flow: FlowSettings) -> tuple[list[OwnTopic], list[OwnTopic]]:
    """Those at the source, and those at the target."""
    at_source: list[OwnTopic] = []
    at_target: list[OwnTopic] = []
    if flow.copies:
        at_target.append(
            OwnTopic(flow.positions_topic, flow.positions_factor, flow.positions_partitions)
        )
        if flow.emits_syncs:
            place = at_source if flow.syncs_at_source else at_target
            place.append(OwnTopic(flow.syncs_topic, flow.syncs_factor))
            if flow.checkpoints != NEVER:
                checkpoints = flow.policy.checkpoints_topic(flow.source.alias)
                at_target.append(OwnTopic(checkpoints, flow.checkpoints_factor))
    if flow.heartbeats != NEVER:
        at_target.append(OwnTopic(HEARTBEATS, flow.heartbeats_factor))
    return at_source, at_target


class TopicPlan(NamedTuple):
    """By names at the source: numbers of partitions to create topics with, or to grow them to."""

    to_create: dict[str, int]
    to_grow: dict[str, int]
    copied: list[TopicPartition]  # those that are there at both ends


def plan_topics(
    flow: FlowSettings, source: Mapping[str, int], target: Mapping[str, int]
) -> TopicPlan:
    """From the numbers of partitions of all topics at both ends."""
    to_create: dict[str, int] = {}
    to_grow: dict[str, int] = {}
    copied: list[TopicPartition] = []
    for topic, count in sorted(source.items()):
        if not flow.wants(topic):
            continue
        there = target.get(flow.remote(topic), 0)
        if not there:
            to_create[topic] = count
        elif there < count:
            to_grow[topic] = count
        copied += [(topic, number) for number in range(min(there, count))]
    return TopicPlan(to_create, to_grow, copied)


def created_configs(flow: FlowSettings, entries: Iterable[ConfigEntry]) -> dict[str, str]:
    """Those that a topic is created with."""
    return {
        entry.name: entry.value
        for entry in entries
        if entry.value is not None
        and _is_brought(flow, entry)
        and (entry.source is not ConfigSource.DEFAULT or flow.uses_source_defaults)
    }


def config_changes(
    flow: FlowSettings, source: Iterable[ConfigEntry], target: Iterable[ConfigEntry]
) -> list[Alteration]:
    """What makes a topic's configs those of the source."""
    there = {entry.name: entry for entry in target}
    changes = []
    for entry in source:
        known = there.get(entry.name)
        if known is None or not _is_brought(flow, entry):
            continue
        if entry.source is ConfigSource.DEFAULT and not flow.uses_source_defaults:
            if known.source is ConfigSource.TOPIC:
                changes.append(Alteration(entry.name, ConfigOperation.DELETE, None))
        elif entry.value is not None and entry.value != known.value:
            changes.append(Alteration(entry.name, ConfigOperation.SET, entry.value))
    return changes


def _is_brought(flow: FlowSettings, entry: ConfigEntry) -> bool:
    return (
        not entry.is_read_only
        and not entry.is_sensitive
        and entry.source is not ConfigSource.STATIC_BROKER
        and flow.configs(entry.name)
    )


def target_acls(flow: FlowSettings, acls: Sequence[Acl]) -> list[Acl]:
    """Who may read at the source may at the target; nobody may write there but the mirror.

    Only ACLs of single topics by their whole name are looked at.
    """
    found = []
    for acl in acls:
        if acl.resource_type != TOPIC or acl.pattern_type != LITERAL:
            continue
        is_allowed = acl.permission == ALLOW
        if (is_allowed and acl.operation == WRITE) or not flow.wants(acl.resource_name):
            continue
        operation = READ if is_allowed and acl.operation == ALL_OPERATIONS else acl.operation
        found.append(
            Acl(
                resource_type=TOPIC,
                resource_name=flow.remote(acl.resource_name),
                pattern_type=LITERAL,
                principal=acl.principal,
                host=acl.host,
                operation=operation,
                permission=acl.permission,
            )
        )
    return found


def portions(counts: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Topics with their numbers of partitions, by name; each time twice as many partitions, up to a
    limit that only a single topic goes beyond."""
    most = FIRST_PARTITIONS
    some: dict[str, int] = {}
    for topic, count in sorted(counts.items()):
        if some and sum(some.values()) + count > most:
            yield some
            some = {}
            most = min(2 * most, MOST_PARTITIONS)
        some[topic] = count
    if some:
        yield some
