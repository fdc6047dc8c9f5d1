"""Keys of ours, which Apache Kafka does not know. A properties file with them still starts Kafka,
which warns of unknown keys."""

from __future__ import annotations

from broker.config.keys import LOW, STRING, OneOf, key

DEFINITIONS = (
    key(
        "record.validation",
        STRING,
        "batch",
        LOW,
        valid=OneOf(("batch", "full")),
        doc="What a leader checks before it appends. batch: the batch's header, CRC and producer "
        "sequence, and its records only where a rule of the topic is about records. full: each "
        "record of every batch as well, decompressed if need be, as Apache Kafka does.",
    ),
)
