"""The keys of `mirror.properties`, with their defaults in MirrorMaker 2; pure.

A key stands alone (for all flows), behind `A->B.` (for one flow), or behind `A.` (of a cluster).
Mirrors: MirrorMakerConfig, MirrorConnectorConfig, MirrorSourceConfig, MirrorCheckpointConfig and
MirrorHeartbeatConfig of Kafka 3.9.
"""

from __future__ import annotations

from typing import Final

# Keys of flows.
FLOW_DEFAULTS: Final[dict[str, str]] = {
    "enabled": "false",
    "topics": ".*",
    "topics.exclude": r".*[\-\.]internal, .*\.replica, __.*",
    "groups": ".*",
    "groups.exclude": "console-consumer-.*, connect-.*, __.*",
    "config.properties.exclude": r"follower\.replication\.throttled\.replicas, "
    r"leader\.replication\.throttled\.replicas, message\.timestamp\.difference\.max\.ms, "
    r"message\.timestamp\.type, unclean\.leader\.election\.enable, min\.insync\.replicas",
    "use.defaults.from": "target",
    "replication.policy.class": "org.apache.kafka.connect.mirror.DefaultReplicationPolicy",
    "replication.policy.separator": ".",
    "replication.policy.internal.topic.separator.enabled": "true",
    "replication.factor": "2",
    "refresh.topics.enabled": "true",
    "refresh.topics.interval.seconds": "600",
    "refresh.groups.enabled": "true",
    "refresh.groups.interval.seconds": "600",
    "sync.topic.configs.enabled": "true",
    "sync.topic.configs.interval.seconds": "600",
    "sync.topic.acls.enabled": "true",
    "sync.topic.acls.interval.seconds": "600",
    "sync.group.offsets.enabled": "false",
    "sync.group.offsets.interval.seconds": "60",
    "emit.heartbeats.enabled": "true",
    "emit.heartbeats.interval.seconds": "1",
    "heartbeats.topic.replication.factor": "3",
    "emit.checkpoints.enabled": "true",
    "emit.checkpoints.interval.seconds": "60",
    "checkpoints.topic.replication.factor": "3",
    "emit.offset-syncs.enabled": "true",
    "offset-syncs.topic.location": "source",
    "offset-syncs.topic.replication.factor": "3",
    "offset.lag.max": "100",
    "exactly.once.source.support": "disabled",
    "offset.storage.topic": "",
    "offset.storage.partitions": "25",
    "offset.storage.replication.factor": "3",
    "offset.flush.interval.ms": "5000",
}
# Older names of keys.
ALIASES: Final = {
    "topics.blacklist": "topics.exclude",
    "groups.blacklist": "groups.exclude",
    "config.properties.blacklist": "config.properties.exclude",
}
# They configure parts that our mirror does not have, or handles by itself: accepted, without
# effect.
NOT_NEEDED: Final = frozenset(
    {
        "name", "connector.class", "tasks.max", "group.id", "client.id", "header.converter",
        "key.converter", "value.converter", "dedicated.mode.enable.internal.rest", "listeners",
        "admin.timeout.ms", "consumer.poll.timeout.ms", "add.source.alias.to.metrics",
        "use.incremental.alter.configs", "scheduled.rebalance.max.delay.ms",
        "offset.flush.timeout.ms", "status.storage.topic", "status.storage.partitions",
        "status.storage.replication.factor", "config.storage.topic",
        "config.storage.replication.factor", "source.cluster.alias", "target.cluster.alias",
    }
)  # fmt: skip
NOT_NEEDED_PREFIXES: Final = ("task.", "worker.", "listeners.", "rest.", "metrics.", "metric.")
# They name classes of Java, or features missing here: an error, except for the default's name.
REFUSED: Final = {
    "topic.filter.class": "DefaultTopicFilter",
    "group.filter.class": "DefaultGroupFilter",
    "config.property.filter.class": "DefaultConfigPropertyFilter",
    "forwarding.admin.class": "ForwardingAdmin",
    "config.providers": "",
}
# Keys of clusters, with the names and defaults of the client's options; `producer.` goes before
# those of the target, `consumer.` before those of the source.
CONSUMER_KEYS: Final = {
    "isolation.level": "",
    "auto.offset.reset": "earliest",
    "fetch.min.bytes": "1",
    "fetch.max.bytes": str(2 * 1024 * 1024),
    "fetch.max.wait.ms": "500",
    "max.partition.fetch.bytes": str(1024 * 1024),
    "metadata.max.age.ms": "300000",
    "check.crcs": "true",
    "client.rack": "",
}
PRODUCER_KEYS: Final = {
    "acks": "all",
    "enable.idempotence": "true",
    "compression.type": "none",
    "buffer.memory": str(8 * 1024 * 1024),
    "max.request.size": str(1024 * 1024),
    "request.timeout.ms": "30000",
    "transaction.timeout.ms": "60000",
    "max.in.flight.requests.per.connection": "5",
}
SECURITY_PREFIXES: Final = ("security.", "sasl.", "ssl.")
CLIENT_PREFIXES: Final = ("producer.", "consumer.", "admin.")
