"""Over which time something is measured."""

from __future__ import annotations

from typing import Final, NamedTuple

from ...replication.sampled_sum import DEFAULT_SAMPLES, DEFAULT_WINDOW_MS


class Windows(NamedTuple):
    """The number of samples, and the length of each."""

    samples: int = DEFAULT_SAMPLES
    window_ms: int = DEFAULT_WINDOW_MS


DEFAULT_WINDOWS: Final = Windows()
