"""How long our producer stands still through each fault, and that nothing is lost or doubled.

    python -m tests.faults.client_faults [FAULT...]

A cluster of three brokers; one producer sends a record to each of three partitions every 10 ms, and
one with transactions commits one record to each after the other. A fault is done to them, and
undone; its stall is the longest time without an acknowledgement of a partition, or without a
commit. At the end each record that was acknowledged or committed is in its log once, where it was
said to be, and none is there that was aborted.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import trio

from pybroker import ClientError, Producer
from pybroker.client.producer import Delivery, RecordMetadata
from pybroker.testing import KafkaCluster

PARTITIONS = 3
SEND_SECONDS = 0.01
QUIET_SECONDS = 1.0  # before a fault, and after it
PAUSE_SECONDS = 3.0
TOPIC, TRANSACTIONS = "plain", "transactions"
CONFIG = {
    "min.insync.replicas": 2,
    "transaction.state.log.num.partitions": 1,
    "offsets.topic.num.partitions": 1,
}


class Result(NamedTuple):
    """Stalls in seconds."""

    name: str
    stall: float
    commit_stall: float
    retries: int


def kill_leader(kafka: KafkaCluster) -> None:
    leader = kafka.leader(TOPIC)
    with kafka.kill(leader):
        time.sleep(QUIET_SECONDS)


def kill_transaction_coordinator(kafka: KafkaCluster) -> None:
    coordinator = kafka.leader("__transaction_state")
    with kafka.kill(coordinator):
        time.sleep(QUIET_SECONDS)


def restart_each(kafka: KafkaCluster) -> None:
    for broker in kafka.brokers:
        kafka.restart(broker)
        kafka.wait_for_isr(TOPIC)


def kill_all(kafka: KafkaCluster) -> None:
    for broker in kafka.brokers:
        kafka.kill(broker)
    for broker in kafka.brokers:
        kafka.restart(broker)


def pause_leader(kafka: KafkaCluster) -> None:
    """Its connections stay open and silent."""
    with kafka.pause(kafka.leader(TOPIC)):
        time.sleep(PAUSE_SECONDS)


def move_leaders(kafka: KafkaCluster) -> None:
    for partition in range(PARTITIONS):
        leader = kafka.leader(TOPIC, partition)
        kafka.move_leader(TOPIC, partition, to=leader % len(kafka.brokers) + 1)


FAULTS: dict[str, Callable[[KafkaCluster], None]] = {
    "the leader is killed": kill_leader,
    "the transaction coordinator is killed": kill_transaction_coordinator,
    "leaders move": move_leaders,
    "each broker is restarted": restart_each,
    "the leader is paused for 3 s": pause_leader,
    "all brokers are killed": kill_all,
}


class Load:
    """What was acknowledged, and when."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self.written: list[tuple[bytes, RecordMetadata]] = []
        self.committed: list[bytes] = []
        self.failures: list[str] = []
        self.retries = 0
        self._last = [0.0] * PARTITIONS
        self._last_commit = 0.0
        self.stall = self.commit_stall = 0.0
        self._is_over = False
        self.has_begun = trio.Event()  # both have had an answer

    def begin(self) -> None:
        now = trio.current_time()
        self._last = [now] * PARTITIONS
        self._last_commit = now
        self.stall = self.commit_stall = 0.0

    def end(self) -> None:
        self._is_over = True

    async def send(self) -> None:
        async with Producer(self._bootstrap) as producer, trio.open_nursery() as nursery:
            number = 0
            while not self._is_over:
                for partition in range(PARTITIONS):
                    value = b"%d-%d" % (partition, number)
                    delivery = await producer.enqueue(TOPIC, value, partition=partition)
                    nursery.start_soon(self._wait, value, delivery)
                number += 1
                self.retries = producer.metrics.retries
                await trio.sleep(SEND_SECONDS)

    async def _wait(self, value: bytes, delivery: Delivery) -> None:
        try:
            found = await delivery
        except ClientError as error:
            self.failures.append(f"{value!r}: {error}")
            return
        self.written.append((value, found))
        now = trio.current_time()
        self.stall = max(self.stall, now - self._last[found.partition])
        self._last[found.partition] = now

    async def commit(self) -> None:
        number = 0
        async with Producer(
            self._bootstrap, transactional_id="client-faults", linger_ms=0
        ) as producer:
            while not self._is_over:
                values = [b"%d-%d" % (partition, number) for partition in range(PARTITIONS)]
                try:
                    async with producer.transaction():
                        for partition, value in enumerate(values):
                            await producer.enqueue(TRANSACTIONS, value, partition=partition)
                except ClientError as error:
                    self.failures.append(f"transaction {number}: {error!r}")
                else:
                    self.committed += values
                    now = trio.current_time()
                    self.commit_stall = max(self.commit_stall, now - self._last_commit)
                    self._last_commit = now
                    if self.written:
                        self.has_begun.set()
                number += 1
                await trio.sleep(SEND_SECONDS)


async def run(kafka: KafkaCluster, names: list[str]) -> tuple[list[Result], list[str]]:
    """A result for each fault, and what is wrong."""
    for topic in (TOPIC, TRANSACTIONS):
        await trio.to_thread.run_sync(
            lambda topic=topic: kafka.topic(topic, partitions=PARTITIONS, replication_factor=3)  # type: ignore[misc]
        )
    results = []
    load = Load(kafka.bootstrap)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(load.send)
        nursery.start_soon(load.commit)
        await load.has_begun.wait()
        for name in names:
            await trio.sleep(QUIET_SECONDS)
            load.begin()
            before = load.retries
            await trio.to_thread.run_sync(FAULTS[name], kafka)
            await trio.sleep(QUIET_SECONDS)
            for topic in (TOPIC, TRANSACTIONS):
                await trio.to_thread.run_sync(kafka.wait_for_isr, topic)
            await trio.sleep(QUIET_SECONDS)
            results.append(Result(name, load.stall, load.commit_stall, load.retries - before))
        load.end()
    return results, [*load.failures, *await trio.to_thread.run_sync(audit, kafka, load)]


def audit(kafka: KafkaCluster, load: Load) -> list[str]:
    """What is lost, doubled, or elsewhere."""
    wrong = []
    log = {(one.partition, one.offset): one.value for one in kafka.records(TOPIC)}
    for value, told in load.written:
        if told.offset >= 0 and log.get((told.partition, told.offset)) != value:
            wrong.append(f"{value!r} is not at {told.partition}/{told.offset}")
    times = Counter(log.values())
    wrong += [f"{value!r} is there {times[value]} times" for value in times if times[value] > 1]
    wrong += [f"{value!r} is lost" for value, _ in load.written if not times[value]]
    read = Counter(one.value for one in kafka.records(TRANSACTIONS, committed=True))
    wrong += [f"{value!r} is committed and lost" for value in load.committed if not read[value]]
    wrong += [f"{value!r} is there {read[value]} times" for value in read if read[value] > 1]
    unknown = read.keys() - set(load.committed)
    return wrong + [f"{value!r} was not committed" for value in unknown]


def main() -> int:
    names = sys.argv[1:] or list(FAULTS)
    with KafkaCluster(brokers=3, config=CONFIG) as kafka:
        results, wrong = trio.run(run, kafka, names)
    print(f"{'':40} {'stall':>8} {'commits':>8} {'retries':>8}")
    for result in results:
        print(
            f"{result.name:40} {result.stall:7.2f}s {result.commit_stall:7.2f}s {result.retries:8}"
        )
    print("\n".join(wrong) or "nothing lost, nothing doubled")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
