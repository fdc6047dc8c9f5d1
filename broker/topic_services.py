"""What a broker offers around the controller: topics, elections, producer ids, ISR changes.

Job: build these parts, wire them to each other and give their handlers and background tasks to
the broker.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import trio

from ..replication.metadata_cache import MetadataCache, MetadataUpdate
from .cluster.controller_client import ControllerClient
from .cluster.controller_runtime import ControllerRuntime
from .cluster.metadata_waits import TopicWaits
from .cluster.topic_creation import TopicCreator
from .cluster.zookeeper_client import ZooKeeperClient
from .config.kafka_config import KafkaConfig
from .coordinators.producer_ids import ProducerIds, allocate_from_controller
from .handlers.control import ControlHandlers
from .handlers.topics import TopicHandlers
from .network.dispatcher import Dispatcher
from .replicas.alter_partition_sender import AlterPartitionSender
from .replicas.replica_runtime import ReplicaShell


class TopicServices:
    def __init__(
        self,
        broker_id: int,
        config: KafkaConfig,
        cache: MetadataCache,
        zookeeper: ZooKeeperClient,
        controller: ControllerRuntime,
        client: ControllerClient,
        shell: ReplicaShell,
    ) -> None:
        self.waits = TopicWaits(cache)
        self.creator = TopicCreator(config, cache, zookeeper, random.Random())
        self._isr_changes = AlterPartitionSender(broker_id, shell, client, zookeeper)
        shell.on_isr_change = self._isr_changes.propose
        shell.on_failed_log_dir = self._isr_changes.log_dir_failed
        self.producer_ids = ProducerIds(
            allocate_from_controller(client, broker_id, lambda: shell.manager.broker_epoch)
        )
        self._topics = TopicHandlers(config, cache, zookeeper, controller, self.creator, self.waits)
        self._control = ControlHandlers(controller, self.waits)

    def register(self, dispatcher: Dispatcher) -> None:
        dispatcher.register(self._topics.handlers())
        dispatcher.register(self._control.handlers())

    @property
    def on_metadata(self) -> Callable[[MetadataUpdate], None]:
        return self.waits.metadata_changed

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Background creations, blocks of ids and ISR changes, until cancelled."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self.creator.run)
            await nursery.start(self.producer_ids.run)
            nursery.start_soon(self._isr_changes.run)
            task_status.started()
