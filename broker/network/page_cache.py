"""The page cache: check whether it holds a range of a file, and load the range.

Job: `is_cached` asks the kernel about a range without a wait; `read_to_cache`, for a thread, waits
for it. No byte is copied into this process. Invariant: where the system or the file system cannot
report it, all counts as cached; that is no error.

Goes beyond Kafka, where the sender of a file waits for the disk.
"""

from __future__ import annotations

import os
from typing import Final

from ..resources import machine

# A probe in each of these, and in the last byte: the kernel reads and drops more than a page.
PROBE_BYTES: Final = 256 * 1024
_probed: Final = bytearray(1)


def is_cached(fileno: int, position: int, size: int) -> bool:
    """Whether a range of a file can be sent without a wait for the disk, by samples of it."""
    flags = machine.RWF_NOWAIT
    if not flags:
        return True
    end = position + size
    target = [_probed]
    try:
        while position < end:
            os.preadv(fileno, target, position, flags)
            position += PROBE_BYTES
        os.preadv(fileno, target, end - 1, flags)
    except BlockingIOError:
        return False
    except OSError:
        pass  # a file system without the call, or a container that forbids it
    return True


def read_to_cache(fileno: int, position: int, size: int) -> None:
    """Have the kernel read a range. Blocks. OSError if the disk is broken, or no descriptor left.

    `sendfile` to the null device waits for the whole range and copies nothing. With `posix_fadvise`
    the kernel would read page by page: three times the CPU, a third of the rate.
    """
    end = position + size
    sink = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    try:
        while position < end:
            read = os.sendfile(sink, fileno, position, end - position)
            if not read:
                return  # the file is shorter now: sending it will fail
            position += read
    finally:
        os.close(sink)
