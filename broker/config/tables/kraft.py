"""KRaft, groups of the consumer protocol and share groups.

Only keys with a description have an effect: those of the consumer protocol, once `group.version` is
finalized, and those of one node that is a whole cluster (`config.kraft`). The others are known and
checked.
"""

from __future__ import annotations

from ..keys import (
    AT_LEAST_0,
    AT_LEAST_1,
    BOOLEAN,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    SHORT,
    STRING,
    ListOf,
    OneOf,
    Range,
    host_ports,
    key,
    voters,
)

DEFINITIONS = (
    key(
        "metadata.log.max.record.bytes.between.snapshots", LONG, "20971520", HIGH, valid=AT_LEAST_1
    ),
    key("metadata.log.max.snapshot.interval.ms", LONG, "3600000", HIGH, valid=AT_LEAST_0),
    key(
        "process.roles",
        LIST,
        "",
        HIGH,
        valid=ListOf(
            (
                "broker",
                "controller",
            )
        ),
        doc="For KRaft. Without zookeeper.connect, broker,controller runs one broker with an "
        "embedded ZooKeeper; with it, it must be empty.",
    ),
    key("node.id", INT, "-1", HIGH, doc="The same as broker.id."),
    key("initial.broker.registration.timeout.ms", INT, "60000", MEDIUM),
    key("broker.heartbeat.interval.ms", INT, "2000", MEDIUM),
    key("broker.session.timeout.ms", INT, "9000", MEDIUM),
    key(
        "controller.listener.names",
        STRING,
        None,
        HIGH,
        doc="For KRaft. Without zookeeper.connect, these listeners are not opened; with it, it "
        "must not be set.",
    ),
    key("sasl.mechanism.controller.protocol", STRING, "GSSAPI", HIGH),
    key("metadata.log.dir", STRING, None, HIGH),
    key("metadata.log.segment.bytes", INT, "1073741824", HIGH, valid=Range(12)),
    key("metadata.log.segment.min.bytes", INT, "8388608", HIGH, valid=Range(12), internal=True),
    key("metadata.log.segment.ms", LONG, "604800000", HIGH),
    key("metadata.max.retention.bytes", LONG, "104857600", HIGH),
    key("metadata.max.retention.ms", LONG, "604800000", HIGH),
    key("metadata.max.idle.interval.ms", INT, "500", LOW, valid=AT_LEAST_0),
    key(
        "server.max.startup.time.ms",
        LONG,
        "9223372036854775807",
        MEDIUM,
        valid=AT_LEAST_0,
        internal=True,
    ),
    key(
        "zookeeper.metadata.migration.enable",
        BOOLEAN,
        "false",
        HIGH,
        doc="For the migration to KRaft: must be false.",
    ),
    key("eligible.leader.replicas.enable", BOOLEAN, "false", HIGH),
    key(
        "zookeeper.metadata.migration.min.batch.size",
        INT,
        "200",
        MEDIUM,
        valid=AT_LEAST_1,
        internal=True,
    ),
    key(
        "group.coordinator.rebalance.protocols",
        LIST,
        "classic",
        MEDIUM,
        valid=ListOf(
            (
                "classic",
                "consumer",
                "share",
                "unknown",
            )
        ),
    ),
    key("group.coordinator.threads", INT, "1", MEDIUM, valid=AT_LEAST_1),
    key("group.coordinator.append.linger.ms", INT, "10", MEDIUM, valid=AT_LEAST_0),
    key("group.coordinator.new.enable", BOOLEAN, "false", MEDIUM, internal=True),
    key(
        "group.consumer.session.timeout.ms",
        INT,
        "45000",
        MEDIUM,
        valid=AT_LEAST_1,
        doc="The time without a heartbeat after which a member is removed from its group, in the "
        "consumer protocol (KIP-848).",
    ),
    key("group.consumer.min.session.timeout.ms", INT, "45000", MEDIUM, valid=AT_LEAST_1),
    key("group.consumer.max.session.timeout.ms", INT, "60000", MEDIUM, valid=AT_LEAST_1),
    key(
        "group.consumer.heartbeat.interval.ms",
        INT,
        "5000",
        MEDIUM,
        valid=AT_LEAST_1,
        doc="The interval between the heartbeats of a member, in the consumer protocol.",
    ),
    key("group.consumer.min.heartbeat.interval.ms", INT, "5000", MEDIUM, valid=AT_LEAST_1),
    key("group.consumer.max.heartbeat.interval.ms", INT, "15000", MEDIUM, valid=AT_LEAST_1),
    key(
        "group.consumer.max.size",
        INT,
        "2147483647",
        MEDIUM,
        valid=AT_LEAST_1,
        doc="The most members that a group of the consumer protocol has.",
    ),
    key(
        "group.consumer.assignors",
        LIST,
        "org.apache.kafka.coordinator.group.assignor.UniformAssignor,org.apache.kafka.coordinator.group.assignor.RangeAssignor",
        MEDIUM,
        doc="The assignors of groups of the consumer protocol, by name (uniform, range) or Java "
        "class; the first is the default.",
    ),
    key(
        "group.consumer.migration.policy",
        STRING,
        "disabled",
        MEDIUM,
        valid=OneOf(("bidirectional", "upgrade", "downgrade", "disabled"), ignore_case=True),
        internal=True,
    ),
    key(
        "group.share.session.timeout.ms",
        INT,
        "45000",
        MEDIUM,
        valid=AT_LEAST_1,
        doc="The time without a heartbeat after which a member is removed from its share group.",
    ),
    key("group.share.min.session.timeout.ms", INT, "45000", MEDIUM, valid=AT_LEAST_1),
    key("group.share.max.session.timeout.ms", INT, "60000", MEDIUM, valid=AT_LEAST_1),
    key(
        "group.share.heartbeat.interval.ms",
        INT,
        "5000",
        MEDIUM,
        valid=AT_LEAST_1,
        doc="The interval between the heartbeats of a share group's member.",
    ),
    key("group.share.min.heartbeat.interval.ms", INT, "5000", MEDIUM, valid=AT_LEAST_1),
    key("group.share.max.heartbeat.interval.ms", INT, "15000", MEDIUM, valid=AT_LEAST_1),
    key(
        "group.share.max.size",
        SHORT,
        "200",
        MEDIUM,
        valid=Range(10, 1000),
        doc="The most members that a share group has.",
    ),
    key("group.share.enable", BOOLEAN, "false", MEDIUM, internal=True),
    key("group.share.delivery.count.limit", INT, "5", MEDIUM, valid=Range(2, 10)),
    key("group.share.record.lock.duration.ms", INT, "30000", MEDIUM, valid=Range(1000, 60000)),
    key("group.share.min.record.lock.duration.ms", INT, "15000", MEDIUM, valid=Range(1000, 30000)),
    key(
        "group.share.max.record.lock.duration.ms", INT, "60000", MEDIUM, valid=Range(30000, 3600000)
    ),
    key("group.share.max.groups", SHORT, "10", MEDIUM, valid=Range(1, 100)),
    key("group.share.partition.max.record.locks", INT, "200", MEDIUM, valid=Range(100, 10000)),
    key(
        "controller.quorum.voters",
        LIST,
        "",
        HIGH,
        valid=voters,
        doc="For KRaft. Without zookeeper.connect, one controller at most may be named; an "
        "embedded ZooKeeper takes its place.",
    ),
    key(
        "controller.quorum.bootstrap.servers",
        LIST,
        "",
        HIGH,
        valid=host_ports,
        doc="The same for controllers that are found by their addresses.",
    ),
    key("controller.quorum.election.timeout.ms", INT, "1000", HIGH),
    key("controller.quorum.fetch.timeout.ms", INT, "2000", HIGH),
    key("controller.quorum.election.backoff.max.ms", INT, "1000", HIGH),
    key("controller.quorum.append.linger.ms", INT, "25", MEDIUM),
    key("controller.quorum.request.timeout.ms", INT, "2000", MEDIUM),
    key("controller.quorum.retry.backoff.ms", INT, "20", LOW),
)
