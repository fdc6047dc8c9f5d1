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
        doc="How much the cleaner may read and write.",
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
        doc="How much the cleaner reads or writes before it is paced.",
    ),
    key(
        "log.cleaner.io.buffer.load.factor",
        DOUBLE,
        "0.9",
        MEDIUM,
        mode=CLUSTER_WIDE,
        doc="How full the table of keys may become.",
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
        doc="The share of uncompacted log from which a log is compacted.",
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
        doc="How long the deletion of a key stays in a compacted topic.",
    ),
    key(
        "log.cleaner.min.compaction.lag.ms",
        LONG,
        "0",
        MEDIUM,
        valid=AT_LEAST_0,
        mode=CLUSTER_WIDE,
        doc="How long a record stays before it is compacted.",
    ),
    key(
        "log.cleaner.max.compaction.lag.ms",
        LONG,
        "9223372036854775807",
        MEDIUM,
        valid=AT_LEAST_1,
        mode=CLUSTER_WIDE,
        doc="After how long a record is compacted at the latest.",
    ),
)
