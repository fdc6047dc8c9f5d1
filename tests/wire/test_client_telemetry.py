"""Metrics of clients (KIP-714): subscriptions as configs, and pushes of clients, as on the wire."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from pybroker_kafka.protocol.apis.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
)
from pybroker_kafka.protocol.apis.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from pybroker_kafka.protocol.apis.list_config_resources import ListConfigResourcesRequest
from pybroker_kafka.protocol.apis.push_telemetry import PushTelemetryRequest
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.records.compression import Compression, compress
from tests.support.patience import until
from tests.support.wire import WireClient, covers, unique
from tests.wire.feature_steps import versions

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND = 0, 1, 2
DEFAULTS = {"metrics": "", "interval.ms": "300000", "match": ""}


def alter(client: WireClient, name: str, *changes: tuple[str, int, str | None]) -> ErrorCode:
    configs = [
        IncrementalAlterConfigsRequestAlterableConfig(name=key, config_operation=how, value=value)
        for key, how, value in changes
    ]
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=CLIENT_METRICS, resource_name=name, configs=configs
    )
    (result,) = client.call(IncrementalAlterConfigsRequest(resources=[resource])).responses
    return ErrorCode(result.error_code)


def described(client: WireClient, name: str) -> Any:
    resource = DescribeConfigsResource(resource_type=CLIENT_METRICS, resource_name=name)
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    (result,) = client.call(request).results
    return result


def listed(client: WireClient, *kinds: int, version: int = 1) -> dict[int, set[str]]:
    answer = client.call(ListConfigResourcesRequest(resource_types=list(kinds)), version)
    assert answer.error_code == 0
    found: dict[int, set[str]] = {}
    for resource in answer.config_resources:
        found.setdefault(resource.resource_type, set()).add(resource.resource_name)
    return found


@pytest.fixture
def subscription(finalized: WireClient) -> Iterator[str]:
    """One to all metrics of all clients, once in minutes: no test may wait for its interval."""
    name = unique("a subscription/")
    configs = (("metrics", SET, "*"), ("interval.ms", SET, "250000"))
    assert alter(finalized, name, *configs) == ErrorCode.NONE
    until(lambda: name in listed(finalized, CLIENT_METRICS).get(CLIENT_METRICS, set()))
    yield name
    assert alter(finalized, name, *[(key, DELETE, None) for key, _, _ in configs]) == 0
    until(lambda: name not in listed(finalized, CLIENT_METRICS).get(CLIENT_METRICS, set()))


def test_without_a_finalized_feature_it_is_as_in_39(kafka: WireClient) -> None:
    assert alter(kafka, "s", ("metrics", SET, "*")) == ErrorCode.INVALID_REQUEST
    result = described(kafka, "s")
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert result.error_message == "Config type client-metrics is only supported on KRaft clusters"


def test_a_subscription_is_described(finalized: WireClient, subscription: str) -> None:
    result = described(finalized, subscription)
    assert result.error_code == 0
    found = {config.name: config.value for config in result.configs}
    assert found == {"metrics": "*", "interval.ms": "250000", "match": ""}
    sources = {config.name: config.config_source for config in result.configs}
    assert sources == {"metrics": 7, "interval.ms": 7, "match": 5}
    unknown = described(finalized, "never made")
    assert {config.name: config.value for config in unknown.configs} == DEFAULTS
    assert described(finalized, "").error_code == ErrorCode.INVALID_REQUEST
    assert described(finalized, "..").error_code == 0


def test_subscriptions_that_make_no_sense(finalized: WireClient) -> None:
    invalid = ErrorCode.INVALID_REQUEST
    assert alter(finalized, "", ("metrics", SET, "*")) == invalid
    assert alter(finalized, "..", ("metrics", SET, "*")) == invalid
    assert alter(finalized, "s", ("interval", SET, "1000")) == invalid
    assert alter(finalized, "s", ("interval.ms", SET, "1")) == invalid
    assert alter(finalized, "s", ("match", SET, "client_id")) == ErrorCode.INVALID_CONFIG
    assert alter(finalized, "s", ("interval.ms", APPEND, "1")) == ErrorCode.INVALID_CONFIG


def test_lists_are_appended_to(finalized: WireClient, subscription: str) -> None:
    assert alter(finalized, subscription, ("match", APPEND, "client_id=a.*")) == 0
    found = {c.name: c.value for c in described(finalized, subscription).configs}
    assert found["match"] == "client_id=a.*"
    assert alter(finalized, subscription, ("match", DELETE, None)) == 0


@covers(ApiKey.LIST_CONFIG_RESOURCES)
def test_resources_with_configs_are_listed(finalized: WireClient, subscription: str) -> None:
    topic = finalized.create_topic()
    found = listed(finalized)
    me = str(finalized.me().node_id)
    assert topic.name in found[TOPIC]
    assert found[BROKER] == found[LOGGER] == {me}
    assert subscription in found[CLIENT_METRICS]
    assert listed(finalized, BROKER) == {BROKER: {me}}
    assert listed(finalized, version=0) == {CLIENT_METRICS: found[CLIENT_METRICS]}
    assert listed(finalized, GROUP) == {}
    unknown = finalized.call(ListConfigResourcesRequest(resource_types=[BROKER, 99]), 1)
    assert (unknown.error_code, unknown.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, [])


def ask(client: WireClient, instance: bytes = bytes(16)) -> Any:
    return client.call(GetTelemetrySubscriptionsRequest(client_instance_id=instance), 0)


def push(client: WireClient, asked: Any, metrics: bytes = b"", **options: Any) -> ErrorCode:
    request = PushTelemetryRequest(
        client_instance_id=asked.client_instance_id,
        subscription_id=options.pop("subscription_id", asked.subscription_id),
        metrics=metrics,
        **options,
    )
    return ErrorCode(client.call(request, 0).error_code)


def payload() -> bytes:
    data = MetricsData()
    metric = data.resource_metrics.add().scope_metrics.add().metrics.add(name="wire.test")
    metric.gauge.data_points.add(as_int=1)
    return bytes(data.SerializeToString())


@covers(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY)
def test_a_client_pushes_its_metrics(finalized: WireClient, subscription: str) -> None:
    versions(finalized)  # names its software
    asked = ask(finalized)
    assert (asked.error_code, asked.requested_metrics) == (0, ["*"])
    assert asked.client_instance_id != bytes(16)
    assert (asked.push_interval_ms, asked.telemetry_max_bytes) == (250_000, 1_048_576)
    assert asked.accepted_compression_types == [4, 3, 1, 2]
    assert asked.delta_temporality
    throttled = ask(finalized, asked.client_instance_id)
    assert throttled.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert (throttled.client_instance_id, throttled.push_interval_ms) == (bytes(16), 0)
    zstd = compress(Compression.ZSTD, payload())
    assert push(finalized, asked, zstd, compression_type=4) == ErrorCode.NONE
    assert push(finalized, asked, payload()) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert push(finalized, asked, payload(), terminating=True) == ErrorCode.NONE
    assert push(finalized, asked) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("metrics", "options", "code"),
    [
        (b"", {"subscription_id": 1}, ErrorCode.UNKNOWN_SUBSCRIPTION_ID),
        (b"", {"compression_type": 9}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (bytes(1_048_577), {}, ErrorCode.TELEMETRY_TOO_LARGE),
        (b"\xff\xff", {}, ErrorCode.INVALID_RECORD),
        (b"no zstd", {"compression_type": 4}, ErrorCode.INVALID_RECORD),
        (compress(Compression.ZSTD, bytes(20_000_000)), {"compression_type": 4},
         ErrorCode.INVALID_RECORD),
    ],
)  # fmt: skip
def test_pushes_that_are_refused(
    finalized: WireClient, metrics: bytes, options: dict[str, Any], code: ErrorCode
) -> None:
    asked = ask(finalized)
    assert push(finalized, asked, metrics, **options) == code


def test_a_client_is_forgotten_with_its_connection(finalized: WireClient) -> None:
    with finalized.another() as client:
        asked = ask(client)
        assert push(client, asked) == ErrorCode.NONE
        assert push(client, asked) == ErrorCode.THROTTLING_QUOTA_EXCEEDED

    def pushes_anew() -> bool:
        with finalized.another() as client:
            return push(client, asked) == ErrorCode.NONE

    until(pushes_anew)
