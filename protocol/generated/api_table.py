"""Of the pages in `apis/`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


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
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92


# The name, the first and the last version, the first in flexible form, and the first
# that Kafka 3.9 does not have, with the feature that brings it (None: any feature).
Row = tuple[ApiKey, str, int, int, int | None, int | None, str | None]
VERSIONS: Final[tuple[Row, ...]] = (
    (ApiKey.PRODUCE, "Produce", 0, 13, 9, 12, None),
    (ApiKey.FETCH, "Fetch", 0, 18, 12, 18, None),
    (ApiKey.LIST_OFFSETS, "ListOffsets", 0, 11, 6, 10, None),
    (ApiKey.METADATA, "Metadata", 0, 13, 9, 13, None),
    (ApiKey.LEADER_AND_ISR, "LeaderAndIsr", 0, 7, 4, None, None),
    (ApiKey.STOP_REPLICA, "StopReplica", 0, 4, 2, None, None),
    (ApiKey.UPDATE_METADATA, "UpdateMetadata", 0, 8, 6, None, None),
    (ApiKey.CONTROLLED_SHUTDOWN, "ControlledShutdown", 0, 3, 3, None, None),
    (ApiKey.OFFSET_COMMIT, "OffsetCommit", 0, 10, 8, 10, None),
    (ApiKey.OFFSET_FETCH, "OffsetFetch", 0, 10, 6, 10, None),
    (ApiKey.FIND_COORDINATOR, "FindCoordinator", 0, 6, 3, None, None),
    (ApiKey.JOIN_GROUP, "JoinGroup", 0, 9, 6, None, None),
    (ApiKey.HEARTBEAT, "Heartbeat", 0, 4, 4, None, None),
    (ApiKey.LEAVE_GROUP, "LeaveGroup", 0, 5, 4, None, None),
    (ApiKey.SYNC_GROUP, "SyncGroup", 0, 5, 4, None, None),
    (ApiKey.DESCRIBE_GROUPS, "DescribeGroups", 0, 6, 5, 6, None),
    (ApiKey.LIST_GROUPS, "ListGroups", 0, 5, 3, None, None),
    (ApiKey.SASL_HANDSHAKE, "SaslHandshake", 0, 1, None, None, None),
    (ApiKey.API_VERSIONS, "ApiVersions", 0, 4, 3, None, None),
    (ApiKey.CREATE_TOPICS, "CreateTopics", 0, 7, 5, None, None),
    (ApiKey.DELETE_TOPICS, "DeleteTopics", 0, 6, 4, None, None),
    (ApiKey.DELETE_RECORDS, "DeleteRecords", 0, 2, 2, None, None),
    (ApiKey.INIT_PRODUCER_ID, "InitProducerId", 0, 5, 2, None, None),
    (ApiKey.OFFSET_FOR_LEADER_EPOCH, "OffsetForLeaderEpoch", 0, 4, 4, None, None),
    (ApiKey.ADD_PARTITIONS_TO_TXN, "AddPartitionsToTxn", 0, 5, 3, None, None),
    (ApiKey.ADD_OFFSETS_TO_TXN, "AddOffsetsToTxn", 0, 4, 3, None, None),
    (ApiKey.END_TXN, "EndTxn", 0, 5, 3, 5, None),
    (ApiKey.WRITE_TXN_MARKERS, "WriteTxnMarkers", 0, 2, 1, 2, None),
    (ApiKey.TXN_OFFSET_COMMIT, "TxnOffsetCommit", 0, 5, 3, 5, None),
    (ApiKey.DESCRIBE_ACLS, "DescribeAcls", 0, 3, 2, None, None),
    (ApiKey.CREATE_ACLS, "CreateAcls", 0, 3, 2, None, None),
    (ApiKey.DELETE_ACLS, "DeleteAcls", 0, 3, 2, None, None),
    (ApiKey.DESCRIBE_CONFIGS, "DescribeConfigs", 0, 4, 4, None, None),
    (ApiKey.ALTER_CONFIGS, "AlterConfigs", 0, 2, 2, None, None),
    (ApiKey.ALTER_REPLICA_LOG_DIRS, "AlterReplicaLogDirs", 0, 2, 2, None, None),
    (ApiKey.DESCRIBE_LOG_DIRS, "DescribeLogDirs", 0, 5, 2, 5, None),
    (ApiKey.SASL_AUTHENTICATE, "SaslAuthenticate", 0, 2, 2, None, None),
    (ApiKey.CREATE_PARTITIONS, "CreatePartitions", 0, 3, 2, None, None),
    (ApiKey.CREATE_DELEGATION_TOKEN, "CreateDelegationToken", 0, 3, 2, None, None),
    (ApiKey.RENEW_DELEGATION_TOKEN, "RenewDelegationToken", 0, 2, 2, None, None),
    (ApiKey.EXPIRE_DELEGATION_TOKEN, "ExpireDelegationToken", 0, 2, 2, None, None),
    (ApiKey.DESCRIBE_DELEGATION_TOKEN, "DescribeDelegationToken", 0, 3, 2, None, None),
    (ApiKey.DELETE_GROUPS, "DeleteGroups", 0, 2, 2, None, None),
    (ApiKey.ELECT_LEADERS, "ElectLeaders", 0, 2, 2, None, None),
    (ApiKey.INCREMENTAL_ALTER_CONFIGS, "IncrementalAlterConfigs", 0, 1, 1, None, None),
    (ApiKey.ALTER_PARTITION_REASSIGNMENTS, "AlterPartitionReassignments", 0, 1, 0, 1, None),
    (ApiKey.LIST_PARTITION_REASSIGNMENTS, "ListPartitionReassignments", 0, 0, 0, None, None),
    (ApiKey.OFFSET_DELETE, "OffsetDelete", 0, 0, None, None, None),
    (ApiKey.DESCRIBE_CLIENT_QUOTAS, "DescribeClientQuotas", 0, 1, 1, None, None),
    (ApiKey.ALTER_CLIENT_QUOTAS, "AlterClientQuotas", 0, 1, 1, None, None),
    (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "DescribeUserScramCredentials", 0, 0, 0, None, None),
    (ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "AlterUserScramCredentials", 0, 0, 0, None, None),
    (ApiKey.ALTER_PARTITION, "AlterPartition", 0, 3, 0, None, None),
    (ApiKey.UPDATE_FEATURES, "UpdateFeatures", 0, 2, 0, 2, None),
    (ApiKey.ENVELOPE, "Envelope", 0, 0, 0, None, None),
    (ApiKey.DESCRIBE_CLUSTER, "DescribeCluster", 0, 2, 0, 2, None),
    (ApiKey.DESCRIBE_PRODUCERS, "DescribeProducers", 0, 0, 0, None, None),
    (ApiKey.DESCRIBE_TRANSACTIONS, "DescribeTransactions", 0, 0, 0, None, None),
    (ApiKey.LIST_TRANSACTIONS, "ListTransactions", 0, 2, 0, 2, None),
    (ApiKey.ALLOCATE_PRODUCER_IDS, "AllocateProducerIds", 0, 0, 0, None, None),
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, "ConsumerGroupHeartbeat", 0, 1, 0, 1, "group.version"),
    (ApiKey.CONSUMER_GROUP_DESCRIBE, "ConsumerGroupDescribe", 0, 1, 0, 1, "group.version"),
    (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, "GetTelemetrySubscriptions", 0, 0, 0, 0, None),
    (ApiKey.PUSH_TELEMETRY, "PushTelemetry", 0, 0, 0, 0, None),
    (ApiKey.LIST_CONFIG_RESOURCES, "ListConfigResources", 0, 1, 0, 0, None),
    (ApiKey.DESCRIBE_TOPIC_PARTITIONS, "DescribeTopicPartitions", 0, 0, 0, 0, None),
    (ApiKey.SHARE_GROUP_HEARTBEAT, "ShareGroupHeartbeat", 1, 1, 0, 1, "share.version"),
    (ApiKey.SHARE_GROUP_DESCRIBE, "ShareGroupDescribe", 1, 1, 0, 1, "share.version"),
    (ApiKey.SHARE_FETCH, "ShareFetch", 1, 2, 0, 1, "share.version"),
    (ApiKey.SHARE_ACKNOWLEDGE, "ShareAcknowledge", 1, 2, 0, 1, "share.version"),
    (ApiKey.INITIALIZE_SHARE_GROUP_STATE, "InitializeShareGroupState", 0, 0, 0, 0, "share.version"),
    (ApiKey.READ_SHARE_GROUP_STATE, "ReadShareGroupState", 0, 0, 0, 0, "share.version"),
    (ApiKey.WRITE_SHARE_GROUP_STATE, "WriteShareGroupState", 0, 1, 0, 0, "share.version"),
    (ApiKey.DELETE_SHARE_GROUP_STATE, "DeleteShareGroupState", 0, 0, 0, 0, "share.version"),
    (
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
        "ReadShareGroupStateSummary",
        0,
        1,
        0,
        0,
        "share.version",
    ),
    (ApiKey.STREAMS_GROUP_HEARTBEAT, "StreamsGroupHeartbeat", 0, 0, 0, 0, "streams.version"),
    (ApiKey.STREAMS_GROUP_DESCRIBE, "StreamsGroupDescribe", 0, 0, 0, 0, "streams.version"),
    (ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, "DescribeShareGroupOffsets", 0, 1, 0, 0, "share.version"),
    (ApiKey.ALTER_SHARE_GROUP_OFFSETS, "AlterShareGroupOffsets", 0, 0, 0, 0, "share.version"),
    (ApiKey.DELETE_SHARE_GROUP_OFFSETS, "DeleteShareGroupOffsets", 0, 0, 0, 0, "share.version"),
)
