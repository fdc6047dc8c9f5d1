"""UpdateFeatures: nothing to raise in 3.9, but what another version has left can be deleted."""

import pytest

from pybroker_kafka.protocol.apis.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from pybroker_kafka.protocol.errors import ErrorCode
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
