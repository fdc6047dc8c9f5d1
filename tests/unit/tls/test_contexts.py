"""Contexts of Kafka's keys, by handshakes in memory; and what is refused, by its line."""

from __future__ import annotations

import contextlib
import ssl
from pathlib import Path

import pytest

from pybroker_kafka.tls.contexts import client_context, server_context
from pybroker_kafka.tls.settings import TlsSettings, TlsSettingsError, read_settings
from tests.support.certificates import PASSWORD, Authority, Pair, pem

AUTHORITY = Authority()
SERVER = AUTHORITY.server()
CLIENT = AUTHORITY.client("alice")


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, name: str = "localhost") -> None:
    """Raises ssl.SSLError of either side."""
    ins, outs = (ssl.MemoryBIO(), ssl.MemoryBIO()), (ssl.MemoryBIO(), ssl.MemoryBIO())
    sides = (
        client.wrap_bio(ins[0], outs[0], server_hostname=name),
        server.wrap_bio(ins[1], outs[1], server_side=True),
    )
    done = [False, False]
    for _ in range(10):
        for each in (0, 1):
            try:
                if done[each]:
                    sides[each].read(1)
                else:
                    sides[each].do_handshake()
                    done[each] = True
            except ssl.SSLWantReadError:
                pass
            ins[1 - each].write(outs[each].read())
    assert all(done)


def settings(**keys: str) -> TlsSettings:
    return read_settings({name.replace("_", "."): text for name, text in keys.items()})


def trusting(**keys: str) -> TlsSettings:
    return settings(
        ssl_truststore_type="PEM", ssl_truststore_certificates=pem(AUTHORITY.certificate), **keys
    )


def inline(pair: Pair, password: str | None = None) -> dict[str, str]:
    return {
        "ssl_keystore_type": "PEM",
        "ssl_keystore_key": pair.key_pem(password),
        "ssl_keystore_certificate_chain": pair.chain_pem(),
        **({"ssl_key_password": password} if password else {}),
    }


def stored(pair: Pair, directory: Path, kind: str) -> dict[str, str]:
    path = directory / f"store.{kind}"
    if kind == "pem":
        pair.write_pem(path)
        return {"ssl_keystore_type": "PEM", "ssl_keystore_location": str(path)}
    (pair.write_jks if kind == "jks" else pair.write_pkcs12)(path)
    return {"ssl_keystore_location": str(path), "ssl_keystore_password": PASSWORD}


@pytest.mark.parametrize("kind", ["pem", "jks", "pkcs12"])
def test_key_stores_of_all_kinds(kind: str, tmp_path: Path) -> None:
    server, identity = server_context(
        trusting(ssl_client_auth="required", **stored(SERVER, tmp_path, kind))
    )
    shake_hands(server, client_context(trusting(**inline(CLIENT))))
    assert identity.certificate == SERVER.certificate
    assert "PRIVATE KEY" not in repr(identity)


def test_pem_in_one_line_with_a_locked_key() -> None:
    keys = {name: text.replace("\n", " ") for name, text in inline(SERVER, "locked").items()}
    server, _ = server_context(settings(**keys))
    shake_hands(server, client_context(trusting()))


def test_a_trust_store_of_java(tmp_path: Path) -> None:
    trust = AUTHORITY.write_jks(tmp_path / "trust.jks")
    server, _ = server_context(settings(**inline(SERVER)))
    for password in ({}, {"ssl_truststore_password": PASSWORD}):
        shake_hands(
            server, client_context(settings(ssl_truststore_location=str(trust), **password))
        )


def test_the_name_of_the_host_is_looked_at_unless_it_is_not_to_be() -> None:
    server, _ = server_context(settings(**inline(SERVER)))
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(server, client_context(trusting()), "elsewhere")
    unchecked = trusting(ssl_endpoint_identification_algorithm="")
    shake_hands(server, client_context(unchecked), "elsewhere")


def test_a_leaf_may_be_trusted_by_itself() -> None:
    server, _ = server_context(settings(**inline(SERVER)))
    only = settings(ssl_truststore_type="PEM", ssl_truststore_certificates=pem(SERVER.certificate))
    shake_hands(server, client_context(only))


