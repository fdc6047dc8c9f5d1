"""Who reads the bank's books, and what must be true of them.

Readers (librdkafka, kafka-python and our client, all with read_committed) follow all partitions of
the ledger and of the receipts from the beginning. What they see is judged at once: no record twice,
no leg of a transfer that differs from another, nothing of a transfer that was told to be aborted;
the total of all accounts after each whole transfer. At the end nothing may be missing: `missing`
names legs that stayed alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import trio
from confluent_kafka import Consumer, TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as PythonPartition
from kafka.errors import LogTruncationError, OffsetOutOfRangeError

from pybroker_kafka import Consumer as OurConsumer
from tests.support.bank_terms import (
    ACCOUNTS,
    BALANCE,
    LEDGER,
    PARTITIONS,
    RECEIPTS,
    Leg,
    parse_leg,
)
from tests.support.consumed import consumed
from tests.support.ledger import librdkafka
from tests.support.loads import Worker

POLL_SECONDS = 0.3
AT_ONCE = 500

Seen = tuple[str, int, int, bytes]  # topic, partition, offset, value


class Books:
    """What one reader has seen."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.balances = [BALANCE] * ACCOUNTS
        self.whole: set[str] = set()
        self.open: dict[str, dict[int, Leg]] = {}
        self.receipts: dict[bytes, tuple[int, int]] = {}
        self.violations: list[str] = []

    def see(self, seen: Seen) -> None:
        topic, partition, offset, value = seen
        if topic == RECEIPTS:
            if value in self.receipts:
                where = self.receipts[value]
                self._violated(f"order {value!r} has receipts at {where} and {partition, offset}")
            self.receipts[value] = (partition, offset)
            return
        leg = parse_leg(value)
        legs = self.open.get(leg.transfer, {})
        if leg.transfer in self.whole or leg.number in legs:
            self._violated(f"{leg} is there twice, now at {partition, offset}")
            return
        self.open[leg.transfer] = legs
        legs[leg.number] = leg
        if len(legs) == leg.of:
            self._post(leg.transfer, self.open.pop(leg.transfer))

    def _post(self, transfer: str, legs: dict[int, Leg]) -> None:
        self.whole.add(transfer)
        for leg in legs.values():
            self.balances[leg.account] += leg.amount
        total = sum(self.balances)
        if total != ACCOUNTS * BALANCE:
            self._violated(f"the total is {total} after {transfer}")

    def _violated(self, what: str) -> None:
        self.violations.append(f"{self.name}: {what}")

    def missing(self) -> list[str]:
        """Transfers that are there in part."""
        return [f"{name}: {len(legs)} legs" for name, legs in self.open.items()]


class Reader(Worker):
    """Follows the books until told to end."""

    def __init__(self, bootstrap: str, name: str) -> None:
        super().__init__(name)
        self.books = Books(name)
        self._servers = bootstrap

    def work(self) -> None:
        for seen in self.follow():
            self.books.see(seen)

    def follow(self) -> Iterator[Seen]:
        raise AssertionError


class ConfluentReader(Reader):
    def follow(self) -> Iterator[Seen]:
        settings: dict[str, Any] = librdkafka(
            self._servers,
            group_id="reader",
            enable_auto_commit=False,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
        )
        consumer = Consumer(settings)
        with contextlib.closing(consumer):
            consumer.assign([TopicPartition(*place, 0) for place in places()])
            while not self._ending.is_set():
                for message in consumer.consume(AT_ONCE, POLL_SECONDS):
                    if message.error() is None:
                        found = consumed(message)
                        yield found.topic, found.partition, found.offset, found.value


class PythonReader(Reader):
    """Stays where it is when it is told that there is no such offset.

    kafka-python 3.0.12 takes leader epochs from any metadata, older ones too: a leader that stood
    still answers what it was asked before, the client fetches from it in the epoch that is over,
    and learns that what was written since is out of range. With a policy it would begin again.
    """

    def follow(self) -> Iterator[Seen]:
        consumer = KafkaConsumer(
            bootstrap_servers=self._servers.split(","),
            enable_auto_commit=False,
            isolation_level="read_committed",
            auto_offset_reset="none",
            reconnect_backoff_max_ms=500,
        )
        with contextlib.closing(consumer):
            assigned = [PythonPartition(*place) for place in places()]
            consumer.assign(assigned)
            consumer.seek_to_beginning(*assigned)
            while not self._ending.is_set():
                try:
                    found = consumer.poll(int(POLL_SECONDS * 1000), max_records=AT_ONCE)
                except (OffsetOutOfRangeError, LogTruncationError):
                    continue
                for place, records in found.items():
                    for record in records:
                        yield place.topic, place.partition, record.offset, record.value


class OurReader(Reader):
    def work(self) -> None:
        trio.run(self._work)

    async def _work(self) -> None:
        async with OurConsumer(
            self._servers, isolation_level="read_committed", auto_offset_reset="earliest"
        ) as consumer:
            await consumer.assign(places())
            while not self._ending.is_set():
                for one in await consumer.poll(POLL_SECONDS, AT_ONCE):
                    self.books.see((one.topic, one.partition, one.offset, one.value or b""))


READERS: Mapping[str, type[Reader]] = {
    "confluent": ConfluentReader,
    "kafka-python": PythonReader,
    "pybroker": OurReader,
}


def places() -> list[tuple[str, int]]:
    return [(topic, index) for topic in (LEDGER, RECEIPTS) for index in range(PARTITIONS)]
