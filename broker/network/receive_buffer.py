"""Receive buffers: their growth, and the limit of their sum over a broker.

A buffer begins small and doubles when it is full, so it is at most twice as large as the received
data. Large buffers are mappings of their own: they need no clearing, and their memory returns to
the system with the last reference, independently of the allocator.

`ReceiveMemory` bounds the sum. A connection whose buffer may not grow is not read until others have
released theirs (see `memory_shortage`); each connection has a guaranteed size that is enough for
small requests, which therefore never wait.

Replaces Kafka's `queued.max.request.bytes`, which is unlimited by default. If that key is set it
has Kafka's meaning (`limits.MemoryPool`), and there is no other limit.
"""

from __future__ import annotations

import mmap
from typing import Final

from ...protocol.invariants import BrokenInvariant

FIRST_BUFFER_BYTES: Final = 2 * 1024
# A buffer grows up to this size independently of others, as soon as a receive has filled it.
COMMON_BUFFER_BYTES: Final = 16 * 1024
# A larger one is released if no large request has come since the last sweep.
KEPT_BUFFER_BYTES: Final = 2 * 1024 * 1024
MAPPED_BYTES: Final = 128 * 1024
ROUNDED_TO_BYTES: Final = 16 * 1024
UNLIMITED_BYTES: Final = 2**63 - 1
# The default limit of all buffers together, but at least two of the largest requests.
DEFAULT_MEMORY_BYTES: Final = 256 * 1024 * 1024

ReceiveBuffer = bytearray | mmap.mmap


def new_buffer(size: int) -> ReceiveBuffer:
    if size < MAPPED_BYTES:
        return bytearray(size)
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def grown_size(capacity: int, needed: int) -> int:
    """The size of the buffer that replaces a full one, for a frame of `needed` bytes."""
    return min(2 * capacity, -(-needed // ROUNDED_TO_BYTES) * ROUNDED_TO_BYTES)


class ReceiveMemory:
    """The bytes of all receive buffers of a broker."""

    __slots__ = ("is_short", "limit", "used")

    def __init__(self, limit: int = UNLIMITED_BYTES) -> None:
        self.limit = limit
        self.used = 0
        self.is_short = False  # a connection waits

    def try_take(self, size: int, instead_of: int) -> bool:
        """Whether a buffer of `size` may take the place of one that is smaller."""
        more = size - instead_of
        if size > COMMON_BUFFER_BYTES and self.used + more > self.limit:
            self.is_short = True
            return False
        self.used += more
        return True

    def give(self, amount: int) -> None:
        self.used -= amount
        if self.used < 0:
            raise BrokenInvariant(f"{amount} bytes of receive memory are given back, {self.used}")
