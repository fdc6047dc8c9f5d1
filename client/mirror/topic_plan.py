"""Plans the changes that bring the source's topics to the target; pure.

Partitions are added and never removed; a topic is created once, and not deleted. A config is copied
unless it is the source's default (then `use.defaults.from` selects the default of the target or the
source), read-only, secret, or from a broker's file.
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

# For topics created together: the first ones exist soon, and all of them after few requests.
FIRST_PARTITIONS: Final = 2
MOST_PARTITIONS: Final = 128


class OwnTopic(NamedTuple):
    """A topic that the mirror itself needs."""

    name: str
    replication_factor: int
    partitions: int = 1


def own_topics(flow: FlowSettings) -> tuple[list[OwnTopic], list[OwnTopic]]:
    """The mirror's own topics at the source, and those at the target."""
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
    """Topics by name at the source: partition counts to create them with, or to grow them to."""

    to_create: dict[str, int]
    to_grow: dict[str, int]
    copied: list[TopicPartition]  # partitions that exist at both ends


def plan_topics(
    flow: FlowSettings, source: Mapping[str, int], target: Mapping[str, int]
) -> TopicPlan:
    """The plan for the partition counts of all topics at both ends."""
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
    """The configs to create a topic with."""
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
    """The alterations that give the target's topic the source's configs."""
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
    """Principals that may read at the source may read at the target; only the mirror may write
    there.

    Only ACLs of single topics with a literal name are used.
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
    """Topics with their partition counts, in portions by name; each portion has up to twice as many
    partitions as the one before, within a limit that only a single topic may exceed."""
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
