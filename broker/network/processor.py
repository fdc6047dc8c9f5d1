"""A processor: owns a set of connections, reads their requests and hands them over in batches.

All processors of a broker take turns in one task (`SocketServer`): receive from every socket that
is ready, queue the connections that now hold a whole request. A connection with a request in
progress is not read, unless that waits for replicas only (see `produce_pipeline`); its READ
interest is dropped only if an event for it shows up (dropping it for every request would cost two
system calls each) and set again at its next turn.

Mirrors `kafka.network.Processor` and the muting part of `Selector`.
"""

from __future__ import annotations

import logging
import socket
from time import perf_counter
from typing import TYPE_CHECKING

from .bad_input import BadInput
from .connection import Connection, ConnectionInfo
from .mute_state import PIPELINING, READING, RESPONSE_PENDING, THROTTLED
from .produce_pipeline import has_room, may_follow
from .receive_buffer import COMMON_BUFFER_BYTES, ReceiveMemory
from .selector import BROKEN, READ, WRITE, Selector

if TYPE_CHECKING:
    from .connection_quotas import ConnectionQuotas, MemoryPool
    from .request_channel import RequestChannel
    from .request_handler_pool import HandlersPool

log = logging.getLogger("pybroker.broker.network")

BUFFER_IDLE_SECONDS = 5.0
# A round that receives large requests ends after this time, and goes on where it was in the next.
ROUND_SECONDS = 0.002


