"""A place in received bytes, from which generated code reads one message.

Job: `Reader`, which has a method for each kind of field, and `Beyond`.
Invariants: every length is compared with the bytes that remain before it is used, an array's count
with the least its elements can take; known tags fill exactly their size; tags strictly increase.
Its methods raise only ProtocolError, or Beyond in a reader with a limit.
Mirrors: Kafka's ByteBufferAccessor (Readable), with Java's treatment of invalid UTF-8 (replaced by
U+FFFD). Stricter: tags must have the right size and order, a negative length must be -1 and a
varint must fit 31 bits; no client violates that.

Numbers are read from a window: a `bytes` object, from which librt reads fast. The window of a
received `bytes` is the whole object; that of a view is a copy of at most the next WINDOW_BYTES.
Fields of bytes and records are views of the received buffer and need not fit the window: a new one
begins behind them.

A limited reader raises Beyond where it would read beyond its first window, a millisecond of work;
`large_messages` uses it.
"""

from __future__ import annotations

from struct import unpack_from
from typing import Any, Final, NoReturn, final

from mypy_extensions import i64, mypyc_attr

from .errors import ProtocolError
from .packed import read_f64_be, read_i16_be, read_i32_be, read_i64_be
from .primitives import MAX_STRING_BYTES
from .schema import NO_TAGS

WINDOW_BYTES: Final = 4096
# Windows that begin behind bytes and records; a limited reader opens no more of them.
MOST_WINDOWS: Final = 4
# No client sends more; without a limit, reading them would be a loop that no slice ends.
MAX_UNKNOWN_TAGS: Final = 1000

_MAX_INT32: Final = 0x7FFFFFFF
# Compiled code looks up names of other modules each time; this name is its own.
_NO_TAGS: Final = NO_TAGS


class Beyond(Exception):
    """A limited reader, or writer, has to read or write more than its limit."""


def _fail(field: str, problem: str) -> NoReturn:
    raise ProtocolError(f"{field} {problem}")


