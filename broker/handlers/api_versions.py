"""ApiVersions v0-4: the APIs served here, the first question of a client.

Rules: SEMANTICS 2. A version that is not known is answered before it comes here, in the form of
version 0 (KIP-511).

Mirrors `ApiVersionManager`. Leaves out finalized features (there are none in ZooKeeper mode).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from ...protocol.api import API_TABLE, ApiKey
from ...protocol.apis.api_versions import ApiVersion, ApiVersionsResponse
from ...protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ..network.request import Handler, Request

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


class ApiVersionsHandler:
    __slots__ = ("_feature_epoch", "_served")

    def __init__(
        self,
        served: Callable[[], Iterable[ApiKey]],
        *,
        feature_epoch: Callable[[], int] = lambda: -1,
    ) -> None:
        self._served = served
        self._feature_epoch = feature_epoch

    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {ApiKey.API_VERSIONS: self.api_versions}

    def api_versions(self, request: Request) -> None:
        body = request.body
        if request.api_version >= 3 and not (
            _SOFTWARE.fullmatch(body.client_software_name)
            and _SOFTWARE.fullmatch(body.client_software_version)
        ):
            request.fail(ErrorCode.INVALID_REQUEST)
            return
        request.respond(
            ApiVersionsResponse(
                api_keys=[
                    ApiVersion(
                        api_key=key,
                        min_version=API_TABLE[key].min_version,
                        max_version=API_TABLE[key].max_version,
                    )
                    for key in self._served()
                ],
                finalized_features_epoch=self._feature_epoch(),
            )
        )
