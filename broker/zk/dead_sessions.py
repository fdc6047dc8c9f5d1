"""Closing the ZooKeeper sessions of brokers known to be dead, to save the wait for their timeout.

A dead broker's registration, and its seat as the controller, live as long as its session. A process
that *knows* that the broker is gone (its parent; the holder of its locks) need not wait for the
session timeout: `close_sessions` looks up the sessions that own the registrations of these brokers,
reconnects to each as its client would, and closes it. Their ephemeral nodes go at once, and watches
fire.

Reconnecting to a session takes its password. It comes from the session files in the brokers' log
directories, or, for the embedded ZooKeeper, from the secret of which all its passwords are made;
with that a session is found and closed though its broker left no readable file.

Invariant: never called for a broker that may be alive. Blocking, of one thread and without kazoo
(which starts threads): the supervisor calls it, and forks afterwards. Every wait has a deadline.

Goes beyond Apache Kafka, where a session of a dead broker always expires. Leaves out TLS and SASL.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from struct import Struct
from types import TracebackType
from typing import NamedTuple

from ...protocol.errors import ProtocolError
from ...protocol.zookeeper import jute
from ...protocol.zookeeper.constants import AUTH_XID, NOTIFICATION_XID, Op, ZkCode
from ...protocol.zookeeper.jute import (
    AuthPacket,
    ConnectRequest,
    ConnectResponse,
    GetDataResponse,
    PathWatchRequest,
)
from ...replication.controller import znodes
from ...zookeeper.passwords import PASSWORD_SIZE, passwords_of
from .registration import load_session

CLOSE_TIMEOUT_S = 2.0
SESSION_TIMEOUT_MS = 6_000
ANSWER_MAX_BYTES = 1024 * 1024
DEFAULT_PORT = 2181

PasswordOf = Callable[[int], bytes | None]

_SIZE = Struct(">i")
_REPLY = Struct(">iqi")
_REQUEST = Struct(">ii")

logger = logging.getLogger("pybroker.broker.zk.dead_sessions")


class CannotClose(Exception):
    """ZooKeeper could not be asked: the sessions stay until they expire."""


def remembered_sessions(log_dirs: Iterable[Path]) -> dict[int, bytes]:
    """Id -> password of the sessions that brokers have noted in their log directories."""
    return dict(session for log_dir in log_dirs if (session := load_session(log_dir)) is not None)


def passwords(
    log_dirs: Iterable[Path], secret_file: Path | None, credentials: bytes | None = None
) -> PasswordOf:
    """Passwords from the embedded servers' secret, else from session files in these directories."""
    left = remembered_sessions(log_dirs)
    try:
        secret = secret_file.read_bytes() if secret_file is not None else None
    except OSError as error:
        logger.warning("cannot read %s: %s", secret_file, error)
        secret = None

    return passwords_of(secret, credentials) if secret else left.get


def close_sessions(
    connect: str,
    dead_broker_ids: Collection[int],
    password_of: PasswordOf,
    remembered: Mapping[int, bytes] | None = None,
    *,
    credentials: bytes | None = None,
    timeout_s: float = CLOSE_TIMEOUT_S,
) -> list[int]:
    """Close the sessions that these brokers have left open; returns the ids of the sessions closed.

    `remembered` are certainly sessions of these brokers. They go first: looking up owners takes a
    session of its own, which ZooKeeper writes to its disk twice before its first useful answer.
    `credentials`, user:password, are those of the brokers at ZooKeeper (digest).

    Raises CannotClose if no server answers within the timeout.
    """
    way = _Way(time.monotonic() + timeout_s, credentials)
    hosts, _, chroot = connect.partition("/")
    prefix = f"/{chroot.strip('/')}" if chroot.strip("/") else ""
    problem: Exception = CannotClose(f"no server is named by {connect!r}")
    for address in hosts.split(","):
        try:
            closed = [
                session_id
                for session_id, password in (remembered or {}).items()
                if _close(address, way, session_id, password)
            ]
            with _Connection(address, way) as asking:
                owners = _owners(asking, prefix, dead_broker_ids)
            return closed + [
                owner for owner in owners if _close(address, way, owner, password_of(owner))
            ]
        except (OSError, ValueError, ProtocolError) as error:
            problem = error
    raise CannotClose(f"ZooKeeper at {connect} does not answer: {problem}") from problem


