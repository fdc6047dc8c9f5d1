"""A connection over TLS against a dumb twin: whichever way bytes come, the frames are the same."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pybroker_kafka.broker.network.bad_input import BadInput
from pybroker_kafka.broker.network.connection_quotas import MemoryPool
from pybroker_kafka.broker.network.memory_shortage import MemoryShortage
from pybroker_kafka.broker.network.receive_buffer import ReceiveMemory
from pybroker_kafka.broker.network.request import ConnectionInfo
from pybroker_kafka.broker.network.selector import READ, WRITE
from pybroker_kafka.broker.network.send_queue import Part
from pybroker_kafka.broker.network.tls_connection import (
    HANDSHAKE,
    HANDSHAKE_SECONDS,
    PIECE_BYTES,
    RECORDS_AT_ONCE,
    TlsConnection,
)
from pybroker_kafka.broker.security.tls.principal_mapping import parse_rules
from pybroker_kafka.broker.security.tls.server_tls import ServerTls
from pybroker_kafka.tls.settings import read_settings
from tests.support.certificates import Authority, pem
from tests.support.cold_files import drop_from_cache, read_what_is_cold
from tests.support.connections import MAX_FRAME_BYTES, Nobody

AUTHORITY = Authority()
SERVER, ALICE = AUTHORITY.server(), AUTHORITY.client("alice")


class Watched:
    """A selector that remembers what is watched."""

    def __init__(self) -> None:
        self.events = READ

    def modify(self, fileno: int, events: int) -> None:
        self.events = events


def server_tls(client_auth: str = "none", rules: str = "DEFAULT") -> ServerTls:
    keys = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": SERVER.key_pem(),
        "ssl.keystore.certificate.chain": SERVER.chain_pem(),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": pem(AUTHORITY.certificate),
        "ssl.client.auth": client_auth,
    }
    return ServerTls(read_settings(keys), parse_rules(rules))


OPEN = server_tls()


class Peer:
    """The other end: TLS in memory, so that a test decides which bytes go when."""

    def __init__(
        self,
        sock: socket.socket,
        context: ssl.SSLContext | None = None,
        session: ssl.SSLSession | None = None,
    ) -> None:
        context = context or ssl.create_default_context(cadata=pem(AUTHORITY.certificate))
        self.socket = sock
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(
            self.incoming, self.outgoing, server_hostname="localhost", session=session
        )

    def step(self) -> bool:
        """Of the handshake; whether it is finished here."""
        self.take_in()
        with contextlib.suppress(ssl.SSLWantReadError):
            self.tls.do_handshake()
            return True
        return False

    def take_in(self) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionError):
            while data := self.socket.recv(1 << 16):
                self.incoming.write(data)

    def read(self) -> bytes:
        self.take_in()
        found = b""
        with contextlib.suppress(ssl.SSLWantReadError):
            while data := self.tls.read(1 << 20):
                found += data
        return found


@contextmanager
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        yield ours, theirs


def connection_over(sock: socket.socket, tls: ServerTls = OPEN) -> tuple[TlsConnection, Watched]:
    watched = Watched()
    selector: Any = watched
    peer = ConnectionInfo("h", 1, "L", "SSL")
    made = TlsConnection(tls, sock, peer, selector, Nobody(), MAX_FRAME_BYTES, 0.0)
    return made, watched


def shake_hands(connection: TlsConnection, peer: Peer) -> None:
    for _ in range(10):
        done = peer.step()
        with contextlib.suppress(BlockingIOError):
            peer.socket.sendall(peer.outgoing.read())
        connection.receive()
        if done and connection.needed != HANDSHAKE:
            peer.take_in()
            return
    raise AssertionError("no handshake")


def frames_of(connection: TlsConnection) -> Iterator[bytes]:
    """Whole frames, taken as the handlers do."""
    while connection.frame_ready():
        begin, end = connection.start + 4, connection.start + connection.needed
        yield bytes(connection.view[begin:end])
        connection.start = end


@settings(max_examples=30, deadline=None)
@given(
    sizes=st.lists(
        st.one_of(st.integers(0, 50), st.integers(0, 40_000), st.sampled_from([16384, 300_000])),
        min_size=1,
        max_size=12,
    ),
    data=st.data(),
)
def test_frames_come_out_as_they_went_in(sizes: list[int], data: st.DataObject) -> None:
    """Records of any size, cut anywhere on their way."""
    frames = [os.urandom(size) for size in sizes]
    plain = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
    with sockets() as (ours, theirs):
        connection, _ = connection_over(ours)
        peer = Peer(theirs)
        shake_hands(connection, peer)
        while plain:
            size = data.draw(st.sampled_from([1, 5, 100, 16384, 1 << 20]))
            with contextlib.suppress(ssl.SSLWantWriteError):
                for start in range(0, min(size, len(plain)), 16384):
                    peer.tls.write(plain[start : min(start + 16384, size)])
            plain = plain[size:]
        on_the_wire = peer.outgoing.read()
        got: list[bytes] = []
        while on_the_wire:
            cut = data.draw(st.sampled_from([1, 7, 1000, 100_000, 1 << 20]))
            with contextlib.suppress(BlockingIOError):
                sent = theirs.send(on_the_wire[:cut])
                on_the_wire = on_the_wire[sent:]
            assert connection.receive()
            got += frames_of(connection)
        while len(got) < len(frames):
            assert connection.receive()
            more = list(frames_of(connection))
            assert more
            got += more
        assert got == frames
        # Nothing is left where epoll would not see it.
        assert not connection.frame_ready()
        assert connection.start == connection.end


class FileSlice:
    def __init__(self, path: Path, position: int, size: int) -> None:
        self._file = path.open("rb")
        self.position = position
        self._size = size

    def __len__(self) -> int:
        return self._size

    def fileno(self) -> int:
        return self._file.fileno()

    def read_failed(self, error: OSError) -> None:
        """A socket that is full says it, too."""


@pytest.fixture(scope="module")
def log_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tls") / "segment"
    path.write_bytes(os.urandom(3_000_000))
    return path


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_parts_leave_in_order_whoever_reads_how(log_file: Path, data: st.DataObject) -> None:
    content = log_file.read_bytes()
    kinds = st.sampled_from(["small", "large", "view", "file", "empty"])
    with sockets() as (ours, theirs):
        connection, _ = connection_over(ours)
        peer = Peer(theirs)
        shake_hands(connection, peer)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, data.draw(st.integers(2000, 300_000)))
        expected, got = b"", b""
        for _ in range(data.draw(st.integers(1, 4))):
            parts: list[Part] = []
            for kind in data.draw(st.lists(kinds, min_size=1, max_size=5)):
                at, size = data.draw(st.integers(0, 1_000_000)), data.draw(st.integers(1, 400_000))
                if kind == "small":
                    size = min(size, 300)
                piece = b"" if kind == "empty" else content[at : at + size]
                expected += piece
                if kind == "file":
                    parts.append(FileSlice(log_file, at, size))
                else:
                    parts.append(memoryview(piece) if kind == "view" else piece)
            connection.out.add(parts)
            if data.draw(st.booleans()):
                drop_from_cache(log_file)
            if data.draw(st.booleans()):
                connection.out.flush()
                got += peer.read()
        for _ in range(100_000):
            drained = connection.out.flush()
            assert connection.out.blocked is not drained
            got += peer.read()
            read_what_is_cold(connection.out)
            if drained:
                break
        assert got == expected
        assert connection.out.size == 0
        assert not connection.out.parts


def test_one_flush_sends_its_share_only(log_file: Path) -> None:
    with sockets() as (ours, theirs):
        connection, _ = connection_over(ours)
        peer = Peer(theirs)
        shake_hands(connection, peer)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 24)
        connection.out.add([FileSlice(log_file, 0, 3_000_000)])
        connection.out.flush()
        assert connection.out.blocked
        assert connection.out.size >= 3_000_000 - (1 << 20) - PIECE_BYTES


def test_a_file_that_shrinks_ends_the_connection(tmp_path: Path) -> None:
    path = tmp_path / "short"
    path.write_bytes(bytes(100))
    with sockets() as (ours, theirs):
        connection, _ = connection_over(ours)
        shake_hands(connection, Peer(theirs))
        connection.out.add([FileSlice(path, 0, 50_000)])
        with pytest.raises(ConnectionAbortedError):
            connection.out.flush()


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_changed_bytes_end_it_and_nothing_else(data: st.DataObject) -> None:
    """In the handshake or behind it: only BadInput or OSError comes out, and no wrong frame."""
    with sockets() as (ours, theirs):
        connection, _ = connection_over(ours)
        peer = Peer(theirs)
        finished = data.draw(st.booleans())
        if finished:
            shake_hands(connection, peer)
            peer.tls.write((5).to_bytes(4, "big") + b"hello")
        else:
            peer.step()
        wire = bytearray(peer.outgoing.read())
        for _ in range(data.draw(st.integers(1, 3))):
            wire[data.draw(st.integers(0, len(wire) - 1))] ^= data.draw(st.integers(1, 255))
        theirs.sendall(wire[: data.draw(st.integers(1, len(wire)))])
        with contextlib.suppress(BadInput, OSError):
            connection.receive()
            assert list(frames_of(connection)) == []


@settings(max_examples=80, deadline=None)
@given(st.binary(min_size=1, max_size=300))
def test_any_bytes_instead_of_a_handshake(junk: bytes) -> None:
    with sockets() as (ours, theirs):
        connection, _ = connection_over(ours)
        theirs.sendall(junk)
        with contextlib.suppress(BadInput, OSError):
            connection.receive()
        assert list(frames_of(connection)) == []


def test_nothing_comes_through_before_the_handshake_is_over() -> None:
    with sockets() as (ours, theirs):
        connection, _ = connection_over(ours, server_tls("required"))
        peer = Peer(theirs)
        peer.step()
        theirs.sendall(peer.outgoing.read())
        connection.receive()
        assert peer.step()  # TLS 1.3: the client is done before the server has looked
        peer.tls.write((1).to_bytes(4, "big") + b"x")
        theirs.sendall(peer.outgoing.read())
        with pytest.raises(OSError):
            connection.receive()
        assert connection.closed
        assert not connection.frame_ready()


@pytest.mark.parametrize(
    ("client_auth", "rules", "with_certificate", "name"),
    [
        ("required", "DEFAULT", True, "User:CN=alice"),
        ("requested", "RULE:^CN=(.*)$/$1/U", True, "User:ALICE"),
        ("requested", "RULE:^nobody$/x/", False, "User:ANONYMOUS"),
        ("none", "DEFAULT", True, "User:ANONYMOUS"),
        ("required", "RULE:^CN=bob$/b/", True, None),
    ],
)
def test_who_it_is(
    client_auth: str, rules: str, with_certificate: bool, name: str | None, tmp_path: Path
) -> None:
    context = ssl.create_default_context(cadata=pem(AUTHORITY.certificate))
    if with_certificate:
        context.load_cert_chain(ALICE.write_pem(tmp_path / "alice.pem"))
    with sockets() as (ours, theirs):
        connection, _ = connection_over(ours, server_tls(client_auth, rules))
        peer = Peer(theirs, context)
        if name is None:
            with pytest.raises(ConnectionAbortedError):
                shake_hands(connection, peer)
            assert connection.closed
        else:
            shake_hands(connection, peer)
            assert str(connection.peer.principal) == name


def test_who_comes_again_is_who_it_was(tmp_path: Path) -> None:
    """A session that is resumed has no certificate in its handshake."""
    context = ssl.create_default_context(cadata=pem(AUTHORITY.certificate))
    context.load_cert_chain(ALICE.write_pem(tmp_path / "alice.pem"))
    server, session = server_tls("required"), None
    for is_again in (False, True):
        with sockets() as (ours, theirs):
            connection, _ = connection_over(ours, server)
            peer = Peer(theirs, context, session)
            shake_hands(connection, peer)
            peer.read()
            session = peer.tls.session
            assert peer.tls.session_reused is is_again
            assert str(connection.peer.principal) == "User:CN=alice"
    # Not after a change of key stores.
    with sockets() as (ours, theirs):
        connection, _ = connection_over(ours, server_tls("required"))
        peer = Peer(theirs, context, session)
        shake_hands(connection, peer)
        assert not peer.tls.session_reused


def test_a_handshake_has_its_time() -> None:
    with sockets() as (ours, theirs):
        connection, _ = connection_over(ours)
        assert connection.overdue(HANDSHAKE_SECONDS - 1) is None
        assert "handshake" in (connection.overdue(HANDSHAKE_SECONDS + 1) or "")
        shake_hands(connection, Peer(theirs))
        assert connection.overdue(HANDSHAKE_SECONDS + 1) is None


def test_a_client_that_takes_nothing_in_is_waited_for() -> None:
    """Not even the handshake's answer: it leaves when there is room."""
    with sockets() as (ours, theirs):
        connection, watched = connection_over(ours)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        with contextlib.suppress(BlockingIOError):
            while True:
                ours.send(bytes(100))
        peer = Peer(theirs)
        with contextlib.suppress(ssl.SSLWantReadError):
            peer.tls.do_handshake()
        theirs.sendall(peer.outgoing.read())
        connection.receive()
        assert watched.events & WRITE
        assert connection.out.blocked
        assert not connection.frame_ready()


