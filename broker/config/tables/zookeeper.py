"""How the broker reaches ZooKeeper."""

from __future__ import annotations

from ..keys import (
    AT_LEAST_1,
    BOOLEAN,
    HIGH,
    INT,
    LIST,
    LOW,
    MEDIUM,
    PASSWORD,
    STRING,
    key,
)

DEFINITIONS = (
    key(
        "zookeeper.connect",
        STRING,
        None,
        HIGH,
        doc="host:port[,host:port...][/chroot] of the ZooKeeper ensemble.",
    ),
    key(
        "zookeeper.session.timeout.ms",
        INT,
        "18000",
        HIGH,
        doc="How long the ensemble keeps this broker's session without hearing from it.",
    ),
    key(
        "zookeeper.connection.timeout.ms",
        INT,
        None,
        HIGH,
        doc="How long to wait for the first connection; zookeeper.session.timeout.ms if not set.",
    ),
    key(
        "zookeeper.set.acl",
        BOOLEAN,
        "false",
        HIGH,
    ),
    key(
        "zookeeper.max.in.flight.requests",
        INT,
        "10",
        HIGH,
        valid=AT_LEAST_1,
    ),
    key("zookeeper.ssl.client.enable", BOOLEAN, "false", MEDIUM),
    key("zookeeper.clientCnxnSocket", STRING, None, MEDIUM),
    key("zookeeper.ssl.keystore.location", STRING, None, MEDIUM),
    key("zookeeper.ssl.keystore.password", PASSWORD, None, MEDIUM),
    key("zookeeper.ssl.keystore.type", STRING, None, MEDIUM),
    key("zookeeper.ssl.truststore.location", STRING, None, MEDIUM),
    key("zookeeper.ssl.truststore.password", PASSWORD, None, MEDIUM),
    key("zookeeper.ssl.truststore.type", STRING, None, MEDIUM),
    key("zookeeper.ssl.protocol", STRING, "TLSv1.2", LOW),
    key("zookeeper.ssl.enabled.protocols", LIST, None, LOW),
    key("zookeeper.ssl.cipher.suites", LIST, None, LOW),
    key("zookeeper.ssl.endpoint.identification.algorithm", STRING, "HTTPS", LOW),
    key("zookeeper.ssl.crl.enable", BOOLEAN, "false", LOW),
    key("zookeeper.ssl.ocsp.enable", BOOLEAN, "false", LOW),
)
