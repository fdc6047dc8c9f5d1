"""Transactions and producer ids."""

from __future__ import annotations

from broker.config.keys import (
    AT_LEAST_1,
    BOOLEAN,
    CLUSTER_WIDE,
    HIGH,
    INT,
    LOW,
    SHORT,
    key,
)

DEFINITIONS = (
    key(
        "transaction.state.log.min.isr",
        INT,
        "2",
        HIGH,
        valid=AT_LEAST_1,
        doc="min.insync.replicas of __transaction_state.",
    ),
    key("transaction.state.log.load.buffer.size", INT, "5242880", HIGH, valid=AT_LEAST_1),
    key(
        "transaction.state.log.replication.factor",
        SHORT,
        "3",
        HIGH,
        valid=AT_LEAST_1,
        doc="The replication factor of __transaction_state.",
    ),
    key(
        "transaction.state.log.num.partitions",
        INT,
        "50",
        HIGH,
        valid=AT_LEAST_1,
        doc="The partitions of __transaction_state.",
    ),
    key("transaction.state.log.segment.bytes", INT, "104857600", HIGH, valid=AT_LEAST_1),
    key("transaction.partition.verification.enable", BOOLEAN, "true", LOW, mode=CLUSTER_WIDE),
    key(
        "producer.id.expiration.ms",
        INT,
        "86400000",
        LOW,
        valid=AT_LEAST_1,
        mode=CLUSTER_WIDE,
        doc="How long the state of an idle idempotent producer is kept.",
    ),
    key(
        "producer.id.expiration.check.interval.ms",
        INT,
        "600000",
        LOW,
        valid=AT_LEAST_1,
        internal=True,
        doc="How often expired producers are looked for.",
    ),
    key(
        "transactional.id.expiration.ms",
        INT,
        "604800000",
        HIGH,
        valid=AT_LEAST_1,
        doc="How long an unused transactional id is kept.",
    ),
    key(
        "transaction.max.timeout.ms",
        INT,
        "900000",
        HIGH,
        valid=AT_LEAST_1,
        doc="The longest transaction timeout that a producer may ask for.",
    ),
    key(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        INT,
        "10000",
        LOW,
        valid=AT_LEAST_1,
    ),
    key(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        INT,
        "3600000",
        LOW,
        valid=AT_LEAST_1,
    ),
)
