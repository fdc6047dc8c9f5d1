"""Returns the memory that a storm of requests took to the system when the storm is over.

glibc keeps freed blocks for the next allocation: it raises the size from which a block is a mapping
of its own with the blocks that are freed, and returns the heap at its end only. So that size is
fixed here, and free memory inside the heaps is returned when the process has grown by much since
the last time. Other C libraries are left alone.

Large blocks that are needed again and again, for megabytes of history that pass through, are not
to be mappings: the system makes each page of a mapping anew, which costs as much as the read. So
`keep_large_blocks` raises that size for a while.

Goes with `network.receive_buffer`, whose large buffers are mappings from the beginning.
"""

from __future__ import annotations

import ctypes
import logging
import os
from collections.abc import Callable
from io import FileIO

import trio

from . import machine

logger = logging.getLogger("pybroker.broker.resources.memory")

# From this size on a block is a mapping of its own.
MAPPED_BYTES = 256 * 1024
# The free bytes that may stay at the end of the heap.
KEPT_FREE_BYTES = 4 * 1024 * 1024
# The same two while large blocks are kept.
LARGE_MAPPED_BYTES = 8 * 1024 * 1024
LARGE_KEPT_FREE_BYTES = 64 * 1024 * 1024
CHECK_SECONDS = 5.0
# The heaps are looked through when the process is so much larger than after the last time.
GROWTH_BYTES = 16 * 1024 * 1024

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3


def _function(name: str) -> Callable[..., int] | None:
    """A function of the C library, if that is glibc."""
    library = ctypes.CDLL(None)
    return getattr(library, name) if hasattr(library, "gnu_get_libc_version") else None


class _Allocator:
    """The allocator of this process, once it is this module's to configure."""

    __slots__ = ("_mallopt",)

    def __init__(self) -> None:
        self._mallopt: Callable[..., int] | None = None

    def configure(self) -> None:
        self._mallopt = _function("mallopt")
        self.set(MAPPED_BYTES, KEPT_FREE_BYTES)

    def set(self, mapped_bytes: int, kept_free_bytes: int) -> None:
        if self._mallopt is not None:
            self._mallopt(_M_MMAP_THRESHOLD, mapped_bytes)
            self._mallopt(_M_TRIM_THRESHOLD, kept_free_bytes)


_allocator = _Allocator()


def configure_allocator() -> None:
    """For a process that is a broker's own."""
    _allocator.configure()


def keep_large_blocks(*, is_on: bool) -> None:
    """Whether blocks of megabytes are used again instead of being mappings of their own; without
    `configure_allocator` nothing changes."""
    if is_on:
        _allocator.set(LARGE_MAPPED_BYTES, LARGE_KEPT_FREE_BYTES)
    else:
        _allocator.set(MAPPED_BYTES, KEPT_FREE_BYTES)


def give_back_start() -> None:
    """Return what a start has freed: the leftovers of imports."""
    trim = _function("malloc_trim")
    if trim is not None:
        trim(0)


def own_size() -> FileIO:
    """The file in which the system shows the size of this process."""
    return open("/proc/self/statm", "rb", buffering=0)


def resident_bytes(statm: FileIO) -> int:
    """The bytes of this process in memory (Linux, as glibc nearly always is)."""
    return int(os.pread(statm.fileno(), 256, 0).split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def give_back_memory() -> None:
    """Return memory until cancelled; ends at once where the allocator has no such function."""
    trim = _function("malloc_trim")
    if trim is None or machine.PROC is None:
        return
    with own_size() as statm:  # opened now: there may be no descriptor later
        await _give_back(trim, statm)


async def _give_back(trim: Callable[..., int], statm: FileIO) -> None:
    smallest = resident_bytes(statm)
    while True:
        await trio.sleep(CHECK_SECONDS)
        size = resident_bytes(statm)
        if size - smallest >= GROWTH_BYTES:
            await trio.to_thread.run_sync(trim, 0)
            smallest = resident_bytes(statm)
            logger.debug("Gave %d bytes back to the system", size - smallest)
        smallest = min(smallest, size)
