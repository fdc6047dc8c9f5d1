"""What the keys about ZooKeeper's security make, and what stops a start."""

import importlib.util
import logging
import ssl
import subprocess
from pathlib import Path

import pytest
from kazoo.exceptions import AuthFailedError, ConnectionDropped
from kazoo.protocol.serialization import SASL, Auth

from pybroker_kafka.broker.config import ConfigError, KafkaConfig
from pybroker_kafka.broker.config.loading import load_config
from pybroker_kafka.broker.zk.kazoo_parts import keep_session_when_cut, quiet_logger
from pybroker_kafka.broker.zk.zookeeper_security import NO_SECURITY, zookeeper_security
from tests.support.secured_zookeeper import make_authority, make_store

DIGEST = "org.apache.zookeeper.server.auth.DigestLoginModule"


def security_of(**settings: str) -> object:
    return zookeeper_security(KafkaConfig(settings))


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("stores")
    make_store(directory, "broker", make_authority(directory, "authority"))
    (directory / "nothing.pem").write_text("")
    return directory


def test_without_any_key_there_is_none() -> None:
    assert security_of() == NO_SECURITY


def test_a_credentials_file(tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    config = KafkaConfig({"pybroker.zookeeper.credentials.file": str(file)})
    file.write_text("broker:pass:word\n")
    with pytest.raises(ConfigError, match="chmod 600"):
        zookeeper_security(config)
    file.chmod(0o600)
    made = zookeeper_security(config)
    assert made.digest == "broker:pass:word"
    assert "word" not in repr(made)
    for text in ("", "broker", "broker:", ":password", "a:b\nc:d"):
        file.write_text(text)
        with pytest.raises(ConfigError, match="not one line user:password"):
            zookeeper_security(config)


def test_a_jaas_file(tmp_path: Path) -> None:
    file = tmp_path / "jaas.conf"
    file.write_text(f'Client {{ {DIGEST} required username="u" password="secret"; }};')
    options = f"-Xmx1g '-Djava.security.auth.login.config={file}'"
    made = zookeeper_security(load_config(environment={"KAFKA_OPTS": options}))
    assert made.sasl == ("u", "secret")
    assert "secret" not in repr(made)
    file.write_text("KafkaServer { };")
    config = KafkaConfig({"pybroker.jaas.file": str(file)})
    assert zookeeper_security(config) == NO_SECURITY
    for text, complaint in (
        ("Client { com.sun.security.auth.module.Krb5LoginModule required; };", "only org.apache"),
        (f"Client {{ {DIGEST} required username=u; }};", "needs a username and a password"),
        ("Client {", "is no JAAS file: The section Client does not end"),
    ):
        file.write_text(text)
        with pytest.raises(ConfigError, match=complaint):
            zookeeper_security(config)
    file.unlink()
    with pytest.raises(ConfigError, match="cannot read"):
        zookeeper_security(config)


def test_sasl_needs_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "jaas.conf"
    file.write_text(f"Client {{ {DIGEST} required username=u password=p; }};")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(ConfigError, match="pure-sasl"):
        zookeeper_security(KafkaConfig({"pybroker.jaas.file": str(file)}))


def test_jvm_options_that_cannot_work_here() -> None:
    with pytest.raises(ConfigError, match="must be called Client"):
        load_config(environment={"KAFKA_OPTS": "-Dzookeeper.sasl.clientconfig=Other"})
    with pytest.raises(ConfigError, match="KAFKA_OPTS cannot be read"):
        load_config(environment={"KAFKA_OPTS": "'"})


def test_acls_need_an_owner(stores: Path) -> None:
    for settings in (
        {},
        {"zookeeper.ssl.client.enable": "true"},
        {"zookeeper.ssl.keystore.location": str(stores / "broker.pem")},
    ):
        with pytest.raises(ConfigError, match="this broker has no credentials for ZooKeeper"):
            zookeeper_security(KafkaConfig({"zookeeper.set.acl": "true", **settings}))


def test_tls(stores: Path) -> None:
    settings = {
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.truststore.location": str(stores / "authority.pem"),
        "zookeeper.ssl.keystore.location": str(stores / "broker.pem"),
        "zookeeper.set.acl": "true",
    }
    tls = zookeeper_security(KafkaConfig(settings)).tls
    assert tls is not None
    assert (tls.verify_mode, tls.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert tls.minimum_version is tls.maximum_version is ssl.TLSVersion.TLSv1_2
    # The authority that is named, and none of the machine's.
    assert [one["subject"] for one in tls.get_ca_certs()] == [((("commonName", "authority"),),)]
    both = {"zookeeper.ssl.enabled.protocols": "TLSv1.3,TLSv1.2"}
    tls = zookeeper_security(KafkaConfig({**settings, **both})).tls
    assert tls is not None
    assert tls.minimum_version is ssl.TLSVersion.TLSv1_2
    assert tls.maximum_version is ssl.TLSVersion.TLSv1_3


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("zookeeper.ssl.protocol", "SSLv3", "zookeeper.ssl.protocol: use one of TLS"),
        ("zookeeper.ssl.enabled.protocols", "TLSv1.3,SSLv3", "it may name TLSv1"),
        ("zookeeper.ssl.cipher.suites", "TLS_NONE", "zookeeper.ssl.cipher.suites: TLS_NONE"),
        ("zookeeper.ssl.endpoint.identification.algorithm", "LDAP", "or nothing for no check"),
        ("zookeeper.ssl.truststore.location", "{}/none.pem", "No such file"),
        ("zookeeper.ssl.truststore.location", "{}/nothing.pem", "no certificate in PEM"),
        ("zookeeper.ssl.keystore.location", "{}/authority.pem", "needs one private key"),
        ("zookeeper.ssl.keystore.location", "{}/store", "say with zookeeper.ssl.keystore.type"),
        ("zookeeper.ssl.keystore.location", "{}/store.jks", "zookeeper.ssl.keystore.password is"),
        ("zookeeper.ssl.keystore.type", "BCFKS", "use one of JKS, PKCS12, PEM"),
    ],
)
def test_tls_that_cannot_be(stores: Path, name: str, text: str, complaint: str) -> None:
    settings = {
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.keystore.location": str(stores / "broker.pem"),
        name: text.format(stores),
    }
    with pytest.raises(ConfigError, match=complaint):
        zookeeper_security(KafkaConfig(settings))


