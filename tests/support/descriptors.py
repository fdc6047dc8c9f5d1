"""No file descriptor is left: for a while in this process, or from the start in another one."""

from __future__ import annotations

import contextlib
import gc
import os
import resource
from collections.abc import Iterator, Sequence


@contextlib.contextmanager
def no_descriptors(left: int = 0) -> Iterator[None]:
    """Only `left` more files can be opened in this process; whoever closes one can open another."""
    gc.collect()  # what closes itself in the meantime would be left, too
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    fillers: list[int] = []
    while not fillers or fillers[-1] <= highest:
        fillers.append(os.open(os.devnull, os.O_RDONLY))
    resource.setrlimit(resource.RLIMIT_NOFILE, (fillers[-1] + 1 + left, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for filler in fillers:
            os.close(filler)


def limited(program: Sequence[str], soft: int, hard: int) -> list[str]:
    """The program, started with these limits of open files."""
    script = f'ulimit -Sn {soft}; ulimit -Hn {hard}; exec "$@"'
    return ["sh", "-c", script, "sh", *program]
