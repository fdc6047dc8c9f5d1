"""Messages to bytes and back, in any version.

Job: `decode`, `encode` and their variants. Readers and writers are compiled per message and version
when first asked for.
Invariants: decoding raises only `ProtocolError`, whatever the bytes; it copies no records or bytes
fields, which are views into the given buffer; it allocates in proportion to the bytes it was given.
Encoding raises `ProtocolError` for a message that its version cannot express.
`decode_slices` and `encode_slices` do the same as generators that yield about once a millisecond:
between two slices of a large message others can have their turn.
Mirrors: org.apache.kafka.common.protocol.MessageUtil and ByteBufferAccessor.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from struct import error as struct_error
from struct import unpack_from
from typing import Any, Final, Generic, TypeVar

from .codec_reader import compile_reader, compile_sliced_reader
from .codec_source import Reader, SlicedReader, SlicedWriter, Writer
from .codec_writer import compile_sliced_writer, compile_writer
from .discarding import discard
from .errors import ProtocolError
from .primitives import Buffer, Records
from .schema import Message, version_range

M = TypeVar("M", bound=Message)
F = TypeVar("F")


class _Versions(dict[int, F], Generic[F]):
    """The compiled functions of one message by version."""

    def __init__(self, cls: type[Message], make: Callable[[type[Message], int], F]) -> None:
        self.cls = cls
        self.make = make

    def __missing__(self, version: int) -> F:
        low, high = version_range(self.cls._spec.valid)
        if not low <= version <= high:
            raise ProtocolError(f"{self.cls.__name__} has no version {version}")
        made = self[version] = self.make(self.cls, version)
        return made


class _Messages(dict[type[Message], _Versions[F]], Generic[F]):
    def __init__(self, make: Callable[[type[Message], int], F]) -> None:
        self.make = make

    def __missing__(self, cls: type[Message]) -> _Versions[F]:
        made = self[cls] = _Versions(cls, self.make)
        return made


# All that compiled readers raise.
_BAD_BYTES: Final = (ProtocolError, struct_error, IndexError)

_READERS: _Messages[Reader] = _Messages(compile_reader)
_WRITERS: _Messages[Writer] = _Messages(compile_writer)
_SLICED_READERS: _Messages[SlicedReader] = _Messages(compile_sliced_reader)
_SLICED_WRITERS: _Messages[SlicedWriter] = _Messages(compile_sliced_writer)


def decode(cls: type[M], version: int, buffer: Buffer, offset: int = 0) -> M:
    """The message at `offset`; bytes behind it are ignored."""
    view = buffer if type(buffer) is memoryview else memoryview(buffer)
    try:
        return _READERS[cls][version](view, offset, len(view))[0]  # type: ignore[no-any-return]
    except _BAD_BYTES as error:
        raise _explained(cls, version, error) from error


def decode_from(cls: type[M], version: int, buffer: Buffer, offset: int = 0) -> tuple[M, int]:
    """The message at `offset`, and the offset behind it."""
    view = buffer if type(buffer) is memoryview else memoryview(buffer)
    try:
        return _READERS[cls][version](view, offset, len(view))
    except _BAD_BYTES as error:
        raise _explained(cls, version, error) from error


def decode_slices(
    cls: type[M], version: int, buffer: Buffer, offset: int = 0
) -> Generator[None, None, tuple[M, int]]:
    """As `decode_from`, in slices."""
    view = buffer if type(buffer) is memoryview else memoryview(buffer)
    message = object.__new__(cls)
    try:
        return (yield from _SLICED_READERS[cls][version](message, view, offset, len(view)))
    except _BAD_BYTES as error:
        problem = _explained(cls, version, error)
    yield from discard(message)
    raise problem


def _explained(cls: type[Message], version: int, error: Exception) -> ProtocolError:
    problem = f": {error}" if isinstance(error, ProtocolError) else " ends too early"
    return ProtocolError(f"{cls.__name__} v{version}{problem}")


def encode_parts(message: Message, version: int) -> list[Records]:
    """The message in one or more parts; large records, and what stands for records in a file, are
    parts of their own, and not copied."""
    out: list[Any] = []
    parts: list[Records] = []
    try:
        _WRITERS[type(message)][version](message, out, parts)
        parts.append(b"".join(out))
    except (struct_error, UnicodeEncodeError) as error:
        name = type(message).__name__
        raise ProtocolError(f"{name} v{version} has a value out of range: {error}") from error
    return parts


def encode_slices(
    message: Message, version: int, parts: list[Records]
) -> Generator[None, None, None]:
    """As `encode_parts`, in slices; what is done is in `parts`."""
    out: list[Any] = []
    try:
        yield from _SLICED_WRITERS[type(message)][version](message, out, parts)
        parts.append(b"".join(out))
    except (struct_error, UnicodeEncodeError) as error:
        name = type(message).__name__
        raise ProtocolError(f"{name} v{version} has a value out of range: {error}") from error


def encode(message: Message, version: int) -> bytes:
    """The message in one piece. Records that are no buffer give their bytes by `read()`."""
    parts: list[Any] = encode_parts(message, version)
    if len(parts) == 1:
        return parts[0]  # type: ignore[no-any-return]
    return b"".join(part.read() if hasattr(part, "read") else part for part in parts)


def encode_versioned(message: Message, version: int) -> bytes:
    """A data message behind its version as int16, as in record keys and values."""
    return version.to_bytes(2, "big") + encode(message, version)


def decode_versioned(cls: type[M], buffer: Buffer, *, clamp: bool = False) -> M:
    """A data message behind its version. `clamp` reads a version newer than ours as our newest, as
    the consumer protocol asks for."""
    if len(buffer) < 2:
        raise ProtocolError(f"{cls.__name__} is too short for its version")
    version: int = unpack_from(">h", buffer)[0]
    if clamp:
        version = min(version, version_range(cls._spec.valid)[1])
    return decode(cls, version, buffer, 2)
