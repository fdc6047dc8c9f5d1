"""Size-prefixed frames over a stream: the one reader and writer of clients and brokers.

Invariants: a size is checked before anything is allocated; a big frame is received straight into
its own buffer, so that its bytes are copied once, by the kernel. `FrameReader` is for one request
in flight; its frame is a view of the reader's buffer: with `reuse_buffer` it is valid until the
next frame is read. `FramesReader` is for many requests in flight.

Mirrors: org.apache.kafka.common.network.NetworkReceive.
"""

from __future__ import annotations

import mmap
import os
from contextlib import suppress
from struct import Struct

import trio

from ..protocol.errors import ProtocolError
from .security.tls_stream import TlsStream

MAX_FRAME_BYTES = 100 * 1024 * 1024
FIRST_BUFFER_BYTES = 64 * 1024
STEP_BYTES = 256 * 1024  # of a big frame: after each, `steps` grows
# Up to here, received bytes of a big frame are taken without a wait; then other tasks run.
AT_ONCE_BYTES = 2 * 1024 * 1024
# A grown reused buffer is freed after this many frames that did not need it.
SMALL_FRAMES_BEFORE_SHRINKING = 1000
MAX_KEPT_BYTES = 2 * 1024 * 1024  # of a big frame's buffer, for the next one
LARGE_PAGE_BYTES = 2 * 1024 * 1024

_SIZE = Struct(">i")


def send_some(stream: trio.abc.SendStream, frame: bytes) -> int:
    """The number of bytes that a plain socket takes at once; 0 for other streams. Raises
    OSError."""
    if isinstance(stream, trio.SocketStream):
        with suppress(BlockingIOError):
            return os.write(stream.socket.fileno(), frame)
    return 0


async def send_frame(stream: trio.abc.SendStream, frame: bytes) -> None:
    """Send it all. Without a checkpoint if the socket takes it: the caller waits for the answer
    anyway."""
    sent = send_some(stream, frame)
    if sent < len(frame):
        await stream.send_all(frame[sent:] if sent else frame)


class FrameReader:
    """Reads one frame after the other; no unrequested bytes may follow a frame (no pipelining)."""

    __slots__ = ("_buffer", "_max_frame_bytes", "_reuse", "_small_frames")

    def __init__(
        self, *, max_frame_bytes: int = MAX_FRAME_BYTES, reuse_buffer: bool = False
    ) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._reuse = reuse_buffer
        self._buffer: bytearray | mmap.mmap = bytearray(FIRST_BUFFER_BYTES)
        self._small_frames = 0

    async def read(self, stream: trio.abc.ReceiveStream) -> memoryview:
        """The next frame, without its size. ProtocolError, or trio's errors of a broken stream."""
        buffer = self._buffer
        filled = await _fill(stream, memoryview(buffer), 0, _SIZE.size)
        (size,) = _SIZE.unpack_from(buffer)
        if not 0 <= size <= self._max_frame_bytes:
            raise ProtocolError(f"a frame of {size} bytes; is that a Kafka broker?")
        end = _SIZE.size + size
        if end > len(buffer):
            grown = _lasting_buffer(end) if self._reuse else bytearray(end)
            grown[:filled] = memoryview(buffer)[:filled]
            buffer = self._buffer = grown
        view = memoryview(buffer)
        if filled < end:
            filled = await _fill(stream, view[:end], filled, end)
        if filled > end:
            raise ProtocolError("bytes follow the frame that no request asked for")
        return self._give(view[_SIZE.size : end], end)

    def _give(self, frame: memoryview, end: int) -> memoryview:
        is_small = end <= FIRST_BUFFER_BYTES
        if not self._reuse:
            if is_small:
                return memoryview(bytes(frame))
            self._buffer = bytearray(FIRST_BUFFER_BYTES)
        elif is_small:
            self._small_frames += 1
            is_grown = len(self._buffer) > FIRST_BUFFER_BYTES
            if is_grown and self._small_frames > SMALL_FRAMES_BEFORE_SHRINKING:
                self._buffer = bytearray(FIRST_BUFFER_BYTES)
        else:
            self._small_frames = 0
        return frame


