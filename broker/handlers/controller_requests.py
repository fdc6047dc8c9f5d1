"""Requests to the controller: AlterPartition v0-3, ControlledShutdown v0-3, AllocateProducerIds v0
from collections.abc import Mapping
from ...protocol.api import ApiKey
from ...replication.controller import events
from ..cluster.controller_runtime import ControllerRuntime
from ..network.request import Handler, Request
from brokers; UpdateFeatures v0-1, and AlterPartitionReassignments v0 and ListPartitionReassignments
v0 (KIP-455) from administrators.

Each request becomes an event of the controller machine; the answer is the machine's. A broker that
is not the controller answers NOT_CONTROLLER, and STALE_CONTROLLER_EPOCH to ControlledShutdown. See
also `elect_leaders` and `topics`.

Mirrors the handlers of the same names in KafkaApis. Leaves out authorization.
"""

from collections.abc import Mapping

from ...protocol.api import ApiKey
from ...protocol.apis.update_features import UpdateFeaturesResponse
from ...protocol.errors import ErrorCode
from ...replication.controller import events
from ..cluster.controller_runtime import ControllerRuntime
from ..network.request import Handler, Request

MAX_FEATURES = 1000  # a cluster has a few


class ControllerRequestHandlers:
    __slots__ = ("_controller",)

    def __init__(self, controller: ControllerRuntime) -> None:
        self._controller = controller

    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {
            ApiKey.ALTER_PARTITION: self.alter_partition,
            ApiKey.CONTROLLED_SHUTDOWN: self.controlled_shutdown,
            ApiKey.ALLOCATE_PRODUCER_IDS: self.allocate_producer_ids,
            ApiKey.UPDATE_FEATURES: self.update_features,
            ApiKey.ALTER_PARTITION_REASSIGNMENTS: self.alter_partition_reassignments,
            ApiKey.LIST_PARTITION_REASSIGNMENTS: self.list_partition_reassignments,
        }

    async def alter_partition(self, request: Request) -> None:
        body, version = request.body, request.api_version
        answer = await self._controller.ask(lambda t: events.AlterPartition(t, body, version))
        request.respond(answer)

    async def controlled_shutdown(self, request: Request) -> None:
        body = request.body
        request.respond(await self._controller.ask(lambda t: events.ControlledShutdown(t, body)))

    async def allocate_producer_ids(self, request: Request) -> None:
        body = request.body
        request.respond(await self._controller.ask(lambda t: events.AllocateProducerIds(t, body)))

    async def update_features(self, request: Request) -> None:
        body, version = request.body, request.api_version
        if len(body.feature_updates) > MAX_FEATURES:
            request.respond(UpdateFeaturesResponse(error_code=ErrorCode.INVALID_REQUEST))
            return
        answer = await self._controller.ask(lambda t: events.UpdateFeatures(t, body, version))
        request.respond(answer)

    async def alter_partition_reassignments(self, request: Request) -> None:
        body = request.body
        answer = await self._controller.ask(lambda t: events.AlterPartitionReassignments(t, body))
        request.respond(answer)

    async def list_partition_reassignments(self, request: Request) -> None:
        body = request.body
        answer = await self._controller.ask(lambda t: events.ListPartitionReassignments(t, body))
        request.respond(answer)
