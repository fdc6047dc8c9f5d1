"""A broker in the test's own loop with share groups."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pybroker_kafka.broker import server
from pybroker_kafka.broker.assembly import Parts, assemble
from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.create_topics import CreatableTopic, CreateTopicsRequest
from pybroker_kafka.protocol.apis.find_coordinator import FindCoordinatorRequest
from pybroker_kafka.protocol.apis.share_group_heartbeat import ShareGroupHeartbeatRequest
from pybroker_kafka.protocol.apis.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.features import Feature
from tests.support.in_process import RunningBroker, broker, zookeeper
from tests.support.network import RawClient
from tests.support.patience import eventually

CONFIGS = {
    "share_coordinator_state_topic_replication_factor": "1",
    "share_coordinator_state_topic_min_isr": "1",
    "share_coordinator_state_topic_num_partitions": "2",
    "offsets_topic_replication_factor": "1",
    "offsets_topic_num_partitions": "1",
}


class ShareBroker:
    def __init__(self, running: RunningBroker, client: RawClient, parts: list[Parts]) -> None:
        self.port = running.port
        self.running = running
        self.client = client
        self.parts = parts[0]
        self.all_parts = parts

    async def create_topic(self, name: str, partitions: int = 1) -> bytes:
        """Its id."""
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=60_000)
        answer = await self.client.ask(request, 7)
        assert answer.topics[0].error_code == 0, answer
        topic_id: bytes = answer.topics[0].topic_id
        return topic_id


@asynccontextmanager
async def share_broker(
    monkeypatch: pytest.MonkeyPatch, directory: Path, second_broker: str = "", **configs: str
) -> AsyncIterator[ShareBroker]:
    """`second_broker`: the id of one more broker of its cluster."""
    parts: list[Any] = []

    def kept(*args: Any) -> Any:
        parts.append(assemble(*args))
        return parts[-1]

    monkeypatch.setattr(server, "assemble", kept)
    keys: dict[str, Any] = {**CONFIGS, **configs}
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(zookeeper())
        running = await stack.enter_async_context(broker(port, directory / "first", **keys))
        if second_broker:
            keys["broker_id"] = second_broker
            await stack.enter_async_context(broker(port, directory / "second", **keys))
            cache = parts[0].cache
            await eventually(lambda: cache.is_alive(int(second_broker)))
        client = await running.client()
        await _finalize(client, parts[0])
        if not second_broker:  # which may be the one that coordinates groups
            await eventually(lambda: _serves_groups(client))
        yield ShareBroker(running, client, parts)


async def _finalize(client: RawClient, parts: Parts) -> None:
    updates = [
        FeatureUpdateKey(feature=name, max_version_level=1, upgrade_type=1)
        for name in (Feature.GROUP, Feature.SHARE)
    ]
    request = UpdateFeaturesRequest(feature_updates=updates, timeout_ms=60_000)
    answer = await client.ask(request, 1)
    assert not any(one.error_code for one in answer.results), answer
    served = parts.dispatcher.served
    await eventually(lambda: ApiKey.READ_SHARE_GROUP_STATE in [key for key, _, _ in served()])


async def _serves_groups(client: RawClient) -> bool:
    await client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
    request = ShareGroupHeartbeatRequest(group_id="g", member_id="nobody", member_epoch=-1)
    code: int = (await client.ask(request, 1)).error_code
    return code == ErrorCode.GROUP_ID_NOT_FOUND
