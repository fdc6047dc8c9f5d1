"""Unclean elections by every way there is, under real processes, and what is left of records.

Each test leaves a replica behind: `stale` has the first records, `last` the ones after it too, and
dies; `other`, which is the controller, has no replica. Then, by Kafka's rules:

a. nobody leads while nothing allows it (unclean.leader.election.enable is false by default);
b. the topic's own setting allows it, from its creation on or set later: the controller is
   told and elects at once (TopicConfigHandler.maybeEnableUncleanLeaderElection);
c. the brokers' dynamic default allows it later: the same (DynamicLogConfig);
d. the static default of whoever is the controller counts, not that of others: a controller that
   has it elects when it begins;
e. ElectLeaders of type UNCLEAN elects without any of these: ELECTION_NOT_NEEDED where a replica
   leads, ELIGIBLE_LEADERS_NOT_AVAILABLE where none is alive, and not for type PREFERRED.

After each: the ISR is the new leader alone, in the next epoch; `last` cuts off what only it had and
is equal to the new leader, which wrote something else there; a fetch at an offset that is gone
is OFFSET_OUT_OF_RANGE, one of a divergent epoch (KIP-320) names where it diverges, an old epoch is
fenced; an idempotent producer whose newest batch is gone is out of order, and a transaction that
was open ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from pybroker_kafka.protocol.apis.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersRequestTopicPartitions,
)
from pybroker_kafka.protocol.apis.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from pybroker_kafka.protocol.errors import ErrorCode
from tests.faults.directories import content
from tests.support.cluster import Cluster, cluster
from tests.support.ledger import librdkafka
from tests.support.nightly import chosen
from tests.support.wire import Topic, WireClient, batch
from tests.wire.test_offsets import end_of_epoch
from tests.wire.test_producer_ids import new_producer_id, sequenced

UNCLEAN = "unclean.leader.election.enable"
TOPIC, BROKER = 2, 4
SET, DELETE = 0, 1
PREFERRED_TYPE, UNCLEAN_TYPE = 0, 1
COMMON, ONLY_LAST, ONLY_STALE = 3, 4, 2  # records

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("unclean")) as started:
        yield started


@dataclass
class Left:
    """A topic of which a stale replica is left."""

    cluster: Cluster
    name: str
    last: int
    stale: int
    other: int
    producer_id: int

    def client(self, node: int) -> WireClient:
        return WireClient(self.cluster.nodes[node].bootstrap)

    def append(self, node: int, *values: str) -> None:
        with self.client(node) as client:
            for value in values:
                self.cluster.wait_for(
                    lambda v=value: client.produce(self.name, batch(v.encode())).error_code == 0,  # type: ignore[misc]
                    f"{value} is appended",
                )

    def view(self) -> Any:
        return self.cluster.partitions(self.name, self.other)[0]

    def leader_is(self, node: int) -> None:
        self.cluster.wait_for(lambda: self.view().leader == node, f"{node} leads {self.name}")

    def nobody_leads(self) -> None:
        self.cluster.wait_for(lambda: self.view().leader == -1, f"nobody leads {self.name}")


def leave(cluster: Cluster, name: str, config: dict[str, str] | None = None) -> Left:
    """`last` is dead, and `stale` alive again."""
    controller = cluster.controller()
    last, stale = (node for node in cluster.nodes if node != controller)
    config = {"min.insync.replicas": "1", **(config or {})}
    cluster.create_topic(name, assignment={0: [last, stale]}, config=config)
    with WireClient(cluster.nodes[last].bootstrap) as client:
        left = Left(cluster, name, last, stale, controller, new_producer_id(client))
        left.append(last, *(f"common-{n}" for n in range(COMMON - 1)))
        assert client.produce(name, sequenced(left.producer_id, 0)).error_code == 0
        cluster.wait_for_isr(name)
        cluster.kill(stale)
        cluster.wait_for(lambda: left.view().isr == {last}, f"{last} alone in sync")
        left.append(last, *(f"only-last-{n}" for n in range(ONLY_LAST - 1)))
        assert client.produce(name, sequenced(left.producer_id, 1)).error_code == 0
    cluster.kill(last)
    cluster.start(stale)
    return left


def elected(left: Left) -> None:
    """`stale` leads; then `last` is back, and everything is as it should be."""
    running, name = left.cluster, left.name
    left.leader_is(left.stale)
    view = left.view()
    assert view.isr == {left.stale}
    with left.client(left.stale) as client:
        topic = Topic(name, bytes(16))
        gone = client.fetch(topic, COMMON + ONLY_LAST, version=12)
        assert gone.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        fenced = client.fetch(topic, 0, version=12, current_leader_epoch=view.epoch - 1)
        assert fenced.error_code == ErrorCode.FENCED_LEADER_EPOCH
        # What follows the newest batch that is gone; one that is new to this leader is taken.
        gap = client.produce(name, sequenced(left.producer_id, 2))
        assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert client.produce(name, sequenced(left.producer_id, 1)).error_code == 0
    left.append(left.stale, *(f"only-stale-{n}" for n in range(ONLY_STALE - 1)))
    with left.client(left.stale) as client:
        end = end_of_epoch(client, 3, name, 0)
        assert (end.error_code, end.leader_epoch, end.end_offset) == (0, 0, COMMON)
        diverged = client.fetch(
            topic, COMMON + 1, version=12, current_leader_epoch=view.epoch, last_fetched_epoch=0
        )
        assert diverged.error_code == 0
        assert (diverged.diverging_epoch.epoch, diverged.diverging_epoch.end_offset) == (0, COMMON)
    running.start(left.last)
    running.wait_for_isr(name)
    copies = [content(str(running.nodes[node].log_dir), name) for node in (left.last, left.stale)]
    assert copies[0] == copies[1]
    assert b"only-last" not in copies[0]
    assert copies[0].count(b"only-stale") == ONLY_STALE - 1


def alter(cluster: Cluster, kind: int, name: str, value: str | None) -> None:
    config = IncrementalAlterConfigsRequestAlterableConfig(
        name=UNCLEAN, config_operation=SET if value else DELETE, value=value
    )
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=kind, resource_name=name, configs=[config]
    )
    answer = cluster.ask_controller(IncrementalAlterConfigsRequest(resources=[resource]))
    assert answer.responses[0].error_code == 0, answer


def elect(left: Left, kind: int, name: str | None = None) -> int:
    asked = ElectLeadersRequestTopicPartitions(topic=name or left.name, partitions=[0])
    request = ElectLeadersRequest(election_type=kind, topic_partitions=[asked], timeout_ms=10_000)
    answer = left.cluster.ask_controller(request, 2)
    assert answer.error_code == 0
    ((result,),) = (one.partition_result for one in answer.replica_election_results)
    code: int = result.error_code
    return code


def by_topic(left: Left) -> None:
    alter(left.cluster, TOPIC, left.name, "true")


def by_dynamic_default(left: Left) -> None:
    alter(left.cluster, BROKER, "", "true")


def by_static_default(left: Left) -> None:
    """Of the stale replica's broker alone: once it is the controller."""
    running = left.cluster
    running.kill(left.stale)
    properties = running.directory / f"broker-{left.stale}" / "server.properties"
    before = properties.read_text()
    properties.write_text(f"{before}{UNCLEAN}=true\n")
    running.start(left.stale)
    properties.write_text(before)
    left.nobody_leads()
    running.kill(left.other)
    running.wait_for(lambda: running.controller() == left.stale, "it is the controller")
    running.wait_for(
        lambda: running.partitions(left.name, left.stale)[0].leader == left.stale, "it leads"
    )
    running.start(left.other)