class FramesReader:
    """Reads one frame after the other, even if many have arrived at once.

    A frame's bytes never change while a view of them exists. Those of a big frame are not copied;
    once no view of its buffer exists, the next frame is received into that buffer from its
    beginning, so that a big frame that has arrived takes one system call.
    """

    __slots__ = ("_big", "_buffer", "_end", "_max_frame_bytes", "_small", "_start", "steps")

    def __init__(self, *, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._small = bytearray(FIRST_BUFFER_BYTES)
        self._big = bytearray()  # of the last big frame
        self._buffer = self._small  # `_small`, `_big` or another: the last one received into
        self._start = self._end = 0  # of `_buffer`: bytes that are in no frame yet
        self.steps = 0  # grows while frames, and parts of big frames, arrive

    async def read(self, stream: trio.abc.ReceiveStream) -> memoryview:
        """The next frame, without its size. ProtocolError, or trio's errors of a broken stream.

        A checkpoint only if it has to wait. After a cancellation the stream cannot be read any
        more.
        """
        await self._have(stream, _SIZE.size)
        (size,) = _SIZE.unpack_from(self._buffer, self._start)
        if not 0 <= size <= self._max_frame_bytes:
            raise ProtocolError(f"a frame of {size} bytes; is that a Kafka broker?")
        needed = _SIZE.size + size
        if needed > FIRST_BUFFER_BYTES:
            return await self._read_big(stream, needed)
        await self._have(stream, needed)
        self.steps += 1
        frame = self._buffer[self._start + _SIZE.size : self._start + needed]
        self._start += needed
        return memoryview(bytes(frame))

    async def _have(self, stream: trio.abc.ReceiveStream, needed: int) -> None:
        """Receive until the buffer has at least this many bytes."""
        come = self._end - self._start
        if come >= needed:
            return
        if come:
            self._move_up(self._buffer)
        else:
            await _wait_for_some(stream)  # a view of the last big frame may end meanwhile
            self._buffer = self._big if self._big and _is_free(self._big) else self._small
            self._start = self._end = 0
        self._end = await _fill(
            stream, memoryview(self._buffer), come, needed, may_have_come=not come
        )

    def _move_up(self, buffer: bytearray) -> None:
        """Move the received bytes to the beginning of the same buffer or another one."""
        come = self._end - self._start
        if self._start or buffer is not self._buffer:
            buffer[:come] = memoryview(self._buffer)[self._start : self._end]
        self._buffer, self._start, self._end = buffer, 0, come

    def _roomy(self, needed: int) -> bytearray:
        """A buffer for a big frame. New memory costs as much as receiving into it."""
        if needed <= len(self._buffer):
            return self._buffer
        if needed <= len(self._big) and _is_free(self._big):
            return self._big
        return bytearray(-(-needed // FIRST_BUFFER_BYTES) * FIRST_BUFFER_BYTES)

    async def _read_big(self, stream: trio.abc.ReceiveStream, needed: int) -> memoryview:
        buffer = self._roomy(needed)
        self._move_up(buffer)
        frame = memoryview(buffer)[:needed]
        come = self._end
        self.steps += 1
        while come < needed:
            end = min(needed, come + STEP_BYTES)
            come = await _fill(stream, frame, come, end, may_have_come=come < AT_ONCE_BYTES)
            self.steps += 1
        # The bytes that follow go into another buffer.
        self._start, self._end, rest = needed, come, come - needed
        self._move_up(self._small if rest <= FIRST_BUFFER_BYTES else bytearray(rest))
        self._big = buffer if len(buffer) <= MAX_KEPT_BYTES else bytearray()
        return frame[_SIZE.size :]


def _is_free(buffer: bytearray) -> bool:
    """Whether no view of it exists: then, and only then, its size can be changed."""
    try:
        buffer.append(0)
    except BufferError:
        return False
    buffer.pop()
    return True


async def _wait_for_some(stream: trio.abc.ReceiveStream) -> None:
    """Wait until a plain socket has some bytes; other streams only show that when read."""
    if isinstance(stream, trio.SocketStream):
        await trio.lowlevel.wait_readable(stream.socket.fileno())


async def _fill(
    stream: trio.abc.ReceiveStream,
    view: memoryview,
    filled: int,
    needed: int,
    *,
    may_have_come: bool = False,
) -> int:
    """Receive until `needed` bytes of `view` are filled, with further received bytes that fit.

    With `may_have_come` it reads before it waits.
    """
    while filled < needed:
        if isinstance(stream, trio.SocketStream):
            # Straight from the descriptor: one checkpoint and one system call for received bytes.
            fd = stream.socket.fileno()
            if not may_have_come:
                await trio.lowlevel.wait_readable(fd)
            may_have_come = False
            try:
                count = os.readv(fd, [view[filled:]])
            except BlockingIOError:
                continue
        elif isinstance(stream, TlsStream):
            count = await stream.receive_into(view[filled:])
        else:
            data = await stream.receive_some(len(view) - filled)
            count = len(data)
            view[filled : filled + count] = data
        if not count:
            raise trio.BrokenResourceError("the broker closed the connection")
        filled += count
    return filled


def _lasting_buffer(size: int) -> mmap.mmap:
    """A buffer for frames of this size and a little more, in large pages.

    A follower spends most of its time in copies to and from this buffer; large pages make them a
    tenth cheaper. Pages that no frame has touched take no memory.
    """
    room = max(LARGE_PAGE_BYTES, 1 << (size - 1).bit_length())
    buffer = mmap.mmap(-1, room, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # a kernel without large pages
        buffer.madvise(mmap.MADV_HUGEPAGE)
    return buffer
