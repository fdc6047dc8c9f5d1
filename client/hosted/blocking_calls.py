"""The block of a client for threads, and its calls, which block until the client in the trio thread
has a result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from concurrent.futures import Future
from types import TracebackType
from typing import Self, TypeVar

R = TypeVar("R")


def result_of(future: Future[R]) -> R:
    """Wait for the result; an interruption cancels the call."""
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


class BlockingBlock(ABC):
    """`with`, or `open` and `close`."""

    @abstractmethod
    def _begin(self) -> None: ...

    @abstractmethod
    def _end(self, error: BaseException | None) -> None:
        """`error` is the exception by which the block ended."""

    def open(self) -> Self:
        """Begin the block without `with`, as a notebook does; then call `close`. Raises
        ClientError."""
        self._begin()
        return self

    def close(self) -> None:
        """End the block of `open`, as leaving `with` does. Raises ClientError."""
        self._end(None)

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end(error)
