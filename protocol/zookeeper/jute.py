"""Jute, ZooKeeper's wire format, and the records that cross a client connection.

Mirrors `org.apache.jute.BinaryInputArchive`/`BinaryOutputArchive` and `zookeeper.jute`: big-endian
int (4 bytes), long (8), boolean (1); ustring and buffer are an int length and the bytes, -1 for
null; a vector is an int count and its elements, -1 for null.

Rules:
- A record is a NamedTuple whose fields are read and written in order by its registered types.
- Reading raises only `ProtocolError`. Lengths and counts are compared with the remaining bytes
  before memory is allocated. Bytes after a record are left to the caller (a reader returns its
  end).
- Strings must be UTF-8 (Java would put U+FFFD in place of a bad sequence; we refuse it).

Left out: the quorum records (we never talk to other ensemble members).
"""

from collections.abc import Callable, Sequence
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Any, NamedTuple, TypeVar

from ..errors import ProtocolError
from ..primitives import Buffer

_INT = Struct(">i")
_LONG = Struct(">q")
_STAT = Struct(">qqqqiiiqiiq")
_REPLY_HEADER = Struct(">iqi")
_REQUEST_HEADER = Struct(">ii")


Reader = Callable[[Buffer, int], tuple[Any, int]]
Writer = Callable[[bytearray, Any], None]
R = TypeVar("R")


class FieldType(NamedTuple):
    """The reader and the writer of a field, and the fewest bytes that it can take."""

    read: Reader
    write: Writer
    min_size: int


def _read_int(data: Buffer, position: int) -> tuple[int, int]:
    return _INT.unpack_from(data, position)[0], position + 4


def _write_int(out: bytearray, value: int) -> None:
    out += _INT.pack(value)


def _read_long(data: Buffer, position: int) -> tuple[int, int]:
    return _LONG.unpack_from(data, position)[0], position + 8


def _write_long(out: bytearray, value: int) -> None:
    out += _LONG.pack(value)


def _read_boolean(data: Buffer, position: int) -> tuple[bool, int]:
    if position >= len(data):
        raise ProtocolError("jute: boolean past the end")
    return data[position] != 0, position + 1


def _write_boolean(out: bytearray, value: bool) -> None:
    out.append(1 if value else 0)


def _read_buffer(data: Buffer, position: int) -> tuple[bytes | None, int]:
    length = _INT.unpack_from(data, position)[0]
    start = position + 4
    if length < 0:
        if length != -1:
            raise ProtocolError(f"jute: length {length}")
        return None, start
    end = start + length
    if end > len(data):
        raise ProtocolError(f"jute: length {length}, but {len(data) - start} bytes are left")
    return bytes(data[start:end]), end


def _write_buffer(out: bytearray, value: bytes | None) -> None:
    if value is None:
        out += b"\xff\xff\xff\xff"
        return
    out += _INT.pack(len(value))
    out += value


def _read_string(data: Buffer, position: int) -> tuple[str | None, int]:
    raw, end = _read_buffer(data, position)
    if raw is None:
        return None, end
    try:
        return raw.decode(), end
    except UnicodeDecodeError as error:
        raise ProtocolError("jute: a string is not UTF-8") from error


def _write_string(out: bytearray, value: str | None) -> None:
    _write_buffer(out, None if value is None else value.encode())


INT = FieldType(_read_int, _write_int, 4)
LONG = FieldType(_read_long, _write_long, 8)
BOOLEAN = FieldType(_read_boolean, _write_boolean, 1)
BUFFER = FieldType(_read_buffer, _write_buffer, 4)
STRING = FieldType(_read_string, _write_string, 4)


def vector(element: FieldType) -> FieldType:
    """A list of `element`; null is read as None and written from None."""

    def read(data: Buffer, position: int) -> tuple[list[Any] | None, int]:
        count = _INT.unpack_from(data, position)[0]
        position += 4
        if count < 0:
            if count != -1:
                raise ProtocolError(f"jute: count {count}")
            return None, position
        if count * element.min_size > len(data) - position:
            raise ProtocolError(f"jute: count {count}, but {len(data) - position} bytes are left")
        items = []
        for _ in range(count):
            item, position = element.read(data, position)
            items.append(item)
        return items, position

    def write(out: bytearray, value: Sequence[Any] | None) -> None:
        if value is None:
            out += b"\xff\xff\xff\xff"
            return
        out += _INT.pack(len(value))
        for item in value:
            element.write(out, item)

    return FieldType(read, write, 4)


