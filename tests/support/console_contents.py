"""What a cluster holds for the console to show: records of many kinds, offsets, many topics."""

from __future__ import annotations

import time

import trio

from pybroker_kafka.client.admin.admin import Admin
from pybroker_kafka.client.admin.group_offsets import CommittedOffset
from pybroker_kafka.client.admin.topics import NewTopic
from pybroker_kafka.client.cluster import Cluster
from pybroker_kafka.client.producer.producer import Producer
from pybroker_kafka.protocol.records.record import SimpleRecord

# Topics of one request, which a busy machine creates within its limit, too.
AT_ONCE = 100
LARGE = b"0123456789" * 1_000_000


async def fill_segments(bootstrap: str, topic: str) -> None:
    async with Producer(bootstrap) as producer:
        for number in range(5):
            await producer.send(topic, bytes(150), key=b"%d" % (number % 2))


async def send_shapes(bootstrap: str, topic: str) -> None:
    """By Protobuf's schema, a tombstone, by a schema that there is not, and 10 MB."""
    protobuf = b"\0\0\0\0\3" + b"\4\0\0" + b"\n\x0bby-protobuf"
    async with Producer(bootstrap, max_request_size=12_000_000) as producer:
        for key, value in (
            (b"one", protobuf),
            (b"one", None),
            (b"two", b"\0\0\0\0\x63?"),
            (b"large", LARGE),
        ):
            await producer.send(topic, value, key=key)


async def send_order(bootstrap: str, value: bytes) -> None:
    async with Producer(bootstrap) as producer:
        await producer.send("orders", value)


def send_to_each(bootstrap: str) -> None:
    """A record to each partition of `orders`, and so to each broker."""

    async def send_all() -> None:
        async with Producer(bootstrap) as producer:
            for partition in range(3):
                await producer.send("orders", b"measured", partition=partition)

    trio.run(send_all)


def commit_first(bootstrap: str) -> None:
    """For the group `billing`: nothing of `orders` is read yet."""

    async def commit() -> None:
        async with Cluster(bootstrap) as cluster:
            offsets = {("orders", index): CommittedOffset(0) for index in range(3)}
            (await Admin(cluster).group_offsets.alter("billing", offsets)).all()

    trio.run(commit)


async def make_many(bootstrap: str, topic: str, topics: int, count: int) -> None:
    """So many topics, and so many records in `topic`."""
    async with Cluster(bootstrap) as cluster:
        new = [NewTopic(f"many-{number:04}", 1, 1) for number in range(topics)]
        for begin in range(0, topics, AT_ONCE):
            (await Admin(cluster).topics.create(new[begin : begin + AT_ONCE])).all()
    async with Producer(bootstrap) as producer:
        now_ms = int(time.time() * 1000)
        records = (SimpleRecord(now_ms, None, b"record %d." % n) for n in range(count))
        await producer.send_all(topic, records)
