"""Our own client in the fault runs: a producer and a reader of the books, each a trio of its own.

Invariant: no fault that a case makes may be seen here: whatever the client raises for it ends the
load, and fails the case.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import trio

from pybroker_kafka import ClientError, Consumer, Producer
from pybroker_kafka.client.producer import Delivery
from tests.support.loads import (
    DELIVERY_TIMEOUT_MS,
    END_TIMEOUT_SECONDS,
    ROUND_RECORDS,
    ROUND_SECONDS,
    ConsumerLoad,
    ProducerLoad,
)

READ_AT_ONCE = 500
POLL_SECONDS = 0.1
SESSION_SECONDS = 30.0
FETCH_WAIT_SECONDS = 0.1
MAX_BLOCK_MS = 120_000


class OurProducer(ProducerLoad):
    """Without idempotence one batch of a partition is in flight, which keeps the order."""

    def __init__(
        self, bootstrap: str, name: str, topic: str, partitions: int, *, idempotent: bool
    ) -> None:
        super().__init__(name, topic, partitions, idempotent=idempotent)
        self._producer = partial(
            Producer,
            bootstrap,
            idempotence=idempotent,
            max_in_flight=5 if idempotent else 1,
            linger_ms=2,
            delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
            max_block_ms=MAX_BLOCK_MS,
        )
        self._scope = trio.CancelScope()
        self._token: trio.lowlevel.TrioToken | None = None

    def work(self) -> None:
        trio.run(self._work)

    async def _work(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        with self._scope:
            async with trio.open_nursery() as nursery, self._producer() as producer:
                while not self._ending.is_set():
                    await trio.sleep(ROUND_SECONDS)
                    for _ in range(ROUND_RECORDS):
                        key, value, partition = self.record(self.sent)
                        delivery = await producer.enqueue(
                            self.topic, value, key=key, partition=partition
                        )
                        nursery.start_soon(self._answer, self.sent, delivery)
                        self.sent += 1
                with trio.fail_after(END_TIMEOUT_SECONDS):
                    await producer.flush()

    async def _answer(self, number: int, delivery: Delivery) -> None:
        try:
            found = await delivery
        except ClientError as error:
            self.errors.append(f"{self.name}:{number}: {error!r}")
        else:
            self.acknowledged[number] = found.partition, found.offset

    def drop(self) -> None:
        if self._token is not None:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._scope.cancel)


class OurReader(ConsumerLoad):
    def __init__(self, bootstrap: str, name: str, topic: str) -> None:
        super().__init__(name, topic)
        self._consumer = partial(
            Consumer,
            bootstrap,
            group_id=name,
            auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_seconds=SESSION_SECONDS,
            fetch_max_wait_seconds=FETCH_WAIT_SECONDS,
        )

    def work(self) -> None:
        trio.run(self._work)

    async def _work(self) -> None:
        async with self._consumer() as consumer:
            await consumer.subscribe([self.topic])
            while not self._ending.is_set():
                for record in await consumer.poll(POLL_SECONDS, READ_AT_ONCE):
                    self.note(record.partition, record.offset, record.value or b"")
                if offsets := self.begin_commit():
                    self.end_commit(offsets, is_good=await self._is_committed(consumer, offsets))

    async def _is_committed(self, consumer: Consumer, offsets: dict[int, int]) -> bool:
        """Once a rebalance has ended it is tried again."""
        try:
            await consumer.commit({(self.topic, p): offset for p, offset in offsets.items()})
        except ClientError:
            return False
        return True

    def stored(self) -> dict[int, int]:
        async def ask() -> dict[int, int]:
            async with self._consumer() as asker:
                found = await asker.committed([(self.topic, p) for p in self.positions])
            return {partition: each.offset for (_, partition), each in found.items()}

        return trio.run(ask)
