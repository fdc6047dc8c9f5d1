"""Payloads of znodes, byte for byte as Apache Kafka 3.9 writes them, and read leniently."""

import pytest

from pybroker_kafka.protocol.uuids import uuid_from_text
from pybroker_kafka.replication.controller import znodes
from pybroker_kafka.replication.controller.znodes import (
    BrokerRegistration,
    LeaderAndIsr,
    MalformedZnode,
    ReplicaAssignment,
    TopicAssignment,
)
from pybroker_kafka.replication.metadata_cache import Endpoint

TOPIC_ID_TEXT = "YIBXpUjFTr-TQX8ZcVvHbA"
TOPIC_ID = uuid_from_text(TOPIC_ID_TEXT)


def test_broker_v5_with_two_listeners_and_rack() -> None:
    registration = BrokerRegistration(
        1,
        (
            Endpoint("PLAINTEXT", "PLAINTEXT", "h1", 9092),
            Endpoint("SECURE", "SASL_SSL", "::1", 9093),
        ),
        rack="r1",
        epoch=77,
    )
    data = znodes.encode_broker(registration, 1_730_000_000_000)
    assert data == (
        b'{"version":5,"host":"h1","port":9092,"jmx_port":-1,"timestamp":"1730000000000",'
        b'"endpoints":["PLAINTEXT://h1:9092","SECURE://[::1]:9093"],'
        b'"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT","SECURE":"SASL_SSL"},'
        b'"features":{},"rack":"r1"}'
    )
    assert znodes.decode_broker(1, data, 77) == registration


def test_broker_without_plaintext_listener_has_no_host() -> None:
    registration = BrokerRegistration(1, (Endpoint("S", "SSL", "h", 1),))
    assert b'"host":null,"port":-1' in znodes.encode_broker(registration, 0)


def test_older_broker_versions() -> None:
    v1 = b'{"version":1,"host":"h","port":9092,"jmx_port":-1,"timestamp":"1"}'
    v2 = (
        b'{"version":2,"host":"h","port":9092,"jmx_port":-1,"timestamp":"1",'
        b'"endpoints":["SSL://h:9093"]}'
    )
    plain = Endpoint("PLAINTEXT", "PLAINTEXT", "h", 9092)
    assert znodes.decode_broker(3, v1, 5) == BrokerRegistration(3, (plain,), epoch=5)
    assert znodes.decode_broker(3, v2, 5).endpoints == (Endpoint("SSL", "SSL", "h", 9093),)


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"[]",
        b"{",
        b"\xff",
        b'{"version":0}',
        b'{"version":5}',
        b'{"version":5,"endpoints":["no endpoint"]}',
        b'{"version":5,"endpoints":[7]}',
        b'{"version":{},"endpoints":[]}',
    ],
)
def test_malformed_broker(data: bytes | None) -> None:
    with pytest.raises(MalformedZnode):
        znodes.decode_broker(1, data, 0)


def test_topic_assignment() -> None:
    assignment = TopicAssignment(
        TOPIC_ID,
        {
            1: ReplicaAssignment((2, 3, 1)),
            0: ReplicaAssignment((1, 2, 3, 4), adding=(3,), removing=(4,)),
        },
    )
    data = znodes.encode_topic(assignment)
    assert data == (
        b'{"version":3,"partitions":{"0":[1,2,3,4],"1":[2,3,1]},"adding_replicas":{"0":[3]},'
        b'"removing_replicas":{"0":[4]},"topic_id":"' + TOPIC_ID_TEXT.encode() + b'"}'
    )
    assert znodes.decode_topic("t", data) == assignment
    moving = assignment.partitions[0]
    assert moving.origin_replicas == (1, 2, 4)
    assert moving.target_replicas == (1, 2, 3)
    assert moving.without(3) == ReplicaAssignment((1, 2, 4), (), (4,))


def test_topic_assignment_of_old_versions() -> None:
    decoded = znodes.decode_topic("t", b'{"version":1,"partitions":{"0":[1]}}')
    assert decoded == TopicAssignment(None, {0: ReplicaAssignment((1,))})
    for bad in (b'{"version":3}', b'{"partitions":{"x":[1]}}', b'{"partitions":[1]}'):
        with pytest.raises(MalformedZnode):
            znodes.decode_topic("t", bad)


