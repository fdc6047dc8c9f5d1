"""Features of a broker, finalized and lowered again."""

from __future__ import annotations

from typing import Any

from pybroker_kafka.protocol.apis.api_versions import ApiVersionsRequest
from pybroker_kafka.protocol.apis.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.patience import until
from tests.support.wire import WireClient

UPGRADE, SAFE_DOWNGRADE = 1, 2


def versions(client: WireClient, version: int = 4) -> Any:
    about = ApiVersionsRequest(client_software_name="wire", client_software_version="1")
    return client.call(about, version)


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
