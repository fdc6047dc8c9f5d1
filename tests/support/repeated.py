"""Work that goes on in a thread beside the block of a test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def repeated(work: Callable[[], object], pause_seconds: float) -> Iterator[None]:
    """Call `work` again and again, with pauses, until the block ends. An error of a call ends the
    work, and is raised behind the block."""
    stop = threading.Event()

    def repeat() -> None:
        while not stop.wait(pause_seconds):
            work()

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(repeat)
        try:
            yield
        finally:
            stop.set()
    running.result()
