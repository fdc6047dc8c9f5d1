"""What is no request: other protocols, impossible sizes, random bodies under valid headers.

Each costs its sender the connection and the log a line; the broker goes on and so do the others.
"""

from __future__ import annotations

import random
import socket
import struct
import time
from collections.abc import Iterator

from pybroker_kafka.protocol.api import ApiKey
from tests.abuse.beside import Bystander, assert_unharmed
from tests.abuse.storms import resident_mb, send_what_goes, settled_mb
from tests.wire.test_advertised import SERVED

SECONDS = 2.0
BATCH = 50
SLACK_MB = 30
# What these mean to the broker is asked on purpose in the tests of control requests.
NOT_GARBLED = {ApiKey.CONTROLLED_SHUTDOWN, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA}

GREETINGS = [
    b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"SSH-2.0-OpenSSH_9.2\r\n",
    b"\0" * 4096,
    b"\xff" * 4096,
    struct.pack(">i", -5) + b"negative",
    struct.pack(">i", 2**31 - 1) + b"huge",
    struct.pack(">i", 3) + b"abc",
]


def garbage(rng: random.Random) -> bytes:
    kind = rng.random()
    if kind < 0.2:
        return rng.choice(GREETINGS)
    if kind < 0.4:
        return rng.randbytes(rng.choice([1, 5, 100, 5_000]))
    key = rng.choice([key for key in SERVED if key not in NOT_GARBLED])
    body = rng.randbytes(rng.choice([0, 1, 8, 60, 2_000]))
    head = struct.pack(">hhih", key, rng.randint(0, SERVED[key] + 1), 1, 4) + b"junk"
    return struct.pack(">i", len(head) + len(body)) + head + body


def senders(port: int, rng: random.Random) -> Iterator[socket.socket]:
    for _ in range(BATCH):
        connection = socket.create_connection(("127.0.0.1", port), 10)
        send_what_goes(connection, garbage(rng))
        yield connection


def test_garbage(shared: Bystander) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    pid = shared.broker.pid
    before = resident_mb(pid)

    def abuse() -> None:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            for connection in list(senders(shared.broker.port, rng)):
                connection.close()

    assert_unharmed(shared, "garbage of all kinds", abuse)
    assert shared.complaints() == []
    assert settled_mb(pid, before + SLACK_MB) <= before + SLACK_MB
