"""The bytes to send to one client: parts in memory and parts of files, in order.

Invariants: parts leave in the order in which they were added and only from the front; `size` counts
all unsent bytes; one flush sends no more than its share, so that a fast reader of large answers
does not block the others; bytes of a file that must first be read from the disk are not sent
(`cold`). A connection over TLS has a queue of its own: `tls_connection`.

Mirrors `NetworkSend` and `MultiRecordsSend`.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from typing import Any, Final, Protocol

from ...protocol import invariants
from ...protocol.invariants import BrokenConnection
from ...protocol.primitives import Buffer
from ..resources import machine
from .down_conversion import DownConversion
from .page_cache import is_cached

MAX_SENDS_PER_ROUND: Final = 8
# Of one flush: the kernel takes a millisecond or so for them.
MAX_SENT_BYTES_PER_ROUND: Final = 1024 * 1024
# Responses up to this many bytes are joined into one string; above it they go as an iovec.
JOIN_LIMIT_BYTES: Final = 32 * 1024
MAX_IOVECS: Final = 64
# Of a file: looked for in the page cache, or read into it.
LOOKED_FOR_BYTES: Final = 1024 * 1024
# Of a file, in one call. A short send means that the socket is full, and is not tried again.
SENDFILE_BYTES: Final = 128 * 1024
# At once, where a file has to be read and sent.
COPIED_BYTES: Final = 256 * 1024
# Up to this many bytes of a file are read and leave with the parts before and behind them.
SMALL_FILE_BYTES: Final = 8 * 1024


class FilePart(Protocol):
    """A part of a response that lies in a file: sent by the kernel from the page cache."""

    position: int

    def __len__(self) -> int: ...

    def fileno(self) -> int: ...

    def read_failed(self, error: OSError) -> None: ...


Part = Buffer | FilePart | DownConversion


class SendQueue:
    __slots__ = ("_cached_end", "_transport", "blocked", "cold", "had_share", "parts", "size")

    def __init__(self, transport: socket.socket) -> None:
        self._transport = transport
        self.parts: deque[Any] = deque()  # of Part; of the first one only the rest
        self.size = 0  # bytes of all parts
        # Something was left by the last flush: it waits for WRITE or `cold`, or, where the socket
        # took all of a share, for its next turn.
        self.blocked = False
        self.had_share = False
        # The range to read from the disk before more of the first part is sent.
        self.cold: Rest | None = None
        self._cached_end = 0  # up to where in its file the first part need not be looked for

    def clear(self) -> None:
        """The connection is closed."""
        self.parts.clear()
        self.size = 0

    def was_read(self) -> None:
        """`cold` is in the page cache now, as far as it can be."""
        if self.cold is not None:
            self._cached_end = self.cold.position + len(self.cold)
            self.cold = None

    def add(self, parts: list[Part]) -> None:
        """Append the parts of a response."""
        out = self.parts
        if len(parts) == 1:
            out.append(parts[0])
            self.size += len(parts[0])
            return
        for part in parts:
            size = len(part)
            self.size += size
            if not isinstance(part, (bytes, bytearray, memoryview, DownConversion)):
                data = getattr(part, "held", None)
                if not data and size <= SMALL_FILE_BYTES:
                    data = _read(part, size, part.position)
                if data and len(data) == size:  # else sending it will fail
                    part = data
            out.append(part)

    def flush(self) -> bool:
        """Send queued parts, up to a share. True when all parts are sent; OSError if the connection
        broke."""
        out = self.parts
        enough = self.size - MAX_SENT_BYTES_PER_ROUND
        complete = True
        for _ in range(MAX_SENDS_PER_ROUND):
            if not out or self.size <= enough:
                break
            first = out[0]
            if isinstance(first, (bytes, bytearray, memoryview)):
                complete = self._send_buffers()
            elif isinstance(first, DownConversion):
                complete = self._send_chunk(first)
                break
            else:
                complete = self._send_file(first, self.size - enough)
            if not complete:
                break
        self.blocked = bool(out)
        self.had_share = complete and self.blocked
        if not out:
            if self.size:
                raise BrokenConnection(f"all has left, and {self.size} bytes are counted")
            return True
        if invariants.THOROUGH:
            left = [part.left if isinstance(part, DownConversion) else len(part) for part in out]
            if self.size != sum(left):
                raise BrokenConnection(f"{self.size} bytes are counted, {left} are left")
        return False

    def _send_buffers(self) -> bool:
        """Send the run of in-memory parts at the front of the queue."""
        out = self.parts
        run: list[Buffer] = []
        total = 0
        for part in out:
            if len(run) == MAX_IOVECS or not isinstance(part, (bytes, bytearray, memoryview)):
                break
            run.append(part)
            total += len(part)
        more = machine.MSG_MORE if len(out) > len(run) else 0
        try:
            if len(run) == 1:
                sent = self._transport.send(run[0], more)
            elif total <= JOIN_LIMIT_BYTES:
                sent = self._transport.send(b"".join(run), more)
            else:
                sent = self._transport.sendmsg(run, (), more)
        except (BlockingIOError, InterruptedError):
            return False
        self.size -= sent
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
            self.parts.popleft()
        self.parts.appendleft(chunk)
        return self._send_buffers()

    def _send_file(self, part: FilePart, share: int) -> bool:
        """Let the kernel send so much from the page cache, where it can; the rest is queued again.
        False if the socket, or the disk, has to be waited for."""
        left = len(part)
        position = part.position
        share_end = position + share
        goes_on = True
        try:
            while goes_on and left and position < share_end:
                if not self._is_cached(part, position, left):
                    goes_on = False
                    break
                end = min(self._cached_end, share_end, position + SENDFILE_BYTES)
                size = min(left, end - position)
                sent = self._send_range(part, position, size)
                if sent == 0:
                    # The file is shorter than the part: truncated under a reader.
                    raise ConnectionAbortedError("a log segment shrank while it was being sent")
                position += sent
                left -= sent
                self.size -= sent
                goes_on = sent == size
        except (BlockingIOError, InterruptedError):
            goes_on = False
        if left:
            self.parts[0] = Rest(part, position, left)
        else:
            self._end_file()
        return goes_on

    def _is_cached(self, part: FilePart, position: int, left: int) -> bool:
        """Whether the first part can be sent from there without a wait for the disk, up to
        `_cached_end`; if not, the missing range is `cold`."""
        if position < self._cached_end:
            return True
        if self.cold is not None:
            return False
        size = min(left, LOOKED_FOR_BYTES)
        if not is_cached(part.fileno(), position, size):
            self.cold = Rest(part, position, size)
            return False
        self._cached_end = position + size
        return True

    def _end_file(self) -> None:
        """The first part, which is of a file, was sent."""
        self.parts.popleft()
        self._cached_end = 0

    def _send_range(self, part: FilePart, position: int, size: int) -> int:
        """Bytes of a file; how many the socket took."""
        if machine.HAS_SENDFILE:
            try:
                return os.sendfile(self._transport.fileno(), part.fileno(), position, size)
            except OSError as error:
                part.read_failed(error)
                raise
        data = _read(part, min(size, COPIED_BYTES), position)
        return self._transport.send(data) if data else 0


def _read(part: FilePart, size: int, position: int) -> bytes:
    try:
        return os.pread(part.fileno(), size, position)
    except OSError as error:
        part.read_failed(error)
        raise


class Rest:
    """The unsent rest of a file part. Keeps the file open."""

    __slots__ = ("_part", "_size", "position")

    def __init__(self, part: FilePart, position: int, size: int) -> None:
        self._part: FilePart = part._part if isinstance(part, Rest) else part
        self.position = position
        self._size = size

    def __len__(self) -> int:
        return self._size

    def fileno(self) -> int:
        return self._part.fileno()

    def read_failed(self, error: OSError) -> None:
        self._part.read_failed(error)
