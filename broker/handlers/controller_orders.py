"""The controller's requests to this broker: LeaderAndIsr v0-7, StopReplica v0-4, UpdateMetadata
v0-8.

Invariants: a request of an older controller epoch, or for an earlier broker epoch, changes nothing
(STALE_CONTROLLER_EPOCH, STALE_BROKER_EPOCH), and neither does a late request: a controller sends
one request at a time, and repeats it on a new connection if the old one broke; a request that then
arrives from the buffer of the old socket would restore an outdated state. Its connection is closed:
a controller that still waits for the answer sends the request again. Coordinators are notified of
leadership through `on_leadership` and `on_stopped`, topic changes go to `on_metadata`, before the
answer is sent.

Mirrors KafkaApis.handleLeaderAndIsrRequest, handleStopReplicaRequest and
handleUpdateMetadataRequest. Leaves out authorization and KRaft migration.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...replication.replica_manager import ReplicaManager
from ..cluster.topic_config_cache import TopicConfigCache

if TYPE_CHECKING:
    from ..network.request import Request
import logging
from collections.abc import Mapping

from ...protocol.api import ApiKey
from ...protocol.apis.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from ...protocol.apis.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
)
from ...protocol.apis.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from ...protocol.errors import ErrorCode
from ...protocol.topics import TopicPartition
from ...replication.metadata_cache import MetadataUpdate
from ...replication.types import ZERO_TOPIC_ID, LeadershipResult, StopResult, TierState
from ..network.request import Handler, Request
from ..replicas.applied_replicas import AppliedReplicas

logger = logging.getLogger("pybroker.broker.replication")

_FIRST_VERSION_BY_TOPIC = 5


class ControllerOrders:
    __slots__ = (
        "_controller_epoch", "_is_refusal_told", "_newest_connection", "_replicas", "on_leadership",
        "on_metadata", "on_refused", "on_stopped",
    )  # fmt: skip

    def __init__(self, replicas: AppliedReplicas) -> None:
        self._replicas = replicas
        # The latest connection on which a controller of this epoch has spoken.
        self._controller_epoch = -1
        self._newest_connection = -1
        self._is_refusal_told = False  # since the last that was taken
        self.on_leadership: list[Callable[[LeadershipResult], None]] = []
        self.on_stopped: list[Callable[[StopResult], None]] = []
        self.on_metadata: list[Callable[[MetadataUpdate], None]] = []
        self.on_refused: list[Callable[[], None]] = []  # of an UpdateMetadata that was denied

    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {
            ApiKey.LEADER_AND_ISR: self.leader_and_isr,
            ApiKey.STOP_REPLICA: self.stop_replica,
            ApiKey.UPDATE_METADATA: self.update_metadata,
        }

    def _close_if_late(self, request: Request) -> bool:
        """Whether its controller has since moved to another connection; if so, close this one."""
        epoch, connection = request.body.controller_epoch, request.peer.number
        if epoch == self._controller_epoch and connection < self._newest_connection:
            logger.info("A late %s of the controller is left out", type(request.body).__name__)
            request.close()
            return True
        if epoch >= self._controller_epoch:
            self._controller_epoch, self._newest_connection = epoch, connection
        return False

    def leader_and_isr(self, request: Request) -> None:
        body: LeaderAndIsrRequest = request.body
        if self._close_if_late(request):
            return
        with self._replicas.applying as manager:
            result = manager.leadership.become_leader_or_follower(body, self._replicas.clock())
            if result.error_code is ErrorCode.NONE:
                for listener in self.on_leadership:
                    listener(result)
            request.respond(_leader_and_isr_response(result, request.api_version))

    def retry_refused(self) -> None:
        """Begin replicas for which there were no file descriptors."""
        with self._replicas.applying as manager:
            if manager.leadership.refused:
                result = manager.leadership.retry_refused(self._replicas.clock())
                for listener in self.on_leadership:
                    listener(result)

    def is_awaiting_tier(self, key: TopicPartition) -> bool:
        return key in self._replicas.manager.leadership.awaiting_tier

    def tier_read(
        self, key: TopicPartition, found: TierState | None, log_start_offset: int
    ) -> None:
        """Begin a leader's role that has waited for the remote tier. KafkaError: not yet."""
        with self._replicas.applying as manager:
            now_ms = self._replicas.clock()
            result = manager.leadership.tier_read(key, found, log_start_offset, now_ms)
            for listener in self.on_leadership:
                listener(result)

    def stop_replica(self, request: Request) -> None:
        body: StopReplicaRequest = request.body
        if self._close_if_late(request):
            return
        with self._replicas.applying as manager:
            result = manager.leadership.stop_replicas(body, self._replicas.clock())
            if result.error_code is ErrorCode.NONE:
                for listener in self.on_stopped:
                    listener(result)
            request.respond(
                StopReplicaResponse(
                    error_code=result.error_code,
                    partition_errors=[
                        StopReplicaPartitionError(
                            topic_name=topic, partition_index=index, error_code=error
                        )
                        for (topic, index), error in result.partition_errors.items()
                    ],
                )
            )

    def metadata_denied(self, request: Request) -> None:
        """Log, once, a sender without the right to act as a broker: perhaps the controller."""
        if self._is_refusal_told:
            return
        self._is_refusal_told = True
        logger.error(
            "An UpdateMetadata of %s from %s is refused, since it lacks CLUSTER_ACTION on the "
            "cluster: if that is how the brokers log in, name it in super.users, or give it the "
            "right; until then this broker leads and follows nothing",
            request.peer.principal, request.peer.host,
        )  # fmt: skip
        for listener in self.on_refused:
            listener()

    def update_metadata(self, request: Request) -> None:
        body: UpdateMetadataRequest = request.body
        if self._close_if_late(request):
            return
        with self._replicas.applying as manager:
            error = manager.leadership.check_sender(body.controller_epoch, body.broker_epoch)
            if error is ErrorCode.NONE:
                self._is_refusal_told = False
                update = manager.metadata.update(body)
                for listener in self.on_metadata:
                    listener(update)
            request.respond(UpdateMetadataResponse(error_code=error))


