"""Replica fetching, ISR maintenance and inter-broker requests."""

from __future__ import annotations

from ..keys import (
    AT_LEAST_0,
    AT_LEAST_1,
    BOOLEAN,
    CLUSTER_WIDE,
    HIGH,
    INT,
    LONG,
    MEDIUM,
    STRING,
    OneOf,
    inter_broker_version,
    key,
)

DEFINITIONS = (
    key(
        "controller.socket.timeout.ms",
        INT,
        "30000",
        MEDIUM,
        doc="How long a request of the controller to a broker may take.",
    ),
    key(
        "default.replication.factor",
        INT,
        "1",
        MEDIUM,
        doc="The replication factor of topics created without one.",
    ),
    key(
        "replica.lag.time.max.ms",
        LONG,
        "30000",
        HIGH,
        doc="How long a follower may lag before it leaves the ISR.",
    ),
    key("replica.socket.timeout.ms", INT, "30000", HIGH, doc="How long a replica fetch may take."),
    key("replica.socket.receive.buffer.bytes", INT, "65536", HIGH),
    key(
        "replica.fetch.max.bytes",
        INT,
        "1048576",
        MEDIUM,
        valid=AT_LEAST_0,
        doc="The most bytes of one partition in a follower's fetch; unless it is set, a few "
        "partitions share replica.fetch.response.max.bytes.",
    ),
    key(
        "replica.fetch.wait.max.ms",
        INT,
        "500",
        HIGH,
        doc="How long a follower's fetch may wait at the leader.",
    ),
    key(
        "replica.fetch.backoff.ms",
        INT,
        "1000",
        MEDIUM,
        valid=AT_LEAST_0,
        doc="The pause of a follower after an error or when there is nothing to fetch.",
    ),
    key(
        "replica.fetch.min.bytes",
        INT,
        "1",
        HIGH,
        doc="The fewest bytes a follower's fetch waits for.",
    ),
    key(
        "replica.fetch.response.max.bytes",
        INT,
        "10485760",
        MEDIUM,
        valid=AT_LEAST_0,
        doc="The most bytes in the answer to a follower's fetch.",
    ),
    key(
        "num.replica.fetchers", INT, "1", HIGH, mode=CLUSTER_WIDE, doc="Fetchers per source broker."
    ),
    key(
        "replica.high.watermark.checkpoint.interval.ms",
        LONG,
        "5000",
        HIGH,
        doc="How often high watermarks are written to disk.",
    ),
    key("fetch.purgatory.purge.interval.requests", INT, "1000", MEDIUM),
    key("producer.purgatory.purge.interval.requests", INT, "1000", MEDIUM),
    key("delete.records.purgatory.purge.interval.requests", INT, "1", MEDIUM),
    key(
        "auto.leader.rebalance.enable",
        BOOLEAN,
        "true",
        HIGH,
        doc="Whether the controller makes preferred replicas leaders again by itself.",
    ),
    key(
        "leader.imbalance.per.broker.percentage",
        INT,
        "10",
        HIGH,
        doc="The percentage of a broker's preferred replicas that do not lead at which the "
        "controller moves leaderships back.",
    ),
    key(
        "leader.imbalance.check.interval.seconds",
        LONG,
        "300",
        HIGH,
        valid=AT_LEAST_1,
        doc="How often the controller checks this percentage.",
    ),
    key(
        "unclean.leader.election.interval.ms",
        LONG,
        "300000",
        MEDIUM,
        valid=AT_LEAST_1,
        internal=True,
    ),
    key(
        "unclean.leader.election.enable",
        BOOLEAN,
        "false",
        HIGH,
        mode=CLUSTER_WIDE,
        doc="Whether a replica outside of the ISR may become leader, losing data.",
    ),
    key(
        "security.inter.broker.protocol",
        STRING,
        "PLAINTEXT",
        MEDIUM,
        valid=OneOf(("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
        doc="The security protocol between brokers, if no inter.broker.listener.name is set.",
    ),
    key(
        "inter.broker.protocol.version",
        STRING,
        "3.9-IV0",
        MEDIUM,
        valid=inter_broker_version,
        doc="The version of the protocol between brokers, from 2.6 on: requests and znodes are "
        "those of that release, so that its brokers can be members. Below 2.8 topics have no ids; "
        "below 2.7 leaders write their ISR to ZooKeeper.",
    ),
    key(
        "inter.broker.listener.name",
        STRING,
        None,
        MEDIUM,
        doc="The listener that brokers use among themselves.",
    ),
    key(
        "replica.selector.class",
        STRING,
        None,
        MEDIUM,
        doc="The class that chooses the replica from which a consumer reads (KIP-392); without it, "
        "consumers read from the leader.",
    ),
)
