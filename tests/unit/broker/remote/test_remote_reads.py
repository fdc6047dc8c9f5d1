"""Reads from the tier: a slow object holds its own read alone, late results are kept."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from pybroker_kafka.broker.remote.remote_reads import RemoteReads
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.replication.purgatory import Operation
from pybroker_kafka.replication.remote.reading import NONE_IS_OPEN, first_open_offset
from pybroker_kafka.replication.types import RemoteRead, RemoteRecords, TopicStats
from pybroker_kafka.storage.files import EMPTY_SLICE, CopiedRange, FileSlice
from pybroker_kafka.storage.producer_entry import ProducerEntry
from pybroker_kafka.storage.producer_snapshot import encode_snapshot
from pybroker_kafka.storage.remote.storage_manager import (
    IndexType,
    RemoteResourceNotFoundError,
    RemoteStorageError,
)
from tests.support.patience import eventually

RECORDS = RemoteRecords(FileSlice(CopiedRange("x", b"abc", 0), 0, 3, b"abc"), [])


class Waiting(Operation):
    def __init__(self) -> None:
        super().__init__(None)
        self.keys = ("here",)


class Replicas:
    """AppliedReplicas, as far as reads know them; results are noted."""

    def __init__(self) -> None:
        self.manager: Any = self
        self.config: Any = self
        self.broker_id = 1
        self.partitions: dict[Any, Any] = {}
        self.hosted = self.waiting = self.applying = self
        self.done: list[tuple[Operation, RemoteRecords | ErrorCode]] = []
        self.stats = TopicStats()

    def stats_of(self, _topic: str) -> TopicStats:
        return self.stats

    def clock(self) -> int:
        return 0

    def remote_read(self, operation: Operation, result: RemoteRecords | ErrorCode) -> None:
        operation.keys = ()
        self.done.append((operation, result))

    def __enter__(self) -> Replicas:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Reads(RemoteReads):
    """Offset 0 is a slow object; offset 1 fails."""

    gate: threading.Event

    async def _records(self, wanted: RemoteRead) -> RemoteRecords:
        if wanted.offset == 0:
            await self._in_thread(self.gate.wait)
        if wanted.offset == 1:
            raise RemoteStorageError("planned")
        return RECORDS if wanted.offset < 9 else RemoteRecords(EMPTY_SLICE, [])


def read_of(offset: int) -> RemoteRead:
    return RemoteRead(Waiting(), ("t", 0), offset, 100, True, False, False, 500)


def reads_of(replicas: Replicas, **limits: int) -> Reads:
    none: Any = None
    reads = Reads(replicas, none, none, none, **limits)  # type: ignore[arg-type]
    reads.gate = threading.Event()
    return reads


async def test_a_slow_object_holds_its_own_read_alone() -> None:
    replicas = Replicas()
    reads = reads_of(replicas, threads=2, max_pending=5)
    async with trio.open_nursery() as nursery:
        await nursery.start(reads.run)
        for offset in (0, 1, 2):
            reads.read(read_of(offset))
        await eventually(lambda: len(replicas.done) == 2)
        results = [result for _, result in replicas.done]
        assert ErrorCode.UNKNOWN_SERVER_ERROR in results
        assert RECORDS in results
        assert replicas.stats.failed_remote_fetch_requests == 1
        reads.gate.set()
        await eventually(lambda: len(replicas.done) == 3)
        assert replicas.stats.remote_fetch_bytes == 6
        nursery.cancel_scope.cancel()


async def test_too_many_reads_fail_at_once() -> None:
    replicas = Replicas()
    reads = reads_of(replicas, threads=1, max_pending=1)
    async with trio.open_nursery() as nursery:
        await nursery.start(reads.run)
        for _ in range(3):
            reads.read(read_of(0))
        assert [result for _, result in replicas.done] == [ErrorCode.UNKNOWN_SERVER_ERROR]
        assert reads.queue_size == 1
        reads.gate.set()
        await eventually(lambda: len(replicas.done) == 3)
        assert reads.idle_share == 1
        nursery.cancel_scope.cancel()


async def test_a_late_result_is_kept_for_the_next_fetch() -> None:
    replicas = Replicas()
    reads = reads_of(replicas, threads=1, max_pending=1)
    async with trio.open_nursery() as nursery:
        await nursery.start(reads.run)
        late = read_of(0)
        reads.read(late)
        await trio.testing.wait_all_tasks_blocked()
        late.operation.keys = ()  # its time is over
        reads.gate.set()
        await eventually(lambda: reads.pending == 0)
        assert replicas.done == []
        reads.gate.clear()
        reads.read(read_of(0))
        assert [result for _, result in replicas.done] == [RECORDS]
        nursery.cancel_scope.cancel()


def snapshot(*open_from: int) -> bytes:
    """Of a producer without an open transaction, and others with one."""
    producers = [ProducerEntry(producer_id=number) for number in range(1 + len(open_from))]
    for one, first in zip(producers[1:], open_from, strict=True):
        one.current_txn_first_offset = first
    return encode_snapshot(producers)


@pytest.mark.parametrize(
    ("content", "expected"),
    [(snapshot(), NONE_IS_OPEN), (snapshot(7, 3), 3), (b"damaged", 0), (None, 0)],
)
def test_where_open_transactions_begin(content: bytes | None, expected: int) -> None:
    def fetch_index(_metadata: object, kind: IndexType) -> bytes:
        assert kind is IndexType.PRODUCER_SNAPSHOT
        if content is None:
            raise RemoteResourceNotFoundError("planned")
        return content

    store: Any = SimpleNamespace(fetch_index=fetch_index)
    segment: Any = None
    assert first_open_offset(store, segment) == expected
