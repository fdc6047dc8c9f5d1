"""Request handlers: take connections from the channel, run their requests, send the answers.

All connections queued in one round are served together, and their responses leave together: when
a handler answers at once, the next request that is already in the connection's buffer is handled
in the same turn, and one system call sends all its answers. Whoever has just come is served and
answered before those that ask for more behind a turn that they have had. Handlers run one after the
other on the loop; those that wait (ZooKeeper, disk, a worker thread) are tasks of their own, which
`dispatcher` bounds. `num.io.threads` bounds the threads that force data to disk.

A request that is not answered at once (parked in a purgatory, awaiting a coroutine) simply leaves
the connection muted; `respond` is called later from anywhere on the loop. A produce request that is
in the log and waits for replicas lets the next one in: see `produce_pipeline`.

Mirrors `KafkaRequestHandlerPool` and the response half of `Processor`.
"""

from __future__ import annotations

import heapq
import logging
from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING

import trio

from .bad_input import BadInput
from .connection import Connection, Part
from .memory_shortage import take_back_unused
from .mute_state import (
    PIPELINING,
    READING,
    RESPONSE_PENDING,
    MuteEvent,
    next_state,
)
from .produce_pipeline import Pipeline, has_room, may_follow
from .selector import READ, WRITE
from .turns import Turns

if TYPE_CHECKING:
    from .dispatcher import Dispatcher
    from .processor import Processor
    from .request import Request
    from .request_channel import RequestChannel

log = logging.getLogger("pybroker.broker.network")

# A connection's turn ends after this time, which is a request that takes long, or many that do not,
# or after this many bytes of responses; a batch ends after its time, and who is left is served in
# the next one. Others wait.
CONNECTION_TURN_SECONDS = 0.0005
BATCH_SECONDS = 0.003
MAX_RESPONSE_BYTES_PER_TURN = 256 * 1024
# Looking at all connections for buffers that nobody uses comes no more often.
MIN_TAKING_BACK_SECONDS = 0.05


