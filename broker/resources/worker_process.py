"""A process of our own beside a broker: it gets its work on its standard input, and ends with it.

The cleaner, the writer of tables and the copies to an object store are such processes
(`broker.cleaner`, `broker.tables`, `broker.remote.copy_process`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

import trio

EXIT_SECONDS: Final = 2.0


def command_of(module: str) -> list[str]:
    """Runs the module, and nothing of the directory that the broker was started in (-P): a json.py
    there would be imported."""
    return [sys.executable, "-P", "-m", module]


def environment() -> dict[str, str]:
    """With the broker's own path."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}


async def start_worker(module: str) -> trio.Process:
    """Run `python -m module`, with pipes as its standard input and output."""
    return await trio.lowlevel.open_process(
        command_of(module), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()
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
