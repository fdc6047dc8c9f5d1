"""The effects of `inter.broker.protocol.version` on requests between brokers and on ZooKeeper.

Job: one row per effect, each with the first version that has it; `protocol_of` reads the rows for
the configured version. During an upgrade a cluster keeps its old version until all brokers are new,
so that old brokers understand every request.

Below FLOOR (2.6) requests keep the versions of 2.6: brokers of older releases cannot be members
beside this one (`broker.config.checks` says so at a start). Data other than requests follows lower
versions, too: the nodes in ZooKeeper, and the format of logs (`storage.message_format`).

Rules: SEMANTICS 13.
Mirrors: MetadataVersion, and the versions in ControllerBrokerRequestBatch, RemoteLeaderEndPoint,
AlterPartitionManager, BrokerInfo and FeatureZNode. Leaves out the effect of older versions on
groups: versions of offsets' records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from ..storage.message_format import Version, parse_version

NEWEST_VERSION = "3.9-IV0"
FLOOR = "2.6"

T = TypeVar("T")
Rows = Sequence[tuple[str, T]]  # the first version that has it; the newest row first

_LEADER_AND_ISR: Rows[int] = (("3.4-IV0", 7), ("3.2-IV0", 6), ("2.8-IV1", 5))
_UPDATE_METADATA: Rows[int] = (("3.4-IV0", 8), ("2.8-IV1", 7))
_STOP_REPLICA: Rows[int] = (("3.4-IV0", 4),)
# Kafka asks the controller for its versions; these are the versions of a controller of that
# release.
_ALTER_PARTITION: Rows[int] = (("3.5-IV0", 3), ("3.3-IV0", 2), ("3.2-IV0", 1))
_FETCH: Rows[int] = (
    ("3.9-IV0", 17), ("3.7-IV4", 16), ("3.5-IV1", 15), ("3.5-IV0", 14), ("3.1-IV0", 13),
    ("2.7-IV1", 12),
)  # fmt: skip
_LIST_OFFSETS: Rows[int] = (("3.9-IV0", 9), ("3.5-IV0", 8), ("3.0-IV1", 7), ("2.8-IV0", 6))
_OFFSET_FOR_LEADER_EPOCH: Rows[int] = (("2.8-IV0", 4),)
_WRITE_TXN_MARKERS: Rows[int] = (("2.8-IV0", 1),)
_BROKER_NODE: Rows[int] = (("2.7-IV0", 5), ("0.10.0-IV1", 4))
_FEATURE_NODE: Rows[int] = (("3.3-IV0", 2),)


@dataclass(frozen=True, slots=True)
class InterBrokerProtocol:
    """Versions of requests between brokers and of nodes in ZooKeeper, and the existing features."""

    leader_and_isr: int
    update_metadata: int
    stop_replica: int
    alter_partition: int
    fetch: int
    list_offsets: int
    offset_for_leader_epoch: int
    write_txn_markers: int
    broker_node: int
    feature_node: int
    # Topics have ids (KIP-516).
    has_topic_ids: bool
    # /feature is enabled, and brokers register what they support (KIP-584).
    has_features: bool
    # Leaders ask the controller for another ISR (KIP-497); before that they write it themselves.
    has_alter_partition: bool
    # A fetch finds out where logs diverge (KIP-595).
    truncates_on_fetch: bool
    # Brokers ask the controller for producer ids (KIP-730); before that they take them themselves.
    has_producer_id_requests: bool
    # An unclean leader says that it recovers (KIP-704).
    has_leader_recovery: bool
    # Groups have static members (KIP-345).
    has_static_members: bool


def protocol_of(text: str | None) -> InterBrokerProtocol:
    """The protocol of a value of `inter.broker.protocol.version`; None is the default. KafkaError
    (INVALID_CONFIG) if it is no version."""
    version = parse_version(text or NEWEST_VERSION)

    def at_least(since: str) -> bool:
        return version >= parse_version(since)

    return InterBrokerProtocol(
        leader_and_isr=_row(_LEADER_AND_ISR, version, 4),
        update_metadata=_row(_UPDATE_METADATA, version, 6),
        stop_replica=_row(_STOP_REPLICA, version, 3),
        alter_partition=_row(_ALTER_PARTITION, version, 0),
        fetch=_row(_FETCH, version, 11),
        list_offsets=_row(_LIST_OFFSETS, version, 5),
        offset_for_leader_epoch=_row(_OFFSET_FOR_LEADER_EPOCH, version, 3),
        write_txn_markers=_row(_WRITE_TXN_MARKERS, version, 0),
        broker_node=_row(_BROKER_NODE, version, 2),
        feature_node=_row(_FEATURE_NODE, version, 1),
        has_topic_ids=at_least("2.8-IV0"),
        has_features=at_least("2.7-IV0"),
        has_alter_partition=at_least("2.7-IV2"),
        truncates_on_fetch=at_least("2.7-IV1"),
        has_producer_id_requests=at_least("3.0-IV0"),
        has_leader_recovery=at_least("3.2-IV0"),
        has_static_members=at_least("2.3-IV0"),
    )


def _row(rows: Rows[T], version: Version, otherwise: T) -> T:
    return next((value for since, value in rows if version >= parse_version(since)), otherwise)


NEWEST = protocol_of(None)
