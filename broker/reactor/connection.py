"""One client connection: receive buffer, frames in it, response queue, mute state.

Invariants:
- A receive buffer is replaced, never resized, and nothing is received or moved in it while a
  request is in progress whose records are not in the log: they are views into it.
- A frame's size prefix is checked before a byte is allocated for it; the buffer then grows with
  what really arrives, so a prefix alone cannot claim `socket.request.max.bytes` of memory.
- Responses leave in the order of their requests: `out` is only appended to and one request is in
  progress at a time, but for those in `pipeline`, which keeps the order.

Mirrors `KafkaChannel`, `NetworkReceive` and `NetworkSend`. TLS and SASL come in as another
`transport` with the methods of a non-blocking socket.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from struct import Struct
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from broker.down_conversion import DownConversion

from .bad_input import BadInput, describe_frame_start
from .mute_state import READING, MuteState
from .selector import READ

if TYPE_CHECKING:
    from broker.dispatch import Request
    from broker.produce_shapes import ProduceShape

    from .pipeline import Pipeline
    from .processor import Processor

INITIAL_BUFFER_BYTES = 16 * 1024
GROW_STEP_BYTES = 1024 * 1024
MAX_RECEIVES_PER_ROUND = 4
MAX_SENDS_PER_ROUND = 8
# Responses up to this many bytes are joined into one string; above it they go as an iovec.
JOIN_LIMIT_BYTES = 32 * 1024
MAX_IOVECS = 64
SENDFILE_BYTES = 4 * 1024 * 1024
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
    """What a handler may know of the client's connection."""

    __slots__ = ("host", "listener_name", "local_host", "local_port", "port", "principal",
                 "security_protocol")  # fmt: skip

    def __init__(
        self,
        host: str,
        port: int,
        listener_name: str,
        security_protocol: str = "PLAINTEXT",
        principal: str = "User:ANONYMOUS",
        local_host: str = "",
        local_port: int = 0,
    ) -> None:
        self.host = host
        self.port = port
        self.listener_name = listener_name
        self.security_protocol = security_protocol
        self.principal = principal
        self.local_host = local_host
        self.local_port = local_port

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Connection:
    """A socket with its buffers. Owned by one processor."""

    __slots__ = (
        "blocked", "buffer", "client_id", "client_id_raw", "closed", "end", "events", "fileno",
        "flush_queued", "info", "last_active", "max_frame_bytes", "needed", "out", "out_bytes",
        "pipeline", "processor", "received_at", "reserved_bytes",
        "shape", "start", "state", "throttled_until",
        "transport", "unsent", "view", "waits_for_memory",
    )  # fmt: skip

    def __init__(
        self,
        transport: socket.socket,
        info: ConnectionInfo,
        processor: Processor,
        max_frame_bytes: int,
        now: float,
    ) -> None:
        self.transport = transport
        self.fileno = transport.fileno()
        self.info = info
        self.processor = processor
        self.max_frame_bytes = max_frame_bytes
        self.buffer = bytearray()  # allocated when something arrives
        self.view = memoryview(self.buffer)
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
            if not self.buffer:
                self.buffer = bytearray(INITIAL_BUFFER_BYTES)
                self.view = memoryview(self.buffer)
        for _ in range(MAX_RECEIVES_PER_ROUND):
            room_end = len(self.buffer)
            if self.needed > INITIAL_BUFFER_BYTES:
                # Exactly this frame, so that the next one starts at the front of the buffer.
                room_end = min(room_end, self.start + self.needed)
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
            if self.frame_ready() or not filled:
                return True
            self._make_room()
        return True

    def frame_ready(self) -> bool:
        """Is a whole frame buffered? Notes its size; raises BadInput if that is impossible."""
        held = self.end - self.start
        if held < SIZE_PREFIX_BYTES:
            self.needed = 0
            if len(self.buffer) - self.start < SIZE_PREFIX_BYTES:
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

    def _make_room(self) -> None:
        """Put what is held at the front of a buffer with room for more of the frame."""
        held = self.end - self.start
        capacity = len(self.buffer)
        if self.needed > capacity or (held == capacity and self.start == 0):
            size = min(max(self.needed, capacity), max(2 * capacity, GROW_STEP_BYTES))
            if size <= capacity:
                return
            grown = bytearray(size)
            view = memoryview(grown)
            view[:held] = self.view[self.start : self.end]
            self.buffer, self.view = grown, view
        elif self.start:
            self.view[:held] = self.view[self.start : self.end]
        self.start = 0
        self.end = held

    def give_back_buffer(self) -> None:
        """An idle connection needs no buffer; only between requests."""
        if self.start == self.end and self.buffer:
            self.buffer = bytearray()
            self.view = memoryview(self.buffer)
            self.start = self.end = self.needed = 0
            self.shape = None  # it holds a view of the old buffer

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
        for _ in range(MAX_SENDS_PER_ROUND):
            if not out:
                break
            first = out[0]
            if isinstance(first, (bytes, bytearray, memoryview)):
                complete = self._send_buffers()
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
        more = socket.MSG_MORE if len(out) > len(run) else 0
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
        """Let the kernel send from the page cache; what it did not take is queued again."""
        left = len(part)
        position = part.position
        try:
            while left:
                sent = os.sendfile(self.fileno, part.fileno(), position, min(left, SENDFILE_BYTES))
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