_RECORDS: dict[type, FieldType] = {}


def record(*fields: FieldType) -> Callable[[type[R]], type[R]]:
    """Register a NamedTuple as a jute record with these field types, in order."""

    def register(cls: type[R]) -> type[R]:
        readers = tuple(field.read for field in fields)
        writers = tuple(field.write for field in fields)

        def read(data: Buffer, position: int) -> tuple[R, int]:
            values = []
            for reader in readers:
                value, position = reader(data, position)
                values.append(value)
            return cls(*values), position

        def write(out: bytearray, value: Any) -> None:
            for writer, item in zip(writers, value, strict=True):
                writer(out, item)

        _RECORDS[cls] = FieldType(read, write, sum(field.min_size for field in fields))
        return cls

    return register


def type_of(cls: type) -> FieldType:
    """The field type of a registered record, to nest it in another."""
    return _RECORDS[cls]


def record_types() -> tuple[type, ...]:
    return tuple(_RECORDS)


def decode(cls: type[R], data: Buffer, position: int = 0) -> R:
    return decode_from(cls, data, position)[0]


def decode_from(cls: type[R], data: Buffer, position: int) -> tuple[R, int]:
    """Read one record and return it with the position behind it."""
    try:
        return _RECORDS[cls].read(data, position)
    except StructError as error:
        raise ProtocolError(f"jute: {cls.__name__} is cut short") from error


def append(out: bytearray, value: object) -> None:
    _RECORDS[type(value)].write(out, value)


def encode(value: object) -> bytes:
    out = bytearray()
    append(out, value)
    return bytes(out)


def frame(*records: object) -> bytes:
    """The records one after the other, behind their int32 size."""
    out = bytearray(4)
    for value in records:
        append(out, value)
    _INT.pack_into(out, 0, len(out) - 4)
    return bytes(out)


def read_request_header(data: Buffer) -> tuple[int, int]:
    """(xid, operation) at the start of a request frame; the body follows at byte 8."""
    if len(data) < 8:
        raise ProtocolError(f"a request of {len(data)} bytes has no header")
    xid, operation = _REQUEST_HEADER.unpack_from(data, 0)
    return xid, operation


def reply_frame(xid: int, zxid: int, error: int, *body: object) -> bytes:
    """A reply in its wire form, size prefix included."""
    out = bytearray(4)
    out += _REPLY_HEADER.pack(xid, zxid, error)
    for value in body:
        append(out, value)
    _INT.pack_into(out, 0, len(out) - 4)
    return bytes(out)


# Data


@record(STRING, STRING)
class Id(NamedTuple):
    scheme: str
    id: str


@record(INT, type_of(Id))
class ACL(NamedTuple):
    perms: int
    id: Id


class Stat(NamedTuple):
    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    data_length: int
    num_children: int
    pzxid: int


def _read_stat(data: Buffer, position: int) -> tuple[Stat, int]:
    return Stat._make(_STAT.unpack_from(data, position)), position + _STAT.size


def _write_stat(out: bytearray, value: Stat) -> None:
    out += _STAT.pack(*value)


_RECORDS[Stat] = FieldType(_read_stat, _write_stat, _STAT.size)

_ACLS = vector(type_of(ACL))
_STRINGS = vector(STRING)


@record(STRING, STRING)
class ClientInfo(NamedTuple):
    auth_scheme: str
    user: str


# Session


@record(INT, LONG, INT, LONG, BUFFER)
class ConnectRequest(NamedTuple):
    """Without `readOnly`, which clients before 3.4 do not send; see `read_connect_request`."""

    protocol_version: int
    last_zxid_seen: int
    timeout_ms: int
    session_id: int
    password: bytes | None


@record(INT, INT, LONG, BUFFER)
class ConnectResponse(NamedTuple):
    """Without `readOnly`, which is one more byte if the client sent its own."""

    protocol_version: int
    timeout_ms: int
    session_id: int
    password: bytes


def read_connect_request(data: Buffer) -> tuple[ConnectRequest, bool | None]:
    """The connect request and its read-only flag, None if the client did not send one."""
    request, position = decode_from(ConnectRequest, data, 0)
    if position == len(data):
        return request, None
    return request, _read_boolean(data, position)[0]


