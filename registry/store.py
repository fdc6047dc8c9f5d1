"""The topic `_schemas`: one task reads it into the state, and the primary writes to it.

Invariants: the state has every record below `applied`, in order; `write` returns once its own
records are applied, so that the next decision sees them. A record that the state leaves out, as
another primary was faster, makes its write fail.
Limits: WRITE_SECONDS for a write with its reading back. Mirrors: KafkaStore and its reader thread.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

import trio

from ..client.admin.configs import ConfigResource, Configs, ResourceKind
from ..client.admin.topics import create_topic
from ..client.cluster import Cluster
from ..client.consumer.consumer import Consumer
from ..client.errors import ClientError, Refused
from ..client.producer.producer import Producer
from ..protocol.errors import ErrorCode
from .errors import schema_too_large, store_failed, timed_out
from .records import (
    NOOP,
    BadRecord,
    Key,
    Record,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from .state import State

TOPIC: Final = "_schemas"
REPLICAS: Final = 3  # of the topic, at most as many as there are brokers
WRITE_SECONDS: Final = 30.0
READ_SECONDS: Final = 30.0  # until the state has caught up
POLL_SECONDS: Final = 1.0
MAX_RECORD_BYTES: Final = 1024 * 1024

_log: Final = logging.getLogger("pybroker.registry")


class Store:
    """`await nursery.start(store.run)`, which returns once the topic has been read to its end."""

    def __init__(self, cluster: Cluster, state: State, topic: str = TOPIC) -> None:
        self.state = state
        self.topic = topic
        self.applied = 0  # the offset of the next record
        self._cluster = cluster
        self._left_out: dict[int, str] = {}  # reasons by offset, of the write under way
        self._writing = False
        self._news = trio.Event()
        self._producer: Producer | None = None
        self._consumer: Consumer | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Raises ClientError."""
        await self._ensure_topic()
        place = (self.topic, 0)
        async with (
            Producer(self._cluster, linger_ms=0) as self._producer,
            Consumer(self._cluster, auto_offset_reset="earliest") as consumer,
        ):
            self._consumer = consumer
            await consumer.assign([place])
            end = (await consumer.end_offsets([place]))[place]
            is_ready = False
            while True:
                if not is_ready and self.applied >= end:
                    is_ready = True
                    task_status.started()
                for record in await consumer.poll(POLL_SECONDS if is_ready else 0.1):
                    self._apply(record.offset, record.key, record.value)
                position = consumer.position(place)
                self.applied = max(self.applied, position or 0)
                self._news.set()
                self._news = trio.Event()

    def _apply(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        try:
            found = decode_key(key)
            reason = "" if found is None else self.state.apply(found, decode_value(value))
        except BadRecord as error:
            reason = str(error)
        if reason:
            _log.warning("%s-0: the record at %d is left out: %s", self.topic, offset, reason)
            if self._writing:
                self._left_out[offset] = reason

    async def catch_up(self) -> None:
        """Wait until the state has all that is in the topic now. Raises Rejected."""
        place = (self.topic, 0)
        with trio.move_on_after(READ_SECONDS):
            assert self._consumer is not None
            try:
                end = (await self._consumer.end_offsets([place]))[place]
            except ClientError as error:
                raise store_failed(f"the end of {self.topic} is not known: {error}") from None
            await self._until(end)
            return
        raise timed_out(f"{self.topic} was not read to its end in {READ_SECONDS:.0f} s")

    async def reach_end(self) -> None:
        """Write a record without effect, and wait until it is read. Raises Rejected."""
        await self.write([Record(Key(NOOP), None)])

    async def write(self, records: Sequence[Record]) -> None:
        """Write in order, and wait until the state has it. Raises Rejected."""
        assert self._producer is not None
        self._writing, self._left_out = True, {}
        offsets = []
        try:
            with trio.move_on_after(WRITE_SECONDS):
                for record in records:
                    key, value = encode_key(record.key), encode_value(record.value)
                    if len(value or b"") > MAX_RECORD_BYTES - 1024:
                        raise schema_too_large()
                    sent = await self._producer.send(self.topic, value, key=key, partition=0)
                    offsets.append(sent.offset)
                if offsets:
                    await self._until(offsets[-1] + 1)
                for offset in offsets:
                    if offset in self._left_out:
                        raise store_failed(f"another primary was faster: {self._left_out[offset]}")
                return
        except Refused as error:
            if error.code is ErrorCode.MESSAGE_TOO_LARGE:
                raise schema_too_large() from None
            raise store_failed(f"{self.topic} is not written: {error}") from None
        except ClientError as error:
            raise store_failed(f"{self.topic} is not written: {error}") from None
        finally:
            self._writing = False
        raise timed_out(f"a write to {self.topic} took more than {WRITE_SECONDS:.0f} s")

    async def _until(self, offset: int) -> None:
        while self.applied < offset:
            await self._news.wait()

    async def _ensure_topic(self) -> None:
        answer = await self._cluster.metadata([self.topic])
        if answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            try:
                await create_topic(
                    self._cluster,
                    self.topic,
                    partitions=1,
                    replication_factor=min(REPLICAS, len(answer.brokers)),
                    configs={"cleanup.policy": "compact"},
                )
            except Refused as error:
                if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise
        topic = await self._cluster.led_topic(self.topic, wait_for_missing=True)
        if len(topic.partitions) != 1:
            raise ClientError(f"{self.topic} has {len(topic.partitions)} partitions, and needs one")
        await self._check_is_compacted()

    async def _check_is_compacted(self) -> None:
        resource = ConfigResource(ResourceKind.TOPIC, self.topic)
        found = (await Configs(self._cluster).describe([resource]))[resource]
        policy = next((one.value for one in found if one.name == "cleanup.policy"), "compact")
        if policy != "compact":
            raise ClientError(
                f"{self.topic} has cleanup.policy={policy}, which would delete schemas; "
                "it must be compact"
            )
