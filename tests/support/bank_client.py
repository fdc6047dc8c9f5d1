"""A client of the bank in a process of its own: a teller or a clerk (see tests/support/bank.py).

    python -m tests.support.bank_client teller|clerk CLIENT BOOTSTRAP NAME LIFE

CLIENT is confluent, kafka-python or pybroker, our own.
A teller makes transfers, each a transaction over several partitions, and aborts every eighth. A
clerk reads orders and writes a receipt for each, with its offsets in the same transaction. Both
write a journal to standard output, a line before what they do and one after:

    b ID   begins           c ID   was told that it is committed
    a ID   was told that it is aborted      u ID   does not know what became of it
    f      was fenced: ends                 x WHY  cannot go on: ends, to be started anew

Transactional ids are the names, so a later life fences an earlier one. SIGTERM ends a client after
its transaction.
"""

from __future__ import annotations

import queue
import random
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import trio

from pybroker_kafka import ClientError, Consumer, Producer
from pybroker_kafka.client.errors import ProducerFenced
from pybroker_kafka.client.producer.settings import Options
from tests.support.bank_terms import (
    ACCOUNTS,
    GROUP,
    LEDGER,
    ORDERS,
    PARTITIONS,
    RECEIPTS,
    TRANSACTION_TIMEOUT_MS,
    leg_value,
)

PAUSE_SECONDS = 0.05
POLL_SECONDS = 0.5
CALL_SECONDS = 120
ANSWER_SECONDS = 120
ABORTED_SHARE = 8
SESSION_TIMEOUT_MS = 6_000
ORDERS_A_TIME = 20
Place = tuple[str, int]


class Fenced(Exception):
    """Another life of the same name is at work."""


class Aborted(Exception):
    """The transaction is over, and was told to be aborted."""


class Unknown(Exception):
    """No more can be said about the transaction; this life is over."""


class Order(NamedTuple):
    place: Place
    offset: int
    value: bytes


class ConfluentClient:
    """librdkafka's transactional producer and, for a clerk, its consumer."""

    def __init__(self, bootstrap: str, name: str) -> None:
        import confluent_kafka

        self._kafka = confluent_kafka
        self._quick = {
            "bootstrap.servers": bootstrap,
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
        }
        self._producer = confluent_kafka.Producer(
            {
                **self._quick,
                "transactional.id": name,
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "linger.ms": 0,
            }
        )
        self._consumer: Any = None
        self._until(lambda: self._producer.init_transactions(CALL_SECONDS))

    def _until(self, call: Callable[[], None]) -> None:
        """Call until it is done, or is known not to be."""
        while True:
            try:
                call()
                return
            except self._kafka.KafkaException as problem:
                error = problem.args[0]
                if error.code() == self._kafka.KafkaError._FENCED:
                    raise Fenced from None
                if error.txn_requires_abort():
                    self._until(lambda: self._producer.abort_transaction(CALL_SECONDS))
                    raise Aborted(str(error)) from None
                if not error.retriable():
                    raise Unknown(str(error)) from None

    def transact(self, records: Iterable[tuple[str, int, bytes]], *, commit: bool) -> None:
        self._until(self._producer.begin_transaction)
        for record in records:
            self._produce(*record)
        self._end(commit)

    def _produce(self, topic: str, partition: int, value: bytes) -> None:
        self._until(lambda: self._producer.produce(topic, value, partition=partition))

    def _end(self, commit: bool) -> None:
        end = self._producer.commit_transaction if commit else self._producer.abort_transaction
        self._until(lambda: end(CALL_SECONDS))
        if not commit:
            raise Aborted("as it was meant to be")

    def subscribe(self) -> None:
        self._consumer = self._kafka.Consumer(
            {
                **self._quick,
                "group.id": GROUP,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "session.timeout.ms": SESSION_TIMEOUT_MS,
                "heartbeat.interval.ms": 1_000,
            }
        )
        self._consumer.subscribe([ORDERS])

    def poll(self) -> list[Order]:
        messages = self._consumer.consume(ORDERS_A_TIME, POLL_SECONDS)
        return [
            Order((m.topic(), m.partition()), m.offset(), m.value())
            for m in messages
            if m.error() is None
        ]

    def receipt(self, orders: list[Order]) -> None:
        metadata = self._consumer.consumer_group_metadata()
        self._until(self._producer.begin_transaction)
        for order in orders:
            self._produce(RECEIPTS, int(order.value) % PARTITIONS, order.value)
        ends = {order.place: order.offset + 1 for order in orders}
        offsets = [self._kafka.TopicPartition(*place, end) for place, end in ends.items()]
        self._until(
            lambda: self._producer.send_offsets_to_transaction(offsets, metadata, CALL_SECONDS)
        )
        self._end(commit=True)

    def rewind(self) -> None:
        """To what is committed; a new member where that cannot be asked."""
        try:
            assigned = self._consumer.assignment()
            for place in self._consumer.committed(assigned, CALL_SECONDS):
                if place.offset < 0:
                    place.offset = self._kafka.OFFSET_BEGINNING
                self._consumer.seek(place)
        except self._kafka.KafkaException as problem:
            raise Unknown(str(problem)) from None

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()


