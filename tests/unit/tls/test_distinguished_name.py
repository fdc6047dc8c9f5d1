"""Names in certificates, as Java writes them: its own answers, and generated ones."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.tls.distinguished_name import MalformedName, rfc2253

GOLDEN = Path(__file__).parents[2] / "golden" / "names_in_certificates.json"
KEYWORDS = {
    "CN": NameOID.COMMON_NAME, "O": NameOID.ORGANIZATION_NAME, "L": NameOID.LOCALITY_NAME,
    "OU": NameOID.ORGANIZATIONAL_UNIT_NAME, "UID": NameOID.USER_ID,
}  # fmt: skip
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)


@pytest.mark.parametrize(("der", "text"), json.loads(GOLDEN.read_text()))
def test_as_java(der: str, text: str) -> None:
    """What `new X500Principal(der).getName()` of Java 17 gives."""
    assert rfc2253(bytes.fromhex(der)) == text


@given(st.lists(st.tuples(st.sampled_from(sorted(KEYWORDS)), TEXTS), max_size=5))
def test_generated_names(parts: list[tuple[str, str]]) -> None:
    name = x509.Name(
        [x509.NameAttribute(KEYWORDS[key], text, _validate=False) for key, text in parts]
    )
    expected = []
    for key, text in reversed(parts):
        escaped = ""
        for at, char in enumerate(text):
            outer = not text[:at].strip(" ") or not text[at:].strip(" ")
            if char in ',=+<>#;"\\' or (char == " " and outer):
                escaped += "\\"
            escaped += "\\00" if char == "\0" else char
        expected.append(f"{key}={escaped}")
    assert rfc2253(name.public_bytes()) == ",".join(expected)


@given(st.binary(max_size=60))
def test_other_bytes_are_only_ever_refused(data: bytes) -> None:
    for der in (data, bytes([0x30, len(data)]) + data):
        with contextlib.suppress(MalformedName):
            rfc2253(der)


@given(st.data())
def test_changed_names_are_only_ever_refused(data: st.DataObject) -> None:
    der = bytearray.fromhex(json.loads(GOLDEN.read_text())[0][0])
    for _ in range(data.draw(st.integers(1, 3))):
        der[data.draw(st.integers(0, len(der) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(MalformedName):
        rfc2253(bytes(der))
