"""The fetch handler through real codecs, at all versions."""

from pathlib import Path
from typing import Any

import pytest
import trio

from pybroker_kafka.broker.handlers.fetch import FetchHandler
from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.records.builder import build_batch
from pybroker_kafka.protocol.records.compression import Compression
from pybroker_kafka.protocol.records.record import SimpleRecord
from tests.support.conversions import build_message_set
from tests.support.handlers import Call
from tests.support.replication import ME, NOW, TOPIC, TOPIC_ID, batch
from tests.support.replication_handlers import HandlerBroker, values, versions


@pytest.mark.parametrize("version", versions(ApiKey.FETCH))
def test_fetch(broker: HandlerBroker, version: int) -> None:
    broker.lead()
    broker.produced(9, batch(b"a", b"b"))
    broker.produced(9, batch(b"c"))
    data = broker.fetched(version, 1, session_epoch=-1)
    assert (data.error_code, data.high_watermark) == (0, 3)
    assert data.log_start_offset == (0 if version >= 5 else -1)
    magic = data.records[16]
    assert magic == (0 if version < 2 else 1 if version < 4 else 2)
    expected = [b"b", b"c"] if version < 4 else [b"a", b"b", b"c"]
    assert values(data.records) == expected
    if version >= 4:
        assert data.aborted_transactions is None
        committed = broker.fetched(version, 0, session_epoch=-1, isolation_level=1)
        assert committed.aborted_transactions == []


