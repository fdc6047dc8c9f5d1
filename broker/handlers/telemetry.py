"""GetTelemetrySubscriptions v0 and PushTelemetry v0: metrics of clients (KIP-714).

`observability.client_subscriptions` decides, `observability.client_telemetry` reads what is pushed,
in a worker thread, and shows it on the metrics port.

Mirrors ClientMetricsManager and the handlers of the same names in KafkaApis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import trio

from ...protocol.api import ApiKey
from ...protocol.apis.get_telemetry_subscriptions import GetTelemetrySubscriptionsResponse
from ...protocol.apis.push_telemetry import PushTelemetryResponse
from ...protocol.errors import ErrorCode, KafkaError
from ..observability.client_subscriptions import (
    ACCEPTED_COMPRESSION,
    ClientFacts,
    ClientInstances,
)
from ..observability.client_telemetry import ClientValues, read_points

if TYPE_CHECKING:
    from ..network.request import Handler, Request

# Few, since these threads compete with the event loop for the interpreter.
MAX_READERS = 1


class TelemetryHandlers:
    __slots__ = ("_clock", "_instances", "_readers", "_values")

    def __init__(
        self, instances: ClientInstances, values: ClientValues, clock: Callable[[], int]
    ) -> None:
        self._instances = instances
        self._values = values
        self._clock = clock
        self._readers = trio.CapacityLimiter(MAX_READERS)

    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {
            ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: self.get_subscriptions,
            ApiKey.PUSH_TELEMETRY: self.push,
        }

    def get_subscriptions(self, request: Request) -> None:
        instances = self._instances
        asked = instances.ask(
            bytes(request.body.client_instance_id),
            _facts(request),
            request.peer.number,
            self._clock(),
        )
        if isinstance(asked, ErrorCode):
            request.fail(asked)
            return
        self._watch(request, asked.instance_id)
        request.respond(
            GetTelemetrySubscriptionsResponse(
                client_instance_id=asked.instance_id,
                subscription_id=asked.subscription_id,
                accepted_compression_types=list(ACCEPTED_COMPRESSION),
                push_interval_ms=asked.interval_ms,
                telemetry_max_bytes=instances.max_bytes,
                delta_temporality=True,
                requested_metrics=list(asked.metrics),
            )
        )

    async def push(self, request: Request) -> None:
        body, instances, facts = request.body, self._instances, _facts(request)
        instance_id = bytes(body.client_instance_id)
        code = instances.push(
            instance_id,
            facts,
            request.peer.number,
            self._clock(),
            subscription_id=body.subscription_id,
            compression=body.compression_type,
            size=len(body.metrics),
            is_last=body.terminating,
        )
        if code is ErrorCode.NONE:
            self._watch(request, instance_id)
            if len(body.metrics):
                code = await self._read(request, instance_id, facts)
                instances.ended(instance_id, code)
        if code is ErrorCode.NONE:
            request.respond(PushTelemetryResponse())
        else:
            request.fail(code)

    async def _read(self, request: Request, instance_id: bytes, facts: ClientFacts) -> ErrorCode:
        body = request.body
        try:
            points = await trio.to_thread.run_sync(
                read_points,
                body.metrics,
                body.compression_type,
                self._instances.max_bytes,
                limiter=self._readers,
                abandon_on_cancel=True,
            )
        except KafkaError as error:
            self._values.failed(instance_id, facts)
            return error.code
        if not request.connection.closed:
            self._values.add(instance_id, facts, points)
        return ErrorCode.NONE

    def _watch(self, request: Request, instance_id: bytes) -> None:
        """The client is forgotten when its connection is closed."""
        watching = _Connected(self._instances, request.peer.number, instance_id)
        request.connection.remove_wait(watching)
        request.connection.add_wait(watching)


class _Connected:
    """Known to the connection of a client until that is closed: one for each connection, of the
    last client that asked there."""

    __slots__ = ("_connection", "_instance_id", "_instances")

    def __init__(self, instances: ClientInstances, connection: int, instance_id: bytes) -> None:
        self._instances = instances
        self._connection = connection
        self._instance_id = instance_id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Connected) and other._connection == self._connection

    def __hash__(self) -> int:
        return self._connection

    def hurry(self) -> None:
        """There is nothing to answer."""

    def cancel(self) -> None:
        self._instances.disconnected(self._connection, self._instance_id)


def _facts(request: Request) -> ClientFacts:
    peer = request.peer
    return ClientFacts(
        request.client_id, peer.software_name, peer.software_version, peer.host, str(peer.port)
    )