@pytest.mark.parametrize(
    ("keys", "version", "cipher"),
    [
        ({"ssl_enabled_protocols": "TLSv1.2"}, "TLSv1.2", None),
        ({"ssl_enabled_protocols": "TLSv1.2, TLSv1.3"}, "TLSv1.3", None),
        (
            {"ssl_cipher_suites": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"},
            "TLSv1.2",
            "ECDHE-ECDSA-AES256-GCM-SHA384",
        ),
        (
            {
                "ssl_cipher_suites": "TLS_AES_256_GCM_SHA384,TLS_AES_128_GCM_SHA256,"
                "TLS_CHACHA20_POLY1305_SHA256"
            },
            "TLSv1.3",
            None,
        ),
    ],
)
def test_versions_and_suites(keys: dict[str, str], version: str, cipher: str | None) -> None:
    server, _ = server_context(settings(**inline(SERVER), **keys))
    ins, outs = (ssl.MemoryBIO(), ssl.MemoryBIO()), (ssl.MemoryBIO(), ssl.MemoryBIO())
    client = client_context(trusting()).wrap_bio(ins[0], outs[0], server_hostname="localhost")
    other = server.wrap_bio(ins[1], outs[1], server_side=True)
    for _ in range(4):
        for each, side in ((0, client), (1, other)):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
            ins[1 - each].write(outs[each].read())
    assert client.version() == version
    assert cipher is None or (client.cipher() or ("",))[0] == cipher


def complaint(**keys: str) -> str:
    with pytest.raises(TlsSettingsError) as raised:
        server_context(settings(**keys))
    line = str(raised.value)
    assert "\n" not in line
    assert "hunter2" not in line
    return line


def test_what_cannot_be_is_said(tmp_path: Path) -> None:
    pkcs12 = stored(SERVER, tmp_path, "pkcs12")
    jks = stored(SERVER, tmp_path, "jks")
    pem_file = stored(SERVER, tmp_path, "pem")
    wrong = {"ssl_keystore_password": "hunter2"}
    assert "the password is wrong" in complaint(**{**pkcs12, **wrong})
    assert "the password is wrong" in complaint(**{**jks, **wrong})
    assert "the password of its key" in complaint(**jks, ssl_key_password="hunter2")
    assert "No such file" in complaint(**{**pkcs12, "ssl_keystore_location": "/none"})
    assert "has no password; use ssl.key.password" in complaint(**pem_file, **wrong)
    assert "is not set: TLS needs a key" in complaint()
    assert "ssl.keystore.password is not set" in complaint(ssl_keystore_location="/none")
    assert "does not fit" in complaint(**{**inline(SERVER), "ssl_keystore_key": CLIENT.key_pem()})
    locked = inline(SERVER, "secret")
    assert "ssl.key.password is not set" in complaint(
        **{name: text for name, text in locked.items() if name != "ssl_key_password"}
    )
    assert "ssl.key.password is wrong" in complaint(**{**locked, "ssl_key_password": "hunter2"})
    assert "needs one private key" in complaint(**{**inline(SERVER), "ssl_keystore_key": "x"})
    (tmp_path / "jceks").write_bytes(bytes.fromhex("cececece") + bytes(100))
    assert "JCEKS is not supported" in complaint(
        **{**pkcs12, "ssl_keystore_location": str(tmp_path / "jceks")}
    )
    (tmp_path / "odd").write_bytes(b"odd")
    assert "neither PKCS12 nor JKS" in complaint(
        **{**pkcs12, "ssl_keystore_location": str(tmp_path / "odd")}
    )


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"ssl_engine_factory_class": "a.B"}, "ssl.engine.factory.class: it names a Java class"),
        ({"ssl_provider": "BC"}, "this broker uses OpenSSL for TLS"),
        ({"ssl_protocol": "SSLv3"}, "ssl.protocol: use one of TLS"),
        ({"ssl_enabled_protocols": "TLSv1.2,SSLv3"}, "ssl.enabled.protocols: it may name"),
        ({"ssl_keystore_type": "BCFKS"}, "ssl.keystore.type: use one of JKS"),
        ({"ssl_client_auth": "maybe"}, "ssl.client.auth: use one of none"),
        ({"ssl_keystore_key": "x"}, "ssl.keystore.certificate.chain is missing"),
        ({"ssl_cipher_suites": "TLS_NO_SUCH"}, "TLS_NO_SUCH is not known"),
        ({"ssl_cipher_suites": "TLS_AES_128_GCM_SHA256"}, "OpenSSL cannot switch off single ones"),
        (
            {
                "ssl_cipher_suites": "ECDHE-RSA-AES256-GCM-SHA384",
                "ssl_enabled_protocols": "TLSv1.3",
            },
            "none of them is for ssl.enabled.protocols=TLSv1.3",
        ),
        ({"ssl_endpoint_identification_algorithm": "ldaps"}, "use https"),
    ],
)
def test_values_that_cannot_work_name_their_key(keys: dict[str, str], told: str) -> None:
    defaults = inline(SERVER) if "ssl_keystore_key" not in keys else {}
    assert told in complaint(**{**defaults, **keys})


def test_no_secret_is_in_a_repr() -> None:
    found = settings(
        ssl_keystore_location="/k", ssl_keystore_password="hunter2", ssl_key_password="x"
    )
    assert "hunter2" not in repr(found)
