"""Keys of ours, which Apache Kafka does not know. A properties file with them still starts Kafka,
which warns of unknown keys."""

from __future__ import annotations

from ....protocol.features import RELEASES
from ..keys import (
    AT_LEAST_0,
    AT_LEAST_1,
    BOOLEAN,
    CLUSTER_WIDE,
    INT,
    LONG,
    LOW,
    STRING,
    OneOf,
    key,
)

DEFINITIONS = (
    key(
        "record.validation",
        STRING,
        "full",
        LOW,
        valid=OneOf(("batch", "full")),
        doc="The checks of a leader before it appends. full: the batch's header, CRC and producer "
        "sequence, and each record, decompressed if need be, as in Apache Kafka. batch: records "
        "only where a rule of the topic concerns records.",
    ),
    key(
        "pybroker.coordinator.proof",
        BOOLEAN,
        "true",
        LOW,
        doc="Whether a coordinator asks the in-sync replicas before it answers from memory: "
        "repeated EndTxn and AddPartitionsToTxn, fenced producers, stable offsets. false: it "
        "answers at once, as Apache Kafka 3.9 does, even if it has lost its role without noticing; "
        "then it may acknowledge a commit that was never made.",
    ),
    key(
        "pybroker.producer.ids.per.partition",
        INT,
        "100000",
        LOW,
        valid=AT_LEAST_1,
        doc="The most ids of idempotent producers in a partition. A new id replaces one that was "
        "silent for five minutes; if there is none, the new producer is refused with "
        "NOT_ENOUGH_REPLICAS, and all clients retry that. A hundred thousand ids take some 40 MB.",
    ),
    key(
        "pybroker.producer.ids",
        INT,
        "1000000",
        LOW,
        valid=AT_LEAST_1,
        doc="The most ids in all partitions of this broker together. Above it, each partition with "
        "a thousand ids or more applies the rule of pybroker.producer.ids.per.partition.",
    ),
    key(
        "pybroker.allow.ineffective.security",
        BOOLEAN,
        "false",
        LOW,
        doc="Whether to start although keys are set that restrict access in Kafka and have no "
        "effect here, such as alter.config.policy.class.name; a warning then names them.",
    ),
    key(
        "pybroker.remote.prefetch.max.bytes",
        LONG,
        "67108864",
        LOW,
        valid=AT_LEAST_0,
        mode=CLUSTER_WIDE,
        doc="The memory for ranges of remote segments that are read before consumers ask for them, "
        "of all consumers of this broker together. 0: each fetch reads what it needs.",
    ),
    key(
        "pybroker.features",
        STRING,
        "3.9",
        LOW,
        valid=OneOf(tuple(RELEASES)),
        doc="The release of Kafka whose features a new cluster has finalized from its beginning, "
        "which bring its newer requests to clients. A cluster that has begun keeps its features: "
        "`pybroker features upgrade` changes them.",
    ),
    key(
        "pybroker.table.warehouse",
        STRING,
        None,
        LOW,
        doc="Where the tables of topics are: a directory that all brokers share, or the URL of an "
        "object store, whose settings are keys with the prefix pybroker.table.store. as those of "
        "tiered storage. Without it topics have no tables.",
    ),
    key(
        "pybroker.table.catalog",
        STRING,
        None,
        LOW,
        doc="The catalogue of Iceberg: the URL of a REST catalogue (http, https) or of a database "
        "(sqlite, postgresql). By default SQLite in the file catalog.db of the warehouse. Keys "
        "with the prefix pybroker.table.catalog. are its further properties, as pyiceberg names "
        "them.",
    ),
    key(
        "pybroker.table.namespace",
        STRING,
        "kafka",
        LOW,
        doc="The namespace of the tables in the catalogue: topic flights is kafka.flights.",
    ),
    key(
        "pybroker.table.registry",
        STRING,
        None,
        LOW,
        doc="The URL of the schema registry of topics whose pybroker.table.schema is a subject.",
    ),
    key(
        "pybroker.jaas.file",
        STRING,
        None,
        LOW,
        doc="A JAAS file. With its section Client this broker logs in to ZooKeeper: DIGEST-MD5, "
        "with org.apache.zookeeper.server.auth.DigestLoginModule. Listeners without a "
        "sasl.jaas.config take the login modules of its section <listener>.KafkaServer, in lower "
        "case, or else of KafkaServer. The variable "
        "KAFKA_OPTS=-Djava.security.auth.login.config=FILE has the same meaning.",
    ),
    key(
        "pybroker.kerberos.config.file",
        STRING,
        None,
        LOW,
        doc="The krb5.conf of MIT Kerberos, instead of the system's and of KRB5_CONFIG. The "
        "variable KAFKA_OPTS=-Djava.security.krb5.conf=FILE has the same meaning.",
    ),
    key(
        "pybroker.zookeeper.credentials.file",
        STRING,
        None,
        LOW,
        doc="A file of mode 0600 with one line user:password, with which this broker logs in to "
        "ZooKeeper in the scheme digest. A closed embedded ZooKeeper refuses every other client.",
    ),
    key(
        "pybroker.zookeeper.follow.members",
        BOOLEAN,
        "false",
        LOW,
        doc="Whether this broker learns further ZooKeepers from the znode /zookeeper/config of the "
        "ensemble, beside those of zookeeper.connect, without a restart. The client addresses of "
        "its entries must be reachable from here. Brokers of pybroker start have true, if "
        "ZooKeeper is theirs.",
    ),
)
