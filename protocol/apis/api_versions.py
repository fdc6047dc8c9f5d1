"""ApiVersions: which APIs a broker serves, and in which versions.

Clients send it first on a connection.
Versions: 3 is flexible and carries the client's name (KIP-511) and the cluster's features
(KIP-584); 4 may tell features whose least version is 0. The response header is never flexible.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Any, Final

from ..access_rules import AccessRules, AnyRequest
from ..api_page import Api, Failure
from ..errors import ErrorCode
from ..schema import (
    Message,
    Struct,
    array,
    boolean,
    int16,
    int32,
    int64,
    message,
    string,
    version_range,
)


@message(api_key=18, kind="request", valid="0-4", flexible="3+")
class ApiVersionsRequest(Message):
    client_software_name: str = string("3+", ignorable=True)
    client_software_version: str = string("3+", ignorable=True)


class ApiVersion(Struct):
    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


class SupportedFeatureKey(Struct):
    name: str = string("3+")
    min_version: int = int16("3+")
    max_version: int = int16("3+")


class FinalizedFeatureKey(Struct):
    name: str = string("3+")
    max_version_level: int = int16("3+")
    min_version_level: int = int16("3+")


@message(api_key=18, kind="response", valid="0-4", flexible="3+")
class ApiVersionsResponse(Message):
    error_code: int = int16()
    api_keys: list[ApiVersion] = array(ApiVersion)
    throttle_time_ms: int = int32("1+", ignorable=True)
    supported_features: list[SupportedFeatureKey] = array(
        SupportedFeatureKey, "3+", ignorable=True, tag=0
    )
    finalized_features_epoch: int = int64("3+", default=-1, ignorable=True, tag=1)
    finalized_features: list[FinalizedFeatureKey] = array(
        FinalizedFeatureKey, "3+", ignorable=True, tag=2
    )
    zk_migration_ready: bool = boolean("3+", ignorable=True, tag=3)


def _with_own_versions(_request: AnyRequest, answer: Any, code: int) -> Any:
    """Answer an unsupported version with the supported ones, in the form of version 0."""
    if code == ErrorCode.UNSUPPORTED_VERSION:
        first, last = version_range(ApiVersionsRequest._spec.valid)
        key = ApiVersionsRequest._spec.api_key
        answer.api_keys = [ApiVersion(api_key=key, min_version=first, max_version=last)]
    return answer


API: Final = Api(
    request=ApiVersionsRequest,
    response=ApiVersionsResponse,
    access=AccessRules(note="For everybody."),
    failure=Failure(finish=_with_own_versions),
    has_small_answers=True,
)
