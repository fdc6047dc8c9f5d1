"""The states of share partitions, for leaders and group coordinators (KIP-932).

| API | versions | notes |
|---|---|---|
| InitializeShareGroupState | 0 | |
| ReadShareGroupState | 0 | |
| WriteShareGroupState | 0-1 | v1 counts what is delivered for good |
| DeleteShareGroupState | 0 | |
| ReadShareGroupStateSummary | 0-1 | v1 counts what is delivered for good |

Each handler gives the request to the share coordinator's machine; the answer is a later effect.

Mirrors the handlers of the same names in KafkaApis.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...protocol.api import ApiKey
from ..coordinators.share_runtime import ShareRuntime

if TYPE_CHECKING:
    from ..network.request import Handler, Request


class ShareStateHandlers:
    __slots__ = ("_runtime",)

    def __init__(self, runtime: ShareRuntime) -> None:
        self._runtime = runtime

    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {
            ApiKey.INITIALIZE_SHARE_GROUP_STATE: self.initialize,
            ApiKey.READ_SHARE_GROUP_STATE: self.read,
            ApiKey.WRITE_SHARE_GROUP_STATE: self.write,
            ApiKey.DELETE_SHARE_GROUP_STATE: self.delete,
            ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: self.read_summary,
        }

    def initialize(self, request: Request) -> None:
        self._runtime.machine.initialize(request, request.body, self._runtime.now_ms)
        self._runtime.perform()

    def read(self, request: Request) -> None:
        self._runtime.machine.read(request, request.body, self._runtime.now_ms)
        self._runtime.perform()

    def write(self, request: Request) -> None:
        self._runtime.write(request, request.body, self._runtime.now_ms)
        self._runtime.perform()

    def delete(self, request: Request) -> None:
        self._runtime.machine.delete(request, request.body, self._runtime.now_ms)
        self._runtime.perform()

    def read_summary(self, request: Request) -> None:
        self._runtime.machine.read_summary(request, request.body, self._runtime.now_ms)
        self._runtime.perform()
