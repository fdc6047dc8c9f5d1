"""What clients push is read within bounds, kept, and shown on the metrics port."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from prometheus_client import CollectorRegistry

from pybroker_kafka.broker.observability import client_telemetry
from pybroker_kafka.broker.observability.client_subscriptions import (
    DEFAULT_INTERVAL_MS,
    ClientFacts,
    ClientInstances,
)
from pybroker_kafka.broker.observability.client_telemetry import (
    MAX_NAME_LENGTH,
    ClientValues,
    Point,
    read_points,
    register_client_metrics,
)
from pybroker_kafka.broker.observability.exposition import exposition
from pybroker_kafka.broker.observability.metrics import BrokerMetrics
from pybroker_kafka.protocol.errors import ErrorCode, KafkaError
from pybroker_kafka.protocol.records.compression import Compression, compress

FACTS = ClientFacts("app", "apache-kafka-java", "4.3.1", "10.0.0.7", "40000")
ONE, TWO = bytes([1]) * 16, bytes([2]) * 16
DELTA, CUMULATIVE = 1, 2
LIMIT = 1_000_000


def with_text(attributes: Any, key: str, text: str) -> None:
    attributes.add(key=key).value.string_value = text


def pushed() -> MetricsData:
    data = MetricsData()
    of_resource = data.resource_metrics.add()
    with_text(of_resource.resource.attributes, "client_rack", "r1")
    metrics = of_resource.scope_metrics.add().metrics
    metrics.add(name="gauge").gauge.data_points.add(as_double=1.5)
    total = metrics.add(name="delta").sum
    total.aggregation_temporality = DELTA
    point = total.data_points.add(as_int=3)
    with_text(point.attributes, "topic", "t")
    counter = metrics.add(name="cumulative").sum
    counter.aggregation_temporality = CUMULATIVE
    counter.data_points.add(as_int=7)
    counter.data_points.add()  # without a value
    metrics.add(name="histogram").histogram.data_points.add(count=1)
    return data


POINTS = [
    Point("gauge", "client_rack=r1", 1.5, False),
    Point("delta", "client_rack=r1,topic=t", 3.0, True),
    Point("cumulative", "client_rack=r1", 7.0, False),
]


@pytest.mark.parametrize("compression", Compression)
def test_gauges_and_sums_are_read(compression: Compression) -> None:
    data = pushed().SerializeToString()
    if compression is not Compression.NONE:
        data = compress(compression, data)
    assert read_points(memoryview(data), compression, LIMIT) == POINTS


@pytest.mark.parametrize(
    ("data", "compression"),
    [
        (b"\xff\xff", 0),
        (b"no zstd", 4),
        (compress(Compression.ZSTD, bytes(LIMIT + 1)), 4),
        (compress(Compression.GZIP, b"\xff\xff"), 1),
    ],
)
def test_what_cannot_be_read(data: bytes, compression: int) -> None:
    with pytest.raises(KafkaError) as raised:
        read_points(data, compression, LIMIT)
    assert raised.value.code == ErrorCode.INVALID_RECORD


def test_names_and_points_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    data = MetricsData()
    metrics = data.resource_metrics.add().scope_metrics.add().metrics
    for name in ("n" * MAX_NAME_LENGTH, "n" * (MAX_NAME_LENGTH + 1), "a", "b"):
        metrics.add(name=name).gauge.data_points.add(as_int=1)
    names = [point.metric for point in read_points(data.SerializeToString(), 0, LIMIT)]
    assert names == ["n" * MAX_NAME_LENGTH, "a", "b"]
    monkeypatch.setattr(client_telemetry, "MAX_POINTS", 2)
    assert len(read_points(data.SerializeToString(), 0, LIMIT)) == 2


def test_a_delta_adds_to_the_value_before_it() -> None:
    values = ClientValues()
    values.add(ONE, FACTS, POINTS)
    values.add(ONE, FACTS, POINTS)
    found = {labels[2]: value for labels, value in values.rows()}
    assert found == {"gauge": 1.5, "delta": 6.0, "cumulative": 7.0}


def test_values_are_bounded_and_forgotten_with_their_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_telemetry, "MAX_VALUES", 4)
    values = ClientValues()
    values.add(ONE, FACTS, POINTS)
    values.add(TWO, FACTS, POINTS)
    assert values.dropped == 2
    values.forget(ONE)
    values.forget(ONE)
    values.add(TWO, FACTS, POINTS)
    assert values.dropped == 2
    assert len(list(values.rows())) == 3


async def test_the_metrics_port_shows_them() -> None:
    metrics, values = BrokerMetrics(), ClientValues()
    instances = ClientInstances(1, lambda: ONE, values.forget)
    now_ms = 2
    register_client_metrics(metrics, instances, values, lambda: now_ms)
    instances.ask(ONE, FACTS, 1, 0)
    instances.ask(ONE, FACTS, 1, 1)
    values.add(ONE, FACTS, POINTS)
    values.failed(ONE, FACTS)
    registry = CollectorRegistry()
    registry.register(metrics)

    async def shown() -> str:
        return b"".join([piece async for piece in exposition(metrics, registry)]).decode()

    text = await shown()
    one = 'client_instance_id="AQEBAQEBAQEBAQEBAQEBAQ"'
    for line in (
        "kafka_server_client_metrics_instance_count 1.0",
        f"kafka_server_client_metrics_throttle_count{{{one}}} 1.0",
        f"kafka_server_client_metrics_plugin_export_count{{{one}}} 1.0",
        f"kafka_server_client_metrics_plugin_error_count{{{one}}} 1.0",
        f'pybroker_client_value{{{one},client_id="app",metric="delta",'
        'attributes="client_rack=r1,topic=t"} 3.0',
    ):
        assert line in text.splitlines(), line
    (info,) = [line for line in text.splitlines() if line.startswith("pybroker_client_info{")]
    assert 'client_software_version="4.3.1"' in info
    assert 'client_source_address="10.0.0.7"' in info
    now_ms = 1 + 3 * DEFAULT_INTERVAL_MS
    assert one not in await shown()
