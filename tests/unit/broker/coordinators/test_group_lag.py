"""How far a group is behind, as two brokers with the partitions between them export it."""

from __future__ import annotations

import re
from pathlib import Path

import trio

from pybroker_kafka import Consumer, Producer
from pybroker_kafka.client.admin.topics import create_topic
from pybroker_kafka.client.cluster import Cluster
from tests.support.in_process import RunningBroker, broker, zookeeper

PARTITIONS = 4


async def scraped(port: int | None) -> str:
    assert port is not None
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(b"GET /metrics HTTP/1.1\r\n\r\n")
        return b"".join([chunk async for chunk in stream]).decode()


async def lags(*brokers: RunningBroker) -> dict[str, float]:
    """By labels, of all brokers."""
    texts = [await scraped(one.bound.metrics_port) for one in brokers]
    found = re.findall(
        r'^kafka_consumergroup_(\w+)\{consumergroup="g"(?:,topic="(\w+)")?(?:,partition="(\d)")?\}'
        r" (\d+)$",
        "\n".join(texts),
        re.MULTILINE,
    )
    assert len(found) == len({row[:3] for row in found})  # one broker exports a group
    return {" ".join(filter(None, row[:3])): float(row[3]) for row in found}


async def test_lag_of_partitions_here_and_elsewhere(tmp_path: Path) -> None:
    small = {"offsets_topic_replication_factor": "1", "offsets_topic_num_partitions": "1"}
    async with (
        zookeeper() as port,
        broker(port, tmp_path / "1", 0, broker_id="1", **small) as one,
        broker(port, tmp_path / "2", 0, broker_id="2", **small) as two,
    ):
        bootstrap = f"127.0.0.1:{one.port}"
        async with Cluster(bootstrap) as cluster:
            await create_topic(cluster, "orders", partitions=PARTITIONS, replication_factor=1)
        async with Producer(bootstrap) as producer:
            for partition in range(PARTITIONS):
                for _ in range(10):
                    await producer.enqueue("orders", b"x", partition=partition)
        async with Consumer(bootstrap, group_id="g") as consumer:
            keys = [("orders", partition) for partition in range(PARTITIONS)]
            await consumer.commit({key: 3 + key[1] for key in keys})
        assert await lags(one, two) == {
            **{f"current_offset orders {p}": 3 + p for p in range(PARTITIONS)},
            **{f"lag orders {p}": 7 - p for p in range(PARTITIONS)},
            "lag_sum orders": 7 + 6 + 5 + 4,
            "members": 0,
        }
        # Whoever leads is asked at each scrape: of a broker that is gone nothing is known.
        coordinator, other = (one, two) if await lags(one) else (two, one)
        await other.stop()
        left = await lags(coordinator)
        assert len([name for name in left if name.startswith("current_offset ")]) == PARTITIONS
        assert len([name for name in left if name.startswith("lag ")]) == PARTITIONS // 2
