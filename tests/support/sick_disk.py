"""A disk that fails, is full, or is slow, and a wall clock that is wrong, under a real process:
`sick_disk.c`, and who steers it.

Job: `SickDisk(directory)` compiles the library and gives a server process an environment with
it (`ail(server)`); `says(rule, ...)` has the process meet these errors from the next call on, until
`heal()`. A rule is `operation action pattern`: see the head of the C file.
Invariants: a sick process is started by its own command, never forked from a warm one: a library
stands before the C library from the start, or never.
"""

from __future__ import annotations

import functools
import mmap
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.processes import ServerProcess

SOURCE = Path(__file__).with_suffix(".c")
CONTROL_BYTES = 4096
RULES_BYTES = CONTROL_BYTES - 8
COMPILE_SECONDS = 60


def why_not() -> str:
    """Why no disk can be sick here; empty if one can."""
    if sys.platform != "linux":
        return "LD_PRELOAD and /proc are Linux's"
    return "" if shutil.which("gcc") else "the sick disk needs gcc"


@functools.cache
def library() -> Path:
    """Compiled once for each test process."""
    place = Path(tempfile.mkdtemp(prefix="sick-disk-")) / "sick_disk.so"
    command = ["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror"]
    done = subprocess.run(
        [*command, "-o", str(place), str(SOURCE), "-ldl"],
        capture_output=True,
        text=True,
        timeout=COMPILE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return place


class SickDisk:
    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._control = directory / "sick-disk"
        self._control.write_bytes(bytes(CONTROL_BYTES))
        with self._control.open("r+b") as file:
            self._rules = mmap.mmap(file.fileno(), CONTROL_BYTES)

    def ail(self, server: ServerProcess) -> None:
        """From its next start on it meets what this disk says."""
        server.environment = {
            **server.environment,
            "LD_PRELOAD": str(library()),
            "SICK_DISK": str(self._control),
        }

    def says(self, *rules: str) -> None:
        text = "".join(f"{rule}\n" for rule in rules).encode()
        assert len(text) < RULES_BYTES
        assert all(len(rule.split()) == 3 for rule in rules), rules
        self.heal()
        self._rules[1 : len(text)] = text[1:]
        self._rules[0:1] = text[0:1]

    def heal(self) -> None:
        self._rules[0:1] = b"\0"
        self._rules[1:RULES_BYTES] = bytes(RULES_BYTES - 1)

    def step_clock(self, seconds: float) -> None:
        """From now on the wall clock is so much ahead of this machine's; `heal` leaves it so."""
        self._rules[RULES_BYTES:] = int(seconds * 1e9).to_bytes(8, sys.byteorder, signed=True)
