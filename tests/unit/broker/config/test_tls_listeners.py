"""Key stores of listeners that change while a broker runs: keys, files, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pybroker_kafka.broker.config import ConfigError, KafkaConfig
from pybroker_kafka.broker.config.tls_listeners import TlsListeners
from tests.support.certificates import PASSWORD, Authority

AUTHORITY = Authority()


def config_of(path: Path, **more: str) -> KafkaConfig:
    return KafkaConfig(
        {
            "listeners": "PLAINTEXT://:1,OUT://:2",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUT:SSL",
            "ssl.keystore.location": str(path),
            "ssl.keystore.password": PASSWORD,
            **{name.replace("_", "."): text for name, text in more.items()},
        }
    )


def test_a_file_that_was_replaced_is_read_again(tmp_path: Path) -> None:
    path = AUTHORITY.server().write_pkcs12(tmp_path / "store.p12")
    config = config_of(path)
    tls = TlsListeners(config)
    server = tls.of("OUT")
    assert server is not None
    assert tls.of("PLAINTEXT") is None
    before = server.context
    assert tls.load(tls.wanted(config)) == []

    other = AUTHORITY.server()
    other.write_pkcs12(path)
    assert tls.apply(tls.load(tls.wanted(config))) == ["OUT"]
    assert server.context is not before
    assert server.identity.certificate == other.certificate
    assert tls.load(tls.wanted(config)) == []


def test_a_damaged_file_changes_nothing(tmp_path: Path) -> None:
    path = AUTHORITY.server().write_pkcs12(tmp_path / "store.p12")
    config = config_of(path)
    tls = TlsListeners(config)
    path.write_bytes(path.read_bytes()[:100])
    for _ in range(2):
        with pytest.raises(ConfigError, match="neither PKCS12 nor JKS, or damaged"):
            tls.load(tls.wanted(config))
    os.remove(path)
    with pytest.raises(ConfigError, match="No such file"):
        tls.load(tls.wanted(config))


@pytest.mark.parametrize(
    ("allowed", "subject", "names", "told"),
    [
        ({}, "localhost", ["localhost", "more"], None),
        ({}, "LOCALHOST", ["localhost"], None),
        ({}, "other", ["localhost"], "DistinguishedName does not match"),
        ({}, "localhost", ["more"], "SubjectAltNames do not match"),
        ({"ssl_allow_dn_changes": "true"}, "other", ["localhost"], None),
        ({"ssl_allow_san_changes": "true"}, "localhost", ["more"], None),
        ({"ssl_allow_dn_changes": "true"}, "other", ["more"], "SubjectAltNames do not match"),
    ],
)
def test_the_names_that_clients_know_stay(
    allowed: dict[str, str], subject: str, names: list[str], told: str | None, tmp_path: Path
) -> None:
    path = AUTHORITY.server().write_pkcs12(tmp_path / "store.p12")
    config = config_of(path, **allowed)
    tls = TlsListeners(config)
    AUTHORITY.server(subject, names=names).write_pkcs12(path)
    if told is None:
        assert tls.apply(tls.load(tls.wanted(config))) == ["OUT"]
    else:
        with pytest.raises(ConfigError, match=told):
            tls.load(tls.wanted(config))


def test_a_listener_gets_no_trust_store_while_it_runs(tmp_path: Path) -> None:
    path = AUTHORITY.server().write_pkcs12(tmp_path / "store.p12")
    tls = TlsListeners(config_of(path))
    trust = AUTHORITY.write_jks(tmp_path / "trust.jks")
    after = config_of(path, ssl_truststore_location=str(trust))
    with pytest.raises(ConfigError, match="without a trust store"):
        tls.load(tls.wanted(after))


def test_the_key_that_is_wrong_is_named_as_it_was_written(tmp_path: Path) -> None:
    path = AUTHORITY.server().write_pkcs12(tmp_path / "store.p12")
    config = config_of(path)
    config.static["listener.name.out.ssl.keystore.location"] = "/none"
    with pytest.raises(
        ConfigError, match=r"^listener\.name\.out\.ssl\.keystore\.location=/none: No"
    ):
        TlsListeners(config)


def test_brokers_have_to_reach_each_other_with_it(tmp_path: Path) -> None:
    """Of the listener that brokers use; by handshakes with the old and the new one."""
    store, trust = tmp_path / "store.p12", tmp_path / "trust.jks"
    AUTHORITY.both("broker").write_pkcs12(store)
    AUTHORITY.write_jks(trust)
    more = {"ssl_truststore_location": str(trust), "ssl_client_auth": "required"}
    config = config_of(store, inter_broker_listener_name="OUT", **more)
    tls = TlsListeners(config)
    AUTHORITY.both("broker").write_pkcs12(store)
    assert tls.apply(tls.load(tls.wanted(config))) == ["OUT"]

    Authority("Another").both("broker").write_pkcs12(store)
    with pytest.raises(ConfigError, match="could not connect to another broker with it: certific"):
        tls.load(tls.wanted(config))
    AUTHORITY.server("broker").write_pkcs12(store)
    with pytest.raises(ConfigError, match="could not connect to another broker with it"):
        tls.load(tls.wanted(config))  # it is for servers only, and clients have to show one
    plain = config_of(store, **more)
    assert len(tls.load(tls.wanted(plain))) == 1
