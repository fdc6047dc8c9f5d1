"""The metadata of remote segments in `__remote_log_metadata`, written and read by clients of this
broker.

Job: create the topic with Kafka's configs; write a record and wait until it has been read back;
read the partitions that the user partitions of this broker need. Whatever has been read is in
`MetadataTopic`, and questions are answered from there.

Invariants:
- A write returns only after its record has been applied here, so that the next question sees it.
- A record that was dropped on reading, as an illegal transition, is an error of its write.
- A topic with another number of partitions than configured is never written to: its records would
  go where no other broker looks for them.
- Errors of the cluster are retried for as long as this runs; they are logged once a minute.

Mirrors: TopicBasedRemoteLogMetadataManager, ProducerManager, ConsumerManager, ConsumerTask. Unlike
Kafka's it does not end the broker when the topic cannot be made within
`remote.log.metadata.initialization.retry.max.timeout.ms`, but says so in the log, and goes on.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import Final

import trio

from ...client.admin.topics import create_topic
from ...client.cluster import Cluster
from ...client.consumer.consumer import Consumer
from ...client.errors import ClientError, ProducerClosed, Refused, SettingsError
from ...client.producer.producer import Producer
from ...protocol.errors import ErrorCode
from ...protocol.topics import REMOTE_LOG_METADATA_TOPIC as TOPIC
from ...storage.remote.metadata_records import record_value
from ...storage.remote.metadata_topic import MetadataTopic, RemoteLogNotReadyError
from ...storage.remote.segments import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    TopicIdPartition,
)
from ...storage.remote.storage_manager import RemoteStorageError
from .metadata_config import MetadataTopicConfig

logger = logging.getLogger("pybroker.broker.remote.topic_metadata_manager")

RETRY_SECONDS: Final = 1.0
TOLD_EVERY_SECONDS: Final = 60.0
MOST_DROPPED: Final = 1000  # reasons that are kept for the writers of dropped records


class _WrongPartitions(Exception):
    """The topic has another number of partitions than the config."""


class TopicRemoteLogMetadataManager:
    """A `RemoteLogMetadataManager`; `open_cluster` makes the cluster that its clients use."""

    def __init__(self, config: MetadataTopicConfig, open_cluster: Callable[[], Cluster]) -> None:
        self._config = config
        self._open_cluster = open_cluster
        self._topic = MetadataTopic(config.partitions)
        self._producer: Producer | None = None  # while the topic can be written
        self._producer_ended = trio.Event()
        self._failure: str | None = None  # why it never can be
        # Around the reader's wait: cancelled when the assignment changes.
        self._polling = trio.CancelScope()
        self._read_on = trio.Event()  # set, and replaced, when something has been read
        self._dropped: OrderedDict[tuple[int, int], str] = OrderedDict()
        self._told_seconds = float("-inf")

    # Questions

    def segment(
        self, partition: TopicIdPartition, epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        return self._topic.cache(partition).segment_for(epoch, offset)

    def highest_offset(self, partition: TopicIdPartition, epoch: int) -> int | None:
        return self._topic.cache(partition).highest_offset_for_epoch(epoch)

    def segments(
        self, partition: TopicIdPartition, epoch: int | None = None
    ) -> list[RemoteLogSegmentMetadata]:
        cache = self._topic.cache(partition)
        return cache.segments() if epoch is None else cache.segments_of_epoch(epoch)

    # Assignment

    def on_leadership(
        self, leaders: Collection[TopicIdPartition], followers: Collection[TopicIdPartition]
    ) -> None:
        self._topic.assign(leaders)
        self._topic.assign(followers)
        self._polling.cancel()

    def on_stopped(self, partitions: Collection[TopicIdPartition]) -> None:
        self._topic.unassign(partitions)
        self._polling.cancel()
        self._notify()

    # Writing

    async def add(self, metadata: RemoteLogSegmentMetadata) -> None:
        await self._write(metadata)

    async def update(self, update: RemoteLogSegmentMetadataUpdate) -> None:
        await self._write(update)

    async def _write(
        self, metadata: RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate
    ) -> None:
        """Raises RemoteStorageError. After it, or a cancellation, the record may be written."""
        if self._failure is not None:
            raise RemoteStorageError(self._failure)
        if self._producer is None:
            raise RemoteLogNotReadyError(f"{TOPIC} cannot be written yet")
        number = self._topic.partition_of(metadata.topic_id_partition)
        try:
            done = await self._producer.send(TOPIC, record_value(metadata), partition=number)
        except ClientError as error:
            if isinstance(error, ProducerClosed):
                self._producer_ended.set()
            raise RemoteStorageError(f"{TOPIC} was not written: {error}") from error
        with trio.move_on_after(self._config.consume_wait_ms / 1000):
            while not self._topic.has_read(number, done.offset):
                await self._read_on.wait()
            reason = self._dropped.pop((number, done.offset), None)
            if reason is not None:
                raise RemoteStorageError(reason)
            return
        raise RemoteStorageError(f"record {done.offset} of {TOPIC}-{number} was not read in time")

    # Running

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep the topic, write and read it, until cancelled."""
        task_status.started()
        while self._failure is None:
            try:
                async with self._open_cluster() as cluster:
                    await self._ensure_topic(cluster)
                    await self._serve(cluster)
            except (SettingsError, _WrongPartitions) as error:
                self._failure = str(error)
                logger.error("Tiered storage cannot work: %s", error)

    async def _serve(self, cluster: Cluster) -> None:
        """Write and read the topic; return when the producer cannot go on."""
        async with (
            Producer(cluster, linger_ms=0) as producer,
            Consumer(
                cluster, auto_offset_reset="earliest", allow_auto_create_topics=False
            ) as consumer,
            trio.open_nursery() as nursery,
        ):
            self._producer = producer
            self._producer_ended = trio.Event()
            try:
                nursery.start_soon(self._read, consumer, nursery)
                await self._producer_ended.wait()
                logger.warning("The producer of %s has ended: another one begins", TOPIC)
                nursery.cancel_scope.cancel()
            finally:
                self._producer = None

    async def _ensure_topic(self, cluster: Cluster) -> None:
        """Return once the topic exists. Raises _WrongPartitions."""
        config = self._config
        begun = trio.current_time()
        while True:
            try:
                found = (await cluster.metadata([TOPIC])).topics[0]
                if found.error_code == ErrorCode.NONE:
                    break
                if found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    await self._create_topic(cluster)
            except ClientError as error:
                if trio.current_time() - begun >= config.retry_timeout_ms / 1000:
                    self._tell(f"{TOPIC} cannot be made, and is tried again: {error}")
            await trio.sleep(config.retry_interval_ms / 1000)
        if len(found.partitions) != config.partitions:
            raise _WrongPartitions(
                f"{TOPIC} has {len(found.partitions)} partitions, and "
                f"remote.log.metadata.topic.num.partitions is {config.partitions}"
            )

    async def _create_topic(self, cluster: Cluster) -> None:
        config = self._config
        try:
            await create_topic(
                cluster,
                TOPIC,
                partitions=config.partitions,
                replication_factor=config.replication_factor,
                configs={
                    "cleanup.policy": "delete",
                    "remote.storage.enable": "false",
                    "retention.ms": str(config.retention_ms),
                },
            )
        except Refused as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
            return
        logger.info("Created %s with %d partitions", TOPIC, config.partitions)

    async def _read(self, consumer: Consumer, nursery: trio.Nursery) -> None:
        reading: frozenset[int] = frozenset()
        self._topic.begin()
        while True:
            polling = self._polling = trio.CancelScope()
            try:
                while self._topic.wanted != reading:
                    more, reading = self._topic.wanted - reading, self._topic.wanted
                    await consumer.assign([(TOPIC, number) for number in sorted(reading)])
                    for number in more:
                        consumer.seek((TOPIC, number), self._topic.position(number))
                restarts = self._topic.take_restarts()  # all of them are assigned by now
                await consumer.seek_to_beginning([(TOPIC, number) for number in sorted(restarts)])
                for number in restarts:
                    nursery.start_soon(self._ask_ends, consumer, number)
                with polling:
                    for record in await consumer.poll(TOLD_EVERY_SECONDS):
                        self._on_record(record.partition, record.offset, record.value)
                self._notify()
            except ClientError as error:
                self._tell(f"{TOPIC} cannot be read, and is tried again: {error}")
                await trio.sleep(RETRY_SECONDS)

    def _on_record(self, number: int, offset: int, value: bytes | memoryview | None) -> None:
        reason = self._topic.on_record(number, offset, value)
        if reason is None:
            return
        logger.warning("Record %d of %s-%d has no effect: %s", offset, TOPIC, number, reason)
        self._dropped[number, offset] = reason
        if len(self._dropped) > MOST_DROPPED:
            self._dropped.popitem(last=False)

    async def _ask_ends(self, consumer: Consumer, number: int) -> None:
        """Learn the first and the last offset of a metadata partition that is read anew."""
        place = (TOPIC, number)
        while number in self._topic.wanted:
            try:
                start = (await consumer.beginning_offsets([place]))[place]
                end = (await consumer.end_offsets([place]))[place]
            except ClientError as error:
                self._tell(f"the end of {TOPIC}-{number} is unknown, and asked again: {error}")
                await trio.sleep(RETRY_SECONDS)
                continue
            self._topic.on_ends(number, start, end)
            self._notify()
            return

    def _notify(self) -> None:
        self._read_on.set()
        self._read_on = trio.Event()

    def _tell(self, text: str) -> None:
        if trio.current_time() - self._told_seconds >= TOLD_EVERY_SECONDS:
            self._told_seconds = trio.current_time()
            logger.error("%s", text)
