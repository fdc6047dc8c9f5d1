"""How long our clients stall in each fault, with a check that no record is lost or duplicated.

    python -m tests.faults.client_faults [FAULT...] [--random COUNT --seed N]

The cluster has three brokers. One producer sends a record to each of three partitions every 10 ms.
A transactional producer commits one record to each partition, one transaction after the other. A
consumer in a group reads the records of the first producer. Each fault is injected and undone; with
`--random` the program draws COUNT faults. The stall of a fault is the longest time without an
acknowledgement of a partition, without a commit, or without a record for the consumer: of one
partition, of any partition, and the longest time from an acknowledgement to the read of the record.

At the end the consumer must have read each record of its topic once and in order. Each acknowledged
or committed record must be in its log once, at its offset, and no aborted record may be visible.
The output rows are those of docs/CLIENT.md, which has one for each fault (tests/unit/docs).
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import trio

from pybroker_kafka import ClientError, Consumer, Producer
from pybroker_kafka.client.producer import Delivery, RecordMetadata
from pybroker_kafka.testing import KafkaCluster
from tests.support.terminated import clean_up_when_terminated

PARTITIONS = 3
SEND_SECONDS = 0.01
QUIET_SECONDS = 1.0  # before a fault, and after it
PAUSE_SECONDS = 3.0
LONG_PAUSE_SECONDS = 60.0  # at most: until others lead
READ_SECONDS = 20.0  # at most, for what is left at the end
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
    read_stall: float
    reading_stall: float
    read_delay: float
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


def pause_leader_until_moved(kafka: KafkaCluster) -> None:
    """It loses its session; its connections stay open and silent until the end."""
    leader = kafka.leader(TOPIC)
    with kafka.pause(leader):
        deadline = time.monotonic() + LONG_PAUSE_SECONDS
        while kafka.leader(TOPIC) == leader and time.monotonic() < deadline:
            time.sleep(SEND_SECONDS)
        time.sleep(PAUSE_SECONDS)


def kill_group_coordinator(kafka: KafkaCluster) -> None:
    coordinator = kafka.leader("__consumer_offsets")
    with kafka.kill(coordinator):
        time.sleep(QUIET_SECONDS)


def move_leaders(kafka: KafkaCluster) -> None:
    for partition in range(PARTITIONS):
        leader = kafka.leader(TOPIC, partition)
        kafka.move_leader(TOPIC, partition, to=leader % len(kafka.brokers) + 1)


def move_coordinators(kafka: KafkaCluster) -> None:
    for topic in ("__consumer_offsets", "__transaction_state"):
        kafka.move_leader(topic, 0, to=kafka.leader(topic) % len(kafka.brokers) + 1)


def cut_leader_off(kafka: KafkaCluster) -> None:
    """It leads on, and clients' connections to it are reset, new ones too."""
    with kafka.network.cut("client", kafka.leader(TOPIC)):
        time.sleep(PAUSE_SECONDS)


def half_open_leader(kafka: KafkaCluster) -> None:
    """It leads on, and its clients' connections stay and carry nothing; new ones do not either."""
    with kafka.network.silence("client", kafka.leader(TOPIC)):
        time.sleep(PAUSE_SECONDS)


def half_open_group_coordinator(kafka: KafkaCluster) -> None:
    with kafka.network.silence("client", kafka.leader("__consumer_offsets")):
        time.sleep(PAUSE_SECONDS)


def expire_session(kafka: KafkaCluster) -> None:
    """The leader lives, is cut off from ZooKeeper until others lead, and comes back."""
    kafka.expire_session(kafka.leader(TOPIC))