class Processor:
    __slots__ = (
        "busy_seconds", "channel", "connections", "expired_connections", "handlers", "index",
        "left", "listener", "max_frame_bytes", "memory", "memory_waiters", "quotas",
        "receive_memory", "selector", "started_at",
    )  # fmt: skip

    def __init__(
        self,
        index: int,
        listener: str,
        selector: Selector,
        channel: RequestChannel,
        handlers: HandlersPool,
        quotas: ConnectionQuotas,
        *,
        max_frame_bytes: int,
        memory: MemoryPool | None = None,
        receive_memory: ReceiveMemory | None = None,
    ) -> None:
        self.index = index
        self.listener = listener
        self.selector = selector
        self.channel = channel
        self.handlers = handlers
        self.quotas = quotas
        self.max_frame_bytes = max_frame_bytes
        self.memory = memory
        self.receive_memory = receive_memory or ReceiveMemory()
        self.memory_waiters: list[Connection] = []
        self.left: list[tuple[int, int]] = []  # what the last round did not come to
        self.connections: dict[int, Connection] = {}
        self.busy_seconds = 0.0
        self.expired_connections = 0
        self.started_at = perf_counter()

    # -- life of a connection --

    def add(self, sock: socket.socket, info: ConnectionInfo) -> Connection:
        connection = Connection(
            sock, info, self, self.max_frame_bytes, perf_counter(), self.receive_memory
        )
        self.connections[connection.fileno] = connection
        self.selector.register(connection.fileno, READ)
        if self.quotas.must_shed(self.listener):
            self._shed_one(connection)
        return connection

    def close(self, connection: Connection, reason: str | None = None) -> None:
        """Close one connection; `reason` is its log line, None for an ordinary end."""
        if connection.closed:
            return
        connection.closed = True
        if reason is not None:
            log.warning("Closing the connection of %s (%s): %s", connection.info,
                        self.listener, reason)  # fmt: skip
        del self.connections[connection.fileno]
        self.selector.unregister(connection.fileno)
        connection.transport.close()
        connection.out.clear()
        connection.unsent.clear()
        if connection.reserved_bytes:
            self.release_memory(connection)
        connection.drop_buffer()
        connection.pipeline = None
        self.quotas.closed(self.listener, connection.info.host)

    def close_all(self) -> None:
        for connection in list(self.connections.values()):
            self.close(connection)
        self.selector.close()

    def _shed_one(self, newest: Connection) -> None:
        others = [c for c in self.connections.values() if c is not newest]
        if others:
            oldest = min(others, key=lambda c: c.last_active)
            self.close(oldest, "max.connections is exceeded and it was idle the longest")

    def watch(self, connection: Connection, events: int) -> None:
        if connection.events != events:
            connection.events = events
            self.selector.modify(connection.fileno, events)

    # -- one round --

    def round(self) -> None:
        """Receive from the sockets that are ready; queue the connections with a whole request."""
        now = perf_counter()
        connections = self.connections
        channel = self.channel
        had_large = False
        pending = iter(self._pending())
        self.left = []
        for fileno, events in pending:
            connection = connections.get(fileno)
            if connection is None:
                continue
            if events & WRITE:
                self.handlers.writable(connection)
                if connection.closed:
                    continue
            if not events & (READ | BROKEN):
                continue
            if channel.full or (had_large and perf_counter() - now > ROUND_SECONDS):
                self.left = [(fileno, events), *pending]
                break
            if (
                connection.state is not READING or connection.blocked or connection.waits_for_memory
            ) and not self._reads_ahead(connection, events):
                continue
            try:
                alive = connection.receive()
                had_large |= connection.needed > COMMON_BUFFER_BYTES
                if connection.needed and connection.end - connection.start >= connection.needed:
                    if connection.state is PIPELINING and not may_follow(connection):
                        self.watch(connection, connection.events & ~READ)
                    elif self.memory is None or self.reserve_memory(connection):
                        connection.state = RESPONSE_PENDING
                        connection.received_at = connection.last_active = now
                        channel.put(connection)
                    continue
                if connection.lacks_memory or self.memory is not None:
                    self._keep_within_memory(connection, now)
            except BadInput as error:
                self.handlers.end(connection, f"it sent {error}")
                continue
            except OSError:
                self.close(connection)
                continue
            if alive:
                connection.last_active = now
            else:
                self._ended(connection)
        self.busy_seconds += perf_counter() - now

    def _pending(self) -> list[tuple[int, int]]:
        """The sockets that are ready, what the last round did not come to included: behind those
        that are no part of a large request, and before those that have had their turn."""
        polled, left = self.selector.poll(), self.left
        if not left:
            return polled
        waiting = {fileno for fileno, _ in left}
        small: list[tuple[int, int]] = []
        large: list[tuple[int, int]] = []
        for entry in polled:
            if entry[0] not in waiting:
                connection = self.connections.get(entry[0])
                is_large = connection is not None and connection.needed > COMMON_BUFFER_BYTES
                (large if is_large else small).append(entry)
        return [*small, *left, *large]

    def _reads_ahead(self, connection: Connection, events: int) -> bool:
        """Whether to read although requests are in progress; if not, look at it no more."""
        if (
            connection.state is PIPELINING
            and not connection.blocked
            and not connection.waits_for_memory
            and has_room(connection)
            and not (connection.needed and connection.end - connection.start >= connection.needed)
        ):
            return True
        if events & BROKEN:
            self.close(connection)
        else:
            self.watch(connection, connection.events & ~READ)
        return False

    def _ended(self, connection: Connection) -> None:
        """The client sends nothing more. Requests that wait are answered; then it shows again."""
        if connection.state is PIPELINING:
            self.watch(connection, connection.events & ~READ)
        else:
            self.close(connection)

    # -- request memory --

    def reserve_memory(self, connection: Connection) -> bool:
        """Reserve the bytes of the frame at the front; if there is no room it waits unread."""
        assert self.memory is not None
        if connection.reserved_bytes:
            return True
        if self.memory.try_reserve(connection.needed):
            connection.reserved_bytes = connection.needed
            return True
        self._wait_for_memory(connection)
        return False

    def _keep_within_memory(self, connection: Connection, now: float) -> None:
        """Of a connection whose request is not whole."""
        if connection.lacks_memory:
            self._wait_for_memory(connection)
            self.handlers.memory_wanted(now)
        elif connection.needed:
            self.reserve_memory(connection)

    def _wait_for_memory(self, connection: Connection) -> None:
        """Read no more from a connection until memory has been given back."""
        if not connection.waits_for_memory:
            connection.waits_for_memory = True
            self.memory_waiters.append(connection)
            self.watch(connection, connection.events & ~READ)

    def release_memory(self, connection: Connection) -> None:
        assert self.memory is not None
        self.memory.release(connection.reserved_bytes)
        connection.reserved_bytes = 0
        self.handlers.memory_released()

    def retry_memory_waiters(self) -> None:
        """Read again from connections that waited for request memory."""
        waiters, self.memory_waiters = self.memory_waiters, []
        self.receive_memory.is_short = False
        for connection in waiters:
            connection.waits_for_memory = False
            if not connection.closed and connection.state in (READING, PIPELINING):
                self.handlers.resume(connection)

    # -- housekeeping, about once a second --

    def sweep(self, now: float, max_idle_seconds: float) -> None:
        """Close idle connections and take back the buffers of quiet ones."""
        for connection in list(self.connections.values()):
            idle = now - connection.last_active
            if connection.start == connection.end:
                connection.partial_since = 0.0
            elif connection.received_at >= connection.partial_since:
                connection.partial_since = now
            if connection.state is READING and not connection.blocked:
                if idle > BUFFER_IDLE_SECONDS or connection.buffer_is_too_large():
                    connection.give_back_buffer()
                if 0 <= max_idle_seconds < idle:
                    self.expired_connections += 1
                    log.info("Closing the connection of %s: idle for %.0f s",
                             connection.info, idle)  # fmt: skip
                    self.close(connection)
            elif connection.blocked and 0 <= max_idle_seconds < idle:
                self.expired_connections += 1
                self.close(connection, f"it did not read a response for {idle:.0f} s")

    def end_throttle(self, connection: Connection) -> None:
        if connection.state is THROTTLED:
            connection.state = READING
            self.handlers.resume(connection)

    def idle_share(self, now: float) -> float:
        """The share of its life that this processor spent waiting, 0 to 1."""
        alive = now - self.started_at
        return 1.0 if alive <= 0 else max(0.0, 1.0 - self.busy_seconds / alive)
