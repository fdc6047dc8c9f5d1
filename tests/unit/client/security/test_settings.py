"""Security settings of clients: what they make, and what is wrong with them."""

from __future__ import annotations

import base64
import json
import ssl
from pathlib import Path

import pytest

from pybroker_kafka.client.errors import SettingsError
from pybroker_kafka.client.security.connector import OPEN
from pybroker_kafka.client.security.settings import connector_from
from pybroker_kafka.client.security.unsecured_token import unsecured_token
from tests.support.certificates import PASSWORD, AuthorityFiles

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
LOGIN = {
    "security.protocol": "sasl_plaintext",
    "sasl.mechanism": "SCRAM-SHA-256",
    "sasl.jaas.config": f'{SCRAM} required username="a" password="secret";',
}

KERBEROS = "com.sun.security.auth.module.Krb5LoginModule"
GSSAPI = {"sasl.mechanism": "GSSAPI", "sasl.kerberos.service.name": "kafka"}


def test_a_jaas_file_has_the_login_module(tmp_path: Path) -> None:
    file = tmp_path / "jaas.conf"
    file.write_text(
        f"KafkaServer {{ {SCRAM} required username=broker password=b; }};\n"
        f"// of clients\nKafkaClient {{ a.Other required;\n"
        f' {SCRAM} required username="from-file" password="secret"; }};\n'
    )
    settings = {**LOGIN, "java.security.auth.login.config": str(file)}
    assert "as a)" in repr(connector_from(settings)), "the text comes before the file"
    del settings["sasl.jaas.config"]
    assert "as from-file)" in repr(connector_from(settings))
    with pytest.raises(SettingsError, match=r"no section KafkaClient with .*Plain"):
        connector_from({**settings, "sasl.mechanism": "PLAIN"})
    file.write_text("KafkaClient {\n x required password=secret;")
    with pytest.raises(SettingsError, match=r"jaas.conf: .*does not end \(line 1\)") as caught:
        connector_from(settings)
    assert "secret" not in str(caught.value)
    file.unlink()
    with pytest.raises(SettingsError, match=r"login.config: cannot read .*jaas.conf"):
        connector_from(settings)


def test_nothing_is_plain_text() -> None:
    assert connector_from({}) == OPEN
    assert connector_from({"security.protocol": "PLAINTEXT", "ssl.truststore.type": "x"}) == OPEN


def test_a_login() -> None:
    connector = connector_from(LOGIN)
    assert connector.protocol == "SASL_PLAINTEXT"
    assert "secret" not in repr(connector)


def test_the_name_is_checked_unless_that_is_switched_off() -> None:
    checked = connector_from({"security.protocol": "SSL"})
    assert checked.protocol == "SSL"
    assert checked.tls is not None
    assert checked.tls.check_hostname
    settings = {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": ""}
    unchecked = connector_from(settings)
    assert unchecked.tls is not None
    assert not unchecked.tls.check_hostname
    assert unchecked.tls.verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"security.protocol": "TLS"}, "security.protocol=TLS is not one of PLAINTEXT, SSL"),
        ({"sasl.mechanism": "CRAM-MD5"}, "sasl.mechanism=CRAM-MD5 is not one of PLAIN"),
        ({"sasl.mechanism": ""}, "the login module of GSSAPI is com.sun.security.auth.module"),
        (
            {"sasl.mechanism": "", "sasl.jaas.config": f"{KERBEROS} required;"},
            "sasl.kerberos.service.name is not set",
        ),
        (
            {**GSSAPI, "sasl.jaas.config": f"{KERBEROS} required useKeyTab=true;"},
            "sasl.jaas.config: with useKeyTab=true it needs a keyTab and a principal",
        ),
        (
            {**GSSAPI, "sasl.jaas.config": f"{KERBEROS} required;"},
            "useTicketCache=true after kinit",
        ),
        (
            {**GSSAPI, "sasl.jaas.config": f"{KERBEROS} required serviceName=other;"},
            "its serviceName and sasl.kerberos.service.name differ",
        ),
        ({"sasl.jaas.config": ""}, "sasl.jaas.config is not set; for SCRAM-SHA-256 it is: org"),
        (
            {"sasl.jaas.config": f"{SCRAM} required password=secret"},
            "sasl.jaas.config: .*terminated",
        ),
        ({"sasl.jaas.config": f"{SCRAM} required password=secret;"}, "has no username"),
        ({"sasl.jaas.config": f"{SCRAM} required;{SCRAM} required;"}, "2 login modules"),
        ({"sasl.mechanism": "PLAIN"}, "the login module of PLAIN is .*PlainLoginModule"),
    ],
)
def test_a_wrong_login_is_named(changes: dict[str, str], line: str) -> None:
    with pytest.raises(SettingsError, match=line) as caught:
        connector_from(LOGIN | changes)
    assert "secret" not in str(caught.value)


def test_wrong_stores_are_named(tmp_path: Path) -> None:
    authority = AuthorityFiles(tmp_path)
    empty = tmp_path / "empty"
    empty.touch()
    good = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.ca),
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(authority.issue("client").with_suffix(".p12")),
        "ssl.keystore.password": PASSWORD,
        "ssl.key.password": PASSWORD,
    }
    connector_from(good)
    for changes, key in (
        ({"ssl.truststore.location": str(tmp_path / "none")}, "ssl.truststore.location"),
        ({"ssl.truststore.location": str(empty)}, "ssl.truststore.location"),
        ({"ssl.keystore.location": str(authority.trust)}, "ssl.keystore.location"),
        ({"ssl.keystore.password": "other"}, "ssl.keystore"),
        ({"ssl.enabled.protocols": "TLSv9"}, "ssl.enabled.protocols"),
        ({"ssl.endpoint.identification.algorithm": "x"}, "ssl.endpoint.identification.algorithm"),
    ):
        with pytest.raises(SettingsError, match=key) as caught:
            connector_from(good | changes)
        assert PASSWORD not in str(caught.value)


def test_an_unsecured_token() -> None:
    options = {
        "unsecuredLoginStringClaim_sub": "alice",
        "unsecuredLoginNumberClaim_n": "1.5",
        "unsecuredLoginListClaim_scope": "|a|b",
        "unsecuredLoginLifetimeSeconds": "60",
        "unsecuredLoginExtension_x": "left to the exchange",
    }
    head, body, signature = unsecured_token(options, 10.0009).split(".")
    assert signature == ""
    assert _decoded(head) == {"alg": "none"}
    assert _decoded(body) == {
        "iat": 10.0, "exp": 70.0, "sub": "alice", "n": 1.5, "scope": ["a", "b"],
    }  # fmt: skip
    with pytest.raises(SettingsError, match="unsecuredLoginNumberClaim_n is no number"):
        unsecured_token({"unsecuredLoginNumberClaim_n": "x"}, 0)


def _decoded(part: str) -> object:
    return json.loads(base64.urlsafe_b64decode(part + "=="))
