"""Finalized features bring the protocols of Kafka 4, and take them away again.

One broker, whose features are raised and lowered; what it served before it serves after.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pybroker_kafka.protocol.api import API_TABLE
from pybroker_kafka.protocol.apis.api_versions import ApiVersionsRequest
from pybroker_kafka.protocol.apis.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.features import SUPPORTED, Feature
from tests.support.patience import until
from tests.support.processes import BrokerProcess, running_broker
from tests.support.wire import WireClient

UPGRADE, SAFE_DOWNGRADE = 1, 2


@pytest.fixture(scope="module")
def raised(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running_broker(tmp_path_factory.mktemp("features")) as broker:
        yield broker


@pytest.fixture
def kafka(raised: BrokerProcess) -> Iterator[WireClient]:
    with WireClient(raised.bootstrap) as client:
        yield client


def versions(client: WireClient, version: int = 4) -> Any:
    about = ApiVersionsRequest(client_software_name="wire", client_software_version="1")
    return client.call(about, version)


def ranges(answer: Any) -> dict[int, tuple[int, int]]:
    return {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}


def finalize(client: WireClient, levels: dict[str, int], kind: int = UPGRADE) -> None:
    """And wait until this connection's broker serves it."""
    updates = [
        FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
        for name, level in levels.items()
    ]
    answer = client.call(UpdateFeaturesRequest(feature_updates=updates), 1)
    told = {result.feature: result.error_code for result in answer.results}
    assert told == dict.fromkeys(levels, ErrorCode.NONE), answer

    def is_known() -> bool:
        now = {one.name: one.max_version_level for one in versions(client).finalized_features}
        return all(now.get(name, 0) == level for name, level in levels.items())

    until(is_known)


def test_with_nothing_finalized_it_is_a_broker_of_39(kafka: WireClient) -> None:
    before = versions(kafka)
    assert (before.supported_features, before.finalized_features) == ([], [])
    finalize(kafka, {Feature.GROUP: 1, Feature.TRANSACTION: 2})
    raised = versions(kafka)
    assert {(one.name, one.min_version, one.max_version) for one in raised.supported_features} == {
        (name, low, high) for name, (low, high) in SUPPORTED.items()
    }
    assert {(one.name, one.max_version_level) for one in raised.finalized_features} == {
        (Feature.GROUP, 1),
        (Feature.TRANSACTION, 2),
    }
    assert raised.finalized_features_epoch > before.finalized_features_epoch
    # Clients of before version 4 cannot read a least level of 0.
    assert [one.name for one in versions(kafka, 3).supported_features] == [Feature.METADATA]
    expected = {
        int(key): (spec.min_version, spec.highest({Feature.GROUP: 1}))
        for key, spec in API_TABLE.items()
        if spec.highest({Feature.GROUP: 1}) >= spec.min_version
    }
    assert ranges(raised) == expected
    finalize(kafka, {Feature.GROUP: 0, Feature.TRANSACTION: 0}, SAFE_DOWNGRADE)
    after = versions(kafka)
    assert ranges(after) == ranges(before)
    assert (after.supported_features, after.finalized_features) == ([], [])
