"""The clock of durations and of turns: `now()`, in seconds since some moment.

Callers look it up in this module each time: a simulation replaces it by its own.
"""

from collections.abc import Callable
from time import perf_counter

now: Callable[[], float] = perf_counter
