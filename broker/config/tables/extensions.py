"""Keys of ours, which Apache Kafka does not know. A properties file with them still starts Kafka,
which warns of unknown keys."""

from __future__ import annotations

from ....protocol.features import RELEASES
from ..keys import AT_LEAST_1, BOOLEAN, INT, LOW, STRING, OneOf, key

DEFINITIONS = (
    key(
        "record.validation",
        STRING,
        "full",
        LOW,
        valid=OneOf(("batch", "full")),
        doc="What a leader checks before it appends. full: the batch's header, CRC and producer "
        "sequence, and each record, decompressed if need be, as Apache Kafka does. batch: records "
        "only where a rule of the topic is about records.",
    ),
    key(
        "pybroker.coordinator.proof",
        BOOLEAN,
        "true",
        LOW,
        doc="Whether a coordinator asks the in-sync replicas before it answers from memory: EndTxn "
        "and AddPartitionsToTxn that are repeated, fenced producers, stable offsets. false: it "
        "answers at once, as Apache Kafka 3.9 does, even if it has lost the role without "
        "noticing: then a commit may be acknowledged that was never made.",
    ),
    key(
        "pybroker.producer.ids.per.partition",
        INT,
        "100000",
        LOW,
        valid=AT_LEAST_1,
        doc="How many ids of idempotent producers a partition knows. For one more an idle one, "
        "silent for five minutes, is forgotten; if there is none, a new producer is refused with "
        "NOT_ENOUGH_REPLICAS, which all clients try again. A hundred thousand take some 40 MB.",
    ),
    key(
        "pybroker.producer.ids",
        INT,
        "1000000",
        LOW,
        valid=AT_LEAST_1,
        doc="How many all partitions of this broker know together. While they know more, the same "
        "is true of a partition that knows a thousand.",
    ),
    key(
        "pybroker.allow.ineffective.security",
        BOOLEAN,
        "false",
        LOW,
        doc="Whether to start although keys are set that were meant to keep someone out and have "
        "no effect here, such as alter.config.policy.class.name; a warning then names them.",
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
        "pybroker.jaas.file",
        STRING,
        None,
        LOW,
        doc="A JAAS file. With its section Client this broker logs in to ZooKeeper: DIGEST-MD5, "
        "with org.apache.zookeeper.server.auth.DigestLoginModule. The login modules of listeners "
        "without a sasl.jaas.config of their own are in its section <listener>.KafkaServer, in "
        "lower case, or in KafkaServer. The variable "
        "KAFKA_OPTS=-Djava.security.auth.login.config=FILE says the same.",
    ),
    key(
        "pybroker.kerberos.config.file",
        STRING,
        None,
        LOW,
        doc="The krb5.conf of MIT Kerberos, instead of the system's and of KRB5_CONFIG. The "
        "variable KAFKA_OPTS=-Djava.security.krb5.conf=FILE says the same.",
    ),
    key(
        "pybroker.zookeeper.credentials.file",
        STRING,
        None,
        LOW,
        doc="A file of mode 0600 with one line user:password, which this broker shows to ZooKeeper "
        "in the scheme digest. The embedded ZooKeeper, when it is closed, refuses everyone else.",
    ),
)
