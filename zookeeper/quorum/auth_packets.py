"""Packets of a login between two members, on the quorum and the election port.

Mirrors `QuorumAuth` and `QuorumAuthPacket`. The number in front of each tells it from what else a
connection may begin with.

Invariant: reading raises only ProtocolError; no token is larger than DIGEST-MD5's.
"""

from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from ...protocol.errors import ProtocolError
from ...protocol.primitives import Buffer
from ...protocol.sasl.digest_md5 import MAX_TOKEN_BYTES

# Java writes it as the negative of a number that is one already.
MAGIC = (1 << 64) - 0xA0DBCAFECAFE1234
# Names of every ensemble, in DIGEST-MD5.
SERVICE, SERVER_NAME = "zookeeper-quorum", "zk-quorum-sasl-md5"

_MAGIC = Struct(">q")
_HEAD = Struct(">qii")  # the magic number, the status, the length of the token


class AuthStatus(IntEnum):
    IN_PROGRESS = 0
    SUCCESS = 1
    ERROR = -1


class AuthPacket(NamedTuple):
    status: AuthStatus
    token: bytes


def encode_auth(status: AuthStatus, token: bytes) -> bytes:
    return _HEAD.pack(MAGIC, status, len(token)) + token


def begins_login(data: Buffer) -> bool | None:
    """Whether a connection begins with a login; None while bytes are missing."""
    if len(data) < _MAGIC.size:
        return None
    return bool(_MAGIC.unpack_from(data)[0] == MAGIC)


def try_auth(data: Buffer) -> tuple[AuthPacket, int] | None:
    """A packet and its end; None while bytes are missing."""
    if len(data) < _HEAD.size:
        return None
    magic, status, length = _HEAD.unpack_from(data)
    if magic != MAGIC:
        raise ProtocolError("no packet of a login")
    if not -1 <= length <= MAX_TOKEN_BYTES:
        raise ProtocolError(f"a token of {length} bytes")
    end = _HEAD.size + max(length, 0)
    if len(data) < end:
        return None
    try:
        return AuthPacket(AuthStatus(status), bytes(data[_HEAD.size : end])), end
    except ValueError:
        raise ProtocolError(f"a login of status {status}") from None
