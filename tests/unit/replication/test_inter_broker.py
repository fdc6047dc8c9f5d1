"""What each `inter.broker.protocol.version` means for requests and nodes."""

from __future__ import annotations

import pytest

from pybroker_kafka.protocol.api import API_TABLE, ApiKey
from pybroker_kafka.protocol.errors import KafkaError
from pybroker_kafka.replication.inter_broker import NEWEST, InterBrokerProtocol, protocol_of


def versions(protocol: InterBrokerProtocol) -> tuple[int, ...]:
    return (
        protocol.leader_and_isr, protocol.update_metadata, protocol.stop_replica,
        protocol.alter_partition, protocol.fetch, protocol.list_offsets,
        protocol.offset_for_leader_epoch, protocol.write_txn_markers,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3.9", (7, 8, 4, 3, 17, 9, 4, 1)),
        ("3.8", (7, 8, 4, 3, 16, 8, 4, 1)),
        ("3.6", (7, 8, 4, 3, 15, 8, 4, 1)),
        ("3.5-IV0", (7, 8, 4, 3, 14, 8, 4, 1)),
        ("3.4", (7, 8, 4, 2, 13, 7, 4, 1)),
        ("3.2", (6, 7, 3, 1, 13, 7, 4, 1)),
        ("3.0", (5, 7, 3, 0, 12, 7, 4, 1)),
        ("2.8", (5, 7, 3, 0, 12, 6, 4, 1)),
        ("2.8-IV0", (4, 6, 3, 0, 12, 6, 4, 1)),
        ("2.7", (4, 6, 3, 0, 12, 5, 3, 0)),
        ("2.6", (4, 6, 3, 0, 11, 5, 3, 0)),
        ("0.10.2", (4, 6, 3, 0, 11, 5, 3, 0)),
    ],
)
def test_versions_of_requests(text: str, expected: tuple[int, ...]) -> None:
    assert versions(protocol_of(text)) == expected


def test_the_newest_are_the_newest_there_are() -> None:
    keys = (
        ApiKey.LEADER_AND_ISR, ApiKey.UPDATE_METADATA, ApiKey.STOP_REPLICA, ApiKey.ALTER_PARTITION,
        ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.WRITE_TXN_MARKERS,
    )  # fmt: skip
    assert versions(NEWEST) == tuple(API_TABLE[key].highest() for key in keys)
    assert protocol_of(None) == NEWEST


def test_what_there_is() -> None:
    names = ("has_static_members", "has_features", "truncates_on_fetch", "has_alter_partition",
             "has_topic_ids", "has_producer_id_requests", "has_leader_recovery")  # fmt: skip
    first = ("2.3-IV0", "2.7-IV0", "2.7-IV1", "2.7-IV2", "2.8-IV0", "3.0-IV0", "3.2-IV0")
    for place, text in enumerate(first, start=1):
        protocol = protocol_of(text)
        assert [getattr(protocol, name) for name in names] == [
            number < place for number in range(len(names))
        ]


@pytest.mark.parametrize(
    ("text", "broker", "feature"),
    [("0.9.0", 2, 1), ("0.10.0", 4, 1), ("2.6", 4, 1), ("2.7", 5, 1), ("3.3", 5, 2)],
)
def test_versions_of_nodes(text: str, broker: int, feature: int) -> None:
    protocol = protocol_of(text)
    assert (protocol.broker_node, protocol.feature_node) == (broker, feature)


def test_what_is_no_version() -> None:
    with pytest.raises(KafkaError, match="not a valid version"):
        protocol_of("2.9")
