"""The state machine of one member: clients of its own, transactions of the whole ensemble.

Mirrors the processor chains of `LeaderZooKeeperServer`, `FollowerZooKeeperServer` and
`ObserverZooKeeperServer`, and `LeaderSessionTracker` with `LearnerSessionTracker`.

- A leader prepares and applies writes at once, its clients' and those that learners forward; each
  is a proposal.
- A learner forwards a client's writes, and answers them when their transactions come. What the
  client asks behind such a write waits for it, so that its answers stay in order.
- Both apply a transaction when it is logged, and give nothing to clients before it is committed
  (the member holds the frames). So the tree is always that of the log, and a change of leaders has
  nothing to apply or to take back but what the new leader asks.

Sessions live at the leader: learners tell it which sessions their clients use.

Invariant: transactions are applied in the order of their zxids, on a leader in its own epoch.

Leaves out: local sessions. Clients of a member without a leader: `read_only`.
"""

from collections import deque
from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from ...protocol.errors import ProtocolError
from ...protocol.primitives import Buffer
from ...protocol.zookeeper import jute
from ...protocol.zookeeper.constants import PING_XID, KeeperError, Op, ZkCode
from ...protocol.zookeeper.jute import ConnectResponse, Id, PathRequest, PathResponse, Stat
from ..access import OPEN_ACCESS, Access
from ..client_connection import Claim, Connection
from ..fuzzy import fitted
from ..passwords import PASSWORD_SIZE
from ..prepare import Overlay, prepare
from ..requests import READ_REQUESTS, WRITE_REQUESTS, Reads, multi_reply, read_multi, read_write
from ..sessions import SessionTable
from ..transactions import (
    CloseSessionTxn,
    CreateSessionTxn,
    ErrorTxn,
    MultiTxn,
    Txn,
)
from ..tree import DataTree
from ..txn_bytes import close_session_in, encode_txn
from ..write_replies import multi_results, result_of
from ..zookeeper_server import CONTAINER_CHECK_MS, ZooKeeperMachine
from .history import Logged
from .packets import ForwardedRequest, first_zxid
from .read_only import ReadOnlyMachine

MAX_QUEUED_REQUESTS = 10_000  # of one client behind its forwarded write
MAX_EARLY_FRAMES = 100  # of one client before the leader has its session

_TIMEOUT = Struct(">i")
_FORWARDED = frozenset(WRITE_REQUESTS) | {Op.MULTI, Op.CLOSE_SESSION, Op.RECONFIG, Op.SYNC}


class _Waiting(NamedTuple):
    """A request of a learner's client: forwarded, or behind one that is."""

    xid: int
    op: int
    body: Buffer
    is_forwarded: bool


