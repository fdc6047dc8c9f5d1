"""LeaderAndIsr after its prerequisite: the configs of topics that are new on this broker.

Applying a LeaderAndIsr creates logs and must not wait in the middle, so the topic configs are
fetched first. The controller's connection is muted meanwhile, so its requests stay in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...replication.replica_manager import ReplicaManager
from ..cluster.topic_config_cache import TopicConfigCache
from .controller_orders import ControllerOrders

if TYPE_CHECKING:
    from ..network.request import Request


class LeadershipGate:
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
