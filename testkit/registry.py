"""The schema registry beside a test's cluster: `pybroker registry` in a process of its own.

It starts with the cluster and ends before it; its output is `logs/registry.log` of the cluster.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from .commands import Command

SAYS: Final = "schema registry: "
STOP_SECONDS: Final = 10.0


class RegistryBeside:
    """Runs once it is made. Raises ClusterError."""

    def __init__(self, data_dir: Path) -> None:
        words = ("registry", "--port", "0", "--data-dir", str(data_dir))
        self._command = Command(*words, output=data_dir / "logs" / "registry.log")
        try:
            self.url = self._command.wait_for(SAYS).removeprefix(SAYS).strip()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        self._command.terminate()
        try:
            self._command.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._command.kill()
            self._command.wait()
