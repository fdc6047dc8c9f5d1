"""The batches that pybroker refuses in tests/wire, sent to Apache Kafka: the same codes."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.apache_kafka import ApacheKafkaProcess
from tests.support.processes import zookeeper_process
from tests.support.refused_batches import CASES, ask
from tests.support.wire import Topic, WireClient
from tests.wire.test_offsets import LATEST, list_offsets

WAIT_SECONDS = 120.0
# Here Kafka refuses the whole request.
SPOILS_THE_OTHERS = {"magic 3"}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WireClient]:
    base = tmp_path_factory.mktemp("refused")
    with zookeeper_process(base) as connect:
        broker = ApacheKafkaProcess(base / "broker", connect)
        broker.start()
        try:
            with WireClient(broker.bootstrap) as client:
                yield client
        finally:
            broker.kill()


def create_topic(kafka: WireClient, **configs: str) -> Topic:
    """The broker serves before it has heard of itself."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            return kafka.create_topic(partitions=2, **configs)
        except AssertionError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


@pytest.mark.parametrize("name", CASES)
def test_apache_kafka_answers_the_same(kafka: WireClient, name: str) -> None:
    case = CASES[name]
    configs = {key.replace(".", "_"): value for key, value in case.configs.items()}
    topic = create_topic(kafka, **configs)
    for build in case.before:
        assert kafka.produce(topic.name, build()).error_code == 0
    before = list_offsets(kafka, 7, topic.name, LATEST).offset
    answer, good = ask(kafka, topic, case)
    assert ErrorCode(answer.error_code) is case.error, answer
    assert (good.error_code == 0) == (name not in SPOILS_THE_OTHERS)
    after = list_offsets(kafka, 7, topic.name, LATEST).offset
    assert after == (before if case.error else before + case.taken)
