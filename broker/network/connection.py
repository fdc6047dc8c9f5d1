"""One client connection: receive buffer, frames in it, response queue, mute state.

Invariants:
- A receive buffer is replaced, never resized, and nothing is received or moved in it while a
  request is in progress whose records are not in the log: they are views into it.
- A frame's size prefix is checked before a byte is allocated for it; the buffer then grows with
  what really arrives (see `receive_buffer`), so a prefix alone claims no memory.
- Responses leave in the order of their requests: `out` is only appended to and one request is in
  progress at a time, but for those in `produce_pipeline`, which keeps the order.

Mirrors `KafkaChannel`, `NetworkReceive` and `NetworkSend`. TLS and SASL come in as another
`transport` with the methods of a non-blocking socket.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from struct import Struct
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ..resources import machine
from .bad_input import BadInput, describe_frame_start
from .down_conversion import DownConversion
from .mute_state import READING, MuteState
from .receive_buffer import (
    COMMON_BUFFER_BYTES,
    FIRST_BUFFER_BYTES,
    KEPT_BUFFER_BYTES,
    ReceiveBuffer,
    ReceiveMemory,
    grown_size,
    new_buffer,
)
from .selector import READ

if TYPE_CHECKING:
    from .processor import Processor
    from .produce_pipeline import Pipeline
    from .produce_request_template import ProduceShape
    from .request import Request

MAX_RECEIVES_PER_ROUND = 4
MAX_SENDS_PER_ROUND = 8
# From memory; the kernel copies them, a millisecond or so.
MAX_SENT_BYTES_PER_ROUND = 1024 * 1024
# Responses up to this many bytes are joined into one string; above it they go as an iovec.
JOIN_LIMIT_BYTES = 32 * 1024
MAX_IOVECS = 64
SENDFILE_BYTES = 4 * 1024 * 1024
# At once, where a file has to be read and sent.
COPIED_BYTES = 256 * 1024
# Up to this many bytes of a file are read and leave with what is before and behind them.
SMALL_FILE_BYTES = 8 * 1024

_SIZE = Struct(">i").unpack_from
SIZE_PREFIX_BYTES = 4


@runtime_checkable
class FilePart(Protocol):
    """A part of a response that lies in a file: sent by the kernel from the page cache."""

    position: int

    def __len__(self) -> int: ...

    def fileno(self) -> int: ...


Part = bytes | bytearray | memoryview | FilePart | DownConversion


class ConnectionInfo:
    """What a handler may know of the client's connection.

    `number` counts the connections of this process, in the order in which they were accepted.
    """

    __slots__ = ("host", "listener_name", "local_host", "local_port", "number", "port",
                 "principal", "security_protocol")  # fmt: skip

    def __init__(
        self,
        host: str,
        port: int,
        listener_name: str,
        security_protocol: str = "PLAINTEXT",
        principal: str = "User:ANONYMOUS",
        local_host: str = "",
        local_port: int = 0,
        number: int = 0,
    ) -> None:
        self.host = host
        self.port = port
        self.listener_name = listener_name
        self.security_protocol = security_protocol
        self.principal = principal
        self.local_host = local_host
        self.local_port = local_port
        self.number = number

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Connection:
    """A socket with its buffers. Owned by one processor."""

    __slots__ = (
        "blocked", "buffer", "client_id", "client_id_raw", "closed", "end", "events", "fileno",
        "first_bytes", "flush_queued", "info", "lacks_memory", "large_frame_bytes", "last_active",
        "lent_bytes", "max_frame_bytes", "needed", "out", "out_bytes", "partial_since", "pipeline",
        "processor", "receive_memory", "received_at", "reserved_bytes", "shape", "start", "state",
        "throttled_until", "transport", "unsent", "view", "waits_for_memory",
    )  # fmt: skip

    def __init__(
        self,
        transport: socket.socket,
        info: ConnectionInfo,
        processor: Processor,
        max_frame_bytes: int,
        now: float,
        receive_memory: ReceiveMemory | None = None,
    ) -> None:
        self.transport = transport
        self.fileno = transport.fileno()
        self.info = info
        self.processor = processor
        self.max_frame_bytes = max_frame_bytes
        self.receive_memory = receive_memory or ReceiveMemory()
        self.buffer: ReceiveBuffer = bytearray()  # allocated when something arrives
        self.view = memoryview(self.buffer)
        self.first_bytes = FIRST_BUFFER_BYTES  # of the next buffer
        self.large_frame_bytes = 0  # the last one since the last sweep
        self.lacks_memory = False  # the buffer is full and may not grow now
        self.partial_since = 0.0  # when a sweep first saw the request that is not whole yet
        self.start = 0
        self.end = 0
        self.needed = 0  # bytes of the frame at `start` with its prefix, 0 while unknown
        self.state: MuteState = READING
        self.out: deque[Any] = deque()
        self.out_bytes = 0
        self.pipeline: Pipeline | None = None
        self.unsent: list[Request] = []  # answered requests whose bytes are still in `out`
        self.blocked = False  # the socket took less than we had: waiting for WRITE
        self.closed = False
        self.flush_queued = False
        self.waits_for_memory = False
        self.lent_bytes = 0  # of a buffer that a request has taken
        self.reserved_bytes = 0
        self.throttled_until = 0.0
        self.received_at = now
        self.last_active = now
        self.events = READ  # what the selector watches
        self.client_id: str | None = None
        self.client_id_raw: bytes = b""
        self.shape: ProduceShape | None = None  # of the last produce request

    # -- input --

    def receive(self) -> bool:
        """Read what is there. False at the end of the stream; look at `frame_ready` otherwise.

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
            self.needed = 0
            if self.start and len(self.buffer) - self.start < SIZE_PREFIX_BYTES:
                self._make_room()
            return False
        size: int = _SIZE(self.buffer, self.start)[0]
        if size < 0 or size > self.max_frame_bytes:
            first = bytes(self.view[self.start : min(self.end, self.start + 64)])
            raise BadInput(describe_frame_start(first, size, self.max_frame_bytes))
        self.needed = size + SIZE_PREFIX_BYTES
        if held >= self.needed:
            return True
        if self.start + self.needed > len(self.buffer):
            self._make_room()
        return False

    def _make_room(self) -> bool:
        """Put what is held at the front of the buffer, or of a larger one if it is full.

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
        """Go on in a buffer of `size`, if there is memory for it."""
        held = self.end - self.start
        assert size > held, "a whole frame is in the buffer already"
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
        """What was received from `begin` up to `start`, for whoever may keep it; not copied if the
        buffer holds little else. It counts as ours until `end_loan`."""
        frame = self.view[begin : self.start]
        if self.start != self.end or 2 * len(frame) < len(self.buffer):
            return memoryview(bytes(frame))
        assert not self.lent_bytes, "two requests of one connection are in progress"
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
        """Give the buffer back, with what is in it."""
        size = len(self.buffer) + self.lent_bytes
        self.lent_bytes = 0
        self._forget_buffer()
        self._give_memory(size)

    def _forget_buffer(self) -> None:
        self.buffer = bytearray()
        self.view = memoryview(self.buffer)
        self.start = self.end = self.needed = 0
        self.shape = None  # it holds a view of the old buffer

    def _give_memory(self, size: int) -> None:
        self.receive_memory.give(size)
        if self.receive_memory.is_short:
            self.processor.handlers.memory_released()

    # -- output --

    def queue(self, parts: list[Part]) -> None:
        """Append the parts of a response to what is to be sent."""
        out = self.out
        for part in parts:
            size = len(part)
            self.out_bytes += size
            if size <= SMALL_FILE_BYTES and not isinstance(
                part, (bytes, bytearray, memoryview, DownConversion)
            ):
                data = os.pread(part.fileno(), size, part.position)
                if len(data) == size:  # else sending it will tell
                    part = data
            out.append(part)

    def flush(self) -> bool:
        """Send what is queued. True when all of it is gone; OSError if the connection broke."""
        out = self.out
        enough = self.out_bytes - MAX_SENT_BYTES_PER_ROUND
        for _ in range(MAX_SENDS_PER_ROUND):
            if not out:
                break
            first = out[0]
            if isinstance(first, (bytes, bytearray, memoryview)):
                complete = self._send_buffers() and self.out_bytes > enough
            elif isinstance(first, DownConversion):
                complete = self._send_chunk(first)
            else:
                complete = self._send_file(first)
            if not complete:
                break
        self.blocked = bool(out)
        return not out

    def _send_buffers(self) -> bool:
        """Send the run of in-memory parts at the front of the queue."""
        out = self.out
        run: list[bytes | bytearray | memoryview] = []
        total = 0
        for part in out:
            if len(run) == MAX_IOVECS or not isinstance(part, (bytes, bytearray, memoryview)):
                break
            run.append(part)
            total += len(part)
        more = machine.MSG_MORE if len(out) > len(run) else 0
        try:
            if len(run) == 1:
                sent = self.transport.send(run[0], more)
            elif total <= JOIN_LIMIT_BYTES:
                sent = self.transport.send(b"".join(run), more)
            else:
                sent = self.transport.sendmsg(run, (), more)
        except (BlockingIOError, InterruptedError):
            return False
        self.out_bytes -= sent
        if sent == total:
            if len(run) == len(out):
                out.clear()
            else:
                for _ in run:
                    out.popleft()
            return True
        while sent >= len(out[0]):
            sent -= len(out.popleft())
        if sent:
            out[0] = memoryview(out[0])[sent:]
        return False

    def _send_chunk(self, part: DownConversion) -> bool:
        """Make and send one piece; the next one has to wait until others had their turn."""
        chunk = part.next_chunk()
        if not part.left:
            self.out.popleft()
        self.out.appendleft(chunk)
        self._send_buffers()
        return not self.out

    def _send_file(self, part: FilePart) -> bool:
        """Let the kernel send from the page cache, where it can; what it did not take is queued
        again."""
        left = len(part)
        position = part.position
        try:
            while left:
                sent = self._send_range(part, position, min(left, SENDFILE_BYTES))
                if sent == 0:
                    # The file is shorter than the part: truncated under a reader.
                    raise ConnectionAbortedError("a log segment shrank while it was being sent")
                position += sent
                left -= sent
                self.out_bytes -= sent
        except (BlockingIOError, InterruptedError):
            pass
        if left:
            self.out[0] = _Rest(part, position, left)
            return False
        self.out.popleft()
        return True

    def _send_range(self, part: FilePart, position: int, size: int) -> int:
        """Bytes of a file; how many the socket took."""
        if machine.HAS_SENDFILE:
            return os.sendfile(self.fileno, part.fileno(), position, size)
        data = os.pread(part.fileno(), min(size, COPIED_BYTES), position)
        return self.transport.send(data) if data else 0


class _Rest:
    """What is left of a file part after the socket took some of it. Keeps the file open."""

    __slots__ = ("_part", "_size", "position")

    def __init__(self, part: FilePart, position: int, size: int) -> None:
        self._part: FilePart = part._part if isinstance(part, _Rest) else part
        self.position = position
        self._size = size

    def __len__(self) -> int:
        return self._size

    def fileno(self) -> int:
        return self._part.fileno()
