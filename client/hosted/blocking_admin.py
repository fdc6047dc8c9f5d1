"""Administration in threads without a loop.

    with BlockingAdmin("localhost:9092") as admin:
        admin.topics.list()

It has the subjects of `Admin`, with the same methods, which block until they have a result; they
run in the trio thread, with a `Cluster` of its own. Any number of threads may use it. Ctrl-C
interrupts a call as a cancellation does.
"""

from __future__ import annotations

from typing import Any

from ..cluster import Cluster
from .blocking_calls import HostedBlock, result_of
from .host import Host
from .hosted_admin import Subject, subject_of


class BlockingAdmin(HostedBlock[Cluster]):
    """`Admin` for threads: with the arguments of `Cluster`."""

    def __init__(self, bootstrap: str, **options: Any) -> None:
        self._host = Host(Cluster(bootstrap, **options))

    def __getattr__(self, name: str) -> Subject:
        return subject_of(self, self._host, result_of, name)
