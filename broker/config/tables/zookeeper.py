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
        doc="Whether the znodes that this broker creates can be changed by it and its like alone, "
        "and those that hold secrets not even be read by others. It must then prove who it is: "
        "by a certificate, by pybroker.jaas.file or by pybroker.zookeeper.credentials.file. Znodes "
        "that exist keep the ACLs that they have: there is no zookeeper-security-migration.",
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
        doc="PEM, PKCS12 or JKS; not set, the file's ending says it.",
    ),
    key(
        "zookeeper.ssl.truststore.location",
        STRING,
        None,
        MEDIUM,
        doc="The authorities that may vouch for ZooKeeper: PEM, PKCS12 or JKS. Not set, those of "
        "the machine.",
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
        doc="PEM, PKCS12 or JKS; not set, the file's ending says it.",
    ),
    key(
        "zookeeper.ssl.protocol",
        STRING,
        "TLSv1.2",
        LOW,
        doc="The TLS version, where zookeeper.ssl.enabled.protocols does not say it: TLSv1.2, "
        "TLSv1.3, or TLS for both.",
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
        doc="The cipher suites, by Java's names or OpenSSL's. Not set, OpenSSL's choice.",
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
