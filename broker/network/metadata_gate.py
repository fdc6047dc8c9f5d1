"""Requests about the cluster wait until this broker knows the cluster.

Job: between the moment in which a broker's port opens and the controller's first UpdateMetadata,
its metadata is empty. An answer from it ("no brokers, no such topic") harms: librdkafka forgets
every broker that it knew and is left without any for half a minute, and a commit of offsets fails
for good. So requests of APIs whose pages declare that they are answered from the metadata are held
until there is some.

Invariants: a held request keeps its connection muted, so at most one of a connection is held; the
owner calls `open` once, at the latest after a limit of its own; afterwards nothing passes here.

Apache Kafka has no such step: its brokers answer from empty metadata for a moment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...protocol.api import ApiKey, page

if TYPE_CHECKING:
    from .request import Request


class MetadataGate:
    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: list[tuple[Request, Callable[[Request], None]]] = []

    def guard(
        self, key: ApiKey, handle: Callable[[Request], Any]
    ) -> Callable[[Request], Any] | None:
        """The handler to use meanwhile, or None where the own one will do."""
        if not page(key).needs_metadata:
            return None
        return lambda request: self._held.append((request, handle))

    def open(self, perform: Callable[[Callable[[Request], None], Request], None]) -> None:
        """Pass the held requests to `perform`, in the order of their arrival."""
        held, self._held = self._held, []
        for request, handle in held:
            if not request.connection.closed:
                perform(handle, request)
