"""Commands that start clusters end them, too, when they are terminated.

Python ends at once on SIGTERM, without `finally`: the JVMs of a run would stay.
"""

from __future__ import annotations

import signal
import sys

STATUS: int = 128 + signal.SIGTERM


def clean_up_when_terminated() -> None:
    """From here on SIGTERM raises SystemExit, once; of a main thread."""

    def end(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sys.exit(STATUS)

    signal.signal(signal.SIGTERM, end)
