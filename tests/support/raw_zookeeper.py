"""A blocking ZooKeeper client of a few lines that shows what is on the wire."""

import socket
from struct import Struct
from typing import NamedTuple

from pybroker_kafka.protocol.zookeeper import jute
from pybroker_kafka.protocol.zookeeper.constants import NOTIFICATION_XID, Op
from pybroker_kafka.protocol.zookeeper.jute import ConnectRequest, ConnectResponse, WatcherEvent

_SIZE = Struct(">i")
_REPLY = Struct(">iqi")
_REQUEST = Struct(">ii")
TIMEOUT_S = 120.0


class Reply(NamedTuple):
    xid: int
    zxid: int
    error: int
    body: bytes


class Event(NamedTuple):
    zxid: int
    type: int
    state: int
    path: str


class RawClient:
    """One connection. `events` collects notifications in the order in which they arrived."""

    def __init__(
        self,
        port: int,
        *,
        timeout_ms: int = 10_000,
        session_id: int = 0,
        password: bytes = bytes(16),
        last_zxid: int = 0,
        read_only: bool | None = False,
    ) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.events: list[Event] = []
        self._xid = 0
        request = jute.encode(ConnectRequest(0, last_zxid, timeout_ms, session_id, password))
        if read_only is not None:
            request += bytes([read_only])
        self.send_frame(request)
        frame = self.receive_frame()
        self.connect_frame = frame
        self.response = jute.decode(ConnectResponse, frame)

    @property
    def session_id(self) -> int:
        return self.response.session_id

    def call(self, op: int, *records: object, xid: int | None = None) -> Reply:
        """Send one request and wait for its reply; events before it go to `events`."""
        if xid is None:
            self._xid += 1
            xid = self._xid
        body = b"".join(jute.encode(record) for record in records)
        return self.call_raw(op, body, xid)

    def call_raw(self, op: int, body: bytes, xid: int) -> Reply:
        self.send_frame(_REQUEST.pack(xid, op) + body)
        while True:
            reply = self.receive()
            if reply.xid != NOTIFICATION_XID:
                return reply

    def receive(self) -> Reply:
        frame = self.receive_frame()
        xid, zxid, error = _REPLY.unpack_from(frame)
        reply = Reply(xid, zxid, error, frame[_REPLY.size :])
        if reply.xid == NOTIFICATION_XID:
            event = jute.decode(WatcherEvent, reply.body)
            self.events.append(Event(reply.zxid, *event))
        return reply

    def take_events(self) -> list[Event]:
        """All events up to now: the answer to a ping comes after them."""
        self.call(Op.PING, xid=-2)
        events, self.events = self.events, []
        return events

    def send_frame(self, frame: bytes) -> None:
        self.sock.sendall(_SIZE.pack(len(frame)) + frame)

    def receive_frame(self) -> bytes:
        (size,) = _SIZE.unpack(self._receive_exactly(4))
        return self._receive_exactly(size)

    def _receive_exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            chunk = self.sock.recv(size - len(data))
            if not chunk:
                raise ConnectionError("closed by the server")
            data += chunk
        return data

    def is_closed_by_server(self) -> bool:
        try:
            return self.sock.recv(1) == b""
        except ConnectionError:
            return True

    def drop(self) -> None:
        """Cut the connection without closing the session."""
        self.sock.close()

    def close(self) -> None:
        self.call(Op.CLOSE_SESSION)
        self.sock.close()


def close_session(port: int, session: tuple[int, bytes]) -> None:
    """Take a session from its client and close it: the client will hear that it has expired.

    Both requests leave in one piece: the client reconnects at once, and would else take its session
    back in between, and leave nothing to close it with.
    """
    session_id, password = session
    connect = jute.encode(ConnectRequest(0, 0, 10_000, session_id, password)) + b"\0"
    frames = (connect, _REQUEST.pack(1, Op.CLOSE_SESSION))
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as sock:
        sock.sendall(b"".join(_SIZE.pack(len(frame)) + frame for frame in frames))
        with sock.makefile("rb") as answers:
            response = jute.decode(ConnectResponse, answers.read()[_SIZE.size :])
    assert response.session_id == session_id, "the session was there to be closed"
