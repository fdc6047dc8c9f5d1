"""One client connection: receive buffer, frames in it, mute state, answers in order.

Job: transport of bytes. Their meaning is known elsewhere: the dispatcher reads the frames and may
keep its `memo` of the buffer; the answer to a request comes back as the parts to send. A connection
asks its `Owner` for anything that it cannot do by itself.

Invariants:
- A receive buffer is replaced, never resized, and nothing is received or moved in it while the
  records of a request in progress are not in the log: they are views into the buffer.
- A frame's size prefix is checked before a byte is allocated for it; the buffer then grows with the
  received bytes (see `receive_buffer`), so a prefix alone claims no memory.
- Responses leave in the order of their requests: `out` is only appended to and one request is in
  progress at a time, but for those in `produce_pipeline`, which keeps the order.
- An error in the work for a connection closes it (`fail`) and affects no other connection.
- A closed connection stays closed: its memory is released, no answer is queued any more, and the
  waits of its requests are cancelled.
- A client that sends nothing more (`hang_up`) may have closed, or have shut down only its side and
  await its answers: TCP does not show which. So requests that can be answered early are (if the
  client has closed, a reset follows); the others have HALF_CLOSED_SECONDS.

Mirrors `KafkaChannel`, `NetworkReceive` and `NetworkSend`; `fail` is `Processor.processException`.
TLS is a subclass, `tls_connection`; a connection with SASL has a `gatekeeper`.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from struct import Struct
from time import perf_counter
from typing import Any, Final, Protocol, TypeAlias

from ...protocol.invariants import BrokenConnection, BrokenInvariant
from .bad_input import BadInput, describe_frame_start
from .connection_quotas import MemoryPool
from .mute_state import (
    PIPELINING,
    READING,
    RESPONSE_PENDING,
    THROTTLED,
    MuteEvent,
    MuteState,
    next_state,
)
from .produce_pipeline import Pipeline
from .receive_buffer import (
    COMMON_BUFFER_BYTES,
    FIRST_BUFFER_BYTES,
    KEPT_BUFFER_BYTES,
    ReceiveBuffer,
    ReceiveMemory,
    grown_size,
    new_buffer,
)
from .request import ConnectionInfo, Request, Wait
from .selector import HANGUP, READ, Selector
from .send_queue import Part, SendQueue

logger: Final = logging.getLogger("pybroker.broker.network")

MAX_RECEIVES_PER_ROUND: Final = 4
# More than clients wait for an answer by default (request.timeout.ms, 30 s).
HALF_CLOSED_SECONDS: Final = 60.0

_SIZE: Final = Struct(">i").unpack_from
SIZE_PREFIX_BYTES: Final = 4


# Takes the request at the front of a connection's buffer and has it handled; returns when that was
# done, in seconds of `perf_counter`. BadInput if it cannot.
FrameHandler: TypeAlias = "Callable[[Connection], float]"


class Gatekeeper(Protocol):
    """Takes the frames of a connection while it stands before the dispatcher."""

    def __call__(self, connection: Connection) -> float:
        """The same contract as FrameHandler."""

    def connection_closed(self) -> None:
        """The connection has closed: no more frames follow."""


class Transport(Protocol):
    """A non-blocking socket, as far as a connection reads from it."""

    def fileno(self) -> int: ...

    def recv_into(self, target: memoryview, /) -> int: ...

    def recv(self, size: int, flags: int, /) -> bytes: ...

    def close(self) -> None: ...


class Owner(Protocol):
    """The owner of connections, their processor: it reads from them and has their requests
    handled."""

    def answered(self, connection: Connection) -> None:
        """The connection has something to send, or can read again."""

    def throttled(self, connection: Connection) -> None:
        """The connection must be unmuted at `throttled_until`."""

    def memory_released(self) -> None:
        """Memory is free for another connection."""

    def closed(self, connection: Connection) -> None:
        """The connection's socket is about to be closed."""

    def failed(self) -> None:
        """The work for a connection has failed, and it is about to be closed."""


