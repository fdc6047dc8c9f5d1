"""The produce handler through real codecs, at all versions."""

import threading
from pathlib import Path
from typing import Any

import pytest
import trio

from pybroker_kafka.broker.handlers import produce
from pybroker_kafka.broker.handlers.fetch import FetchHandler
from pybroker_kafka.broker.handlers.produce import ProduceHandler
from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.records.builder import build_batch
from pybroker_kafka.protocol.records.compression import Compression
from pybroker_kafka.protocol.records.record import SimpleRecord
from pybroker_kafka.storage.validation import PreValidatedBatch, pre_validate
from tests.support.conversions import build_message_set
from tests.support.handlers import CLOSED, NOTHING
from tests.support.replication import ME, NOW, TOPIC_ID, batch
from tests.support.replication_handlers import HandlerBroker, values, versions

PATIENCE_SECONDS = 120


@pytest.mark.parametrize("version", versions(ApiKey.PRODUCE))
def test_produce(broker: HandlerBroker, version: int) -> None:
    broker.lead()
    if version >= 3:
        records = batch(b"a", b"b")
    else:
        records = build_message_set(
            [SimpleRecord(NOW, None, b"a"), SimpleRecord(NOW, None, b"b")],
            magic=min(version, 1),
        )
    result = broker.produced(version, records)
    assert (result.error_code, result.base_offset) == (0, 0)
    assert result.log_start_offset == (0 if version >= 5 else -1)
    assert values(broker.fetched(4).records) == [b"a", b"b"]


def test_produce_without_acks(broker: HandlerBroker) -> None:
    broker.lead()
    assert broker.produce(9, batch(), acks=0).answer == NOTHING
    assert broker.produce(9, batch(), acks=0, topic="nobody").answer == CLOSED


def test_produce_refusals(broker: HandlerBroker) -> None:
    broker.lead()
    assert broker.produced(9, batch(), acks=2).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert broker.produced(9, None).error_code == ErrorCode.INVALID_RECORD
    assert broker.produced(2, b"").error_code == 0
    transactional = build_batch(
        [SimpleRecord(NOW, None, b"t")], producer_id=1, producer_epoch=0, base_sequence=0,
        is_transactional=True,
    )  # fmt: skip
    result = broker.produced(9, transactional)
    assert result.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    unknown = broker.produced(9, batch(), topic="nobody")
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert unknown.base_offset == -1
    zstd = build_batch([SimpleRecord(NOW, None, b"z")], compression=Compression.ZSTD)
    result = broker.produced(6, zstd)
    assert result.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    corrupt = batch()
    corrupt[-1] ^= 0xFF
    assert broker.produced(9, corrupt).error_code == ErrorCode.CORRUPT_MESSAGE
    assert broker.cluster.partition.log.log_end_offset == 0


def test_produce_to_internal_topics_is_for_admins(broker: HandlerBroker) -> None:
    offsets = "__consumer_offsets"
    broker.cluster.role(topic=offsets, topic_id=b"o" * 16)
    result = broker.produced(9, batch(), topic=offsets)
    assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    result = broker.produced(9, batch(), topic=offsets, client_id="__admin_client")
    assert result.error_code == 0


def test_produce_names_records_to_blame(tmp_path: Path) -> None:
    broker = HandlerBroker(tmp_path, topic_config={"cleanup.policy": "compact"})
    broker.lead()
    records = build_batch([SimpleRecord(NOW, b"k", b"v"), SimpleRecord(NOW, None, b"v")])
    result = broker.produced(8, records)
    assert result.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in result.record_errors] == [1]
    assert result.error_message
    records = build_batch([SimpleRecord(NOW, None, b"v")])
    assert broker.produced(7, records).record_errors == []


def test_produce_to_the_wrong_broker_names_the_right_one(broker: HandlerBroker) -> None:
    broker.cluster.publish(2, leader_epoch=7)
    answer = broker.produce(10, batch()).answer
    partition = answer.responses[0].partition_responses[0]
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == (2, 7)
    (node,) = answer.node_endpoints
    assert (node.node_id, node.host, node.port) == (2, "host2", 9002)
    assert not broker.produce(9, batch()).answer.node_endpoints


def test_produce_waits_for_replicas(broker: HandlerBroker) -> None:
    broker.lead(replicas=(ME, 2))
    call = broker.produce(9, batch(), acks=-1)
    assert call.waits
    broker.cluster.follow(2, 1)
    broker.replica_runtime.apply_effects()
    assert call.answer.responses[0].partition_responses[0].error_code == 0


async def test_flush_messages_answers_after_the_flush(tmp_path: Path) -> None:
    broker = HandlerBroker(tmp_path, topic_config={"flush.messages": "1"})
    broker.lead()
    async with trio.open_nursery() as nursery:
        await nursery.start(broker.replica_runtime.run)
        calls = [broker.produce(9, batch(), acks=acks) for acks in (1, -1, 1)]
        assert [call.answer for call in calls] == [None, None, None]
        with trio.fail_after(120):
            for call in calls:
                await call.wait()
        assert broker.cluster.partition.log.recovery_point == 3
        assert broker.cluster.partition.log.high_watermark == 3
        nursery.cancel_scope.cancel()


