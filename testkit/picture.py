"""The present state of a cluster, in lines: leaders, in-sync replicas, groups.

Nodes that do not answer at once are left out: the picture is taken after a failure.
"""

from __future__ import annotations

import contextlib

import trio

from ..client.cluster import Cluster
from ..client.errors import ClientError
from ..protocol.api import ApiKey
from ..protocol.apis.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ..protocol.apis.list_groups import ListGroupsRequest, ListGroupsResponse
from ..protocol.apis.metadata import MetadataResponsePartition

ANSWER_SECONDS = 1.0
MAX_PARTITIONS = 50
MAX_GROUPS = 20
MAX_MEMBERS = 20


async def take_picture(cluster: Cluster) -> list[str]:
    """A line for each partition of the users' topics, and for each group and member."""
    metadata = await cluster.metadata(None)
    lines = [f"controller: broker {metadata.controller_id}"]
    partitions = [
        f"{topic.name}-{part.partition_index}: {_of_partition(part)}"
        for topic in sorted(metadata.topics, key=lambda one: one.name or "")
        if not topic.is_internal
        for part in sorted(topic.partitions, key=lambda one: one.partition_index)
    ]
    lines += partitions[:MAX_PARTITIONS]
    if len(partitions) > MAX_PARTITIONS:
        lines.append(f"and {len(partitions) - MAX_PARTITIONS} more partitions")
    for broker in metadata.brokers:
        with contextlib.suppress(ClientError), trio.move_on_after(ANSWER_SECONDS):
            lines += await _groups_of(cluster, broker.node_id)
    return lines


def _of_partition(part: MetadataResponsePartition) -> str:
    leader = f"leader {part.leader_id}" if part.leader_id >= 0 else "no leader"
    absent = sorted(set(part.replica_nodes) - set(part.isr_nodes))
    missing = f", out of sync {', '.join(map(str, absent))}" if absent else ""
    return f"{leader}, in sync {', '.join(map(str, part.isr_nodes))}{missing}"


async def _groups_of(cluster: Cluster, broker: int) -> list[str]:
    connection = await cluster.connection(broker)
    listed = await connection.request(ApiKey.LIST_GROUPS, ListGroupsRequest(), ListGroupsResponse)
    names = sorted(group.group_id for group in listed.groups)[:MAX_GROUPS]
    if not names:
        return []
    request = DescribeGroupsRequest(groups=names)
    answer = await connection.request(ApiKey.DESCRIBE_GROUPS, request, DescribeGroupsResponse)
    lines = []
    for group in answer.groups:
        clients = ", ".join(member.client_id for member in group.members[:MAX_MEMBERS])
        lines.append(
            f"group {group.group_id}: {group.group_state}, coordinator {broker}, "
            f"{len(group.members)} members{': ' if clients else ''}{clients}"
        )
    return lines
