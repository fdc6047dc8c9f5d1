"""Request handlers: take connections from the channel, run their requests, send the answers.

All connections queued in one round are served together, and their responses leave together: when a
handler answers at once, the next request that is already in the connection's buffer is handled in
the same turn, and one system call sends all its answers. New connections in the queue are served
and answered before those that have had a turn and ask for more. Handlers run one after the other on
the loop, and this module knows only `handle_frame`, or the `gatekeeper` before it on a connection;
handlers that wait (ZooKeeper, disk, a worker thread) are tasks of their own, which the dispatcher
bounds. `num.io.threads` bounds the threads that force data to disk.

A request that is not answered at once (parked in a purgatory, awaiting a coroutine) simply leaves
the connection muted; `respond` is called later from anywhere on the loop. While a produce request
in the log waits for replicas, the next one is admitted: see `produce_pipeline`.

Mirrors `KafkaRequestHandlerPool` and the sending half of `Processor`.
"""

from __future__ import annotations

import heapq
from collections import deque
from time import perf_counter
from typing import Final

import trio

from .bad_input import BadInput
from .cold_reads import ColdReads
from .connection import Connection, FrameHandler
from .memory_shortage import MemoryShortage
from .mute_state import PIPELINING, READING, RESPONSE_PENDING, THROTTLED
from .request_channel import RequestChannel
from .selector import READ, WRITE

# A connection's turn ends after this time, which is a request that takes long, or many that do not,
# or after this many bytes of responses; a batch ends after its time, and the rest is served in the
# next one. Others wait.
CONNECTION_TURN_SECONDS: Final = 0.0005
BATCH_SECONDS: Final = 0.003
MAX_RESPONSE_BYTES_PER_TURN: Final = 256 * 1024
# From so many on, those that have closed are looked for; others run after so many were unmuted.
MANY_THROTTLED: Final = 100


