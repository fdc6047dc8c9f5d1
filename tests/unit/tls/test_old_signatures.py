"""Certificates that Java takes although they are weak: SHA-1, and RSA of 1024 bits."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa

from pybroker_kafka.client.security.tls import explained
from pybroker_kafka.tls import old_signatures
from pybroker_kafka.tls.contexts import client_context, server_context
from pybroker_kafka.tls.settings import TlsSettingsError
from tests.support.certificates import Authority, Sha1Authority, pem
from tests.unit.tls.test_contexts import SERVER, settings, shake_hands, stored, trusting


def rsa_key(bits: int = 2048) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, bits)


OLD = Sha1Authority()
OLD_SERVER = OLD.server(key=rsa_key())


def trusting_pem(certificate: x509.Certificate, **keys: str) -> ssl.SSLContext:
    trusted = {"ssl_truststore_type": "PEM", "ssl_truststore_certificates": pem(certificate)}
    return client_context(settings(**trusted, **keys))


def trusting_old(**keys: str) -> ssl.SSLContext:
    return trusting_pem(OLD.certificate, **keys)


def serving(directory: Path, kind: str = "jks", **keys: str) -> ssl.SSLContext:
    return server_context(settings(**stored(OLD_SERVER, directory, kind), **keys))[0]


@pytest.mark.parametrize("kind", ["pem", "jks", "pkcs12"])
@pytest.mark.parametrize("protocol", ["TLSv1.2", "TLSv1.3"])
def test_sha_1_is_taken_on_both_sides(
    tmp_path: Path, kind: str, protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        server = serving(tmp_path, kind, ssl_enabled_protocols=protocol)
        shake_hands(server, trusting_old())
    assert "ssl.keystore.location: the certificate CN=localhost has a signature with SHA-1" in (
        caplog.text
    )


def test_client_certificates_with_sha_1(tmp_path: Path) -> None:
    """Among brokers: each side has a key store and a trust store of its kind."""
    authority = {
        "ssl_truststore_type": "PEM", "ssl_truststore_certificates": pem(OLD.certificate),
    }  # fmt: skip
    server = serving(tmp_path, ssl_client_auth="required", **authority)
    (tmp_path / "client").mkdir()
    client = OLD.client("alice", key=rsa_key())
    shake_hands(server, trusting_old(**stored(client, tmp_path / "client", "jks")))


def test_short_keys_are_taken_as_well(tmp_path: Path) -> None:
    short = Authority("Short", key=rsa_key(1024))
    pair = short.server(key=rsa_key(1024))
    server = server_context(settings(**stored(pair, tmp_path, "jks")))[0]
    trusted = {"ssl_truststore_certificates": pem(short.certificate)}
    shake_hands(server, client_context(settings(ssl_truststore_type="PEM", **trusted)))


def test_the_suites_stay_and_others_are_not_lowered(tmp_path: Path) -> None:
    before = server_context(settings(**stored(SERVER, tmp_path, "jks")))[0]
    assert before.security_level == ssl.create_default_context().security_level
    old = serving(tmp_path)
    assert [one["name"] for one in old.get_ciphers()] == [
        one["name"] for one in before.get_ciphers()
    ]
    named = serving(tmp_path, ssl_cipher_suites="TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
                    ssl_enabled_protocols="TLSv1.2")  # fmt: skip
    shake_hands(named, trusting_old())
    with pytest.raises(ssl.SSLCertVerificationError, match="self-signed certificate"):
        shake_hands(serving(tmp_path), client_context(trusting()))


@pytest.mark.parametrize("weak", ["md5", "512"])
def test_what_java_refuses_is_refused_by_name(
    tmp_path: Path, weak: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No library makes such certificates any more: one that is fine is read as if it were weak."""
    if weak == "md5":
        monkeypatch.setattr(old_signatures, "REFUSED_HASHES", ("sha1",))
        complaint = "CN=localhost has a signature with SHA1, which Java refuses too"
    else:
        monkeypatch.setattr(old_signatures, "LEAST_RSA_BITS", 3072)
        complaint = "CN=localhost has a key of 2048 bits, which Java refuses too"
    with pytest.raises(TlsSettingsError, match=complaint):
        serving(tmp_path)


def test_a_weak_certificate_below_a_good_authority_says_what_to_do(tmp_path: Path) -> None:
    """A trust store lowers the level for what is in it alone."""
    mixed = Sha1Authority("Mixed", own_algorithm_is_old=False)
    pair = mixed.server(key=rsa_key())
    server = server_context(settings(**stored(pair, tmp_path, "jks")))[0]
    with pytest.raises(ssl.SSLCertVerificationError) as caught:
        shake_hands(server, trusting_pem(mixed.certificate))
    assert "itself in ssl.truststore.location" in explained(caught.value)
    shake_hands(server, trusting_pem(pair.certificate))
