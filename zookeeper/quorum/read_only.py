"""Clients of a member that has no leader, and serves those that asked for it: they read its state.

Mirrors `ReadOnlyZooKeeperServer` and `ReadOnlyRequestProcessor`. Nothing is logged and no zxid is
taken: sessions are those of this member alone and end with its election. A client that did not ask
to read only, or that has a session of the ensemble, is disconnected, as there. What changes the
state, and `sync`, is answered NOT_READ_ONLY.

Beyond it: Apache ZooKeeper serves no new session here without `localSessionsEnabled=true`.

Invariant: no record comes out of it.
"""

from __future__ import annotations

from collections.abc import Callable, Container

from ...protocol.invariants import BrokenInvariant
from ...protocol.primitives import Buffer
from ...protocol.zookeeper import jute
from ...protocol.zookeeper.constants import Op, ZkCode
from ...protocol.zookeeper.jute import ConnectResponse, Id, Stat
from ..access import Access
from ..client_connection import Claim, Connection
from ..sessions import SessionTable
from ..transactions import Body
from ..tree import DataTree
from ..zookeeper_server import ZooKeeperMachine


class ReadOnlyMachine(ZooKeeperMachine):
    __slots__ = ("_ensemble_sessions",)

    def __init__(
        self,
        tree: DataTree,
        sessions: SessionTable,
        ensemble_sessions: Container[int],
        *,
        admitted: Id | None,
        access: Access,
        entropy: Callable[[int], bytes],
    ) -> None:
        super().__init__(tree, sessions, admitted=admitted, access=access, entropy=entropy)
        self._ensemble_sessions = ensemble_sessions

    def tick(self, now_ms: int) -> None:
        for session in self.sessions.expired(now_ms):
            client = session.connection
            self.sessions.remove(session.session_id)
            if isinstance(client, Connection):
                self._send(client, None)

    def _connect(self, connection: Connection, frame: Buffer, now_ms: int) -> None:
        request, read_only = jute.read_connect_request(frame)
        if not read_only or request.session_id in self._ensemble_sessions:
            self._refuse(connection)
            return
        super()._connect(connection, frame, now_ms)

    def _open_session(self, connection: Connection, claim: Claim, now_ms: int) -> None:
        if claim.is_new:
            self.sessions.add(claim.session_id, claim.timeout_ms, now_ms)
        super()._open_session(connection, claim._replace(is_new=False), now_ms)

    def _send_connect_response(
        self, connection: Connection, response: ConnectResponse, read_only: bool | None
    ) -> None:
        self._send(connection, jute.connect_response_frame(response, read_only=True))

    def _close_session(self, session_id: int, cxid: int, now_ms: int) -> None:
        self.sessions.remove(session_id)

    # What changes the state

    def _read(self, connection: Connection, xid: int, op: int, body: Buffer) -> None:
        if op == Op.SYNC:
            self._reply(connection, xid, ZkCode.NOT_READ_ONLY)
        else:
            super()._read(connection, xid, op, body)

    def _write(self, connection: Connection, xid: int, op: int, body: Buffer, now_ms: int) -> None:
        self._reply(connection, xid, ZkCode.NOT_READ_ONLY)

    def _multi(self, connection: Connection, xid: int, body: Buffer, now_ms: int) -> None:
        self._reply(connection, xid, ZkCode.NOT_READ_ONLY)

    def _reconfig(self, connection: Connection, xid: int, body: Buffer, now_ms: int) -> None:
        self._reply(connection, xid, ZkCode.NOT_READ_ONLY)

    def _log(
        self, session_id: int, cxid: int, op: Op, body: Body, now_ms: int
    ) -> list[Stat | None]:
        raise BrokenInvariant(f"a member without a leader would log operation {op}")
