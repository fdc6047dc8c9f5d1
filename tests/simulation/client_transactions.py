"""Users of transactions: tellers that write in them, and readers of what is committed.

A teller's transactions write some records, often commit an offset of a group of its own (the number
of the transaction), and end in a commit, in an abort, or in whatever goes wrong. A reader reads all
partitions from their beginning to their end, and is given what is committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from pybroker_kafka.client.consumer.consumer import Consumer
from pybroker_kafka.client.consumer.received import Received
from pybroker_kafka.client.producer.producer import Producer
from tests.simulation.client_apps import App
from tests.simulation.client_judge import Outcome, Transaction
from tests.simulation.cluster import TOPIC

if TYPE_CHECKING:
    from tests.simulation.client_cluster import ClientCluster

TRANSACTION_TIMEOUT_MS = 3_000
OFFSETS_SHARE = 0.5
ABORTED_SHARE = 0.25
STANDSTILL_SHARE = 0.02
STANDSTILL_MS = 4_000


class Regret(Exception):
    """A user's own reason to abort."""


class Teller(App):
    def __init__(self, cluster: ClientCluster, name: str) -> None:
        super().__init__(cluster, name)
        self._number = 0
        self._transactions = 0
        self._has_offset_committed = -1

    @property
    def group(self) -> str:
        return f"offsets of {self.name}"

    async def live(self) -> None:
        until = self.end_of_life()
        settings = {
            "transactional_id": self.name, "transaction_timeout_ms": TRANSACTION_TIMEOUT_MS
        }  # fmt: skip
        async with self.producer(**settings) as producer:
            while not self.is_over(until):
                await self._tell(producer)
                await self.pause(40)
        if self.is_stopping:
            await self._check_offset()

    async def _tell(self, producer: Producer) -> None:
        self._transactions += 1
        transaction = Transaction(self.name, self._transactions)
        regrets = self.random.random() < ABORTED_SHARE
        is_by_hand = self.random.random() < 0.5
        is_committing = False
        try:
            if is_by_hand:
                producer.begin_transaction()
                await self._fill(producer, transaction)
                if regrets:
                    await producer.abort_transaction()
                else:
                    is_committing = True
                    await producer.commit_transaction()
            else:
                async with producer.transaction():
                    await self._fill(producer, transaction)
                    if regrets:
                        raise Regret
                    is_committing = True
        except Regret:
            pass
        except BaseException:
            if not is_committing:  # nobody has asked for a commit, nor ever will
                self.judge.settle(transaction, Outcome.UNDONE)
            raise
        self.judge.settle(transaction, Outcome.UNDONE if regrets else Outcome.DONE)

    async def _fill(self, producer: Producer, transaction: Transaction) -> None:
        self.judge.begin(transaction)
        for _ in range(self.random.randint(1, 5)):
            written = self.judge.write(self.name, self._number)
            self._number += 1
            self.judge.put_into(transaction, written)
            await producer.enqueue(
                TOPIC, written.value, partition=self.any_partition(),
                timestamp_ms=self.kernel.now_ms,
            )  # fmt: skip
            if self.random.random() < STANDSTILL_SHARE:
                self.note("stands still")
                await self.pause(STANDSTILL_MS)
        if self.random.random() < OFFSETS_SHARE:
            transaction.has_offset = True
            await producer.send_offsets({(TOPIC, 0): transaction.number}, self.group)

    async def _check_offset(self) -> None:
        """The offset of its last transaction that has one, and is committed."""
        async with Consumer(
            self.cluster.bootstrap, network=self.host.reach, group_id=self.group
        ) as consumer:
            found = await consumer.committed([(TOPIC, 0)])
        at = found.get((TOPIC, 0))
        self.judge.check_offset(self.name, 0 if at is None else at.offset)


class CommittedReader(App):
    writes = False

    def __init__(self, cluster: ClientCluster, name: str) -> None:
        super().__init__(cluster, name)
        self._wait_seconds = self.random.choice((0.05, 0.5))

    def is_at_end(self, consumer: Consumer) -> bool:
        return self.cluster.has_all_written() and all(
            consumer.position(key) == self.judge.log(key).end and self.judge.can_read(key)
            for key in self.cluster.data_keys
        )

    async def live(self) -> None:
        until = self.end_of_life()
        seen: set[bytes] = set()
        async with Consumer(
            self.cluster.bootstrap,
            network=self.host.reach,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            max_poll_records=self.random.choice((1, 10, 500)),
        ) as consumer:
            await consumer.assign(self.cluster.data_keys)
            while self.is_stopping or not self.is_over(until):
                for record in await self._poll(consumer):
                    self.judge.see_committed(self.name, seen, record)
                if self.is_stopping and self.is_at_end(consumer):
                    self.judge.check_seen(self.name, seen)
                    return
                self.state = f"has read up to {[consumer.position(k) for k in consumer.assignment]}"

    async def _poll(self, consumer: Consumer) -> list[Received]:
        """Now and then given up too early."""
        with trio.move_on_after(self.random.random() * 10):
            return await consumer.poll(self._wait_seconds)
        return []
