"""A consumer of the classic protocol, for groups that change their protocol.

It follows the protocol as clients do: eager ones give up all partitions before they join, others
say what they own, and give up what they are not assigned. A leader divides partitions by range,
and gives away none that another still owns.
"""

from __future__ import annotations

from typing import Any

from pybroker_kafka.protocol.codec import decode_versioned, encode_versioned
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from tests.unit.coordinator.group.consumer_harness import ConsumerHarness
from tests.unit.coordinator.group.harness import Call

_LOST = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.ILLEGAL_GENERATION,
)
EAGER, COOPERATIVE = "range", "cooperative-sticky"
SESSION_MS, REBALANCE_MS = 10_000, 20_000

Owned = dict[str, list[int]]


def assignment(owned: Owned) -> bytes:
    topics = [
        ConsumerProtocolAssignmentTopicPartition(topic=name, partitions=partitions)
        for name, partitions in owned.items()
    ]
    return encode_versioned(ConsumerProtocolAssignment(assigned_partitions=topics), 1)


def owned_of(data: bytes) -> Owned:
    if not data:
        return {}
    told = decode_versioned(ConsumerProtocolAssignment, data)
    return {one.topic: list(one.partitions) for one in told.assigned_partitions if one.partitions}


class ClassicConsumer:
    def __init__(
        self,
        harness: ConsumerHarness,
        *names: str,
        protocol: str = COOPERATIVE,
        instance: str | None = None,
    ) -> None:
        self.harness = harness
        self.names = names
        self.protocol = protocol
        self.instance = instance
        self.member_id = ""
        self.generation = -1
        self.owned: Owned = {}
        self.joining: Call | None = None
        self.syncing: Call | None = None
        self.last_error = ErrorCode.NONE

    @property
    def is_eager(self) -> bool:
        return self.protocol == EAGER

    def beat(self) -> None:
        """What it has to do next."""
        if self.joining is not None:
            self._take_join()
        elif self.syncing is not None:
            self._take_sync()
        elif self.generation < 0:
            self.join()
        else:
            error = self.harness.heartbeat(self.member_id, self.generation, instance=self.instance)
            self._after(error)

    def join(self) -> None:
        if self.is_eager:
            self.owned = {}
        told = ConsumerProtocolSubscription(
            topics=list(self.names),
            owned_partitions=[
                ConsumerProtocolSubscriptionTopicPartition(topic=name, partitions=partitions)
                for name, partitions in self.owned.items()
            ],
        )
        self.joining = self.harness.join(
            self.member_id,
            instance=self.instance,
            protocols={self.protocol: encode_versioned(told, 1)},
            session_ms=SESSION_MS,
            rebalance_ms=REBALANCE_MS,
        )
        self._take_join()

    def leave(self) -> Any:
        if not self.member_id:
            return None
        response = self.harness.leave((self.member_id, self.instance))
        self.__init__(  # type: ignore[misc]
            self.harness, *self.names, protocol=self.protocol, instance=self.instance
        )
        return response

    def _take_join(self) -> None:
        assert self.joining is not None
        if self.joining.is_waiting:
            return
        call, self.joining = self.joining, None
        self.last_error = call.error
        if call.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = call.response.member_id
            self.join()
            return
        if call.error is not ErrorCode.NONE:
            self._after(call.error)
            return
        answer = call.response
        self.member_id, self.generation = answer.member_id, answer.generation_id
        is_leader = answer.leader == self.member_id
        self.syncing = self.harness.sync(
            self.member_id,
            self.generation,
            self._divided(answer.members) if is_leader else {},
            instance=self.instance,
            protocol=(answer.protocol_type, answer.protocol_name),
        )
        self._take_sync()

    def _divided(self, members: Any) -> dict[str, bytes]:
        topics = self.harness.topics
        told = {
            one.member_id: decode_versioned(ConsumerProtocolSubscription, one.metadata)
            for one in members
        }
        owners = {
            (topic.topic, partition): member_id
            for member_id, subscription in told.items()
            for topic in subscription.owned_partitions
            for partition in topic.partitions
        }
        found: dict[str, Owned] = {member_id: {} for member_id in told}
        for name in topics.topic_names():
            takers = sorted(m for m, subscription in told.items() if name in subscription.topics)
            count = topics.partition_count(topics.topic_id(name) or b"") or 0
            for partition in range(count if takers else 0):
                taker = takers[partition * len(takers) // count]
                if owners.get((name, partition), taker) == taker:
                    found[taker].setdefault(name, []).append(partition)
        return {member_id: assignment(owned) for member_id, owned in found.items()}

    def _take_sync(self) -> None:
        assert self.syncing is not None
        if self.syncing.is_waiting:
            return
        call, self.syncing = self.syncing, None
        if call.error is not ErrorCode.NONE:
            self._after(call.error)
            return
        before = {(name, p) for name, found in self.owned.items() for p in found}
        self.owned = owned_of(bytes(call.response.assignment))
        after = {(name, p) for name, found in self.owned.items() for p in found}
        if not self.is_eager and before - after:
            self.join()

    def _after(self, error: ErrorCode) -> None:
        self.last_error = error
        if error in _LOST:
            self.generation, self.owned = -1, {}
            if error is not ErrorCode.ILLEGAL_GENERATION:
                self.member_id = ""
        elif error is ErrorCode.REBALANCE_IN_PROGRESS:
            self.join()
        elif error is not ErrorCode.NONE:
            self.generation = -1
