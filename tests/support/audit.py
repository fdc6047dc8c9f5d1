"""The end of a fault case: the books of the clients against the logs of all replicas.

Job: `audit` waits until the mended cluster has settled (every replica in sync, every log as long
as the leader's), then lists every promise that was broken; an empty list is a pass.
The promises: each acknowledged record once (idempotent producer) or at least once, at the offset
that the acknowledgement named; per-key order; logs byte-identical on all replicas, internal topics
included, and so their leader epochs; nothing that a consumer read changes or goes away; each
consumer got everything; committed offsets kept; one leader an epoch and no HW that goes back
(from the observer).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

from confluent_kafka import KafkaException
from kafka.errors import KafkaError

from pybroker_kafka.protocol.records.batch import iter_batch_headers, read_records
from tests.support.cluster import Cluster
from tests.support.ledger import Ledger
from tests.support.loads import KEYS, ConsumerLoad, Place, ProducerLoad
from tests.support.observer import Observer

SHOWN = 5


def log_bytes(directory: Path) -> bytes:
    """All segments of a partition's directory, in order."""
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))


def replicas_of(cluster: Cluster) -> dict[str, dict[int, Path]]:
    """The directories of every partition, by name and node."""
    found: dict[str, dict[int, Path]] = defaultdict(dict)
    for node, broker in cluster.nodes.items():
        for path in chain.from_iterable(place.iterdir() for place in broker.log_dirs):
            if path.is_dir() and not path.name.endswith(("-delete", "-future", "-stray")):
                found[path.name][node] = path
    return found


def epochs_in_use(directory: Path, log: bytes) -> list[tuple[int, int]]:
    """(epoch, start offset) of the epochs that have records.

    A leader notes its epoch when it is elected, a follower with the first record of it. Our file
    may still lack the newest ones: a flush writes them, and recovery reads them from the batches.
    """
    headers = [header for _, header in iter_batch_headers(log)]
    end = max((header.next_offset for header in headers), default=0)
    path = directory / "leader-epoch-checkpoint"
    lines = path.read_text().splitlines()[2:] if path.exists() else []
    entries = [(int(epoch), int(start)) for epoch, start in map(str.split, lines)]
    for header in headers:
        if header.partition_leader_epoch > (entries[-1][0] if entries else -1):
            entries.append((header.partition_leader_epoch, header.base_offset))
    return [entry for entry in entries if entry[1] < end]


def differences(cluster: Cluster, topics: Sequence[str]) -> list[str]:
    """How replicas differ right now: in where they are, what they hold, and in their epochs."""
    found = []
    directories = replicas_of(cluster)
    for topic in topics:
        for partition, view in cluster.partitions(topic).items():
            name = f"{topic}-{partition}"
            if set(directories[name]) != set(view.replicas):
                found.append(f"{name} of {view.replicas} is on {sorted(directories[name])}")
            found += differences_of(name, directories[name])
    return found


def differences_of(name: str, directories: Mapping[int, Path]) -> list[str]:
    found = []
    logs = {node: log_bytes(path) for node, path in directories.items()}
    if len(set(logs.values())) > 1:
        sizes = {node: len(log) for node, log in logs.items()}
        found.append(f"{name} differs between replicas, bytes by node: {sizes}")
    epochs = {node: epochs_in_use(path, logs[node]) for node, path in directories.items()}
    if len(set(map(tuple, epochs.values()))) > 1:
        found.append(f"leader epochs of {name} differ: {epochs}")
    return found


def settle(cluster: Cluster, topic: str) -> list[str]:
    """Wait for full ISRs and equal logs; what still differs when patience ends."""
    topics = [topic, "__consumer_offsets"]
    for one in topics:
        cluster.wait_for_isr(one)
    left = ["no answer"]

    def equal() -> bool:
        left[:] = differences(cluster, topics)
        return not left

    try:
        cluster.wait_for(equal, "replicas are equal", 40)
    except AssertionError:
        return left
    return []


def audit(
    cluster: Cluster,
    ledger: Ledger,
    observer: Observer,
    *,
    may_lose: bool = False,
) -> list[str]:
    """`may_lose`: after an unclean election only what all agree on is checked.

    The log may still grow after it has settled: a request of a producer that is not idempotent may
    come late, when the network repeats what was sent into a cut link and its leader leads again.
    What had settled must be in the log at the end, and what was read is compared with this end.
    """
    ledger.end_producers()
    found = settle(cluster, ledger.topic)
    settled = read_log(cluster, ledger)
    if not may_lose:
        found += waited_for_consumers(cluster, ledger, settled)
    ledger.end_consumers()
    observer.end()
    if may_lose:
        return found
    log = settled
    if any(place not in settled for consumer in ledger.consumers for place in consumer.read):
        found += settle(cluster, ledger.topic)
        log = read_log(cluster, ledger)
        found += vanished(settled, log)
        cluster.tell(f"{len(log) - len(settled)} records came after the log had settled")
    found += observer.violations()
    for producer in ledger.producers:
        found += producer_violations(producer, log)
    for consumer in ledger.consumers:
        found += consumer_violations(cluster, consumer, settled, log)
    return found


