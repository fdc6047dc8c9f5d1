"""A member of an ensemble at work: its client port, its quorum port, its election port.

Mirrors `QuorumPeer` and `QuorumPeerMain`. The pure member decides
(`zookeeper.quorum.member`); this file moves bytes, as `server` does for one server alone: clients'
frames, the streams between leader and learners, the messages of elections, and records to the disk,
many at a time. After each event the effects of the member are carried out, without an `await`.

While there is no leader, clients are disconnected, and only four-letter words are answered. Then a
client that connects waits for the end of the election, for LEADERLESS_PATIENCE_S at most. Apache
ZooKeeper closes its connection at once, and the client comes back after a pause of its own. With
`readonlymode.enabled`, clients that only read are served after a while.
"""

import logging
from collections.abc import Callable, Sequence

import trio

from ...protocol.errors import ProtocolError
from ...zookeeper.acl import digest_id
from ...zookeeper.client_connection import Connection
from ...zookeeper.four_letter import READ_ONLY, EnsembleInfo
from ...zookeeper.passwords import passwords_of
from ...zookeeper.quorum.election_messages import PeerState
from ...zookeeper.quorum.ensemble_config import EnsembleConfig
from ...zookeeper.quorum.ensemble_machine import EnsembleMachine
from ...zookeeper.quorum.leader import LearnerStage, Limits
from ...zookeeper.quorum.member import LEADER_LINK, EnsembleSpec, Member
from ...zookeeper.sessions import SessionTable
from ...zookeeper.zookeeper_server import CONTAINER_CHECK_MS
from .client_ports import ClientPort, client_ports, listen
from .election_port import ElectionEvents, ElectionPort
from .member_storage import MemberStorage, open_member_storage
from .quorum_port import CONNECT_S, QuorumLink, admitted, dial
from .quorum_tls import QuorumTls, accepted, quorum_tls
from .server import (
    MAX_WAITING_FRAMES,
    Clock,
    ZooKeeperServer,
    restore_sessions,
)

logger = logging.getLogger("pybroker.broker.zookeeper.member_server")

LEADERLESS_PATIENCE_S = 1.0

_MODES = {
    PeerState.LEADING: "leader",
    PeerState.FOLLOWING: "follower",
    PeerState.OBSERVING: "observer",
}


