"""A processor: owns a set of connections, reads their requests and hands them over in batches.

All processors of a broker take turns in one task (`SocketServer`): receive from every socket that
is ready, queue the connections that now hold a whole request. A connection with a request in
progress is not read, unless the request waits for replicas only (`produce_pipeline`); its READ
interest is dropped only if an event for it shows up (dropping it for every request would cost two
system calls each) and set again at its next turn. Its HANGUP interest stays, so that a client which
leaves while its request waits is noticed (`Connection.hang_up`); Kafka's selector notices when it
unmutes the channel. Idle rules count for every connection, muted or not, as in Kafka.

An exception in the work for a connection closes that one (`Connection.fail`).

Mirrors `kafka.network.Processor` and the muting part of `Selector`.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from time import perf_counter
from typing import Final

from .bad_input import BadInput
from .connection import HALF_CLOSED_SECONDS, Connection
from .connection_quotas import ConnectionQuotas
from .listener_security import OPEN, ListenerSecurity
from .memory_shortage import MemoryShortage
from .mute_state import PIPELINING, READING, RESPONSE_PENDING, THROTTLED
from .receive_buffer import COMMON_BUFFER_BYTES
from .request import ConnectionInfo
from .request_channel import RequestChannel
from .request_handler_pool import RequestHandlerPool
from .selector import BROKEN, HANGUP, READ, WRITE, Selector

logger: Final = logging.getLogger("pybroker.broker.network")

BUFFER_IDLE_SECONDS: Final = 5.0
SWEPT_AT_ONCE: Final = 500
MANY_READY: Final = 128
# A round with slow work (large requests, clients that hang up while theirs wait, very many sockets)
# ends after this time, and the next round continues there.
ROUND_SECONDS: Final = 0.002


class Processor:
    __slots__ = (
        "answered", "busy_seconds", "channel", "connections", "expired_connections",
        "failed_connections", "handlers", "index", "left", "listener", "max_frame_bytes", "memory",
        "memory_released", "quotas", "security", "selector", "started_at", "throttled",
    )  # fmt: skip

    def __init__(
        self,
        index: int,
        listener: str,
        selector: Selector,
        channel: RequestChannel,
        handlers: RequestHandlerPool,
        quotas: ConnectionQuotas,
        memory: MemoryShortage,
        *,
        max_frame_bytes: int,
        security: ListenerSecurity = OPEN,
    ) -> None:
        self.index = index
        self.listener = listener
        self.selector = selector
        self.channel = channel
        self.handlers = handlers
        self.quotas = quotas
        self.memory = memory
        self.max_frame_bytes = max_frame_bytes
        self.security = security
        self.connections: dict[int, Connection] = {}  # all that are open, by file descriptor
        self.left: list[tuple[int, int]] = []  # the rest of the last round
        self.busy_seconds = 0.0
        self.expired_connections = 0
        self.failed_connections = 0
        self.started_at = perf_counter()
        # The methods of `Owner`, bound without a call in between, since answers take this path.
        self.answered = handlers.answered
        self.throttled = handlers.throttled
        self.memory_released = handlers.memory_released

    # Life of a connection

    def add(self, sock: socket.socket, info: ConnectionInfo) -> None:
        """Read from this socket from now on; one for which that fails is closed."""
        try:
            connection = self._new_connection(sock, info)
        except Exception as error:
            logger.error("Closing a new connection of %s (%s): the work for it failed", info,
                         info.listener_name, exc_info=error)  # fmt: skip
            self.failed_connections += 1
            self.quotas.closed(self.listener, info.host)
            sock.close()
            return
        self.connections[connection.fileno] = connection
        self.selector.register(connection.fileno, READ | HANGUP)
        if self.quotas.must_shed(self.listener):
            self._shed_one(connection)

    def _new_connection(self, sock: socket.socket, info: ConnectionInfo) -> Connection:
        connection = self.security.new_connection(
            sock,
            info,
            self.selector,
            self,
            self.max_frame_bytes,
            perf_counter(),
            self.memory.receive_memory,
            self.memory.request_memory,
        )
        if self.security.new_gatekeeper is not None:
            connection.gatekeeper = self.security.new_gatekeeper(connection)
        return connection

    def closed(self, connection: Connection) -> None:
        """A connection is about to close its socket."""
        del self.connections[connection.fileno]
        self.selector.unregister(connection.fileno)
        self.quotas.closed(self.listener, connection.peer.host)

    def failed(self) -> None:
        """The work for a connection has failed."""
        self.failed_connections += 1

    def close_all(self) -> None:
        for connection in list(self.connections.values()):
            connection.close()
        self.selector.close()

    def _shed_one(self, newest: Connection) -> None:
        others = [c for c in self.connections.values() if c is not newest]
        if others:
            oldest = min(others, key=lambda c: c.last_active)
            oldest.close("max.connections is exceeded and it was idle the longest")

    # One round

    def round(self) -> None:
        """Receive from the sockets that are ready; queue the connections with a whole request."""
        now = perf_counter()
        connections = self.connections
        channel, memory = self.channel, self.memory
        bounds_requests = memory.request_memory is not None
        ready = self._pending()
        takes_long = len(ready) > MANY_READY
        pending = iter(ready)
        self.left = []
        for fileno, events in pending:
            connection = connections.get(fileno)
            if connection is None:
                continue
            if events & WRITE:
                self.handlers.writable(connection)
                if connection.closed:
                    continue
            if not events & (READ | BROKEN | HANGUP):
                continue
            if channel.full or (takes_long and perf_counter() - now > ROUND_SECONDS):
                self.left = [(fileno, events), *pending]
                break
            takes_long |= events & HANGUP != 0
            try:
                if (
                    connection.state is not READING
                    or connection.out.blocked
                    or connection.waits_for_memory
                ) and not self._reads_ahead(connection, events, now):
                    continue
                alive = connection.receive()
                takes_long |= connection.needed > COMMON_BUFFER_BYTES
                if connection.needed and connection.end - connection.start >= connection.needed:
                    if connection.state is PIPELINING and not connection.may_follow():
                        connection.watch(connection.events & ~READ)
                    elif not bounds_requests or memory.reserve(connection):
                        connection.state = RESPONSE_PENDING
                        connection.received_at = connection.last_active = now
                        channel.put(connection)
                    continue
                if connection.lacks_memory or bounds_requests:
                    memory.keep_within(connection, now)
            except Exception as error:
                _end(connection, error)
                continue
            if alive:
                connection.last_active = now
            else:
                self._ended(connection, now)
        self.busy_seconds += perf_counter() - now

    def _pending(self) -> list[tuple[int, int]]:
        """The ready sockets, including the rest of the last round: behind sockets without a large
        request, and before sockets that have had their turn."""
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

    def _reads_ahead(self, connection: Connection, events: int, now: float) -> bool:
        """Whether to read although requests are in progress; if not, stop watching."""
        pipeline = connection.pipeline
        if (
            connection.state is PIPELINING
            and not connection.out.blocked
            and not connection.waits_for_memory
            and pipeline is not None
            and pipeline.has_room
            and not (connection.needed and connection.end - connection.start >= connection.needed)
        ):
            return True
        if events & BROKEN:
            connection.close()
        elif events & HANGUP:
            connection.hang_up(now)
        else:
            connection.watch(connection.events & ~READ)
        return False

    def _ended(self, connection: Connection, now: float) -> None:
        """The client sends nothing more. Requests that wait are answered; then it shows again."""
        if connection.state is PIPELINING:
            connection.hang_up(now)
        else:
            connection.close()

    # Housekeeping, about once a second

    def sweep(self, now: float, max_idle_seconds: float) -> Iterator[None]:
        """Close idle connections and take back the buffers of quiet ones, in steps: each of some
        hundreds takes less than a millisecond, and where many are closed a step ends in time."""
        connections = list(self.connections.values())
        for start in range(0, len(connections), SWEPT_AT_ONCE):
            ends = perf_counter() + ROUND_SECONDS
            for connection in connections[start : start + SWEPT_AT_ONCE]:
                if connection.closed:
                    continue
                if self._closes(connection, now, max_idle_seconds) and perf_counter() > ends:
                    yield
                    ends = perf_counter() + ROUND_SECONDS
            yield

    def _closes(self, connection: Connection, now: float, max_idle_seconds: float) -> bool:
        """Sweep one connection; whether that has closed it."""
        try:
            self._sweep_one(connection, now, max_idle_seconds)
        except Exception as error:
            connection.fail(error)
        return connection.closed

    def _sweep_one(self, connection: Connection, now: float, max_idle_seconds: float) -> None:
        idle = now - connection.last_active
        if connection.start == connection.end:
            connection.partial_since = 0.0
        elif connection.received_at >= connection.partial_since:
            connection.partial_since = now
        if connection.is_quiet and (idle > BUFFER_IDLE_SECONDS or connection.buffer_is_too_large()):
            connection.give_back_buffer()
        # An answer that is about to leave counts as activity.
        is_answered = connection.unsent and not connection.out.blocked
        if 0 <= max_idle_seconds < idle and not is_answered:
            self._expire(connection, idle)
        elif (
            connection.hung_up_at
            and now - connection.hung_up_at > HALF_CLOSED_SECONDS
            and connection.state in (RESPONSE_PENDING, PIPELINING)
            and not connection.unsent
        ):
            self.expired_connections += 1
            connection.close("the client hung up while its request waits")
        if not connection.closed and (problem := connection.overdue(now)) is not None:
            connection.close(problem)

    def _expire(self, connection: Connection, idle: float) -> None:
        self.expired_connections += 1
        if connection.is_quiet:
            logger.info("Closing the connection of %s: idle for %.0f s",
                        connection.peer, idle)  # fmt: skip
            connection.close()
        elif connection.out.blocked:
            connection.close(f"it did not read a response for {idle:.0f} s")
        elif connection.state is THROTTLED:
            connection.close(f"a quota throttles it for longer than {idle:.0f} s")
        else:
            connection.close(f"its request waits, and no byte came or left for {idle:.0f} s")

    def idle_share(self, now: float) -> float:
        """The share of its life that this processor spent waiting, 0 to 1."""
        alive = now - self.started_at
        return 1.0 if alive <= 0 else max(0.0, 1.0 - self.busy_seconds / alive)


def _end(connection: Connection, error: Exception) -> None:
    """End the connection by the kind of error that reading it raised."""
    try:
        if isinstance(error, BadInput):
            connection.finish(f"it sent {error}")
        elif isinstance(error, OSError):
            connection.close()
        else:
            connection.fail(error)
    except Exception as failure:
        connection.fail(failure)
