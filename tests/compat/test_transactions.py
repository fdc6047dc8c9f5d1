"""Transactional producers of three clients against pybroker, beside readers of committed data.

Each client commits, aborts, is fenced by its successor, and is timed out; a reader of committed
data (another client) sees what was committed, once, and nothing else.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest
from confluent_kafka import TopicPartition

from tests.support.consumed import error_of, partition_of, value_of
from tests.support.processes import BrokerProcess, running_broker
from tests.support.wire import WireClient, batch, unique
from tests.wire.transaction_steps import add, again, end, start, wait_for_state

WAIT_SECONDS = 120.0
TIMEOUT_MS = 1_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Looks for timed-out transactions more often than by default."""
    config = {
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
        "transaction.state.log.num.partitions": "5",
    }
    with running_broker(tmp_path_factory.mktemp("transactions"), config) as process:
        yield process


@pytest.fixture
def topic(broker: BrokerProcess) -> str:
    with WireClient(broker.bootstrap) as wire:
        return wire.create_topic(partitions=3).name


def read_with_confluent(broker: BrokerProcess, topic: str, count: int) -> list[bytes]:
    """All committed values of the topic, which must be `count`."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": unique("reader"),
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, p, 0) for p in range(3)])
    values: list[bytes] = []
    at_end: set[int] = set()
    deadline = time.monotonic() + WAIT_SECONDS
    while len(at_end) < 3 or len(values) < count:
        assert time.monotonic() < deadline, values
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error() is None:
            values.append(value_of(message))
            at_end.discard(partition_of(message))
        else:
            assert error_of(message).code() == confluent_kafka.KafkaError._PARTITION_EOF
            at_end.add(partition_of(message))
    consumer.close()
    return sorted(values)


def read_with_kafka_python(broker: BrokerProcess, topic: str, count: int) -> list[bytes]:
    """The first `count` committed values of the topic."""
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=broker.bootstrap,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        group_id=None,
    )
    consumer.assign([kafka.TopicPartition(topic, p) for p in range(3)])
    values: list[bytes] = []
    deadline = time.monotonic() + WAIT_SECONDS
    while len(values) < count:
        assert time.monotonic() < deadline, values
        for records in consumer.poll(timeout_ms=500).values():
            values.extend(record.value for record in records)
    consumer.close()
    return sorted(values)


Reader = Callable[[BrokerProcess, str, int], list[bytes]]


class KafkaPython:
    """kafka-python's transactional producer."""

    error = kafka.errors.KafkaError

    def __init__(self, broker: BrokerProcess, name: str, timeout_ms: int = 60_000) -> None:
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=broker.bootstrap,
            transactional_id=name,
            transaction_timeout_ms=timeout_ms,
        )
        self._producer.init_transactions()

    def send(self, topic: str, *values: bytes) -> None:
        self._producer.begin_transaction()
        futures = [
            self._producer.send(topic, value, partition=n % 3) for n, value in enumerate(values)
        ]
        for future in futures:
            future.get(WAIT_SECONDS)

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(timeout=0)


class Confluent:
    """confluent-kafka's (librdkafka's)."""

    error = confluent_kafka.KafkaException

    def __init__(self, broker: BrokerProcess, name: str, timeout_ms: int = 60_000) -> None:
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "transactional.id": name,
                "transaction.timeout.ms": timeout_ms,
                "message.timeout.ms": timeout_ms,
            }
        )
        self._producer.init_transactions(WAIT_SECONDS)

    def send(self, topic: str, *values: bytes) -> None:
        self._producer.begin_transaction()
        failures: list[Any] = []

        def delivered(error: Any, _: Any) -> None:
            if error is not None:
                failures.append(error)

        for n, value in enumerate(values):
            self._producer.produce(topic, value, partition=n % 3, on_delivery=delivered)
        assert self._producer.flush(WAIT_SECONDS) == 0
        if failures:
            raise confluent_kafka.KafkaException(failures[0])

    def commit(self) -> None:
        self._producer.commit_transaction(WAIT_SECONDS)

    def abort(self) -> None:
        self._producer.abort_transaction(WAIT_SECONDS)

    def close(self) -> None:
        self._producer.purge()


