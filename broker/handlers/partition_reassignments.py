"""AlterPartitionReassignments v0 and ListPartitionReassignments v0 (KIP-455).

Each becomes an event of the controller machine; the answer is the machine's. A broker that is not
the controller answers NOT_CONTROLLER.

Mirrors the handlers of the same names in KafkaApis. Leaves out authorization.
"""

from collections.abc import Mapping

from ...protocol.api import ApiKey
from ...replication.controller import events
from ..cluster.controller_runtime import ControllerRuntime
from ..network.request import Handler, Request


class PartitionReassignmentHandlers:
    __slots__ = ("_controller",)

    def __init__(self, controller: ControllerRuntime) -> None:
        self._controller = controller

    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {
            ApiKey.ALTER_PARTITION_REASSIGNMENTS: self.alter_partition_reassignments,
            ApiKey.LIST_PARTITION_REASSIGNMENTS: self.list_partition_reassignments,
        }

    async def alter_partition_reassignments(self, request: Request) -> None:
        body = request.body
        answer = await self._controller.ask(lambda t: events.AlterPartitionReassignments(t, body))
        request.respond(answer)

    async def list_partition_reassignments(self, request: Request) -> None:
        body = request.body
        answer = await self._controller.ask(lambda t: events.ListPartitionReassignments(t, body))
        request.respond(answer)
