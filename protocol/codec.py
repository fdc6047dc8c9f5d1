"""Messages to bytes and back, in any version.

Job: `decode`, `encode` and their variants. The readers and writers are in `generated/`: a module
for each module of messages, imported when one of its messages is first asked for.
Invariants: decoding raises only `ProtocolError`, for any bytes; it copies no records or bytes
fields, which are views into the given buffer; it allocates in proportion to the bytes it was given.
Encoding raises `ProtocolError` for a message that its version cannot express.
`large_messages` does the same in slices.
Mirrors: org.apache.kafka.common.protocol.MessageUtil.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from struct import unpack_from
from typing import Any, Final, TypeVar, final

from .errors import ProtocolError
from .primitives import Buffer, Records
from .reader import Reader
from .schema import Message, MessageSpec, Struct, version_range
from .writer import REFUSED, Writer

M = TypeVar("M", bound=Message)

NO_MESSAGE: Final = MessageSpec(-1, "", "none", "none")
_ROOM: Final = f"{__name__.rpartition('.')[0]}.generated"


@final
class Codec:
    """The reader and the writer of one struct. Only a message has versions of its own."""

    __slots__ = ("first", "first_flexible", "last", "last_flexible", "name", "read", "read_tags",
                 "write", "write_tags")  # fmt: skip

    def __init__(self, cls: type[Struct]) -> None:
        module = import_module(f"{_ROOM}.{cls.__module__.rpartition('.')[2]}")
        name = cls.__name__
        spec = cls._spec if issubclass(cls, Message) else NO_MESSAGE
        self.name = name
        self.first, self.last = version_range(spec.valid)
        self.first_flexible, self.last_flexible = version_range(spec.flexible)
        self.read: Callable[[Reader, int], Any] = getattr(module, f"read_{name}")
        self.write: Callable[[Writer, Any, int], None] = getattr(module, f"write_{name}")
        # The tagged fields, behind a struct's other fields.
        self.read_tags: Callable[[Reader, Any, int], None] = getattr(
            module, f"read_tags_of_{name}", _read_unknown_tags
        )
        self.write_tags: Callable[[Writer, Any, int], None] = getattr(
            module, f"write_tags_of_{name}", _write_unknown_tags
        )

    def is_flexible(self, version: int) -> bool:
        """Raises ProtocolError for a version that there is not."""
        if not self.first <= version <= self.last:
            raise ProtocolError(f"{self.name} has no version {version}")
        return self.first_flexible <= version <= self.last_flexible


def _read_unknown_tags(reader: Reader, struct: Any, version: int) -> None:
    struct.unknown_tagged_fields = reader.unknown_tags()


def _write_unknown_tags(writer: Writer, struct: Any, version: int) -> None:
    writer.unknown_tags(type(struct).__name__, struct.unknown_tagged_fields)


_CODECS: Final[dict[type[Struct], Codec]] = {}


def codec_of(cls: type[Struct]) -> Codec:
    """The reader and the writer of `cls`."""
    codec = _CODECS.get(cls)
    if codec is None:
        codec = _CODECS[cls] = Codec(cls)
    return codec


def decode(cls: type[M], version: int, buffer: Buffer, offset: int = 0) -> M:
    """The message at `offset`; bytes behind it are ignored."""
    return decode_from(cls, version, buffer, offset)[0]


def decode_from(cls: type[M], version: int, buffer: Buffer, offset: int = 0) -> tuple[M, int]:
    """The message at `offset`, and the offset behind it."""
    codec = codec_of(cls)
    try:
        reader = Reader(buffer, offset, codec.is_flexible(version), False)
        message: M = codec.read(reader, version)
        return message, reader.place()
    except ProtocolError as error:
        raise ProtocolError(f"{codec.name} v{version}: {error}") from error


def encode_parts(message: Message, version: int) -> list[Records]:
    """The message in one or more parts; large records, and slices of files in place of records, are
    parts of their own, and not copied."""
    parts: list[Records] = []
    codec = codec_of(type(message))
    writer = Writer(version, codec.is_flexible(version), parts)
    try:
        codec.write(writer, message, version)
        writer.end_part()
    except REFUSED as error:
        raise ProtocolError(f"{codec.name} v{version} has a value out of range: {error}") from error
    return parts


def encode(message: Message, version: int) -> bytes:
    """The message in one piece. Records that are no buffer give their bytes by `read()`."""
    parts: list[Any] = encode_parts(message, version)
    if len(parts) == 1:
        whole: bytes = parts[0]
        return whole
    return b"".join([part.read() if hasattr(part, "read") else part for part in parts])


def encode_versioned(message: Message, version: int) -> bytes:
    """A data message behind its version as int16, as in record keys and values."""
    return version.to_bytes(2, "big") + encode(message, version)


def decode_versioned(cls: type[M], buffer: Buffer, *, clamp: bool = False) -> M:
    """A data message behind its version. `clamp` reads a version newer than ours as our newest, as
    the consumer protocol requires."""
    if len(buffer) < 2:
        raise ProtocolError(f"{cls.__name__} is too short for its version")
    version: int = unpack_from(">h", buffer)[0]
    if clamp:
        version = min(version, version_range(cls._spec.valid)[1])
    return decode(cls, version, buffer, 2)
