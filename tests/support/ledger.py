"""Producers and consumers under which a cluster is broken, and the books that they keep.

Job: producers send numbered records and note the offset that each acknowledgement names;
consumers note what they read and which commits were acknowledged (`tests.support.loads`), with
librdkafka, kafka-python and our own client (`our_loads`). `tests.support.audit` compares the books
with the logs at the end.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka import KafkaError as ConfluentError
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from tests.support.consumed import consumed
from tests.support.loads import (
    DELIVERY_TIMEOUT_MS,
    END_TIMEOUT_SECONDS,
    ConsumerLoad,
    ProducerLoad,
)
from tests.support.our_loads import OurProducer, OurReader

COMMIT_TIMEOUT_SECONDS = 10.0
# Long: a rebalance should end in the poll in which it began (see PythonReader).
POLL_MS = 1000
STUCK_SECONDS = 10.0
MAX_LOG_LINES = 20_000

logging.getLogger("kafka").setLevel(logging.CRITICAL)


def librdkafka(bootstrap: str, **settings: object) -> dict[str, object]:
    """Settings of every librdkafka client here: quick to come back, and quiet.

    The metadata interval is 5 minutes by default, and for as long a consumer may wait: when the
    first Metadata of its subscription is on its way to a bootstrap address whose broker becomes
    known by its id just then, librdkafka 2.16 drops that connection ("Broker handle destroyed
    without termination") and asks again only with the next interval.
    """
    return {
        "bootstrap.servers": bootstrap,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 500,
        "topic.metadata.refresh.interval.ms": 5_000,
        "log_level": 0,
        "logger": logging.getLogger("librdkafka"),
        **{name.replace("_", "."): value for name, value in settings.items()},
    }


logging.getLogger("librdkafka").setLevel(logging.CRITICAL)


class Lines(logging.Handler):
    """The newest lines of a client's log, with the wall clock's time as the brokers' logs have."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: deque[str] = deque(maxlen=MAX_LOG_LINES)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{datetime.fromtimestamp(record.created)} {record.getMessage()}")


class ConfluentProducer(ProducerLoad):
    def __init__(
        self, bootstrap: str, name: str, topic: str, partitions: int, *, idempotent: bool
    ) -> None:
        super().__init__(name, topic, partitions, idempotent=idempotent)
        # One request in flight is a limit of a connection: librdkafka goes on to a new leader while
        # the old one has not answered, and retries the old request later.
        self.is_ordered = idempotent
        settings = librdkafka(
            bootstrap,
            acks="all",
            enable_idempotence=idempotent,
            max_in_flight_requests_per_connection=5 if idempotent else 1,
            linger_ms=2,
            message_timeout_ms=DELIVERY_TIMEOUT_MS,
            retry_backoff_ms=50,
            socket_timeout_ms=10_000,
        )
        self._producer = Producer({**settings, "error_cb": self._troubled})

    def _troubled(self, error: ConfluentError) -> None:
        if error.fatal():
            self.errors.append(f"{self.name} gives up: {error.str()}")

    def send(self, number: int) -> None:
        key, value, partition = self.record(number)

        def delivered(error: object, message: Message) -> None:
            if error is not None:
                self.errors.append(f"{self.name}:{number}: {error}")
            else:
                offset = message.offset()  # None: the broker knew it only as a duplicate
                self.acknowledged[number] = partition, -1 if offset is None else offset

        try:
            self._producer.produce(
                self.topic, value, key, partition=partition, on_delivery=delivered
            )
        except KafkaException:
            self._producer.poll(1.0)  # the exception says "Fatal error", its reason comes here
            raise

    def serve(self) -> None:
        self._producer.poll(0)

    def finish(self) -> None:
        left = self._producer.flush(END_TIMEOUT_SECONDS)
        assert left == 0, f"{self.name}: {left} records without an answer"


class PythonProducer(ProducerLoad):
    def __init__(
        self, bootstrap: str, name: str, topic: str, partitions: int, *, idempotent: bool
    ) -> None:
        super().__init__(name, topic, partitions, idempotent=idempotent)
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap.split(","),
            acks="all",
            enable_idempotence=idempotent,
            max_in_flight_requests_per_connection=5 if idempotent else 1,
            linger_ms=2,
            delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
            request_timeout_ms=10_000,
            retry_backoff_ms=50,
            reconnect_backoff_ms=50,
            reconnect_backoff_max_ms=500,
            max_block_ms=60_000,
            api_version=(2, 8),
        )

    def send(self, number: int) -> None:
        key, value, partition = self.record(number)
        future = self._producer.send(self.topic, value, key, partition=partition)
        future.add_callback(self._delivered, number)
        future.add_errback(self._failed, number)

    def _delivered(self, number: int, place: object) -> None:
        self.acknowledged[number] = (place.partition, place.offset)  # type: ignore[attr-defined]

    def _failed(self, number: int, error: BaseException) -> None:
        self.errors.append(f"{self.name}:{number}: {error!r}")

    def finish(self) -> None:
        self._producer.flush(END_TIMEOUT_SECONDS)
        self._producer.close(END_TIMEOUT_SECONDS)
        answered = len(self.acknowledged) + len(self.errors)
        assert answered == self.sent, f"{self.name}: {self.sent - answered} without an answer"

    def drop(self) -> None:
        with contextlib.suppress(KafkaError):
            self._producer.close(0)


