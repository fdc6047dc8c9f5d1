"""What of a file is in the page cache, and how it gets there.

Job: `is_cached` asks the kernel about a range without a wait; `read_to_cache`, for a thread, waits
for it. Nothing of it is copied into this process.
Invariant: where the system or the file system cannot tell, all counts as cached; that is no error.

Goes beyond Kafka, which lets the disk be waited for by whoever sends a file.
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

    It is sent to nowhere, which waits for all of it and copies nothing. To ask for it beforehand
    (`posix_fadvise`) has the kernel read page by page: three times the CPU, a third of the rate.
    """
    end = position + size
    sink = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    try:
        while position < end:
            read = os.sendfile(sink, fileno, position, end - position)
            if not read:
                return  # the file is shorter now: sending it will tell
            position += read
    finally:
        os.close(sink)