class Connection:
    """A socket with its buffers."""

    __slots__ = (
        "buffer", "client_id", "client_id_raw", "closed", "end", "events", "fileno",
        "first_bytes", "flush_queued", "gatekeeper", "hung_up_at", "is_served", "lacks_memory",
        "large_frame_bytes", "last_active", "lent_bytes", "max_frame_bytes", "memo", "needed",
        "out", "owner", "partial_since", "peer", "pipeline", "receive_memory", "received_at",
        "request_memory", "reserved_bytes", "selector", "start", "state", "throttled_until",
        "transport", "unsent", "view", "waits", "waits_for_memory",
    )  # fmt: skip

    def __init__(
        self,
        transport: Transport,
        peer: ConnectionInfo,
        selector: Selector,
        owner: Owner,
        max_frame_bytes: int,
        now: float,
        receive_memory: ReceiveMemory | None = None,
        request_memory: MemoryPool | None = None,
    ) -> None:
        self.transport = transport
        self.fileno = transport.fileno()
        self.peer = peer
        self.selector = selector
        self.owner = owner
        self.max_frame_bytes = max_frame_bytes
        self.state: MuteState = READING
        # Before the dispatcher: see `listener_security`. Both know each other until
        # the connection ends, or the memory of both would wait for the next full collection.
        self.gatekeeper: Gatekeeper | None = None
        self.closed = False
        self.hung_up_at = 0.0  # time at which the client's end of stream was seen
        self.events = READ | HANGUP  # the events that the selector watches

        # The buffer: 0 <= start <= end <= its size; unhandled received bytes are in [start, end). A
        # request in progress may have views of bytes before `start`.
        self.receive_memory = receive_memory or ReceiveMemory()
        self.buffer: ReceiveBuffer = bytearray()  # allocated when something arrives
        self.view = memoryview(self.buffer)
        self.start = 0
        self.end = 0
        self.needed = 0  # bytes of the frame at `start` with its prefix, 0 while unknown
        self.memo: Any = None  # of the reader of the frames, dropped with this buffer
        self.first_bytes = FIRST_BUFFER_BYTES  # of the next buffer
        self.large_frame_bytes = 0  # the last one since the last sweep
        self.lacks_memory = False  # the buffer is full and may not grow now
        self.waits_for_memory = False  # it is not read until there is some
        self.partial_since = 0.0  # when a sweep first saw the request that is not whole yet
        self.lent_bytes = 0  # of a buffer that a request has taken
        self.request_memory = request_memory  # None where it is not bounded
        self.reserved_bytes = 0  # of it, from when a request is seen until it is answered

        # Requests and answers. `pipeline` holds those in the log, oldest first; it is not empty in
        # the state PIPELINING. `unsent` are answered, and their bytes are still in `out`.
        self.pipeline: Pipeline | None = None
        self.unsent: list[Request] = []
        self.waits: dict[Wait, None] = {}  # of requests in progress, while they wait
        self.out = self.new_send_queue(transport)
        self.is_served = False  # its frames are being handled; then it is flushed anyway
        self.flush_queued = False
        self.throttled_until = 0.0

        # Times in seconds of `perf_counter`.
        self.received_at = now
        self.last_active = now

        self.client_id: str | None = None  # of its last request that had one
        self.client_id_raw: bytes = b""

    # Life

    @property
    def is_quiet(self) -> bool:
        """Whether no request is in progress and no answer waits to leave."""
        return self.state is READING and not self.unsent

    @staticmethod
    def new_send_queue(transport: Any) -> SendQueue:
        return SendQueue(transport)

    def overdue(self, now: float) -> str | None:
        """The reason to close the connection: a time limit that has passed. None if there is
        none."""
        return None

    def watch(self, events: int) -> None:
        if self.events != events:
            self.events = events
            self.selector.modify(self.fileno, events)

    def close(self, reason: str | None = None) -> None:
        """Close it now; `reason` is the log line, None for an ordinary end."""
        if self.closed:
            return
        self.closed = True
        if reason is not None:
            logger.warning("Closing the connection of %s (%s): %s", self.peer,
                        self.peer.listener_name, reason)  # fmt: skip
        self.owner.closed(self)
        self.transport.close()
        if self.gatekeeper is not None:
            self.gatekeeper.connection_closed()
            self.gatekeeper = _CLOSED
        self.out.clear()
        self.unsent.clear()
        if self.reserved_bytes:
            self.release_memory()
        self.drop_buffer()
        self.pipeline = None
        waits, self.waits = self.waits, {}
        for wait in waits:
            wait.cancel()

    def hang_up(self, now: float) -> None:
        """The client sends nothing more, and requests of it are in progress or it is held."""
        self.watch(self.events & ~(READ | HANGUP))
        if self.hung_up_at:
            return
        self.hung_up_at = now
        for wait in list(self.waits):
            wait.hurry()
        if self.state is THROTTLED and self.is_drained():
            self.close()

    def is_drained(self) -> bool:
        """For a client that sends nothing more: whether all its input was read and handled, and all
        answers have left."""
        if self.unsent or self.out.parts or self.start != self.end:
            return False
        try:
            return not self.transport.recv(1, socket.MSG_PEEK)
        except OSError:
            return True

    def add_wait(self, wait: Wait) -> None:
        """As `ResponseSink`."""
        if self.closed:
            wait.cancel()
            return
        self.waits[wait] = None
        if self.hung_up_at:
            wait.hurry()

    def remove_wait(self, wait: Wait) -> None:
        """As `ResponseSink`."""
        self.waits.pop(wait, None)

    def fail(self, error: Exception) -> None:
        """Close this connection, and no other, after an unexpected error: its buffers and requests
        may be half changed (docs/decisions/contained.md). May be called repeatedly.

        A `BrokenInvariant` concerns shared state, and ends the broker.
        """
        if isinstance(error, BrokenInvariant):
            raise error
        logger.error("Closing the connection of %s (%s): the work for it failed", self.peer,
                     self.peer.listener_name, exc_info=error)  # fmt: skip
        if not self.closed:
            self.owner.failed()
            Connection.close(self)  # without a farewell, which is work for it, too

    def finish(self, reason: str) -> None:
        """Close it once all that it has in the log is answered; "" is worth no line in the log."""
        if self.pipeline:
            self.pipeline.end_reason = reason
            self.watch(self.events & ~READ)
        else:
            self.close(reason or None)

    def finish_on_bad_input(self, error: BadInput) -> None:
        """Close; answers to requests before the bad bytes are still sent."""
        if not self.closed and self.out.parts:
            self._try_flush()
        self.finish(f"it sent {error}")

    def close_instead_of(self, request: Request) -> None:
        """Close on a handler's behalf, after earlier requests are answered."""
        if self.closed:
            return
        self._try_flush()
        if self.pipeline and request in self.pipeline:
            self.close()
        else:
            self.finish("")

    # Input

    def receive(self) -> bool:
        """Read the available bytes. False at the end of the stream; look at `frame_ready`
        otherwise.

        Raises BadInput for an impossible size prefix, OSError if the connection broke.
        """
        if self.start == self.end:
            self.start = self.end = self.needed = 0
            if len(self.buffer) < self.first_bytes:
                self._replace_buffer(self.first_bytes)
        for _ in range(MAX_RECEIVES_PER_ROUND):
            room_end = len(self.buffer)
            if self.end == room_end:
                if not self._make_room():
                    return True
                room_end = len(self.buffer)
            if self.needed > COMMON_BUFFER_BYTES:
                # Exactly this frame, so that the next one starts at the front of the buffer.
                room_end = min(room_end, self.start + self.needed)
                self.large_frame_bytes = self.needed
            if self.end == 0 and room_end == len(self.buffer):
                target = self.view
            else:
                target = self.view[self.end : room_end]
            try:
                count = self.transport.recv_into(target)
            except (BlockingIOError, InterruptedError):
                return True
            if count == 0:
                return False
            filled = count == len(target)
            self.end += count
            if filled and room_end < COMMON_BUFFER_BYTES:
                self.first_bytes = min(2 * room_end, COMMON_BUFFER_BYTES)
            if self.frame_ready() or not filled:
                return True
        return True

    def frame_ready(self) -> bool:
        """Is a whole frame buffered? Notes its size; raises BadInput if that is impossible."""
        held = self.end - self.start
        if held < SIZE_PREFIX_BYTES:
            if held < 0:
                raise BrokenConnection(f"the buffer is used from {self.start} to {self.end}")
            self.needed = 0
            if self.start and len(self.buffer) - self.start < SIZE_PREFIX_BYTES:
                self._make_room()
            return False
        size: int = _SIZE(self.buffer, self.start)[0]
        if size < 0 or size > self.max_frame_bytes:
            first = bytes(self.view[self.start : min(self.end, self.start + 64)])
            protocol = self.peer.security_protocol
            raise BadInput(describe_frame_start(first, size, self.max_frame_bytes, protocol))
        self.needed = size + SIZE_PREFIX_BYTES
        if held >= self.needed:
            return True
        if self.start + self.needed > len(self.buffer):
            self._make_room()
        return False

    def may_follow(self) -> bool:
        """Whether the whole frame at the front may be handled behind those in the pipeline."""
        pipeline = self.pipeline
        assert pipeline is not None
        return pipeline.admits(self.buffer, self.start, self.needed)

    def _make_room(self) -> bool:
        """Move the held bytes to the front of the buffer, or of a larger one if it is full.

        False if there is no memory for that now.
        """
        held = self.end - self.start
        if self.start:
            self.view[:held] = self.view[self.start : self.end]
            self.start = 0
            self.end = held
            return True
        if held == len(self.buffer):
            return self._replace_buffer(grown_size(held, self.needed))
        return True

    def _replace_buffer(self, size: int) -> bool:
        """Continue in a buffer of `size`, if there is memory for it."""
        held = self.end - self.start
        if size <= held:
            raise BrokenConnection(f"{held} bytes are to go into a buffer of {size}")
        if not self.receive_memory.try_take(size, len(self.buffer)):
            self.lacks_memory = True
            return False
        self.lacks_memory = False
        buffer = new_buffer(size)
        view = memoryview(buffer)
        view[:held] = self.view[self.start : self.end]
        self.buffer, self.view = buffer, view
        self.start = 0
        self.end = held
        return True

    def buffer_is_too_large(self) -> bool:
        """Whether no request has needed so large a buffer since the last time this was asked."""
        largest, self.large_frame_bytes = self.large_frame_bytes, 0
        return len(self.buffer) > KEPT_BUFFER_BYTES and largest <= KEPT_BUFFER_BYTES // 2

    def take_frame(self, begin: int) -> memoryview:
        """The bytes received from `begin` up to `start`, which the caller may keep; not copied if
        the buffer holds little else. Their memory counts for this connection until `end_loan`."""
        frame = self.view[begin : self.start]
        if self.start != self.end or 2 * len(frame) < len(self.buffer):
            return memoryview(bytes(frame))
        if self.lent_bytes:
            raise BrokenConnection("two requests of one connection are in progress")
        self.lent_bytes = len(self.buffer)
        self._forget_buffer()
        return frame

    def end_loan(self) -> None:
        """The request that has taken the buffer is over."""
        self._give_memory(self.lent_bytes)
        self.lent_bytes = 0

    def give_back_buffer(self) -> None:
        """An idle connection needs no buffer; only between requests."""
        if self.start == self.end and self.buffer:
            self.drop_buffer()

    def drop_buffer(self) -> None:
        """Release the buffer with its content."""
        size = len(self.buffer) + self.lent_bytes
        self.lent_bytes = 0
        self._forget_buffer()
        self._give_memory(size)

    def _forget_buffer(self) -> None:
        self.buffer = bytearray()
        self.view = memoryview(self.buffer)
        self.start = self.end = self.needed = 0
        self.memo = None

    def _give_memory(self, size: int) -> None:
        self.receive_memory.give(size)
        if self.receive_memory.is_short:
            self.owner.memory_released()

    def release_memory(self) -> None:
        """Release the memory reserved for the request in progress."""
        assert self.request_memory is not None
        self.request_memory.release(self.reserved_bytes)
        self.reserved_bytes = 0
        self.owner.memory_released()

    # Answers

    def respond(self, request: Request, parts: list[Part] | None) -> None:
        """Queue the response of `request` (None: it has none) and unmute."""
        if self.closed:
            return
        if self.pipeline:
            self._respond_in_order(request, parts)
            return
        if parts is not None:
            self.out.add(parts)
        self.unsent.append(request)
        if self.lent_bytes:
            self.end_loan()
        if self.reserved_bytes:
            self.release_memory()
        if request.throttle_ms > 0:
            self._throttle(request.throttle_ms)
        else:
            if self.state is not RESPONSE_PENDING:
                raise BrokenConnection(f"{request} was answered twice: {self.state.name}")
            self.state = READING
        if not self.is_served and not self.flush_queued:
            self.owner.answered(self)

    def send(self, parts: list[Part]) -> None:
        """Answer a frame that was no request, and read on."""
        if self.closed:
            return
        if self.state is not RESPONSE_PENDING:
            raise BrokenConnection(f"a connection without a request is answered: {self.state.name}")
        self.out.add(parts)
        if self.reserved_bytes:
            self.release_memory()
        self.state = READING
        if not self.is_served and not self.flush_queued:
            self.owner.answered(self)

    def send_last(self, parts: list[Part] | None, reason: str) -> None:
        """Answer, if there is an answer, and close."""
        if self.closed:
            return
        if parts is not None:
            self.out.add(parts)
            self._try_flush()
        self.finish(reason)

    def appended(self, request: Request) -> None:
        """The records of a produce request are in the log; it waits for other replicas only."""
        if self.closed or self.request_memory is not None:
            return
        pipeline = self.pipeline
        if pipeline is None:
            pipeline = self.pipeline = Pipeline()
        pipeline.add(request)
        self.state = next_state(self.state, MuteEvent.RECORDS_APPENDED)
        if not self.is_served and not self.flush_queued:
            self.owner.answered(self)

    def _respond_in_order(self, request: Request, parts: list[Part] | None) -> None:
        """An answer while requests wait for replicas: it leaves behind those before it."""
        pipeline = self.pipeline
        assert pipeline is not None
        # A throttle begins with the next request that is read: these were under way before it.
        if request not in pipeline:
            pipeline.add(request)  # answered at once: it is the one in progress
            self.state = next_state(self.state, MuteEvent.RECORDS_APPENDED)
        for answered, its_parts in pipeline.answer(request, parts):
            if its_parts is not None:
                self.out.add(its_parts)
            self.unsent.append(answered)
        if not pipeline:
            if pipeline.end_reason is not None:
                self._try_flush()
                self.close(pipeline.end_reason or None)
                return
            if self.state is PIPELINING:
                self.state = next_state(PIPELINING, MuteEvent.RESPONSE_SENT)
        if not self.is_served and not self.flush_queued:
            self.owner.answered(self)

    def _try_flush(self) -> None:
        try:
            self.out.flush()
        except OSError:
            self.close()

    def _throttle(self, throttle_ms: int) -> None:
        self.state = next_state(self.state, MuteEvent.THROTTLE_STARTED)
        self.throttled_until = perf_counter() + throttle_ms / 1000
        self.owner.throttled(self)
        self.state = next_state(self.state, MuteEvent.RESPONSE_SENT)


class _Closed:
    """Replaces the gatekeeper of a closed connection: no frame passes."""

    __slots__ = ()

    def __call__(self, connection: Connection) -> float:
        raise AssertionError(f"a frame of {connection.peer}, which is closed")

    def connection_closed(self) -> None:
        pass


_CLOSED: Final = _Closed()
