"""The cluster itself: its id, brokers and controller, the APIs of a broker, and features.

Mirrors: describeCluster, describeFeatures and updateFeatures of KafkaAdminClient, and
BrokerApiVersionsCommand.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ...protocol.api import API_TABLE, ApiKey
from ...protocol.apis.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ...protocol.apis.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from ..cluster import Cluster
from ..connection import CLIENT_ID, CLIENT_VERSION, Connection
from .results import Results, refused
from .routing import ask_brokers


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """The address of a broker; `rack` is None if it has none."""

    broker_id: int
    host: str
    port: int
    rack: str | None


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """A cluster; `cluster_id` is None if an old broker does not send it, `controller_id` -1 if
    there is none."""

    cluster_id: str | None
    controller_id: int
    brokers: tuple[BrokerInfo, ...]


@dataclass(frozen=True, slots=True)
class ApiRange:
    """The versions of an API that a broker serves, and the newest of them that we support."""

    key: int
    name: str
    min_version: int
    max_version: int
    usable: int | None


@dataclass(frozen=True, slots=True)
class BrokerApis:
    """The APIs of a broker, its supported features with their levels, and the levels in force."""

    apis: tuple[ApiRange, ...]
    supported_features: Mapping[str, tuple[int, int]]
    finalized_features: Mapping[str, tuple[int, int]]
    features_epoch: int


class ClusterQueries:
    """`ClusterQueries(cluster)`; each method raises ClientError if no broker answers."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def describe(self) -> ClusterInfo:
        """The cluster as the first broker that answers knows it."""
        answer = await self._cluster.metadata([])
        return ClusterInfo(
            cluster_id=answer.cluster_id,
            controller_id=answer.controller_id,
            brokers=tuple(
                sorted(
                    (BrokerInfo(b.node_id, b.host, b.port, b.rack) for b in answer.brokers),
                    key=lambda broker: broker.broker_id,
                )
            ),
        )

    async def api_versions(
        self, broker_ids: Collection[int] | None = None
    ) -> Results[int, BrokerApis]:
        """The APIs that each broker serves (None: all brokers)."""

        async def ask(connection: Connection, _broker_id: int) -> BrokerApis:
            request = ApiVersionsRequest(
                client_software_name=CLIENT_ID, client_software_version=CLIENT_VERSION
            )
            answer = await connection.request(ApiKey.API_VERSIONS, request, ApiVersionsResponse)
            self._cluster.asks("describe").check(answer.error_code, None, "cannot ask for APIs")
            return BrokerApis(
                apis=tuple(
                    _range(api.api_key, api.min_version, api.max_version)
                    for api in sorted(answer.api_keys, key=lambda api: api.api_key)
                ),
                supported_features={
                    one.name: (one.min_version, one.max_version)
                    for one in answer.supported_features
                },
                finalized_features={
                    one.name: (one.min_version_level, one.max_version_level)
                    for one in answer.finalized_features
                },
                features_epoch=answer.finalized_features_epoch,
            )

        return await ask_brokers(self._cluster, broker_ids, ask)

    async def update_features(
        self,
        levels: Mapping[str, int],
        *,
        allow_downgrade: bool = False,
        validate_only: bool = False,
    ) -> Results[str, None]:
        """Set features to these levels; 0 removes a feature. Raises Refused if all are refused."""
        connection_key = ApiKey.UPDATE_FEATURES
        request = UpdateFeaturesRequest(
            feature_updates=[
                FeatureUpdateKey(
                    feature=name, max_version_level=level, upgrade_type=2 if allow_downgrade else 1
                )
                for name, level in levels.items()
            ],
            validate_only=validate_only,
        )
        answer = await self._cluster.ask_controller(connection_key, request, UpdateFeaturesResponse)
        asked = self._cluster.asks("alter")
        asked.check(answer.error_code, answer.error_message, "cannot update features")
        results: Results[str, None] = Results()
        for one in answer.results:
            what = f"cannot update feature {one.feature!r}"
            error = refused(asked, one.error_code, one.error_message, what)
            results.put(one.feature, None, error)
        for name in levels.keys() - results.values.keys() - results.errors.keys():
            results.put(name, None, None)  # from version 2 on one answer is for all
        return results


def _range(key: int, first: int, last: int) -> ApiRange:
    """The versions of an API; an API unknown to us has its number as its name."""
    if key not in API_TABLE:
        return ApiRange(key, f"API {key}", first, last, None)
    ours = API_TABLE[ApiKey(key)]
    newest = min(last, ours.max_version)
    is_usable = newest >= max(first, ours.min_version)
    return ApiRange(key, ours.name, first, last, newest if is_usable else None)
