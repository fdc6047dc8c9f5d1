"""Java's own key store format: a file that keytool has made, and damaged ones."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given, settings
from hypothesis import strategies as st

from pybroker_kafka.tls.jks import JksError, WrongPassword, read_jks, unprotect
from tests.support.certificates import protect_jks_key

# keytool -genkeypair -storetype JKS `-storepass störe-pw1 -keypass kéy-pw22`, and -importcert.
OF_KEYTOOL = base64.b64decode(
    "/u3+7QAAAAIAAAACAAAAAgAFb3RoZXIAAAGiBcL8+wAFWC41MDkAAAFFMIIBQTCB6aADAgECAggfgRcjKSSxaTAK"
    "BggqhkjOPQQDAjAVMRMwEQYDVQQDEwpvZiBrZXl0b29sMCAXDTI2MTEyMzAwMTYzMVoYDzIxMjYxMDMwMDAxNjMx"
    "WjAVMRMwEQYDVQQDEwpvZiBrZXl0b29sMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE0eeP3gbie3lAxiYvJQHz"
    "k3KzIUtKdIjXj5STR7DeqBXDL1YVVfkZXF4C22LHdP4b+lUPdtqFKR0rxHMIMV6yRKMhMB8wHQYDVR0OBBYEFCnw"
    "bPx85kA6TSC/KmEEBRj7iasZMAoGCCqGSM49BAMCA0cAMEQCIEH1sHesFmhRhUdRcMFYnDW2o06YdHi9nHJV1Zjd"
    "u5U8AiAtV9jiOxFkyWgD7GMwwPPLk67STW50ePo9qEUQ+DwYBwAAAAEAAm1lAAABogXC8ZQAAAB/MH0wDgYKKwYB"
    "BAEqAhEBAQUABGvMIBnLXprKY7a19LxCG/37APeqDqsQiuysLKBPMSRDxdBekyoxdeZr4qSBEWS64G3/J/ZVAoJB"
    "1PxL8epJm+dqoxbCGY/Wo1UkyRqwzmmGtrdcXCS8MvYPqSU5+6bZ+SRFcHt8Se3tlwhTgAAAAAEABVguNTA5AAAB"
    "RTCCAUEwgemgAwIBAgIIH4EXIykksWkwCgYIKoZIzj0EAwIwFTETMBEGA1UEAxMKb2Yga2V5dG9vbDAgFw0yNjEx"
    "MjMwMDE2MzFaGA8yMTI2MTAzMDAwMTYzMVowFTETMBEGA1UEAxMKb2Yga2V5dG9vbDBZMBMGByqGSM49AgEGCCqG"
    "SM49AwEHA0IABNHnj94G4nt5QMYmLyUB85NysyFLSnSI14+Uk0ew3qgVwy9WFVX5GVxeAttix3T+G/pVD3bahSkd"
    "K8RzCDFeskSjITAfMB0GA1UdDgQWBBQp8Gz8fOZAOk0gvyphBAUY+4mrGTAKBggqhkjOPQQDAgNHADBEAiBB9bB3"
    "rBZoUYVHUXDBWJw1tqNOmHR4vZxyVdWY3buVPAIgLVfY4jsRZMloA+xjMMDzy5Ou0k1udHj6PahFEPg8GAfNIuqa"
    "x4Cu2yGfCsX0rCBkTXF3wg=="
)
STORE, KEY = "störe-pw1", "kéy-pw22"


def test_what_keytool_has_made() -> None:
    content = read_jks(OF_KEYTOOL, STORE, KEY)
    (entry,) = content.keys
    assert entry.alias == "me"
    key = serialization.load_der_private_key(entry.key, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    certificate = x509.load_der_x509_certificate(entry.chain[0])
    assert certificate.public_key() == key.public_key()
    assert content.trusted == (entry.chain[0],)


def test_without_a_password_the_certificates_are_read() -> None:
    content = read_jks(OF_KEYTOOL, None, None)
    assert content.keys == ()
    assert len(content.trusted) == 1


def test_wrong_passwords() -> None:
    for store, key in (("wrong", KEY), (STORE, "wrong"), (STORE, None), ("", KEY)):
        with pytest.raises(WrongPassword) as raised:
            read_jks(OF_KEYTOOL, store, key)
        assert "pw" not in str(raised.value)


@settings(max_examples=100, deadline=None)
@given(st.binary(min_size=1, max_size=300), st.text(st.characters(codec="utf-16"), max_size=10))
def test_a_protected_key_is_that_key(key: bytes, password: str) -> None:
    protected = protect_jks_key(key, password, os.urandom(20))
    assert unprotect(protected, password) == key
    with pytest.raises(WrongPassword):
        unprotect(protected, password + "x")


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damaged_files_are_only_ever_refused(data: st.DataObject) -> None:
    """The digest is made anew, or nothing but the digest would be tested."""
    body = bytearray(OF_KEYTOOL[:-20])
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(body[: data.draw(st.integers(0, len(body)))])
    for changed in (bytes(body), cut):
        digest = hashlib.sha1(STORE.encode("utf-16-be") + b"Mighty Aphrodite" + changed).digest()
        with contextlib.suppress(JksError):
            read_jks(changed + digest, STORE, KEY)
