"""Members of a share group: they take records from a queue, in each way to say what became of them.

Each draws its own way. With explicit results a record is accepted, released, rejected, locked anew,
or forgotten until its lock ends. All of it is told to the book (`queue_book`), and they go on after
the faults until no record is left without a result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from pybroker_kafka.client.errors import ClientError
from pybroker_kafka.client.share.consumer import ShareConsumer
from pybroker_kafka.client.share.records import SharedRecord
from tests.simulation.client_apps import App
from tests.simulation.cluster import TOPIC
from tests.simulation.queue_book import GROUP

if TYPE_CHECKING:
    from tests.simulation.client_cluster import ClientCluster

LONGEST_WORK_MS = 30
LONGEST_LOOP_SECONDS = 3.0
COMMITTED_SHARE = 0.4
# Of explicit results; what is left is forgotten.
RESULTS = {"accept": 0.74, "release": 0.1, "reject": 0.06, "renew": 0.06}


class QueueMember(App):
    writes = False

    def __init__(self, cluster: ClientCluster, name: str) -> None:
        super().__init__(cluster, name)
        self.book = cluster.queue_book
        ways = (self._one_by_one, self._polls, self._decides)
        self._way = self.random.choice(ways)
        self._max_poll_records = self.random.choice((1, 5, 500))
        self._until = 0.0
        self._id = ""
        self._has: list[SharedRecord] = []
        self._accepted: list[SharedRecord] = []  # and not committed

    def _is_through(self) -> bool:
        if not self.is_stopping:
            return trio.current_time() >= self._until
        if not self.cluster.has_all_written():
            return False
        left = self.book.what_is_left()
        self.state = left
        return not left

    async def live(self) -> None:
        self._until = self.end_of_life()
        self._has, self._accepted = [], []
        is_explicit = self._way == self._decides
        async with ShareConsumer(
            self.cluster.bootstrap, network=self.host.reach, group_id=GROUP,
            acknowledgement="explicit" if is_explicit else "implicit",
            max_poll_records=self._max_poll_records,
        ) as consumer:  # fmt: skip
            self._id = consumer._state.member.member_id
            await consumer.subscribe([TOPIC])
            while not self._is_through():
                with trio.move_on_after(self.random.random() * LONGEST_LOOP_SECONDS):
                    await self._way(consumer)
                if not is_explicit:
                    self._be_done()
            was_stopping = self.is_stopping
            self.note("leaves")
        if self.is_stopping and not was_stopping:  # meanwhile: records may be left
            await self.live()

    # What it has

    def _take(self, *records: SharedRecord) -> None:
        for record in records:
            self.book.hand_out(self._id, record)
            self._has.append(record)

    def _be_done(self) -> None:
        """To ask for more, or to leave in order, accepts what it has."""
        for record in self._has:
            self.book.finish(self._id, record)
        self._has = []

    async def _commit(self, consumer: ShareConsumer, accepted: list[SharedRecord]) -> None:
        try:
            await consumer.commit()
        except ClientError as error:
            self.note(f"has not committed: {error}")
        else:
            self.book.confirm(self._id, accepted)

    # Ways to ask

    async def _one_by_one(self, consumer: ShareConsumer) -> None:
        async for record in consumer:
            self._take(record)
            await self.pause(LONGEST_WORK_MS)
            self._be_done()
            if self._is_through():
                return

    async def _polls(self, consumer: ShareConsumer) -> None:
        while not self._is_through():
            self._take(*await consumer.poll(0.3))
            await self.pause(LONGEST_WORK_MS)
            done = list(self._has)
            self._be_done()
            if self.random.random() < COMMITTED_SHARE:
                await self._commit(consumer, done)

    async def _decides(self, consumer: ShareConsumer) -> None:
        while not self._is_through():
            self._take(*await consumer.poll(0.3))
            await self.pause(LONGEST_WORK_MS)
            self.random.shuffle(self._has)
            for _ in range(self.random.randint(0, len(self._has))):
                await self._decide(consumer, self._has.pop())
            if self.random.random() < COMMITTED_SHARE:
                accepted, self._accepted = self._accepted, []
                await self._commit(consumer, accepted)

    async def _decide(self, consumer: ShareConsumer, record: SharedRecord) -> None:
        (what,) = self.random.choices(
            [*RESULTS, ""], [*RESULTS.values(), 1 - sum(RESULTS.values())]
        )
        if what == "accept":
            self.book.finish(self._id, record)
            consumer.accept(record)
            self._accepted.append(record)
        elif what == "release":
            consumer.release(record)
        elif what == "reject":
            consumer.reject(record)
        elif what == "renew":
            try:
                await consumer.renew(record)
            except ClientError as error:
                self.note(f"has not renewed a lock: {error}")
            self._has.append(record)
