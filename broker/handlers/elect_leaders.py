"""ElectLeaders v0-2: an election of preferred leaders, or of unclean ones.

The request becomes an event of the controller machine; the answer waits until this broker knows of
the new leaders. A broker that is not the controller answers NOT_CONTROLLER.

Mirrors KafkaApis.handleElectLeaders. Leaves out authorization.
"""

from collections.abc import Mapping

import trio

from ...protocol.api import ApiKey
from ...protocol.apis.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from ...protocol.errors import ErrorCode
from ...protocol.topics import TopicPartition
from ...replication.controller import events
from ...replication.controller.requests import ElectionResult
from ..cluster.controller_runtime import ControllerRuntime
from ..cluster.metadata_waits import MetadataWaits
from ..network.request import Handler, Request
from .client_waits import waiting_for

PREFERRED, UNCLEAN = 0, 1
TYPE_SINCE_VERSION = 1


class ElectLeadersHandler:
    __slots__ = ("_controller", "_waits")

    def __init__(self, controller: ControllerRuntime, waits: MetadataWaits) -> None:
        self._controller = controller
        self._waits = waits

    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {ApiKey.ELECT_LEADERS: self.elect_leaders}

    async def elect_leaders(self, request: Request) -> None:
        body: ElectLeadersRequest = request.body
        election = body.election_type if request.api_version >= TYPE_SINCE_VERSION else PREFERRED
        if election not in (PREFERRED, UNCLEAN):
            request.fail(ErrorCode.INVALID_REQUEST)
            return
        everywhere = body.topic_partitions is None
        if everywhere:
            asked = tuple(self._waits.all_partitions())
        else:
            asked = tuple(
                (topic.topic, index)
                for topic in body.topic_partitions or ()
                for index in topic.partitions
            )
        results: dict[TopicPartition, ElectionResult] = await self._controller.ask(
            lambda t: events.ElectLeaders(t, asked, election == UNCLEAN)
        )
        if everywhere:
            unneeded = ErrorCode.ELECTION_NOT_NEEDED
            results = {p: r for p, r in results.items() if r.error is not unneeded}
        with waiting_for(request):
            request.respond(await self._election_response(body, results))

    async def _election_response(
        self, body: ElectLeadersRequest, results: Mapping[TopicPartition, ElectionResult]
    ) -> ElectLeadersResponse:
        deadline = trio.current_time() + body.timeout_ms / 1000
        topics: dict[str, ReplicaElectionResult] = {}
        for partition, result in sorted(results.items()):
            error = result.error
            if error is ErrorCode.NONE and not await self._waits.until_leader_is(
                partition, result.leader, deadline
            ):
                error = ErrorCode.REQUEST_TIMED_OUT
            topic = topics.get(partition[0])
            if topic is None:
                topic = ReplicaElectionResult(topic=partition[0], partition_result=[])
                topics[partition[0]] = topic
            topic.partition_result.append(
                PartitionResult(
                    partition_id=partition[1],
                    error_code=error,
                    error_message=(result.message or error.description) if error else None,
                )
            )
        return ElectLeadersResponse(replica_election_results=list(topics.values()))
