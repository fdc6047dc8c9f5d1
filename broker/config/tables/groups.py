"""Consumer groups and committed offsets."""

from __future__ import annotations

from ..keys import (
    AT_LEAST_1,
    HIGH,
    INT,
    LONG,
    MEDIUM,
    SHORT,
    key,
)

DEFINITIONS = (
    key(
        "group.min.session.timeout.ms",
        INT,
        "6000",
        MEDIUM,
        doc="The shortest session timeout of a group member.",
    ),
    key(
        "group.max.session.timeout.ms",
        INT,
        "1800000",
        MEDIUM,
        doc="The longest session timeout of a group member.",
    ),
    key(
        "group.initial.rebalance.delay.ms",
        INT,
        "3000",
        MEDIUM,
        doc="How long an empty group waits for more members before its first rebalance.",
    ),
    key(
        "group.max.size",
        INT,
        "2147483647",
        MEDIUM,
        valid=AT_LEAST_1,
        doc="The most members of a group.",
    ),
    key(
        "offset.metadata.max.bytes",
        INT,
        "4096",
        HIGH,
        doc="The longest metadata text of a committed offset.",
    ),
    key(
        "offsets.load.buffer.size",
        INT,
        "5242880",
        HIGH,
        valid=AT_LEAST_1,
        doc="The number of bytes that are read from the offsets topic at once while groups are "
        "loaded.",
    ),
    key(
        "offsets.topic.replication.factor",
        SHORT,
        "3",
        HIGH,
        valid=AT_LEAST_1,
        doc="The replication factor of __consumer_offsets; it cannot be created on fewer brokers.",
    ),
    key(
        "offsets.topic.num.partitions",
        INT,
        "50",
        HIGH,
        valid=AT_LEAST_1,
        doc="The partitions of __consumer_offsets; never change it afterwards.",
    ),
    key(
        "offsets.topic.segment.bytes",
        INT,
        "104857600",
        HIGH,
        valid=AT_LEAST_1,
        doc="The segment size of __consumer_offsets.",
    ),
    key(
        "offsets.topic.compression.codec",
        INT,
        "0",
        HIGH,
        doc="The codec of __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
    ),
    key(
        "offsets.retention.minutes",
        INT,
        "10080",
        HIGH,
        valid=AT_LEAST_1,
        doc="How long the offsets of an empty group are kept.",
    ),
    key(
        "offsets.retention.check.interval.ms",
        LONG,
        "600000",
        HIGH,
        valid=AT_LEAST_1,
        doc="How often the broker looks for expired offsets.",
    ),
    key(
        "offsets.commit.timeout.ms",
        INT,
        "5000",
        HIGH,
        valid=AT_LEAST_1,
        doc="How long an offset commit waits for the replicas.",
    ),
    key(
        "offsets.commit.required.acks",
        SHORT,
        "-1",
        HIGH,
        doc="The acks of an offset commit; keep -1.",
    ),
)