FAULTS: dict[str, Callable[[KafkaCluster], None]] = {
    "the leader is killed": kill_leader,
    "the transaction coordinator is killed": kill_transaction_coordinator,
    "the group's coordinator is killed": kill_group_coordinator,
    "leaders move": move_leaders,
    "each broker is restarted in order": restart_each,
    "the coordinators move": move_coordinators,
    "the leader's session expires": expire_session,
    "the leader is paused for 3 s, connections stay open": pause_leader,
    "the leader is paused until others lead, 6 s later": pause_leader_until_moved,
    "all brokers are killed and started again": kill_all,
}
# On a cluster with proxies before its brokers.
NETWORK_FAULTS: dict[str, Callable[[KafkaCluster], None]] = {
    "the leader refuses connections for 3 s": cut_leader_off,
    "connections to the leader are half open for 3 s": half_open_leader,
    "connections to the group's coordinator are half open for 3 s": half_open_group_coordinator,
}
ALL_FAULTS = FAULTS | NETWORK_FAULTS


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
        self.read: list[tuple[int, int, bytes | None]] = []  # partition, offset, value
        self._last_read = [0.0] * PARTITIONS
        self._written_at: dict[tuple[int, int], float] = {}  # what is not read yet
        self._read_before: set[tuple[int, int]] = set()  # before its acknowledgement was seen
        self.stall = self.commit_stall = 0.0
        self.read_stall = self.reading_stall = self.read_delay = 0.0
        self._is_over = False
        self._has_sent_all = False
        self.has_begun = trio.Event()  # all have had an answer

    def begin(self) -> None:
        now = trio.current_time()
        self._last = [now] * PARTITIONS
        self._last_read = [now] * PARTITIONS
        self._last_commit = now
        self.stall = self.commit_stall = 0.0
        self.read_stall = self.reading_stall = self.read_delay = 0.0

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
        self._has_sent_all = True

    async def _wait(self, value: bytes, delivery: Delivery) -> None:
        try:
            found = await delivery
        except ClientError as error:
            self.failures.append(f"{value!r}: {error}")
            return
        self.written.append((value, found))
        now = trio.current_time()
        place = found.partition, found.offset
        if place in self._read_before:
            self._read_before.discard(place)
        else:
            self._written_at[place] = now
        self.stall = max(self.stall, now - self._last[found.partition])
        self._last[found.partition] = now

    async def consume(self) -> None:
        """Until all that was acknowledged is read, for READ_SECONDS after the end."""
        async with Consumer(
            self._bootstrap, group_id="client-faults", auto_offset_reset="earliest"
        ) as consumer:
            await consumer.subscribe([TOPIC])
            deadline = float("inf")
            while trio.current_time() < deadline and (not self._has_sent_all or self._written_at):
                if self._is_over and deadline == float("inf"):
                    deadline = trio.current_time() + READ_SECONDS
                for record in await consumer.poll(SEND_SECONDS):
                    self._take(record.partition, record.offset, record.value)

    def _take(self, partition: int, offset: int, value: bytes | None) -> None:
        now = trio.current_time()
        self.read.append((partition, offset, value))
        written_at = self._written_at.pop((partition, offset), None)
        if written_at is None:
            self._read_before.add((partition, offset))
        else:
            self.read_delay = max(self.read_delay, now - written_at)
        self.reading_stall = max(self.reading_stall, now - max(self._last_read))
        self.read_stall = max(self.read_stall, now - self._last_read[partition])
        self._last_read[partition] = now

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
                    if self.written and self.read:
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
        nursery.start_soon(load.consume)
        await load.has_begun.wait()
        for name in names:
            await trio.sleep(QUIET_SECONDS)
            load.begin()
            before = load.retries
            await trio.to_thread.run_sync(ALL_FAULTS[name], kafka)
            await trio.sleep(QUIET_SECONDS)
            for topic in (TOPIC, TRANSACTIONS):
                await trio.to_thread.run_sync(kafka.wait_for_isr, topic)
            await trio.sleep(QUIET_SECONDS)
            results.append(
                Result(
                    name, load.stall, load.commit_stall, load.read_stall, load.reading_stall,
                    load.read_delay, load.retries - before,
                )
            )  # fmt: skip
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
    wrong += audit_read(load)
    read = Counter(one.value for one in kafka.records(TRANSACTIONS, committed=True))
    wrong += [f"{value!r} is committed and lost" for value in load.committed if not read[value]]
    wrong += [f"{value!r} is there {read[value]} times" for value in read if read[value] > 1]
    unknown = read.keys() - set(load.committed)
    return wrong + [f"{value!r} was not committed" for value in unknown]


def audit_read(load: Load) -> list[str]:
    """What the consumer did not read, or not once and in order."""
    wrong = []
    read = {(partition, offset): value for partition, offset, value in load.read}
    for value, told in load.written:
        if told.offset >= 0 and read.get((told.partition, told.offset)) != value:
            wrong.append(f"{value!r} at {told.partition}/{told.offset} was not read")
    for partition in range(PARTITIONS):
        offsets = [offset for number, offset, _ in load.read if number == partition]
        if offsets != sorted(set(offsets)):
            wrong.append(f"partition {partition} was not read once and in order")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults.client_faults",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("faults", nargs="*", metavar="FAULT", help=", ".join(ALL_FAULTS))
    parser.add_argument(
        "--random", type=int, default=0, help="draw this many faults at random, from the named ones"
    )
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    clean_up_when_terminated()
    names = arguments.faults or list(ALL_FAULTS)
    if unknown := [name for name in names if name not in ALL_FAULTS]:
        parser.error(f"{unknown[0]!r} is none of {', '.join(ALL_FAULTS)}")
    if arguments.random:
        groups = [random.Random(arguments.seed).choices(names, k=arguments.random)]
    else:
        groups = [[name for name in names if name in faults] for faults in (FAULTS, NETWORK_FAULTS)]
    print("| | records | transactions | read | read of any | after acknowledgement | retries |")
    print("|---|---|---|---|---|---|---|", flush=True)
    wrong: list[str] = []
    for group in filter(None, groups):
        has_proxies = not NETWORK_FAULTS.keys().isdisjoint(group)
        with KafkaCluster(brokers=3, config=CONFIG, network=has_proxies) as kafka:
            found, broken = trio.run(run, kafka, group)
        wrong += broken
        for each in found:
            print(
                f"| {each.name} | {each.stall:.1f} | {each.commit_stall:.1f}"
                f" | {each.read_stall:.1f} | {each.reading_stall:.1f} | {each.read_delay:.1f}"
                f" | {each.retries} |",
                flush=True,
            )
    print("\n".join(wrong) or "nothing lost, nothing doubled")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
