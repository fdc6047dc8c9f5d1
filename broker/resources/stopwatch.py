"""The clocks of durations and of turns, in seconds since some moment.

`now()` is monotonic; `cpu()` counts the processor's time that this thread has used.

Callers look them up in this module each time: a simulation replaces them by its own.
"""

from collections.abc import Callable
from time import perf_counter, thread_time

now: Callable[[], float] = perf_counter
cpu: Callable[[], float] = thread_time