class ConfluentReader(ConsumerLoad):
    """Commits asynchronously and waits a while: a commit that librdkafka was told to wait for may
    block it for minutes when the coordinator dies with that commit on its way."""

    def __init__(self, bootstrap: str, name: str, topic: str) -> None:
        super().__init__(name, topic)
        self._answers: list[tuple[bool, dict[int, int]]] = []
        self.log = Lines()
        self._logger = logging.Logger(name)
        self._logger.addHandler(self.log)
        self._settings = librdkafka(
            bootstrap,
            group_id=name,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=30_000,
            socket_timeout_ms=10_000,
            fetch_wait_max_ms=100,
        )
        self.reopened = 0
        self._consumer = self._open()

    def _open(self) -> Consumer:
        told = {"logger": self._logger, "debug": "cgrp,consumer,metadata,topic,broker"}
        consumer = Consumer({**self._settings, **told, "log_level": 7, "on_commit": self._answered})
        consumer.subscribe([self.topic])
        return consumer

    def poll(self) -> None:
        is_stuck = False
        for message in self._consumer.consume(500, 0.1):
            error = message.error()
            if error is None:
                found = consumed(message)
                self.note(found.partition, found.offset, found.value)
            else:
                is_stuck |= error.code() == ConfluentError.NOT_COORDINATOR
        if is_stuck:
            self._reopen()

    def _reopen(self) -> None:
        """Start anew, as a user has to, when the coordinator has moved before it was asked for the
        committed offsets of a new assignment.

        librdkafka 2.16 hands its NOT_COORDINATOR to the application, finds the new coordinator,
        sends it heartbeats, and does not ask for the offsets again: its partitions are never read
        (confluentinc/librdkafka#5586).
        """
        self.reopened += 1
        self._answers.clear()
        self._consumer.close()
        self._consumer = self._open()

    def _answered(self, error: object, partitions: list[TopicPartition]) -> None:
        good = error is None and all(one.error is None for one in partitions)
        self._answers.append((good, {one.partition: one.offset for one in partitions}))

    def commit(self, offsets: dict[int, int]) -> bool:
        wanted = [TopicPartition(self.topic, p, o) for p, o in offsets.items()]
        try:
            self._consumer.commit(offsets=wanted, asynchronous=True)
        except KafkaException:
            return False
        until = time.monotonic() + COMMIT_TIMEOUT_SECONDS
        while time.monotonic() < until and not self._ending.is_set():
            self.poll()
            for good, committed in self._answers:
                if committed == offsets:
                    self._answers.clear()
                    return good
        return False

    def close(self) -> None:
        self._consumer.close()

    def stored(self) -> dict[int, int]:
        partitions = [TopicPartition(self.topic, p) for p in self.positions]
        with contextlib.closing(Consumer(self._settings)) as asker:
            found = asker.committed(partitions, 10.0)
        return {one.partition: one.offset for one in found if one.error is None}


class PythonReader(ConsumerLoad):
    def __init__(self, bootstrap: str, name: str, topic: str) -> None:
        super().__init__(name, topic)
        self._settings = {
            "bootstrap_servers": bootstrap.split(","),
            "group_id": name,
            "enable_auto_commit": False,
            "auto_offset_reset": "earliest",
            "session_timeout_ms": 30_000,
            "request_timeout_ms": 10_000 + 30_000,
            "fetch_max_wait_ms": 100,
            "retry_backoff_ms": 50,
            "reconnect_backoff_ms": 50,
            "reconnect_backoff_max_ms": 500,
            "api_version": (2, 8),
        }
        self._consumer = KafkaConsumer(topic, **self._settings)
        self._refused_since: float | None = None

    def poll(self) -> None:
        try:
            found = self._consumer.poll(POLL_MS, max_records=500)
        except KafkaError:
            return  # asked again: what matters is what arrives in the end
        for partition, messages in found.items():
            for message in messages:
                self.note(partition.partition, message.offset, message.value)

    def commit(self, offsets: dict[int, int]) -> bool:
        wanted = {
            PythonPartition(self.topic, p): OffsetAndMetadata(o, "", -1) for p, o in offsets.items()
        }
        try:
            self._consumer.commit(wanted)
        except KafkaError:
            self._reopen_if_stuck()
            return False
        self._refused_since = None
        return True

    def _reopen_if_stuck(self) -> None:
        """Start anew, as a user would, when every commit is refused.

        kafka-python 3.0.12 can lose a rebalance that ends after the poll in which it began: if the
        reason for it is gone by then, the client is "undergoing a rebalance" without end.
        """
        now = time.monotonic()
        if self._refused_since is None:
            self._refused_since = now
        elif now - self._refused_since > STUCK_SECONDS:
            self._refused_since = None
            self._consumer.close()
            self._consumer = KafkaConsumer(self.topic, **self._settings)

    def close(self) -> None:
        self._consumer.close()

    def stored(self) -> dict[int, int]:
        with contextlib.closing(KafkaConsumer(**self._settings)) as asker:
            found = {p: asker.committed(PythonPartition(self.topic, p)) for p in self.positions}
        return {partition: offset for partition, offset in found.items() if offset is not None}


