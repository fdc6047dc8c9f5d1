"""Other leaders for partitions, as an administrator makes them: preferred first, then elected."""

from __future__ import annotations

import trio

from ..client.cluster import Cluster
from ..client.errors import ClientError
from ..protocol.api import ApiKey
from ..protocol.apis.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ..protocol.apis.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersRequestTopicPartitions,
    ElectLeadersResponse,
)
from .inspection import wait_until

RETRY_SECONDS = 0.05
ELECTION_TIMEOUT_MS = 1_000
PREFERRED = 0


async def move_leader(cluster: Cluster, topic: str, partition: int, to: int) -> None:
    """Make `to` the leader, and wait for it, forever if need be. A broker without a replica gets
    one, instead of the last. Raises ClientError.
    """
    found = await wait_until(cluster, topic, lambda one: len(one.partitions) > partition)
    (part,) = (one for one in found.partitions if one.partition_index == partition)
    count = len(part.replica_nodes)
    others = [broker for broker in part.replica_nodes if broker != to]
    wanted = ReassignablePartition(partition_index=partition, replicas=[to, *others][:count])
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name=topic, partitions=[wanted])]
    )
    answer = await cluster.ask_controller(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS, request, AlterPartitionReassignmentsResponse
    )
    (result,) = answer.responses[0].partitions
    if answer.error_code or result.error_code:
        told = answer.error_message or result.error_message or f"error {result.error_code}"
        raise ClientError(f"{topic}-{partition} cannot be led by broker {to}: {told}")
    while not await _is_led_by(cluster, topic, partition, to):
        election = ElectLeadersRequest(
            election_type=PREFERRED,
            topic_partitions=[
                ElectLeadersRequestTopicPartitions(topic=topic, partitions=[partition])
            ],
            timeout_ms=ELECTION_TIMEOUT_MS,
        )
        await cluster.ask_controller(ApiKey.ELECT_LEADERS, election, ElectLeadersResponse)
        await trio.sleep(RETRY_SECONDS)


async def balance_leaders(cluster: Cluster) -> None:
    """Have the first replica of each partition elected, and wait for it, forever if need be."""
    election = ElectLeadersRequest(
        election_type=PREFERRED, topic_partitions=None, timeout_ms=ELECTION_TIMEOUT_MS
    )
    while any(
        part.leader_id != part.replica_nodes[0]
        for topic in (await cluster.metadata(None)).topics
        for part in topic.partitions
    ):
        await cluster.ask_controller(ApiKey.ELECT_LEADERS, election, ElectLeadersResponse)
        await trio.sleep(RETRY_SECONDS)


async def _is_led_by(cluster: Cluster, topic: str, partition: int, broker: int) -> bool:
    found = await wait_until(cluster, topic, lambda one: len(one.partitions) > partition)
    return any(
        one.partition_index == partition and one.leader_id == broker for one in found.partitions
    )
