"""Files that are on the disk and not in the page cache, as old segments are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pybroker_kafka.broker.network.page_cache import is_cached, read_to_cache
from pybroker_kafka.broker.network.send_queue import SendQueue


def drop_from_cache(path: Path) -> None:
    """As far as the file system does that."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def make_cold(path: Path) -> None:
    """Drop it from the page cache. Skips the test where files stay in memory, or nothing tells."""
    drop_from_cache(path)
    with path.open("rb") as file:
        if is_cached(file.fileno(), 0, 1):
            pytest.skip("this file system, or this system, does not tell what is on the disk")


def read_what_is_cold(queue: SendQueue) -> bool:
    """What a thread does for a queue that waits for the disk; whether it did."""
    cold = queue.cold
    if cold is None:
        return False
    read_to_cache(cold.fileno(), cold.position, len(cold))
    queue.was_read()
    return True
