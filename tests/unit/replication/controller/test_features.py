"""UpdateFeatures: every broker must support a level; what another version has left is deleted."""

import pytest

from pybroker_kafka.protocol.apis.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.features import SUPPORTED, Feature
from pybroker_kafka.protocol.zookeeper.operations import SetData
from pybroker_kafka.replication.controller import events, znodes
from pybroker_kafka.replication.controller.features import SAFE_DOWNGRADE, UNSAFE_DOWNGRADE, UPGRADE
from tests.support.controller_cluster import ControllerCluster


def cluster_with_feature() -> ControllerCluster:
    cluster = ControllerCluster([1])
    cluster.write(SetData(znodes.FEATURE, znodes.encode_features({"f": 3, "g": 1})))
    return cluster


def update(
    cluster: ControllerCluster, *asked: FeatureUpdateKey, version: int = 1, validate: bool = False
) -> list[tuple[str, int]]:
    request = UpdateFeaturesRequest(feature_updates=[*asked], validate_only=validate)
    answer = cluster.ask(events.UpdateFeatures, request, version)
    assert answer.error_code == ErrorCode.NONE
    return [(result.feature, result.error_code) for result in answer.results]


def finalized(cluster: ControllerCluster) -> dict[str, int]:
    return znodes.decode_features(cluster.tree.nodes[znodes.FEATURE].data)


@pytest.mark.parametrize("version", [0, 1])
def test_a_finalized_feature_is_deleted(version: int) -> None:
    cluster = cluster_with_feature()
    drop = FeatureUpdateKey(feature="f", max_version_level=0, upgrade_type=SAFE_DOWNGRADE)
    drop.allow_downgrade = True
    unknown = FeatureUpdateKey(feature="h", max_version_level=1)
    outcomes = update(cluster, drop, unknown, version=version)
    assert outcomes == [("f", ErrorCode.NONE), ("h", ErrorCode.INVALID_REQUEST)]
    assert finalized(cluster) == {"g": 1}


TWELVE = (9, 8, 7, 6, 5, 4, 3, 2, 11, 1, 10, 0)


def test_answers_are_in_the_order_of_apache_kafka() -> None:
    """As its 3.9.1 answered: the order of a Scala hash map, which doubles at twelve names."""
    cluster = cluster_with_feature()
    for names, expected in (
        (["raise", "", "how", "drop"], ["", "drop", "how", "raise"]),
        ([f"feature-{i}" for i in range(7)], [f"feature-{i}" for i in range(6, -1, -1)]),
        (
            [f"feature-{i}" for i in range(12)],
            [f"feature-{i}" for i in TWELVE],
        ),
    ):
        asked = [FeatureUpdateKey(feature=name, max_version_level=1) for name in names]
        assert [name for name, _ in update(cluster, *asked)] == expected


def test_validating_only_writes_nothing() -> None:
    cluster = cluster_with_feature()
    drop = FeatureUpdateKey(feature="f", max_version_level=0, upgrade_type=UNSAFE_DOWNGRADE)
    assert update(cluster, drop, validate=True) == [("f", ErrorCode.NONE)]
    assert finalized(cluster) == {"f": 3, "g": 1}


@pytest.mark.parametrize(
    ("feature", "level", "upgrade_type"),
    [
        ("", 1, UPGRADE),
        ("f", 4, 0),
        ("f", 0, UPGRADE),
        ("h", 0, SAFE_DOWNGRADE),
        ("f", 3, UPGRADE),
        ("f", 2, UPGRADE),
        ("f", 4, SAFE_DOWNGRADE),
        ("f", 4, UPGRADE),
        ("f", 2, SAFE_DOWNGRADE),
        ("h", 1, UPGRADE),
    ],
)
def test_everything_else_is_refused(feature: str, level: int, upgrade_type: int) -> None:
    cluster = cluster_with_feature()
    asked = FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=upgrade_type)
    assert update(cluster, asked) == [(feature, ErrorCode.INVALID_REQUEST)]
    assert finalized(cluster) == {"f": 3, "g": 1}


def raise_to(feature: str, level: int, kind: int = UPGRADE) -> FeatureUpdateKey:
    return FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=kind)


def supporting(*brokers: int, without: tuple[int, ...] = ()) -> ControllerCluster:
    """Brokers that support the features of Kafka 4, and others that do not."""
    cluster = ControllerCluster([])
    for broker in brokers:
        cluster.start(broker, features=SUPPORTED)
    for broker in without:
        cluster.start(broker)
    return cluster


def test_a_supported_level_is_finalized() -> None:
    cluster = supporting(1, 2)
    raised = [raise_to(Feature.GROUP, 1), raise_to(Feature.METADATA, 30)]
    assert update(cluster, *raised) == [(one.feature, ErrorCode.NONE) for one in raised]
    assert finalized(cluster) == {Feature.GROUP: 1, Feature.METADATA: 30}
    lowered = raise_to(Feature.METADATA, 22, SAFE_DOWNGRADE)
    assert update(cluster, lowered) == [(Feature.METADATA, ErrorCode.NONE)]
    assert finalized(cluster) == {Feature.GROUP: 1, Feature.METADATA: 22}


def test_one_broker_without_support_prevents_it() -> None:
    cluster = supporting(1, without=(2,))
    refused = [(Feature.GROUP, ErrorCode.INVALID_REQUEST)]
    assert update(cluster, raise_to(Feature.GROUP, 1)) == refused
    assert finalized(cluster) == {}


@pytest.mark.parametrize(
    ("feature", "level", "problem"),
    [
        ("kraft.version", 1, "the provided feature is not supported."),
        (Feature.METADATA, 21, "versionLevel:21 is lower than the supported minVersion:22."),
        (Feature.GROUP, 2, "brokers were found to have incompatible versions for the feature."),
    ],
)
def test_levels_that_are_not_supported(feature: str, level: int, problem: str) -> None:
    cluster = supporting(1)
    request = UpdateFeaturesRequest(feature_updates=[raise_to(feature, level)])
    (result,) = cluster.ask(events.UpdateFeatures, request, 1).results
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert result.error_message.endswith(problem)


def test_from_version_2_on_all_or_nothing() -> None:
    cluster = supporting(1)
    asked = [raise_to(Feature.GROUP, 1), raise_to("kraft.version", 1)]
    answer = cluster.ask(events.UpdateFeatures, UpdateFeaturesRequest(feature_updates=asked), 2)
    assert (answer.error_code, answer.results) == (ErrorCode.INVALID_REQUEST, [])
    assert answer.error_message.startswith(
        "The update failed for all features since the following feature had an error: "
        "kraft.version: "
    )
    assert finalized(cluster) == {}
    answer = cluster.ask(events.UpdateFeatures, UpdateFeaturesRequest(feature_updates=asked[:1]), 2)
    assert answer == UpdateFeaturesResponse(error_message=None)
    assert finalized(cluster) == {Feature.GROUP: 1}