class RequestHandlerPool:
    __slots__ = (
        "_bounds_requests",
        "_busy_seconds",
        "_cold_reads",
        "_continuing_to_flush",
        "_continuing_to_send",
        "_handle_frame",
        "_in_batch",
        "_memory_freed",
        "_started_at",
        "_throttle_wake",
        "_throttled",
        "_throttled_limit",
        "_to_flush",
        "_turn",
        "channel",
        "memory",
    )  # fmt: skip

    def __init__(
        self,
        channel: RequestChannel,
        handle_frame: FrameHandler,
        memory: MemoryShortage,
        cold_reads: ColdReads,
    ) -> None:
        """`handle_frame` takes the frames of connections that have no gatekeeper."""
        self.channel = channel
        self.memory = memory
        self._bounds_requests = memory.request_memory is not None
        self._handle_frame = handle_frame
        self._cold_reads = cold_reads
        self._in_batch = False  # answers that others complete meanwhile are sent at its end
        self._memory_freed = False
        # Connections with `flush_queued`, each in one of them: to be sent to and read on.
        self._to_flush: deque[Connection] = deque()
        self._continuing_to_flush: deque[Connection] = deque()
        # Connections whose answers used up their share of a batch: they continue in the next one.
        self._continuing_to_send: deque[Connection] = deque()
        # A heap, ordered by the time to unmute, then by arrival.
        self._throttled: list[tuple[float, int, Connection]] = []
        self._throttled_limit = MANY_THROTTLED
        self._throttle_wake = trio.Event()
        self._turn = 0
        self._busy_seconds = 0.0
        self._started_at = perf_counter()

    async def run(self) -> None:
        """Serve connections queued or answered outside of a processor's round, for ever."""
        channel = self.channel
        while True:
            if self.has_work:
                await trio.lowlevel.checkpoint()
            else:
                await channel.wait_for_work()
            self.serve_batch()

    @property
    def has_work(self) -> bool:
        """Whether something can be handled or sent now."""
        return bool(
            len(self.channel)
            or self._to_flush
            or self._continuing_to_flush
            or self._continuing_to_send
        )

    def serve_batch(self) -> None:
        """A turn for queued connections while time is left, then send the answers."""
        started = now = perf_counter()
        ends = started + BATCH_SECONDS
        channel = self.channel
        self._in_batch = True
        if self._continuing_to_send:
            self._continuing_to_flush += self._continuing_to_send
            self._continuing_to_send.clear()
        # At least one of each: new connections do not block the others for ever.
        for queue, to_flush in (
            (channel.queue, self._to_flush),
            (channel.continuing, self._continuing_to_flush),
        ):
            for _ in range(len(queue)):
                connection = queue.popleft()
                if not connection.closed:
                    now = self._serve(connection, now + CONNECTION_TURN_SECONDS, to_flush)
                    if now > ends:
                        break
            while to_flush:
                connection = to_flush.popleft()
                connection.flush_queued = False
                if connection.closed:
                    continue
                self._flush(connection)
                if connection.last_active > ends:
                    break
                is_over = not connection.out.blocked and not connection.closed
                if not is_over and perf_counter() > ends:
                    break
        self._in_batch = False
        if self._memory_freed:
            self._memory_freed = False
            for connection in self.memory.end_waiting():
                if not connection.closed and connection.state in (READING, PIPELINING):
                    self.resume(connection)
        self._busy_seconds += perf_counter() - started

    def _serve(self, connection: Connection, ends: float, to_flush: deque[Connection]) -> float:
        """Handle the requests in the buffer until one is not answered at once, or its time is up;
        returns when that was. The answers leave in their turn of `to_flush`."""
        connection.is_served = True
        handle_frame = connection.gatekeeper or self._handle_frame
        try:
            while True:
                connection.state = RESPONSE_PENDING
                now = handle_frame(connection)
                state = connection.state
                if (
                    now > ends
                    or (state is not READING and state is not PIPELINING)
                    or connection.out.size > MAX_RESPONSE_BYTES_PER_TURN
                    or connection.closed
                    or not connection.frame_ready()
                    or (state is PIPELINING and not connection.may_follow())
                    or (self._bounds_requests and not self.memory.reserve(connection))
                ):
                    break
        except BadInput as error:
            now = perf_counter()
            try:
                connection.finish_on_bad_input(error)
            except Exception as failure:
                connection.fail(failure)
        except Exception as error:
            now = perf_counter()
            connection.fail(error)
        finally:
            connection.is_served = False
        if not connection.closed and not connection.flush_queued:
            connection.flush_queued = True
            to_flush.append(connection)
        return now

    def answered(self, connection: Connection) -> None:
        """Send and read on at the end of the batch, or in one of its own; `is_served` and
        `flush_queued` say that this is to come anyway."""
        connection.flush_queued = True
        self._to_flush.append(connection)
        if not self._in_batch:
            self.channel.wake()

    def _flush(self, connection: Connection) -> None:
        try:
            if connection.out.parts and not connection.out.flush():
                # Nothing more is handled for it until the socket takes the rest, or it was read.
                self._await_sending(connection)
                return
            if connection.unsent:
                now = connection.last_active = perf_counter()
                for request in connection.unsent:
                    request.route.metrics.record(request, now)
                connection.unsent.clear()
            if connection.state is READING or connection.state is PIPELINING:
                self._resume(connection)
        except OSError:
            connection.close()
        except Exception as error:
            connection.fail(error)

    def _await_sending(self, connection: Connection) -> None:
        """Send the rest of the connection's answers as soon as possible."""
        if connection.out.cold is not None:
            self._cold_reads.add(connection)
        elif not connection.out.had_share:
            connection.watch(connection.events | WRITE)
        elif not connection.flush_queued:
            # A notification by the selector that the socket has room costs three system calls.
            connection.last_active = perf_counter()
            connection.flush_queued = True
            self._continuing_to_send.append(connection)
            if not self._in_batch:
                self.channel.wake()

    def writable(self, connection: Connection) -> None:
        """The socket of a slow reader has room again, or its cold range was read from the disk."""
        connection.last_active = perf_counter()
        connection.watch(connection.events & ~WRITE)
        self._flush(connection)

    def resume(self, connection: Connection) -> None:
        """An unmuted connection: queue its next request if it is already here, else read on."""
        try:
            self._resume(connection)
        except Exception as error:
            connection.fail(error)

    def _resume(self, connection: Connection) -> None:
        if connection.out.blocked or connection.closed:
            return
        pipeline = connection.pipeline if connection.state is PIPELINING else None
        if pipeline is not None and not pipeline.has_room:
            return
        try:
            ready = connection.frame_ready()
        except BadInput as error:
            connection.finish(f"it sent {error}")
            return
        if ready:
            if pipeline is not None and not connection.may_follow():
                return
            if self._bounds_requests and not self.memory.reserve(connection):
                return
            connection.state = RESPONSE_PENDING
            connection.received_at = perf_counter()
            self.channel.put_again(connection)
            if not self._in_batch:
                self.channel.wake()
        elif not connection.events & READ:
            connection.watch(connection.events | READ)

    def memory_released(self) -> None:
        """Look at connections that wait for memory, at the end of the batch or in one of its
        own."""
        self._memory_freed = True
        if not self._in_batch:
            self.channel.wake()

    # Throttling

    def throttled(self, connection: Connection) -> None:
        """Unmute the connection at `throttled_until`."""
        self._turn += 1
        if len(self._throttled) >= self._throttled_limit:
            # Closed connections are dropped before the end of their delay.
            self._throttled = [entry for entry in self._throttled if not entry[2].closed]
            heapq.heapify(self._throttled)
            self._throttled_limit = max(MANY_THROTTLED, 2 * len(self._throttled))
        heapq.heappush(self._throttled, (connection.throttled_until, self._turn, connection))
        self._throttle_wake.set()

    async def run_throttle_timer(self) -> None:
        """Unmute connections whose throttle delay is over."""
        unmuted = 0
        while True:
            if not self._throttled:
                self._throttle_wake = trio.Event()
                await self._throttle_wake.wait()
            delay = self._throttled[0][0] - perf_counter()
            if delay > 0:
                self._throttle_wake = trio.Event()
                with trio.move_on_after(delay):
                    await self._throttle_wake.wait()
                continue
            _, _, connection = heapq.heappop(self._throttled)
            if not connection.closed and connection.state is THROTTLED:
                connection.state = READING
                self.resume(connection)
            unmuted += 1
            if unmuted % MANY_THROTTLED == 0:
                await trio.lowlevel.checkpoint()

    def idle_share(self, now: float) -> float:
        alive = now - self._started_at
        return 1.0 if alive <= 0 else max(0.0, 1.0 - self._busy_seconds / alive)
