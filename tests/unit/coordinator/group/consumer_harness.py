"""The group coordinator's harness with a cluster's topics and ConsumerGroupHeartbeat."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from pybroker_kafka.coordinator.group.consumer.config import ConsumerGroupConfig
from pybroker_kafka.coordinator.group.consumer.consumer_group import ConsumerGroup
from pybroker_kafka.coordinator.group.consumer.requests import Beat
from pybroker_kafka.coordinator.group.consumer.topics import Topic
from pybroker_kafka.coordinator.group.core import GroupConfig
from pybroker_kafka.coordinator.group.group_coordinator import GroupCoordinator
from pybroker_kafka.protocol.apis.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.records.batch import read_batch_header
from tests.unit.coordinator.group.harness import GROUP, HOST, Call, Harness

VERSION = 1


class Topics:
    """A `TopicImage` that tests change."""

    def __init__(self, **partitions: int) -> None:
        self.version = 0
        self._topics: dict[str, Topic] = {}
        self._ids = 0
        for name, count in partitions.items():
            self.make(name, count)

    def make(self, name: str, count: int, racks: tuple[tuple[str, ...], ...] = ()) -> None:
        """A new topic, or more partitions of an old one."""
        old = self._topics.get(name)
        self._ids += old is None
        topic_id = self._ids.to_bytes(16, "big") if old is None else old.topic_id
        self._topics[name] = Topic(name, topic_id, count, racks)
        self.version += 1

    def delete(self, name: str) -> None:
        del self._topics[name]
        self.version += 1

    def topic(self, name: str) -> Topic | None:
        return self._topics.get(name)

    def topic_id(self, name: str) -> bytes | None:
        topic = self._topics.get(name)
        return None if topic is None else topic.topic_id

    def topic_name(self, topic_id: bytes) -> str | None:
        found = [topic.name for topic in self._topics.values() if topic.topic_id == topic_id]
        return found[0] if found else None

    def partition_count(self, topic_id: bytes) -> int | None:
        name = self.topic_name(topic_id)
        return None if name is None else self._topics[name].partition_count

    def topic_names(self) -> Iterable[str]:
        return list(self._topics)


class ConsumerHarness(Harness):
    def __init__(
        self,
        topics: Topics,
        config: GroupConfig | None = None,
        consumer_config: ConsumerGroupConfig | None = None,
    ) -> None:
        self.topics = topics
        self.consumer_config = consumer_config or ConsumerGroupConfig()
        self.hidden: set[str] = set()
        super().__init__(config)

    def _new_machine(self) -> GroupCoordinator:
        machine = GroupCoordinator(
            self.config, self._new_uuid, self.wall, self.consumer_config, self.topics
        )
        machine.start(self.partition_count, self.now_ms)
        machine.tick(self.now_ms)
        assert not machine.take_effects()
        return machine

    def release(self, error: ErrorCode = ErrorCode.NONE) -> None:
        """Finish the held appends; with most errors they are not in the log."""
        if error not in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT):
            for effect, base_offset in self.held:
                self.log[effect.partition] = [
                    batch
                    for batch in self.log[effect.partition]
                    if read_batch_header(batch).base_offset != base_offset
                ]
        super().release(error)

    def beat(
        self,
        member: str,
        epoch: int,
        *,
        group: str = GROUP,
        names: Collection[str] | None = None,
        owned: dict[str, Collection[int]] | None = None,
        timeout_ms: int = -1,
        version: int = VERSION,
        client_id: str = "client",
        **values: Any,
    ) -> Call:
        """ConsumerGroupHeartbeat; `owned` by the names of topics."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member,
            member_epoch=epoch,
            subscribed_topic_names=None if names is None else list(names),
            rebalance_timeout_ms=timeout_ms,
            topic_partitions=None
            if owned is None
            else [
                ConsumerGroupHeartbeatRequestTopicPartitions(
                    topic_id=self.topics.topic_id(name) or b"", partitions=list(partitions)
                )
                for name, partitions in owned.items()
            ],
            **values,
        )
        call = self._call(f"heartbeat of {member} in epoch {epoch}")
        beat = Beat(call, request, version, client_id, HOST, self._permitted)
        self.machine.consumer_heartbeat(beat, self.now_ms)
        self.perform()
        return call

    def _permitted(self, names: Iterable[str]) -> Collection[str]:
        return set(names) - self.hidden

    def join_consumer(
        self, member: str, *names: str, timeout_ms: int = 60_000, **values: Any
    ) -> Call:
        return self.beat(member, 0, names=names or None, owned={}, timeout_ms=timeout_ms, **values)

    def consumer_group(self, group_id: str = GROUP) -> ConsumerGroup:
        found = self.group(group_id).consumer
        assert found is not None
        return found

    def assigned(self, call: Call) -> dict[str, list[int]]:
        """The assignment of an answer by the names of topics."""
        return {
            self.topics.topic_name(topic.topic_id) or "deleted": topic.partitions
            for topic in call.response.assignment.topic_partitions
        }


_FENCED = (
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
)


class Consumer:
    """A member that follows the protocol: it gives up at once what it should not have."""

    def __init__(
        self, harness: ConsumerHarness, member_id: str, *names: str, **values: Any
    ) -> None:
        self.harness = harness
        self.member_id = member_id
        self.names = names
        self.values = values
        self.epoch = 0
        self.owned: dict[str, list[int]] = {}
        # What it owned when it said so last.
        self._told: dict[str, list[int]] | None = None

    def beat(self, **changes: Any) -> Call:
        """One heartbeat, and what follows from its answer, if it comes at once."""
        h = self.harness
        values: dict[str, Any] = dict(changes)
        if self.epoch == 0:
            self.owned = {}
            values = {**self.values, "names": self.names, "timeout_ms": 60_000, "owned": {}}
        elif self._told != self.owned or changes:
            values["owned"] = self.owned
        if "instance_id" in self.values:
            values["instance_id"] = self.values["instance_id"]
        told = {name: list(partitions) for name, partitions in self.owned.items()}
        call = h.beat(self.member_id, self.epoch, **values)
        self._told = None
        if not call.is_waiting:
            self.take(call, told)
        return call

    def take(self, call: Call, told: dict[str, list[int]] | None = None) -> None:
        """What follows from an answer."""
        if call.error in _FENCED:
            self.epoch, self.owned = 0, {}
        elif not call.error:
            self._told = told
            self.epoch = call.response.member_epoch
            if call.response.assignment is not None:
                self.owned = self.harness.assigned(call)
