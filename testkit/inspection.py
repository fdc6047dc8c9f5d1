"""A test's questions and orders to its cluster: topics, records, leaders, ISR.

All of it goes over the wire, as any client's requests do. A synchronous caller may stand anywhere:
in a thread, in asyncio, in trio, in a notebook's loop; so each question runs in a thread of its
own, with a trio loop that ends with it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import trio

from ..client.admin.topics import create_topic
from ..client.cluster import Cluster
from ..client.errors import ClientError
from ..client.producer.producer import Producer
from ..local.cluster_state import ClusterError
from ..protocol.api import ApiKey
from ..protocol.apis.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ..protocol.apis.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ..protocol.apis.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from ..protocol.errors import ErrorCode
from ..protocol.records.batch import iter_batch_headers, iter_records
from .aborted import aborted_places
from .records import KafkaRecord

POLL_SECONDS = 0.02
VIEW_SECONDS = 1.0  # for one broker's answer: it may be paused
FETCH_WAIT_MS = 100
FETCH_MAX_BYTES = 16 * 1024 * 1024
EARLIEST, LATEST = -2, -1
READ_UNCOMMITTED, READ_COMMITTED = 0, 1

T = TypeVar("T")


class Address(NamedTuple):
    """The address of a cluster, and the login: the settings of Kafka's clients, {} for none."""

    bootstrap: str
    security: Mapping[str, str]


def ask(
    address: Address,
    question: Callable[[Cluster], Awaitable[T]],
    timeout_s: float,
    lack: Callable[[], str] | None = None,
) -> T:
    """The answer to a question; blocks the calling thread. Raises ClusterError, which after the
    timeout says what was lacking: `lack`, "" if that is not known.
    """
    outcome: list[T] = []
    errors: list[BaseException] = []

    async def ask_in_time() -> T:
        with trio.fail_after(timeout_s):
            async with Cluster(address.bootstrap, security=address.security or None) as cluster:
                return await question(cluster)

    def run() -> None:
        try:
            outcome.append(trio.run(ask_in_time))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="pybroker-testing", daemon=True)
    thread.start()
    thread.join()
    if not errors:
        return outcome[0]
    (error,) = errors
    if isinstance(error, trio.TooSlowError):
        lacking = lack() if lack is not None else ""
        text = f"{lacking} after {timeout_s:g} s"
        raise ClusterError(
            text if lacking else f"no answer of the cluster within {timeout_s:g} s"
        ) from None
    if isinstance(error, ClientError):
        raise ClusterError(str(error)) from None
    raise error


async def make_topic(
    cluster: Cluster,
    name: str,
    partitions: int,
    replication_factor: int,
    configs: Mapping[str, str],
) -> bool:
    """Create a topic; then each broker knows it, and it has leaders. False if it exists already."""
    existing = (await cluster.metadata([name])).topics[0]
    if existing.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return False
    await create_topic(
        cluster,
        name,
        partitions=partitions,
        replication_factor=replication_factor,
        configs=configs,
    )
    await cluster.led_topic(name, wait_for_missing=True)
    return True


async def write_records(
    cluster: Cluster,
    topic: str,
    values: Sequence[bytes | None],
    key: bytes | None,
    partition: int | None,
    headers: tuple[tuple[str, bytes | None], ...],
) -> list[KafkaRecord]:
    """Write a record for each value; returned once all in-sync replicas have them."""
    async with Producer(cluster, linger_ms=0) as producer:
        deliveries = [
            await producer.enqueue(topic, value, key=key, partition=partition, headers=headers)
            for value in values
        ]
        written = [await delivery.wait() for delivery in deliveries]
    return [
        KafkaRecord(topic, one.partition, one.offset, one.timestamp_ms, key, value, headers)
        for one, value in zip(written, values, strict=True)
    ]


async def controller(cluster: Cluster, running: set[int]) -> int:
    """The id of the controller, once one of these is; waits forever, if need be."""
    while (found := (await cluster.metadata([])).controller_id) not in running:  # noqa: ASYNC110
        await trio.sleep(POLL_SECONDS)
    return found


async def wait_until(
    cluster: Cluster, topic: str, condition: Callable[[MetadataResponseTopic], bool]
) -> MetadataResponseTopic:
    """Wait until the topic meets the condition in the metadata of each answering broker that is not
    behind; forever, if need be.
    """
    while True:
        views = await _views(cluster, topic)
        newest = max(map(_age, views), default=0)
        current = [view for view in views if _age(view) == newest]
        if current and all(map(condition, current)):
            return current[0]
        await trio.sleep(POLL_SECONDS)


async def wait_for_brokers(cluster: Cluster, wanted: set[int]) -> None:
    """Wait until each of these brokers knows these and no others; forever, if need be."""
    request = MetadataRequest(topics=[])
    while True:
        agreed = 0
        with contextlib.suppress(ClientError), trio.move_on_after(VIEW_SECONDS):
            await cluster.metadata([])
            for broker in wanted:
                connection = await cluster.connection(broker)
                answer = await connection.request(ApiKey.METADATA, request, MetadataResponse)
                agreed += {one.node_id for one in answer.brokers} == wanted
        if agreed == len(wanted):
            return
        await trio.sleep(POLL_SECONDS)


