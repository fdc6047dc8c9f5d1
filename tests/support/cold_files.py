"""Files that are on the disk and not in the page cache, as old segments are.

A question to the kernel whether a page is cached (RWF_NOWAIT) also starts to read it, and a fast
disk answers in time: now and then a file that was just dropped counts as cached. A test that needs
a cold range takes `cache_that_holds_nothing`; the kernel's own answer is asked for many times.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pybroker_kafka.broker.network import cold_reads, send_queue
from pybroker_kafka.broker.network.page_cache import read_to_cache
from pybroker_kafka.broker.network.send_queue import SendQueue


def drop_from_cache(path: Path) -> None:
    """As far as the file system does that."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


Answer = Callable[[int], bool]  # whether the first byte of an open file is on the disk


def is_ever_cold(path: Path, is_cold: Answer) -> bool:
    """Whether one of many answers about a file that was just dropped is that it is on the disk."""
    for _ in range(100):
        drop_from_cache(path)
        with path.open("rb") as file:
            if is_cold(file.fileno()):
                return True
    return False


def kernel_says_cold(fileno: int) -> bool:
    """False where files stay in memory, or the system does not tell."""
    try:
        os.preadv(fileno, [bytearray(1)], 0, getattr(os, "RWF_NOWAIT", 0))
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def cache_that_holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """To the queues, a range is on the disk until it was read as a whole."""
    read: list[tuple[int, int]] = []

    def is_there(_fileno: int, position: int, size: int) -> bool:
        return any(start <= position and position + size <= end for start, end in read)

    def read_it(fileno: int, position: int, size: int) -> None:
        read_to_cache(fileno, position, size)
        read.append((position, position + size))

    monkeypatch.setattr(send_queue, "is_cached", is_there)
    monkeypatch.setattr(cold_reads, "read_to_cache", read_it)


def read_what_is_cold(queue: SendQueue) -> bool:
    """What a thread does for a queue that waits for the disk; whether it did."""
    cold = queue.cold
    if cold is None:
        return False
    read_to_cache(cold.fileno(), cold.position, len(cold))
    queue.was_read()
    return True
