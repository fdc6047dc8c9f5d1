"""One request of the table, and the values that many of them have."""

from __future__ import annotations

from typing import NamedTuple

from pybroker_kafka.protocol.schema import Message

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
TIMEOUT_MS = 15_000
UNKNOWN_ID = b"\x07" * 16
LONG_NAME = "n" * 250


class Case(NamedTuple):
    """`versions` are the first and the last; `user` asks over the connection that is logged in."""

    name: str
    request: Message
    versions: tuple[int, int] = (0, 1000)
    user: bool = False