def _leader_and_isr_response(result: LeadershipResult, version: int) -> LeaderAndIsrResponse:
    response = LeaderAndIsrResponse(error_code=result.error_code)
    if version < _FIRST_VERSION_BY_TOPIC:
        response.partition_errors = [
            LeaderAndIsrPartitionError(topic_name=topic, partition_index=index, error_code=error)
            for (topic, index), error in result.partition_errors.items()
        ]
        return response
    topics: dict[str, LeaderAndIsrTopicError] = {}
    for (topic, index), error in result.partition_errors.items():
        answer = topics.get(topic)
        if answer is None:
            topic_id = result.topic_ids.get(topic, ZERO_TOPIC_ID)
            answer = topics[topic] = LeaderAndIsrTopicError(topic_id=topic_id, partition_errors=[])
        answer.partition_errors.append(
            LeaderAndIsrPartitionError(partition_index=index, error_code=error)
        )
    response.topics = list(topics.values())
    return response


class LeadershipGate:
    """LeaderAndIsr after its prerequisite: the configs of topics that are new on this broker.

    Applying a LeaderAndIsr creates logs and must not wait in the middle, so the topic configs are
    fetched first. The controller's connection is muted meanwhile, so its requests stay in order.
    """

    __slots__ = ("_configs", "_handler", "_manager", "_spawn")

    def __init__(
        self,
        handler: ControllerOrders,
        manager: ReplicaManager,
        configs: TopicConfigCache,
        spawn: Callable[..., None],
    ) -> None:
        """`spawn(coroutine_function, request)` runs a handler that waits (as Dispatcher does)."""
        self._handler = handler
        self._manager = manager
        self._configs = configs
        self._spawn = spawn

    def leader_and_isr(self, request: Request) -> None:
        if self._new_topics(request):
            self._spawn(self._fetch_first, request)
        else:
            self._handler.leader_and_isr(request)

    async def _fetch_first(self, request: Request) -> None:
        await self._configs.load(self._new_topics(request))
        self._handler.leader_and_isr(request)

    def _new_topics(self, request: Request) -> set[str]:
        body, partitions = request.body, self._manager.partitions
        named = [(state.topic_name, state) for state in body.ungrouped_partition_states]
        named += [(t.topic_name, state) for t in body.topic_states for state in t.partition_states]
        return {topic for topic, state in named if (topic, state.partition_index) not in partitions}
