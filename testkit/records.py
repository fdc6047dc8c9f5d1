"""Records as a test sees them."""

from __future__ import annotations

from typing import NamedTuple


class KafkaRecord(NamedTuple):
    """A record in a topic. `timestamp` is in ms; None is no key, and as a value a tombstone."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