Log = dict[tuple[int, int], bytes]


def read_log(cluster: Cluster, ledger: Ledger) -> Log:
    """Value by (partition, offset), from the files of the leader."""
    log: Log = {}
    for partition in range(ledger.partitions):
        leader = cluster.leader(ledger.topic, partition)
        directory = replicas_of(cluster)[f"{ledger.topic}-{partition}"][leader]
        for record in read_records(log_bytes(directory)):
            log[partition, record.offset] = bytes(record.value or b"")
    return log


def vanished(settled: Log, log: Log) -> list[str]:
    """What every replica had, and the log has no longer."""
    gone = [f"{place}: {value!r}" for place, value in settled.items() if log.get(place) != value]
    return [f"{len(gone)} settled records are gone: {gone[:SHOWN]}"] if gone else []


def producer_violations(producer: ProducerLoad, log: Log) -> list[str]:
    found = []
    prefix = producer.name.encode() + b":"
    numbers = [
        (place, int(value[len(prefix) :]))
        for place, value in sorted(log.items())
        if value.startswith(prefix)
    ]
    counts = Counter(number for _, number in numbers)
    missing = [number for number in producer.acknowledged if not counts[number]]
    if missing:
        found.append(f"{producer.name}: {len(missing)} lost: {missing[:SHOWN]}")
    if producer.idempotent:
        twice = [number for number, count in counts.items() if count > 1]
        if twice:
            found.append(f"{producer.name}: {len(twice)} more than once: {twice[:SHOWN]}")
    moved = [
        f"{number} at {place}: {log.get(place)!r}"
        for number, place in producer.acknowledged.items()
        if place[1] >= 0 and log.get(place) != prefix + b"%d" % number
    ]
    if moved:
        found.append(f"{producer.name}: {len(moved)} not where acknowledged: {moved[:SHOWN]}")
    return found + (disorder(producer.name, numbers) if producer.is_ordered else [])


def disorder(name: str, numbers: Sequence[tuple[Place, int]]) -> list[str]:
    """Where the first copies of a key's records are not in the order in which they were sent."""
    found = []
    last: dict[int, int] = {}
    seen = set()
    for place, number in numbers:
        if number in seen:
            continue  # a retry's copy
        seen.add(number)
        key = number % KEYS
        if number < last.get(key, -1):
            found.append(f"{number} at {place} comes after {last[key]}")
        last[key] = number
    return [f"{name}: {len(found)} out of order: {found[:SHOWN]}"] if found else []


def waited_for_consumers(cluster: Cluster, ledger: Ledger, log: Log) -> list[str]:
    """Wait until each consumer has read and committed up to the ends."""
    ends = {p: 1 + max((o for q, o in log if q == p), default=-1) for p in range(ledger.partitions)}

    def caught_up() -> bool:
        ledger.raise_crashes()
        return all(
            consumer.positions.get(p, 0) >= end and consumer.committed.get(p, 0) >= end
            for consumer in ledger.consumers
            for p, end in ends.items()
            if end
        )

    try:
        cluster.wait_for(caught_up, "consumers have caught up")
    except AssertionError as error:
        return [
            f"{error}: {one.name} is at {one.positions} and has committed {one.committed} of {ends}"
            for one in ledger.consumers
        ]
    return []


def consumer_violations(
    cluster: Cluster, consumer: ConsumerLoad, settled: Log, log: Log
) -> list[str]:
    """`settled`: what it was waited for; `log`: what it may have read."""
    found = [f"{consumer.name}: {change}" for change in consumer.changed[:SHOWN]]
    changed = [
        f"{place}: {value!r}, now {log.get(place)!r}"
        for place, value in consumer.read.items()
        if log.get(place) != value
    ]
    if changed:
        found.append(f"{consumer.name}: {len(changed)} read records changed: {changed[:SHOWN]}")
    missed = [place for place in settled if place not in consumer.read]
    if missed:
        found.append(f"{consumer.name}: {len(missed)} records never came: {missed[:SHOWN]}")
    if not consumer.attempted:
        return found

    def stored() -> dict[int, int] | None:
        try:
            return consumer.stored()
        except (KafkaException, KafkaError) as error:
            cluster.tell(f"{consumer.name} cannot ask for its committed offsets: {error}")
            return None

    offsets = cluster.wait_for(stored, f"{consumer.name}: its committed offsets", 90.0)
    for partition, attempts in consumer.attempted.items():
        if offsets.get(partition) not in attempts:
            found.append(
                f"{consumer.name}: committed {offsets.get(partition)} in partition {partition}, "
                f"expected one of {sorted(attempts)}"
            )
    return found
