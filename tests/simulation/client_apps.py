"""Users of `pybroker_kafka.client` in the simulation: what people write, and tell the judge of.

Each is a program on a host of its own. While the faults last it begins anew now and then, in order
or cancelled in the middle of something; afterwards it goes on until it has nothing left to do. All
that it draws comes from the kernel's generator.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from random import Random
from typing import TYPE_CHECKING, Any

import trio

from pybroker_kafka.client.errors import ClientError
from pybroker_kafka.client.producer.delivery import Delivery
from pybroker_kafka.client.producer.producer import Producer
from tests.simulation.client_judge import Written
from tests.simulation.cluster import TOPIC

if TYPE_CHECKING:
    from tests.simulation.client_cluster import ClientCluster

RETRY_SECONDS = 0.1
LONGEST_LIFE_MS = 4_000
CANCELLED_SHARE = 0.4  # of lives
REQUEST_TIMEOUT_MS = 1_500
DELIVERY_TIMEOUTS_MS = (2_000, 20_000, 120_000)


class App(ABC):
    writes = True

    def __init__(self, cluster: ClientCluster, name: str) -> None:
        self.cluster = cluster
        self.kernel = cluster.kernel
        self.judge = cluster.judge
        self.name = name
        self.host = cluster.new_host(name)
        self.is_stopping = False
        self.is_done = False
        self.state = "it has not begun"
        self.life = 0

    @property
    def random(self) -> Random:
        return self.kernel.random

    def note(self, text: str) -> None:
        self.state = text
        self.kernel.note(f"{self.name}: {text}")

    async def pause(self, most_ms: int) -> None:
        await trio.sleep(self.random.randint(0, most_ms) / 1000)

    async def run(self) -> None:
        """Lives, one after the other, until one comes to its end after the faults."""
        await self.pause(200)
        while True:
            self.life += 1
            is_last = self.is_stopping
            with trio.CancelScope() as scope:
                if not is_last and self.random.random() < CANCELLED_SHARE:
                    scope.deadline = trio.current_time() + self.random.random() * 3
                try:
                    self.note(f"begins life {self.life}")
                    await self.live()
                    if self.is_stopping:
                        return
                except ClientError as error:
                    self.note(f"has failed: {type(error).__name__}: {error}")
            if scope.cancelled_caught:
                self.note("was cancelled")
            await trio.sleep(RETRY_SECONDS)

    @abstractmethod
    async def live(self) -> None:
        """One of its lives: until it is stopping and through, or for a while."""

    def is_over(self, until: float) -> bool:
        """Whether a life should come to its end."""
        return self.is_stopping or trio.current_time() >= until

    def end_of_life(self) -> float:
        return trio.current_time() + self.random.randint(500, LONGEST_LIFE_MS) / 1000

    def producer(self, **settings: Any) -> Producer:
        draw = self.random
        settings.setdefault("linger_ms", draw.choice((0, 5, 40)))
        settings.setdefault("batch_size", draw.choice((100, 300, 16_384)))
        settings.setdefault("delivery_timeout_ms", draw.choice(DELIVERY_TIMEOUTS_MS))
        return Producer(
            self.cluster.bootstrap, network=self.host.reach,
            request_timeout_ms=REQUEST_TIMEOUT_MS, **settings,
        )  # fmt: skip

    def any_partition(self) -> int | None:
        count = len(self.cluster.data_keys)
        return self.random.randrange(count) if self.random.random() < 0.7 else None


class Sender(App):
    """Sends records, several at a time, and waits for some of them."""

    settings: dict[str, Any] = {}
    is_once = True

    def __init__(self, cluster: ClientCluster, name: str) -> None:
        super().__init__(cluster, name)
        self._pause_ms = self.random.choice((5, 40, 200))
        self._pending: list[tuple[Written, Delivery]] = []

    async def live(self) -> None:
        until = self.end_of_life()
        self._pending = []
        number = 0
        try:
            async with self.producer(**self.settings) as producer:
                while not self.is_over(until):
                    for _ in range(self.random.choice((1, 1, 3, 8))):
                        await self._send(producer, number)
                        number += 1
                    self._settle()
                    await self.pause(self._pause_ms)
                self.note(f"ends after {number} records")
        finally:
            self._settle()

    async def _send(self, producer: Producer, number: int) -> None:
        written = self.judge.write(f"{self.name}.{self.life}", number, is_once=self.is_once)
        waits = self.random.random() < 0.1
        # Who does not wait any longer does not know.
        with trio.move_on_after(self.random.random() * 2 if waits else 60):
            delivery = await producer.enqueue(
                TOPIC, written.value, partition=self.any_partition(),
                timestamp_ms=self.kernel.now_ms,
            )  # fmt: skip
            self._pending.append((written, delivery))
            if waits:
                await delivery

    def _settle(self) -> None:
        """Look at what is done."""
        left = []
        for written, delivery in self._pending:
            if not delivery.is_done:
                left.append((written, delivery))
                continue
            try:
                at = delivery.result()
            except ClientError as error:
                self.note(f"{written.value!r} has failed: {error}")
                continue
            self.judge.acknowledge(written, at.partition, at.offset)
        self._pending = left


class PlainSender(Sender):
    """Without idempotence, and with one batch in flight: nothing is lost, and all is in order."""

    settings = {"idempotence": False, "max_in_flight": 1}
    is_once = False
