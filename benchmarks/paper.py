"""A cluster of 100 brokers on paper: `python -m benchmarks.paper`.

The real state machine of the controller runs with a ZooKeeper in a dictionary and with brokers that
only count. So the requests of the controller, their bytes (as encoded for the wire) and its
ZooKeeper operations are those of a real cluster; times are not. The brokers never ask to rejoin an
ISR: in a real cluster that adds one AlterPartition per leader and one write per partition after
each return.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pybroker_kafka.broker.zk.registration import ensure_top_level_paths
from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.controlled_shutdown import ControlledShutdownRequest
from pybroker_kafka.protocol.apis.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from pybroker_kafka.protocol.apis.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from pybroker_kafka.protocol.apis.stop_replica import StopReplicaResponse
from pybroker_kafka.protocol.apis.update_metadata import (
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from pybroker_kafka.protocol.codec import encode_parts
from pybroker_kafka.protocol.framing import encode_request
from pybroker_kafka.protocol.schema import Message
from pybroker_kafka.protocol.zookeeper.operations import (
    Check,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    Multi,
    ZkOperation,
    ZkResult,
)
from pybroker_kafka.replication.controller import events
from pybroker_kafka.replication.controller.effects import SendRequest
from pybroker_kafka.replication.inter_broker import NEWEST
from tests.support.controller_cluster import ControllerCluster, SimulatedBroker
from tests.support.zookeeper_tree import ZooKeeperTree

BROKERS, PARTITIONS = 100, 50_000
REPLICAS = 3
PARTITIONS_OF_A_TOPIC = 100
METADATA_VERSION = 12
REQUESTS = {
    "LeaderAndIsr": (ApiKey.LEADER_AND_ISR, NEWEST.leader_and_isr),
    "UpdateMetadata": (ApiKey.UPDATE_METADATA, NEWEST.update_metadata),
    "StopReplica": (ApiKey.STOP_REPLICA, NEWEST.stop_replica),
}


@dataclass(slots=True)
class Cost:
    """What an event took: requests of the controller, operations of ZooKeeper, our CPU seconds."""

    requests: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)
    most_bytes: int = 0
    reads: int = 0
    writes: int = 0
    round_trips: int = 0
    seconds: float = 0.0

    def note(self, name: str, size: int) -> None:
        self.requests[name] += 1
        self.bytes[name] += size
        self.most_bytes = max(self.most_bytes, size)


class Obedient(SimulatedBroker):
    """It says yes and keeps nothing."""

    def receive(self, request: Any) -> object:
        if isinstance(request, UpdateMetadataRequest):
            return UpdateMetadataResponse()
        if isinstance(request, LeaderAndIsrRequest):
            return LeaderAndIsrResponse()
        return StopReplicaResponse()


class LargeTree(ZooKeeperTree):
    """Without the searches and copies that a tree of a hundred thousand nodes would wait for."""

    def __init__(self) -> None:
        super().__init__()
        self._children: dict[str, set[str]] = {}

    def children(self, path: str) -> tuple[str, ...]:
        return tuple(sorted(self._children.get(path.rstrip("/") or "/", ())))

    def _multi(self, multi: Multi, session: int) -> ZkResult:
        results = []
        for operation in multi.operations:
            result, happened = self._write(operation, session)
            assert result.ok, f"{operation} would have to be undone"
            results.append(result)
            self._fire(happened)
        return ZkResult(results=tuple(results))

    def _write(self, operation: Any, session: int) -> tuple[ZkResult, list[tuple[str, str]]]:
        result, happened = super()._write(operation, session)
        if result.ok and isinstance(operation, Create | Delete):
            path = result.path or operation.path
            parent, _, name = path.rpartition("/")
            names = self._children.setdefault(parent or "/", set())
            (names.add if isinstance(operation, Create) else names.discard)(name)
        return result, happened


class CountedCluster(ControllerCluster):
    """Counts what it sends instead of keeping it, and what it asks of ZooKeeper."""

    def __init__(self) -> None:
        self.cost = Cost()
        self._sizes: dict[tuple[object, ...], int] = {}
        super().__init__()
        tree = LargeTree()
        tree.run(ensure_top_level_paths())
        tree.interfere = self._count_operations
        self.tree = tree

    def start(self, broker_id: int, *args: Any, **options: Any) -> None:
        super().start(broker_id, *args, **options)
        self.brokers[broker_id] = Obedient(broker_id)

    def measure(self, action: Callable[[], object]) -> Cost:
        self.cost = Cost()
        began = time.process_time()
        action()
        self.cost.seconds = time.process_time() - began
        return self.cost

    def _count_operations(self, operations: Sequence[ZkOperation]) -> None:
        self.cost.round_trips += 1
        for operation in operations:
            inner = operation.operations if isinstance(operation, Multi) else (operation,)
            for one in inner:
                if isinstance(one, GetData | Exists | GetChildren):
                    self.cost.reads += 1
                elif not isinstance(one, Check):
                    self.cost.writes += 1

    def _deliver(self, controller_id: int, effect: SendRequest) -> None:
        self.sent.clear()
        request: Any = effect.request
        name = type(request).__name__.removesuffix("Request")
        # The part that all brokers receive is made once, without each broker's epoch.
        states = request.topic_states
        key = (name, *(id(state) for state in states[:2]), len(states))
        if name == "LeaderAndIsr" or key not in self._sizes:
            self._sizes = {key: size_of(name, request)}
        self.cost.note(name, self._sizes[key])
        super()._deliver(controller_id, effect)


def size_of(name: str, request: Message) -> int:
    key, version = REQUESTS[name]
    return sum(len(part) for part in encode_request(key, version, 1, "controller", request))


def metadata_bytes(partitions: int, brokers: int) -> int:
    """Of the answer to a client that asks for all topics."""
    names = partitions // PARTITIONS_OF_A_TOPIC
    topics = [
        MetadataResponseTopic(
            name=topic_name(number),
            topic_id=bytes(16),
            partitions=[
                MetadataResponsePartition(
                    partition_index=index,
                    leader_id=1,
                    leader_epoch=1,
                    replica_nodes=[1] * REPLICAS,
                    isr_nodes=[1] * REPLICAS,
                    offline_replicas=[],
                )
                for index in range(PARTITIONS_OF_A_TOPIC)
            ],
        )
        for number in range(names)
    ]
    nodes = [
        MetadataResponseBroker(node_id=node, host="broker-100.example.com", port=9092, rack=None)
        for node in range(brokers)
    ]
    answer = MetadataResponse(brokers=nodes, cluster_id="x" * 22, controller_id=1, topics=topics)
    return sum(len(part) for part in encode_parts(answer, METADATA_VERSION))


def topic_name(number: int) -> str:
    return f"topic-of-some-team-{number:05d}"


def assignment(number: int, brokers: int) -> dict[int, list[int]]:
    return {
        index: [
            (number * PARTITIONS_OF_A_TOPIC + index + replica * (1 + index % 7)) % brokers + 1
            for replica in range(REPLICAS)
        ]
        for index in range(PARTITIONS_OF_A_TOPIC)
    }


def measure(brokers: int, partitions: int) -> dict[str, Cost]:
    """What happens in such a cluster, and what it costs."""
    cluster = CountedCluster()
    for broker in range(1, brokers + 1):
        cluster.start(broker)
    # Far from each other, so that no partition has two of them among its replicas.
    dying, stopping = brokers * 7 // 10, brokers * 4 // 10
    topics = partitions // PARTITIONS_OF_A_TOPIC
    for number in range(topics):
        cluster.create_topic(topic_name(number), assignment(number, brokers))
    found = {
        "a topic of 100 partitions is created": cluster.measure(
            lambda: cluster.create_topic(topic_name(topics), assignment(topics, brokers))
        ),
        "a broker dies": cluster.measure(lambda: cluster.kill(dying)),
        "it comes back": cluster.measure(lambda: cluster.start(dying)),
        "a broker stops cleanly": cluster.measure(lambda: stop(cluster, stopping)),
        "the controller dies": cluster.measure(lambda: cluster.kill(1)),
    }
    assert cluster.active.context.epoch == 2
    return found


def stop(cluster: CountedCluster, broker: int) -> None:
    epoch = cluster.active.context.broker_epoch(broker)
    assert epoch is not None
    answer = cluster.ask(
        events.ControlledShutdown, ControlledShutdownRequest(broker_id=broker, broker_epoch=epoch)
    )
    assert not answer.error_code
    cluster.kill(broker)


def lines(brokers: int, partitions: int) -> list[str]:
    """The table, with the description of its cluster above it and the answer to clients below."""
    replicas = spaced(partitions * REPLICAS // brokers)
    return [
        f"{brokers} brokers, {spaced(partitions)} partitions in topics of {PARTITIONS_OF_A_TOPIC}, "
        f"{REPLICAS} replicas of each, so {replicas} replicas a broker:",
        "",
        *table(measure(brokers, partitions)),
        "",
        f"The metadata of all topics is {metadata_bytes(partitions, brokers) / 1e6:.3g} MB for a "
        "client that asks for them.",
    ]


def table(found: dict[str, Cost]) -> Iterator[str]:
    kinds = list(REQUESTS)
    yield (
        f"| | {', '.join(kinds)} requests | MB in all | largest, MB "
        "| ZooKeeper writes; reads; round trips | controller CPU s |"
    )
    yield "|---|---:|---:|---:|---:|---:|"
    for title, cost in found.items():
        requests = ", ".join(spaced(cost.requests[kind]) for kind in kinds)
        operations = "; ".join(map(spaced, (cost.writes, cost.reads, cost.round_trips)))
        megabytes = f"{sum(cost.bytes.values()) / 1e6:.3g} | {cost.most_bytes / 1e6:.2g}"
        yield f"| {title} | {requests} | {megabytes} | {operations} | {cost.seconds:.2g} |"


def spaced(number: int) -> str:
    return f"{number:,}".replace(",", " ")


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brokers", type=int, default=BROKERS)
    parser.add_argument("--partitions", type=int, default=PARTITIONS)
    arguments = parser.parse_args(words)
    for line in lines(arguments.brokers, arguments.partitions):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
