"""Envelope v0 (KIP-590): a request of a client that another broker forwards.

Nothing is forwarded in ZooKeeper mode unless a cluster moves to KRaft: as in Apache Kafka the API
is advertised, and the connection of a sender is closed.

Mirrors `KafkaApis.handleEnvelope`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...protocol.api import ApiKey

if TYPE_CHECKING:
    from ..network.request import Handler, Request


class EnvelopeHandler:
    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {ApiKey.ENVELOPE: self.envelope}

    def envelope(self, request: Request) -> None:
        request.close()
