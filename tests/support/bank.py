"""A bank of 100 accounts on a cluster, for tests of transactions.

Tellers (librdkafka, kafka-python, Kafka's Java client, our own) make transfers, each a transaction
over several partitions of the ledger; clerks consume orders and produce receipts, with their
offsets in the same transaction. All are processes, so that they can be killed and paused; each
life's journal says what it was told. Readers with read_committed follow the books meanwhile
(`tests/support/bank_books.py`).

`audit` compares books and journals when all is quiet: what was told to be committed is there,
once and whole; what was told to be aborted is not there at all; of the rest it is all or nothing;
every order has one receipt.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from confluent_kafka import Producer

from pybroker_kafka.protocol.apis.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tests.support.apache_kafka import kafka_jars
from tests.support.bank_books import READERS, Books, Reader, places
from tests.support.bank_terms import LEDGER, ORDERS, PARTITIONS, RECEIPTS, TRANSACTION_TIMEOUT_MS
from tests.support.cluster import Cluster
from tests.support.ledger import librdkafka
from tests.support.maven import compiled
from tests.support.processes import ServerProcess
from tests.support.short_lived_java import JVM_OPTIONS

JAVA_TELLER = Path(__file__).parent / "java" / "BankTeller.java"
ORDER_SECONDS = 0.05
# Longer than any answer is waited for.
STUCK_SECONDS = 40.0
LATEST = -1


class BankClient(ServerProcess):
    """One life of a teller or a clerk."""

    def __init__(self, command: list[str], journal: Path, name: str) -> None:
        super().__init__(command, journal)
        self.name = name
        self._journal = journal
        self._last_size = 0
        self._last_line = time.monotonic()

    def lines(self) -> list[tuple[str, str]]:
        text = self._journal.read_text(errors="replace")
        complete = text[: text.rfind("\n") + 1]
        return [(line[:1], line[2:]) for line in complete.splitlines()]

    def outcomes(self) -> dict[str, str]:
        """Transfer -> `c` (committed), `a` (aborted), `u` (unknown, or without an end yet)."""
        return {what: "u" if kind == "b" else kind for kind, what in self.lines() if kind in "bcau"}

    @property
    def silent_seconds(self) -> float:
        """How long it has written nothing, by those who look often."""
        size = self._journal.stat().st_size if self._journal.exists() else 0
        if size != self._last_size:
            self._last_size = size
            self._last_line = time.monotonic()
        return time.monotonic() - self._last_line

    @property
    def was_fenced(self) -> bool:
        return any(kind == "f" for kind, _ in self.lines())

    @property
    def has_begun(self) -> bool:
        return any(kind == "b" for kind, _ in self.lines())

    @property
    def committed(self) -> int:
        return sum(kind == "c" for kind, _ in self.lines())


class Orders(threading.Thread):
    """Writes numbered orders, exactly once each, until told to end."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.count = 0
        self.errors: list[str] = []
        self._ending = threading.Event()
        settings = librdkafka(bootstrap, enable_idempotence=True, message_timeout_ms=300_000)
        self._producer = Producer({**settings, "linger.ms": 0})

    def end(self) -> None:
        self._ending.set()

    def run(self) -> None:
        while not self._ending.wait(ORDER_SECONDS):
            value = b"%d" % self.count
            self._producer.produce(
                ORDERS, value, partition=self.count % PARTITIONS, on_delivery=self._delivered
            )
            self.count += 1
            self._producer.poll(0)
        self._producer.flush(120)

    def _delivered(self, error: object, message: object) -> None:
        if error is not None:
            self.errors.append(f"an order: {error}")


