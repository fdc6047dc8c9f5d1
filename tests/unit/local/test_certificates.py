"""Certificates of a secured local cluster: what they are good for, and when they are made again."""

import ipaddress
import os
import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from pybroker_kafka.local.certificates import LIFE, RENEWAL, prepare_certificates

NAMES = ["localhost", "127.0.0.1", "::1"]
MEMBERS = ["broker-1", "broker-2"]


def prepare(directory: Path, names: list[str] = NAMES, later: timedelta = timedelta()) -> None:
    prepare_certificates(directory, "the-cluster", MEMBERS, names, datetime.now(UTC) + later)


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def certificate_of(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_what_they_say(tmp_path: Path) -> None:
    prepare(tmp_path)
    assert set(contents(tmp_path)) == {"ca.pem", "ca-key.pem", "broker-1.pem", "broker-2.pem"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}
    authority = certificate_of(tmp_path / "ca.pem")
    one, two = (certificate_of(tmp_path / f"{member}.pem") for member in MEMBERS)
    assert one.public_key() != two.public_key()
    for certificate in (one, two):
        certificate.verify_directly_issued_by(authority)
        assert certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == (
            "the-cluster"
        )
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert names.get_values_for_type(x509.DNSName) == ["localhost"]
        assert set(names.get_values_for_type(x509.IPAddress)) == {
            ipaddress.ip_address("127.0.0.1"),
            ipaddress.ip_address("::1"),
        }


def test_both_sides_of_tls_take_them(tmp_path: Path) -> None:
    prepare(tmp_path)
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for context, member in ((server_context, "broker-1"), (client_context, "broker-2")):
        context.load_cert_chain(tmp_path / f"{member}.pem")
        context.load_verify_locations(tmp_path / "ca.pem")
        context.verify_mode = ssl.CERT_REQUIRED
        context.verify_flags |= ssl.VERIFY_X509_STRICT
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    client = client_context.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    for _ in range(3):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert server.getpeercert() is not None
    assert client.getpeercert() is not None


def test_what_is_good_is_kept(tmp_path: Path) -> None:
    prepare(tmp_path)
    before = contents(tmp_path)
    prepare(tmp_path)
    prepare(tmp_path, ["localhost"])  # names more than it must
    prepare(tmp_path, later=LIFE - timedelta(days=1))
    assert contents(tmp_path) == before


def test_what_ends_soon_is_made_again(tmp_path: Path) -> None:
    prepare(tmp_path)
    before = contents(tmp_path)
    prepare(tmp_path, later=LIFE + timedelta(days=1))
    after = contents(tmp_path)
    assert [name for name in before if before[name] != after[name]] == [
        "broker-1.pem",
        "broker-2.pem",
    ]
    # The authority has to outlive what it signs.
    prepare(tmp_path, later=timedelta(days=3650) - LIFE + RENEWAL + timedelta(days=1))
    assert all(before[name] != content for name, content in contents(tmp_path).items())


@pytest.mark.parametrize("name", ["ca.pem", "ca-key.pem", "broker-1.pem"])
@pytest.mark.parametrize("content", [b"", b"rubbish", None])
def test_what_is_damaged_or_lost_is_made_again(
    tmp_path: Path, name: str, content: bytes | None
) -> None:
    prepare(tmp_path)
    if content is None:
        os.unlink(tmp_path / name)
    else:
        (tmp_path / name).write_bytes(content)
    prepare(tmp_path)
    authority = certificate_of(tmp_path / "ca.pem")
    for member in MEMBERS:
        certificate_of(tmp_path / f"{member}.pem").verify_directly_issued_by(authority)


def test_a_new_name_needs_new_ones(tmp_path: Path) -> None:
    prepare(tmp_path)
    before = contents(tmp_path)
    prepare(tmp_path, [*NAMES, "laptop.example"])
    after = contents(tmp_path)
    assert before["ca.pem"] == after["ca.pem"]
    assert before["broker-1.pem"] != after["broker-1.pem"]
