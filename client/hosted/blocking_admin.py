"""Administration in threads without a loop.

    with BlockingAdmin("localhost:9092") as admin:
        admin.topics.list()

It has the subjects of `Admin`, with the same methods, which block until they have a result; they
run in the trio thread, with a `Cluster` of its own. Any number of threads may use it. Ctrl-C
interrupts a call as a cancellation does.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from ..cluster import Cluster
from .blocking_calls import result_of
from .host import Host
from .hosted_admin import Subject, subject_of


class BlockingAdmin:
    """`Admin` for threads: with the arguments of `Cluster`."""

    def __init__(self, bootstrap: str, **options: Any) -> None:
        self._host = Host(Cluster(bootstrap, **options))

    def open(self) -> Self:
        """Begin the block without `with`, as a notebook does; then call `close`. Raises
        ClientError."""
        result_of(self._host.open())
        return self

    def close(self) -> None:
        """End the block of `open`."""
        self.__exit__(None, None, None)

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._host.close(error).result()

    def __getattr__(self, name: str) -> Subject:
        return subject_of(self, self._host, result_of, name)
