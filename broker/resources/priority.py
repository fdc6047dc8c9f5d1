"""The priority of the broker's own other processes: each other process comes first."""

from __future__ import annotations

import os
from typing import Final

NICENESS: Final = 19


def give_way() -> None:
    """Yield to the broker, even if it runs at a real-time priority, which is inherited."""
    if hasattr(os, "SCHED_BATCH"):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    os.nice(NICENESS)
