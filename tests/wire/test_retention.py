"""Retention in a running broker: topic and broker configs take effect while it runs, files go, and
a topic that was being deleted when the broker was killed is gone after the next start.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker_kafka.protocol.apis.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.patience import until
from tests.support.processes import BrokerProcess, running_broker
from tests.support.wire import Topic, WireClient
from tests.wire.test_configs import BROKER, DELETE, SET, change
from tests.wire.test_offsets import EARLIEST, LATEST, delete_records, list_offsets

VALUE = b"x" * 400
CONFIG = {
    "log.initial.task.delay.ms": "0",
    "log.retention.check.interval.ms": "100",
    "log.segment.delete.delay.ms": "0",
    "log.retention.ms": "-1",
    "log.cleaner.enable": "false",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running_broker(tmp_path_factory.mktemp("retention"), CONFIG) as running:
        yield running


@pytest.fixture
def kafka(broker: BrokerProcess) -> Iterator[WireClient]:
    with WireClient(broker.bootstrap) as client:
        yield client


def offset_of(kafka: WireClient, topic: Topic, which: int) -> int:
    answer = list_offsets(kafka, 7, topic.name, which)
    assert answer.error_code == 0
    offset: int = answer.offset
    return offset


def filled(kafka: WireClient, count: int = 6, **configs: str) -> Topic:
    """One segment a record; the last one is the active segment."""
    topic = kafka.configured_topic({"segment_bytes": "600", **configs})
    for _ in range(count):
        kafka.append(topic.name, VALUE, timestamp=1000)
    return topic


def segments(broker: BrokerProcess, topic: Topic) -> list[str]:
    """Everything with the messages of the partition, deleted files included."""
    return sorted(path.name for path in (broker.log_dir / f"{topic.name}-0").glob("*.log*"))


def alter(kafka: WireClient, name: str, key: str, value: str | None, kind: int) -> None:
    answer = change(kafka, 1, name, (SET if value else DELETE, key, value), kind=kind)
    assert answer.error_code == 0, answer


def test_a_topic_is_told_to_keep_less(kafka: WireClient, broker: BrokerProcess) -> None:
    topic = filled(kafka)
    assert len(segments(broker, topic)) == 6
    change(kafka, 1, topic.name, (SET, "retention.bytes", "1000"))
    # As few segments as hold so much.
    until(lambda: offset_of(kafka, topic, EARLIEST) == 3, "retention.bytes")
    until(lambda: len(segments(broker, topic)) == 3, "the files of the deleted segments")
    assert [record.offset for record in kafka.read(topic, 3)][:1] == [3]
    assert kafka.fetch(topic, 2).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    change(kafka, 1, topic.name, (SET, "retention.ms", "1000"))
    until(lambda: offset_of(kafka, topic, EARLIEST) == 6, "retention.ms, of the active one too")
    assert kafka.append(topic.name, VALUE) == 6


def test_policies(kafka: WireClient) -> None:
    """What is compacted is not deleted, until its policy says so."""
    compacted = filled(kafka, retention_ms="1000", cleanup_policy="compact")
    deleted = filled(kafka, retention_ms="1000")
    until(lambda: offset_of(kafka, deleted, EARLIEST) == 6, "retention.ms from the start on")
    assert offset_of(kafka, compacted, EARLIEST) == 0
    change(kafka, 1, compacted.name, (SET, "cleanup.policy", "delete"))
    until(lambda: offset_of(kafka, compacted, EARLIEST) == 6, "cleanup.policy")


def test_brokers_are_told_to_keep_less(kafka: WireClient) -> None:
    topic, own = filled(kafka), filled(kafka, retention_ms="100000000000000")
    alter(kafka, "", "log.retention.ms", "1000", BROKER)
    try:
        until(lambda: offset_of(kafka, topic, EARLIEST) == 6, "log.retention.ms")
        assert offset_of(kafka, own, EARLIEST) == 0
    finally:
        alter(kafka, "", "log.retention.ms", None, BROKER)


def test_deleted_records_go_by_segments(kafka: WireClient, broker: BrokerProcess) -> None:
    topic = filled(kafka)
    assert delete_records(kafka, 2, topic.name, 3).low_watermark == 3
    assert offset_of(kafka, topic, EARLIEST) == 3
    until(lambda: len(segments(broker, topic)) == 3, "the files below the log start")
    assert delete_records(kafka, 2, topic.name, -1).low_watermark == 6
    until(lambda: len(segments(broker, topic)) == 1, "all but the active segment")
    assert offset_of(kafka, topic, LATEST) == 6


def test_a_deletion_is_finished_after_a_crash(
    kafka: WireClient, broker: BrokerProcess, tmp_path: Path
) -> None:
    late = filled(kafka, file_delete_delay_ms="3600000")
    kept = filled(kafka)
    asked = [DeleteTopicState(name=late.name)]
    (answer,) = kafka.call(DeleteTopicsRequest(topics=asked, timeout_ms=15_000)).responses
    assert answer.error_code == 0

    def doomed() -> list[Path]:
        return list(broker.log_dir.glob(f"{late.name}-0.*-delete"))

    until(lambda: len(doomed()) == 1, "the rename")
    broker.kill()
    assert len(doomed()) == 1
    broker.start()
    until(lambda: doomed() == [], "the deletion that the last run has begun")
    with WireClient(broker.bootstrap) as again:
        assert len(again.read(kept)) == 1
        again.create_topic(name=late.name)
        assert again.append(late.name, VALUE) == 0
