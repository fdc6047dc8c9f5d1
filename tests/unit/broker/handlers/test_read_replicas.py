"""Consumers that read from a follower in their rack (KIP-392), through the handlers of both."""

from pathlib import Path
from typing import Any

import pytest

from pybroker_kafka.broker.config import ConfigError, KafkaConfig
from pybroker_kafka.broker.replicas.parts import (
    LEADER_SELECTOR,
    RACK_AWARE_SELECTOR,
    replica_selector,
)
from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.fetch import FetchPartition, FetchRequest, FetchTopic
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.replication.metadata_cache import MetadataCache
from pybroker_kafka.replication.replica_selector import RackAwareReplicaSelector, ReplicaSelector
from tests.support.followers import Node, Nodes
from tests.support.handlers import Call
from tests.support.replication import KEY, TOPIC_ID
from tests.support.replication_handlers import values

RACKS = {1: "a", 2: "b", 3: "b"}


@pytest.fixture
def nodes(tmp_path: Path) -> Nodes:
    nodes = Nodes(tmp_path)
    for node in nodes.nodes.values():
        node.cluster.alive(nodes.broker_ids, RACKS)
        node.manager.reader.replica_selector = RackAwareReplicaSelector(node.manager.metadata)
    nodes.elect(1)
    nodes.produce(b"one")
    for broker in (2, 3, 2, 3):
        nodes.catch_up(broker)
    return nodes


def consume(node: Node, offset: int, rack: str, *, version: int = 17, max_wait_ms: int = 0) -> Call:
    topic = {"topic_id": TOPIC_ID} if version >= 13 else {"topic": KEY[0]}
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        rack_id=rack if version >= 11 else "",
        topics=[FetchTopic(**topic, partitions=[partition])],
    )
    call = Call(node.fetches, ApiKey.FETCH, version, request)
    node.settle()
    return call


def data(call: Call) -> Any:
    ((partition,),) = (topic.partitions for topic in call.answer.responses)
    return partition


def test_the_leader_names_a_replica_in_the_rack(nodes: Nodes) -> None:
    answer = data(consume(nodes[1], 0, "b"))
    assert answer.preferred_read_replica == 3  # both are as good; the larger id
    assert not answer.records
    answer = data(consume(nodes[3], 0, "b"))
    assert values(answer.records) == [b"one"]
    assert answer.preferred_read_replica == -1
    assert answer.high_watermark == 1


@pytest.mark.parametrize("rack", ["", "a", "elsewhere"])
def test_the_leader_serves_who_has_no_better_replica(nodes: Nodes, rack: str) -> None:
    answer = data(consume(nodes[1], 0, rack))
    assert answer.preferred_read_replica == -1
    assert values(answer.records) == [b"one"]


def test_a_replica_that_lags_is_not_named(nodes: Nodes) -> None:
    for count in range(3):
        nodes.produce(b"more %d" % count)
    nodes.catch_up(2)
    assert data(consume(nodes[1], 3, "b")).preferred_read_replica == 2
    nodes.elect(1, isr=[1])
    assert data(consume(nodes[1], 3, "b")).preferred_read_replica == -1


def test_a_consumer_waits_at_the_follower_for_its_high_watermark(nodes: Nodes) -> None:
    call = consume(nodes[2], 1, "b", max_wait_ms=60_000)
    assert call.answer is None
    nodes.produce(b"two")
    nodes.step(2)
    assert nodes[2].log.log_end_offset == 2
    assert call.answer is None  # it is not committed yet, as far as 2 knows
    nodes.catch_up(3)
    nodes.catch_up(2)
    assert values(data(call).records) == [b"two"]


def test_a_follower_answers_for_its_own_range(nodes: Nodes) -> None:
    assert data(consume(nodes[2], 5, "b")).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    nodes.produce(b"two")
    nodes.step(2)
    answer = data(consume(nodes[2], 2, "b"))  # at its end, above its HW
    assert (answer.error_code, bytes(answer.records)) == (ErrorCode.NONE, b"")
    answer = data(consume(nodes[2], 0, "", version=10))
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_the_selector_is_named_in_the_config() -> None:
    metadata = MetadataCache(1, "cluster")

    def selector_of(**configs: str) -> ReplicaSelector | None:
        return replica_selector(KafkaConfig(configs), metadata)

    assert selector_of() is None
    name = "replica.selector.class"
    assert selector_of(**{name: LEADER_SELECTOR}) is None
    chosen = selector_of(**{name: RACK_AWARE_SELECTOR})
    assert isinstance(chosen, RackAwareReplicaSelector)
    with pytest.raises(ConfigError, match="there are"):
        selector_of(**{name: "com.example.Selector"})