async def serve_member(
    config: EnsembleConfig,
    *,
    fsync: bool = True,
    container_check_ms: int = CONTAINER_CHECK_MS,
    credentials: bytes | None = None,
    on_state: Callable[[str, bool], None] = lambda state, is_serving: None,
    task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until cancelled; `task_status.started(port)` once its ports are open.

    `credentials`, user:password, close it to all other clients; all members have the same.
    `on_state` gets each new state as a text, and whether clients are served in it. Raises
    OSError if a port is taken, ConfigurationError for TLS that cannot be, NotLoopback if a closed
    member would be reachable from other hosts, and DataDirectoryError if the directory cannot be
    used.
    """
    tls = None if config.tls is None else quorum_tls(config.tls)
    with client_ports(
        config.client_host,
        config.client_port,
        config.secure_port,
        is_closed=credentials is not None,
    ) as ports:
        storage = open_member_storage(config.data_dir, config.log_dir, fsync=fsync)
        try:
            clock = Clock()
            now_ms = clock.now_ms()
            lone_secret = None if 0 in config.servers else storage.secret
            sessions = SessionTable(
                config.tick_ms,
                passwords_of(lone_secret, credentials),
                now_ms,
                config.my_id,
                config.session_limits_ms,
            )
            restore_sessions(sessions, storage, now_ms)
            machine = EnsembleMachine(
                storage.recovered.tree,
                sessions,
                config.my_id,
                container_check_ms=container_check_ms,
                admitted=None if credentials is None else digest_id(credentials),
                access=config.access,
            )
            limits = Limits(config.tick_ms, config.init_limit, config.sync_limit)
            spec = EnsembleSpec(
                config.my_id,
                config.voters,
                config.is_observer,
                limits,
                config.text,
                config.reads_alone,
            )
            member = Member(spec, storage, machine, storage.recovered.recent, now_ms)
            server = MemberServer(ports, storage, machine, clock, config, member, tls, on_state)
            await server.run(task_status)
        finally:
            storage.close()


class MemberServer(ZooKeeperServer):
    __slots__ = (
        "_config",
        "_election_port",
        "_leader_link",
        "_links",
        "_member",
        "_on_state",
        "_served",
        "_state_told",
        "_tls",
    )

    def __init__(
        self,
        ports: Sequence[ClientPort],
        storage: MemberStorage,
        machine: EnsembleMachine,
        clock: Clock,
        config: EnsembleConfig,
        member: Member,
        tls: QuorumTls | None,
        on_state: Callable[[str, bool], None],
    ) -> None:
        super().__init__(
            ports,
            storage,
            machine,
            clock,
            config.tick_ms,
            config.max_client_connections,
        )
        self._config = config
        self._member = member
        self._tls = tls
        self._on_state = on_state
        events = ElectionEvents(self._notified, self._refused, self._disconnected)
        self._election_port = ElectionPort(
            config.my_id, config.reached, events, tls, config.member_login
        )
        self._links: set[QuorumLink] = set()
        self._leader_link: QuorumLink | None = None
        self._state_told: tuple[PeerState, bool, bool] | None = None
        self._served = trio.Event()  # set while clients are served

    async def run(self, task_status: trio.TaskStatus[int]) -> None:
        own = self._config.servers[self._config.my_id]
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            for port, serve in (
                (own.election_port, self._serve_election),
                (own.quorum_port, self._serve_quorum),
            ):
                listener = trio.SocketListener(
                    trio.socket.from_stdlib_socket(listen(own.host, port))
                )
                nursery.start_soon(serve, listener)
            await super().run(task_status)

    async def _serve_election(self, listener: trio.SocketListener) -> None:
        assert self._nursery is not None
        await self._election_port.serve(listener, self._nursery)

    async def _serve_quorum(self, listener: trio.SocketListener) -> None:
        await trio.serve_listeners(self._serve_learner, [listener])

    # What differs from a server alone

    async def _await_service(self) -> bool:
        with trio.move_on_after(LEADERLESS_PATIENCE_S):
            await self._served.wait()
        return self._member.is_serving or self._member.is_read_only

    @property
    def _is_congested(self) -> bool:
        waiting = max(self._member.held_frames, len(self._waiting_records))
        return waiting > MAX_WAITING_FRAMES

    @property
    def _ensemble(self) -> EnsembleInfo:
        member, config = self._member, self._config
        learners = member.learners
        followers = [learner for learner in learners if not learner.is_observer]
        return EnsembleInfo(
            my_id=config.my_id,
            mode=self._mode,
            followers=len(followers),
            synced_followers=sum(1 for it in followers if it.stage is LearnerStage.SERVING),
            observers=len(learners) - len(followers),
            init_limit=config.init_limit,
            sync_limit=config.sync_limit,
            servers=[f"server.{number}={it}" for number, it in sorted(config.servers.items())],
        )

    @property
    def _mode(self) -> str:
        if self._member.is_read_only:
            return READ_ONLY
        return _MODES.get(self._member.state, "") if self._member.is_serving else ""

    def _next_deadline_ms(self) -> int | None:
        return self._member.next_deadline_ms()

    def _tick(self, now_ms: int) -> None:
        self._member.tick(now_ms)

    def _receive(self, connection: Connection, frame: bytes, now_ms: int) -> None:
        self._member.client_frame(connection, frame, now_ms)

    # Effects

    def _perform_effects(self) -> None:
        member = self._member
        effects = member.take_effects(self._clock.now_ms())
        if effects.records:
            self._waiting_records += effects.records
            if not self._is_flushing:
                self._is_flushing = True
                self._flush_wanted.set()
        if effects.closes_clients:
            for client in self._clients:
                client.scope.cancel()
        if effects.frames:
            self._send(effects.frames)
            self._flushed.set()
            self._flushed = trio.Event()
        for receiver, message in effects.notifications:
            self._election_port.send(receiver, message)
        for link, piece in effects.pieces:
            if link is LEADER_LINK:
                if self._leader_link is not None:
                    self._leader_link.send(piece)
            elif isinstance(link, QuorumLink):
                link.send(piece)
        if effects.connect_to is not None:
            assert self._nursery is not None
            self._tell_wish()
            self._nursery.start_soon(self._follow, effects.connect_to)
        self._tell_state()
        self._wake_timer()

    def _tell_state(self) -> None:
        member = self._member
        state = (member.state, member.is_serving, member.is_read_only)
        if state == self._state_told:
            return
        self._state_told = state
        if member.is_serving or member.is_read_only:
            self._served.set()
        elif self._served.is_set():
            self._served = trio.Event()
        if member.is_serving:
            epoch = member.epochs.current
            if member.state is PeerState.LEADING:
                told = f"leads the ensemble in epoch {epoch}"
            else:
                mode = _MODES[member.state]
                told = f"is {mode} of server {member.leader_id} in epoch {epoch}"
        elif member.is_read_only:
            told = "has no leader, and serves clients that only read"
        elif member.state is PeerState.LOOKING:
            told = f"looks for a leader: {member.why_looking}"
        else:
            return
        logger.info("%s", told)
        self._on_state(told, member.is_serving)

    def _tell_wish(self) -> None:
        wish = self._member.snapshot_wish
        if wish is not None:
            logger.warning(
                "server %d, our leader in epoch %d, asks for a cut at %#x, but our files have no"
                " state before it: it is asked for a snapshot, which will take their place",
                self._member.leader_id,
                wish.epoch,
                wish.cut_zxid,
            )

    async def _flush_forever(self) -> None:
        while True:
            await self._flush_wanted.wait()
            self._flush_wanted = trio.Event()
            while self._waiting_records:
                records, self._waiting_records = self._waiting_records, []
                zxid = self._machine.tree.last_zxid
                await self._make_durable(records)
                self._member.durable(zxid, self._clock.now_ms())
                if not self._waiting_records:
                    self._is_flushing = False
                self._perform_effects()
                self._flushed.set()
                self._flushed = trio.Event()

    # Other members

    def _notified(self, sender: int, message: bytes) -> None:
        self._member.notified(sender, message, self._clock.now_ms())
        self._perform_effects()

    def _refused(self, member_id: int) -> None:
        self._member.election_refused(member_id, self._clock.now_ms())
        self._perform_effects()

    def _disconnected(self, member_id: int) -> None:
        self._member.election_disconnected(member_id)
        self._perform_effects()

    async def _serve_learner(self, stream: trio.SocketStream) -> None:
        try:
            host, port = stream.socket.getpeername()[:2]
            with trio.fail_after(CONNECT_S):
                shaken = await accepted(stream, self._tls)
                begun = await admitted(shaken, self._config.member_login)
                link = QuorumLink(shaken, f"{host}:{port}", begun)
        except (ProtocolError, OSError, trio.BrokenResourceError, trio.TooSlowError) as error:
            told = error.__cause__ or error
            logger.warning("closed a connection to the quorum port: %s", told)
            return
        member = self._member

        def received(data: bytes) -> None:
            try:
                member.learner_bytes(link, data, self._clock.now_ms())
            finally:
                self._perform_effects()

        member.learner_connected(link, self._clock.now_ms())
        self._perform_effects()
        try:
            why = await link.run(received)
            logger.debug("the learner at %s is gone: %s", link.address, why)
        finally:
            member.learner_disconnected(link)
            self._perform_effects()

    async def _follow(self, leader_id: int) -> None:
        """Connect to our leader, and stay connected as long as the member wants it."""
        member = self._member
        decided = member.election.decided

        def is_wanted() -> bool:
            return member.election.decided is decided and member.leader_id == leader_id

        def received(data: bytes) -> None:
            if self._leader_link is not link:
                return
            try:
                member.leader_bytes(data, self._clock.now_ms())
            finally:
                self._perform_effects()

        leader = self._config.reached[leader_id]
        link = await dial(leader, is_wanted, self._tls, self._config.member_login)
        if link is None or not is_wanted():
            if link is not None:
                link.scope.cancel()
                await link.run(lambda _: None)
            return
        self._leader_link = link
        member.leader_connected(self._clock.now_ms())
        self._perform_effects()
        try:
            why = await link.run(received)
        finally:
            is_replaced = self._leader_link is not link
            if not is_replaced:
                self._leader_link = None
        if is_wanted() and not is_replaced:
            member.leader_disconnected(f"the connection to its leader: {why}", self._clock.now_ms())
            self._perform_effects()
