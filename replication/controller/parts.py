"""The pieces of the controller machine that its flows share."""

from collections.abc import Collection, Iterable

from ...protocol.topics import TopicPartition
from .config import ControllerConfig
from .context import ControllerContext
from .deletion import TopicDeletion
from .effects import Effect
from .partition_states import PartitionStateMachine
from .replica_states import ReplicaStateMachine
from .request_batch import RequestBatch


class ControllerParts:
    """One context, one batch and one list of effects for all of them."""

    __slots__ = ("batch", "config", "context", "deletion", "effects", "partitions", "replicas")

    def __init__(self, config: ControllerConfig) -> None:
        self.config = config
        self.context = ControllerContext(has_leader_recovery=config.protocol.has_leader_recovery)
        self.effects: list[Effect] = []
        self.batch = RequestBatch(config.broker_id, config.inter_broker_listener, self.context)
        self.partitions = PartitionStateMachine(config, self.context, self.batch, self.effects)
        self.replicas = ReplicaStateMachine(config, self.context, self.batch, self.effects)
        self.deletion = TopicDeletion(
            config, self.context, self.batch, self.effects, self.partitions, self.replicas
        )

    def send_update_metadata(
        self, broker_ids: Iterable[int], partitions: Collection[TopicPartition] = ()
    ) -> None:
        """Send these brokers the live brokers and the state of these partitions."""
        self.batch.add_update_metadata(broker_ids, partitions)
        self.send_batch()

    def send_batch(self) -> None:
        self.effects.extend(self.batch.take_requests())