async def _views(cluster: Cluster, topic: str) -> list[MetadataResponseTopic]:
    """The topic in each broker's metadata; a broker that is cut off still has an older state."""
    views: list[MetadataResponseTopic] = []
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    with contextlib.suppress(ClientError):
        for broker in (await cluster.metadata([])).brokers:
            with contextlib.suppress(ClientError), trio.move_on_after(VIEW_SECONDS):
                connection = await cluster.connection(broker.node_id)
                answer = await connection.request(ApiKey.METADATA, request, MetadataResponse)
                views += [one for one in answer.topics if one.error_code == ErrorCode.NONE]
    return views


def _age(topic: MetadataResponseTopic) -> int:
    """Grows with each change of a leader."""
    return sum(part.leader_epoch for part in topic.partitions)


class Reading:
    """A question for all records of a topic, and how far its answer has come."""

    def __init__(self, topic: str, partition: int | None, at_least: int, committed: bool) -> None:
        self._topic = topic
        self._partition = partition
        self._at_least = at_least
        self._committed = committed
        self._exists: bool | None = None
        self._count: int | None = None

    async def read(self, cluster: Cluster) -> list[KafkaRecord]:
        """All records from the beginning to the present end, at least so many; by partition.

        Waits for leaders and for missing records, forever if need be.
        """
        while True:
            if not self._exists:
                first = (await cluster.metadata([self._topic])).topics[0]
                self._exists = first.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            found = await cluster.led_topic(self._topic, wait_for_missing=True)
            self._exists = True
            records: list[KafkaRecord] = []
            try:
                for part in sorted(found.partitions, key=lambda one: one.partition_index):
                    if self._partition in (None, part.partition_index):
                        reader = _Reader(cluster, found, part.partition_index, part.leader_id)
                        records += await reader.read(self._committed)
            except (ClientError, _Moved):
                await trio.sleep(POLL_SECONDS)
                continue
            self._count = len(records)
            if self._count >= self._at_least:
                return records
            await trio.sleep(POLL_SECONDS)

    def lack(self) -> str:
        """What has been missing so far."""
        if self._count is not None:
            return f"{self._count} of {self._at_least} records in {self._topic}"
        if self._exists is None:
            return ""
        return f"{'no leader of' if self._exists else 'there is no'} topic {self._topic}"


class _Moved(Exception):
    """The leader is another by now."""


class _Reader:
    """The reader of one partition, to its end."""

    def __init__(
        self, cluster: Cluster, topic: MetadataResponseTopic, partition: int, leader: int
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._partition = partition
        self._leader = leader

    async def read(self, committed: bool) -> list[KafkaRecord]:
        isolation = READ_COMMITTED if committed else READ_UNCOMMITTED
        position = await self._offset(EARLIEST, isolation)
        end = await self._offset(LATEST, isolation)
        records: list[KafkaRecord] = []
        while position < end:
            part = await self._fetch(position, isolation)
            data: Any = part.records or b""
            skip = aborted_places(data, part.aborted_transactions or ())
            for place, header in iter_batch_headers(data):
                if not header.is_control and place not in skip:
                    records += self._records(data, place, position, end)
                position = max(position, header.next_offset)
        return records

    def _records(self, data: Any, place: int, start: int, end: int) -> list[KafkaRecord]:
        name = self._topic.name or ""
        return [
            KafkaRecord(name, self._partition, one.offset, one.timestamp, one.key, one.value,
                        tuple(one.headers))
            for one in iter_records(data, place)
            if start <= one.offset < end
        ]  # fmt: skip

    async def _offset(self, timestamp: int, isolation: int) -> int:
        asked = ListOffsetsPartition(partition_index=self._partition, timestamp=timestamp)
        topic = ListOffsetsTopic(name=self._topic.name or "", partitions=[asked])
        request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=[topic])
        connection = await self._cluster.connection(self._leader)
        answer = await connection.request(ApiKey.LIST_OFFSETS, request, ListOffsetsResponse)
        (part,) = answer.topics[0].partitions
        if part.error_code:
            raise _Moved
        return part.offset

    async def _fetch(self, position: int, isolation: int) -> Any:
        partition = FetchPartition(
            partition=self._partition, fetch_offset=position, partition_max_bytes=FETCH_MAX_BYTES
        )
        topic = FetchTopic(
            topic=self._topic.name or "", topic_id=self._topic.topic_id, partitions=[partition]
        )
        request = FetchRequest(
            max_wait_ms=FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_MAX_BYTES,
            isolation_level=isolation,
            topics=[topic],
        )
        connection = await self._cluster.connection(self._leader)
        answer = await connection.request(ApiKey.FETCH, request, FetchResponse)
        if answer.error_code or not answer.responses:
            raise _Moved
        (part,) = answer.responses[0].partitions
        if part.error_code:
            raise _Moved
        return part
