"""The embedded ZooKeeper's runtime: one trio task a connection around the pure machine.

Mirrors `NIOServerCnxnFactory` and `NIOServerCnxn`. The machine decides; this file moves bytes:
frames in, effects out, a timer for `tick`, and one task that makes records durable in a worker
thread, many at a time (group commit), before the frames that depend on them are sent.

With credentials the server is closed: it listens on the loopback interface alone, and a connection
that has not proved them has no session and no longer than a connection without a connect request.
When a host has all its connections, unproved ones are closed before any new one is refused, so that
they cannot keep the brokers out.

Limits: frames (`jute.maxbuffer`), connections a host (`maxClientCnxns`), bytes queued to a slow
client, frames that wait for the disk, time until the connect request (as ZooKeeper's
`sessionlessCnxnTimeout`), in which a handshake of TLS is to be done, too. Bad input closes its
connection with one log line.
"""

import errno
import logging
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from time import time

import trio

from ...protocol.errors import ProtocolError
from ...zookeeper import four_letter
from ...zookeeper.access import OPEN_ACCESS, Access
from ...zookeeper.acl import digest_id
from ...zookeeper.client_connection import Connection
from ...zookeeper.connection_stats import ConnectionStats, ServerStats
from ...zookeeper.passwords import passwords_of
from ...zookeeper.quorum.ensemble_config import SecurePort
from ...zookeeper.sessions import SessionTable
from ...zookeeper.zookeeper_server import CONTAINER_CHECK_MS, ZooKeeperMachine
from ..resources import process_facts
from .client_ports import LISTEN_BACKLOG, ClientPort, client_ports
from .connection import Client, ClientGone
from .storage import ZooKeeperStorage, open_storage

MAX_CONNECTIONS_PER_HOST = 60  # maxClientCnxns' default
MAX_WAITING_FRAMES = 10_000  # for the disk, all clients; above it, requests are not read
SESSIONLESS_TIMEOUT_S = 10.0
OUT_OF_FILES_PAUSE_S = 0.1
STRANGERS_PAUSE_S = 10.0  # between two lines about clients without a login
NEVER = float("inf")

logger = logging.getLogger("pybroker.broker.zookeeper.server")


