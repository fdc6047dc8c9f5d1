"""One client socket of the embedded ZooKeeper: frames in, queued bytes out.

Sends are tried at once; a task that lives only as long as it is needed sends the rest. A client
that does not read is first not read from, then disconnected.
"""

import socket
from collections.abc import Iterator
from struct import Struct

import trio

from ...protocol.errors import ProtocolError
from ...protocol.zookeeper.jute import Id
from ...zookeeper import four_letter
from ...zookeeper.client_connection import Connection
from ...zookeeper.connection_stats import ConnectionStats

MAX_FRAME_BYTES = 0xFFFFF  # jute.maxbuffer's default
MAX_QUEUED_BYTES = 4 * 1024 * 1024  # to one client; above it, its requests are not read
MAX_STALLED_BYTES = 64 * 1024 * 1024  # to one client; above it, the client is disconnected
RECEIVE_BYTES = 64 * 1024
FINISH_TIMEOUT_S = 5.0

_SIZE = Struct(">i")
_HTTP_METHODS = (b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI", b"DELE", b"PRI ")


class ClientGone(Exception):
    """The other side closed the connection."""


class Client:
    __slots__ = (
        "_buffer",
        "_drained",
        "_is_draining",
        "_outgoing",
        "_socket",
        "closed",
        "closing",
        "connection",
        "host",
        "port",
        "scope",
        "stats",
    )

    def __init__(self, sock: socket.socket, host: str, port: int, stats: ConnectionStats) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = sock
        self._buffer = bytearray()
        self._outgoing = bytearray()
        self._is_draining = False
        self._drained = trio.Event()
        self.host = host
        self.port = port
        self.stats = stats
        self.connection: Connection | None = None
        self.scope = trio.CancelScope()
        self.closing = False
        self.closed = False

    @property
    def address(self) -> str:
        session_id = self.connection.session_id if self.connection else 0
        suffix = f" (session {session_id:#x})" if session_id else ""
        return f"{self.host}:{self.port}{suffix}"

    async def shake_hands(self) -> list[Id]:
        """Wait for the end of TLS's handshake; returns the identities that it proves."""
        return []

    # In

    async def receive_first(self) -> bytes:
        """Wait for the first four bytes: a four-letter word, or for a whole first frame."""
        while len(self._buffer) < 4:
            await self._receive()
        word = bytes(self._buffer[:4])
        if word in four_letter.WORDS:
            return word
        stranger = _stranger(word)
        if stranger is not None:
            raise ProtocolError(f"this is {stranger}, not a ZooKeeper client")
        while len(self._buffer) < 4 + self._next_size():
            await self._receive()
        return word

    async def receive_more(self) -> None:
        while len(self._outgoing) > MAX_QUEUED_BYTES:
            await self._drained.wait()
        await self._receive()

    def frames(self) -> Iterator[bytes]:
        """The whole frames received so far, without their sizes."""
        buffer = self._buffer
        start = 0
        try:
            while len(buffer) - start >= 4 and not self.closing:
                size = self._next_size(start)
                end = start + 4 + size
                if end > len(buffer):
                    break
                frame = bytes(memoryview(buffer)[start + 4 : end])
                start = end
                yield frame
        finally:
            del buffer[:start]

    def _next_size(self, start: int = 0) -> int:
        size: int = _SIZE.unpack_from(self._buffer, start)[0]
        if not 0 <= size <= MAX_FRAME_BYTES:
            raise ProtocolError(
                f"a frame of {size} bytes; jute.maxbuffer allows {MAX_FRAME_BYTES}"
                f" (first bytes {bytes(self._buffer[start : start + 16])!r})"
            )
        return size

    async def _receive(self) -> None:
        self._buffer += await self._receive_bytes()

    async def _receive_bytes(self) -> bytes:
        """Some bytes of the socket, or none after all."""
        await trio.lowlevel.wait_readable(self._socket)
        try:
            data = self._socket.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return b""
        if not data:
            raise ClientGone("closed by the client")
        return data

    # Out

    def queue(self, frame: bytes) -> None:
        if not self.closed:
            self._outgoing += frame

    def send(self, data: bytes) -> None:
        """Queue and try to send at once; `finish` sends the rest."""
        self._outgoing += data
        self._try_send()

    def flush(self, nursery: trio.Nursery) -> None:
        """Send as much as possible now; leave the rest to a task."""
        if self.closed:
            return
        if self._is_draining:
            if len(self._outgoing) > MAX_STALLED_BYTES:
                self.scope.cancel()
            return
        self._try_send()
        if self._outgoing:
            self._is_draining = True
            nursery.start_soon(self._drain)
        elif self.closing:
            self.scope.cancel()

    async def finish(self) -> None:
        """Wait, not for ever, until all is sent."""
        with trio.move_on_after(FINISH_TIMEOUT_S):
            while self._outgoing:
                if self._is_draining:
                    await self._drained.wait()
                else:
                    await trio.lowlevel.wait_writable(self._socket)
                    self._try_send()

    def close(self) -> None:
        """Drop the queue from here on: replies may still come back from the disk."""
        self.closed = True
        self._outgoing.clear()
        trio.lowlevel.notify_closing(self._socket)
        self._socket.close()

    def _try_send(self) -> None:
        if not self._outgoing:
            return
        try:
            sent = self._socket.send(self._outgoing)
        except BlockingIOError:
            return
        except OSError:
            self._outgoing.clear()
            self.scope.cancel()
            return
        del self._outgoing[:sent]

    async def _drain(self) -> None:
        try:
            while self._outgoing:
                await trio.lowlevel.wait_writable(self._socket)
                self._try_send()
        except trio.ClosedResourceError:
            pass
        finally:
            self._is_draining = False
            self._drained.set()
            self._drained = trio.Event()
            if self.closing:
                self.scope.cancel()


def _stranger(start: bytes) -> str | None:
    """The protocol that begins with this instead of the size of a connect request, if we know
    it.
    """
    if start in _HTTP_METHODS:
        return "an HTTP request"
    if start[:2] == b"\x16\x03":
        return "a TLS hello"
    if start == b"SSH-":
        return "an SSH banner"
    return None