@mypyc_attr(free_list_len=1, acyclic=True)
@final
class Reader:
    """Reads one message in one version; `flexible` is whether this version is."""

    __slots__ = ("base", "buffer", "data", "end", "flexible", "limited", "pos", "size", "tag_end",
                 "view", "windows")  # fmt: skip

    def __init__(self, buffer: Any, start: i64, flexible: bool, limited: bool) -> None:
        self.flexible = flexible
        self.limited = limited
        self.buffer: Any = buffer
        self.view: memoryview | None = None  # of the whole buffer, made when it is needed
        self.end: i64 = len(buffer)
        # The window, where it begins in the buffer, and the place in it.
        self.base: i64 = 0
        self.pos: i64 = start
        self.windows: i64 = 0
        self.tag_end: i64 = 0
        self.data: bytes
        if type(buffer) is bytes:
            self.data = buffer
            self.size: i64 = self.end
        elif self.end <= WINDOW_BYTES:
            self.data = bytes(buffer)
            self.size = self.end
        else:
            self.open_window()

    # The window

    def place(self) -> int:
        """The position in the buffer."""
        return self.base + self.pos

    def open_window(self) -> None:
        """Open a window at the reader's position."""
        start = self.base + self.pos
        stop = start + WINDOW_BYTES
        if stop > self.end:
            stop = self.end
        self.data = bytes(self.buffer[start:stop])
        self.base = start
        self.pos = 0
        self.size = stop - start

    def go_back(self, place: int) -> None:
        """Move back to `place`, with a window that begins there."""
        self.base = place
        self.pos = 0
        self.windows = 0
        self.open_window()

    def more(self, count: i64) -> i64:
        """Move the window so that it holds the next `count` bytes; returns the position in it."""
        start = self.base + self.pos
        if start + count > self.end:
            raise ProtocolError("ends too early")
        if self.limited:
            self.windows += 1
            if self.pos <= self.size or self.windows > MOST_WINDOWS:
                raise Beyond
        self.open_window()
        return self.pos

    # Numbers

    def boolean(self) -> bool:
        pos = self.pos
        if pos >= self.size:
            pos = self.more(1)
        self.pos = pos + 1
        return self.data[pos] != 0

    def int8(self) -> i64:
        pos = self.pos
        if pos >= self.size:
            pos = self.more(1)
        self.pos = pos + 1
        byte: i64 = self.data[pos]
        return byte - 256 if byte > 127 else byte

    def int16(self) -> int:
        pos = self.pos
        if pos + 2 > self.size:
            pos = self.more(2)
        self.pos = pos + 2
        return read_i16_be(self.data, pos)

    def uint16(self) -> int:
        return self.int16() & 0xFFFF

    def int32(self) -> int:
        pos = self.pos
        if pos + 4 > self.size:
            pos = self.more(4)
        self.pos = pos + 4
        return read_i32_be(self.data, pos)

    def int64(self) -> i64:
        pos = self.pos
        if pos + 8 > self.size:
            pos = self.more(8)
        self.pos = pos + 8
        return read_i64_be(self.data, pos)

    def float64(self) -> float:
        pos = self.pos
        if pos + 8 > self.size:
            pos = self.more(8)
        self.pos = pos + 8
        return read_f64_be(self.data, pos)

    def uuid(self) -> bytes:
        pos = self.pos
        if pos + 16 > self.size:
            pos = self.more(16)
        self.pos = pos + 16
        return self.data[pos : pos + 16]

    def uvarint(self) -> i64:
        """7 bits a byte, low bits first, the high bit set on all bytes but the last."""
        pos = self.pos
        if pos >= self.size:
            pos = self.more(1)
        self.pos = pos + 1
        value: i64 = self.data[pos]
        if value < 128:
            return value
        return self._long_uvarint(value & 127)

    def _long_uvarint(self, value: i64) -> i64:
        shift: i64 = 7
        while True:
            pos = self.pos
            if pos >= self.size:
                pos = self.more(1)
            self.pos = pos + 1
            byte: i64 = self.data[pos]
            value |= (byte & 127) << shift
            if byte < 128:
                break
            shift += 7
            if shift > 28:
                raise ProtocolError("varint is longer than 5 bytes")
        if value > _MAX_INT32:
            raise ProtocolError(f"varint {value} does not fit 31 bits")
        return value

    # Fields with a length

    def length(self, name: str, nullable: bool) -> i64:
        """The length of bytes, records or an array; -1 for null."""
        size: i64 = self.uvarint() - 1 if self.flexible else self.int32()
        if size < 0 and (size < -1 or not nullable):
            _fail(name, "must not be null, or has a negative length")
        return size

    def string(self, name: str, nullable: bool) -> str | None:
        size: i64 = self.uvarint() - 1 if self.flexible else self.int16()
        if size <= 0:
            if size < 0:
                if size < -1 or not nullable:
                    _fail(name, "must not be null, or has a negative length")
                return None
            return ""
        pos = self.pos
        if pos + size > self.size:
            return self._long_string(name, size)
        if size > MAX_STRING_BYTES:
            _fail(name, "is longer than 32767 bytes")
        self.pos = pos + size
        return self.data[pos : pos + size].decode("utf-8", "replace")

    def _long_string(self, name: str, size: i64) -> str:
        """Read a string that ends behind the window."""
        start = self.base + self.pos
        if start + size > self.end:
            _fail(name, "is longer than the buffer")
        if size > MAX_STRING_BYTES:
            _fail(name, "is longer than 32767 bytes")
        if self.limited:
            raise Beyond
        self.pos += size
        return bytes(self.buffer[start : start + size]).decode("utf-8", "replace")

    def binary(self, name: str, nullable: bool) -> memoryview | None:
        """A view of received bytes; also for records."""
        size = self.length(name, nullable)
        if size < 0:
            return None
        start = self.base + self.pos
        if start + size > self.end:
            _fail(name, "is longer than the buffer")
        self.pos += size
        view = self.view
        if view is None:
            buffer = self.buffer
            view = self.view = buffer if type(buffer) is memoryview else memoryview(buffer)
        return view[start : start + size]

    def count(self, name: str, nullable: bool, least: i64) -> i64:
        """The count of an array whose elements take `least` bytes or more; -1 for null."""
        count = self.length(name, nullable)
        if count * least > self.end - self.base - self.pos:
            _fail(name, "has too many elements")
        return count

    def strings(self, name: str, nullable: bool) -> list[str] | None:
        count = self.count(name, nullable, 1)
        if count < 0:
            return None
        items: list[Any] = [self.string(name, False) for _ in range(count)]
        return items

    def int8s(self, name: str, nullable: bool) -> list[int] | None:
        count = self.count(name, nullable, 1)
        return None if count < 0 else self.numbers("b", 1, count)

    def int16s(self, name: str, nullable: bool) -> list[int] | None:
        count = self.count(name, nullable, 2)
        return None if count < 0 else self.numbers("h", 2, count)

    def int32s(self, name: str, nullable: bool) -> list[int] | None:
        count = self.count(name, nullable, 4)
        return None if count < 0 else self.numbers("i", 4, count)

    def int64s(self, name: str, nullable: bool) -> list[int] | None:
        count = self.count(name, nullable, 8)
        return None if count < 0 else self.numbers("q", 8, count)

    def numbers(self, letter: str, size: i64, count: i64) -> list[int]:
        """Read `count` numbers; the caller has checked that the buffer holds them."""
        data: Any = self.data
        pos = self.pos
        if pos + count * size > self.size:
            if self.limited and count * size > WINDOW_BYTES:
                raise Beyond
            data = self.buffer
            pos += self.base
        self.pos += count * size
        return list(unpack_from(f">{count}{letter}", data, pos))

    # Tags

    def tag_count(self) -> i64:
        """The number of tagged fields."""
        if not self.flexible:
            return 0
        count = self.uvarint()
        if count > MAX_UNKNOWN_TAGS:
            raise ProtocolError(f"{count} tagged fields are too many")
        return count

    def next_tag(self, last: i64) -> i64:
        """The next tag, which is higher than the `last` one; its field follows."""
        tag = self.uvarint()
        size = self.uvarint()
        if tag <= last:
            raise ProtocolError("tags are out of order")
        start = self.base + self.pos
        if size > self.end - start:
            raise ProtocolError(f"tag {tag} is longer than the buffer")
        self.tag_end = start + size
        return tag

    def end_tag(self, name: str, end: i64) -> None:
        """The field of a known tag has been read."""
        if self.base + self.pos != end:
            _fail(name, "differs from its size")

    def unknown_tag(self) -> bytes:
        """The bytes of a tag's field that is not known."""
        start = self.base + self.pos
        self.pos += self.tag_end - start
        return bytes(self.buffer[start : self.tag_end])

    def unknown_tags(self) -> Any:
        """The tags of a struct that knows none."""
        count = self.tag_count()
        if not count:
            return _NO_TAGS
        unknown: dict[int, bytes] = {}
        last: i64 = -1
        for _ in range(count):
            last = self.next_tag(last)
            unknown[last] = self.unknown_tag()
        return unknown