def by_request(left: Left) -> None:
    left.cluster.kill(left.stale)
    left.nobody_leads()
    left.cluster.wait_for(lambda: left.stale not in left.cluster.brokers(), "nobody is alive")
    assert elect(left, UNCLEAN_TYPE) == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    left.cluster.start(left.stale)
    left.nobody_leads()
    assert elect(left, PREFERRED_TYPE) == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert elect(left, UNCLEAN_TYPE, "none") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert elect(left, UNCLEAN_TYPE) == ErrorCode.NONE
    assert elect(left, UNCLEAN_TYPE) == ErrorCode.ELECTION_NOT_NEEDED


WAYS = [by_topic, by_dynamic_default, by_static_default, by_request]


@pytest.mark.parametrize("way", chosen(WAYS, [by_request]))
def test_a_stale_replica_leads_once_it_may(nodes: Cluster, way: Callable[[Left], None]) -> None:
    """Cases a to e: nobody leads until the way is gone."""
    left = leave(nodes, way.__name__.replace("_", "-"))
    left.nobody_leads()
    way(left)
    elected(left)
    if way is by_dynamic_default:
        alter(nodes, BROKER, "", None)
    elif way is by_static_default:  # its properties are as they were
        nodes.kill(left.stale)
        nodes.start(left.stale)
        nodes.wait_for_isr(left.name)


@pytest.mark.nightly
def test_a_topic_that_may_from_the_beginning(nodes: Cluster) -> None:
    """Case b; a consumer that has read what is gone begins where its reset policy says, and
    a transaction that was open there ends: nobody waits for it."""
    name = "from-the-beginning"
    settings = librdkafka(nodes.bootstrap, transactional_id=name, message_timeout_ms=60_000)
    left = leave(nodes, name, {UNCLEAN: "true"})
    elected(left)
    producer = Producer(settings)
    producer.init_transactions(60)
    producer.begin_transaction()
    nodes.kill(left.stale)
    left.leader_is(left.last)
    producer.produce(name, b"in-a-transaction", partition=0)
    assert producer.flush(60) == 0
    nodes.kill(left.last)
    nodes.start(left.stale)
    left.leader_is(left.stale)
    producer.commit_transaction(60)
    left.append(left.stale, "after-it")
    nodes.start(left.last)
    nodes.wait_for_isr(name)
    reader = Consumer(
        librdkafka(
            nodes.bootstrap,
            group_id="none",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
        )
    )
    try:
        reader.assign([TopicPartition(name, 0, 1000)])
        read: list[bytes] = []

        def has_read() -> bool:
            message = reader.poll(0.2)
            if message is not None and message.error() is None:
                read.append(message.value() or b"")
            return read[-1:] == [b"after-it"]

        nodes.wait_for(has_read, "the newest record, past the end of the transaction")
    finally:
        reader.close()
    assert read[0] == b"common-0"
    assert b"in-a-transaction" not in read