class HandlersPool:
    __slots__ = (
        "_busy_seconds",
        "_continuing_to_flush",
        "_in_batch",
        "_memory_freed",
        "_serving",
        "_started_at",
        "_throttle_wake",
        "_throttled",
        "_to_flush",
        "_took_back_at",
        "_turn",
        "channel",
        "dispatcher",
        "processors",
        "turns",
    )  # fmt: skip

    def __init__(self, channel: RequestChannel, dispatcher: Dispatcher) -> None:
        self.channel = channel
        self.dispatcher = dispatcher
        self.processors: list[Processor] = []
        self.turns = Turns()
        self._serving: Connection | None = None
        self._in_batch = False
        self._memory_freed = False
        self._to_flush: deque[Connection] = deque()
        self._continuing_to_flush: deque[Connection] = deque()
        self._throttled: list[tuple[float, int, Connection]] = []
        self._throttle_wake = trio.Event()
        self._took_back_at = 0.0
        self._turn = 0
        self._busy_seconds = 0.0
        self._started_at = perf_counter()

    async def run(self) -> None:
        """Serve what is queued or answered outside of a processor's round, for ever."""
        channel = self.channel
        while True:
            if len(channel) or self._to_flush or self._continuing_to_flush:
                await trio.lowlevel.checkpoint()
            else:
                await channel.wait_for_work()
            self.serve_batch()

    def serve_batch(self) -> None:
        """A turn for queued connections while time is left, then send what was answered."""
        started = now = perf_counter()
        ends = started + BATCH_SECONDS
        channel = self.channel
        self._in_batch = True
        # At least one of each: who has just come does not keep the others out for ever.
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
                if connection.last_active > ends or (connection.blocked and perf_counter() > ends):
                    break
        self._in_batch = False
        if self._to_flush or self._continuing_to_flush:
            channel.wake()
        if self._memory_freed:
            self._memory_freed = False
            for processor in self.processors:
                processor.retry_memory_waiters()
        self._busy_seconds += perf_counter() - started

    def _serve(self, connection: Connection, ends: float, to_flush: deque[Connection]) -> float:
        """Handle the requests in the buffer until one is not answered at once, or its time is up;
        returns when that was. The answers leave in their turn of `to_flush`."""
        self._serving = connection
        handle_frame = self.dispatcher.handle_frame
        processor = connection.processor
        memory = processor.memory
        try:
            while True:
                connection.state = RESPONSE_PENDING
                now = handle_frame(connection)
                state = connection.state
                if (
                    now > ends
                    or (state is not READING and state is not PIPELINING)
                    or connection.out_bytes > MAX_RESPONSE_BYTES_PER_TURN
                    or connection.closed
                    or not connection.frame_ready()
                    or (state is PIPELINING and not may_follow(connection))
                    or (memory is not None and not processor.reserve_memory(connection))
                ):
                    break
        except BadInput as error:
            self.end_on_bad_input(connection, error)
            now = perf_counter()
        finally:
            self._serving = None
        if not connection.closed and not connection.flush_queued:
            connection.flush_queued = True
            to_flush.append(connection)
        return now

    def end_on_bad_input(self, connection: Connection, error: BadInput) -> None:
        """What was answered before the bad bytes still leaves, as it would one by one."""
        if not connection.closed and connection.out:
            self._try_flush(connection)
        self.end(connection, f"it sent {error}")

    # -- responses --

    def respond(self, request: Request, parts: list[Part] | None) -> None:
        """Queue the response of `request` (None: it has none) and unmute its connection."""
        connection = request.channel
        if connection.closed:
            return
        if connection.pipeline:
            self._respond_in_order(connection, request, parts)
            return
        self._queue_parts(connection, request, parts)
        if connection.lent_bytes:
            connection.end_loan()
        if connection.reserved_bytes:
            connection.processor.release_memory(connection)
        if request.throttle_ms > 0:
            self._throttle(connection, request.throttle_ms)
            connection.state = next_state(connection.state, MuteEvent.RESPONSE_SENT)
        else:
            assert connection.state is RESPONSE_PENDING, "a request was answered twice"
            connection.state = READING
        self._flush_later(connection)

    def _queue_parts(
        self, connection: Connection, request: Request, parts: list[Part] | None
    ) -> None:
        if parts is not None:
            if len(parts) == 1:
                connection.out.append(parts[0])
                connection.out_bytes += len(parts[0])
            else:
                connection.queue(parts)
        connection.unsent.append(request)

    # -- requests that let the next one in --

    def appended(self, request: Request) -> None:
        """The records of a produce request are in the log; it waits for other replicas only."""
        connection = request.channel
        if connection.closed or connection.processor.memory is not None:
            return
        pipeline = connection.pipeline
        if pipeline is None:
            pipeline = connection.pipeline = Pipeline()
        pipeline.add(request)
        shape = connection.shape
        if shape is not None and shape.body is request.body:
            shape.give_away()
        connection.state = next_state(connection.state, MuteEvent.RECORDS_APPENDED)
        self._flush_later(connection)

    def _flush_later(self, connection: Connection) -> None:
        """Send and read on at the end of the round, or in one of its own."""
        if connection is not self._serving and not connection.flush_queued:
            connection.flush_queued = True
            self._to_flush.append(connection)
            if not self._in_batch:
                self.channel.wake()

    def _respond_in_order(
        self, connection: Connection, request: Request, parts: list[Part] | None
    ) -> None:
        """An answer while requests wait for replicas: it leaves behind those before it."""
        pipeline = connection.pipeline
        assert pipeline is not None
        assert not request.throttle_ms, "a throttled client was let in behind its own request"
        if request not in pipeline:
            pipeline.add(request)  # answered at once: it is the one in progress
            connection.state = next_state(connection.state, MuteEvent.RECORDS_APPENDED)
        for answered, its_parts in pipeline.answer(request, parts):
            self._queue_parts(connection, answered, its_parts)
        if not pipeline:
            if pipeline.end_reason is not None:
                self._try_flush(connection)
                connection.processor.close(connection, pipeline.end_reason or None)
                return
            if connection.state is PIPELINING:
                connection.state = next_state(PIPELINING, MuteEvent.RESPONSE_SENT)
        self._flush_later(connection)

    def end(self, connection: Connection, reason: str) -> None:
        """Close a connection, once all that it has in the log is answered."""
        if connection.pipeline:
            connection.pipeline.end_reason = reason
            connection.processor.watch(connection, connection.events & ~READ)
        else:
            connection.processor.close(connection, reason or None)

    def close(self, request: Request) -> None:
        """Close a connection on a handler's behalf, after what was asked before is answered."""
        connection = request.channel
        if connection.closed:
            return
        self._try_flush(connection)
        if connection.pipeline and request in connection.pipeline:
            connection.processor.close(connection)
        else:
            self.end(connection, "")

    def _try_flush(self, connection: Connection) -> None:
        try:
            connection.flush()
        except OSError:
            connection.processor.close(connection)

    def _flush(self, connection: Connection) -> None:
        if connection.out:
            try:
                drained = connection.flush()
            except OSError:
                connection.processor.close(connection)
                return
            if not drained:
                # A slow reader: nothing more is handled for it until the socket takes the rest.
                connection.processor.watch(connection, connection.events | WRITE)
                return
        if connection.unsent:
            now = connection.last_active = perf_counter()
            for request in connection.unsent:
                request.route.metrics.record(request, now)
            connection.unsent.clear()
        if connection.state is READING or connection.state is PIPELINING:
            self.resume(connection)

    def writable(self, connection: Connection) -> None:
        """The socket of a slow reader has room again."""
        connection.last_active = perf_counter()
        connection.processor.watch(connection, connection.events & ~WRITE)
        self._flush(connection)

    def resume(self, connection: Connection) -> None:
        """An unmuted connection: queue its next request if it is already here, else read on."""
        if connection.blocked or connection.closed:
            return
        is_pipelining = connection.state is PIPELINING
        if is_pipelining and not has_room(connection):
            return
        try:
            ready = connection.frame_ready()
        except BadInput as error:
            self.end(connection, f"it sent {error}")
            return
        processor = connection.processor
        if ready:
            if is_pipelining and not may_follow(connection):
                return
            if processor.memory is not None and not processor.reserve_memory(connection):
                return
            connection.state = RESPONSE_PENDING
            connection.received_at = perf_counter()
            self.channel.put_again(connection)
            if not self._in_batch:
                self.channel.wake()
        elif not connection.events & READ:
            processor.watch(connection, connection.events | READ)

    def memory_released(self) -> None:
        self._memory_freed = True
        if not self._in_batch:
            self.channel.wake()

    def memory_wanted(self, now: float) -> None:
        """A receive buffer may not grow: take back those that nobody uses."""
        if now - self._took_back_at >= MIN_TAKING_BACK_SECONDS:
            self._took_back_at = now
            for processor in self.processors:
                take_back_unused(processor.connections.values())

    # -- throttling --

    def _throttle(self, connection: Connection, throttle_ms: int) -> None:
        connection.state = next_state(connection.state, MuteEvent.THROTTLE_STARTED)
        connection.throttled_until = perf_counter() + throttle_ms / 1000
        self._turn += 1
        heapq.heappush(self._throttled, (connection.throttled_until, self._turn, connection))
        self._throttle_wake.set()

    async def run_throttle_timer(self) -> None:
        """Unmute connections whose throttle delay is over."""
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
            if not connection.closed:
                connection.processor.end_throttle(connection)

    def idle_share(self, now: float) -> float:
        alive = now - self._started_at
        return 1.0 if alive <= 0 else max(0.0, 1.0 - self._busy_seconds / alive)
