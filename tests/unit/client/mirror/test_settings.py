"""`mirror.properties` as MirrorMaker 2 reads it, and what is told of keys that are not known."""

from __future__ import annotations

import javaproperties
import pytest

from pybroker_kafka.client.errors import SettingsError
from pybroker_kafka.client.mirror.policies import IdentityPolicy
from pybroker_kafka.client.mirror.settings import NEVER, FlowSettings, read_settings
from tests.support.page_blocks import blocks
from tests.support.processes import ROOT

BASE = {
    "clusters": "A, B",
    "A.bootstrap.servers": "a:9092",
    "B.bootstrap.servers": "b:9092",
    "A->B.enabled": "true",
}


def read(more: dict[str, str]) -> dict[str, FlowSettings]:
    return {flow.name: flow for flow in read_settings(BASE | more).flows}


def test_defaults_are_those_of_mirror_maker() -> None:
    flows = read({})
    flow = flows["A->B"]
    assert flow.copies
    assert not flows["B->A"].copies  # it emits heartbeats, which come back by A->B
    assert flow.replication_factor == 2
    assert flow.refresh_topics == flow.refresh_groups == flow.sync_configs == flow.sync_acls == 600
    assert (flow.sync_groups, flow.heartbeats, flow.checkpoints) == (NEVER, 1, 60)
    assert flow.max_offset_lag == 100
    assert flow.syncs_topic == "mm2-offset-syncs.B.internal"
    assert flow.positions_topic == "mm2-offsets.A.internal"
    assert not flow.is_exactly_once
    assert not flow.reads_committed
    for topic in ("orders", "heartbeats", "B.orders", "orders.replica", "__x", "x.internal"):
        assert flow.wants(topic) is (topic in ("orders", "heartbeats")), topic
    assert flow.remote("orders") == "A.orders"


def test_the_file_of_the_page() -> None:
    (block,) = (b for b in blocks(ROOT / "docs" / "MIRROR.md") if b.language == "properties")
    flows = {flow.name: flow for flow in read_settings(javaproperties.loads(block.text)).flows}
    assert [flows["A->B"].wants(topic) for topic in ("orders.de", "payments", "x")] == [
        True, True, False,
    ]  # fmt: skip
    assert flows["A->B"].sync_groups == 60


def test_a_flow_comes_before_all() -> None:
    flows = read(
        {
            "topics": "x",
            "A->B.topics": "a.*, b",
            "topics.blacklist": "a-no",
            "B->A.enabled": "true",
            "B->A.replication.policy.class": "org.apache.kafka.connect.mirror."
            "IdentityReplicationPolicy",
            "B.exactly.once.source.support": "enabled",
            "offset-syncs.topic.location": "target",
            "sync.group.offsets.enabled": "true",
        }
    )
    there, back = flows["A->B"], flows["B->A"]
    assert [there.wants(topic) for topic in ("a1", "b", "x", "a-no")] == [True, True, False, False]
    assert [back.wants(topic) for topic in ("a1", "x")] == [False, True]
    assert isinstance(back.policy, IdentityPolicy)
    assert back.remote("x") == "x"
    assert there.is_exactly_once
    assert there.reads_committed
    assert not back.is_exactly_once
    assert there.syncs_topic == "mm2-offset-syncs.A.internal"
    assert there.sync_groups == 60


def test_clients_of_a_cluster() -> None:
    flow = read(
        {
            "security.protocol": "SSL",
            "ssl.truststore.location": "all",
            "A.ssl.truststore.location": "of A",
            "A.consumer.ssl.truststore.location": "of A's consumers",
            "A.consumer.isolation.level": "read_committed",
            "B.producer.compression.type": "zstd",
            "A->B.producer.compression.type": "lz4",
            "A->B.target.producer.acks": "1",
        }
    )["A->B"]
    assert flow.source.login["consumer"] == {
        "security.protocol": "SSL",
        "ssl.truststore.location": "of A's consumers",
    }
    assert flow.source.login["admin"]["ssl.truststore.location"] == "of A"
    assert flow.target.login["producer"]["ssl.truststore.location"] == "all"
    assert flow.reads_committed
    assert flow.producer["compression.type"] == "lz4"
    assert flow.producer["acks"] == "1"


@pytest.mark.parametrize(
    ("more", "word"),
    [
        ({"A->B.topic": "x"}, "A->B.topic: no such key; is it topics?"),
        ({"sync.topic.config.enabled": "true"}, "is it sync.topic.configs.enabled?"),
        ({"A->C.enabled": "true"}, "no flow between the clusters A, B"),
        ({"consumer.isolation.level": "read_committed"}, "`A.consumer.isolation.level = "),
        ({"A->B.enabled": "yes"}, "enabled=yes is neither true nor false"),
        ({"offset.lag.max": "many"}, "offset.lag.max=many is no number"),
        ({"topics": "("}, "is no regular expression"),
        ({"A->B.enabled": "false"}, "no flow is enabled"),
        ({"B.bootstrap.servers": ""}, "say where cluster B is"),
        ({"clusters": ""}, "name the clusters"),
        ({"topic.filter.class": "com.example.Mine"}, "Java classes cannot be used"),
        ({"replication.policy.class": "com.example.Mine"}, "known are DefaultReplicationPolicy"),
        ({"offset-syncs.topic.location": "both"}, "not one of source, target"),
    ],
)
def test_what_cannot_be_is_told(more: dict[str, str], word: str) -> None:
    with pytest.raises(SettingsError) as told:
        read(more)
    assert word in str(told.value)


def test_what_has_no_effect_is_told() -> None:
    notes = read_settings(
        BASE | {"tasks.max": "4", "A.consumer.fetch.max.byte": "1", "status.storage.topic": "x"}
    ).notes
    assert notes == (
        "tasks.max has no effect here",
        "A.consumer.fetch.max.byte has no effect here; is it fetch.max.bytes?",
        "status.storage.topic has no effect here",
    )


def test_only_some_targets() -> None:
    both = BASE | {"B->A.enabled": "true"}
    assert [flow.name for flow in read_settings(both, targets=["A"]).flows] == ["B->A"]
    with pytest.raises(SettingsError, match="not one of the clusters"):
        read_settings(both, targets=["C"])
