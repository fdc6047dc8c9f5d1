"""The tables that this broker keeps: those of topics whose partition 0 it leads.

A change of leadership or configs only marks the work as changed; the task `run` sends the whole of
it to the process, which it starts when there is a first topic and ends with the last one. A
process that dies is started again after a pause. Two brokers may both believe for a while that they
lead a topic's partition 0: the table takes the commits of one of them (`pybroker_kafka.tables`).

The process also drops the tables of deleted topics, as `drops` has them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import trio

from ...protocol.errors import KafkaError
from ...protocol.topics import TopicPartition
from ...protocol.uuids import uuid_to_text
from ...replication.replica_manager import ReplicaManager
from ...replication.types import LeadershipResult, StopResult
from ...storage.log_config import LogConfig
from ...storage.table_configs import TABLE_CONFIGS, TableSettings, usable_settings
from ..observability.metrics import BrokerMetrics
from .drops import Drop, TableDrops
from .process import TablesProcess

logger = logging.getLogger("pybroker.broker.tables")

FIRST_PAUSE_SECONDS: Final = 1.0  # after the process has died
MAX_PAUSE_SECONDS: Final = 30.0
STEADY_SECONDS: Final = (
    60.0  # a process that ran for so long is started again after the first pause
)


class TableRuntime:
    def __init__(
        self,
        manager: ReplicaManager,
        overrides: Callable[[str], Mapping[str, str]],
        work: Callable[[], dict[str, Any]],
        drops: TableDrops,
    ) -> None:
        """`work` has all of a message to the process but the topics and drops."""
        self._manager = manager
        self._overrides = overrides
        self._work = work
        self._drops = drops
        self._topics: dict[str, dict[str, str]] = {}  # with their table configs
        self._changed = trio.Event()
        self.process = TablesProcess()
        self.states: dict[str, dict[str, Any]] = {}  # what the process said of each topic

    # Which topics

    def on_leadership(self, result: LeadershipResult) -> None:
        roles = [*result.became_leader, *result.became_follower]
        self._look_at({role.topic for role in roles if role.partition == 0})

    def on_stopped(self, result: StopResult) -> None:
        gone = {role.topic for role in result.stopped if role.partition == 0}
        gone |= {topic for topic, partition in result.deleted if partition == 0}
        for topic in gone:
            self._take(topic, None)

    def on_config(self, topic: str, _config: LogConfig) -> None:
        self._look_at([topic])

    def _look_at(self, topics: Iterable[str]) -> None:
        for topic in topics:
            hosted = self._manager.partitions.get((topic, 0))
            is_ours = hosted is not None and hosted.is_leader
            self._take(topic, self._table_configs(topic) if is_ours else None)

    def _table_configs(self, topic: str) -> dict[str, str] | None:
        stored = self._overrides(topic)
        settings = usable_settings(stored)
        if isinstance(settings, KafkaError):
            logger.error("Topic %s has no table: %s", topic, settings.message)
            return None
        if settings is None:
            return None
        return {name: text for name, text in stored.items() if name in TABLE_CONFIGS}

    def _take(self, topic: str, configs: dict[str, str] | None) -> None:
        if self._topics.get(topic) == configs:
            return
        if configs is None:
            del self._topics[topic]
            self.states.pop(topic, None)
        else:
            self._topics[topic] = configs
        self._changed.set()

    def note_deletion(self, key: TopicPartition, topic_id: bytes) -> None:
        """The topic is deleted, of which this broker had the last leader, perhaps: its log goes
        after this."""
        topic = key[0]
        settings = usable_settings(self._overrides(topic))
        if isinstance(settings, TableSettings) and settings.is_dropped:
            self._drops.begin(Drop(topic, uuid_to_text(topic_id), settings.format))
            self._changed.set()

    # The process

    def _has_work(self) -> bool:
        return bool(self._topics or self._drops.waiting)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        pause = FIRST_PAUSE_SECONDS
        while True:
            while not self._has_work():
                await self._next_change()
            began = trio.current_time()
            try:
                await self._serve()
            finally:
                await self.process.stop()
            if not self._has_work():
                continue
            if trio.current_time() - began >= STEADY_SECONDS:
                pause = FIRST_PAUSE_SECONDS
            logger.warning("The process that writes tables has ended; it is started again")
            await trio.sleep(pause)
            pause = min(2 * pause, MAX_PAUSE_SECONDS)

    async def _next_change(self) -> None:
        await self._changed.wait()
        self._changed = trio.Event()

    async def _serve(self) -> None:
        """Run the process until it ends, or there is no topic left."""
        try:
            await self.process.start()
        except OSError as error:
            logger.error("The process that writes tables cannot be started: %s", error)
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._receive, nursery.cancel_scope)
            while self._has_work():
                self._changed = trio.Event()
                drops = list(self._drops.waiting.values())
                message = {**self._work(), "topics": self._topics, "drops": drops}
                try:
                    await self.process.send(message)
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    break
                await self._changed.wait()
            nursery.cancel_scope.cancel()

    async def _receive(self, scope: trio.CancelScope) -> None:
        await self.process.receive(self._note)
        scope.cancel()

    def _note(self, state: dict[str, Any]) -> None:
        if "dropped" in state:
            self._note_drop(state)
            return
        topic = state["topic"]
        if topic not in self._topics:
            return
        before = self.states.get(topic, {}).get("error")
        self.states[topic] = state
        error = state["error"]
        if error is not None and error != before:
            logger.error("The table of topic %s: %s", topic, error)
        elif error is None and before is not None:
            logger.info("The table of topic %s is written again", topic)

    def _note_drop(self, outcome: dict[str, Any]) -> None:
        drop = self._drops.waiting.get(outcome["dropped"])
        if drop is None:
            return
        if outcome["error"] is not None:
            logger.error("The table of the deleted topic %s: %s", drop.topic, outcome["error"])
            return
        logger.info("The table of the deleted topic %s is dropped", drop.topic)
        self._drops.end(drop.topic_id)
        self._changed.set()

    # Metrics

    def register_gauges(self, metrics: BrokerMetrics) -> None:
        metrics.gauge("pybroker_tables_failed", self._failed)
        metrics.gauge_family("pybroker_table_lag", ("topic",), self._lags)

    def _failed(self) -> int:
        return sum(state["error"] is not None for state in self.states.values())

    def _lags(self) -> list[tuple[tuple[str, ...], float]]:
        return [((topic,), _lag(state)) for topic, state in self.states.items()]


def _lag(state: dict[str, Any]) -> int:
    offsets = state.get("offsets", {})
    ends = state.get("ends", {})
    return sum(max(0, end - offsets.get(partition, 0)) for partition, end in ends.items())
