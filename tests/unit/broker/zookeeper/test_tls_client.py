"""The client port with TLS: who gets in as whom, large frames, and bad input before a login."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.protocol.states import WatchedEvent
from kazoo.security import make_acl

from pybroker_kafka.broker.zookeeper.tls_client import client_port_context
from pybroker_kafka.zookeeper.access import Access
from pybroker_kafka.zookeeper.quorum.ensemble_config import ConfigurationError, SecurePort
from tests.support.certificates import PASSWORD, Authority, AuthorityFiles
from tests.support.embedded_zookeeper import embedded_zookeeper
from tests.support.kazoo_clients import started
from tests.support.patience import until
from tests.support.processes import free_port

ACCESS = Access(frozenset({"digest", "x509"}))


class Secured(NamedTuple):
    directory: Path
    plain: int
    port: int

    def context(self, name: str | None = "ann") -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.directory / "ca.pem"))
        if name is not None:
            context.load_cert_chain(self.directory / f"{name}.pem")
        return context

    def connect(self, name: str | None = "ann") -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        return self.context(name).wrap_socket(plain, server_hostname="127.0.0.1")

    def client(self, name: str | None) -> AbstractContextManager[KazooClient]:
        """None: at the port without TLS."""
        tls = {} if name is None else {
            "use_ssl": True, "ca": str(self.directory / "ca.pem"),
            "certfile": str(self.directory / f"{name}.pem"),
            "keyfile": str(self.directory / f"{name}.pem"),
        }  # fmt: skip
        port = self.plain if name is None else self.port
        return started(KazooClient(f"127.0.0.1:{port}", **tls))


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("tls")
    files = AuthorityFiles(directory)
    for name in ("ann", "bob"):
        files.issue(name)
    keys = {
        "ssl.keyStore.location": str(files.issue("zk")),
        "ssl.trustStore.location": str(files.ca),
    }
    secure = SecurePort("127.0.0.1", free_port(), keys)
    with embedded_zookeeper(secure_port=secure, access=ACCESS) as plain:
        yield Secured(directory, plain, secure.port)


def test_a_client_is_who_its_certificate_says(secured: Secured) -> None:
    acl = [make_acl("x509", "CN=ann", all=True), make_acl("auth", "", read=True)]
    with secured.client("ann") as ann, secured.client("bob") as bob:
        ann.create("/of-ann", b"x" * 300_000, acl)
        assert ann.get("/of-ann")[0] == b"x" * 300_000
        assert {one.id.id for one in ann.get_acls("/of-ann")[0]} == {"CN=ann"}
        with pytest.raises(NoAuthError):
            bob.set("/of-ann", b"")
        events: list[WatchedEvent] = []
        assert bob.exists("/seen", watch=events.append) is None
        ann.create("/seen")
        assert bob.get("/seen")[0] == b""
        until(lambda: [event.path for event in events] == ["/seen"])
    with secured.client(None) as stranger, pytest.raises(NoAuthError):
        stranger.get("/of-ann")


def test_many_frames_both_ways(secured: Secured) -> None:
    with secured.client("ann") as client:
        client.create("/many")
        asked = [client.create_async(f"/many/{n}", b"y" * 2000) for n in range(1500)]
        assert all(one.get(timeout=60) for one in asked)
        got = [client.get_async(f"/many/{n}") for n in range(1500)]
        assert all(one.get(timeout=60)[0] == b"y" * 2000 for one in got)


def talk(tls: ssl.SSLSocket) -> bytes:
    tls.sendall(b"conf")
    answer = b""
    while data := tls.recv(4096):
        answer += data
    return answer


def test_four_letter_words_over_tls(secured: Secured) -> None:
    with secured.connect() as tls:
        answer = talk(tls)
    assert f"clientPort={secured.plain}\nsecureClientPort={secured.port}\n".encode() in answer


@pytest.mark.parametrize("said", [b"ruok", b"GET / HTTP/1.1\r\n\r\n", struct.pack(">i", 44) * 20])
def test_a_client_without_tls(secured: Secured, said: bytes) -> None:
    with socket.create_connection(("127.0.0.1", secured.port), timeout=60) as plain:
        plain.sendall(said.ljust(64, b"\0"))
        with contextlib.suppress(ConnectionResetError):
            answer = plain.recv(100)
            assert answer[:1] in (b"", b"\x15")  # an alert


def test_a_client_without_a_certificate(secured: Secured) -> None:
    """With TLS 1.3 it is told after its own part of the handshake."""
    with secured.connect(None) as tls, pytest.raises((ssl.SSLError, ConnectionError)):
        talk(tls)


def test_the_server_goes_on_after_half_a_handshake(secured: Secured) -> None:
    half = [socket.create_connection(("127.0.0.1", secured.port), timeout=60) for _ in range(5)]
    for one in half:
        one.sendall(b"\x16\x03\x01\x02\x00\x01")
    with secured.client("bob") as bob:
        bob.get_children("/")
    for one in half:
        one.close()


@pytest.mark.parametrize("kind", ["pem", "p12", "jks"])
@pytest.mark.parametrize("auth", ["none", "want", "need"])
def test_stores_of_all_kinds(tmp_path: Path, kind: str, auth: str) -> None:
    authority = Authority("ca")
    write = {"pem": "write_pem", "p12": "write_pkcs12", "jks": "write_jks"}[kind]
    getattr(authority.both("zk"), write)(tmp_path / f"zk.{kind}")
    getattr(authority, write)(tmp_path / f"ca.{kind}")
    (tmp_path / "password").write_text(PASSWORD + "\n")
    keys = {
        "ssl.keyStore.location": str(tmp_path / f"zk.{kind}"),
        "ssl.trustStore.location": str(tmp_path / f"ca.{kind}"),
        "ssl.keyStore.passwordPath": str(tmp_path / "password"),
        "ssl.trustStore.password": PASSWORD,
        "ssl.clientAuth": auth,
        "ssl.enabledProtocols": "TLSv1.2",
        "ssl.hostnameVerification": "true",
    }
    context = client_port_context(keys)
    wanted = {"none": ssl.CERT_NONE, "want": ssl.CERT_OPTIONAL, "need": ssl.CERT_REQUIRED}
    assert context.verify_mode is wanted[auth]
    assert context.maximum_version is ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({}, "secureClientPort needs ssl.keyStore.location"),
        ({"ssl.keyStore.location": "/k.pem"}, "secureClientPort needs ssl.trustStore.location"),
        ({"ssl.keyStore.location": "/k.pem", "ssl.clientAuth": "none"}, "/k.pem: No such file"),
        ({"ssl.keyStore.location": "/k", "ssl.clientAuth": "none"}, "its type is not set"),
    ],
)
def test_keys_that_cannot_be(keys: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        client_port_context(keys)