def test_a_key_with_a_password(stores: Path) -> None:
    """Without one OpenSSL would ask on the terminal."""
    locked = stores / "locked.key"
    files = ("-in", str(stores / "broker.key"), "-out", str(locked))
    subprocess.run(
        ["openssl", "pkcs8", "-topk8", *files, "-passout", "pass:open"],
        check=True,
        capture_output=True,
    )
    certificate = (stores / "broker.pem").read_text().partition("-----BEGIN PRIVATE")[0]
    (stores / "locked.pem").write_text(certificate + locked.read_text())
    settings = {
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.keystore.location": str(stores / "locked.pem"),
    }
    with pytest.raises(ConfigError, match=r"and zookeeper\.ssl\.keystore\.password is not set"):
        zookeeper_security(KafkaConfig(settings))
    password = {"zookeeper.ssl.keystore.password": "open"}
    assert zookeeper_security(KafkaConfig({**settings, **password})).tls is not None


def test_stores_of_java(stores: Path) -> None:
    """PKCS12, as keytool makes it now, whatever the file is called."""
    store, password = stores / "broker.p12", "changeit"
    files = ("-in", str(stores / "broker.pem"), "-out", str(store))
    subprocess.run(
        ["openssl", "pkcs12", "-export", *files, "-passout", f"pass:{password}"],
        check=True,
        capture_output=True,
    )
    settings = {
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.keystore.location": str(store),
        "zookeeper.ssl.keystore.password": password,
        "zookeeper.ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    }
    for more in ({}, {"zookeeper.ssl.keystore.type": "jks"}):
        tls = zookeeper_security(KafkaConfig({**settings, **more})).tls
        assert tls is not None
        assert "ECDHE-ECDSA-AES128-GCM-SHA256" in {one["name"] for one in tls.get_ciphers()}
    wrong = {"zookeeper.ssl.keystore.password": "wrong"}
    with pytest.raises(ConfigError, match="the password is wrong") as caught:
        zookeeper_security(KafkaConfig({**settings, **wrong}))
    assert "zookeeper.ssl.keystore.location" in str(caught.value)


def test_logins_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    logger = quiet_logger()
    with caplog.at_level(logging.DEBUG, logger.name):
        logger.debug("Sending request(xid=%s): %s", 1, Auth(0, "digest", "u:secret"))
        logger.debug("Sending request(xid=%s): %s", 2, SASL(b"secret"))
        logger.debug("Sending request(xid=%s): %s", 3, "another")
    assert [record.args for record in caplog.records] == [(3, "another")]


class Connection:
    """Of kazoo's only the SASL exchange, which ends as it is told."""

    def __init__(self, error: Exception | None, cause: Exception | None = None) -> None:
        self._end = error, cause

    def _authenticate_with_sasl(self, _host: str, _timeout_s: float) -> None:
        error, cause = self._end
        if error is not None:
            raise error from cause


def test_a_login_that_is_cut_is_no_refusal() -> None:
    for connection, expected in (
        (Connection(AuthFailedError("dropped"), ConnectionDropped("cut")), ConnectionDropped),
        (Connection(AuthFailedError("refused")), AuthFailedError),
    ):
        keep_session_when_cut(connection)
        with pytest.raises(expected):
            connection._authenticate_with_sasl("host", 1.0)
    connection = Connection(None)
    keep_session_when_cut(connection)
    connection._authenticate_with_sasl("host", 1.0)