CLIENTS = ("confluent", "kafka-python", "pybroker")

_PRODUCERS: dict[str, Callable[..., ProducerLoad]] = {
    "confluent": ConfluentProducer,
    "kafka-python": PythonProducer,
    "pybroker": OurProducer,
}
_READERS: dict[str, Callable[..., ConsumerLoad]] = {
    "confluent": ConfluentReader,
    "kafka-python": PythonReader,
    "pybroker": OurReader,
}


class Ledger:
    """The load of one case over one topic: two producers and a group of each client.

    Without `idempotent` ones it is one producer each.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        clients: Sequence[str] = CLIENTS,
        *,
        idempotent: bool = True,
    ) -> None:
        self.topic = topic
        self.partitions = partitions
        self.producers: list[ProducerLoad] = [
            _PRODUCERS[client](bootstrap, name, topic, partitions, idempotent=is_idempotent)
            for client in clients
            for name, is_idempotent in ((f"{client}-idempotent", True), (client, False))
            if idempotent or not is_idempotent
        ]
        self.consumers: list[ConsumerLoad] = [
            _READERS[client](bootstrap, f"{client}-reader", topic) for client in clients
        ]

    @property
    def _threads(self) -> list[ProducerLoad | ConsumerLoad]:
        return [*self.producers, *self.consumers]

    @property
    def acknowledged(self) -> int:
        return sum(len(producer.acknowledged) for producer in self.producers)

    @property
    def errors(self) -> list[str]:
        return [error for producer in self.producers for error in producer.errors]

    def summary(self) -> list[str]:
        """How far everybody is, after a failure."""
        return [
            f"{one.name}: {one.sent} sent, {len(one.acknowledged)} acknowledged, "
            f"{len(one.errors)} errors, the last {one.errors[-1:]}"
            for one in self.producers
        ] + [
            f"{one.name}: {len(one.read)} read, at {one.positions}, committed {one.committed}"
            for one in self.consumers
        ]

    def write_logs(self, directory: Path) -> list[str]:
        """What the clients' libraries have told, in files; their paths."""
        written = []
        for consumer in self.consumers:
            if isinstance(consumer, ConfluentReader):
                path = directory / f"{consumer.name}.log"
                path.write_text("\n".join(consumer.log.lines))
                written.append(f"what {consumer.name} told is in {path}")
        return written

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def progress(self, records: int, *clients: str) -> Callable[[], bool]:
        """Whether each producer, of these clients, has got so many more answers from now on."""
        goals = {
            one: len(one.acknowledged) + records
            for one in self.producers
            if one.name.startswith(clients or "")
        }

        def reached() -> bool:
            self.raise_crashes()
            return all(len(one.acknowledged) >= goal for one, goal in goals.items())

        return reached

    def raise_crashes(self) -> None:
        for thread in self._threads:
            if thread.crash is not None:
                raise AssertionError(f"{thread.name} ended: {thread.crash!r}") from thread.crash

    def end_producers(self) -> None:
        for producer in self.producers:
            producer.end()
        for producer in self.producers:
            producer.join(2 * END_TIMEOUT_SECONDS)
            assert not producer.is_alive(), f"{producer.name} does not end"
        self.raise_crashes()

    def end_consumers(self) -> None:
        for consumer in self.consumers:
            consumer.end()
        for consumer in self.consumers:
            consumer.join(END_TIMEOUT_SECONDS)
            assert not consumer.is_alive(), f"{consumer.name} does not end"
        self.raise_crashes()

    def abandon(self) -> None:
        """Let go, after a failure with records still on their way."""
        for thread in self._threads:
            thread.end()
        for producer in self.producers:
            producer.drop()