class PythonClient:
    """kafka-python's."""

    def __init__(self, bootstrap: str, name: str) -> None:
        import logging

        import kafka
        from kafka import errors

        logging.getLogger("kafka").setLevel(logging.CRITICAL)
        self._kafka = kafka
        self._errors = errors
        self._bootstrap = bootstrap.split(",")
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=self._bootstrap,
            transactional_id=name,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            max_block_ms=CALL_SECONDS * 1000,
            reconnect_backoff_max_ms=500,
        )
        self._consumer: Any = None
        self._call(self._producer.init_transactions)

    def _call(self, call: Callable[[], Any]) -> Any:
        errors = self._errors
        try:
            return call()
        except (errors.ProducerFencedError, errors.InvalidProducerEpochError):
            raise Fenced from None
        except errors.KafkaError as problem:
            raise Unknown(repr(problem)) from None

    def transact(self, records: Iterable[tuple[str, int, bytes]], *, commit: bool) -> None:
        self._call(self._producer.begin_transaction)
        sent = [
            self._call(partial(self._producer.send, topic, value, partition=partition))
            for topic, partition, value in records
        ]
        if not commit:
            self._call(self._producer.abort_transaction)
            raise Aborted("as it was meant to be")
        for future in sent:
            self._call(partial(future.get, ANSWER_SECONDS))
        self._call(self._producer.commit_transaction)

    def subscribe(self) -> None:
        self._consumer = self._kafka.KafkaConsumer(
            ORDERS,
            bootstrap_servers=self._bootstrap,
            group_id=GROUP,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=1_000,
            max_poll_records=ORDERS_A_TIME,
            reconnect_backoff_max_ms=500,
        )

    def poll(self) -> list[Order]:
        found = self._call(lambda: self._consumer.poll(int(POLL_SECONDS * 1000)))
        return [
            Order((place.topic, place.partition), record.offset, record.value)
            for place, records in found.items()
            for record in records
        ]

    def receipt(self, orders: list[Order]) -> None:
        ends = {order.place: order.offset + 1 for order in orders}
        metadata = self._consumer.group_metadata()
        offsets = {
            self._kafka.TopicPartition(*place): self._kafka.OffsetAndMetadata(end, "", -1)
            for place, end in ends.items()
        }
        records = [(RECEIPTS, int(o.value) % PARTITIONS, o.value) for o in orders]
        self._call(self._producer.begin_transaction)
        sent = [self._producer.send(t, value, partition=p) for t, p, value in records]
        for future in sent:
            self._call(partial(future.get, ANSWER_SECONDS))
        self._call(lambda: self._producer.send_offsets_to_transaction(offsets, metadata))
        self._call(self._producer.commit_transaction)

    def rewind(self) -> None:
        raise Unknown("a new member begins at what is committed")

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close(autocommit=False)


