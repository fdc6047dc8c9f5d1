"""The schema registry beside a test's cluster: `pybroker registry` in a process of its own.

It starts after the brokers and ends before them; its output is `logs/registry.log` of the cluster.
Its port is chosen before: the brokers have its address in their configs, for tables of topics.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from ..local.free_ports import LOOPBACK, take_ports
from .commands import Command

SAYS: Final = "schema registry: "
STOP_SECONDS: Final = 10.0


class RegistryBeside:
    """Raises ClusterError if no port is free."""

    def __init__(self) -> None:
        self._port = take_ports(1, set())
        self._command: Command | None = None

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self._port}"

    def start(self, data_dir: Path) -> None:
        """Returns once it serves. Raises ClusterError."""
        words = ("registry", "--port", str(self._port), "--data-dir", str(data_dir))
        self._command = Command(*words, output=data_dir / "logs" / "registry.log")
        try:
            self._command.wait_for(SAYS)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Without effect if it has not started."""
        command, self._command = self._command, None
        if command is None:
            return
        command.terminate()
        try:
            command.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            command.kill()
            command.wait()
