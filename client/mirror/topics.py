"""Brings the source's topics to the target: creates, grows, configures, and gives read ACLs.

`topic_plan` decides; this module sends the requests. Refusals are reported, and retried in the next
round; other topics are not affected.
Mirrors: MirrorSourceConnector.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import TypeVar

import trio

from ...protocol.apis.describe_acls import DescribeAclsRequest
from ...protocol.errors import ErrorCode
from ...protocol.topics import TopicPartition
from ..admin.acls import Acls
from ..admin.configs import ConfigEntry, ConfigResource, Configs, ResourceKind
from ..admin.results import Results
from ..admin.topics import NewTopic, Topics
from ..cluster import Cluster, retrying
from ..errors import Refused
from .settings import FlowSettings
from .topic_plan import (
    TOPIC,
    OwnTopic,
    config_changes,
    created_configs,
    plan_topics,
    portions,
    target_acls,
)

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

TOPICS_AT_ONCE = 25  # whose configs are asked for
ANY = 1  # in filters of ACLs


class TopicKeeper:
    """The topics of one flow. Each method raises ClientError if a cluster does not answer."""

    def __init__(
        self, flow: FlowSettings, source: Cluster, target: Cluster, report: Callable[[str], None]
    ) -> None:
        self._flow = flow
        self.source, self.target = source, target
        self._report = report
        self._told: set[str] = set()
        self._is_looked_at = trio.Event()  # set once the first refresh has ended
        self.copied: list[TopicPartition] = []  # partitions that exist at both ends

    async def refresh(self, on_news: Callable[[list[TopicPartition]], Awaitable[None]]) -> None:
        """Create and grow the target's topics; `on_news` is called with the partitions that can be
        copied, also while topics are being created."""
        flow = self._flow
        counts: dict[Cluster, dict[str, int]] = {}

        async def count(cluster: Cluster) -> None:
            counts[cluster] = await _partition_counts(cluster)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(count, self.source)
            nursery.start_soon(count, self.target)
        source, there = counts[self.source], counts[self.target]

        async def report() -> None:
            self.copied = plan_topics(flow, source, there).copied
            await on_news(self.copied)

        plan = plan_topics(flow, source, there)
        await report()
        async with trio.open_nursery() as nursery:
            ready, to_create = trio.open_memory_channel[list[NewTopic]](0)
            nursery.start_soon(self._describe, plan.to_create, ready)
            async for topics in to_create:
                there.update(await self._create(topics))
                await report()
        if plan.to_grow:
            there.update(await self._grow(plan.to_grow))
            await report()
        self._is_looked_at.set()

    async def _describe(
        self, counts: Mapping[str, int], ready: trio.MemorySendChannel[list[NewTopic]]
    ) -> None:
        """Send the missing topics to `ready`, as the target is to create them."""
        flow = self._flow
        async with ready:
            for some in portions(counts):
                configs = await self._configs(self.source, list(some))
                topics = [
                    NewTopic(
                        flow.remote(topic),
                        count,
                        flow.replication_factor,
                        configs=created_configs(flow, configs.get(topic, ())),
                    )
                    for topic, count in some.items()
                ]
                await ready.send(topics)

    async def _create(self, topics: Sequence[NewTopic]) -> dict[str, int]:
        """Create topics; returns the partition counts of those that were created."""
        results = await Topics(self.target).create(topics)
        self._tell_errors(results, but=ErrorCode.TOPIC_ALREADY_EXISTS)
        return {topic.name: topic.partitions for topic in topics if topic.name in results.values}

    async def _grow(self, counts: Mapping[str, int]) -> dict[str, int]:
        """Like `_create`, once a broker's metadata has the new partitions."""
        totals = {self._flow.remote(topic): count for topic, count in counts.items()}
        results = await Topics(self.target).add_partitions(totals)
        self._tell_errors(results, but=ErrorCode.INVALID_PARTITIONS)
        left = {name: totals[name] for name in results.values}
        async for _ in retrying():
            found = (await self.target.metadata(sorted(left))).topics
            known = {one.name or "": len(one.partitions) for one in found}
            if all(known.get(name, 0) >= count for name, count in left.items()):
                return left
        return {}

    async def sync_configs(self) -> int:
        """Copy the configs of the copied topics; returns the number of topics changed."""
        await self._is_looked_at.wait()
        flow = self._flow
        changed = 0
        for some in _portions(sorted({topic for topic, _ in self.copied})):
            ours = await self._configs(self.source, some)
            theirs = await self._configs(self.target, [flow.remote(topic) for topic in some])
            changes = {
                ConfigResource(ResourceKind.TOPIC, remote): found
                for topic in some
                if (remote := flow.remote(topic)) in theirs
                and (found := config_changes(flow, ours.get(topic, ()), theirs[remote]))
            }
            if changes:
                self._tell_errors(await Configs(self.target).alter(changes))
                changed += len(changes)
        return changed

    async def sync_acls(self) -> None:
        """Copy the ACLs of the copied topics."""
        wanted = DescribeAclsRequest(
            resource_type_filter=TOPIC,
            resource_name_filter=None,
            pattern_type_filter=ANY,
            principal_filter=None,
            host_filter=None,
            operation=ANY,
            permission_type=ANY,
        )
        try:
            found = await Acls(self.source).list(wanted)
            acls = target_acls(self._flow, found)
            if acls:
                await Acls(self.target).create(acls)
        except Refused as error:
            if error.code is not ErrorCode.SECURITY_DISABLED:
                self._tell_once(str(error))

    async def _configs(
        self, cluster: Cluster, topics: Sequence[str]
    ) -> dict[str, tuple[ConfigEntry, ...]]:
        resources = [ConfigResource(ResourceKind.TOPIC, topic) for topic in topics]
        results = await Configs(cluster).describe(resources)
        self._tell_errors(results, but=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return {resource.name: found for resource, found in results.values.items()}

    def _tell_errors(self, results: Results[K, V], but: ErrorCode | None = None) -> None:
        for error in results.errors.values():
            if error.code is not but:
                self._tell_once(str(error))

    def _tell_once(self, line: str) -> None:
        if line not in self._told:
            self._told.add(line)
            self._report(line)


async def create_own(cluster: Cluster, topics: Sequence[OwnTopic]) -> set[str]:
    """Create the mirror's own topics that are missing, compacted; returns their names. Raises
    ClientError."""
    configs = {"cleanup.policy": "compact"}
    made = [NewTopic(name, count, factor, configs=configs) for name, factor, count in topics]
    results = await Topics(cluster).create(made)
    for error in results.errors.values():
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise error
    return set(results.values)


async def partition_count(cluster: Cluster, topic: str) -> int:
    """The partitions of a topic that may have been created just now. Raises ClientError."""
    return len((await cluster.led_topic(topic, wait_for_missing=True)).partitions)


async def _partition_counts(cluster: Cluster) -> dict[str, int]:
    answer = await cluster.metadata(None)
    return {topic.name or "": len(topic.partitions) for topic in answer.topics}


def _portions(names: Sequence[str]) -> list[Sequence[str]]:
    return [names[at : at + TOPICS_AT_ONCE] for at in range(0, len(names), TOPICS_AT_ONCE)]
