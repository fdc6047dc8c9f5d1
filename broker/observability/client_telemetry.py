"""Values that clients push: read from OpenTelemetry's form, kept, and shown on the metrics port.

Job: `read_points` makes points of a pushed payload, in a worker thread; `ClientValues` keeps the
last value of each point of each client until the client is forgotten. A delta adds to the value
before it, so that counters grow as Prometheus expects.

Invariants: a payload unpacks to a bounded size; the number of values and the length of their names
are bounded, and what does not fit is counted. Histograms are left out: no client of Kafka has any.

Kafka has a plug-in's interface in this place (ClientTelemetryExporter), and nothing behind it.
Needs the extra `telemetry` of the package; without it a broker does not serve the requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from typing import Any, Final, NamedTuple

from ...protocol.errors import ErrorCode, KafkaError, ProtocolError
from ...protocol.primitives import Buffer
from ...protocol.records.compression import compression_of, decompress
from ...protocol.uuids import uuid_to_text
from .client_subscriptions import ClientFacts, ClientInstances
from .metrics import BrokerMetrics

MAX_POINTS: Final = 10_000  # of one push
MAX_VALUES: Final = 100_000  # of all clients
MAX_NAME_LENGTH: Final = 256
_DELTA: Final = 1  # AGGREGATION_TEMPORALITY_DELTA


def can_be_read() -> bool:
    """Whether the package is installed that reads what clients push."""
    try:
        return find_spec("opentelemetry.proto.metrics") is not None
    except ModuleNotFoundError:
        return False


class Point(NamedTuple):
    metric: str
    attributes: str  # name=value, with commas
    value: float
    is_delta: bool


def read_points(data: Buffer, compression: int, max_bytes: int) -> list[Point]:
    """KafkaError (INVALID_RECORD) if the payload cannot be read."""
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

    try:
        text = decompress(compression_of(compression), data, max_bytes=max_bytes)
        message = MetricsData.FromString(text)
    except (ProtocolError, KafkaError, DecodeError) as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, str(error)) from error
    points = []
    for point in _points(message):
        points.append(point)
        if len(points) == MAX_POINTS:
            break
    return points


def _points(message: Any) -> Iterator[Point]:
    for of_resource in message.resource_metrics:
        outer = _texts(of_resource.resource.attributes)
        for of_scope in of_resource.scope_metrics:
            for metric in of_scope.metrics:
                kind = metric.WhichOneof("data")
                if kind not in ("gauge", "sum"):
                    continue
                numbers = getattr(metric, kind)
                is_delta = kind == "sum" and numbers.aggregation_temporality == _DELTA
                for point in numbers.data_points:
                    form = point.WhichOneof("value")
                    if form is None:
                        continue
                    attributes = ",".join([*outer, *_texts(point.attributes)])
                    if max(len(metric.name), len(attributes)) <= MAX_NAME_LENGTH:
                        value = float(getattr(point, form))
                        yield Point(metric.name, attributes, value, is_delta)


def _texts(attributes: Any) -> list[str]:
    found = []
    for attribute in attributes:
        form = attribute.value.WhichOneof("value")
        if form in ("string_value", "int_value", "double_value", "bool_value"):
            found.append(f"{attribute.key}={getattr(attribute.value, form)}")
    return found


class _Client:
    __slots__ = ("errors", "facts", "pushes", "values")

    def __init__(self, facts: ClientFacts) -> None:
        self.facts = facts
        self.values: dict[tuple[str, str], float] = {}  # by metric and attributes
        self.pushes = 0
        self.errors = 0


class ClientValues:
    """The last values of all clients."""

    def __init__(self) -> None:
        self._clients: dict[bytes, _Client] = {}
        self._count = 0
        self.dropped = 0

    def add(self, instance_id: bytes, facts: ClientFacts, points: Iterable[Point]) -> None:
        client = self._client(instance_id, facts)
        client.pushes += 1
        values = client.values
        for metric, attributes, value, is_delta in points:
            key = (metric, attributes)
            before = values.get(key)
            if before is None:
                if self._count >= MAX_VALUES:
                    self.dropped += 1
                    continue
                self._count += 1
                before = 0.0
            values[key] = before + value if is_delta else value

    def failed(self, instance_id: bytes, facts: ClientFacts) -> None:
        """A push that could not be read."""
        self._client(instance_id, facts).errors += 1

    def forget(self, instance_id: bytes) -> None:
        client = self._clients.pop(instance_id, None)
        if client is not None:
            self._count -= len(client.values)

    def _client(self, instance_id: bytes, facts: ClientFacts) -> _Client:
        client = self._clients.get(instance_id)
        if client is None:
            client = self._clients[instance_id] = _Client(facts)
        return client

    # For metrics and the console

    def clients(self) -> Iterator[tuple[str, ClientFacts, int, int]]:
        """Id, facts, pushes and pushes that failed of each client."""
        for instance_id, client in list(self._clients.items()):
            yield uuid_to_text(instance_id), client.facts, client.pushes, client.errors

    def rows(self) -> Iterator[tuple[tuple[str, ...], float]]:
        """The labels of each value: client instance, client id, metric and attributes."""
        for instance_id, client in list(self._clients.items()):
            text, client_id = uuid_to_text(instance_id), client.facts.client_id or ""
            for (metric, attributes), value in list(client.values.items()):
                yield (text, client_id, metric, attributes), value


def register_client_metrics(
    metrics: BrokerMetrics,
    instances: ClientInstances,
    values: ClientValues,
    clock: Callable[[], int],
) -> None:
    """On the metrics port, under Kafka's names where it has one."""

    async def expire() -> None:
        instances.expire(clock())

    metrics.before_scrape.append(expire)
    prefix = "kafka_server_client_metrics_"
    metrics.gauge(prefix + "instance_count", instances.__len__)
    metrics.gauge(
        prefix + "unknown_subscription_request_count", lambda: instances.unknown_subscriptions
    )
    label = ("client_instance_id",)
    metrics.gauge_family(
        prefix + "throttle_count",
        label,
        lambda: [((uuid_to_text(one),), count) for one, count in instances.throttles()],
    )
    metrics.gauge_family(
        prefix + "plugin_export_count",
        label,
        lambda: [((one,), pushes) for one, _, pushes, _ in values.clients()],
    )
    metrics.gauge_family(
        prefix + "plugin_error_count",
        label,
        lambda: [((one,), errors) for one, _, _, errors in values.clients()],
    )
    metrics.gauge_family(
        "pybroker_client_info",
        (*label, *ClientFacts._fields[:4]),
        lambda: [
            ((one, facts.client_id or "", *facts[1:4]), 1) for one, facts, _, _ in values.clients()
        ],
    )
    metrics.gauge("pybroker_client_values_dropped_total", lambda: values.dropped)
    metrics.table(
        (*label, "client_id", "metric", "attributes"),
        values.rows,
        {"pybroker_client_value": float},
    )
