"""The console of `pybroker start --console` beside its cluster: a process of its own.

It is ended when the cluster stops, and ends by itself when the supervisor is gone: its standard
input is a pipe that the supervisor holds. A console that fails to start does not keep a cluster
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
DEFAULT_PORT: Final = 8080


class ConsoleProcess:
    """The console of the cluster on `data_dir`; port 0: any free port. `registry_url`: schemas."""

    def __init__(
        self, data_dir: Path, port: int, *, may_write: bool, registry_url: str | None = None
    ) -> None:
        self._command = [
            *(sys.executable, "-P", "-m", "pybroker_kafka", "console", "--until-stdin-ends"),
            *("--data-dir", str(data_dir), "--port", str(port)),
            *(["--console-write"] if may_write else []),
            *(["--registry-url", registry_url] if registry_url else []),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> str:
        """A line for the user: the console's address, or why there is none."""
        try:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            return f"no console: {error.strerror}"
        said = self._first_line(self._process)
        if "address" in said:
            return f"console: {said['address']}"
        return f"no console: {said.get('error', 'it died while starting')}"

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
