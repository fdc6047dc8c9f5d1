"""Requests that begin and never end cost what has come in, no more, and nothing afterwards."""

from __future__ import annotations

import struct
import time

import pytest

from tests.abuse.beside import Bystander, assert_unharmed
from tests.abuse.storms import (
    MEGABYTE,
    SLACK_MB,
    connections,
    resident_mb,
    send_what_goes,
    settled_mb,
)

ANNOUNCED_BYTES = 90_000_000
BEGINNING = struct.pack(">ihh", ANNOUNCED_BYTES, 0, 9)


@pytest.mark.parametrize(
    ("count", "sent_bytes"), [(800, len(BEGINNING)), (30, 2 * MEGABYTE)], ids=["many", "large"]
)
def test_half_open_requests(shared: Bystander, count: int, sent_bytes: int) -> None:
    pid = shared.broker.pid
    before = resident_mb(pid)
    largest = before

    def abuse() -> None:
        nonlocal largest
        with connections(shared.broker.port, count) as opened:
            left = dict.fromkeys(opened, BEGINNING.ljust(sent_bytes, b"x"))
            end = time.monotonic() + 10
            while left and time.monotonic() < end:
                for connection, data in list(left.items()):
                    left[connection] = data = data[send_what_goes(connection, data) :]
                    if not data:
                        del left[connection]
                largest = max(largest, resident_mb(pid))
                time.sleep(0.01)
            time.sleep(0.5)
            largest = max(largest, resident_mb(pid))

    name = f"{count} half-open requests of {sent_bytes} B"
    assert_unharmed(shared, name, abuse)
    assert largest < before + 2 * count * sent_bytes / MEGABYTE + SLACK_MB
    assert settled_mb(pid, before + SLACK_MB) <= before + SLACK_MB