def connect_response_frame(response: ConnectResponse, read_only: bool | None) -> bytes:
    """`read_only` is None for a client that did not send its own flag."""
    out = bytearray(4)
    append(out, response)
    if read_only is not None:
        out.append(read_only)
    _INT.pack_into(out, 0, len(out) - 4)
    return bytes(out)


@record(INT, STRING, BUFFER)
class AuthPacket(NamedTuple):
    type: int
    scheme: str | None
    auth: bytes | None


@record(BUFFER)
class SaslToken(NamedTuple):
    """`GetSASLRequest` and `SetSASLResponse`."""

    token: bytes | None


@record(LONG, _STRINGS, _STRINGS, _STRINGS)
class SetWatches(NamedTuple):
    relative_zxid: int
    data_watches: list[str]
    exist_watches: list[str]
    child_watches: list[str]


@record(LONG, _STRINGS, _STRINGS, _STRINGS, _STRINGS, _STRINGS)
class SetWatches2(NamedTuple):
    relative_zxid: int
    data_watches: list[str]
    exist_watches: list[str]
    child_watches: list[str]
    persistent_watches: list[str]
    persistent_recursive_watches: list[str]


@record(INT, INT, STRING)
class WatcherEvent(NamedTuple):
    type: int
    state: int
    path: str


# Requests


@record(STRING, BUFFER, _ACLS, INT)
class CreateRequest(NamedTuple):
    path: str
    data: bytes | None
    acl: list[ACL] | None
    flags: int


@record(STRING, BUFFER, _ACLS, INT, LONG)
class CreateTTLRequest(NamedTuple):
    path: str
    data: bytes | None
    acl: list[ACL] | None
    flags: int
    ttl_ms: int


@record(STRING, INT)
class DeleteRequest(NamedTuple):
    path: str
    version: int


@record(STRING, BUFFER, INT)
class SetDataRequest(NamedTuple):
    path: str
    data: bytes | None
    version: int


@record(STRING, _ACLS, INT)
class SetACLRequest(NamedTuple):
    path: str
    acl: list[ACL] | None
    version: int


@record(STRING, INT)
class CheckVersionRequest(NamedTuple):
    path: str
    version: int


@record(STRING, STRING, STRING, LONG)
class ReconfigRequest(NamedTuple):
    joining_servers: str | None
    leaving_servers: str | None
    new_members: str | None
    config_id: int


@record(STRING)
class PathRequest(NamedTuple):
    """GetACLRequest, SyncRequest, GetAllChildrenNumberRequest and GetEphemeralsRequest."""

    path: str


@record(STRING, BOOLEAN)
class PathWatchRequest(NamedTuple):
    """ExistsRequest, GetDataRequest, GetChildrenRequest and GetChildren2Request."""

    path: str
    watch: bool


@record(STRING, INT)
class WatchRequest(NamedTuple):
    """AddWatchRequest (`kind` is a mode), CheckWatchesRequest and RemoveWatchesRequest (a type)."""

    path: str
    kind: int


@record(INT, BOOLEAN, INT)
class MultiHeader(NamedTuple):
    type: int
    done: bool
    error: int


# Responses


@record(STRING)
class PathResponse(NamedTuple):
    """CreateResponse and SyncResponse."""

    path: str


@record(STRING, type_of(Stat))
class Create2Response(NamedTuple):
    path: str
    stat: Stat


@record(type_of(Stat))
class StatResponse(NamedTuple):
    """ExistsResponse, SetDataResponse and SetACLResponse."""

    stat: Stat


@record(BUFFER, type_of(Stat))
class GetDataResponse(NamedTuple):
    data: bytes | None
    stat: Stat


@record(_ACLS, type_of(Stat))
class GetACLResponse(NamedTuple):
    acl: list[ACL]
    stat: Stat


@record(_STRINGS)
class PathsResponse(NamedTuple):
    """GetChildrenResponse and GetEphemeralsResponse."""

    paths: list[str]


@record(_STRINGS, type_of(Stat))
class GetChildren2Response(NamedTuple):
    children: list[str]
    stat: Stat


@record(INT)
class IntResponse(NamedTuple):
    """GetAllChildrenNumberResponse and ErrorResponse."""

    value: int


@record(vector(type_of(ClientInfo)))
class WhoAmIResponse(NamedTuple):
    client_info: list[ClientInfo]