class OurClient:
    """Our own, in a trio thread; every call is made there."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self._bootstrap = bootstrap
        self._name = name
        self._begun: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self._consumer: Consumer | None = None
        self._wants_consumer = trio.Event()
        self._ending = trio.Event()
        self._thread = threading.Thread(target=self._live, daemon=True)
        self._thread.start()
        self._await_begin()

    def _live(self) -> None:
        try:
            trio.run(self._run)
        except BaseException as problem:
            self._begun.put(problem)

    def _await_begin(self) -> None:
        problem = self._begun.get()
        if isinstance(problem, ProducerFenced):
            raise Fenced from None
        if problem is not None:
            raise Unknown(repr(problem)) from None

    async def _run(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        settings: Options = {
            "transactional_id": self._name,
            "transaction_timeout_ms": TRANSACTION_TIMEOUT_MS,
            "max_block_ms": CALL_SECONDS * 1000,
            "linger_ms": 0,
        }
        async with Producer(self._bootstrap, **settings) as self._producer:
            self._begun.put(None)
            await self._wants_consumer.wait()
            async with Consumer(
                self._bootstrap,
                group_id=GROUP,
                auto_offset_reset="earliest",
                auto_commit=False,
                isolation_level="read_committed",
                session_timeout_seconds=SESSION_TIMEOUT_MS / 1000,
                heartbeat_interval_seconds=1.0,
                max_poll_records=ORDERS_A_TIME,
            ) as self._consumer:
                await self._consumer.subscribe([ORDERS])
                self._begun.put(None)
                await self._ending.wait()

    def _call(self, what: Callable[..., Awaitable[Any]], *args: object) -> Any:
        try:
            return trio.from_thread.run(what, *args, trio_token=self._token)
        except ProducerFenced:
            raise Fenced from None
        except ClientError as problem:
            raise Unknown(repr(problem)) from None

    def transact(self, records: Iterable[tuple[str, int, bytes]], *, commit: bool) -> None:
        self._call(self._transact, list(records), commit)

    async def _transact(self, records: list[tuple[str, int, bytes]], commit: bool) -> None:
        producer = self._producer
        producer.begin_transaction()
        try:
            for topic, partition, value in records:
                await producer.enqueue(topic, value, partition=partition)
            if commit:
                await producer.commit_transaction()
                return
        except ProducerFenced:
            raise
        except ClientError as problem:
            await producer.abort_transaction()
            raise Aborted(repr(problem)) from None
        await producer.abort_transaction()
        raise Aborted("as it was meant to be")

    def subscribe(self) -> None:
        trio.from_thread.run_sync(self._wants_consumer.set, trio_token=self._token)
        self._await_begin()

    def poll(self) -> list[Order]:
        assert self._consumer is not None
        return [
            Order((one.topic, one.partition), one.offset, one.value or b"")
            for one in self._call(self._consumer.poll, POLL_SECONDS)
        ]

    def receipt(self, orders: list[Order]) -> None:
        self._call(self._receipt, orders)

    async def _receipt(self, orders: list[Order]) -> None:
        assert self._consumer is not None
        producer = self._producer
        producer.begin_transaction()
        try:
            group = self._consumer.group_metadata()
            for order in orders:
                partition = int(order.value) % PARTITIONS
                await producer.enqueue(RECEIPTS, order.value, partition=partition)
            offsets = {order.place: order.offset + 1 for order in orders}
            await producer.send_offsets(offsets, group)
            await producer.commit_transaction()
        except ProducerFenced:
            raise
        except ClientError as problem:
            await producer.abort_transaction()
            raise Aborted(repr(problem)) from None

    def rewind(self) -> None:
        self._call(self._rewind)

    async def _rewind(self) -> None:
        """To what is committed."""
        assert self._consumer is not None
        assigned = self._consumer.assignment
        committed = await self._consumer.committed(assigned)
        for place, at in committed.items():
            if place in self._consumer.assignment:
                self._consumer.seek(place, at.offset)
        await self._consumer.seek_to_beginning(assigned - committed.keys())

    def close(self) -> None:
        trio.from_thread.run_sync(self._ending.set, trio_token=self._token)
        self._thread.join(CALL_SECONDS)


CLIENTS: dict[str, Callable[[str, str], Any]] = {
    "confluent": ConfluentClient,
    "kafka-python": PythonClient,
    "pybroker": OurClient,
}


def journal(*words: object) -> None:
    print(*words, flush=True)


class Worker:
    def __init__(self, client: Any, name: str, life: str) -> None:
        self.client = client
        self.name = name
        self.life = life
        self.chance = random.Random(f"{name} {life}")
        self.ending = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: self.ending.set())

    def settled(self, identity: str, act: Callable[[], None]) -> bool:
        """Do it between two lines of the journal; whether it was committed."""
        journal("b", identity)
        try:
            act()
        except Aborted:
            journal("a", identity)
            return False
        except (Fenced, Unknown):
            journal("u", identity)
            raise
        journal("c", identity)
        return True

    def transfers(self) -> None:
        for number in range(sys.maxsize):
            if self.ending.wait(PAUSE_SECONDS):
                return
            identity = f"{self.name}/{self.life}/{number}"
            accounts = self.chance.sample(range(ACCOUNTS), self.chance.choice((2, 2, 3, 5)))
            amounts = [self.chance.randint(1, 50) for _ in accounts[1:]]
            legs = [-sum(amounts), *amounts]
            records = [
                (LEDGER, account % PARTITIONS, leg_value(identity, index, len(legs), account, leg))
                for index, (account, leg) in enumerate(zip(accounts, legs, strict=True))
            ]
            commit = number % ABORTED_SHARE != ABORTED_SHARE - 1
            self.settled(identity, partial(self.client.transact, records, commit=commit))

    def receipts(self) -> None:
        self.client.subscribe()
        for number in range(sys.maxsize):
            if self.ending.is_set():
                return
            orders = self.client.poll()
            if not orders:
                continue
            identity = f"{self.name}/{self.life}/{number}"
            if not self.settled(identity, partial(self.client.receipt, orders)):
                self.client.rewind()
            time.sleep(PAUSE_SECONDS)


def main() -> int:
    role, kind, bootstrap, name, life = sys.argv[1:]
    client = None
    try:
        client = CLIENTS[kind](bootstrap, name)
        worker = Worker(client, name, life)
        journal("r")  # at work
        if role == "teller":
            worker.transfers()
        else:
            worker.receipts()
            client.close()
    except Fenced:
        journal("f")
        return 0
    except (Unknown, Aborted) as problem:
        journal("x", problem)
    return 0


if __name__ == "__main__":
    sys.exit(main())
