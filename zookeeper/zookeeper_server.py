"""The server as a state machine: frames, disconnects and time in; frames and log records out.

Mirrors `ZooKeeperServer` and its chain of processors (prepare, sync, final), standalone.

The runtime calls `connected`, `receive`, `disconnected` and `tick`, and after each round takes
`effects`: log records to make durable, then frames to send, in that order. Because a write is
applied to the tree at once, *everything* that is sent after it waits for its record, reads of
others too: no client ever sees a state that a crash could undo (ZooKeeper's sync processor has the
same effect). Frames to one connection stay in order, and an event precedes the reply that would
reveal it.

zxids: every write takes one, a failed one too, so failures are logged as well: a server that has
not seen a client's zxid rejects the client.

A closed server (`admitted`) serves only clients that prove one digest identity. A new connection is
a stranger that may claim a session: it gets the usual answer, so that clients can log in, but
before the login no session is made, logged or taken over, and its first frame must be the login.
ZooKeeper's enforce.auth.enabled is not enough for this: its digest scheme accepts any password, and
sessions of strangers are written to its log.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ..protocol import invariants
from ..protocol.errors import ProtocolError
from ..protocol.invariants import BrokenInvariant
from ..protocol.primitives import Buffer
from ..protocol.zookeeper import jute
from ..protocol.zookeeper.constants import (
    NO_ZXID,
    NOTIFICATION_XID,
    OPEN_ACL,
    PING_XID,
    SYNC_CONNECTED,
    EventType,
    KeeperError,
    Op,
    ZkCode,
    owner_ttl_ms,
)
from ..protocol.zookeeper.jute import (
    AuthPacket,
    ConnectResponse,
    Id,
    ReconfigRequest,
    SaslToken,
    Stat,
    WatcherEvent,
)
from .access import OPEN_ACCESS, SASL, Access
from .acl import digest_id, may_read, proves
from .client_connection import Claim, Connection
from .passwords import PASSWORD_SIZE
from .prepare import Overlay, WriteRequest, prepare
from .requests import (
    READ_REQUESTS,
    WRITE_REQUESTS,
    Reads,
    multi_reply,
    read_multi,
    read_write,
)
from .sessions import SessionTable
from .transactions import (
    Body,
    CloseSessionTxn,
    CreateSessionTxn,
    DeleteTxn,
    ErrorTxn,
    MultiTxn,
    Txn,
    TxnHeader,
)
from .tree import Change, DataTree
from .txn_bytes import encode_txn
from .watches import Watches
from .write_replies import has_failed, multi_results, result_of

CONTAINER_CHECK_MS = 60_000


class Effects(NamedTuple):
    """Make `records` durable, then send `frames`; a frame of None closes its connection."""

    records: list[bytes]
    frames: list[tuple[Connection, bytes | None]]


class ZooKeeperMachine:
    __slots__ = (
        "_access",
        "_admitted",
        "_container_check_at_ms",
        "_container_check_ms",
        "_entropy",
        "_frames",
        "_reads",
        "_records",
        "refused_logins",
        "sessions",
        "tree",
        "watches",
    )

    def __init__(
        self,
        tree: DataTree,
        sessions: SessionTable,
        *,
        container_check_ms: int = CONTAINER_CHECK_MS,
        admitted: Id | None = None,
        access: Access = OPEN_ACCESS,
        entropy: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._access = access
        self._entropy = entropy
        self._admitted = admitted
        self.refused_logins = 0
        self.tree = tree
        self.sessions = sessions
        self.watches = Watches()
        self._reads = Reads(tree, self.watches)
        self._records: list[bytes] = []
        self._frames: list[tuple[Connection, bytes | None]] = []
        self._container_check_ms = container_check_ms
        self._container_check_at_ms: int | None = None

    @property
    def is_closed(self) -> bool:
        """Whether the server is closed to all but one identity."""
        return self._admitted is not None

    # Calls of the runtime

    def take_effects(self) -> Effects:
        effects = Effects(self._records, self._frames)
        self._records, self._frames = [], []
        return effects

    def connected(self, token: object, host: str) -> Connection:
        return Connection(token, host)

    def disconnected(self, connection: Connection) -> None:
        """The socket is gone; the session lasts until it is resumed or expires."""
        self.watches.remove_watcher(connection)
        session = self.sessions.sessions.get(connection.session_id)
        if session is not None and session.connection is connection:
            session.connection = None

    def receive(self, connection: Connection, frame: Buffer, now_ms: int) -> None:
        """One frame without its size. Raises ProtocolError: the connection is to be closed."""
        if connection.is_refused:
            return  # it is about to be closed
        if connection.session_id == 0:
            if connection.claim is None:
                self._connect(connection, frame, now_ms)
            else:
                self._handle_stranger(connection, connection.claim, frame, now_ms)
            return
        session = self.sessions.sessions.get(connection.session_id)
        if session is None or session.connection is not connection:
            return  # expired, closed or moved; this connection is about to be closed
        xid, op = jute.read_request_header(frame)
        self.sessions.touch(session, now_ms)
        body = memoryview(frame)[8:]
        if self._is_login(connection, xid, op, body):
            return
        if op == Op.PING:
            self._send(connection, jute.reply_frame(PING_XID, self.tree.last_zxid, 0))
        elif op == Op.MULTI:
            self._multi(connection, xid, body, now_ms)
        elif op in WRITE_REQUESTS:
            self._write(connection, xid, op, body, now_ms)
        elif op in READ_REQUESTS or op in (Op.MULTI_READ, Op.WHO_AM_I):
            self._read(connection, xid, op, body)
        elif op in (Op.SET_WATCHES, Op.SET_WATCHES2):
            self._set_watches(connection, xid, op, body)
        elif op == Op.CLOSE_SESSION:
            self._close_session(connection.session_id, xid, now_ms)
            self._reply(connection, xid, 0)
            self._send(connection, None)
        elif op == Op.RECONFIG:
            self._reconfig(connection, xid, body, now_ms)
        else:
            self._send(connection, jute.reply_frame(xid, 0, ZkCode.UNIMPLEMENTED))
            self._send(connection, None)

    def tick(self, now_ms: int) -> None:
        """Expire sessions, and delete containers and TTL nodes that have had their time."""
        for session in self.sessions.expired(now_ms):
            client = session.connection
            self._close_session(session.session_id, 0, now_ms)
            if isinstance(client, Connection):
                self._send(client, None)
        due_ms = self._container_check_at_ms
        if due_ms is not None and due_ms <= now_ms:
            self._container_check_at_ms = None
            self._delete_abandoned(now_ms)
        self._schedule_container_check(now_ms)

    def next_deadline_ms(self) -> int | None:
        """When `tick` is to be called; later calls may name an earlier time."""
        deadline_ms = self.sessions.next_deadline_ms()
        check_ms = self._container_check_at_ms
        if deadline_ms is None or check_ms is None:
            return check_ms if deadline_ms is None else deadline_ms
        return min(deadline_ms, check_ms)

    # Sessions

    def _connect(self, connection: Connection, frame: Buffer, now_ms: int) -> None:
        request, read_only = jute.read_connect_request(frame)
        self._check_seen(request.last_zxid_seen)
        timeout_ms = self.sessions.negotiate_ms(request.timeout_ms)
        session_id = request.session_id
        if session_id == 0:
            claim = Claim(self.sessions.next_id(), timeout_ms, is_new=True)
        elif session_id in self.sessions.sessions and self.sessions.password_is_right(
            session_id, request.password
        ):
            claim = Claim(session_id, timeout_ms, is_new=False)
        else:
            refusal = ConnectResponse(0, 0, 0, bytes(PASSWORD_SIZE))
            self._send_connect_response(connection, refusal, read_only)
            self._refuse(connection)
            return
        if self._admitted is None:
            self._open_session(connection, claim, now_ms)
        else:
            connection.claim = claim
        password = self.sessions.password(claim.session_id)
        response = ConnectResponse(0, timeout_ms, claim.session_id, password)
        self._send_connect_response(connection, response, read_only)

    def _check_seen(self, seen_zxid: int) -> None:
        newest = self._newest_zxid()
        if seen_zxid > newest:
            raise ProtocolError(
                f"the client has seen zxid {seen_zxid:#x}, we are only at {newest:#x}: it was"
                " connected to another server"
            )

    def _newest_zxid(self) -> int:
        return self.tree.last_zxid

    def _open_session(self, connection: Connection, claim: Claim, now_ms: int) -> None:
        """Make the session, or take it from the connection that has it."""
        session_id, timeout_ms, is_new = claim
        if is_new:
            self._log(session_id, 0, Op.CREATE_SESSION, CreateSessionTxn(timeout_ms), now_ms)
        else:
            known = self.sessions.sessions[session_id].connection
            if isinstance(known, Connection):
                self._send(known, None)
                self.watches.remove_watcher(known)
        session = self.sessions.add(session_id, timeout_ms, now_ms)
        session.connection = connection
        connection.session_id = session_id

    def _handle_stranger(
        self, connection: Connection, claim: Claim, frame: Buffer, now_ms: int
    ) -> None:
        """Handle the first frame of a stranger: it must be the admitted login, or the connection
        ends."""
        xid = self._admitted_login(connection, claim, frame)
        if xid is None:
            return
        connection.claim = None
        self._open_session(connection, claim, now_ms)
        self._send(connection, jute.reply_frame(xid, 0, 0))

    def _admitted_login(self, connection: Connection, claim: Claim, frame: Buffer) -> int | None:
        """The xid of a frame that is the admitted login, for a session that has not ended since it
        was claimed; None if it is another, and refused."""
        assert self._admitted is not None
        xid, op = jute.read_request_header(frame)
        if op != Op.AUTH:
            code = ZkCode.SESSION_CLOSED_REQUIRE_SASL_AUTH
            self._refuse(connection, jute.reply_frame(xid, 0, code))
            return None
        packet = jute.decode(AuthPacket, memoryview(frame)[8:])
        if packet.scheme != "digest" or not proves(packet.auth or b"", self._admitted):
            self.refused_logins += 1
            self._refuse(connection, jute.reply_frame(xid, 0, ZkCode.AUTH_FAILED))
            return None
        if not claim.is_new and claim.session_id not in self.sessions.sessions:
            self._refuse(connection)  # the next connect gets the answer that it has expired
            return None
        connection.identities.append(self._admitted)
        return xid

    def _refuse(self, connection: Connection, frame: bytes | None = None) -> None:
        """Send `frame`, if there is one, and read nothing more."""
        connection.is_refused = True
        if frame is not None:
            self._send(connection, frame)
        self._send(connection, None)

    def _send_connect_response(
        self, connection: Connection, response: ConnectResponse, read_only: bool | None
    ) -> None:
        answered = None if read_only is None else False
        self._send(connection, jute.connect_response_frame(response, answered))

    def _close_session(self, session_id: int, cxid: int, now_ms: int) -> None:
        """Close a session: all its ephemeral nodes are deleted at one zxid."""
        paths = list(self.tree.ephemerals.get(session_id, ()))
        self.sessions.remove(session_id)
        self._log(session_id, cxid, Op.CLOSE_SESSION, CloseSessionTxn(paths), now_ms)

    # Logins

    def _is_login(self, connection: Connection, xid: int, op: int, body: Buffer) -> bool:
        """Whether the frame is a login, or is refused because there was none; it is handled
        then."""
        access = self._access
        if op == Op.AUTH:
            self._authenticate(connection, xid, body)
        elif op == Op.SASL and access.users is not None:
            self._log_in(connection, xid, body, access.users)
        elif access.required.isdisjoint(one.scheme for one in connection.identities):
            if not access.required:
                return False
            code = ZkCode.SESSION_CLOSED_REQUIRE_SASL_AUTH
            self._refuse_login(connection, jute.reply_frame(xid, 0, code))
        else:
            return False
        return True

    def _log_in(
        self, connection: Connection, xid: int, body: Buffer, users: Mapping[str, str]
    ) -> None:
        """One step of SASL's DIGEST-MD5. Raises ProtocolError if its login is over."""
        from .sasl_login import new_login, next_step

        token = jute.decode(SaslToken, body).token or b""
        if connection.sasl is None:
            connection.sasl = new_login(users, self._entropy)
        answer, user = next_step(connection.sasl, token)
        if user is not None:
            connection.identities.append(Id(SASL, user))
        if answer is None:
            self.refused_logins += 1
            is_required = SASL in self._access.required
            if is_required or not self._access.keeps_failed:
                code = ZkCode.AUTH_FAILED
                if is_required:
                    code = ZkCode.SESSION_CLOSED_REQUIRE_SASL_AUTH
                self._refuse_login(connection, jute.reply_frame(xid, 0, code, SaslToken(None)))
                return
        self._send(connection, jute.reply_frame(xid, 0, 0, SaslToken(answer)))

    def _refuse_login(self, connection: Connection, frame: bytes) -> None:
        connection.failed_login = True
        self._refuse(connection, frame)

    def _authenticate(self, connection: Connection, xid: int, body: Buffer) -> None:
        packet = jute.decode(AuthPacket, body)
        if packet.scheme == "digest" and packet.auth:
            identity = digest_id(packet.auth)
            if identity not in connection.identities:
                connection.identities.append(identity)
        elif packet.scheme != "ip":
            self._send(connection, jute.reply_frame(xid, 0, ZkCode.AUTH_FAILED))
            self._send(connection, None)
            return
        self._send(connection, jute.reply_frame(xid, 0, 0))

    # Reads

    def _read(self, connection: Connection, xid: int, op: int, body: Buffer) -> None:
        try:
            answer = self._reads.answer(
                op, body, connection, connection.session_id, connection.identities
            )
        except KeeperError as error:
            self._reply(connection, xid, error.code)
        except ProtocolError:
            self._reply(connection, xid, ZkCode.MARSHALLING_ERROR)
        else:
            self._reply(connection, xid, 0, *answer)

    def _set_watches(self, connection: Connection, xid: int, op: int, body: Buffer) -> None:
        try:
            missed = self._reads.set_watches(op, body, connection)
        except ProtocolError:
            self._reply(connection, xid, ZkCode.MARSHALLING_ERROR)
            return
        for event, path in missed:
            self._notify(connection, event, path, NO_ZXID)
        self._reply(connection, xid, 0)

    # Writes

    def _write(self, connection: Connection, xid: int, op: int, body: Buffer, now_ms: int) -> None:
        try:
            request = read_write(op, body)
        except ProtocolError:
            self._reply(connection, xid, ZkCode.MARSHALLING_ERROR)
            return
        session_id, identities = connection.session_id, connection.identities
        try:
            txn = prepare(op, request, session_id, identities, Overlay(self.tree), self._access)
        except KeeperError as error:
            self._fail(connection, xid, error.code, now_ms)
            return
        stats = self._log(session_id, xid, Op(op), txn, now_ms)
        self._reply(connection, xid, 0, *result_of(op, txn, stats[0]))

    def _multi(self, connection: Connection, xid: int, body: Buffer, now_ms: int) -> None:
        try:
            requests = read_multi(body, reads=False)
        except ProtocolError:
            self._fail(connection, xid, ZkCode.MARSHALLING_ERROR, now_ms)
            return
        parts = self._prepare_multi(requests, connection.session_id, connection.identities)
        session_id = connection.session_id
        if has_failed(parts):
            failure = next(
                part.code for _, part in parts if isinstance(part, ErrorTxn) if part.code
            )
            self._log(session_id, xid, Op.ERROR, ErrorTxn(failure), now_ms)
            results = multi_results(parts, [])
        else:
            results = multi_results(
                parts, self._log(session_id, xid, Op.MULTI, MultiTxn(parts), now_ms)
            )
        self._reply(connection, xid, 0, *multi_reply(results))

    def _prepare_multi(
        self, requests: Sequence[tuple[Op, WriteRequest]], session_id: int, identities: Sequence[Id]
    ) -> list[tuple[Op, Body]]:
        """The parts of a multi; after one that fails, all are errors: those before it without a
        code, those behind it with that of an inconsistency."""
        overlay = Overlay(self.tree)
        parts: list[tuple[Op, Body]] = []
        for op, request in requests:
            try:
                txn = prepare(op, request, session_id, identities, overlay, self._access)
                parts.append((op, txn))
            except KeeperError as error:
                codes = [0] * len(parts) + [error.code]
                codes += [ZkCode.RUNTIME_INCONSISTENCY] * (len(requests) - len(codes))
                return [(Op.ERROR, ErrorTxn(int(code))) for code in codes]
        return parts

    def _reconfig(self, connection: Connection, xid: int, body: Buffer, now_ms: int) -> None:
        try:
            jute.decode(ReconfigRequest, body)
        except ProtocolError:
            self._reply(connection, xid, ZkCode.MARSHALLING_ERROR)
        else:
            self._fail(connection, xid, ZkCode.RECONFIG_DISABLED, now_ms)

    def _fail(self, connection: Connection, xid: int, code: ZkCode, now_ms: int) -> None:
        self._log(connection.session_id, xid, Op.ERROR, ErrorTxn(code), now_ms)
        self._reply(connection, xid, code)

    def _log(
        self, session_id: int, cxid: int, op: Op, body: Body, now_ms: int
    ) -> list[Stat | None]:
        """Give a transaction its zxid, log it, apply it and notify the watchers."""
        return self._apply(
            Txn(TxnHeader(session_id, cxid, self._next_zxid(), now_ms, op), body), now_ms
        )

    def _next_zxid(self) -> int:
        return self.tree.last_zxid + 1

    def _apply(self, txn: Txn, now_ms: int, record: bytes | None = None) -> list[Stat | None]:
        """`record`: the bytes of the transaction, where they are known."""
        self._records.append(encode_txn(txn) if record is None else record)
        changes, stats = self.tree.apply(txn)
        if invariants.THOROUGH:
            self._check_ephemerals()
        for change in changes:
            self._notify_watchers(change, txn.header.zxid)
        if (self.tree.containers or self.tree.ttls) and self._container_check_at_ms is None:
            self._schedule_container_check(now_ms)
        return stats

    def _check_ephemerals(self) -> None:
        """Thorough: no ephemeral node outlives its session."""
        stray = self.tree.ephemerals.keys() - self.sessions.sessions.keys()
        if stray:
            nodes = {session_id: list(self.tree.ephemerals[session_id]) for session_id in stray}
            raise BrokenInvariant(f"ephemeral nodes of sessions that are over: {nodes}")

    # Containers and TTL nodes

    def _schedule_container_check(self, now_ms: int) -> None:
        if self._container_check_at_ms is None and (self.tree.containers or self.tree.ttls):
            self._container_check_at_ms = now_ms + self._container_check_ms

    def _delete_abandoned(self, now_ms: int) -> None:
        """Containers that have lost their last child, TTL nodes without children past their time.

        A container that never had a child stays, so that its creator has time to add one.
        """
        nodes = self.tree.nodes
        doomed = [path for path in self.tree.containers if self._is_abandoned(path)]
        doomed += [
            path
            for path in self.tree.ttls
            if not nodes[path].children
            and now_ms - nodes[path].mtime > owner_ttl_ms(nodes[path].owner)
        ]
        for path in doomed:
            self._log(0, 0, Op.DELETE_CONTAINER, DeleteTxn(path), now_ms)

    def _is_abandoned(self, path: str) -> bool:
        node = self.tree.nodes[path]
        return not node.children and node.cversion > 0

    # Output

    def _notify_watchers(self, change: Change, zxid: int) -> None:
        for watcher in self.watches.trigger(change.event, change.path):
            assert isinstance(watcher, Connection)
            if change.acl is OPEN_ACL or may_read(change.acl, watcher.identities):
                self._notify(watcher, change.event, change.path, zxid)

    def _notify(self, connection: Connection, event: EventType, path: str, zxid: int) -> None:
        body = WatcherEvent(event, SYNC_CONNECTED, path)
        self._send(connection, jute.reply_frame(NOTIFICATION_XID, zxid, 0, body))

    def _reply(self, connection: Connection, xid: int, code: int, *body: object) -> None:
        self._send(connection, jute.reply_frame(xid, self.tree.last_zxid, code, *body))

    def _send(self, connection: Connection, frame: bytes | None) -> None:
        self._frames.append((connection, frame))
