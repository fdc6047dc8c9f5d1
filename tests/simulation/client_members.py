"""Members of a group: consumers that divide the partitions, in each way to ask for records.

What a member was given it works on for a while; then it is done with it. It tells the judge of
both, and goes on after the faults until nothing is left for its group. Who asks for more, commits
or leaves in order is done with what it has; who is cancelled is not.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import trio

from pybroker_kafka.client.consumer.consumer import Consumer
from pybroker_kafka.client.consumer.deliveries import Delivery, RetryPolicy
from pybroker_kafka.client.consumer.received import Received
from pybroker_kafka.client.errors import ClientError
from tests.simulation.client_apps import App
from tests.simulation.cluster import TOPIC

if TYPE_CHECKING:
    from tests.simulation.client_cluster import ClientCluster

GROUP = "members"
LONGEST_WORK_MS = 30
LONGEST_LOOP_SECONDS = 3.0
FAILED_SHARE = 0.1  # of records in ack mode: they come again
MOST_HELD = 8
CONSUMER_PROTOCOL_SHARE = 0.8  # of seeds, where the cluster has it
CLASSIC_OPTIONS = ("assignors", "session_timeout_seconds", "heartbeat_interval_seconds")


class Member(App):
    """All members of a seed ask for records in the same way."""

    writes = False

    def __init__(self, cluster: ClientCluster, name: str) -> None:
        super().__init__(cluster, name)
        draw = Random(cluster.seed)  # the same for all of them
        self._way = draw.choice((self._one_by_one, self._batches, self._polls, self._deliveries))
        self._options: dict[str, Any] = {
            "auto_commit": self._way != self._polls,
            "assignors": draw.choice((("range", "cooperative-sticky"), ("cooperative-sticky",))),
            "auto_commit_interval_seconds": draw.choice((0.05, 0.3, 5.0)),
            "session_timeout_seconds": draw.choice((1.5, 3.0)),
            "heartbeat_interval_seconds": 0.4,
            "max_poll_records": draw.choice((1, 5, 500)),
            "group_instance_id": name if draw.random() < 0.2 else None,
        }
        if cluster.has_consumer_protocol and draw.random() < CONSUMER_PROTOCOL_SHARE:
            for option in CLASSIC_OPTIONS:
                del self._options[option]
        self._has: list[Received] = []
        self._until = 0.0

    def _is_through(self) -> bool:
        if not self.is_stopping:
            return trio.current_time() >= self._until
        if not self.cluster.has_all_written():
            return False
        left = self.judge.what_is_left(GROUP)
        self.state = left
        return not left

    async def live(self) -> None:
        self._until = self.end_of_life()
        self._has = []
        async with Consumer(
            self.cluster.bootstrap, network=self.host.reach, group_id=GROUP,
            auto_offset_reset="earliest", **self._options,
        ) as consumer:  # fmt: skip
            await consumer.subscribe([TOPIC])
            while not self._is_through():
                with trio.move_on_after(self.random.random() * LONGEST_LOOP_SECONDS):
                    await self._way(consumer)
                self._be_done()
            self.note("leaves")

    # What it has

    def _take(self, *records: Received) -> None:
        for record in records:
            self.judge.hand_out(GROUP, record)
            self._has.append(record)

    def _be_done(self) -> None:
        for record in self._has:
            self.judge.finish(GROUP, record)
        self._has = []

    # Ways to ask

    async def _one_by_one(self, consumer: Consumer) -> None:
        async for record in consumer:
            self._take(record)
            await self.pause(LONGEST_WORK_MS)
            self._be_done()
            if self._is_through():
                return

    async def _batches(self, consumer: Consumer) -> None:
        async for batch in consumer.batches():
            self._take(*batch)
            await self.pause(LONGEST_WORK_MS)
            self._be_done()
            if self._is_through():
                return

    async def _polls(self, consumer: Consumer) -> None:
        while not self._is_through():
            self._take(*await consumer.poll(0.3))
            await self.pause(LONGEST_WORK_MS)
            self._be_done()
            try:
                if self.random.random() < 0.7:
                    await consumer.commit()
                else:
                    consumer.commit_soon(on_done=lambda _error: None)
            except ClientError as error:
                self.note(f"has not committed: {error}")

    async def _deliveries(self, consumer: Consumer) -> None:
        held: list[Delivery] = []
        retry = RetryPolicy(first_seconds=0.05, most_seconds=0.5)
        try:
            async for delivery in consumer.deliveries(max_unacknowledged=20, retry=retry):
                self.judge.hand_out(GROUP, delivery.record)
                held.append(delivery)
                await self.pause(LONGEST_WORK_MS // 3)
                while len(held) > self.random.randint(0, MOST_HELD):
                    self._finish(held.pop(self.random.randrange(len(held))))
                if self._is_through():
                    return
        finally:
            for delivery in held:
                self._finish(delivery)

    def _finish(self, delivery: Delivery) -> None:
        if self.random.random() < FAILED_SHARE:
            delivery.fail()
        else:
            self.judge.finish(GROUP, delivery.record)
            delivery.ack()
