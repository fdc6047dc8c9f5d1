"""A member of a share group that acquires records, over the package's own client."""

from __future__ import annotations

from typing import Any

from pybroker_kafka.client.admin.admin import Admin
from pybroker_kafka.client.admin.config_types import (
    Alteration,
    ConfigOperation,
    ConfigResource,
    ResourceKind,
)
from pybroker_kafka.client.cluster import Cluster, CoordinatorKind
from pybroker_kafka.protocol.api import API_TABLE, ApiKey
from pybroker_kafka.protocol.apis.share_fetch import (
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
    ShareFetchResponse,
)
from pybroker_kafka.protocol.apis.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from tests.support.patience import eventually

MEMBER = "AAAAAAAAAAAAAAAAAAAAAQ"
MAX_BYTES = 1 << 20


async def set_config(cluster: Cluster, kind: ResourceKind, name: str, **values: str) -> None:
    """Names of configs with underscores in the place of dots."""
    changes = [
        Alteration(key.replace("_", "."), ConfigOperation.SET, value)
        for key, value in values.items()
    ]
    (await Admin(cluster).configs.alter({ConfigResource(kind, name): changes})).all()


class ShareMember:
    def __init__(self, cluster: Cluster, group: str, topic: str, member: str = MEMBER) -> None:
        self._cluster = cluster
        self._group = group
        self._topic = topic
        self._member = member
        self._epoch = 0
        self._sessions: dict[int, int] = {}  # by broker: the next epoch
        self.assigned: dict[bytes, list[int]] = {}

    async def heartbeat(self) -> None:
        connection = await self._cluster.coordinator(CoordinatorKind.GROUP, self._group)
        request = ShareGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self._member,
            member_epoch=self._epoch,
            subscribed_topic_names=[self._topic] if self._epoch == 0 else None,
        )
        answer = await connection.request(
            ApiKey.SHARE_GROUP_HEARTBEAT,
            request,
            ShareGroupHeartbeatResponse,
            newest=API_TABLE[ApiKey.SHARE_GROUP_HEARTBEAT].max_version,
        )
        assert answer.error_code == 0, answer
        self._epoch = answer.member_epoch
        if answer.assignment is not None:
            self.assigned = {
                one.topic_id: list(one.partitions) for one in answer.assignment.topic_partitions
            }

    async def joined(self, partitions: int) -> None:
        async def is_assigned() -> bool:
            await self.heartbeat()
            return sum(map(len, self.assigned.values())) == partitions

        await eventually(is_assigned)

    async def acquire(self, records: int) -> int:
        """Records that the member has now, of one look at each of its partitions."""
        metadata = await self._cluster.metadata([self._topic])
        leaders = {p.partition_index: p.leader_id for p in metadata.topics[0].partitions}
        acquired = 0
        for broker in sorted(set(leaders.values())):
            topics = [
                FetchTopic(
                    topic_id=topic_id,
                    partitions=[
                        FetchPartition(partition_index=n) for n in mine if leaders[n] == broker
                    ],
                )
                for topic_id, mine in self.assigned.items()
            ]
            answer: Any = await self._fetch(broker, topics, records)
            acquired += sum(
                some.last_offset - some.first_offset + 1
                for topic in answer.responses
                for part in topic.partitions
                for some in part.acquired_records
            )
        return acquired

    async def _fetch(self, broker: int, topics: list[FetchTopic], records: int) -> object:
        epoch = self._sessions.get(broker, 0)
        self._sessions[broker] = epoch + 1
        request = ShareFetchRequest(
            group_id=self._group,
            member_id=self._member,
            share_session_epoch=epoch,
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=MAX_BYTES,
            max_records=records,
            batch_size=records,
            topics=topics,
        )
        connection = await self._cluster.connection(broker)
        return await connection.request(
            ApiKey.SHARE_FETCH,
            request,
            ShareFetchResponse,
            newest=API_TABLE[ApiKey.SHARE_FETCH].max_version,
        )
