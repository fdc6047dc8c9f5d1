"""The features of this machine beyond POSIX.

Job: the one place that says which of these there are: epoll or kqueue, sendfile, RWF_NOWAIT,
MSG_MORE, /proc. The users of such a feature ask here, and have a way without it.
Invariant: with the environment variable PYBROKER_MACHINE=posix none of them is used; so the ways
without are tested on Linux.

Kafka leaves this to the Java machine and its `Selector` classes.
"""

from __future__ import annotations

import os
import select
import socket
from pathlib import Path

IS_PLAIN = os.environ.get("PYBROKER_MACHINE") == "posix"

HAS_EPOLL = not IS_PLAIN and hasattr(select, "epoll")
HAS_KQUEUE = not IS_PLAIN and hasattr(select, "kqueue")
HAS_SENDFILE = not IS_PLAIN and hasattr(os, "sendfile")
# For a read that should fail instead of waiting for the disk; 0 where the system has none, or no
# way to send a file without a copy.
RWF_NOWAIT: int = getattr(os, "RWF_NOWAIT", 0) if HAS_SENDFILE else 0
# For a send that another one follows at once; 0 where the system has to guess.
MSG_MORE: int = 0 if IS_PLAIN else getattr(socket, "MSG_MORE", 0)

# The cores that this process may use.
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

PROC = None if IS_PLAIN or not os.path.exists("/proc/self/statm") else Path("/proc")


def resident_bytes(pid: int | str = "self") -> int | None:
    """Resident memory of a process; None if it has ended, or the system does not show it."""
    if PROC is None:
        return None
    try:
        fields = (PROC / str(pid) / "statm").read_bytes().split()
    except OSError:
        return None
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")
