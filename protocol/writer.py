"""A growing buffer, to which generated code writes one message.

Job: `Writer`, which has a method for each kind of field that is more than a number of a fixed size.
Invariants: null only where it is allowed; a string has at most 32767 bytes; known and unknown tags
are written together in increasing order. Large records, and slices of files in place of records,
are parts of their own, and not copied. For a value without a wire form its methods raise an
exception in REFUSED, and Beyond in a writer with a limit (`large_messages`). Mirrors: Kafka's
ByteBufferAccessor (Writable).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NoReturn, final

from mypy_extensions import i64, mypyc_attr

from .errors import ProtocolError
from .packed import BytesWriter, write_f64_be, write_i16_be, write_i32_be, write_i64_be
from .primitives import MAX_STRING_BYTES
from .reader import Beyond

# Records up to this size are copied into the message; larger ones become a part of their own.
MAX_COPIED_RECORDS_BYTES: Final = 4096
# A limited writer writes no more before it raises Beyond, but for one string.
LIMITED_BYTES: Final = 4096
# The bytes that an element of an array counts before it is written.
LEAST_ELEMENT_BYTES: Final = 8

# A number that does not fit, text that is no Unicode, a value of another type.
REFUSED: Final = (OverflowError, TypeError, ValueError)

NO_LIMIT: Final = 1 << 62


@mypyc_attr(free_list_len=1, acyclic=True)
@final
class Writer:
    """Writes one message in one version; `flexible` is whether this version is."""

    __slots__ = ("flexible", "limit", "out", "parts", "version")

    def __init__(self, version: i64, flexible: bool, parts: list[Any]) -> None:
        self.version = version
        self.flexible = flexible
        self.out = BytesWriter()  # behind all that is in `parts`
        self.parts = parts
        self.limit: i64 = NO_LIMIT  # of bytes in `out`

    def end_part(self) -> None:
        """Turn the content of `out` into a part."""
        data = self.out.getvalue()
        self.parts.append(data)
        self.out.truncate(0)
        self.limit -= len(data)

    def go_back(self, parts: int, size: int) -> None:
        """Undo writes: back to `parts` parts, and `size` bytes behind them."""
        data = self.parts[parts] if len(self.parts) > parts else self.out.getvalue()
        del self.parts[parts:]
        self.out.truncate(0)
        self.out.write(data[:size])

    # Refused values

    def refuse_null(self, name: str) -> NoReturn:
        raise ProtocolError(f"{name} must not be null in version {self.version}")

    def refuse(self, name: str) -> NoReturn:
        """A field that is not in this version, and has another value than its default."""
        raise ProtocolError(f"{name} cannot be written in version {self.version}")

    # Numbers that librt has no function for

    def boolean(self, value: Any) -> None:
        self.out.append(1 if value else 0)

    def int8(self, value: i64) -> None:
        if value < -128 or value > 127:
            raise ValueError(f"{value} is no int8")
        self.out.append(value & 255)

    def uint16(self, value: i64) -> None:
        if value < 0 or value > 0xFFFF:
            raise ValueError(f"{value} is no uint16")
        self.out.append(value >> 8)
        self.out.append(value & 255)

    def float64(self, value: Any) -> None:
        write_f64_be(self.out, float(value))

    def uuid(self, value: bytes) -> None:
        if len(value) != 16:
            raise ValueError(f"a UUID of {len(value)} bytes")
        self.out.write(value)

    def uvarint(self, value: i64) -> None:
        """7 bits a byte, low bits first, the high bit set on all bytes but the last."""
        out = self.out
        while value > 127:
            out.append(value & 127 | 128)
            value >>= 7
        out.append(value)

    # Fields with a length

    def length(self, size: int) -> None:
        """Write the length of bytes, records or an array; -1 for null."""
        if not self.flexible:
            write_i32_be(self.out, size)
        elif size < 127:
            self.out.append(size + 1)
        else:
            self.uvarint(size + 1)

    def string(self, name: str, text: str | None, nullable: bool) -> None:
        out = self.out
        if text is None:
            if not nullable:
                self.refuse_null(name)
            if self.flexible:
                out.append(0)
            else:
                write_i16_be(out, -1)
            return
        data = text.encode()
        size = len(data)
        if size > MAX_STRING_BYTES:
            raise ProtocolError(f"{name} is longer than 32767 bytes")
        if len(out) + size > self.limit:
            raise Beyond
        if not self.flexible:
            write_i16_be(out, size)
        elif size < 127:
            out.append(size + 1)
        else:
            self.uvarint(size + 1)
        out.write(data)

    def binary(self, name: str, data: Any, nullable: bool) -> None:
        if data is None:
            if not nullable:
                self.refuse_null(name)
            self.length(-1)
            return
        self.length(len(data))
        self.out.write(data if isinstance(data, bytes) else bytes(data))

    def records(self, name: str, records: Any, nullable: bool) -> None:
        """Any buffer, or something with a length that is sent in its place."""
        if records is None:
            if not nullable:
                self.refuse_null(name)
            self.length(-1)
            return
        size = len(records)
        self.length(size)
        if isinstance(records, bytes):
            if size <= MAX_COPIED_RECORDS_BYTES:
                self.out.write(records)
                return
        elif isinstance(records, (memoryview, bytearray)):
            if size <= MAX_COPIED_RECORDS_BYTES:
                self.out.write(bytes(records))
                return
        elif size == 0:
            return
        self.end_part()
        self.parts.append(records)

    def array(self, name: str, items: Any, nullable: bool) -> None:
        """The count of an array, whose elements follow; of none where it is null."""
        if items is None:
            if not nullable:
                self.refuse_null(name)
            self.length(-1)
            return
        count = len(items)
        if len(self.out) + LEAST_ELEMENT_BYTES * count > self.limit:
            raise Beyond
        self.length(count)

    def strings(self, name: str, items: Any, nullable: bool) -> None:
        self.array(name, items, nullable)
        if items:
            for item in items:
                self.string(name, item, False)

    def int8s(self, name: str, items: Any, nullable: bool) -> None:
        self.array(name, items, nullable)
        if items:
            for item in items:
                self.int8(item)

    def int16s(self, name: str, items: Any, nullable: bool) -> None:
        self.array(name, items, nullable)
        if items:
            out = self.out
            for item in items:
                write_i16_be(out, item)

    def int32s(self, name: str, items: Any, nullable: bool) -> None:
        self.array(name, items, nullable)
        if items:
            out = self.out
            for item in items:
                write_i32_be(out, item)

    def int64s(self, name: str, items: Any, nullable: bool) -> None:
        self.array(name, items, nullable)
        if items:
            out = self.out
            for item in items:
                write_i64_be(out, item)

    # Tags

    def unknown_tags(self, name: str, unknown: Mapping[int, bytes]) -> None:
        """The end of a struct without known tags that have to be written."""
        if not unknown:
            if self.flexible:
                self.out.append(0)
        elif self.flexible:
            self.tags([], unknown)
        else:
            raise ProtocolError(
                f"{name} has tagged fields, which version {self.version} cannot carry"
            )

    def inner(self) -> Writer:
        """Writes the field of a tag, whose size stands before it."""
        return Writer(self.version, True, [])

    def tags(self, known: list[tuple[int, Writer]], unknown: Mapping[int, bytes]) -> None:
        fields: list[tuple[int, bytes]] = [(tag, inner.out.getvalue()) for tag, inner in known]
        if unknown:
            fields += unknown.items()
            fields.sort()
        self.uvarint(len(fields))
        last = -1
        for tag, data in fields:
            if tag <= last:
                raise ProtocolError(f"tag {tag} is negative, or both known and unknown")
            self.uvarint(tag)
            self.uvarint(len(data))
            self.out.write(data)
            last = tag