class Bank:
    def __init__(
        self,
        cluster: Cluster,
        tellers: Iterable[str],
        clerks: Iterable[str],
        readers: Iterable[str] = tuple(READERS),
    ) -> None:
        """All by client: confluent, kafka-python, pybroker; tellers java, too."""
        self._readers = readers
        self.cluster = cluster
        self.roles = {f"teller-{kind}": ("teller", kind) for kind in tellers}
        self.roles |= {f"clerk-{kind}": ("clerk", kind) for kind in clerks}
        self.lives: dict[str, list[BankClient]] = {name: [] for name in self.roles}
        self.readers: list[Reader] = []
        self.orders = Orders(cluster.bootstrap)
        self.zombies: list[BankClient] = []
        self.stuck = 0

    # Clients

    def open(self) -> None:
        for topic in (LEDGER, ORDERS, RECEIPTS):
            self.cluster.create_topic(topic, PARTITIONS)
        self.readers = [
            READERS[kind](self.cluster.bootstrap, f"{kind} reader") for kind in self._readers
        ]
        for reader in self.readers:
            reader.start()
        self.orders.start()
        for name in self.roles:
            self.begin_life(name)

    def begin_life(self, name: str) -> BankClient:
        role, kind = self.roles[name]
        life = str(len(self.lives[name]))
        bootstrap = self.cluster.bootstrap
        if kind == "java":
            options = ["-Xmx96m", *JVM_OPTIONS]
            classes = compiled(JAVA_TELLER, kafka_jars())
            program = ["java", *options, "-Dlog4j.configuration=", "-cp", classes, "BankTeller"]
            command = [*program, bootstrap, name, life, str(TRANSACTION_TIMEOUT_MS)]
        else:
            program = [sys.executable, "-m", "tests.support.bank_client"]
            command = [*program, role, kind, bootstrap, name, life]
        client = BankClient(command, self.cluster.directory / f"{name}-{life}.journal", name)
        client.launch()
        self.lives[name].append(client)
        return client

    def current(self, name: str) -> BankClient:
        return self.lives[name][-1]

    def revive(self) -> None:
        """A new life for each client that has ended, or waits for something that does not come.

        librdkafka and kafka-python both do, when they lose a coordinator at the wrong moment.
        """
        for name in self.roles:
            client = self.current(name)
            if client.is_running and client.silent_seconds > STUCK_SECONDS:
                self.cluster.tell(f"{name} stands still after {client.lines()[-1:]}")
                self.stuck += 1
                client.kill()
            if not client.is_running:
                last = client.lines()[-1:]
                self.cluster.tell(f"{name} ended with {last}; another life")
                self.begin_life(name)

    def progress(self, count: int) -> Callable[[], bool]:
        """Whether each client has committed so many more, in whatever life."""
        before = {name: self.commits_of(name) for name in self.roles}

        def made() -> bool:
            self.raise_crashes()
            self.revive()
            return all(self.commits_of(name) >= before[name] + count for name in self.roles)

        return made

    def commits_of(self, name: str) -> int:
        return sum(life.committed for life in self.lives[name])

    def raise_crashes(self) -> None:
        """Not as what it was: a wait would take an OSError for a broker that does not answer."""
        for reader in self.readers:
            if reader.crash is not None:
                raise AssertionError(f"{reader.name}: {reader.crash!r}") from reader.crash

    @property
    def committed(self) -> int:
        return sum(self.commits_of(name) for name in self.roles)

    # Closing

    def settle(self) -> None:
        """End all clients after their transactions, and wait until nothing is open."""
        self.orders.end()
        self.orders.join()
        self.cluster.wait_for(self._orders_are_done, "a receipt for each order")
        for name in self.roles:
            client = self.current(name)
            if client.is_running:
                try:
                    client.stop()
                except subprocess.TimeoutExpired:
                    client.kill()
        self.cluster.wait_for(self._nothing_is_open, "no open transaction")
        self.cluster.wait_for(self._all_is_read, "the readers have read it all")
        for reader in self.readers:
            reader.end()
        for reader in self.readers:
            reader.join()

    def _orders_are_done(self) -> bool:
        self.raise_crashes()
        self.revive()
        return all(len(r.books.receipts) >= self.orders.count for r in self.readers)

    def _end_offset(self, topic: str, partition: int, isolation: int) -> int:
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation,
            topics=[
                ListOffsetsTopic(
                    name=topic,
                    partitions=[ListOffsetsPartition(partition_index=partition, timestamp=LATEST)],
                )
            ],
        )
        leader = self.cluster.leader(topic, partition)
        answer = self.cluster.ask(leader, request)
        ((found,),) = (t.partitions for t in answer.topics)
        return -1 if found.error_code else int(found.offset)

    def _nothing_is_open(self) -> bool:
        ends = [(self._end_offset(*place, 0), self._end_offset(*place, 1)) for place in places()]
        return all(high >= 0 and high == stable for high, stable in ends)

    def _all_is_read(self) -> bool:
        """What one reader has, the other has; and no transfer is there in part."""
        self.raise_crashes()
        first, *others = (reader.books for reader in self.readers)
        told = {what for what, outcome in self.outcomes().items() if outcome == "c"}
        transfers = {what for what in told if not what.startswith("clerk")}
        return (
            transfers <= first.whole
            and not first.open
            and all(o.whole == first.whole and not o.open for o in others)
        )

    def unread(self) -> list[str]:
        """What each reader lacks of what was told to be committed, and has in part."""
        outcomes = self.outcomes().items()
        told = [what for what, how in outcomes if how == "c" and not what.startswith("clerk")]
        found = []
        for reader in self.readers:
            books = reader.books
            lost = [what for what in told if what not in books.whole]
            found.append(f"{books.name} lacks {lost[:5]} of {len(lost)}, has open {books.open}")
            found += books.violations
        return found

    def outcomes(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for lives in self.lives.values():
            for life in lives:
                found.update(life.outcomes())
        return found

    def close(self) -> None:
        self.orders.end()
        for reader in self.readers:
            reader.end()
        for lives in self.lives.values():
            for life in lives:
                life.kill()

    # The audit

    def audit(self) -> list[str]:
        broken = list(self.orders.errors)
        outcomes = self.outcomes()
        told = {what: how for what, how in outcomes.items() if not what.startswith("clerk")}
        expected = {b"%d" % number for number in range(self.orders.count)}
        for reader in self.readers:
            broken += reader.books.violations
            broken += _compare(reader.books, told, expected)
        for zombie in self.zombies:
            if not zombie.was_fenced:
                broken.append(f"{zombie.name} was not fenced: {zombie.lines()[-2:]}")
        return broken


def _compare(books: Books, told: dict[str, str], orders: set[bytes]) -> list[str]:
    name = books.name
    broken = [f"{name}: in part: {what}" for what in books.missing()]
    lost = [what for what, how in told.items() if how == "c" and what not in books.whole]
    broken += [f"{name}: committed, and not there: {what}" for what in lost]
    ghosts = [what for what, how in told.items() if how == "a" and what in books.whole]
    broken += [f"{name}: aborted, and there: {what}" for what in ghosts]
    broken += [f"{name}: nobody made {what}" for what in books.whole - told.keys()]
    broken += [f"{name}: no receipt for {order!r}" for order in orders - books.receipts.keys()]
    broken += [f"{name}: nobody ordered {order!r}" for order in books.receipts.keys() - orders]
    return broken
