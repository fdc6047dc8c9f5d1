"""Servers of `pybroker start` beside its cluster, each a process of its own: console and registry.

A process is ended when the cluster stops, and ends by itself when the supervisor is gone: its
standard input is a pipe that the supervisor holds. One that fails to start does not keep a cluster
from running.
"""

from __future__ import annotations

import json
import selectors
import subprocess
import sys
from pathlib import Path
from typing import Final

READY_SECONDS: Final = 20.0
STOP_SECONDS: Final = 5.0
CONSOLE_PORT: Final = 8080
REGISTRY_PORT: Final = 8081


class BesideProcess:
    """`pybroker NAME` for the cluster on `data_dir`; port 0: any free port."""

    def __init__(self, name: str, data_dir: Path, port: int, *options: str) -> None:
        self.name = name
        self.address = ""  # once it has started
        self._command = [
            *(sys.executable, "-P", "-m", "pybroker_kafka", name, "--until-stdin-ends"),
            *("--data-dir", str(data_dir), "--port", str(port)),
            *options,
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *options: str) -> str:
        """A line for the user: the address, or why there is none."""
        try:
            self._process = subprocess.Popen(
                [*self._command, *options],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            return f"no {self.name}: {error.strerror}"
        said = self._first_line(self._process)
        if "address" in said:
            self.address = said["address"]
            return f"{self.name}: {self.address}"
        return f"no {self.name}: {said.get('error', 'it died while starting')}"

    def _first_line(self, process: subprocess.Popen[bytes]) -> dict[str, str]:
        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            if not selector.select(READY_SECONDS):
                return {"error": f"not ready after {READY_SECONDS:.0f} s"}
        line = process.stdout.readline()
        found: dict[str, str] = json.loads(line) if line else {}
        return found

    def stop(self) -> None:
        """End the process and wait for its end."""
        process = self._process
        if process is None:
            return
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


class Besides:
    """The servers that a cluster was asked for. The console decodes with the registry beside it,
    unless another one is named."""

    def __init__(
        self, console: BesideProcess | None, registry: BesideProcess | None, registry_url: str = ""
    ) -> None:
        self._console = console
        self._registry = registry
        self._registry_url = registry_url

    def start(self) -> str:
        """Lines for the user; "" without servers."""
        lines = []
        if self._registry is not None:
            lines.append(self._registry.start())
        if self._console is not None:
            url = self._registry_url or (self._registry.address if self._registry else "")
            lines.append(self._console.start(*(["--registry-url", url] if url else [])))
        return "\n".join(lines)

    def stop(self) -> None:
        for one in (self._console, self._registry):
            if one is not None:
                one.stop()
