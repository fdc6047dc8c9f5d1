"""Replicas moved between the log directories of a running broker: AlterReplicaLogDirs and what
DescribeLogDirs shows of it, in every version.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from pybroker_kafka.protocol.apis.describe_log_dirs import DescribeLogDirsRequest
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.patience import until
from tests.support.processes import BrokerProcess, running_broker
from tests.support.wire import Topic, WireClient, covers
from tests.wire.test_configs import BROKER, DELETE, SET, change

RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
VALUE = b"x" * 100_000


class Jbod(NamedTuple):
    broker: BrokerProcess
    paths: list[str]


@pytest.fixture(scope="module")
def jbod(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jbod]:
    base = tmp_path_factory.mktemp("jbod")
    paths = [str(base / name) for name in ("one", "two", "three")]
    with running_broker(base, {"log.dirs": ",".join(paths)}) as broker:
        yield Jbod(broker, paths)


@pytest.fixture
def kafka(jbod: Jbod) -> Iterator[WireClient]:
    with WireClient(jbod.broker.bootstrap) as client:
        yield client


def alter(
    kafka: WireClient, topic: str, path: str, version: int | None = None, partition: int = 0
) -> int:
    asked = AlterReplicaLogDirTopic(name=topic, partitions=[partition])
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=[asked])])
    ((result,),) = (t.partitions for t in kafka.call(request, version).results)
    assert result.partition_index == partition
    code: int = result.error_code
    return code


def replicas_of(kafka: WireClient, topic: str, version: int | None = None) -> dict[str, Any]:
    """Of each directory with the topic's partition 0: what is said of it."""
    results = kafka.call(DescribeLogDirsRequest(topics=None), version).results
    return {
        result.log_dir: partition
        for result in results
        for answered in result.topics
        if answered.name == topic
        for partition in answered.partitions
    }


def wait_until_in(kafka: WireClient, topic: Topic, path: str) -> None:
    def is_there() -> bool:
        found = replicas_of(kafka, topic.name)
        return list(found) == [path] and not found[path].is_future_key

    until(is_there, lambda: replicas_of(kafka, topic.name))


def set_rate(kafka: WireClient, jbod: Jbod, rate: str | None) -> None:
    """Returns when the broker says that it has heard of it."""
    log = jbod.broker.log_text
    answer = change(kafka, 1, "", (SET if rate else DELETE, RATE, rate), kind=BROKER)
    assert answer.error_code == 0, answer
    until(lambda: RATE in jbod.broker.log_text[len(log) :])


@covers(ApiKey.ALTER_REPLICA_LOG_DIRS)
def test_a_replica_goes_from_directory_to_directory(kafka: WireClient, jbod: Jbod) -> None:
    topic = kafka.create_topic(segment_bytes="250000")
    kafka.append(topic.name, VALUE)
    for version in kafka.versions(ApiKey.ALTER_REPLICA_LOG_DIRS):
        for _ in range(3):
            kafka.append(topic.name, VALUE)
        (home,) = replicas_of(kafka, topic.name)
        target = next(path for path in jbod.paths if path != home)
        assert alter(kafka, topic.name, target, version) == 0
        wait_until_in(kafka, topic, target)
        kafka.append(topic.name, VALUE)
    records = kafka.read(topic)
    assert [record.offset for record in records] == list(range(len(records)))


@covers(ApiKey.DESCRIBE_LOG_DIRS)
def test_a_throttled_move_is_seen_and_called_off(kafka: WireClient, jbod: Jbod) -> None:
    topic = kafka.create_topic()
    for _ in range(40):
        kafka.append(topic.name, VALUE)
    (home,) = replicas_of(kafka, topic.name)
    target = next(path for path in jbod.paths if path != home)
    set_rate(kafka, jbod, "100000")
    try:
        assert alter(kafka, topic.name, target) == 0
        for version in kafka.versions(ApiKey.DESCRIBE_LOG_DIRS):
            found = replicas_of(kafka, topic.name, version)
            assert set(found) == {home, target}
            assert not found[home].is_future_key
            assert found[target].is_future_key
            assert found[home].offset_lag == 0
            assert 0 < found[target].offset_lag <= 40
            assert found[target].partition_size < found[home].partition_size
        assert len(list(Path(target).glob(f"{topic.name}-0.*-future"))) == 1
        assert alter(kafka, topic.name, home) == 0
        wait_until_in(kafka, topic, home)
        assert list(Path(target).glob(f"{topic.name}-0.*-future")) == []
    finally:
        set_rate(kafka, jbod, None)
    assert len(kafka.read(topic)) > 0


def test_what_is_refused(kafka: WireClient) -> None:
    topic = kafka.create_topic()
    for version in kafka.versions(ApiKey.ALTER_REPLICA_LOG_DIRS):
        (home,) = replicas_of(kafka, topic.name)
        codes = [
            alter(kafka, topic.name, "/nowhere", version),
            alter(kafka, "ghost", home, version),
            alter(kafka, topic.name, home, version, partition=9),
            alter(kafka, "t" * 249, home, version),
            alter(kafka, topic.name, home, version),
        ]
        assert codes == [
            ErrorCode.LOG_DIR_NOT_FOUND,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            ErrorCode.NONE,
        ]
        assert list(replicas_of(kafka, topic.name)) == [home]


def test_a_directory_can_be_chosen_before_the_topic_exists(kafka: WireClient, jbod: Jbod) -> None:
    for number, path in enumerate(jbod.paths):
        name = f"later-{number}"
        assert alter(kafka, name, path) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        kafka.create_topic(name=name)
        assert list(replicas_of(kafka, name)) == [path]
