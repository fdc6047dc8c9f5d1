"""Configs of groups as on the wire, and their effect on a group that has members."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pybroker_kafka.protocol.apis.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterableConfig,
    AlterConfigsRequestAlterConfigsResource,
)
from pybroker_kafka.protocol.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pybroker_kafka.protocol.apis.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from pybroker_kafka.protocol.apis.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from pybroker_kafka.protocol.apis.list_config_resources import ListConfigResourcesRequest
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.patience import until
from tests.support.wire import WireClient, unique

GROUP = 32
SET, DELETE, APPEND = 0, 1, 2
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
OF_GROUP, OF_STATIC, OF_DEFAULT = 8, 4, 5


def alter(client: WireClient, name: str, *changes: tuple[str, int, str | None]) -> Any:
    configs = [
        IncrementalAlterConfigsRequestAlterableConfig(name=key, config_operation=how, value=value)
        for key, how, value in changes
    ]
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=GROUP, resource_name=name, configs=configs
    )
    (result,) = client.call(IncrementalAlterConfigsRequest(resources=[resource])).responses
    return result


def replace(client: WireClient, name: str, configs: dict[str, str]) -> int:
    resource = AlterConfigsRequestAlterConfigsResource(
        resource_type=GROUP,
        resource_name=name,
        configs=[
            AlterConfigsRequestAlterableConfig(name=key, value=value)
            for key, value in configs.items()
        ],
    )
    (result,) = client.call(AlterConfigsRequest(resources=[resource])).responses
    return int(result.error_code)


def described(client: WireClient, name: str, *keys: str) -> Any:
    resource = DescribeConfigsResource(
        resource_type=GROUP, resource_name=name, configuration_keys=list(keys) or None
    )
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    (result,) = client.call(request).results
    return result


def listed(client: WireClient) -> set[str]:
    answer = client.call(ListConfigResourcesRequest(resource_types=[GROUP]), 1)
    assert answer.error_code == 0
    return {one.resource_name for one in answer.config_resources}


@pytest.fixture
def group(finalized: WireClient) -> Iterator[str]:
    name = unique("a group/")
    yield name
    assert replace(finalized, name, {}) == 0
    until(lambda: name not in listed(finalized))


def test_without_a_finalized_feature_it_is_as_in_39(kafka: WireClient) -> None:
    result = alter(kafka, "g", (SESSION, SET, "50000"))
    assert (result.error_code, result.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "Unknown resource type 32",
    )
    result = described(kafka, "g")
    assert (result.error_code, result.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "Unsupported resource type: 32",
    )


def test_configs_of_a_group_are_described(finalized: WireClient, group: str) -> None:
    assert alter(finalized, group, (SESSION, SET, "50000")).error_code == 0
    until(lambda: group in listed(finalized))
    found = {one.name: one for one in described(finalized, group).configs}
    assert len(found) == 17
    assert (found[SESSION].value, found[SESSION].config_source) == ("50000", OF_GROUP)
    assert [(one.name, one.value, one.source) for one in found[SESSION].synonyms] == [
        (SESSION, "50000", OF_GROUP),
        ("group.consumer.session.timeout.ms", "45000", OF_DEFAULT),
    ]
    reset = found["share.auto.offset.reset"]
    assert (reset.value, reset.config_source) == ("latest", OF_DEFAULT)
    locks = found["share.partition.max.record.locks"]
    assert (locks.value, locks.config_source) == ("2000", OF_DEFAULT)
    (one,) = described(finalized, group, SESSION).configs
    assert one.name == SESSION
    assert alter(finalized, group, (SESSION, DELETE, None)).error_code == 0
    until(lambda: group not in listed(finalized))
    (one,) = described(finalized, group, SESSION).configs
    assert (one.value, one.config_source) == ("45000", OF_DEFAULT)


@pytest.mark.parametrize(
    ("name", "change", "code", "message"),
    [
        ("", (SESSION, SET, "50000"), ErrorCode.INVALID_REQUEST,
         "Default group resources are not allowed."),
        ("..", (SESSION, SET, "50000"), ErrorCode.INVALID_REQUEST,
         "A group of this name cannot have configs: '..'"),
        ("g", ("x", SET, "1"), ErrorCode.INVALID_CONFIG, "Unknown group config name: x"),
        ("g", (SESSION, SET, "70000"), ErrorCode.INVALID_CONFIG,
         "consumer.session.timeout.ms must be less than or equal to "
         "group.consumer.max.session.timeout.ms"),
        ("g", (SESSION, APPEND, "1"), ErrorCode.INVALID_CONFIG,
         "Config value append is not allowed for config key: consumer.session.timeout.ms"),
    ],
)  # fmt: skip
def test_alterations_that_make_no_sense(
    finalized: WireClient, name: str, change: tuple[str, int, str], code: int, message: str
) -> None:
    result = alter(finalized, name, change)
    assert (result.error_code, result.error_message) == (code, message)


def test_no_group_has_an_empty_name(finalized: WireClient) -> None:
    result = described(finalized, "")
    assert (result.error_code, result.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "Group name must not be empty",
    )
    assert described(finalized, "..").error_code == 0


def test_a_living_group_follows_its_config(finalized: WireClient, group: str) -> None:
    topic = finalized.create_topic()
    joining = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=[topic.name],
        topic_partitions=[],
    )
    finalized.coordinator(group)

    def beat(epoch: int) -> Any:
        request = ConsumerGroupHeartbeatRequest(group_id=group, member_id="m", member_epoch=epoch)
        return finalized.call(request, 1)

    until(lambda: finalized.call(joining, 1).error_code == 0)
    joined = finalized.call(joining, 1)
    assert (joined.error_code, joined.heartbeat_interval_ms) == (0, 5000)
    assert alter(finalized, group, (HEARTBEAT, SET, "7000")).error_code == 0
    until(lambda: beat(joined.member_epoch).heartbeat_interval_ms == 7000)
    assert replace(finalized, group, {HEARTBEAT: "9000"}) == 0
    until(lambda: beat(joined.member_epoch).heartbeat_interval_ms == 9000)
    assert beat(-1).error_code == 0