def _owners(asking: _Connection, prefix: str, broker_ids: Collection[int]) -> list[int]:
    """The sessions behind the registrations of these brokers, and behind a controller of them."""
    paths = [prefix + znodes.broker_path(broker_id) for broker_id in sorted(broker_ids)]
    owners = [found.stat.ephemeral_owner for path in paths if (found := asking.get_data(path))]
    if found := asking.get_data(prefix + znodes.CONTROLLER):
        try:
            is_theirs = znodes.decode_controller(found.data) in broker_ids
        except znodes.MalformedZnode:
            is_theirs = False
        if is_theirs:
            owners.append(found.stat.ephemeral_owner)
    return [owner for owner in dict.fromkeys(owners) if owner]


class _Way(NamedTuple):
    """The deadline and the login of a connection; the repr does not show the login."""

    deadline: float
    credentials: bytes | None

    def __repr__(self) -> str:
        return f"_Way({self.deadline})"


def _close(address: str, way: _Way, session_id: int, password: bytes | None) -> bool:
    if password is None:
        logger.warning("the password of the ZooKeeper session %#x is not known", session_id)
        return False
    with _Connection(address, way, session_id, password) as taken_over:
        # Refused: it has expired meanwhile, or the password is another ensemble's.
        return taken_over.session_id == session_id


class _Connection:
    """One session on one blocking connection; leaving the block closes the session."""

    def __init__(
        self,
        address: str,
        way: _Way,
        session_id: int = 0,
        password: bytes = bytes(PASSWORD_SIZE),
    ) -> None:
        host, colon, port = address.strip().rpartition(":")
        target = (host.strip("[]"), int(port)) if colon else (address.strip(), DEFAULT_PORT)
        self._deadline = way.deadline
        self._xid = 0
        self._socket = socket.create_connection(target, timeout=self._remaining_s())
        try:
            request = ConnectRequest(0, 0, SESSION_TIMEOUT_MS, session_id, password)
            self._send(jute.encode(request) + b"\0")
            self.session_id = jute.decode(ConnectResponse, self._receive()).session_id
            if self.session_id and way.credentials is not None:
                self._log_in(way.credentials)
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> _Connection:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if self.session_id and error is None:
                self._call(Op.CLOSE_SESSION)
        finally:
            self._socket.close()

    def _log_in(self, credentials: bytes) -> None:
        packet = AuthPacket(0, "digest", credentials)
        code, _ = self._call(Op.AUTH, jute.encode(packet), AUTH_XID)
        if code:
            raise ProtocolError(f"error {code} for our login")

    def get_data(self, path: str) -> GetDataResponse | None:
        code, body = self._call(Op.GET_DATA, jute.encode(PathWatchRequest(path, False)))
        if code == ZkCode.NO_NODE:
            return None
        if code:
            raise ProtocolError(f"error {code} for {path}")
        return jute.decode(GetDataResponse, body)

    def _call(self, op: Op, body: bytes = b"", xid: int | None = None) -> tuple[int, memoryview]:
        self._xid += 1
        self._send(_REQUEST.pack(self._xid if xid is None else xid, op) + body)
        while True:
            frame = self._receive()
            if len(frame) < _REPLY.size:
                raise ProtocolError(f"a reply of {len(frame)} bytes has no header")
            xid, _, code = _REPLY.unpack_from(frame)
            if xid != NOTIFICATION_XID:
                return code, frame[_REPLY.size :]

    def _remaining_s(self) -> float:
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError("timed out")
        return remaining

    def _send(self, frame: bytes) -> None:
        self._socket.settimeout(self._remaining_s())
        self._socket.sendall(_SIZE.pack(len(frame)) + frame)

    def _receive(self) -> memoryview:
        (size,) = _SIZE.unpack(self._receive_exactly(_SIZE.size))
        if not 0 <= size <= ANSWER_MAX_BYTES:
            raise ProtocolError(f"a frame of {size} bytes")
        return memoryview(self._receive_exactly(size))

    def _receive_exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            self._socket.settimeout(self._remaining_s())
            chunk = self._socket.recv(size - len(data))
            if not chunk:
                raise ConnectionError("closed by the server")
            data += chunk
        return bytes(data)