async def test_others_are_answered_while_a_large_batch_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """50 000 records for a compacted topic, and a worker that takes as long as it is told to."""
    others_are_answered = threading.Event()

    def examine(*arguments: Any) -> tuple[PreValidatedBatch, float]:
        assert others_are_answered.wait(PATIENCE_SECONDS)
        return pre_validate(*arguments), 0.0

    monkeypatch.setattr(produce, "_pre_validate_timed", examine)
    broker = HandlerBroker(tmp_path, topic_config={"cleanup.policy": "compact"})
    broker.lead()
    large = build_batch(
        [SimpleRecord(NOW, b"%d" % n, b"v") for n in range(50_000)], compression=Compression.GZIP
    )
    count = 20
    async with trio.open_nursery() as nursery:
        broker.produces = ProduceHandler(broker.replica_runtime, spawn=nursery.start_soon)
        calls = [broker.produce(9, large) for _ in range(2)]
        for number in range(count):
            assert broker.produce(9, keyed(number)).answer is not None
            await trio.lowlevel.checkpoint()
        assert calls[0].waits
        assert calls[1].waits
        others_are_answered.set()
        for call in calls:
            await call.wait()
    log = broker.cluster.partition.log
    assert log.log_end_offset == 100_000 + count
    bases = sorted(call.answer.responses[0].partition_responses[0].base_offset for call in calls)
    assert bases[1] - bases[0] >= 50_000


async def test_the_time_of_an_examination_is_that_of_a_conversion(tmp_path: Path) -> None:
    broker = HandlerBroker(tmp_path, topic_config={"compression.type": "lz4"})
    broker.lead()
    records = build_batch([SimpleRecord(NOW, b"k", b"v" * 100)] * 9, compression=Compression.GZIP)
    async with trio.open_nursery() as nursery:
        broker.produces = ProduceHandler(broker.replica_runtime, spawn=nursery.start_soon)
        examined = broker.produce(9, records)
        at_once = broker.produce(9, batch(b"a" * 500))
        assert (examined.answer is None, at_once.answer is None) == (True, False)
    for call in (examined, at_once):
        conversions = call.request.metrics.conversions
        assert conversions.count == 1
        assert conversions.total_bytes > 70
        assert 0 < conversions.total_seconds < 10


def keyed(number: int) -> bytearray:
    return build_batch([SimpleRecord(NOW, b"k%d" % number, b"v")])


async def test_what_was_looked_at_is_refused_as_ever(tmp_path: Path) -> None:
    """By the records, and by who leads when the append has its turn."""
    broker = HandlerBroker(tmp_path, topic_config={"cleanup.policy": "compact"})
    broker.lead()
    keyless = build_batch([SimpleRecord(NOW, None, b"v")], compression=Compression.GZIP)
    good = build_batch([SimpleRecord(NOW, b"k", b"v")], compression=Compression.GZIP)
    async with trio.open_nursery() as nursery:
        broker.produces = ProduceHandler(broker.replica_runtime, spawn=nursery.start_soon)
        blamed = broker.produce(9, keyless)
        silent = broker.produce(9, good, acks=0)
        closed = broker.produce(9, keyless, acks=0)
    (partition,) = blamed.answer.responses[0].partition_responses
    assert partition.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in partition.record_errors] == [0]
    assert (silent.answer, closed.answer) == (NOTHING, CLOSED)
    async with trio.open_nursery() as nursery:
        broker.produces = ProduceHandler(broker.replica_runtime, spawn=nursery.start_soon)
        late = broker.produce(9, good)
        broker.cluster.role(2, leader_epoch=1)
    (partition,) = late.answer.responses[0].partition_responses
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert broker.cluster.partition.log.log_end_offset == 1


async def test_timers_answer_in_time(broker: HandlerBroker) -> None:
    broker.lead(replicas=(ME, 2))
    start = trio.current_time()
    broker.replica_runtime.clock = lambda: NOW + int((trio.current_time() - start) * 1000)
    broker.cluster.manager.waiting.tick(NOW)
    fetches = FetchHandler(broker.replica_runtime, broker.sessions)
    broker.fetches = fetches
    async with trio.open_nursery() as nursery:
        await nursery.start(broker.replica_runtime.run)
        slow = broker.fetch(12, max_wait_ms=10_000, session_epoch=-1)
        quick = broker.fetch(12, max_wait_ms=50, session_epoch=-1)
        with trio.fail_after(120):
            await quick.wait()
        assert trio.current_time() - start >= 0.05
        assert slow.answer is None
        nursery.cancel_scope.cancel()


def test_topics_by_id(broker: HandlerBroker) -> None:
    broker.lead()
    assert broker.produced(13, batch(b"a")).error_code == 0
    (topic,) = broker.produce(13, batch(b"b"), acks=2).answer.responses
    assert topic.topic_id == TOPIC_ID
    unknown = broker.produced(13, batch(b"c"), topic_id=bytes(15) + b"?")
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_partition_of_another_topic_of_the_same_name(broker: HandlerBroker) -> None:
    broker.lead()
    broker.cluster.partition.topic_id = b"another topic id"
    refused = broker.produced(13, batch(b"a"))
    assert (refused.error_code, refused.base_offset) == (ErrorCode.UNKNOWN_TOPIC_ID, -1)
    assert broker.produced(11, batch(b"a")).base_offset == 0
