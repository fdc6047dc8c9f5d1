"""A process of our own beside a broker: it gets its work on its standard input, and ends with it.

The cleaner and the writer of tables are such processes (`broker.cleaner`, `broker.tables`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

import trio

EXIT_SECONDS: Final = 2.0


async def start_worker(module: str) -> trio.Process:
    """Run `python -m module`, with pipes as its standard input and output."""
    # Our own path, and nothing of the directory that the broker was started in (-P): a json.py
    # there would be imported.
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return await trio.lowlevel.open_process(
        [sys.executable, "-P", "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
    )


async def stop_worker(process: trio.Process) -> None:
    """End it; kill it if it does not end. A cancellation waits for that."""
    with trio.CancelScope(shield=True):
        assert process.stdin is not None
        await process.stdin.aclose()
        with trio.move_on_after(EXIT_SECONDS):
            await process.wait()
        if process.returncode is None:
            process.kill()
            await process.wait()
        assert process.stdout is not None
        await process.stdout.aclose()
