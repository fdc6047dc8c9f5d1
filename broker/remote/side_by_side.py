"""Several blocking calls of one thread, each in a thread of its own, for as long as they take.

A caller never has more threads than calls, and none is shared: a call that hangs holds its own
caller alone. The threads do not keep the process alive.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def side_by_side(calls: Sequence[Callable[[], T]]) -> list[T]:
    """The results of all calls, in their order; raises what the first of them has raised. The first
    one is made in this thread."""
    first, *others = calls
    results: list[Future[T]] = [Future() for _ in calls]
    for call, result in zip(others, results[1:], strict=True):
        threading.Thread(target=_run, args=(call, result), daemon=True).start()
    _run(first, results[0])
    return [result.result() for result in results]


def _run(call: Callable[[], T], result: Future[T]) -> None:
    try:
        result.set_result(call())
    except BaseException as error:
        result.set_exception(error)