def test_old_clients_and_what_they_cannot_read(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    broker = HandlerBroker(tmp_path / "a", topic_config={"message.downconversion.enable": "false"})
    broker.lead()
    broker.produced(9, batch())
    assert broker.fetched(3).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert broker.fetched(3, replica_id=ME + 1).error_code != ErrorCode.UNSUPPORTED_VERSION
    assert broker.fetched(4).error_code == 0
    (tmp_path / "b").mkdir()
    broker = HandlerBroker(tmp_path / "b", topic_config={"compression.type": "zstd"})
    broker.lead()
    broker.produced(9, batch())
    assert broker.fetched(9).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert broker.fetched(10).error_code == 0
    broker.cluster.partition.log.health.fail(OSError("gone"))
    broker.cluster.manager.waiting.check_log_dirs()
    assert broker.fetched(6).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.fetched(5).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_many_conversions_let_others_have_their_turn(tmp_path: Path) -> None:
    broker = HandlerBroker(tmp_path)
    broker.lead()
    broker.produced(9, batch(b"a"))
    order: list[str] = []
    async with trio.open_nursery() as nursery:

        async def in_turns(handler: Any, request: Any) -> None:
            await handler(request)
            order.append("answered")

        def spawn(handler: Any, request: Any) -> None:
            nursery.start_soon(in_turns, handler, request)

        broker.fetches = FetchHandler(broker.replica_runtime, broker.sessions, spawn)
        topics = [
            FetchTopic(topic=topic, partitions=[FetchPartition(partition_max_bytes=1 << 20)])
            for topic in (TOPIC, "unknown", "missing")
        ]
        message = FetchRequest(max_wait_ms=0, topics=topics)
        call = Call(broker.fetches, ApiKey.FETCH, 1, message)
        assert call.waits
        nursery.start_soon(_note_turns, order)
    found = {topic.topic: topic.partitions[0] for topic in call.answer.responses}
    assert values(found[TOPIC].records) == [b"a"]
    assert found["unknown"].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert order.index("answered") >= 2


async def _note_turns(order: list[str]) -> None:
    for _ in range(5):
        order.append("other")
        await trio.lowlevel.checkpoint()


async def test_others_are_answered_while_a_large_batch_is_converted(tmp_path: Path) -> None:
    """50 000 records for an old consumer: half a second or more of work."""
    broker = HandlerBroker(tmp_path)
    broker.lead()
    records = [SimpleRecord(NOW, None, b"%d" % n) for n in range(50_000)]
    broker.produced(9, build_batch(records, compression=Compression.GZIP))
    count = 0
    async with trio.open_nursery() as nursery:
        broker.fetches = FetchHandler(broker.replica_runtime, broker.sessions, nursery.start_soon)
        slow = broker.fetch(1)
        while slow.answer is None:
            count += broker.fetch(12, session_epoch=-1).answer is not None
            await trio.lowlevel.checkpoint()
    assert count > 10
    assert values(slow.answer.responses[0].partitions[0].records)[-1] == b"49999"


def test_conversions_are_counted(broker: HandlerBroker) -> None:
    broker.lead()
    stats = broker.cluster.manager.hosted.stats_of(TOPIC)
    records = [SimpleRecord(NOW, None, b"old")] * 3
    calls = [
        broker.produce(2, build_message_set(records, magic=1)),
        broker.produce(9, batch(b"new")),
    ]
    assert (stats.produce_message_conversions, stats.messages_in) == (3, 4)
    calls += [broker.fetch(version, session_epoch=-1) for version in (4, 17)]
    assert stats.fetch_message_conversions == 0
    calls += [broker.fetch(version) for version in range(4)]
    # In each of them the batch of three, and that of one where it found room.
    assert 12 <= stats.fetch_message_conversions <= 16
    found = [call.request.metrics.conversions for call in calls]
    assert [conversions.count for conversions in found] == [1, 0, 0, 0, 1, 1, 1, 1]
    for conversions in found:
        assert (conversions.total_seconds > 0) == (conversions.total_bytes > 0)
        assert bool(conversions.total_bytes) == bool(conversions.count)


def test_zstd_batches_of_other_topics_are_not_converted(broker: HandlerBroker) -> None:
    broker.lead()
    broker.produced(9, build_batch([SimpleRecord(NOW, None, b"z")], compression=Compression.ZSTD))
    data = broker.fetched(3)
    assert data.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert (data.records, data.high_watermark) == (b"", -1)


def test_fetch_waits_and_is_woken_by_a_produce(broker: HandlerBroker) -> None:
    broker.lead()
    call = broker.fetch(12, max_wait_ms=500, session_epoch=-1)
    assert call.waits
    broker.produced(9, batch(b"late"))
    assert values(call.answer.responses[0].partitions[0].records) == [b"late"]


def test_fetch_sessions_over_the_wire(broker: HandlerBroker) -> None:
    broker.lead()
    first = broker.fetch(17, session_epoch=0).answer
    session_id = first.session_id
    assert session_id > 0
    assert first.responses[0].topic_id == TOPIC_ID

    def incremental(epoch: int, **fields: Any) -> Any:
        message = FetchRequest(session_id=session_id, session_epoch=epoch, **fields)
        return Call(broker.fetches, ApiKey.FETCH, 17, message).answer

    assert incremental(1).responses == []
    broker.produced(9, batch(b"a"))
    answer = incremental(2)
    assert answer.session_id == session_id
    assert values(answer.responses[0].partitions[0].records) == [b"a"]
    answer = incremental(2)
    assert (answer.error_code, answer.session_id) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0)
    forgotten = [ForgottenTopic(topic_id=TOPIC_ID, partitions=[0])]
    answer = incremental(3, forgotten_topics_data=forgotten)
    assert (answer.error_code, answer.session_id, answer.responses) == (0, 0, [])
    answer = incremental(4)
    assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_fetch_session_keeps_to_topic_ids(broker: HandlerBroker) -> None:
    broker.lead()
    session_id = broker.fetch(12, session_epoch=0).answer.session_id
    message = FetchRequest(session_id=session_id, session_epoch=1)
    answer = Call(broker.fetches, ApiKey.FETCH, 13, message).answer
    assert answer.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_topic_id_may_become_known_later(broker: HandlerBroker) -> None:
    first = broker.fetch(13, session_epoch=0).answer
    assert first.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    broker.lead()
    message = FetchRequest(session_id=first.session_id, session_epoch=1)
    answer = Call(broker.fetches, ApiKey.FETCH, 13, message).answer
    assert answer.responses[0].partitions[0].error_code == 0


def test_fetch_from_the_wrong_broker(broker: HandlerBroker) -> None:
    broker.cluster.publish(2, leader_epoch=7)
    answer = broker.fetch(16, session_epoch=-1).answer
    data = answer.responses[0].partitions[0]
    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (2, 7)
    assert [(n.node_id, n.host, n.port) for n in answer.node_endpoints] == [(2, "host2", 9002)]


def test_followers_serve_clients_that_know_of_it(broker: HandlerBroker) -> None:
    broker.cluster.publish(2)
    broker.cluster.role(leader=2, replicas=(ME, 2))
    assert broker.fetched(10).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert broker.fetched(11).error_code == 0
