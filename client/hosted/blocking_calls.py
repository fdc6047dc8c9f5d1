"""The block of a client for threads, and its calls, which block until the client in the trio thread
has a result."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Concatenate, Generic, ParamSpec, Self, TypeVar, cast

from .host import C, Host

P = ParamSpec("P")
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


class HostedBlock(BlockingBlock, Generic[C]):
    """A client in the trio thread, and its block in a thread."""

    _host: Host[C]

    def _begin(self) -> None:
        result_of(self._host.open())

    def _end(self, error: BaseException | None) -> None:
        self._wait(self._host.close(error))

    def _wait(self, future: Future[R]) -> R:
        """Wait for a call."""
        return result_of(future)


def passed_on(
    method: Callable[Concatenate[C, P], Awaitable[R]],
) -> Callable[Concatenate[HostedBlock[C], P], R]:
    """A method that waits for the client's one in the trio thread."""

    @functools.wraps(method)
    def call(self: HostedBlock[C], *arguments: P.args, **keywords: P.kwargs) -> R:
        host = self._host
        return self._wait(host.call(method, host.client, *arguments, **keywords))

    return cast("Callable[Concatenate[HostedBlock[C], P], R]", call)


def passed_on_at_once(
    method: Callable[Concatenate[C, P], R],
) -> Callable[Concatenate[HostedBlock[C], P], R]:
    """A method that calls the client's one in the trio thread."""

    @functools.wraps(method)
    def call(self: HostedBlock[C], *arguments: P.args, **keywords: P.kwargs) -> R:
        host = self._host
        return self._wait(host.call_at_once(method, host.client, *arguments, **keywords))

    return cast("Callable[Concatenate[HostedBlock[C], P], R]", call)
