"""Random members of share groups, topics, failures of the log and of states, and restarts.

Each seed is one run. Checked after every step: members have partitions only whose states were
begun. Checked at each restart: the state read from the log is what it was. Checked at the end: all
requests are answered, and when nothing happens any more, each partition of a topic with subscribers
is with one of them.
"""

from __future__ import annotations

import random
from collections.abc import Collection

import pytest

from pybroker_kafka.coordinator.group.share.config import ShareGroupConfig
from pybroker_kafka.coordinator.group.share.heartbeats import BEGINNING_INTERVAL_MS, ShareBeat
from pybroker_kafka.coordinator.group.share.share_group import ShareGroup
from pybroker_kafka.protocol.apis.initialize_share_group_state import (
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionResult,
)
from pybroker_kafka.protocol.apis.share_group_heartbeat import ShareGroupHeartbeatRequest
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support import examples
from tests.unit.coordinator.group.consumer_harness import ConsumerHarness, Topics
from tests.unit.coordinator.group.harness import GROUP, HOST, Call

STEPS = 120
SEEDS = examples.of(30)
ROUNDS = 20
TOPICS = ("t", "u", "v")
APPEND_ERRORS = (
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.MESSAGE_TOO_LARGE,
)
TIMEOUT_MS = ShareGroupConfig().session_timeout_ms


class ShareHarness(ConsumerHarness):
    def share_beat(self, member: str, epoch: int, names: Collection[str] | None = None) -> Call:
        request = ShareGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=member,
            member_epoch=epoch,
            subscribed_topic_names=None if names is None else list(names),
        )
        call = self._call(f"heartbeat of {member} in epoch {epoch}")
        self.machine.share_heartbeat(ShareBeat(call, request, "client", HOST), self.now_ms)
        self.perform()
        return call

    def initialized(self, error: ErrorCode = ErrorCode.NONE) -> None:
        """All states that were asked for are there, or none is."""
        asked, self.initializing = self.initializing, []
        for effect in asked:
            results = [
                InitializeStateResult(
                    topic_id=topic.topic_id,
                    partitions=[
                        PartitionResult(partition=one.partition, error_code=error)
                        for one in topic.partitions
                    ],
                )
                for topic in effect.request.topics
            ]
            response = InitializeShareGroupStateResponse(results=results)
            self.machine.states_initialized(effect.request, response, self.now_ms)
        self.perform()

    @property
    def share_group(self) -> ShareGroup | None:
        holder = {group.group_id: group for group in self.machine.groups}.get(GROUP)
        group = None if holder is None else holder.consumer
        assert group is None or isinstance(group, ShareGroup)
        return group


class Consumer:
    def __init__(self, h: ShareHarness, member_id: str) -> None:
        self.h = h
        self.member_id = member_id
        self.epoch = 0
        self.names: Collection[str] = TOPICS[:1]
        self.owned: set[tuple[bytes, int]] = set()
        self.call: Call | None = None

    def beat(self, names: Collection[str] | None = None) -> None:
        if self.call is not None and self.call.is_waiting:
            return
        self.look()
        joins = self.epoch == 0
        self.call = self.h.share_beat(self.member_id, self.epoch, self.names if joins else names)
        self.look()

    def look(self) -> None:
        call = self.call
        if call is None or call.is_waiting:
            return
        answer, self.call = call.response, None
        if answer.error_code:
            self.epoch = 0
            return
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = {
                (topic.topic_id, partition)
                for topic in answer.assignment.topic_partitions
                for partition in topic.partitions
            }


class Run:
    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)
        self.h = ShareHarness(Topics(t=2, u=1))
        self.consumers: list[Consumer] = []
        self.names = 0

    def step(self) -> None:
        choose, h = self.choose, self.h
        kind = choose.random()
        if kind < 0.12 and len(self.consumers) < 6:
            self.names += 1
            self.consumers.append(Consumer(h, f"m{self.names}"))
        elif kind < 0.18 and self.consumers:
            gone = self.consumers.pop(choose.randrange(len(self.consumers)))
            if choose.random() < 0.5:
                h.share_beat(gone.member_id, -1)
        elif kind < 0.26 and self.consumers:
            consumer = choose.choice(self.consumers)
            consumer.names = choose.sample(TOPICS, choose.randint(1, 3))
            consumer.beat(consumer.names)
        elif kind < 0.31:
            name = choose.choice(TOPICS)
            h.topics.make(name, 1 + (h.topics.partition_count(h.topics.topic_id(name) or b"") or 0))
            h.machine.topics_changed({name})
        elif kind < 0.33 and h.topics.topic("v") is not None:
            h.topics.delete("v")
            h.machine.topics_changed({"v"})
        elif kind < 0.37:
            self.restart()
        elif kind < 0.42:
            h.is_holding = True
        elif kind < 0.50:
            h.release(choose.choice((ErrorCode.NONE, *APPEND_ERRORS)))
            h.is_holding = False
        elif kind < 0.58:
            h.initialized(choose.choice((ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE)))
        elif kind < 0.64:
            h.advance(choose.choice((500, 5_000, 31_000)))
        elif self.consumers:
            choose.choice(self.consumers).beat()
        for consumer in self.consumers:
            consumer.look()

    def restart(self) -> None:
        h = self.h
        h.release()
        h.is_holding = False
        before = contents(h.share_group)
        h.initializing.clear()
        h.restart()
        assert contents(h.share_group) == before

    def end(self) -> None:
        h = self.h
        h.release()
        h.is_holding = False
        for _ in range(ROUNDS):
            h.advance(3_000)
            h.initialized()
            for consumer in self.consumers:
                consumer.beat(consumer.names if consumer.epoch else None)
        assert all(not call.is_waiting for call in h.calls)
        h.advance(31_000)
        for _ in range(ROUNDS):
            h.advance(3_000)
            h.initialized()
            for consumer in self.consumers:
                consumer.beat()
        owned = set().union(*(consumer.owned for consumer in self.consumers))
        for name in {name for consumer in self.consumers for name in consumer.names}:
            topic = h.topics.topic(name)
            if topic is not None:
                for partition in range(topic.partition_count):
                    assert (topic.topic_id, partition) in owned, (name, partition)
        group = h.share_group
        if group is not None:
            assert group.members.keys() <= {consumer.member_id for consumer in self.consumers}


def contents(group: ShareGroup | None) -> object:
    if group is None or not group.is_persisted:
        return None
    return (group.epoch, group.target_epoch, group.members, group.targets, group.states)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_members(seed: int) -> None:
    run = Run(seed)
    for _ in range(STEPS):
        run.step()
    run.end()


def test_a_member_without_partitions_beats_again_soon() -> None:
    """As long as the states of its partitions begin."""
    h = ShareHarness(Topics(t=2))
    consumer = Consumer(h, "m")

    def interval_ms() -> int:
        joins = consumer.epoch == 0
        call = consumer.call = h.share_beat("m", consumer.epoch, ["t"] if joins else None)
        consumer.look()
        return int(call.response.heartbeat_interval_ms)

    assert interval_ms() == BEGINNING_INTERVAL_MS
    h.initialized()
    assert interval_ms() == ShareGroupConfig().heartbeat_interval_ms
    assert len(consumer.owned) == 2
