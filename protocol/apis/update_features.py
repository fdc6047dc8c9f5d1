"""UpdateFeatures: the finalized features of the cluster (KIP-584, KIP-778).

Tools and admin clients send it to the controller.
Versions: 1 has the kind of a downgrade, and can validate only; 2 answers once for all features
(KIP-1022).

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import AccessRules, on_cluster
from ..acls import AclOperation
from ..api_page import Api, Handling
from ..features import Later
from ..schema import Message, Struct, array, boolean, int8, int16, int32, message, string


class FeatureUpdateKey(Struct):
    feature: str = string()
    max_version_level: int = int16()
    allow_downgrade: bool = boolean("0")
    upgrade_type: int = int8("1+", default=1)


@message(api_key=57, kind="request", valid="0-2", flexible="0+")
class UpdateFeaturesRequest(Message):
    timeout_ms: int = int32(default=60_000)
    feature_updates: list[FeatureUpdateKey] = array(FeatureUpdateKey)
    validate_only: bool = boolean("1+")


class UpdatableFeatureResult(Struct):
    feature: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


@message(api_key=57, kind="response", valid="0-2", flexible="0+")
class UpdateFeaturesResponse(Message):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    results: list[UpdatableFeatureResult] = array(UpdatableFeatureResult, "0-1", ignorable=True)


API: Final = Api(
    request=UpdateFeaturesRequest,
    response=UpdateFeaturesResponse,
    access=AccessRules((on_cluster(AclOperation.ALTER),)),
    since="2.7",
    later=Later(2),
    handling=Handling.WAITS,
)
