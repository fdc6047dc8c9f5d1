"""Topic ids and their like: 16 raw bytes on the wire, 22 characters of text elsewhere.

Mirrors: org.apache.kafka.common.Uuid. Random bytes come from the caller.
"""

from __future__ import annotations

import base64
import binascii

from .schema import ZERO_UUID

__all__ = ["ZERO_UUID", "new_uuid", "uuid_from_text", "uuid_to_text"]

# Kafka keeps the ids 0 and 1 to itself: "none", and the topic of the KRaft metadata log.
_RESERVED = frozenset((ZERO_UUID, bytes(15) + b"\x01"))


def uuid_to_text(value: bytes) -> str:
    """URL-safe base64 of the 16 bytes, without padding."""
    if len(value) != 16:
        raise ValueError(f"a UUID has 16 bytes, not {len(value)}")
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode("ascii")


def uuid_from_text(text: str) -> bytes:
    """The inverse of `uuid_to_text`; ValueError if the text is not a UUID."""
    try:
        value = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"not a UUID in base64: {text!r}") from error
    if len(value) != 16:
        raise ValueError(f"not 16 bytes in base64: {text!r}")
    return value


def new_uuid(random_bytes: bytes) -> bytes | None:
    """A version 4 UUID of 16 random bytes; None if Kafka would draw again.

    Besides the reserved ids these are the ones whose text begins with a dash: it looks like an
    option on a command line.
    """
    value = bytearray(random_bytes)
    value[6] = value[6] & 0x0F | 0x40
    value[8] = value[8] & 0x3F | 0x80
    made = bytes(value)
    if made in _RESERVED or uuid_to_text(made).startswith("-"):
        return None
    return made