class EnsembleMachine(ZooKeeperMachine):
    __slots__ = (
        "_claims",
        "_early",
        "_owners",
        "_queues",
        "_strangers",
        "_syncs",
        "_touched",
        "epoch",
        "forwards",
        "is_leading",
        "is_serving",
        "my_id",
        "proposals",
        "read_only",
        "revalidations",
    )

    def __init__(
        self,
        tree: DataTree,
        sessions: SessionTable,
        my_id: int,
        *,
        container_check_ms: int = CONTAINER_CHECK_MS,
        admitted: Id | None = None,
        access: Access = OPEN_ACCESS,
    ) -> None:
        super().__init__(
            tree,
            sessions,
            container_check_ms=container_check_ms,
            admitted=admitted,
            access=access,
        )
        self.my_id = my_id
        self.epoch = 0
        self.is_serving = False
        self.is_leading = False
        # While there is no leader, if the member serves clients then.
        self.read_only: ReadOnlyMachine | None = None
        # To take after each event: what a leader is to propose, a learner to send to its leader.
        self.proposals: list[Logged] = []
        self.forwards: list[ForwardedRequest] = []
        self.revalidations: list[tuple[int, int]] = []
        # Of a learner: what waits, by connection; connections by the session that they ask for;
        # frames that came before their session was there.
        self._queues: dict[Connection, deque[_Waiting]] = {}
        self._claims: dict[int, deque[Connection]] = {}
        self._early: dict[Connection, list[bytes]] = {}
        # Of a closed learner: connections that have a claim, and have not logged in.
        self._strangers: set[Connection] = set()
        self._syncs: deque[Connection] = deque()
        self._touched: dict[int, int] = {}
        # Of a leader: the member that has a session's client, by session.
        self._owners: dict[int, int] = {}

    # Roles

    def lead(self, epoch: int, now_ms: int) -> None:
        self._serve(epoch)
        self.is_leading = True
        for session in self.sessions.sessions.values():
            self.sessions.touch(session, now_ms)
        self._schedule_container_check(now_ms)

    def learn(self, epoch: int) -> None:
        self._serve(epoch)

    def serve_read_only(self, now_ms: int) -> None:
        self.read_only = ReadOnlyMachine(
            self.tree,
            self.sessions.of_the_same_kind(now_ms),
            self.sessions.sessions,
            admitted=self._admitted,
            access=self._access,
            entropy=self._entropy,
        )

    def stop_serving(self) -> None:
        """No leader, no clients: the runtime closes all connections."""
        self.is_serving = self.is_leading = False
        self.read_only = None
        self._queues.clear()
        self._claims.clear()
        self._early.clear()
        self._strangers.clear()
        self._syncs.clear()
        self._touched.clear()
        self._owners.clear()
        self.proposals.clear()
        self.forwards.clear()
        self.revalidations.clear()
        self._frames.clear()
        self._container_check_at_ms = None

    def replace(self, tree: DataTree, sessions: dict[int, int], now_ms: int) -> None:
        """Another state: that of a snapshot, or of a log that was cut."""
        self.tree = tree
        self._reads = Reads(tree, self.watches)
        for session_id in list(self.sessions.sessions):
            if session_id not in sessions:
                self.sessions.remove(session_id)
        for session_id, timeout_ms in sessions.items():
            self.sessions.add(session_id, timeout_ms, now_ms)

    def _serve(self, epoch: int) -> None:
        self.epoch = epoch
        self.is_serving = True

    def _next_zxid(self) -> int:
        return max(self.tree.last_zxid, first_zxid(self.epoch) if self.is_leading else 0) + 1

    def _newest_zxid(self) -> int:
        return max(self.tree.last_zxid, first_zxid(self.epoch))

    # Clients

    def disconnected(self, connection: Connection) -> None:
        if self.read_only is not None:
            self.read_only.disconnected(connection)
        super().disconnected(connection)
        self._queues.pop(connection, None)
        self._early.pop(connection, None)
        self._strangers.discard(connection)
        connection.claim = None  # the leader's answer still comes

    def receive(self, connection: Connection, frame: Buffer, now_ms: int) -> None:
        if self.is_leading:
            super().receive(connection, frame, now_ms)
        elif self.is_serving:
            self._receive_at_learner(connection, frame, now_ms)
        elif self.read_only is not None:
            self.read_only.receive(connection, frame, now_ms)

    def tick(self, now_ms: int) -> None:
        if self.is_leading:
            super().tick(now_ms)
        elif self.read_only is not None:
            self.read_only.tick(now_ms)

    def next_deadline_ms(self) -> int | None:
        if self.read_only is not None:
            return self.read_only.next_deadline_ms()
        return super().next_deadline_ms() if self.is_leading else None

    def _receive_at_learner(self, connection: Connection, frame: Buffer, now_ms: int) -> None:
        if connection.is_refused:
            return
        if connection.session_id == 0:
            claim = connection.claim
            if claim is None:
                self._connect_at_learner(connection, frame)
            elif connection in self._strangers:
                self._log_in_at_learner(connection, claim, frame, now_ms)
            else:
                early = self._early.setdefault(connection, [])
                if len(early) >= MAX_EARLY_FRAMES:
                    raise ProtocolError(f"more than {MAX_EARLY_FRAMES} requests before a session")
                early.append(bytes(frame))
            return
        session = self.sessions.sessions.get(connection.session_id)
        if session is None or session.connection is not connection:
            return
        xid, op = jute.read_request_header(frame)
        self._touched[session.session_id] = session.timeout_ms
        body = memoryview(frame)[8:]
        if self._is_login(connection, xid, op, body):
            return
        if op == Op.PING:
            self._send(connection, jute.reply_frame(PING_XID, self.tree.last_zxid, 0))
        elif op in _FORWARDED:
            self._enqueue(connection, _Waiting(xid, op, bytes(body), is_forwarded=True))
            self.forwards.append(
                ForwardedRequest(
                    connection.session_id, xid, op, bytes(body), list(connection.identities)
                )
            )
            if op == Op.SYNC:
                self._syncs.append(connection)
        else:
            waiting = self._queues.get(connection)
            if waiting:
                self._enqueue(connection, _Waiting(xid, op, bytes(body), is_forwarded=False))
            else:
                self._answer(connection, xid, op, body)

    def _enqueue(self, connection: Connection, waiting: _Waiting) -> None:
        queue = self._queues.setdefault(connection, deque())
        if len(queue) >= MAX_QUEUED_REQUESTS:
            raise ProtocolError(f"more than {MAX_QUEUED_REQUESTS} requests wait for a write")
        queue.append(waiting)

    def _answer(self, connection: Connection, xid: int, op: int, body: Buffer) -> None:
        if op in READ_REQUESTS or op in (Op.MULTI_READ, Op.WHO_AM_I):
            self._read(connection, xid, op, body)
        elif op in (Op.SET_WATCHES, Op.SET_WATCHES2):
            self._set_watches(connection, xid, op, body)
        else:
            self._send(connection, jute.reply_frame(xid, 0, ZkCode.UNIMPLEMENTED))
            self._send(connection, None)

    def _go_on(self, connection: Connection) -> None:
        """Answer what waited for the write that is answered now."""
        queue = self._queues.get(connection)
        while queue and not queue[0].is_forwarded:
            waiting = queue.popleft()
            self._answer(connection, waiting.xid, waiting.op, waiting.body)
        if not queue:
            self._queues.pop(connection, None)

    # Sessions of a learner's clients

    def _connect_at_learner(self, connection: Connection, frame: Buffer) -> None:
        request, read_only = jute.read_connect_request(frame)
        self._check_seen(request.last_zxid_seen)
        timeout_ms = self.sessions.negotiate_ms(request.timeout_ms)
        connection.answers_read_only = read_only is not None
        if request.session_id == 0:
            claim = Claim(self.sessions.next_id(), timeout_ms, is_new=True)
            if self.is_closed:
                self._await_login(connection, claim)
                return
            self._ask_for_session(claim)
        elif self.sessions.password_is_right(request.session_id, request.password):
            claim = Claim(request.session_id, timeout_ms, is_new=False)
            self.revalidations.append((claim.session_id, timeout_ms))
        else:
            self._refuse_session(connection)
            return
        connection.claim = claim
        self._await_answer(connection, claim)

    def _await_answer(self, connection: Connection, claim: Claim) -> None:
        """The leader answers the claims of a session in their order."""
        self._claims.setdefault(claim.session_id, deque()).append(connection)

    def _answered(self, session_id: int) -> Connection | None:
        """The connection whose claim the leader has answered; None if it has gone."""
        waiting = self._claims.get(session_id)
        if not waiting:
            return None
        connection = waiting.popleft()
        if not waiting:
            del self._claims[session_id]
        return connection if connection.claim is not None else None

    def _ask_for_session(self, claim: Claim) -> None:
        body = _TIMEOUT.pack(claim.timeout_ms)
        self.forwards.append(ForwardedRequest(claim.session_id, 0, Op.CREATE_SESSION, body, []))

    def _await_login(self, connection: Connection, claim: Claim) -> None:
        """Answer a stranger, so that it can log in; it has no session until then."""
        connection.claim = claim
        self._strangers.add(connection)
        self._answer_claim(connection, claim)

    def _log_in_at_learner(
        self, connection: Connection, claim: Claim, frame: Buffer, now_ms: int
    ) -> None:
        """Handle the first frame of a stranger: it must be the admitted login."""
        xid = self._admitted_login(connection, claim, frame)
        if xid is None:
            return
        self._strangers.discard(connection)
        self._send(connection, jute.reply_frame(xid, 0, 0))
        if claim.is_new:
            self._await_answer(connection, claim)
            self._ask_for_session(claim)
        else:
            self._claim(connection, claim, now_ms)

    def revalidated(self, session_id: int, is_valid: bool, now_ms: int) -> None:
        connection = self._answered(session_id)
        if connection is None or connection.claim is None:
            return
        if is_valid and self.is_closed:
            self._await_login(connection, connection.claim)
            for frame in self._early.pop(connection, ()):
                self._receive_at_learner(connection, frame, now_ms)
        elif is_valid:
            self._claim(connection, connection.claim, now_ms)
        else:
            connection.claim = None
            self._refuse_session(connection)

    def _claim(self, connection: Connection, claim: Claim, now_ms: int) -> None:
        """The session is this connection's."""
        session = self.sessions.add(claim.session_id, claim.timeout_ms, now_ms)
        known = session.connection
        if isinstance(known, Connection) and known is not connection:
            self._send(known, None)
            self.watches.remove_watcher(known)
        session.connection = connection
        connection.session_id = claim.session_id
        connection.claim = None
        if not self.is_closed:
            self._answer_claim(connection, claim)
        for frame in self._early.pop(connection, ()):
            self._receive_at_learner(connection, frame, now_ms)

    def _answer_claim(self, connection: Connection, claim: Claim) -> None:
        password = self.sessions.password(claim.session_id)
        response = ConnectResponse(0, claim.timeout_ms, claim.session_id, password)
        self._send_connect_response(connection, response, connection.answers_read_only or None)

    def _refuse_session(self, connection: Connection) -> None:
        refusal = ConnectResponse(0, 0, 0, bytes(PASSWORD_SIZE))
        self._send_connect_response(connection, refusal, connection.answers_read_only or None)
        self._refuse(connection)

    def take_touches(self) -> dict[int, int]:
        touched, self._touched = self._touched, {}
        return touched

    def synced(self, now_ms: int) -> None:
        """The leader has answered the oldest SYNC, and no later one, whether or not its client has
        gone."""
        if not self._syncs:
            return
        connection = self._syncs.popleft()
        queue = self._queues.get(connection)
        if not queue or queue[0].op != Op.SYNC:
            return
        waiting = queue.popleft()
        try:
            path = jute.decode(PathRequest, waiting.body).path
        except ProtocolError:
            self._reply(connection, waiting.xid, ZkCode.MARSHALLING_ERROR)
        else:
            self._reply(connection, waiting.xid, 0, PathResponse(path))
        self._go_on(connection)

    # Transactions of the leader, at a learner

    def log_from_leader(
        self, txn: Txn, *, may_be_there: bool, now_ms: int, record: bytes | None = None
    ) -> None:
        given = txn = close_session_in(self.tree, txn)
        if may_be_there:
            txn = fitted(self.tree, txn)
        session_id = txn.header.session_id
        body = txn.body
        known = self.sessions.sessions.get(session_id)
        connection = known.connection if known is not None else None
        if isinstance(body, CloseSessionTxn):
            self.sessions.remove(session_id)
        elif isinstance(body, CreateSessionTxn):
            self.sessions.add(session_id, body.timeout_ms, now_ms)
        stats = self._apply(txn, now_ms, record if txn is given else None)
        if isinstance(body, CreateSessionTxn):
            asking = self._answered(session_id)
            if asking is not None and asking.claim is not None:
                self._claim(asking, asking.claim, now_ms)
        elif isinstance(connection, Connection):
            self._answer_write(connection, txn, stats)

    def _answer_write(self, connection: Connection, txn: Txn, stats: Sequence[Stat | None]) -> None:
        body = txn.body
        queue = self._queues.get(connection)
        is_asked = bool(queue) and queue is not None and queue[0].xid == txn.header.cxid
        if queue is None or not is_asked or not queue[0].is_forwarded:
            if isinstance(body, CloseSessionTxn):
                self._send(connection, None)  # it has expired
            return
        waiting = queue.popleft()
        xid = waiting.xid
        if isinstance(body, ErrorTxn) and body.code == ZkCode.SESSION_MOVED:
            # As in FinalRequestProcessor: the client comes back, and takes its session along.
            self._send(connection, None)
            return
        if isinstance(body, ErrorTxn):
            self._reply(connection, xid, body.code)
        elif isinstance(body, MultiTxn):
            self._reply(connection, xid, 0, *multi_reply(multi_results(body.parts, stats)))
        elif isinstance(body, CloseSessionTxn):
            self._reply(connection, xid, 0)
            self._send(connection, None)
        else:
            self._reply(connection, xid, 0, *result_of(waiting.op, body, stats[0]))
        self._go_on(connection)

    # Requests of learners, at the leader

    def forwarded(self, learner_id: int, request: ForwardedRequest, now_ms: int) -> None:
        session_id, cxid, op, body, identities = request
        if op == Op.CREATE_SESSION:
            self._create_forwarded(learner_id, request, now_ms)
            return
        if op == Op.CLOSE_SESSION and session_id in self.sessions.sessions:
            # Any member may close a session, one that it has just lost as well.
            self._close_session(session_id, cxid, now_ms)
            return
        failure = self._owner_error(session_id, learner_id)
        if failure is not None:
            self._log_error(session_id, cxid, failure, now_ms)
        elif op == Op.MULTI:
            self._multi_forwarded(request, now_ms)
        elif op in WRITE_REQUESTS:
            try:
                parsed = read_write(op, body)
                overlay = Overlay(self.tree)
                txn = prepare(op, parsed, session_id, identities, overlay, self._access)
            except KeeperError as error:
                self._log_error(session_id, cxid, error.code, now_ms)
            except ProtocolError:
                self._log_error(session_id, cxid, ZkCode.MARSHALLING_ERROR, now_ms)
            else:
                self._log(session_id, cxid, Op(op), txn, now_ms)
        else:
            is_reconfig = op == Op.RECONFIG
            code = ZkCode.RECONFIG_DISABLED if is_reconfig else ZkCode.UNIMPLEMENTED
            self._log_error(session_id, cxid, code, now_ms)

    def revalidate(self, session_id: int, timeout_ms: int, learner_id: int, now_ms: int) -> bool:
        """A learner's client wants to resume a session."""
        session = self.sessions.sessions.get(session_id)
        if session is None:
            return False
        if isinstance(session.connection, Connection):
            self._send(session.connection, None)
            self.watches.remove_watcher(session.connection)
            session.connection = None
        self._owners[session_id] = learner_id
        self.sessions.add(session_id, timeout_ms, now_ms)
        return True

    def touch(self, session_id: int, timeout_ms: int, now_ms: int) -> None:
        session = self.sessions.sessions.get(session_id)
        if session is not None:
            session.timeout_ms = timeout_ms
            self.sessions.touch(session, now_ms)

    def _create_forwarded(self, learner_id: int, request: ForwardedRequest, now_ms: int) -> None:
        session_id, cxid, _, body, _ = request
        if len(body) != _TIMEOUT.size:
            raise ProtocolError(f"a session with a time-out of {len(body)} bytes")
        timeout_ms = self.sessions.negotiate_ms(_TIMEOUT.unpack(body)[0])
        self._log(session_id, cxid, Op.CREATE_SESSION, CreateSessionTxn(timeout_ms), now_ms)
        self.sessions.add(session_id, timeout_ms, now_ms)
        self._owners[session_id] = learner_id

    def _multi_forwarded(self, request: ForwardedRequest, now_ms: int) -> None:
        session_id, cxid, _, body, identities = request
        try:
            requests = read_multi(body, reads=False)
        except ProtocolError:
            self._log_error(session_id, cxid, ZkCode.MARSHALLING_ERROR, now_ms)
            return
        parts = self._prepare_multi(requests, session_id, identities)
        self._log(session_id, cxid, Op.MULTI, MultiTxn(parts), now_ms)

    def _owner_error(self, session_id: int, learner_id: int) -> ZkCode | None:
        if session_id not in self.sessions.sessions:
            return ZkCode.SESSION_EXPIRED
        owner = self._owners.setdefault(session_id, learner_id)
        return None if owner == learner_id else ZkCode.SESSION_MOVED

    def _log_error(self, session_id: int, cxid: int, code: ZkCode, now_ms: int) -> None:
        self._log(session_id, cxid, Op.ERROR, ErrorTxn(code), now_ms)

    # What the leader's own clients and learners have in common

    def _apply(self, txn: Txn, now_ms: int, record: bytes | None = None) -> list[Stat | None]:
        if self.is_leading:
            record = encode_txn(txn)
            self.proposals.append(Logged(txn.header.zxid, record))
            if isinstance(txn.body, CloseSessionTxn):
                self._owners.pop(txn.header.session_id, None)
        return super()._apply(txn, now_ms, record)

    def _open_session(self, connection: Connection, claim: Claim, now_ms: int) -> None:
        super()._open_session(connection, claim, now_ms)
        self._owners[claim.session_id] = self.my_id
