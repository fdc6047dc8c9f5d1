"""The meaning of each metric: its help text and its name in Apache Kafka.

Names are those that the JMX exporter's example rules for Kafka 2.0 and later give to Kafka's
MBeans, in lower case; a meter that counts becomes `..._total`, a histogram a summary. A metric that
is not here cannot be registered. docs/METRICS.md and the dashboards are made from this table; a
test beside Apache Kafka, with the exporter in it, reports missing names.
"""

from __future__ import annotations

from typing import NamedTuple


class Described(NamedTuple):
    """`kafka`: MBean and name in Apache Kafka; empty for a metric of ours."""

    help: str
    kafka: str = ""


# By MBean and Kafka's name: the exported name follows from both.
_OF_KAFKA = {
    "kafka.network:type=RequestMetrics": {
        "RequestsPerSec": "Requests answered, by API and version. A Fetch is counted twice: as "
        "Fetch, and as FetchConsumer or FetchFollower. An AddPartitionsToTxn that only verifies a "
        "transaction is counted as AddPartitionsToTxnVerification.",
        "ErrorsPerSec": "Requests that failed as a whole, by API and error.",
        "TotalTimeMs": "From a request's last byte to its answer's last byte, in milliseconds.",
        "RequestQueueTimeMs": "How long requests waited for a handler, in milliseconds.",
        "LocalTimeMs": "How long this broker worked at requests, in milliseconds.",
        "RemoteTimeMs": "How long requests waited in purgatory: for followers (acks=all), for new "
        "records (a fetch), for members of a group; in milliseconds.",
        "ThrottleTimeMs": "The throttle time that quotas gave to clients, in milliseconds.",
        "ResponseQueueTimeMs": "Always 0: the task that makes an answer also writes it.",
        "ResponseSendTimeMs": "How long answers took to leave, in milliseconds: long if clients "
        "read slowly.",
        "MessageConversionsTimeMs": "Time of converting records between formats, in milliseconds.",
        "TemporaryMemoryBytes": "Memory for converted and recompressed records, in bytes.",
    },
    "kafka.network:type=RequestChannel": {
        "RequestQueueSize": "Requests that wait for a handler now: stays near 0 in a broker that "
        "keeps up.",
        "ResponseQueueSize": "Connections with answers that have not left yet.",
    },
    "kafka.network:type=SocketServer": {
        "MemoryPoolUsed": "Bytes of requests in memory (queued.max.request.bytes bounds them).",
        "MemoryPoolAvailable": "Bytes that requests may still take; +Inf without a bound.",
        "ExpiredConnectionsKilledCount": "Connections closed because their login had expired.",
        "NetworkProcessorAvgIdlePercent": "Share of time that the network tasks wait, 0 to 1: near "
        "0 the broker is at its limit.",
    },
    "kafka.server:type=BrokerTopicMetrics": {
        "MessagesInPerSec": "Records produced; without a topic, all.",
        "BytesInPerSec": "Bytes produced by clients.",
        "BytesOutPerSec": "Bytes fetched by clients.",
        "FailedProduceRequestsPerSec": "Partitions of produce requests that failed.",
        "FailedFetchRequestsPerSec": "Partitions of fetch requests that failed.",
        "TotalProduceRequestsPerSec": "Partitions in produce requests.",
        "TotalFetchRequestsPerSec": "Partitions in fetch requests.",
        "InvalidMessageCrcRecordsPerSec": "Batches refused as damaged.",
        "ProduceMessageConversionsPerSec": "Records converted as they were produced.",
        "FetchMessageConversionsPerSec": "Fetched partitions converted for old consumers.",
        "ReplicationBytesInPerSec": "Bytes copied from leaders by this broker's followers.",
        "ReplicationBytesOutPerSec": "Bytes that followers on other brokers fetched here.",
        "RemoteFetchBytesPerSec": "Bytes read from the remote tier for consumers.",
        "RemoteFetchRequestsPerSec": "Reads from the remote tier for consumers.",
        "RemoteFetchErrorsPerSec": "Reads from the remote tier that failed.",
        "RemoteCopyBytesPerSec": "Bytes of segments that were copied to the remote tier.",
        "RemoteCopyRequestsPerSec": "Copies of segments to the remote tier.",
        "RemoteCopyErrorsPerSec": "Copies to the remote tier that failed.",
        "RemoteDeleteRequestsPerSec": "Deletions of remote segments.",
        "RemoteDeleteErrorsPerSec": "Deletions of remote segments that failed.",
        "RemoteCopyLagBytes": "Bytes of segments that are to be copied to the remote tier.",
        "RemoteCopyLagSegments": "Segments that are to be copied to the remote tier.",
        "RemoteDeleteLagBytes": "Bytes of remote segments that are being deleted.",
        "RemoteDeleteLagSegments": "Remote segments that are being deleted.",
        "RemoteLogMetadataCount": "Remote segments with metadata.",
        "RemoteLogSizeBytes": "Bytes of remote segments.",
        "RemoteLogSizeComputationTime": "Milliseconds of the last look at the remote segments.",
        "BuildRemoteLogAuxStateRequestsPerSec": "Followers' restarts behind the remote tier.",
        "BuildRemoteLogAuxStateErrorsPerSec": "Such restarts that failed.",
        "TotalShareFetchRequestsPerSec": "Partitions in fetches of share groups.",
        "FailedShareFetchRequestsPerSec": "Partitions of fetches of share groups that failed.",
        "TotalShareAcknowledgementRequestsPerSec": "Partitions of which a share group acknowledged "
        "records.",
        "FailedShareAcknowledgementRequestsPerSec": "Partitions of which acknowledgements failed.",
    },
    "kafka.server:type=ReplicaManager": {
        "PartitionCount": "Replicas on this broker, leaders and followers.",
        "LeaderCount": "Partitions that this broker leads.",
        "OfflineReplicaCount": "Replicas in failed log directories.",
        "UnderReplicatedPartitions": "Partitions led here whose ISR lacks a replica: 0 in health.",
        "UnderMinIsrPartitionCount": "Partitions led here with fewer in-sync replicas than "
        "min.insync.replicas: acks=all fails there.",
        "AtMinIsrPartitionCount": "Partitions led here with exactly min.insync.replicas in-sync "
        "replicas: the next loss stops producers.",
        "ReassigningPartitions": "Partitions led here whose replicas are being moved.",
        "PartitionsWithLateTransactionsCount": "Partitions led here with a transaction older than "
        "transaction.max.timeout.ms: read_committed consumers hang there.",
        "ProducerIdCount": "Idempotent and transactional producers that this broker's logs know.",
        "IsrExpandsPerSec": "Replicas that returned to an ISR.",
        "IsrShrinksPerSec": "ISR shrinks: a follower fell behind or died.",
        "FailedIsrUpdatesPerSec": "ISR changes that the controller rejected.",
    },
    "kafka.cluster:type=Partition": {
        "UnderReplicated": "1 where this broker leads and the ISR lacks a replica.",
        "UnderMinIsr": "1 where this broker leads and has fewer in-sync replicas than "
        "min.insync.replicas.",
        "AtMinIsr": "1 where this broker leads and has exactly min.insync.replicas in-sync "
        "replicas.",
        "ReplicasCount": "Replicas of a partition led here; 0 for followers.",
        "InSyncReplicasCount": "Replicas in sync of a partition led here; 0 for followers.",
        "LastStableOffsetLag": "Records between the last stable offset and the high watermark, "
        "which read_committed consumers cannot see yet.",
    },
    "kafka.log:type=Log": {
        "Size": "Bytes of a replica's log.",
        "LogStartOffset": "First offset of a replica's log.",
        "LogEndOffset": "Offset that a replica's next record gets (LEO).",
        "NumLogSegments": "Segments of a replica's log.",
    },
    "kafka.log:type=LogManager": {
        "OfflineLogDirectoryCount": "Log directories that failed.",
        "LogDirectoryOffline": "1 for a log directory that failed.",
    },
    "kafka.log:type=LogCleaner": {
        "max-buffer-utilization-percent": "How full the cleaner's map of keys was, 0 to 100.",
        "cleaner-recopy-percent": "Share of the read bytes that the last cleanings kept, 0 to 100.",
        "max-clean-time-secs": "How long the last cleaning took, in seconds.",
        "max-compaction-delay-secs": "How overdue the latest cleaning is, in seconds.",
        "DeadThreadCount": "Cleaner tasks that ended on an error: old records of their logs stay.",
    },
    "kafka.log:type=LogCleanerManager": {
        "max-dirty-percent": "Largest share of a log that is not cleaned yet, 0 to 100.",
        "time-since-last-run-ms": "Time since the cleaner last looked for work, in milliseconds.",
        "uncleanable-partitions-count": "Partitions that the cleaner does not clean any more, "
        "after an error.",
        "uncleanable-bytes": "Bytes of these partitions.",
    },
    "kafka.server:type=FetchSessionCache": {
        "NumIncrementalFetchSessions": "Incremental fetch sessions that are open.",
        "NumIncrementalFetchPartitionsCached": "Partitions in these sessions.",
        "IncrementalFetchSessionEvictionsPerSec": "Sessions that were removed for new ones: many "
        "if max.incremental.fetch.session.cache.slots is too small.",
    },
    "kafka.server:type=ShareSessionCache": {
        "ShareSessionsCount": "Share sessions that are open.",
        "SharePartitionsCount": "Partitions in these sessions.",
        "ShareSessionEvictionsPerSec": "Share sessions that ended with their connection.",
    },
    "kafka.server:type=ShareGroupMetrics": {
        "RecordAcknowledgementsPerSec": "Records that share groups acknowledged, by the type of "
        "acknowledgement.",
    },
    "kafka.server:type=SharePartitionMetrics": {
        "InFlightMessageCount": "Records in flight to a share group, acknowledged ones among them.",
        "InFlightBatchCount": "Batches of records in flight to a share group.",
        "AcquisitionLockTimeoutPerSec": "Records that a share group's member kept too long.",
    },
    "kafka.server:type=DelayedShareFetchMetrics": {
        "ExpiresPerSec": "Fetches of share groups whose time was over.",
    },
    "kafka.server:type=DelayedOperationPurgatory": {
        "PurgatorySize": "Requests that wait for an event, by kind.",
    },
    "kafka.server:type=DelayedRemoteFetchMetrics": {
        "ExpiresPerSec": "Fetches whose records did not come from the remote tier in time.",
    },
    "org.apache.kafka.storage.internals.log:type=RemoteStorageThreadPool": {
        "RemoteLogReaderTaskQueueSize": "Reads from the remote tier that wait for a thread.",
        "RemoteLogReaderAvgIdlePercent": "Threads for such reads that are idle, from 0 to 1.",
    },
    "kafka.log.remote:type=RemoteLogManager": {
        "RemoteLogReaderFetchRateAndTimeMs": "How long reads from the remote tier for consumers "
        "took, in milliseconds, without their wait for a thread.",
        "RemoteLogManagerTasksAvgIdlePercent": "Threads for copies that are idle, from 0 to 1.",
    },
    "kafka.server:type=DelayedProduceMetrics": {
        "ExpiresPerSec": "Produce requests with acks=all that timed out before the followers had "
        "the records.",
    },
    "kafka.server:type=SessionExpireListener": {
        "ZooKeeperExpiresPerSec": "ZooKeeper sessions that ended and were replaced.",
    },
    "kafka.server:type=ReplicaFetcherManager": {
        "MaxLag": "Records that the follower furthest behind lacks.",
        "FailedPartitionsCount": "Partitions that this broker does not follow any more, after an "
        "error.",
    },
    "kafka.server:type=ReplicaAlterLogDirsManager": {
        "MaxLag": "Most records that a move between log directories has still to copy.",
    },
    "kafka.server:type=FetcherLagMetrics": {
        "ConsumerLag": "Records that a follower on this broker lacks.",
    },
    "kafka.coordinator.group:type=GroupMetadataManager": {
        "NumGroups": "Groups that this broker coordinates.",
        "NumOffsets": "Offsets that these groups have committed.",
        "NumGroupsEmpty": "Groups without members.",
        "NumGroupsPreparingRebalance": "Groups that wait for their members to join.",
        "NumGroupsCompletingRebalance": "Groups that wait for their leader's assignment.",
        "NumGroupsStable": "Groups whose members have their assignments.",
        "NumGroupsDead": "Groups that are being removed.",
    },
    "kafka.coordinator.transaction:type=TransactionMarkerChannelManager": {
        "UnknownDestinationQueueSize": "Markers that are sent again, because their leader is "
        "unknown or refused them.",
        "LogAppendRetryQueueSize": "Transaction states that are written again after an error.",
    },
    "kafka.controller:type=KafkaController": {
        "ActiveControllerCount": "1 on the controller: the sum over all brokers is 1 in health.",
        "OfflinePartitionsCount": "Partitions without a leader; on the controller, 0 in health.",
        "PreferredReplicaImbalanceCount": "Partitions whose leader is not their first replica.",
        "GlobalTopicCount": "Topics of the cluster; on the controller.",
        "GlobalPartitionCount": "Partitions of the cluster; on the controller.",
        "TopicsToDeleteCount": "Topics that are being deleted.",
        "TopicsIneligibleToDeleteCount": "Topics whose deletion waits: for a replica that is away "
        "or for a reassignment.",
        "ActiveBrokerCount": "Brokers that are alive; on the controller.",
    },
    "kafka.controller:type=ControllerStats": {
        "UncleanLeaderElectionsPerSec": "Leaders elected outside the ISR: records may be lost.",
    },
    "kafka.server:type=KafkaServer": {
        "BrokerState": "1 while the broker starts, 3 while it runs, 6 while it stops under "
        "control.",
    },
}
# The same of MBeans with attributes in the place of a name, and of irregular names.
_ATTRIBUTES = {
    "kafka.server:type=group-coordinator-metrics": {
        "offset-commit-count": "Offsets committed here.",
        "offset-deletion-count": "Offsets deleted by administrators.",
        "offset-expiration-count": "Offsets that offsets.retention.minutes removed.",
        "group-completed-rebalance-count": "Completed rebalances.",
        "group-count": "Groups by their protocol: classic, consumer, share or streams.",
        "consumer-group-count": "Groups of the consumer protocol by their state.",
        "consumer-group-rebalance-count": "Epochs of groups of the consumer protocol.",
        "share-group-rebalance-count": "Epochs of share groups.",
        "streams-group-count": "Groups of Streams applications by their state.",
        "streams-group-rebalance-count": "Epochs of groups of Streams applications.",
    },
    "kafka.server:type=share-coordinator-metrics": {
        "write-latency-avg": "Milliseconds of a write, its replication included: the average.",
        "write-latency-max": "Milliseconds of a write: the longest.",
        "write-rate": "States of share partitions that leaders asked to write, a second.",
        "write-total": "States of share partitions that leaders asked to write.",
        "last-pruned-offset": "By partition of __share_group_state: records before it are gone.",
    },
    "kafka.server:type=transaction-coordinator-metrics": {
        "partition-load-time-max": "Longest of the last loads of transaction states, in ms.",
        "partition-load-time-avg": "Average of the last loads of transaction states, in ms.",
    },
}
_OF_CLIENTS = {
    "instance-count": "Clients that push metrics of theirs to this broker.",
    "unknown-subscription-request-count": "Pushes with an old subscription, which ask anew.",
    "throttle-count": "Requests of a client that came before its push interval was over.",
    "plugin-export-count": "Pushes of a client that were read.",
    "plugin-error-count": "Pushes of a client that could not be read.",
}
_LOGINS = {
    "connection-count": "Connections that are open.",
    "successful-authentication-total": "Logins that succeeded.",
    "failed-authentication-total": "Logins that failed.",
    "successful-reauthentication-total": "Logins renewed on open connections.",
    "failed-reauthentication-total": "Renewals that failed.",
    "expired-connections-killed-count": "Connections closed because their login had expired.",
}
_EXPORTER = "kafka_exporter, a process beside Kafka"
_QUOTA = "by user and client id, for those with a quota"
_LISTED = {
    "kafka_controller_controllerstats_leaderelectionrateandtimems_count": Described(
        "Leaders elected.", "kafka.controller:type=ControllerStats,name=LeaderElectionRateAndTimeMs"
    ),
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent": Described(
        "Share of time that the request handlers wait, 0 to 1.",
        "kafka.server:type=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent: MeanRate",
    ),
    "kafka_server_addpartitionstotxnmanager_verificationfailurerate_count": Described(
        "Partitions whose transaction the coordinator did not confirm.",
        "kafka.server:type=AddPartitionsToTxnManager,name=VerificationFailureRate",
    ),
    "kafka_server_leaderreplication_byte_rate": Described(
        "Bytes a second to throttled followers.", "kafka.server:type=LeaderReplication: byte-rate"
    ),
    "kafka_server_followerreplication_byte_rate": Described(
        "Bytes a second from leaders to throttled replicas here.",
        "kafka.server:type=FollowerReplication: byte-rate",
    ),
    "kafka_server_quota_byte_rate": Described(
        f"Bytes a second, {_QUOTA}.",
        "kafka.server:type=Produce|Fetch,user=*,client-id=*: byte-rate",
    ),
    "kafka_server_quota_request_time": Described(
        f"Percent of a handler's time, {_QUOTA}.",
        "kafka.server:type=Request,user=*,client-id=*: request-time",
    ),
    "kafka_server_request_exempt_request_time": Described(
        "Percent of a handler's time for requests between brokers, while there are request quotas.",
        "kafka.server:type=Request: exempt-request-time",
    ),
    "kafka_server_quota_tokens": Described(
        f"Topic changes left, {_QUOTA}.",
        "kafka.server:type=ControllerMutation,user=*,client-id=*: tokens",
    ),
    "kafka_server_quota_throttle_time": Described(
        f"Average wait in milliseconds, {_QUOTA}.",
        "kafka.server:type=Produce|Fetch|Request|ControllerMutation,user=*,client-id=*: "
        "throttle-time",
    ),
    "kafka_consumergroup_current_offset": Described(
        "Offset that a group has committed.", _EXPORTER
    ),
    "kafka_consumergroup_lag": Described(
        "Records that a group has still to read, up to the high watermark.", _EXPORTER
    ),
    "kafka_consumergroup_lag_sum": Described(
        "Records of a topic that a group has still to read.", _EXPORTER
    ),
    "kafka_consumergroup_members": Described("Members of a group.", _EXPORTER),
    "pybroker_client_info": Described(
        "1 for each client that pushes metrics, with its software and its address."
    ),
    "pybroker_client_value": Described(
        "The last value of a metric that a client has pushed (KIP-714), under the client's name "
        "for it."
    ),
    "pybroker_client_values_dropped_total": Described(
        "Pushed values that were not kept, since there were too many."
    ),
    "pybroker_loop_stalls_total": Described("Stalls of the broker's loop of 10 ms or more."),
    "pybroker_loop_stall_seconds_total": Described("Duration of these stalls, together."),
    "pybroker_loop_stall_longest_seconds": Described("The longest of the last minute."),
    "pybroker_gc_pauses_total": Described("Runs of Python's garbage collector."),
    "pybroker_gc_pause_seconds_total": Described("Duration of these runs, together."),
    "pybroker_gc_pause_longest_seconds": Described("The longest of the last minute."),
    "pybroker_failed_connections_total": Described(
        "Connections that were closed because an unexpected exception, which is a defect, ended "
        "their work."
    ),
    "pybroker_cold_reads_total": Described(
        "Ranges of logs that were read from the disk before they could be sent: 1 MB or less each."
    ),
    "pybroker_tables_failed": Described(
        "Tables of topics, of those that this broker keeps, that cannot be written at present."
    ),
    "pybroker_table_lag": Described(
        "Committed records of a topic that are not in its table yet; by the broker that keeps it."
    ),
    "kafka_network_socketserver_receivebufferbytes": Described(
        "Bytes of requests that have arrived in part."
    ),
    "kafka_server_replicaalterlogdirsmanager_movingpartitionscount": Described(
        "Replicas that move between log directories."
    ),
}


def _name_of(bean: str, name: str) -> str:
    counts = name.endswith("PerSec")
    text = f"{bean.replace(':type=', '_')}_{name.removesuffix('PerSec')}"
    text = text.replace(".", "_").replace("-", "_").lower()
    return f"{text}_total" if counts else text


def _all() -> dict[str, Described]:
    found = {
        _name_of(bean, name): Described(text, f"{bean},name={name}")
        for bean, names in _OF_KAFKA.items()
        for name, text in names.items()
    }
    for bean, names in _ATTRIBUTES.items():
        for name, text in names.items():
            found[_name_of(bean, name)] = Described(text, f"{bean}: {name}")
    for name, text in _LOGINS.items():
        exported = f"kafka_server_socketservermetrics_{name.replace('-', '_')}"
        found[exported] = Described(text, f"kafka.server:type=socket-server-metrics: {name}")
    for name, text in _OF_CLIENTS.items():
        exported = f"kafka_server_client_metrics_{name.replace('-', '_')}"
        found[exported] = Described(text, f"kafka.server:type=client-metrics: {name}")
    return found | _LISTED


CATALOGUE = _all()
