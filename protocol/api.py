"""The APIs that 3.9 serves in ZooKeeper mode, and where their messages are.

Job: `ApiKey`, and `API_TABLE` with the versions of each API; `request_class` and `response_class`
import the area's module on first use, so that a process pays only for what it speaks.
Invariants: this table and the messages' own specs agree (a test compares them).
Mirrors: org.apache.kafka.common.protocol.ApiKeys, for the listener type zkBroker.
Leaves out: the APIs of KRaft (52-55, 59, 62-64, 70-75), telemetry and share groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from importlib import import_module
from types import MappingProxyType
from typing import Final, NamedTuple

from .schema import Message


class ApiKey(IntEnum):
    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69


class ApiSpec(NamedTuple):
    """One API: its versions, the first one in flexible form, and the module of its messages.

    `inter_broker` needs the ClusterAction permission; `forwardable` may come inside an Envelope.
    """

    key: ApiKey
    name: str
    min_version: int
    max_version: int
    first_flexible: int | None
    area: str
    inter_broker: bool = False
    forwardable: bool = False

    def is_flexible(self, version: int) -> bool:
        return self.first_flexible is not None and version >= self.first_flexible

    def supports(self, version: int) -> bool:
        return self.min_version <= version <= self.max_version


_SPECS: Final = (
    ApiSpec(ApiKey.PRODUCE, "Produce", 0, 11, 9, "produce"),
    ApiSpec(ApiKey.FETCH, "Fetch", 0, 17, 12, "fetch"),
    ApiSpec(ApiKey.LIST_OFFSETS, "ListOffsets", 0, 9, 6, "offsets"),
    ApiSpec(ApiKey.METADATA, "Metadata", 0, 12, 9, "metadata"),
    ApiSpec(ApiKey.LEADER_AND_ISR, "LeaderAndIsr", 0, 7, 4, "replication", inter_broker=True),
    ApiSpec(ApiKey.STOP_REPLICA, "StopReplica", 0, 4, 2, "replication", inter_broker=True),
    ApiSpec(ApiKey.UPDATE_METADATA, "UpdateMetadata", 0, 8, 6, "replication", inter_broker=True),
    ApiSpec(
        ApiKey.CONTROLLED_SHUTDOWN, "ControlledShutdown", 0, 3, 3, "cluster", inter_broker=True
    ),
    ApiSpec(ApiKey.OFFSET_COMMIT, "OffsetCommit", 0, 9, 8, "group_offsets"),
    ApiSpec(ApiKey.OFFSET_FETCH, "OffsetFetch", 0, 9, 6, "group_offsets"),
    ApiSpec(ApiKey.FIND_COORDINATOR, "FindCoordinator", 0, 6, 3, "groups"),
    ApiSpec(ApiKey.JOIN_GROUP, "JoinGroup", 0, 9, 6, "groups"),
    ApiSpec(ApiKey.HEARTBEAT, "Heartbeat", 0, 4, 4, "groups"),
    ApiSpec(ApiKey.LEAVE_GROUP, "LeaveGroup", 0, 5, 4, "groups"),
    ApiSpec(ApiKey.SYNC_GROUP, "SyncGroup", 0, 5, 4, "groups"),
    ApiSpec(ApiKey.DESCRIBE_GROUPS, "DescribeGroups", 0, 5, 5, "group_admin"),
    ApiSpec(ApiKey.LIST_GROUPS, "ListGroups", 0, 5, 3, "group_admin"),
    ApiSpec(ApiKey.SASL_HANDSHAKE, "SaslHandshake", 0, 1, None, "security"),
    ApiSpec(ApiKey.API_VERSIONS, "ApiVersions", 0, 4, 3, "metadata"),
    ApiSpec(ApiKey.CREATE_TOPICS, "CreateTopics", 0, 7, 5, "topics", forwardable=True),
    ApiSpec(ApiKey.DELETE_TOPICS, "DeleteTopics", 0, 6, 4, "topics", forwardable=True),
    ApiSpec(ApiKey.DELETE_RECORDS, "DeleteRecords", 0, 2, 2, "offsets"),
    ApiSpec(ApiKey.INIT_PRODUCER_ID, "InitProducerId", 0, 5, 2, "transactions"),
    ApiSpec(ApiKey.OFFSET_FOR_LEADER_EPOCH, "OffsetForLeaderEpoch", 0, 4, 4, "offsets"),
    ApiSpec(ApiKey.ADD_PARTITIONS_TO_TXN, "AddPartitionsToTxn", 0, 5, 3, "transactions"),
    ApiSpec(ApiKey.ADD_OFFSETS_TO_TXN, "AddOffsetsToTxn", 0, 4, 3, "transactions"),
    ApiSpec(ApiKey.END_TXN, "EndTxn", 0, 4, 3, "transactions"),
    ApiSpec(ApiKey.WRITE_TXN_MARKERS, "WriteTxnMarkers", 0, 1, 1, "transactions"),
    ApiSpec(ApiKey.TXN_OFFSET_COMMIT, "TxnOffsetCommit", 0, 4, 3, "transactions"),
    ApiSpec(ApiKey.DESCRIBE_ACLS, "DescribeAcls", 0, 3, 2, "security"),
    ApiSpec(ApiKey.CREATE_ACLS, "CreateAcls", 0, 3, 2, "security", forwardable=True),
    ApiSpec(ApiKey.DELETE_ACLS, "DeleteAcls", 0, 3, 2, "security", forwardable=True),
    ApiSpec(ApiKey.DESCRIBE_CONFIGS, "DescribeConfigs", 0, 4, 4, "configs"),
    ApiSpec(ApiKey.ALTER_CONFIGS, "AlterConfigs", 0, 2, 2, "configs", forwardable=True),
    ApiSpec(ApiKey.ALTER_REPLICA_LOG_DIRS, "AlterReplicaLogDirs", 0, 2, 2, "log_dirs"),
    ApiSpec(ApiKey.DESCRIBE_LOG_DIRS, "DescribeLogDirs", 0, 4, 2, "log_dirs"),
    ApiSpec(ApiKey.SASL_AUTHENTICATE, "SaslAuthenticate", 0, 2, 2, "security"),
    ApiSpec(ApiKey.CREATE_PARTITIONS, "CreatePartitions", 0, 3, 2, "topics", forwardable=True),
    ApiSpec(
        ApiKey.CREATE_DELEGATION_TOKEN,
        "CreateDelegationToken",
        0,
        3,
        2,
        "credentials",
        forwardable=True,
    ),
    ApiSpec(
        ApiKey.RENEW_DELEGATION_TOKEN,
        "RenewDelegationToken",
        0,
        2,
        2,
        "credentials",
        forwardable=True,
    ),
    ApiSpec(
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        "ExpireDelegationToken",
        0,
        2,
        2,
        "credentials",
        forwardable=True,
    ),
    ApiSpec(ApiKey.DESCRIBE_DELEGATION_TOKEN, "DescribeDelegationToken", 0, 3, 2, "credentials"),
    ApiSpec(ApiKey.DELETE_GROUPS, "DeleteGroups", 0, 2, 2, "group_admin"),
    ApiSpec(ApiKey.ELECT_LEADERS, "ElectLeaders", 0, 2, 2, "reassignments", forwardable=True),
    ApiSpec(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        "IncrementalAlterConfigs",
        0,
        1,
        1,
        "configs",
        forwardable=True,
    ),
    ApiSpec(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        "AlterPartitionReassignments",
        0,
        0,
        0,
        "reassignments",
        forwardable=True,
    ),
    ApiSpec(
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        "ListPartitionReassignments",
        0,
        0,
        0,
        "reassignments",
        forwardable=True,
    ),
    ApiSpec(ApiKey.OFFSET_DELETE, "OffsetDelete", 0, 0, None, "group_offsets"),
    ApiSpec(ApiKey.DESCRIBE_CLIENT_QUOTAS, "DescribeClientQuotas", 0, 1, 1, "quotas"),
    ApiSpec(ApiKey.ALTER_CLIENT_QUOTAS, "AlterClientQuotas", 0, 1, 1, "quotas", forwardable=True),
    ApiSpec(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        "DescribeUserScramCredentials",
        0,
        0,
        0,
        "credentials",
    ),
    ApiSpec(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        "AlterUserScramCredentials",
        0,
        0,
        0,
        "credentials",
        forwardable=True,
    ),
    ApiSpec(ApiKey.ALTER_PARTITION, "AlterPartition", 0, 3, 0, "cluster", inter_broker=True),
    ApiSpec(ApiKey.UPDATE_FEATURES, "UpdateFeatures", 0, 1, 0, "cluster", forwardable=True),
    ApiSpec(ApiKey.ENVELOPE, "Envelope", 0, 0, 0, "cluster", inter_broker=True),
    ApiSpec(ApiKey.DESCRIBE_CLUSTER, "DescribeCluster", 0, 1, 0, "metadata"),
    ApiSpec(ApiKey.DESCRIBE_PRODUCERS, "DescribeProducers", 0, 0, 0, "transaction_admin"),
    ApiSpec(ApiKey.DESCRIBE_TRANSACTIONS, "DescribeTransactions", 0, 0, 0, "transaction_admin"),
    ApiSpec(ApiKey.LIST_TRANSACTIONS, "ListTransactions", 0, 1, 0, "transaction_admin"),
    ApiSpec(
        ApiKey.ALLOCATE_PRODUCER_IDS,
        "AllocateProducerIds",
        0,
        0,
        0,
        "cluster",
        inter_broker=True,
        forwardable=True,
    ),
    ApiSpec(ApiKey.CONSUMER_GROUP_HEARTBEAT, "ConsumerGroupHeartbeat", 0, 0, 0, "consumer_groups"),
    ApiSpec(ApiKey.CONSUMER_GROUP_DESCRIBE, "ConsumerGroupDescribe", 0, 0, 0, "consumer_groups"),
)

API_TABLE: Final[Mapping[ApiKey, ApiSpec]] = MappingProxyType({spec.key: spec for spec in _SPECS})

_classes: dict[tuple[int, str], type[Message]] = {}


def _message_class(key: int, suffix: str) -> type[Message]:
    try:
        return _classes[key, suffix]
    except KeyError:
        spec = API_TABLE[ApiKey(key)]
        module = import_module(f".messages.{spec.area}", __package__)
        found: type[Message] = getattr(module, spec.name + suffix)
        return _classes.setdefault((key, suffix), found)


def request_class(key: int) -> type[Message]:
    return _message_class(key, "Request")


def response_class(key: int) -> type[Message]:
    return _message_class(key, "Response")
