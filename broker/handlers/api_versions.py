"""ApiVersions v0-4: the APIs served here, the first question of a client.

Rules: SEMANTICS 2. A version that is not known is answered before it comes here, in the form of
version 0 (KIP-511).

Features are answered once any is finalized; until then the answer is that of 3.9, byte for byte.
Before version 4 a client cannot read a least level of 0, so features whose levels begin there are
left out, as Kafka 4.3 does (KIP-1022).

Mirrors `ApiVersionManager`, and `ApiVersionsResponse` of Kafka 4.3.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from ...protocol.api import ApiKey
from ...protocol.apis.api_versions import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from ...protocol.errors import ErrorCode
from ...protocol.features import NOTHING_FINALIZED, SUPPORTED, Levels

if TYPE_CHECKING:
    from ..network.request import Handler, Request

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
LEVEL_0_SINCE_VERSION = 4


class ApiVersionsHandler:
    __slots__ = ("_features", "_served")

    def __init__(
        self,
        served: Callable[[], Iterable[tuple[ApiKey, int, int]]],
        features: Callable[[], tuple[int, Levels]] = lambda: (-1, NOTHING_FINALIZED),
    ) -> None:
        """`served` has the first and the last version of each API; `features` the epoch and the
        levels of what is finalized."""
        self._served = served
        self._features = features

    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {ApiKey.API_VERSIONS: self.api_versions}

    def api_versions(self, request: Request) -> None:
        body, version = request.body, request.api_version
        if version >= 3 and not (
            _SOFTWARE.fullmatch(body.client_software_name)
            and _SOFTWARE.fullmatch(body.client_software_version)
        ):
            request.fail(ErrorCode.INVALID_REQUEST)
            return
        if version >= 3:
            peer = request.peer
            peer.software_name = body.client_software_name
            peer.software_version = body.client_software_version
        epoch, levels = self._features()
        request.respond(
            ApiVersionsResponse(
                api_keys=[
                    ApiVersion(api_key=key, min_version=first, max_version=last)
                    for key, first, last in self._served()
                ],
                supported_features=_supported(version) if levels else [],
                finalized_features_epoch=epoch,
                finalized_features=[
                    FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
                    for name, level in levels.items()
                ],
            )
        )


def _supported(version: int) -> list[SupportedFeatureKey]:
    return [
        SupportedFeatureKey(name=name, min_version=low, max_version=high)
        for name, (low, high) in SUPPORTED.items()
        if low or version >= LEVEL_0_SINCE_VERSION
    ]
