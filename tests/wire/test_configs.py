"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs in every version."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterableConfig,
    AlterConfigsRequestAlterConfigsResource,
)
from pybroker_kafka.protocol.apis.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from pybroker_kafka.protocol.apis.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from pybroker_kafka.protocol.apis.metadata import MetadataRequest
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.processes import LEFT_OUT, BrokerProcess, running_broker
from tests.support.wire import WireClient, batch, covers, unique

TOPIC, BROKER = 2, 4
# Where a value comes from.
FROM_TOPIC, FROM_BROKER, FROM_DEFAULT_BROKER, FROM_STATIC_BROKER, FROM_DEFAULT = 1, 2, 3, 4, 5
# Types of values.
BOOLEAN, STRING, INT, LONG, DOUBLE, LIST = 1, 2, 3, 5, 6, 7
SET, DELETE, APPEND, SUBTRACT = range(4)

Pairs = dict[str, str | None]


@pytest.fixture(scope="module")
def wire_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One with the defaults of Kafka, retention too."""
    with running_broker(tmp_path_factory.mktemp("wire"), {"log.retention.ms": LEFT_OUT}) as broker:
        yield broker


def my_id(kafka: WireClient) -> str:
    return str(kafka.call(MetadataRequest(topics=[])).brokers[0].node_id)


def describe_all(
    kafka: WireClient,
    version: int,
    kind: int,
    name: str,
    keys: list[str] | None = None,
    **options: Any,
) -> Any:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    response = kafka.call(DescribeConfigsRequest(resources=[resource], **options), version)
    assert response.throttle_time_ms == 0
    (result,) = response.results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


def describe(
    kafka: WireClient,
    name: str,
    *keys: str,
    version: int = 4,
    kind: int = TOPIC,
    **options: Any,
) -> dict[str, Any]:
    result = describe_all(kafka, version, kind, name, list(keys) or None, **options)
    assert result.error_code == 0, result
    return {config.name: config for config in result.configs}


def values(kafka: WireClient, name: str, *keys: str, kind: int = TOPIC) -> list[str | None]:
    configs = describe(kafka, name, *keys, kind=kind)
    return [configs[key].value for key in keys]


def alter(
    kafka: WireClient, version: int, name: str, pairs: Pairs, kind: int = TOPIC, **options: Any
) -> Any:
    resource = AlterConfigsRequestAlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[AlterConfigsRequestAlterableConfig(name=k, value=v) for k, v in pairs.items()],
    )
    response = kafka.call(AlterConfigsRequest(resources=[resource], **options), version)
    assert response.throttle_time_ms == 0
    (result,) = response.responses
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


def change(
    kafka: WireClient,
    version: int,
    name: str,
    *changes: tuple[int, str, str | None],
    kind: int = TOPIC,
    **options: Any,
) -> Any:
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            IncrementalAlterConfigsRequestAlterableConfig(
                name=key, config_operation=operation, value=value
            )
            for operation, key, value in changes
        ],
    )
    response = kafka.call(IncrementalAlterConfigsRequest(resources=[resource], **options), version)
    (result,) = response.responses
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


def until(read: Any, expected: Any) -> None:
    """Configs take effect through a watch: shortly after they are written."""
    deadline = time.monotonic() + 120
    while (seen := read()) != expected:
        assert time.monotonic() < deadline, f"{seen} instead of {expected}"
        time.sleep(0.02)


@covers(ApiKey.DESCRIBE_CONFIGS)
def test_topic_configs_in_every_version(kafka: WireClient) -> None:
    topic = kafka.create_topic(retention_ms="7777777", cleanup_policy="compact,delete").name
    for version in kafka.versions(ApiKey.DESCRIBE_CONFIGS):
        configs = describe(kafka, topic, version=version)
        assert len(configs) > 25
        assert set(configs) == set(describe(kafka, topic))
        retention, policy = configs["retention.ms"], configs["cleanup.policy"]
        size, convert = configs["segment.bytes"], configs["message.downconversion.enable"]
        assert (retention.value, policy.value) == ("7777777", "compact,delete")
        assert (size.value, convert.value) == ("1073741824", "true")
        for config in configs.values():
            assert (config.read_only, config.is_sensitive, config.synonyms) == (False, False, [])
            if version == 0:
                continue
            own = config in (retention, policy)
            assert config.config_source == (FROM_TOPIC if own else FROM_DEFAULT)
            assert not config.documentation
        if version >= 3:
            kinds = [c.config_type for c in (retention, policy, size, convert)]
            assert kinds == [LONG, LIST, INT, BOOLEAN]
        (one,) = describe(kafka, topic, "segment.bytes", "no.such.key", version=version).values()
        assert one.value == "1073741824"


def test_synonyms_and_documentation(kafka: WireClient) -> None:
    topic = kafka.create_topic(retention_ms="7777777", cleanup_policy="compact").name
    for version in kafka.versions(ApiKey.DESCRIBE_CONFIGS, first=1):
        configs = describe(kafka, topic, version=version, include_synonyms=True)
        retention = [(s.name, s.value, s.source) for s in configs["retention.ms"].synonyms]
        assert retention == [("retention.ms", "7777777", FROM_TOPIC)]
        policy = [(s.name, s.value, s.source) for s in configs["cleanup.policy"].synonyms]
        assert policy == [
            ("cleanup.policy", "compact", FROM_TOPIC),
            ("log.cleanup.policy", "delete", FROM_DEFAULT),
        ]
        size = [(s.name, s.value, s.source) for s in configs["segment.bytes"].synonyms]
        assert size == [("log.segment.bytes", "1073741824", FROM_DEFAULT)]
        if version >= 3:
            documented = describe(kafka, topic, version=version, include_documentation=True)
            assert all(config.documentation for config in documented.values())


def test_broker_configs_in_every_version(kafka: WireClient) -> None:
    me = my_id(kafka)
    for version in kafka.versions(ApiKey.DESCRIBE_CONFIGS):
        configs = describe(kafka, me, version=version, kind=BROKER)
        assert configs["broker.id"].value == me
        assert configs["zookeeper.connect"].read_only
        assert configs["group.initial.rebalance.delay.ms"].value == "0"
        assert configs["log.segment.bytes"].value == "1073741824"
        assert not configs["log.segment.bytes"].read_only
        password = configs["ssl.keystore.password"]
        assert (password.value, password.is_sensitive) == (None, True)
        if version == 0:
            continue
        assert configs["broker.id"].config_source == FROM_STATIC_BROKER
        assert configs["log.segment.bytes"].config_source == FROM_DEFAULT
        if version >= 3:
            assert configs["broker.id"].config_type == INT
            assert configs["log.cleaner.min.cleanable.ratio"].config_type == DOUBLE
            assert configs["zookeeper.connect"].config_type == STRING
        # The name of all brokers has only what was set for all.
        assert "broker.id" not in describe(kafka, "", version=version, kind=BROKER)


def test_all_configs_are_those_of_apache_kafka(kafka: WireClient) -> None:
    """`describe_configs.tsv` is what Apache Kafka 3.9.1 says of the same topic and broker.

    Without what differs from one broker to the next: addresses, directories.
    """
    topic = kafka.create_topic(retention_ms="777", cleanup_policy="compact").name
    described = {
        kind: describe(kafka, name, kind=number, include_synonyms=True)
        for kind, number, name in (("topic", TOPIC, topic), ("broker", BROKER, my_id(kafka)))
    }
    lines = Path(__file__).with_name("describe_configs.tsv").read_text().splitlines()
    assert len(lines) > 300
    differences = []
    for line in lines:
        kind, name, expected = line.split("\t")
        config = described[kind].get(name)
        seen = config and [
            config.value,
            config.read_only,
            config.config_source,
            config.is_sensitive,
            config.config_type,
            [[synonym.name, synonym.value, synonym.source] for synonym in config.synonyms],
        ]
        if seen != json.loads(expected):
            differences.append(f"{kind} {name}: {seen} instead of {expected}")
    assert differences == []


def test_describe_configs_errors(kafka: WireClient) -> None:
    cases = [
        (TOPIC, unique("missing"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "99", ErrorCode.INVALID_REQUEST),
        (BROKER, "one", ErrorCode.INVALID_REQUEST),
    ]
    for version in kafka.versions(ApiKey.DESCRIBE_CONFIGS):
        for kind, name, error in cases:
            result = describe_all(kafka, version, kind, name)
            assert (result.error_code, result.configs) == (error, []), name


@covers(ApiKey.ALTER_CONFIGS)
def test_alter_configs_replaces_all(kafka: WireClient) -> None:
    for version in kafka.versions(ApiKey.ALTER_CONFIGS):
        topic = kafka.create_topic(segment_bytes="10000").name
        keys = ("retention.ms", "segment.bytes", "max.message.bytes")
        pairs: Pairs = {"retention.ms": "5000", "max.message.bytes": "900"}
        assert alter(kafka, version, topic, pairs, validate_only=True).error_code == 0
        assert values(kafka, topic, *keys) == ["604800000", "10000", "1048588"]
        result = alter(kafka, version, topic, pairs)
        assert (result.error_code, result.error_message or None) == (0, None)
        until(lambda t=topic, k=keys: values(kafka, t, *k), ["5000", "1073741824", "900"])
        until(
            lambda t=topic: kafka.produce(t, batch(b"x" * 1000)).error_code,
            ErrorCode.MESSAGE_TOO_LARGE,
        )
        assert alter(kafka, version, topic, {}).error_code == 0
        until(lambda t=topic, k=keys: values(kafka, t, *k), ["604800000", "1073741824", "1048588"])
        until(lambda t=topic: kafka.produce(t, batch(b"x" * 1000)).error_code, 0)


def test_alter_configs_errors(kafka: WireClient) -> None:
    topic = kafka.create_topic().name
    good: Pairs = {"retention.ms": "5000"}
    cases: list[tuple[int, str, Pairs, ErrorCode]] = [
        (TOPIC, unique("missing"), good, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, topic, {"retention.ms": "soon"}, ErrorCode.INVALID_CONFIG),
        (TOPIC, topic, {"no.such.key": "1"}, ErrorCode.INVALID_CONFIG),
        (TOPIC, topic, {"retention.ms": None}, ErrorCode.INVALID_REQUEST),
        (TOPIC, "", good, ErrorCode.INVALID_REQUEST),
        (BROKER, "99", {"log.segment.bytes": "5000"}, ErrorCode.INVALID_REQUEST),
    ]
    for version in kafka.versions(ApiKey.ALTER_CONFIGS):
        for kind, name, pairs, error in cases:
            result = alter(kafka, version, name, pairs, kind)
            assert result.error_code == error, (name, pairs)
            assert result.error_message
    assert values(kafka, topic, "retention.ms") == ["604800000"]


@covers(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def test_configs_change_one_by_one(kafka: WireClient) -> None:
    keys = ("retention.ms", "segment.bytes", "cleanup.policy")
    for version in kafka.versions(ApiKey.INCREMENTAL_ALTER_CONFIGS):
        topic = kafka.create_topic(segment_bytes="10000").name

        def seen(topic: str = topic) -> list[str | None]:
            return values(kafka, topic, *keys)

        steps: list[tuple[list[tuple[int, str, str | None]], list[str]]] = [
            ([(SET, "retention.ms", "5000")], ["5000", "10000", "delete"]),
            ([(APPEND, "cleanup.policy", "compact")], ["5000", "10000", "delete,compact"]),
            ([(APPEND, "cleanup.policy", "compact")], ["5000", "10000", "delete,compact"]),
            (
                [(SUBTRACT, "cleanup.policy", "delete"), (DELETE, "retention.ms", None)],
                ["604800000", "10000", "compact"],
            ),
            ([(DELETE, "cleanup.policy", None)], ["604800000", "10000", "delete"]),
        ]
        for changes, expected in steps:
            before = seen()
            assert change(kafka, version, topic, *changes, validate_only=True).error_code == 0
            assert seen() == before
            result = change(kafka, version, topic, *changes)
            assert (result.error_code, result.error_message or None) == (0, None)
            until(seen, expected)


def test_incremental_alter_configs_errors(kafka: WireClient) -> None:
    topic = kafka.create_topic().name
    invalid, wrong = ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST
    good = (SET, "retention.ms", "5000")
    cases: list[tuple[int, str, list[tuple[int, str, str | None]], ErrorCode]] = [
        (TOPIC, unique("missing"), [good], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, topic, [good, good], wrong),
        (TOPIC, topic, [(SET, "retention.ms", None)], wrong),
        (TOPIC, topic, [(SET, "retention.ms", "soon")], invalid),
        (TOPIC, topic, [(SET, "no.such.key", "1")], invalid),
        (TOPIC, topic, [(APPEND, "retention.ms", "5")], invalid),
        (TOPIC, topic, [(SUBTRACT, "retention.ms", "5")], invalid),
        (TOPIC, "", [good], wrong),
        (BROKER, "99", [(SET, "log.segment.bytes", "5000")], wrong),
        (9, topic, [good], wrong),
    ]
    for version in kafka.versions(ApiKey.INCREMENTAL_ALTER_CONFIGS):
        for kind, name, changes, error in cases:
            result = change(kafka, version, name, *changes, kind=kind)
            assert result.error_code == error, (name, changes)
            assert result.error_message
    assert values(kafka, topic, "retention.ms") == ["604800000"]


@pytest.fixture
def retries_of_brokers(kafka: WireClient) -> Iterator[str]:
    """The id of the broker, whose dynamic configs are taken back afterwards."""
    me = my_id(kafka)
    yield me
    for name in (me, ""):
        change(kafka, 1, name, (DELETE, "log.cleaner.backoff.ms", None), kind=BROKER)


def test_dynamic_broker_configs(kafka: WireClient, retries_of_brokers: str) -> None:
    me, key = retries_of_brokers, "log.cleaner.backoff.ms"

    def seen() -> tuple[str | None, int]:
        config = describe(kafka, me, key, kind=BROKER)[key]
        return config.value, config.config_source

    for version in kafka.versions(ApiKey.INCREMENTAL_ALTER_CONFIGS):
        assert change(kafka, version, "", (SET, key, "14000"), kind=BROKER).error_code == 0
        until(seen, ("14000", FROM_DEFAULT_BROKER))
        assert change(kafka, version, me, (SET, key, "13000"), kind=BROKER).error_code == 0
        until(seen, ("13000", FROM_BROKER))
        for name in (me, ""):
            assert change(kafka, version, name, (DELETE, key, None), kind=BROKER).error_code == 0
        until(seen, ("15000", FROM_DEFAULT))
        for name, value in (("broker.id", "8"), (key, "soon")):
            result = change(kafka, version, me, (SET, name, value), kind=BROKER)
            assert result.error_code == ErrorCode.INVALID_REQUEST


def test_topics_follow_the_brokers_default(kafka: WireClient) -> None:
    topic, key = kafka.create_topic().name, "log.retention.ms"

    def seen() -> tuple[str | None, int]:
        config = describe(kafka, topic, "retention.ms")["retention.ms"]
        return config.value, config.config_source

    try:
        assert change(kafka, 1, "", (SET, key, "99000000"), kind=BROKER).error_code == 0
        until(seen, ("99000000", FROM_DEFAULT_BROKER))
    finally:
        assert change(kafka, 1, "", (DELETE, key, None), kind=BROKER).error_code == 0
    until(seen, ("604800000", FROM_DEFAULT))


def test_a_key_of_one_listener_is_shown_under_its_own_name(kafka: WireClient) -> None:
    me, key = my_id(kafka), "listener.name.plaintext.max.connections"

    def seen() -> tuple[str | None, int] | None:
        config = describe(kafka, me, kind=BROKER).get(key)
        return config and (config.value, config.config_source)

    try:
        assert change(kafka, 1, me, (SET, key, "5000"), kind=BROKER).error_code == 0
        until(seen, ("5000", FROM_BROKER))
        (config,) = describe(kafka, me, key, kind=BROKER, include_synonyms=True).values()
        assert [(s.name, s.value, s.source) for s in config.synonyms] == [
            (key, "5000", FROM_BROKER),
            ("max.connections", "2147483647", FROM_DEFAULT),
        ]
    finally:
        assert change(kafka, 1, me, (DELETE, key, None), kind=BROKER).error_code == 0
    until(seen, None)
