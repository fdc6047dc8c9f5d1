"""The garbage collector at the start of a process, when modules are imported.

What imports make lives as long as the process. The collector would scan all of it again and again,
a quarter of the time of a start, and its marks would keep pages from being shared after a fork.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def kept_objects() -> Iterator[None]:
    """Objects made in the block live for ever; the collector is enabled after it."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
