"""What UpdateMetadata does to the cache, in each version's form."""

from collections.abc import Sequence

from pybroker_kafka.protocol.apis.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from pybroker_kafka.protocol.codec import decode, encode
from pybroker_kafka.protocol.uuids import ZERO_UUID
from pybroker_kafka.replication.metadata_cache import Endpoint, MetadataCache

ID_A, ID_B = b"a" * 16, b"b" * 16


def state(index: int, leader: int = 1, isr: Sequence[int] = (1, 2)) -> UpdateMetadataPartitionState:
    return UpdateMetadataPartitionState(
        partition_index=index, leader=leader, leader_epoch=3, isr=list(isr), replicas=[1, 2],
        zk_version=4, controller_epoch=5, offline_replicas=[2],
    )  # fmt: skip


def request(
    *topics: tuple[str, bytes, list[UpdateMetadataPartitionState]],
    brokers: Sequence[int] = (1, 2),
    controller: int = 1,
) -> UpdateMetadataRequest:
    return UpdateMetadataRequest(
        controller_id=controller,
        topic_states=[
            UpdateMetadataTopicState(topic_name=name, topic_id=topic_id, partition_states=states)
            for name, topic_id, states in topics
        ],
        live_brokers=[
            UpdateMetadataBroker(
                id=b,
                rack=f"r{b}",
                endpoints=[
                    UpdateMetadataEndpoint(
                        port=9000 + b, host="h", listener="L", security_protocol=3
                    )
                ],
            )
            for b in brokers
        ],
    )


def test_topics_and_brokers() -> None:
    cache = MetadataCache(1, "cluster")
    change = cache.update(request(("t", ID_A, [state(0), state(1, leader=-1)])))
    assert change.changed_topics == {"t"}
    assert cache.contains("t")
    assert not cache.contains("u")
    assert (cache.topic_id("t"), cache.topic_name(ID_A)) == (ID_A, "t")
    assert (cache.topic_id("u"), cache.topic_name(ID_B)) == (ZERO_UUID, None)
    found = cache.partition_state("t", 0)
    assert found is not None
    assert (found.leader, found.leader_epoch, found.isr) == (1, 3, (1, 2))
    assert (found.zk_version, found.controller_epoch, found.offline_replicas) == (4, 5, (2,))
    assert cache.partition_state("t", 2) is cache.partition_state("u", 0) is None
    assert cache.partition_count("t") == 2
    assert cache.partition_count("u") is None
    assert cache.has_leaders("t", range(1))
    assert not cache.has_leaders("t", range(2))
    assert cache.broker_endpoint(2, "L") == Endpoint("L", "SASL_SSL", "h", 9002)
    assert cache.broker_endpoint(2, "X") is cache.broker_endpoint(3, "L") is None
    first = cache.broker(1)
    assert first is not None
    assert first.rack == "r1"
    assert cache.controller_id == 1


def test_brokers_are_replaced_and_topics_merged() -> None:
    cache = MetadataCache()
    cache.update(request(("t", ID_A, [state(0)])))
    cache.update(request(("t", ID_A, [state(1)]), brokers=[2], controller=2))
    assert set(cache.partitions("t")) == {0, 1}
    assert set(cache.alive_brokers()) == {2}
    assert cache.controller_id == 2
    assert cache.version == 2


def test_leader_minus_two_removes() -> None:
    cache = MetadataCache()
    cache.update(request(("t", ID_A, [state(0), state(1)])))
    change = cache.update(request(("t", ID_A, [state(0, leader=-2)])))
    assert change.deleted_partitions == [("t", 0)]
    assert change.deleted_topics == set()
    assert cache.contains("t")
    change = cache.update(request(("t", ID_A, [state(1, leader=-2), state(7, leader=-2)])))
    assert change.deleted_topics == {"t"}
    assert change.deleted_partitions == [("t", 1)]
    assert not cache.contains("t")
    assert cache.topic_name(ID_A) is None


def test_a_recreated_topic_has_another_id() -> None:
    cache = MetadataCache()
    cache.update(request(("t", ID_A, [state(0)])))
    cache.update(request(("t", ID_B, [state(0)])))
    assert (cache.topic_id("t"), cache.topic_name(ID_A), cache.topic_name(ID_B)) == (
        ID_B,
        None,
        "t",
    )


def test_old_versions() -> None:
    ungrouped = state(0)
    ungrouped.topic_name = "t"
    old = UpdateMetadataRequest(
        controller_id=1,
        ungrouped_partition_states=[ungrouped],
        live_brokers=[
            UpdateMetadataBroker(
                id=1,
                v0_host="h0",
                v0_port=1,
                endpoints=[UpdateMetadataEndpoint(port=2, host="h1", security_protocol=1)],
            )
        ],
    )
    for version, expected in (
        (0, Endpoint("PLAINTEXT", "PLAINTEXT", "h0", 1)),
        (2, Endpoint("SSL", "SSL", "h1", 2)),
    ):
        cache = MetadataCache()
        cache.update(decode(UpdateMetadataRequest, version, encode(old, version)))
        found = cache.partition_state("t", 0)
        assert found is not None
        assert found.leader == 1
        assert cache.topic_id("t") == ZERO_UUID
        first = cache.broker(1)
        assert first is not None
        assert list(first.endpoints.values()) == [expected]
