"""Log compaction."""

from __future__ import annotations

from ..keys import (
    AT_LEAST_0,
    AT_LEAST_1,
    BOOLEAN,
    CLUSTER_WIDE,
    DOUBLE,
    INT,
    LONG,
    MEDIUM,
    Range,
    key,
)

DEFINITIONS = (
    key(
        "log.cleaner.threads",
        INT,
        "1",
        MEDIUM,
        valid=AT_LEAST_0,
        mode=CLUSTER_WIDE,
        doc="The threads of the log cleaner.",
    ),
    key(
        "log.cleaner.io.max.bytes.per.second",
        DOUBLE,
        "1.7976931348623157E308",
        MEDIUM,
        mode=CLUSTER_WIDE,
        doc="The most bytes that the cleaner reads and writes in a second.",
    ),
    key(
        "log.cleaner.dedupe.buffer.size",
        LONG,
        "134217728",
        MEDIUM,
        mode=CLUSTER_WIDE,
        doc="The memory of the cleaner's key map, over all its threads.",
    ),
    key(
        "log.cleaner.io.buffer.size",
        INT,
        "524288",
        MEDIUM,
        valid=AT_LEAST_0,
        mode=CLUSTER_WIDE,
        doc="The number of bytes that the cleaner reads or writes between two checks of its rate.",
    ),
    key(
        "log.cleaner.io.buffer.load.factor",
        DOUBLE,
        "0.9",
        MEDIUM,
        mode=CLUSTER_WIDE,
        doc="The share of the key map that may be in use.",
    ),
    key(
        "log.cleaner.backoff.ms",
        LONG,
        "15000",
        MEDIUM,
        valid=AT_LEAST_0,
        mode=CLUSTER_WIDE,
        doc="How long the cleaner waits when there is nothing to clean.",
    ),
    key(
        "log.cleaner.min.cleanable.ratio",
        DOUBLE,
        "0.5",
        MEDIUM,
        valid=Range(0, 1),
        mode=CLUSTER_WIDE,
        doc="The share of uncompacted bytes at which a log is compacted.",
    ),
    key(
        "log.cleaner.enable", BOOLEAN, "true", MEDIUM, doc="Whether compacted topics are compacted."
    ),
    key(
        "log.cleaner.delete.retention.ms",
        LONG,
        "86400000",
        MEDIUM,
        valid=AT_LEAST_0,
        mode=CLUSTER_WIDE,
        doc="How long a tombstone stays in a compacted topic.",
    ),
    key(
        "log.cleaner.min.compaction.lag.ms",
        LONG,
        "0",
        MEDIUM,
        valid=AT_LEAST_0,
        mode=CLUSTER_WIDE,
        doc="The age below which a record is not compacted.",
    ),
    key(
        "log.cleaner.max.compaction.lag.ms",
        LONG,
        "9223372036854775807",
        MEDIUM,
        valid=AT_LEAST_1,
        mode=CLUSTER_WIDE,
        doc="The age at which a record must be compacted.",
    ),
)
