"""A log directory that fails: its partitions answer storage errors, by version, the others go on.

The directory is taken away under a broker of its own, which has another one left.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.describe_log_dirs import DescribeLogDirsRequest
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.processes import running_broker
from tests.support.wire import Topic, WireClient, batch, records_of
from tests.wire.control_steps import metadata_of
from tests.wire.test_offsets import LATEST, delete_records, end_of_epoch, list_offsets
from tests.wire.test_produce import in_format_of

WAIT_SECONDS = 120.0
NOT_LEADER, STORAGE_ERROR = ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR
FETCH_KNOWS_STORAGE_ERRORS_SINCE = 6


class Failed(NamedTuple):
    kafka: WireClient
    lost: Topic
    kept: Topic
    directory: str


def directory_of(kafka: WireClient, topic: Topic) -> str:
    for result in kafka.call(DescribeLogDirsRequest(topics=None)).results:
        if topic.name in {answered.name for answered in result.topics}:
            path: str = result.log_dir
            return path
    raise AssertionError(f"{topic.name} is in no directory")


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Failed]:
    base = tmp_path_factory.mktemp("offline")
    config = {"log.dirs": f"{base / 'one'},{base / 'two'}"}
    with running_broker(base, config) as broker, WireClient(broker.bootstrap) as kafka:
        lost, kept = (kafka.create_topic(segment_bytes="500") for _ in range(2))
        directory = directory_of(kafka, lost)
        # New partitions go where the fewest are.
        assert directory_of(kafka, kept) != directory
        for topic in (lost, kept):
            kafka.append(topic.name, b"x" * 300)
        shutil.rmtree(directory)
        answer = kafka.produce(lost.name, batch(b"x" * 300))
        assert answer.error_code == STORAGE_ERROR
        assert answer.base_offset == -1
        until_offline(kafka, lost)
        yield Failed(kafka, lost, kept, directory)


def until_offline(kafka: WireClient, topic: Topic) -> None:
    """The controller hears of it and takes the leadership away."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        (part,) = metadata_of(kafka, topic).topics[0].partitions
        if part.error_code == ErrorCode.LEADER_NOT_AVAILABLE:
            return
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_produce(failed: Failed) -> None:
    for version in failed.kafka.versions(ApiKey.PRODUCE):
        records = in_format_of(version, b"value")
        for acks in (1, -1):
            answer = failed.kafka.produce(failed.lost.name, records, version=version, acks=acks)
            assert (answer.error_code, answer.base_offset) == (STORAGE_ERROR, -1)


def test_old_consumers_are_told_that_the_leader_is_gone(failed: Failed) -> None:
    for version in failed.kafka.versions(ApiKey.FETCH):
        answer = failed.kafka.fetch(failed.lost, 0, version)
        old = version < FETCH_KNOWS_STORAGE_ERRORS_SINCE
        assert answer.error_code == (NOT_LEADER if old else STORAGE_ERROR)
        assert records_of(answer) == []


def test_offsets(failed: Failed) -> None:
    kafka, name = failed.kafka, failed.lost.name
    answers: list[Any] = [
        list_offsets(kafka, version, name, LATEST)
        for version in kafka.versions(ApiKey.LIST_OFFSETS)
    ]
    answers += [
        end_of_epoch(kafka, version, name, 0)
        for version in kafka.versions(ApiKey.OFFSET_FOR_LEADER_EPOCH)
    ]
    answers += [
        delete_records(kafka, version, name, 0) for version in kafka.versions(ApiKey.DELETE_RECORDS)
    ]
    assert {answer.error_code for answer in answers} == {STORAGE_ERROR}


def test_metadata(failed: Failed) -> None:
    response = metadata_of(failed.kafka, failed.lost)
    me = response.brokers[0].node_id
    (part,) = response.topics[0].partitions
    assert (part.error_code, part.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert (part.replica_nodes, part.offline_replicas) == ([me], [me])


def test_log_dirs(failed: Failed) -> None:
    for version in failed.kafka.versions(ApiKey.DESCRIBE_LOG_DIRS):
        results = failed.kafka.call(DescribeLogDirsRequest(topics=None), version).results
        by_path = {result.log_dir: result for result in results}
        assert len(by_path) == 2
        offline = by_path.pop(failed.directory)
        assert (offline.error_code, offline.topics) == (STORAGE_ERROR, [])
        (online,) = by_path.values()
        assert online.error_code == 0
        assert failed.kept.name in {answered.name for answered in online.topics}


def test_the_other_directory_goes_on(failed: Failed) -> None:
    for _ in range(3):
        failed.kafka.append(failed.kept.name, b"x" * 300)
    assert len(failed.kafka.read(failed.kept)) >= 1
    for _ in range(2):
        topic = failed.kafka.create_topic()
        assert directory_of(failed.kafka, topic) != failed.directory
        assert failed.kafka.append(topic.name, b"value") == 0
