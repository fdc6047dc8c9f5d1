"""Facts of the operating system about this process and its directories, for monitoring."""

import getpass
import os
import platform
import resource
import socket
import time
from collections.abc import Mapping
from pathlib import Path

from . import machine


def bytes_in(directory: Path) -> int:
    """The size of all files below a directory; files that vanish meanwhile count nothing."""
    total = 0
    for parent, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.stat(os.path.join(parent, name)).st_size
            except FileNotFoundError:
                continue
    return total


def open_files() -> int:
    """The number of open descriptors; -1 where the system does not show it."""
    if machine.PROC is None:
        return -1
    try:
        return len(os.listdir(machine.PROC / "self/fd"))
    except OSError:
        return -1


def max_open_files() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def environment() -> Mapping[str, str]:
    """Host, interpreter, system and user, under the names of ZooKeeper's `Environment`."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        user = str(os.getuid())
    return {
        "host.name": socket.gethostname(),
        "python.version": platform.python_version(),
        "os.name": platform.system(),
        "os.arch": platform.machine(),
        "os.version": platform.release(),
        "user.name": user,
        "user.home": os.path.expanduser("~"),
        "user.dir": os.getcwd(),
    }


def date_text(at_ms: int) -> str:
    """A time as Java prints a Date: Sun Nov 22 12:30:25 UTC 2026."""
    return time.strftime("%a %b %d %H:%M:%S %Z %Y", time.localtime(at_ms / 1000))
