"""The passwords with which clients resume their sessions.

A password is computed from the session's id, so that only a secret must be stored. The highest byte
of an id is the number of the server that made the session, 0 for one alone: its sessions have
passwords of the secret in its directory. Sessions of an ensemble have passwords that each member
can compute: ZooKeeper's own in an open one, where every client can compute them, too; in a closed
one those of the credentials. So a session outlives the growth of one server into an ensemble, whose
members have copies of its directory, and the way back.
"""

import hmac
from collections.abc import Callable
from functools import partial
from hashlib import blake2b

PASSWORD_SIZE = 16

_SUPER_SECRET = 0xB3415C00
_MULTIPLIER = 0x5DEECE66D
_MASK_48_BITS = (1 << 48) - 1
_MASK_64_BITS = (1 << 64) - 1

PasswordOf = Callable[[int], bytes]


def passwords_of(lone_secret: bytes | None, credentials: bytes | None) -> PasswordOf:
    """The password of each session, by its id. `lone_secret`: that of one server alone, None if an
    ensemble has a member 0; `credentials`: those of a closed ensemble.
    """
    of_members = member_password
    if credentials is not None:
        secret = hmac.digest(credentials, b"passwords of sessions", "sha256")
        of_members = partial(session_password, secret)
    if lone_secret is None:
        return of_members
    of_one_alone = partial(session_password, lone_secret)

    def password_of(session_id: int) -> bytes:
        return (of_members if session_id >> 56 else of_one_alone)(session_id)

    return password_of


def session_password(secret: bytes, session_id: int) -> bytes:
    """A keyed hash of the id."""
    raw = session_id.to_bytes(8, "big", signed=True)
    return blake2b(raw, key=secret, digest_size=PASSWORD_SIZE).digest()


def member_password(session_id: int) -> bytes:
    """ZooKeeper's: bytes of Java's `Random` with a fixed secret."""
    seed = (((session_id ^ _SUPER_SECRET) & _MASK_64_BITS) ^ _MULTIPLIER) & _MASK_48_BITS
    out = bytearray()
    for _ in range(PASSWORD_SIZE // 4):
        seed = (seed * _MULTIPLIER + 0xB) & _MASK_48_BITS
        out += (seed >> 16).to_bytes(4, "little")
    return bytes(out)
