"""A move between log directories that one broker began and died over, finished by the other.

Apache Kafka and pybroker take turns on the same directories: each finds the other's future replica
and goes on with it, on its own.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from pybroker_kafka.protocol.records.record import Record
from pybroker_kafka.storage.log_directory import REPLACED_MARK
from tests.mixed.one_directory import forget_registration
from tests.support.apache_kafka import ApacheKafkaProcess
from tests.support.patience import until
from tests.support.processes import BrokerProcess, zookeeper_process
from tests.support.wire import Topic, WireClient
from tests.wire.test_configs import BROKER, DELETE, SET, change
from tests.wire.test_log_dirs import RATE, alter, replicas_of

WAIT_SECONDS = 120.0
COUNT = 60
VALUE = b"x" * 50_000
SETTLE_SECONDS = 2.0  # a config that was just written is followed by then

pytestmark = pytest.mark.timeout(400)

Broker = BrokerProcess | ApacheKafkaProcess


def create_topic(kafka: WireClient) -> Topic:
    """The broker serves before it has heard of itself."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            return kafka.create_topic(segment_bytes="500000")
        except AssertionError:
            assert time.monotonic() < deadline
            time.sleep(0.2)


def set_rate(kafka: WireClient, rate: str | None) -> None:
    answer = change(kafka, 1, "", (SET if rate else DELETE, RATE, rate), kind=BROKER)
    assert answer.error_code == 0, answer
    time.sleep(SETTLE_SECONDS)


@pytest.mark.parametrize("first", [ApacheKafkaProcess, BrokerProcess])
def test_the_other_broker_finishes_it(tmp_path: Path, first: type[Broker]) -> None:
    second = BrokerProcess if first is ApacheKafkaProcess else ApacheKafkaProcess
    paths = [str(tmp_path / name) for name in ("one", "two")]
    config = {"log.dirs": ",".join(paths)}
    with zookeeper_process(tmp_path) as connect:
        broker: Broker = first(tmp_path / "broker", connect, config)
        broker.start()
        try:
            with WireClient(broker.bootstrap) as kafka:
                topic = create_topic(kafka)
                for _ in range(COUNT):
                    kafka.append(topic.name, VALUE)
                set_rate(kafka, "100000")
                (home,) = replicas_of(kafka, topic.name)
                (target,) = set(paths) - {home}
                assert alter(kafka, topic.name, target) == 0

                def has_begun() -> bool:
                    found = replicas_of(kafka, topic.name)
                    return target in found and found[target].partition_size > 0

                until(has_begun, "the copy has begun")
        finally:
            broker.kill()
        # Had it been killed in the swap, this would be there as well.
        Path(home, f"{topic.name}-0", REPLACED_MARK).touch()
        forget_registration(connect)
        broker = second(tmp_path / "broker", connect, config)
        broker.start()
        try:
            with WireClient(broker.bootstrap) as kafka:
                set_rate(kafka, None)

                def is_over() -> bool:
                    found = replicas_of(kafka, topic.name)
                    return list(found) == [target] and not found[target].is_future_key

                until(is_over, "the move is over")
                records: list[Record] = []
                while len(records) < COUNT:
                    more = kafka.read(topic, len(records))
                    assert more, f"{len(records)} of {COUNT}"
                    records += more
                assert [record.offset for record in records] == list(range(COUNT))
                assert {record.value for record in records} == {VALUE}
                assert kafka.append(topic.name, VALUE) == COUNT
        finally:
            broker.kill()
