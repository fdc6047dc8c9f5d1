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
        doc="How long ZooKeeper keeps this broker's session while it receives nothing from it.",
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
        doc="Whether only brokers may change the znodes that this broker creates, and only brokers "
        "may read those with secrets. The broker must then log in to ZooKeeper: by a certificate, "
        "by pybroker.jaas.file or by pybroker.zookeeper.credentials.file. Existing znodes keep "
        "their ACLs: there is no zookeeper-security-migration.",
    ),
    key(
        "zookeeper.max.in.flight.requests",
        INT,
        "10",
        HIGH,
        valid=AT_LEAST_1,
    ),
    key(
        "zookeeper.ssl.client.enable",
        BOOLEAN,
        "false",
        MEDIUM,
        doc="Whether the connection to ZooKeeper is made over TLS.",
    ),
    key("zookeeper.clientCnxnSocket", STRING, None, MEDIUM),
    key(
        "zookeeper.ssl.keystore.location",
        STRING,
        None,
        MEDIUM,
        doc="The certificate that this broker shows to ZooKeeper, with its key: PEM, PKCS12, JKS.",
    ),
    key(
        "zookeeper.ssl.keystore.password",
        PASSWORD,
        None,
        MEDIUM,
        doc="The password of zookeeper.ssl.keystore.location, and of the key in it.",
    ),
    key(
        "zookeeper.ssl.keystore.type",
        STRING,
        None,
        MEDIUM,
        doc="PEM, PKCS12 or JKS; without it, the ending of the file's name decides.",
    ),
    key(
        "zookeeper.ssl.truststore.location",
        STRING,
        None,
        MEDIUM,
        doc="The authorities that ZooKeeper's certificate may come from: PEM, PKCS12 or JKS. "
        "Without it, those of the system.",
    ),
    key(
        "zookeeper.ssl.truststore.password",
        PASSWORD,
        None,
        MEDIUM,
        doc="The password of zookeeper.ssl.truststore.location.",
    ),
    key(
        "zookeeper.ssl.truststore.type",
        STRING,
        None,
        MEDIUM,
        doc="PEM, PKCS12 or JKS; without it, the ending of the file's name decides.",
    ),
    key(
        "zookeeper.ssl.protocol",
        STRING,
        "TLSv1.2",
        LOW,
        doc="The TLS version, if zookeeper.ssl.enabled.protocols is not set: TLSv1.2, TLSv1.3, or "
        "TLS for both.",
    ),
    key(
        "zookeeper.ssl.enabled.protocols",
        LIST,
        None,
        LOW,
        doc="The TLS versions: TLSv1.2, TLSv1.3.",
    ),
    key(
        "zookeeper.ssl.cipher.suites",
        LIST,
        None,
        LOW,
        doc="The cipher suites, by Java's names or OpenSSL's; without it, OpenSSL chooses.",
    ),
    key(
        "zookeeper.ssl.endpoint.identification.algorithm",
        STRING,
        "HTTPS",
        LOW,
        doc="HTTPS: ZooKeeper's certificate must name the host of zookeeper.connect. Empty: any "
        "certificate of a trusted authority will do.",
    ),
    key("zookeeper.ssl.crl.enable", BOOLEAN, "false", LOW),
    key("zookeeper.ssl.ocsp.enable", BOOLEAN, "false", LOW),
)
