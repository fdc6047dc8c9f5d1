"""What a request waits for in a purgatory, known to its connection.

Job: `RequestWait` is the token of such an operation: the replica manager tells it the results, the
connection tells it that the client goes. Handlers derive from it what they answer.
Invariants: a wait is known to its connection from when the operation is parked until it is
complete; an operation that was given up is answered by nobody, and what it was about goes on:
records that were appended stay appended.

Goes beyond Kafka, whose purgatories keep what waits for a connection that is closed until its time
is over.
"""

from __future__ import annotations

from typing import Any

from mypy_extensions import mypyc_attr

from ...replication.purgatory import Operation
from ..network.request import Request
from ..replicas.settled_replicas import SettledReplicas


@mypyc_attr(allow_interpreted_subclasses=True)
class RequestWait:
    __slots__ = ("operation", "replicas", "request")

    def __init__(self, request: Request, replicas: SettledReplicas) -> None:
        self.request = request
        self.replicas = replicas
        self.operation: Operation | None = None

    def parked(self, operation: Operation) -> None:
        self.operation = operation
        self.request.connection.add_wait(self)

    def complete(self, results: Any) -> None:
        if self.operation is not None:
            self.request.connection.remove_wait(self)
        self.answer(results)

    def answer(self, results: Any) -> None:
        raise NotImplementedError

    def hurry(self) -> None:
        """The client sends nothing more. What it has asked for goes on, and is answered."""

    def cancel(self) -> None:
        """The connection is closed."""
        if self.operation is not None:
            self.replicas.cancel(self.operation)
