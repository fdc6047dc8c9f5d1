"""A reassignment from its plan to its end: where replicas go, the throttle, and the progress.

Mirrors: ReassignPartitionsCommand, its throttles included: a rate on the brokers
(leader/follower.replication.throttled.rate) and the replicas concerned on the topics.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import click
import trio

from ..client.admin.rows import place_text
from .target import Row

if TYPE_CHECKING:
    from ..client.admin.admin import Admin
    from ..client.admin.config_types import Alteration
    from ..protocol.topics import TopicPartition

POLL_SECONDS = 0.5
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LEADERS, FOLLOWERS = (
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)


class MovePlan(NamedTuple):
    """Replicas by partition: of all partitions now, and of moving ones at the end."""

    now: Mapping[TopicPartition, list[int]]
    targets: Mapping[TopicPartition, list[int]]

    def topics(self) -> set[str]:
        """The topics of the partitions that move."""
        return {topic for topic, _ in self.targets}

    def rows(self) -> list[Row]:
        """The moves, each with its old and its new replicas."""
        return [
            {"partition": place_text(place), "from": self.now[place], "to": ids}
            for place, ids in sorted(self.targets.items())
        ]


def spread(
    now: Mapping[TopicPartition, Sequence[int]], brokers: Sequence[int]
) -> dict[TopicPartition, list[int]]:
    """As many replicas as there are, over `brokers`, the leaders in turn; replicas stay if they
    may.
    """
    load = dict.fromkeys(brokers, 0)
    leading = dict.fromkeys(brokers, 0)
    targets = {}
    for place, replicas in sorted(now.items()):
        count = min(len(replicas), len(brokers))
        kept = set(replicas)
        by_load = sorted(brokers, key=lambda one: (load[one], one not in kept, brokers.index(one)))
        chosen = by_load[:count]
        chosen.sort(key=lambda one: (leading[one], one not in kept, brokers.index(one)))
        leading[chosen[0]] += 1
        for one in chosen:
            load[one] += 1
        targets[place] = chosen
    return targets


async def throttle(admin: Admin, plan: MovePlan, bytes_per_second: int) -> None:
    """Throttle the brokers and replicas of this plan. Raises ClientError."""
    from ..client.admin.config_types import (
        Alteration,
        ConfigOperation,
        ConfigResource,
        ResourceKind,
    )

    brokers = {one for place, ids in plan.targets.items() for one in (*ids, *plan.now[place])}
    alterations: dict[ConfigResource, list[Alteration]] = {
        ConfigResource(ResourceKind.BROKER, str(broker)): [
            Alteration(key, ConfigOperation.SET, str(bytes_per_second)) for key in RATES
        ]
        for broker in sorted(brokers)
    }
    for topic in sorted(plan.topics()):
        places = [place for place in sorted(plan.targets) if place[0] == topic]
        leaders = [f"{p[1]}:{one}" for p in places for one in plan.now[p]]
        followers = [
            f"{p[1]}:{one}" for p in places for one in plan.targets[p] if one not in plan.now[p]
        ]
        alterations[ConfigResource(ResourceKind.TOPIC, topic)] = [
            Alteration(LEADERS, ConfigOperation.SET, ",".join(leaders)),
            Alteration(FOLLOWERS, ConfigOperation.SET, ",".join(followers)),
        ]
    (await admin.configs.alter(alterations)).all()


async def remove_throttle(admin: Admin, topics: Collection[str]) -> None:
    """Remove the throttle from these topics and all brokers. Raises ClientError."""
    from ..client.admin.config_types import (
        Alteration,
        ConfigOperation,
        ConfigResource,
        ConfigSource,
        ResourceKind,
    )

    configs = admin.configs
    brokers = (await admin.client.metadata([])).brokers
    resources = [ConfigResource(ResourceKind.TOPIC, topic) for topic in sorted(topics)]
    resources += [ConfigResource(ResourceKind.BROKER, str(one.node_id)) for one in brokers]
    found = await configs.describe(resources, names=[*RATES, LEADERS, FOLLOWERS])
    alterations = {
        resource: [
            Alteration(entry.name, ConfigOperation.DELETE, None)
            for entry in entries
            if entry.source in (ConfigSource.TOPIC, ConfigSource.DYNAMIC_BROKER)
        ]
        for resource, entries in found.values.items()
    }
    present = {resource: some for resource, some in alterations.items() if some}
    if present:
        (await configs.alter(present)).all()


async def follow(admin: Admin, plan: MovePlan, *, is_quiet: bool) -> None:
    """Wait until all partitions have moved, with a bar on a terminal. Raises ClientError."""
    total = len(plan.targets)
    if not total:
        return
    is_shown = not is_quiet and sys.stderr.isatty()
    with click.progressbar(
        length=total, label="partitions moved", file=sys.stderr, hidden=not is_shown
    ) as bar:
        done = 0
        while done < total:
            under_way = await admin.partitions.reassignments(plan.targets.keys())
            arrived = total - len(under_way)
            bar.update(max(arrived - done, 0))
            done = max(arrived, done)
            if under_way:
                await trio.sleep(POLL_SECONDS)
    if not is_quiet:
        click.echo(f"{total} partition{'s have' if total != 1 else ' has'} moved", err=True)
