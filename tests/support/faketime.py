"""libfaketime: other wall clocks for real processes, while their monotonic clocks go on as they do.

With version 0.9.10 Python's `time.sleep` sleeps far too long (`clock_nanosleep` until a time of
the monotonic clock), so it is for processes that hardly sleep: brokers and their supervisors.

Debian has it (`apt-get install faketime`). Where it is not there, `LIBRARY` is None, and whoever
needs it is skipped and says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_PLACES = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
LIBRARY = _PLACES[0] if _PLACES else None
WHY_SKIPPED = "libfaketime is not installed (Debian: apt-get install faketime)"


def environment(clock: Path) -> Mapping[str, str]:
    """For a process whose wall clock is that of the file."""
    assert LIBRARY is not None
    return {
        "LD_PRELOAD": str(LIBRARY),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_CACHE_DURATION": "1",  # seconds until a change of the file is seen
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
        "NO_FAKE_STAT": "1",
    }