def test_partitions_that_differ_in_what_moves_only() -> None:
    """Equal ones are one object; those with the same replicas need not be equal."""
    data = (
        b'{"version":3,"partitions":{"0":[1,2],"1":[1,2],"2":[1,2],"3":[1,2],"4":[2,1]},'
        b'"adding_replicas":{"1":[2]},"removing_replicas":{"2":[2]}}'
    )
    decoded = znodes.decode_topic("t", data).partitions
    assert decoded == {
        0: ReplicaAssignment((1, 2)),
        1: ReplicaAssignment((1, 2), adding=(2,)),
        2: ReplicaAssignment((1, 2), removing=(2,)),
        3: ReplicaAssignment((1, 2)),
        4: ReplicaAssignment((2, 1)),
    }
    assert decoded[0] is decoded[3]


def test_partition_state() -> None:
    state = LeaderAndIsr(1, 5, (1, 2), partition_epoch=9, controller_epoch=3)
    data = znodes.encode_partition_state(state)
    assert data == b'{"version":1,"leader":1,"leader_epoch":5,"controller_epoch":3,"isr":[1,2]}'
    assert znodes.decode_partition_state(data, 9) == state
    recovering = LeaderAndIsr(1, 5, (1,), 9, 3, znodes.RECOVERING)
    data = znodes.encode_partition_state(recovering)
    assert data.endswith(b',"leader_recovery_state":1}')
    assert znodes.decode_partition_state(data, 9) == recovering


def test_controller_cluster_and_producer_ids() -> None:
    controller = znodes.encode_controller(1, 1_730_000_000_000)
    assert controller == (
        b'{"version":2,"brokerid":1,"timestamp":"1730000000000","kraftControllerEpoch":-1}'
    )
    assert znodes.decode_controller(b'{"version":1,"brokerid":7,"timestamp":"1"}') == 7
    assert not znodes.is_kraft_controller(controller)
    assert znodes.is_kraft_controller(b'{"brokerid":1,"kraftControllerEpoch":4}')
    assert znodes.encode_cluster_id("abc") == b'{"version":"1","id":"abc"}'
    block = znodes.encode_producer_id_block(1, 0)
    assert block == b'{"version":1,"broker":1,"block_start":"0","block_end":"999"}'
    assert znodes.decode_producer_id_block_end(block) == 999
    assert znodes.decode_controller_epoch(b"7") == 7


def test_features() -> None:
    assert znodes.encode_features({}) == b'{"version":2,"status":1,"features":{}}'
    enabled = b'{"version":2,"status":1,"features":{"f":{"max_version_level":3}}}'
    assert znodes.decode_features(enabled) == {"f": 3}
    assert znodes.decode_features(enabled.replace(b'"status":1', b'"status":0')) == {}
    assert znodes.is_feature_node(enabled, 2, enabled=True)
    assert not znodes.is_feature_node(b'{"version":1,"status":1,"features":{}}', 2, enabled=True)


def test_configs_and_notifications() -> None:
    assert znodes.encode_config({"a": "1"}) == b'{"version":1,"config":{"a":"1"}}'
    assert znodes.decode_config(None) == znodes.decode_config(b'{"version":1}') == {}
    change = znodes.encode_config_change("topics/t")
    assert change == b'{"version":2,"entity_path":"topics/t"}'
    assert znodes.decode_config_change(change) == "topics/t"
    old = b'{"version":1,"entity_type":"clients","entity_name":"x"}'
    assert znodes.decode_config_change(old) == "clients/x"
    assert znodes.decode_config_change(b"not json") is None
    event = znodes.encode_log_dir_event(2)
    assert event == b'{"version":1,"broker":2,"event":1}'
    assert znodes.decode_log_dir_event(event) == 2
    isr = b'{"version":1,"partitions":[{"topic":"t","partition":0}]}'
    assert znodes.decode_partition_list(isr, "x") == [("t", 0)]
    assert znodes.sequence_number("config_change_0000000012") == 12
    assert znodes.sequence_number("strange") == -1
