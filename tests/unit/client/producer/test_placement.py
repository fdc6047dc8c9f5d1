"""Topics are asked for once, and not at all while what the cluster knows is new enough."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import memory_stream_pair

from pybroker_kafka import ClientError, Cluster, Producer
from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.api_versions import ApiVersion, ApiVersionsResponse
from pybroker_kafka.protocol.apis.init_producer_id import InitProducerIdResponse
from pybroker_kafka.protocol.apis.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.support.broker_streams import answer_requests

NEWEST = {ApiKey.API_VERSIONS: 3, ApiKey.METADATA: 12, ApiKey.INIT_PRODUCER_ID: 4}
PARTITIONS = {"t": 2, "u": 1}


async def answer(asked: list[list[str]], key: ApiKey, _version: int, body: Any) -> Any:
    if key is ApiKey.API_VERSIONS:
        return ApiVersionsResponse(
            api_keys=[ApiVersion(api_key=k, max_version=v) for k, v in NEWEST.items()]
        )
    if key is ApiKey.INIT_PRODUCER_ID:
        return InitProducerIdResponse(producer_id=1)
    names = [one.name for one in body.topics]
    asked.append(names)
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=1, host="one", port=1)],
        topics=[
            MetadataResponseTopic(
                name=name,
                partitions=[
                    MetadataResponsePartition(partition_index=n, leader_id=1)
                    for n in range(PARTITIONS[name])
                ],
            )
            for name in names
        ],
    )


async def test_a_cluster_that_knows_is_not_asked(nursery: trio.Nursery) -> None:
    asked: list[list[str]] = []

    async def reach(_host: str, _port: int) -> trio.abc.Stream:
        ours, theirs = memory_stream_pair()
        nursery.start_soon(answer_requests, theirs, partial(answer, asked))
        return ours

    with trio.fail_after(120):
        async with Cluster("one:1", network=reach) as cluster, Producer(cluster) as producer:
            await cluster.metadata(["t", "u"])
            assert [await producer.prepare("t"), await producer.prepare("u")] == [2, 1]
            assert asked == [["t", "u"]]
            with pytest.raises(ClientError, match="no partition 2"):  # it may have grown since
                await producer.enqueue_batch("t", 2, bytearray(100), 1)
            assert asked[1:] == [["t"]]
