"""The wait of a request in a purgatory, known to its connection.

Job: `RequestWait` is the token of such an operation: the replica manager passes it the results, the
connection notifies it that the client closes. Handlers implement the answer in a subclass.
Invariants: a connection knows a wait from the parking of the operation until its completion; a
cancelled operation gets no answer, and its work continues: appended records stay appended.

Goes beyond Kafka, whose purgatories keep the operations of a closed connection until they expire.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from mypy_extensions import mypyc_attr

from ...replication.purgatory import Operation
from ..network.request import Request
from ..replicas.applied_replicas import AppliedReplicas


@mypyc_attr(allow_interpreted_subclasses=True)
class RequestWait(ABC):
    __slots__ = ("operation", "replicas", "request")

    def __init__(self, request: Request, replicas: AppliedReplicas) -> None:
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

    @abstractmethod
    def answer(self, results: Any) -> None:
        """Send the answer for these results of the operation."""

    def hurry(self) -> None:  # noqa: B027 - most waits have nothing to hurry
        """The client sends nothing more. Its request continues, and is answered."""

    def cancel(self) -> None:
        """The connection is closed."""
        if self.operation is not None:
            self.replicas.cancel(self.operation)
