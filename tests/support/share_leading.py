"""Share groups over a replica manager with real logs, with states in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import trio

from pybroker_kafka.broker.coordinators.persister import Persister
from pybroker_kafka.broker.handlers.shares import ShareHandlers
from pybroker_kafka.broker.share.group_settings import ShareSettings
from pybroker_kafka.broker.share.share_leader import ShareLeader
from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis import read_share_group_state as reading
from pybroker_kafka.protocol.apis import share_acknowledge as acknowledging
from pybroker_kafka.protocol.apis import share_fetch as fetching
from pybroker_kafka.protocol.apis import write_share_group_state as writing
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.replication.offsets import EARLIEST_TIMESTAMP
from pybroker_kafka.replication.share.limits import ShareLimits
from pybroker_kafka.replication.share.sessions import ShareSessions
from pybroker_kafka.replication.types import Isolation
from tests.support.handlers import Call
from tests.support.replication import TOPIC_ID
from tests.support.replication_handlers import HandlerBroker

GROUP = "group"
LATEST_VERSION = 2


class MemoryPersister(Persister):
    """Keeps the state of each offset; `error` is the answer to all, `held` stops writes."""

    def __init__(self) -> None:
        self.error = ErrorCode.NONE
        self.start_offset = -1
        self.states: dict[int, tuple[int, int]] = {}
        self.writes: list[writing.PartitionData] = []
        self.held: trio.Event | None = None

    async def read_state(
        self, request: reading.ReadShareGroupStateRequest
    ) -> reading.ReadShareGroupStateResponse:
        await trio.lowlevel.checkpoint()
        (topic,) = request.topics
        (partition,) = topic.partitions
        batches = [
            reading.StateBatch(
                first_offset=offset, last_offset=offset, delivery_state=state, delivery_count=count
            )
            for offset, (state, count) in sorted(self.states.items())
            if offset >= self.start_offset
        ]
        result = reading.PartitionResult(
            partition=partition.partition,
            error_code=self.error,
            start_offset=self.start_offset,
            state_batches=[] if self.error else batches,
        )
        return reading.ReadShareGroupStateResponse(
            results=[reading.ReadStateResult(topic_id=topic.topic_id, partitions=[result])]
        )

    async def write_state(
        self, request: writing.WriteShareGroupStateRequest
    ) -> writing.WriteShareGroupStateResponse:
        await trio.lowlevel.checkpoint()
        if self.held is not None:
            await self.held.wait()
        (topic,) = request.topics
        (partition,) = topic.partitions
        if not self.error:
            self.writes.append(partition)
            self.start_offset = partition.start_offset
            for batch in partition.state_batches:
                for offset in range(batch.first_offset, batch.last_offset + 1):
                    self.states[offset] = batch.delivery_state, batch.delivery_count
        result = writing.PartitionResult(partition=partition.partition, error_code=self.error)
        return writing.WriteShareGroupStateResponse(
            results=[writing.WriteStateResult(topic_id=topic.topic_id, partitions=[result])]
        )

    async def initialize_state(self, request: Any) -> Any:
        raise NotImplementedError

    async def delete_state(self, request: Any) -> Any:
        raise NotImplementedError

    async def read_summary(self, request: Any) -> Any:
        raise NotImplementedError


class ShareBroker(HandlerBroker):
    """`run` in a nursery; time is trio's."""

    def __init__(self, directory: Path, *, sessions: int = 10, **options: Any) -> None:
        super().__init__(directory, **options)
        self.persister = MemoryPersister()
        self.settings = ShareSettings(
            ShareLimits(record_lock_duration_ms=1000, delivery_count_limit=3),
            EARLIEST_TIMESTAMP,
            False,
            Isolation.READ_UNCOMMITTED,
        )
        self.shares = ShareLeader(
            self.replica_runtime,
            self.persister,
            lambda group_id: self.settings,
            ShareSessions(sessions),
            clock=lambda: int(trio.current_time() * 1000),
        )
        self.replica_runtime.on_share_fetches_due = self.shares.on_due
        self.levels = {"share.version": 1}
        self._nursery: trio.Nursery | None = None
        self.handlers = ShareHandlers(
            self.shares, self.cluster.manager, lambda: self.levels, self._spawn
        )

    def _spawn(self, handler: Any, request: Any) -> None:
        assert self._nursery is not None
        self._nursery.start_soon(handler, request)

    async def run(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        await nursery.start(self.shares.run)

    def share_fetch(
        self,
        epoch: int,
        *,
        member: str = "m",
        group: str | None = GROUP,
        acknowledge: list[tuple[int, int, list[int]]] | None = None,
        partitions: tuple[int, ...] = (0,),
        topic_id: bytes = TOPIC_ID,
        version: int = LATEST_VERSION,
        max_wait_ms: int = 0,
        **options: Any,
    ) -> Call:
        batches = [
            fetching.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=t)
            for first, last, t in acknowledge or ()
        ]
        named = partitions if not epoch or batches else ()
        message = fetching.ShareFetchRequest(
            group_id=group,
            member_id=member,
            share_session_epoch=epoch,
            max_wait_ms=max_wait_ms,
            min_bytes=options.pop("min_bytes", 1),
            max_bytes=options.pop("max_bytes", 1 << 20),
            max_records=options.pop("max_records", 100),
            batch_size=options.pop("batch_size", 100),
            topics=[
                fetching.FetchTopic(
                    topic_id=topic_id,
                    partitions=[
                        fetching.FetchPartition(
                            partition_index=index, acknowledgement_batches=batches
                        )
                        for index in named
                    ],
                )
            ]
            if named
            else [],
            **options,
        )
        return Call(self.handlers, ApiKey.SHARE_FETCH, version, message)

    def share_acknowledge(
        self,
        epoch: int,
        batches: list[tuple[int, int, list[int]]],
        *,
        member: str = "m",
        version: int = LATEST_VERSION,
        **options: Any,
    ) -> Call:
        message = acknowledging.ShareAcknowledgeRequest(
            group_id=GROUP,
            member_id=member,
            share_session_epoch=epoch,
            topics=[
                acknowledging.AcknowledgeTopic(
                    topic_id=TOPIC_ID,
                    partitions=[
                        acknowledging.AcknowledgePartition(
                            partition_index=0,
                            acknowledgement_batches=[
                                acknowledging.AcknowledgementBatch(
                                    first_offset=first, last_offset=last, acknowledge_types=types
                                )
                                for first, last, types in batches
                            ],
                        )
                    ],
                )
            ]
            if batches
            else [],
            **options,
        )
        return Call(self.handlers, ApiKey.SHARE_ACKNOWLEDGE, version, message)