class AioKafka:
    """aiokafka's, on a loop of its own."""

    error = aiokafka.errors.KafkaError

    def __init__(self, broker: BrokerProcess, name: str, timeout_ms: int = 60_000) -> None:
        self._loop = asyncio.new_event_loop()
        self._producer = self._loop.run_until_complete(self._start(broker, name, timeout_ms))

    async def _start(self, broker: BrokerProcess, name: str, timeout_ms: int) -> Any:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap,
            transactional_id=name,
            transaction_timeout_ms=timeout_ms,
        )
        await producer.start()
        return producer

    def send(self, topic: str, *values: bytes) -> None:
        self._loop.run_until_complete(self._send(topic, values))

    async def _send(self, topic: str, values: tuple[bytes, ...]) -> None:
        await self._producer.begin_transaction()
        for n, value in enumerate(values):
            await self._producer.send_and_wait(topic, value, partition=n % 3)

    def commit(self) -> None:
        self._loop.run_until_complete(self._producer.commit_transaction())

    def abort(self) -> None:
        self._loop.run_until_complete(self._producer.abort_transaction())

    def close(self) -> None:
        # A zombie's `stop` would try to end its transaction: its connections are enough.
        self._producer._closed = True
        self._loop.run_until_complete(self._producer.client.close())
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()


CLIENTS = [KafkaPython, Confluent, AioKafka]


@pytest.mark.parametrize("read", [read_with_confluent, read_with_kafka_python])
@pytest.mark.parametrize("client", CLIENTS)
def test_commit_and_abort(broker: BrokerProcess, topic: str, client: Any, read: Reader) -> None:
    producer = client(broker, unique("txn"))
    committed = []
    for round_number in range(4):
        values = [b"%d-%d" % (round_number, n) for n in range(6)]
        producer.send(topic, *values)
        if round_number % 2:
            producer.abort()
        else:
            producer.commit()
            committed += values
    producer.send(topic, b"open")
    assert read(broker, topic, len(committed)) == committed
    producer.commit()
    assert read(broker, topic, len(committed) + 1) == sorted([*committed, b"open"])
    producer.close()


@pytest.mark.parametrize("client", CLIENTS)
def test_a_zombie_is_fenced(broker: BrokerProcess, topic: str, client: Any) -> None:
    name = unique("txn")
    zombie = client(broker, name)
    zombie.send(topic, b"never")
    successor = client(broker, name)
    with pytest.raises(client.error):
        zombie.commit()
    successor.send(topic, b"first", b"second")
    successor.commit()
    assert read_with_confluent(broker, topic, 2) == [b"first", b"second"]
    zombie.close()
    successor.close()


@pytest.mark.parametrize("client", CLIENTS)
def test_a_transaction_that_takes_too_long(broker: BrokerProcess, topic: str, client: Any) -> None:
    name = unique("txn")
    slow = client(broker, name, TIMEOUT_MS)

    def end_too_late() -> None:
        slow.send(topic, b"too slow")  # on a machine that stands still, this is too slow already
        with WireClient(broker.bootstrap) as wire:
            assert wait_for_state(wire, name, "CompleteAbort").producer_epoch == 1
        slow.commit()

    with pytest.raises(client.error):
        end_too_late()
    slow.close()
    # Whoever comes next goes on.
    successor = client(broker, name)
    successor.send(topic, b"in time")
    successor.commit()
    assert read_with_confluent(broker, topic, 1) == [b"in time"]
    successor.close()


def test_a_broker_that_is_killed(tmp_path: Path) -> None:
    """What was decided is ended after the restart, what was open goes on with its producer."""
    with running_broker(tmp_path) as broker:
        with WireClient(broker.bootstrap) as wire:
            topic = wire.create_topic(partitions=3).name
            producers = [start(wire) for _ in range(9)]
            for n, producer in enumerate(producers):
                at = (topic, n % 3)
                assert add(wire, producer, at) == {at: 0}
                records = batch(
                    b"%d" % n,
                    producer_id=producer.id,
                    producer_epoch=producer.epoch,
                    base_sequence=0,
                    is_transactional=True,
                )
                answer = wire.produce(
                    topic, records, partition=n % 3, transactional_id=producer.name
                )
                assert answer.error_code == 0
            for n, producer in enumerate(producers[:6]):
                assert end(wire, producer, committed=n < 3) == 0
        broker.kill()
        broker.start()
        with WireClient(broker.bootstrap) as wire:
            for n, producer in enumerate(producers):
                if n >= 6:
                    assert again(partial(end, wire, producer), int) == 0
                committed = n < 3 or n >= 6
                state = "CompleteCommit" if committed else "CompleteAbort"
                view = wait_for_state(wire, producer.name, state)
                assert (view.producer_id, view.producer_epoch) == producer[1:]
        assert read_with_confluent(broker, topic, 6) == [b"0", b"1", b"2", b"6", b"7", b"8"]