def test_a_goodbye_is_the_end() -> None:
    with sockets() as (ours, theirs):
        connection, _ = connection_over(ours)
        peer = Peer(theirs)
        shake_hands(connection, peer)
        with contextlib.suppress(ssl.SSLError):
            peer.tls.unwrap()
        theirs.sendall(peer.outgoing.read())
        assert connection.receive() is False
        connection.close()
        peer.take_in()
        with contextlib.suppress(ssl.SSLWantReadError):
            peer.tls.unwrap()


def test_requests_are_bounded_as_without_tls() -> None:
    """No memory is reserved for a handshake, whose need is not known."""
    with sockets() as (ours, _):
        connection, _ = connection_over(ours)
        pool = MemoryPool(1000)
        shortage = MemoryShortage(ReceiveMemory(1 << 20), pool, lambda: [connection])
        shortage.keep_within(connection, 0.0)
        assert pool.available == 1000
        assert not connection.waits_for_memory


def test_records_of_a_byte_come_in_turns() -> None:
    """Thousands in one piece: some are decrypted, the rest when the socket says that it has room,
    although nothing more comes in."""
    frame = (3000).to_bytes(4, "big") + os.urandom(3000)
    with sockets() as (ours, theirs):
        connection, watched = connection_over(ours)
        peer = Peer(theirs)
        shake_hands(connection, peer)
        for byte in frame:
            peer.tls.write(bytes([byte]))
        theirs.sendall(peer.outgoing.read())
        turns = 0
        assert connection.receive()
        while not connection.frame_ready():
            assert connection.end - connection.start <= (turns + 2) * 2 * RECORDS_AT_ONCE
            assert watched.events & WRITE
            watched.events = connection.events = READ
            turns += 1
        assert turns > 1
        assert list(frames_of(connection)) == [frame[4:]]
        assert watched.events == READ
