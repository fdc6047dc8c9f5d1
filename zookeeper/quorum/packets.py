"""Packets of the quorum port, between a leader and its learners.

Mirrors `QuorumPacket`, `LearnerInfo` and the packet types of `Leader`. The stream has packets one
after the other, without a size in front of them, and the bytes of a snapshot behind a SNAP, so a
reader has to try: `PacketReader` keeps the bytes that are no whole packet yet.

Invariant: reading raises only ProtocolError; no packet is larger than MAX_DATA_BYTES.

Leaves out: COMMITANDACTIVATE and INFORMANDACTIVATE (dynamic reconfiguration).
"""

from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from ...protocol.errors import ProtocolError
from ...protocol.primitives import Buffer
from ...protocol.zookeeper import jute
from ...protocol.zookeeper.jute import BUFFER, INT, LONG, Id, record, type_of, vector

PROTOCOL_VERSION = 0x10000
MAX_DATA_BYTES = 16 * 1024 * 1024
MAX_IDENTITIES = 1024

_HEAD = Struct(">iqi")  # type, zxid, length of the data
_INT = Struct(">i")
_TOUCH = Struct(">qi")
_REVALIDATION = Struct(">qi")
_VALIDITY = Struct(">q?")
_FORWARDED = Struct(">qii")
_INFO = Struct(">q")


class PacketType(IntEnum):
    REQUEST = 1
    PROPOSAL = 2
    ACK = 3
    COMMIT = 4
    PING = 5
    REVALIDATE = 6
    SYNC = 7
    INFORM = 8
    NEWLEADER = 10
    FOLLOWERINFO = 11
    UPTODATE = 12
    DIFF = 13
    TRUNC = 14
    SNAP = 15
    OBSERVERINFO = 16
    LEADERINFO = 17
    ACKEPOCH = 18


@record(INT, LONG, BUFFER, vector(type_of(Id)))
class QuorumPacket(NamedTuple):
    type: int
    zxid: int
    data: bytes | None = None
    identities: list[Id] | None = None


@record(LONG, INT, LONG)
class LearnerInfo(NamedTuple):
    server_id: int
    protocol_version: int
    config_version: int


class ForwardedRequest(NamedTuple):
    """A client's request that a learner passes on to its leader."""

    session_id: int
    cxid: int
    op: int
    body: bytes
    identities: list[Id]


def epoch_of(zxid: int) -> int:
    return zxid >> 32


def first_zxid(epoch: int) -> int:
    """The zxid of an epoch's NEWLEADER: no transaction has it."""
    return epoch << 32


def forwarded_packet(request: ForwardedRequest) -> QuorumPacket:
    data = _FORWARDED.pack(request.session_id, request.cxid, request.op) + request.body
    return QuorumPacket(PacketType.REQUEST, -1, data, list(request.identities))


def read_forwarded(packet: QuorumPacket) -> ForwardedRequest:
    data = packet.data or b""
    if len(data) < _FORWARDED.size:
        raise ProtocolError(f"a forwarded request of {len(data)} bytes")
    session_id, cxid, op = _FORWARDED.unpack_from(data)
    identities = list(packet.identities or ())
    return ForwardedRequest(session_id, cxid, op, data[_FORWARDED.size :], identities)


def touches_packet(zxid: int, timeouts_ms: dict[int, int]) -> QuorumPacket:
    """A learner's answer to a PING: the sessions that its clients used, and their time-outs."""
    data = b"".join(_TOUCH.pack(session, timeout) for session, timeout in timeouts_ms.items())
    return QuorumPacket(PacketType.PING, zxid, data)


def read_touches(packet: QuorumPacket) -> list[tuple[int, int]]:
    data = packet.data or b""
    if len(data) % _TOUCH.size:
        raise ProtocolError(f"touched sessions in {len(data)} bytes")
    return [(session, timeout) for session, timeout in _TOUCH.iter_unpack(data)]


def revalidation(session_id: int, timeout_ms: int) -> QuorumPacket:
    return QuorumPacket(PacketType.REVALIDATE, -1, _REVALIDATION.pack(session_id, timeout_ms))


def read_revalidation(packet: QuorumPacket) -> tuple[int, int]:
    if len(packet.data or b"") != _REVALIDATION.size:
        raise ProtocolError("a REVALIDATE of another size")
    session_id, timeout_ms = _REVALIDATION.unpack(packet.data or b"")
    return session_id, timeout_ms


def validity(session_id: int, is_valid: bool) -> QuorumPacket:
    return QuorumPacket(PacketType.REVALIDATE, -1, _VALIDITY.pack(session_id, is_valid))


def read_validity(packet: QuorumPacket) -> tuple[int, bool]:
    if len(packet.data or b"") != _VALIDITY.size:
        raise ProtocolError("an answer to REVALIDATE of another size")
    session_id, is_valid = _VALIDITY.unpack(packet.data or b"")
    return session_id, is_valid


def read_learner_info(packet: QuorumPacket) -> LearnerInfo:
    """The server behind FOLLOWERINFO or OBSERVERINFO; older releases send its id alone."""
    data = packet.data or b""
    if len(data) < _INFO.size:
        raise ProtocolError(f"a learner's introduction of {len(data)} bytes")
    if len(data) < 20:
        return LearnerInfo(_INFO.unpack_from(data)[0], 0, 0)
    return jute.decode(LearnerInfo, data)


def epoch_data(epoch: int) -> bytes:
    """The epoch in an ACKEPOCH, and the protocol version in a LEADERINFO."""
    return _INT.pack(epoch)


def read_epoch_data(packet: QuorumPacket) -> int:
    if len(packet.data or b"") < 4:
        raise ProtocolError(f"{PacketType(packet.type).name} without its number")
    number: int = _INT.unpack_from(packet.data or b"")[0]
    return number


def try_packet(data: Buffer, position: int) -> tuple[QuorumPacket, int] | None:
    """The packet at `position` and its end; None as long as bytes are missing."""
    size = len(data)
    if size - position < _HEAD.size:
        return None
    _, _, length = _HEAD.unpack_from(data, position)
    if length > MAX_DATA_BYTES or length < -1:
        raise ProtocolError(f"a quorum packet with {length} bytes of data")
    cursor = position + _HEAD.size + max(length, 0)
    if size - cursor < 4:
        return None
    (count,) = _INT.unpack_from(data, cursor)
    if count > MAX_IDENTITIES or count < -1:
        raise ProtocolError(f"a quorum packet with {count} identities")
    cursor += 4
    for _ in range(2 * max(count, 0)):
        if size - cursor < 4:
            return None
        (text,) = _INT.unpack_from(data, cursor)
        if text > MAX_DATA_BYTES or text < -1:
            raise ProtocolError(f"an identity of {text} bytes")
        cursor += 4 + max(text, 0)
    if cursor > size:
        return None
    return jute.decode_from(QuorumPacket, data, position)


def encode_packet(packet: QuorumPacket) -> bytes:
    return jute.encode(packet)


class PacketReader:
    """Packets out of a stream of bytes."""

    __slots__ = ("_buffer", "_start")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._start = 0

    def feed(self, data: bytes) -> None:
        if self._start:
            del self._buffer[: self._start]
            self._start = 0
        self._buffer += data

    def next(self) -> QuorumPacket | None:
        found = try_packet(self._buffer, self._start)
        if found is None:
            return None
        packet, self._start = found
        return packet

    def take_rest(self) -> bytes:
        """The bytes behind the last packet: those of a snapshot."""
        rest = bytes(self._buffer[self._start :])
        self._buffer.clear()
        self._start = 0
        return rest