async def serve_zookeeper(
    data_dir: Path | None,
    *,
    log_dir: Path | None = None,
    host: str = "127.0.0.1",
    port: int | None = 2181,
    secure_port: SecurePort | None = None,
    tick_time_ms: int = 2000,
    session_limits_ms: tuple[int, int] | None = None,
    fsync: bool = True,
    max_connections_per_host: int = MAX_CONNECTIONS_PER_HOST,
    container_check_ms: int = CONTAINER_CHECK_MS,
    credentials: bytes | None = None,
    access: Access = OPEN_ACCESS,
    task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until cancelled; `task_status.started(port)` once clients can connect.

    Without a data directory all is kept in memory; `log_dir` is the directory of the log, if it is
    another one. `session_limits_ms`: the shortest and the longest; None: 2 and 20 ticks.
    `max_connections_per_host` 0: no limit. `credentials`, user:password, close it to all other
    clients. Raises OSError if a port is taken, NotLoopback if a closed server would be
    reachable from other hosts, ConfigurationError for TLS that cannot be, and DataDirectoryError if
    the directory is in use, not ours, or cannot be recovered.
    """
    with client_ports(host, port, secure_port, is_closed=credentials is not None) as ports:
        storage = open_storage(data_dir, log_dir, fsync=fsync)
        try:
            clock = Clock()
            now_ms = clock.now_ms()
            sessions = SessionTable(
                tick_time_ms,
                passwords_of(storage.secret, credentials),
                now_ms,
                limits_ms=session_limits_ms,
            )
            restore_sessions(sessions, storage, now_ms)
            machine = ZooKeeperMachine(
                storage.recovered.tree,
                sessions,
                container_check_ms=container_check_ms,
                admitted=None if credentials is None else digest_id(credentials),
                access=access,
            )
            server = ZooKeeperServer(
                ports, storage, machine, clock, tick_time_ms, max_connections_per_host
            )
            await server.run(task_status)
        finally:
            storage.close()


def restore_sessions(sessions: SessionTable, storage: ZooKeeperStorage, now_ms: int) -> None:
    for session_id, timeout_ms in storage.recovered.sessions.items():
        sessions.add(session_id, timeout_ms, now_ms)


class Clock:
    """Milliseconds since the epoch that only move forward, at the pace of trio's clock."""

    __slots__ = ("_epoch_s",)

    def __init__(self) -> None:
        self._epoch_s = time() - trio.current_time()

    def now_ms(self) -> int:
        return int((trio.current_time() + self._epoch_s) * 1000)

    def trio_time(self, at_ms: int | None) -> float:
        return NEVER if at_ms is None else at_ms / 1000 - self._epoch_s


class ZooKeeperServer:
    """One listening server and all its state."""

    __slots__ = (
        "_clients",
        "_clock",
        "_flush_wanted",
        "_flushed",
        "_is_flushing",
        "_machine",
        "_max_connections_per_host",
        "_next_telling",
        "_nursery",
        "_per_host",
        "_ports",
        "_started_ms",
        "_stats",
        "_storage",
        "_tick_ms",
        "_timer",
        "_untold_strangers",
        "_waiting_frames",
        "_waiting_records",
    )

    def __init__(
        self,
        ports: Sequence[ClientPort],
        storage: ZooKeeperStorage,
        machine: ZooKeeperMachine,
        clock: Clock,
        tick_ms: int,
        max_connections_per_host: int,
    ) -> None:
        self._clock = clock
        self._machine = machine
        self._ports = ports
        self._storage = storage
        self._tick_ms = tick_ms
        self._max_connections_per_host = max_connections_per_host
        self._per_host: Counter[str] = Counter()
        self._clients: dict[Client, None] = {}
        self._timer = trio.CancelScope()
        self._waiting_records: list[bytes] = []
        self._waiting_frames: list[tuple[Connection, bytes | None]] = []
        self._flush_wanted = trio.Event()
        self._flushed = trio.Event()
        self._is_flushing = False
        self._nursery: trio.Nursery | None = None
        self._started_ms = clock.now_ms()
        self._untold_strangers = 0
        self._next_telling = -NEVER
        self._stats = ServerStats()

    @property
    def port(self) -> int:
        """That without TLS, if there is one."""
        return self._ports[0].number

    async def run(self, task_status: trio.TaskStatus[int]) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self._tick(self._clock.now_ms())
            if self._storage.is_durable:
                nursery.start_soon(self._flush_forever)
            nursery.start_soon(self._tick_forever)
            self._perform_effects()
            task_status.started(self.port)
            for port in self._ports:
                nursery.start_soon(self._accept_forever, port)

    # A member of an ensemble overrides these

    async def _await_service(self) -> bool:
        """Whether clients are served; it may wait for that."""
        return True

    @property
    def _is_congested(self) -> bool:
        """Whether so much waits that no more requests are read."""
        return len(self._waiting_frames) > MAX_WAITING_FRAMES

    @property
    def _ensemble(self) -> four_letter.EnsembleInfo | None:
        return None

    def _next_deadline_ms(self) -> int | None:
        return self._machine.next_deadline_ms()

    def _tick(self, now_ms: int) -> None:
        self._machine.tick(now_ms)

    def _receive(self, connection: Connection, frame: bytes, now_ms: int) -> None:
        self._machine.receive(connection, frame, now_ms)

    # Connections

    async def _accept_forever(self, port: ClientPort) -> None:
        assert self._nursery is not None
        while True:
            await trio.lowlevel.wait_readable(port.listener)
            try:
                sock, address = port.listener.accept()
            except (BlockingIOError, ConnectionError):
                continue
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS):
                    raise
                logger.warning("cannot accept a connection now: %s", os.strerror(error.errno))
                await trio.sleep(OUT_OF_FILES_PAUSE_S)
                continue
            client_host, client_port = address[:2]
            limit = self._max_connections_per_host
            is_full = limit and self._per_host[client_host] >= limit
            if is_full and not self._drop_stranger(client_host):
                logger.warning(
                    "closed a connection from %s: it has %d already (maxClientCnxns)",
                    client_host,
                    limit,
                )
                sock.close()
                continue
            stats = ConnectionStats(self._stats, self._clock.now_ms())
            try:
                client = port.client(sock, client_host, client_port, stats)
            except OSError:  # it has been closed again
                sock.close()
                continue
            self._clients[client] = None
            self._per_host[client_host] += 1
            self._nursery.start_soon(self._serve, client)

    def _drop_stranger(self, host: str) -> bool:
        """Close a connection without a login to make room; False if the host has none."""
        if not self._machine.is_closed:
            return False
        for client in self._clients:
            is_stranger = client.connection is None or client.connection.session_id == 0
            if client.host == host and is_stranger and not client.scope.cancel_called:
                self._log_stranger(client)
                client.scope.cancel()
                return True
        return False

    def _log_stranger(self, client: Client) -> None:
        """Log a line for the first in a while: constant attempts must not fill the disk."""
        self._untold_strangers += 1
        now = trio.current_time()
        if now < self._next_telling:
            return
        self._next_telling = now + STRANGERS_PAUSE_S
        logger.warning(
            "closed %d connections that did not log in, the last from %s",
            self._untold_strangers,
            client.address,
        )
        self._untold_strangers = 0

    async def _serve(self, client: Client) -> None:
        connection = self._machine.connected(client, client.host)
        client.connection = connection
        try:
            with client.scope:
                await self._serve_requests(client, connection)
        except ProtocolError as error:
            logger.warning("closed the connection from %s: %s", client.address, error)
        except (ClientGone, OSError) as error:
            logger.debug("the connection from %s ended: %s", client.address, error)
        finally:
            if connection.failed_login or (connection.is_refused and self._machine.is_closed):
                self._log_stranger(client)
            self._machine.disconnected(connection)
            client.close()
            del self._clients[client]
            self._per_host[client.host] -= 1
            if not self._per_host[client.host]:
                del self._per_host[client.host]

    async def _serve_requests(self, client: Client, connection: Connection) -> None:
        deadline = trio.current_time() + SESSIONLESS_TIMEOUT_S
        with trio.CancelScope(deadline=deadline) as patience:
            connection.identities += await client.shake_hands()
            word = await client.receive_first()
        if patience.cancelled_caught:
            raise ProtocolError(f"no connect request within {SESSIONLESS_TIMEOUT_S:.0f} s")
        if word in four_letter.WORDS:
            client.stats.count_word()
            client.send(self._four_letter_answer(word, client))
            await client.finish()
            return
        if not await self._await_service():
            raise ClientGone("this member has no leader")
        while True:
            now_ms = self._clock.now_ms()
            try:
                for frame in client.frames():
                    is_connect = connection.awaits_connect
                    self._receive(connection, frame, now_ms)
                    client.stats.count_request(frame, now_ms, is_connect=is_connect)
            finally:
                self._perform_effects()
            if client.closing:
                await client.finish()
                return
            while self._is_congested:
                await self._flushed.wait()
            if connection.session_id:
                await client.receive_more()
                continue
            with trio.CancelScope(deadline=deadline) as patience:
                await client.receive_more()
            if patience.cancelled_caught:
                raise ProtocolError(f"no login within {SESSIONLESS_TIMEOUT_S:.0f} s")

    def _four_letter_answer(self, word: bytes, client: Client) -> bytes:
        """The answer to a four-letter word; it changes nothing, so no defect in it may end the
        server.
        """
        try:
            return four_letter.answer(word, self._machine, self._info(client))
        except Exception:
            logger.exception("the four-letter word %r cannot be answered", word)
            return b"the answer failed; see the log\n"

    def _port_number(self, *, with_tls: bool) -> int:
        """-1: there is none."""
        return next((it.number for it in self._ports if bool(it.tls) == with_tls), -1)

    def _info(self, asking: Client) -> four_letter.ServerInfo:
        now_ms = self._clock.now_ms()
        data_dir, log_dir = self._storage.places
        return four_letter.ServerInfo(
            client_port=self._port_number(with_tls=False),
            secure_client_port=self._port_number(with_tls=True),
            listen_backlog=LISTEN_BACKLOG,
            data_dir=str(data_dir or "(memory)"),
            data_dir_bytes=0 if data_dir is None else process_facts.bytes_in(data_dir),
            log_dir=str(log_dir or "(memory)"),
            log_dir_bytes=0 if log_dir is None else process_facts.bytes_in(log_dir),
            tick_ms=self._tick_ms,
            max_connections_per_host=self._max_connections_per_host,
            uptime_ms=now_ms - self._started_ms,
            open_files=process_facts.open_files(),
            max_open_files=process_facts.max_open_files(),
            environment=process_facts.environment(),
            date_text=process_facts.date_text,
            stats=self._stats,
            ensemble=self._ensemble,
            clients=[
                four_letter.ClientInfo(
                    client.host,
                    client.port,
                    client.connection,
                    client.stats,
                    client is asking,
                    client.stats.established_ms + int(SESSIONLESS_TIMEOUT_S * 1000),
                )
                for client in self._clients
            ],
        )

    # Effects

    def _perform_effects(self) -> None:
        """Take the machine's effects: send at once, or queue behind the disk."""
        records, frames = self._machine.take_effects()
        self._wake_timer()
        if not self._storage.is_durable or not (records or self._is_flushing):
            self._send(frames)
            return
        if not self._is_flushing:
            self._is_flushing = True
            self._flush_wanted.set()
        self._waiting_records += records
        self._waiting_frames += frames

    def _send(self, frames: list[tuple[Connection, bytes | None]]) -> None:
        assert self._nursery is not None
        touched: dict[Client, None] = {}
        now_ms = self._clock.now_ms()
        for connection, frame in frames:
            client = connection.token
            assert isinstance(client, Client)
            if frame is None:
                client.closing = True
            elif not client.closing:
                client.queue(frame)
                client.stats.count_reply(frame, now_ms, self._machine.tree.last_zxid)
            touched[client] = None
        for client in touched:
            client.flush(self._nursery)

    async def _flush_forever(self) -> None:
        """Group commit: all that came up during one fsync goes into the next."""
        while True:
            await self._flush_wanted.wait()
            self._flush_wanted = trio.Event()
            while self._waiting_records or self._waiting_frames:
                records, frames = self._waiting_records, self._waiting_frames
                self._waiting_records, self._waiting_frames = [], []
                if records:
                    await self._make_durable(records)
                self._send(frames)
                self._flushed.set()
                self._flushed = trio.Event()
            self._is_flushing = False

    async def _make_durable(self, records: list[bytes]) -> None:
        assert self._nursery is not None
        try:
            await self._storage.append(records, self._machine, self._nursery)
        except OSError as error:
            logger.critical(
                "cannot write the transaction log in %s: %s; stopping, because nothing more can be"
                " acknowledged",
                self._storage.directory,
                error,
            )
            raise

    # Time

    async def _tick_forever(self) -> None:
        while True:
            deadline_ms = self._next_deadline_ms()
            with trio.CancelScope(deadline=self._clock.trio_time(deadline_ms)) as self._timer:
                await trio.sleep_forever()
            tick_s = self._tick_ms / 1000
            if trio.current_time() - self._timer.deadline > tick_s:
                # This process was stopped or starved, not its clients: read their requests first.
                await trio.sleep(tick_s)
            self._tick(self._clock.now_ms())
            self._perform_effects()

    def _wake_timer(self) -> None:
        """Wake the timer for a possibly earlier deadline: a new session, a first container."""
        deadline = self._clock.trio_time(self._next_deadline_ms())
        if deadline < self._timer.deadline:
            self._timer.deadline = deadline
