"""Messages of the election port: the first one of a connection, and notifications.

Mirrors `QuorumCnxManager.InitialMessage` and the messages of `FastLeaderElection`. A connection
begins with a protocol version (before 3.5: with the server's id), the server's id and its election
addresses; behind it, each message has its size in front. Notifications of four ages are read: 28
bytes (no epoch of the leader), 40 (no version), version 1, and version 2 with the configuration,
which is what we send.

Invariant: reading raises only ProtocolError.
"""

from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from ...protocol.errors import ProtocolError
from ...protocol.primitives import Buffer
from .packets import epoch_of

ONE_ADDRESS = -65536
MANY_ADDRESSES = -65535
MAX_ADDRESS_BYTES = 2048
MAX_MESSAGE_BYTES = 512 * 1024
NOTIFICATION_VERSION = 2
OBSERVER_ID = (1 << 63) - 1  # an observer without an id of its own

_LONG = Struct(">q")
_INT = Struct(">i")
_FIRST = Struct(">qqi")  # protocol version, server id, bytes of the addresses
_OLDEST = Struct(">iqqq")  # state, leader, zxid, round
_OLD = Struct(">iqqqq")  # and the leader's epoch
_NEW = Struct(">iqqqqi")  # and the version
_NEWEST = Struct(">iqqqqii")  # and the length of the configuration


class PeerState(IntEnum):
    LOOKING = 0
    FOLLOWING = 1
    LEADING = 2
    OBSERVING = 3


class Notification(NamedTuple):
    """A member's vote, and its state when it sent it."""

    state: PeerState
    leader: int
    zxid: int
    round: int
    """The election's number (`electionEpoch`)."""
    peer_epoch: int
    """The epoch of the leader voted for."""
    version: int = NOTIFICATION_VERSION
    config: bytes = b""


def encode_first_message(server_id: int, address: str) -> bytes:
    raw = address.encode()
    return _FIRST.pack(ONE_ADDRESS, server_id, len(raw)) + raw


def try_first_message(data: Buffer) -> tuple[int, list[str], int] | None:
    """The sender's id, its addresses, and the end of the message; None while bytes are missing."""
    if len(data) < _LONG.size:
        return None
    (version,) = _LONG.unpack_from(data)
    if version >= 0:
        return version, [], _LONG.size
    if version not in (ONE_ADDRESS, MANY_ADDRESSES):
        raise ProtocolError(f"an election connection of protocol {version}")
    if len(data) < _FIRST.size:
        return None
    _, server_id, length = _FIRST.unpack_from(data)
    if not 0 < length <= MAX_ADDRESS_BYTES:
        raise ProtocolError(f"an election address of {length} bytes")
    end = _FIRST.size + length
    if len(data) < end:
        return None
    try:
        addresses = bytes(data[_FIRST.size : end]).decode().split("|")
    except UnicodeDecodeError as error:
        raise ProtocolError("an election address is not UTF-8") from error
    return server_id, addresses, end


def encode_notification(notification: Notification) -> bytes:
    """With its size in front."""
    state, leader, zxid, number, peer_epoch, _, config = notification
    body = _NEWEST.pack(state, leader, zxid, number, peer_epoch, NOTIFICATION_VERSION, len(config))
    return _INT.pack(len(body) + len(config)) + body + config


def try_message(data: Buffer, position: int) -> tuple[bytes, int] | None:
    """The message at `position` without its size, and its end; None while bytes are missing."""
    if len(data) - position < 4:
        return None
    (length,) = _INT.unpack_from(data, position)
    if not 0 < length <= MAX_MESSAGE_BYTES:
        raise ProtocolError(f"an election message of {length} bytes")
    start = position + 4
    if len(data) < start + length:
        return None
    return bytes(data[start : start + length]), start + length


def decode_notification(data: Buffer) -> Notification:
    if len(data) < _OLDEST.size:
        raise ProtocolError(f"a notification of {len(data)} bytes")
    state, leader, zxid, number = _OLDEST.unpack_from(data)
    try:
        state = PeerState(state)
    except ValueError as error:
        raise ProtocolError(f"a notification of state {state}") from error
    if len(data) == _OLDEST.size:
        return Notification(state, leader, zxid, number, epoch_of(zxid), 0)
    if len(data) < _OLD.size:
        raise ProtocolError(f"a notification of {len(data)} bytes")
    peer_epoch = _OLD.unpack_from(data)[4]
    if len(data) == _OLD.size:
        return Notification(state, leader, zxid, number, peer_epoch, 0)
    if len(data) < _NEW.size:
        raise ProtocolError(f"a notification of {len(data)} bytes")
    version = _NEW.unpack_from(data)[5]
    config = b""
    if version > 1:
        if len(data) < _NEWEST.size:
            raise ProtocolError(f"a notification of {len(data)} bytes")
        length = _NEWEST.unpack_from(data)[6]
        if not 0 <= length <= len(data) - _NEWEST.size:
            raise ProtocolError(f"a notification with {length} bytes of configuration")
        config = bytes(data[_NEWEST.size : _NEWEST.size + length])
    return Notification(state, leader, zxid, number, peer_epoch, version, config)
