"""Listeners that speak TLS, asked by a client of Python's own `ssl`.

One broker with a plain listener and three of TLS: open to all, for those with a certificate, and
one that asks for it; about two seconds.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from pybroker_kafka.protocol.apis.metadata import MetadataRequest
from tests.support.certificates import PASSWORD, Authority, pem
from tests.support.processes import BrokerProcess, free_port, running_broker
from tests.support.wire import WireClient, batch, produce_request


class Secured(NamedTuple):
    broker: BrokerProcess
    authority: Authority
    directory: Path
    ports: dict[str, int]

    def context(self, client: str | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=pem(self.authority.certificate))
        if client is not None:
            pair = self.authority.client(client)
            context.load_cert_chain(pair.write_pem(self.directory / f"{client}.pem"))
        return context

    def client(self, listener: str = "open", client: str | None = None) -> WireClient:
        return WireClient(f"127.0.0.1:{self.ports[listener]}", tls=self.context(client))

    def raw(self, listener: str = "open") -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.ports[listener]), timeout=10)

    def lines_since(self, mark: int, word: str) -> list[str]:
        return [line for line in self.broker.log_text[mark:].splitlines() if word in line]

    def wait_for_line(self, mark: int, word: str) -> list[str]:
        ends = time.monotonic() + 120
        while not (found := self.lines_since(mark, word)):
            assert time.monotonic() < ends, self.broker.log_text[mark:][-2000:]
            time.sleep(0.01)
        return found


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("tls")
    authority = Authority()
    first = free_port(4)
    ports = {"plain": first, "open": first + 1, "closed": first + 2, "asking": first + 3}
    store = authority.server().write_pkcs12(directory / "server.p12")
    trust = authority.write_pem(directory / "authority.pem")
    config = {
        "listeners": ",".join(f"{name.upper()}://127.0.0.1:{port}" for name, port in ports.items()),
        "listener.security.protocol.map": "PLAIN:PLAINTEXT,OPEN:SSL,CLOSED:SSL,ASKING:SSL",
        "inter.broker.listener.name": "PLAIN",
        "ssl.keystore.location": str(store),
        "ssl.keystore.password": PASSWORD,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(trust),
        "listener.name.closed.ssl.client.auth": "required",
        "listener.name.asking.ssl.client.auth": "requested",
        "listener.name.asking.ssl.keystore.location": str(
            authority.server("asking").write_jks(directory / "asking.jks")
        ),
        "listener.name.asking.ssl.enabled.protocols": "TLSv1.2",
        "message.max.bytes": "10000000",
    }
    with running_broker(directory, config) as broker:
        yield Secured(broker, authority, directory, ports)


def test_requests_over_tls_are_answered(secured: Secured) -> None:
    with secured.client() as kafka:
        assert kafka.socket.version() == "TLSv1.3"  # type: ignore[attr-defined]
        topic = kafka.create_topic()
        for value in (b"a", b"b" * 3_000_000, b"c" * 40_000):
            offset = kafka.append(topic.name, value)
            assert kafka.read(topic, offset)[0].value == value


def test_answers_come_in_order_to_many_requests_sent_at_once(secured: Secured) -> None:
    with secured.client() as kafka:
        topic = kafka.create_topic()
        request = MetadataRequest(topics=None)
        asked = [kafka.post(request, 9) for _ in range(2000)]
        for number in asked:
            answer = kafka.receive(3, 9, number)
        assert topic.name in {each.name for each in answer.topics}


def test_bytes_that_come_one_record_each(secured: Secured) -> None:
    with secured.client() as kafka:
        kafka._correlation_id = 7
        frame = kafka.frame(MetadataRequest(topics=[]), 9)
        for byte in frame:
            kafka.socket.sendall(bytes([byte]))
        kafka.receive(3, 9, 7)


@pytest.mark.parametrize("cut", [1000, 16_384, 17_000, 150_000])
def test_a_large_request_that_comes_in_pieces(secured: Secured, cut: int) -> None:
    """The broker sleeps until much of it has come, but never for what will not come."""
    with secured.client() as kafka:
        topic = kafka.create_topic()
        value = b"x" * 400_000
        kafka._correlation_id = 3
        frame = kafka.frame(produce_request(topic.name, batch(value)), 9)
        pieces = [frame[at : at + cut] for at in range(0, len(frame), cut)]
        pieces[-1:] = [pieces[-1][:-1], pieces[-1][-1:]]
        for number, piece in enumerate(pieces):
            kafka.socket.sendall(piece)
            if number % 5 == 0 or number > len(pieces) - 4:
                time.sleep(0.005)
        assert kafka.receive(0, 9, 3).responses[0].partition_responses[0].error_code == 0
        kafka.call(MetadataRequest(topics=[]))


def test_one_listener_has_a_certificate_of_its_own(secured: Secured) -> None:
    with secured.client("asking") as kafka:
        certificate = kafka.socket.getpeercert()  # type: ignore[attr-defined]
        assert kafka.socket.version() == "TLSv1.2"  # type: ignore[attr-defined]
        kafka.call(MetadataRequest(topics=[]))
    assert (("commonName", "asking"),) in certificate["subject"]


def test_who_has_no_certificate_is_not_let_in(secured: Secured) -> None:
    mark = len(secured.broker.log_text)
    with pytest.raises(OSError), secured.client("closed") as kafka:
        kafka.call(MetadataRequest(topics=[]), 9)
    lines = secured.wait_for_line(mark, "its TLS handshake failed")
    assert "peer did not return a certificate" in lines[0]
    with secured.client("closed", "alice") as kafka:
        kafka.call(MetadataRequest(topics=[]))
    with secured.client("asking") as kafka:
        kafka.call(MetadataRequest(topics=[]))


def test_a_certificate_of_somebody_else_is_refused(secured: Secured) -> None:
    stranger = Authority("Another").client("alice")
    context = secured.context()
    context.load_cert_chain(stranger.write_pem(secured.directory / "stranger.pem"))
    mark = len(secured.broker.log_text)
    with (
        pytest.raises(OSError),
        WireClient(f"127.0.0.1:{secured.ports['closed']}", tls=context) as kafka,
    ):
        kafka.call(MetadataRequest(topics=[]), 9)
    assert len(secured.wait_for_line(mark, "its TLS handshake failed")) == 1


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (b"\0\0\0\x20\0\x12\0\0\0\0\0\1\0\x04test" + bytes(20), "no TLS handshake"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "an HTTP request"),
        (bytes.fromhex("16030100050100000103"), "TLS handshake"),
        (bytes.fromhex("160301ffff") + bytes(70_000), "TLS handshake"),
    ],
)
def test_what_is_no_handshake_ends_that_connection(
    secured: Secured, sent: bytes, told: str
) -> None:
    mark = len(secured.broker.log_text)
    with secured.client() as other, secured.raw() as stranger:
        stranger.sendall(sent)
        with contextlib.suppress(ConnectionError):
            while stranger.recv(1000):
                pass
        other.call(MetadataRequest(topics=[]))
    assert len(secured.wait_for_line(mark, told)) == 1
    assert not secured.lines_since(mark, "Traceback")


def test_a_handshake_on_a_plain_port_ends_that_connection(secured: Secured) -> None:
    mark = len(secured.broker.log_text)
    with pytest.raises(OSError):
        secured.context().wrap_socket(secured.raw("plain"), server_hostname="localhost")
    assert len(secured.wait_for_line(mark, "a TLS handshake, but")) == 1


def test_half_a_handshake_stops_nobody(secured: Secured) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    half = secured.context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        half.do_handshake()
    hello = outgoing.read()
    with contextlib.ExitStack() as stack:
        for _ in range(50):
            stack.enter_context(secured.raw()).sendall(hello[: len(hello) // 2])
        with secured.client() as kafka:
            kafka.call(MetadataRequest(topics=[]))


def test_a_client_that_does_not_read_stops_nobody(secured: Secured) -> None:
    with secured.client() as lazy:
        topic = lazy.create_topic()
        lazy.append(topic.name, b"x" * 8_000_000)
        lazy.socket.setblocking(False)
        request = lazy.frame(MetadataRequest(topics=None), 9) * 500
        with contextlib.suppress(BlockingIOError, ssl.SSLError):
            for _ in range(200):
                lazy.socket.send(request)
        with secured.client() as kafka:
            for _ in range(20):
                kafka.call(MetadataRequest(topics=[]))


def test_a_record_that_was_changed_on_its_way_ends_that_connection(secured: Secured) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = secured.context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    mark = len(secured.broker.log_text)
    with secured.raw() as sock:
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                sock.sendall(outgoing.read())
                incoming.write(sock.recv(16384))
        tls.write(b"\0\0\0\x20\0\x12")
        record = bytearray(outgoing.read())
        record[-1] ^= 1
        sock.sendall(record)
        with contextlib.suppress(ConnectionError):
            while sock.recv(1000):
                pass
    assert len(secured.wait_for_line(mark, "a TLS record that cannot be read")) == 1
