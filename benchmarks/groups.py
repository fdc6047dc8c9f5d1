"""Groups of the consumer protocol: a heartbeat that changes nothing, and a member's death.

`python -m benchmarks.groups heartbeats` compares heartbeats on one connection, of a member of the
consumer protocol and of one of the classic protocol, in turns, at a broker of ours.
`python -m benchmarks.groups death` has a thousand members in a group over a thousand partitions;
one stops, and the time is taken from the end of its session until the group is stable again, at a
broker of ours and at Apache Kafka 4.3. All members heartbeat from one process, one after the other:
both brokers get the same requests.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pybroker_kafka.protocol.apis.consumer_group_describe import ConsumerGroupDescribeRequest
from pybroker_kafka.protocol.apis.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from pybroker_kafka.protocol.apis.heartbeat import HeartbeatRequest
from pybroker_kafka.protocol.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pybroker_kafka.protocol.apis.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from pybroker_kafka.protocol.codec import encode_versioned
from pybroker_kafka.protocol.features import Feature
from pybroker_kafka.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from tests.support.apache_kafka_4 import running_kafka_4
from tests.support.processes import running_broker
from tests.support.wire import Topic, WireClient
from tests.wire.feature_steps import finalize

SESSION_MS = 15_000
POLL_SECONDS = 0.002
CONFIG = {
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": "6000",
    "offsets.topic.num.partitions": "1",
}
HEARTBEAT_VERSION = 1
CLASSIC_HEARTBEAT_VERSION = 4
REBALANCE_MS = 600_000


class Member:
    """One member of a consumer group."""

    def __init__(self, client: WireClient, group: str, name: str, topic: Topic) -> None:
        self._client = client
        self._topic = topic
        self._group = group
        self._name = name
        self.epoch = 0
        self._partitions: list[int] = []
        self._says_more = False

    def beat(self) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group, member_id=self._name, member_epoch=self.epoch
        )
        if self.epoch == 0:
            request.rebalance_timeout_ms = REBALANCE_MS
            request.subscribed_topic_names = [self._topic.name]
            request.topic_partitions = []
        elif self._says_more:
            request.topic_partitions = [
                ConsumerGroupHeartbeatRequestTopicPartitions(
                    topic_id=self._topic.id, partitions=self._partitions
                )
            ]
        answer: Any = self._client.call(request, HEARTBEAT_VERSION)
        assert answer.error_code == 0, answer
        self.epoch = answer.member_epoch
        self._says_more = answer.assignment is not None
        if answer.assignment is not None:
            self._partitions = [
                p for one in answer.assignment.topic_partitions for p in one.partitions
            ]


def state_of(client: WireClient, group: str) -> tuple[str, int]:
    request = ConsumerGroupDescribeRequest(group_ids=[group])
    (found,) = client.call(request, HEARTBEAT_VERSION).groups
    return str(found.group_state), len(found.members)


def settle(client: WireClient, group: str, members: list[Member], count: int) -> None:
    """Heartbeats until the group is stable with so many members."""
    while state_of(client, group) != ("Stable", count):
        for member in members:
            member.beat()


def death(client: WireClient, count: int) -> float:
    """The seconds from the end of a member's session until the group is stable without it."""
    topic, group = client.create_topic(count), f"death-{count}"
    client.coordinator(group)
    members = [Member(client, group, f"m{number}", topic) for number in range(count)]
    settle(client, group, members, count)
    members.pop().beat()
    ends_at = time.monotonic() + SESSION_MS / 1000 - 0.5
    while time.monotonic() < ends_at:
        for member in members:
            member.beat()
    while state_of(client, group)[1] == count:
        time.sleep(POLL_SECONDS)
    began = time.monotonic()
    settle(client, group, members, count - 1)
    return time.monotonic() - began


def joined_classic(client: WireClient) -> HeartbeatRequest:
    """A classic group with one member, and its heartbeat."""
    client.coordinator("classic")
    told = encode_versioned(ConsumerProtocolSubscription(topics=["t"]), 1)
    request = JoinGroupRequest(
        group_id="classic",
        session_timeout_ms=60_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=memoryview(told))],
    )
    request.member_id = client.call(request, 7).member_id
    answer = client.call(request, 7)
    sync = SyncGroupRequest(
        group_id="classic",
        member_id=answer.member_id,
        generation_id=answer.generation_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[
            SyncGroupRequestAssignment(member_id=answer.member_id, assignment=memoryview(b""))
        ],
    )
    assert client.call(sync, 5).error_code == 0
    return HeartbeatRequest(
        group_id="classic", member_id=answer.member_id, generation_id=answer.generation_id
    )


def heartbeats(client: WireClient, count: int, rounds: int) -> tuple[float, float]:
    """The median microseconds of a heartbeat: of the consumer protocol, and of the classic one."""
    topic = client.create_topic(1)
    client.coordinator("new")
    member = Member(client, "new", "m", topic)
    for _ in range(3):
        member.beat()
    new = ConsumerGroupHeartbeatRequest(group_id="new", member_id="m", member_epoch=member.epoch)
    classic = joined_classic(client)
    found: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for place, request, version in (
            (0, new, HEARTBEAT_VERSION),
            (1, classic, CLASSIC_HEARTBEAT_VERSION),
        ):
            began = time.perf_counter()
            for _ in range(count):
                assert client.call(request, version).error_code == 0
            found[place].append((time.perf_counter() - began) / count * 1e6)
    return statistics.median(found[0]), statistics.median(found[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("heartbeats", "death"))
    parser.add_argument("--members", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--count", type=int, default=1000, help="heartbeats in a round")
    options = parser.parse_args()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ours = stack.enter_context(running_broker(directory / "ours", CONFIG))
        client = stack.enter_context(WireClient(ours.bootstrap))
        finalize(client, {Feature.GROUP: 1})
        if options.what == "heartbeats":
            new, classic = heartbeats(client, options.count, options.rounds)
            print(f"consumer {new:.0f} us, classic {classic:.0f} us: {new / classic:.2f}")
            return
        theirs = stack.enter_context(running_kafka_4(directory / "theirs", CONFIG))
        kafka = stack.enter_context(WireClient(theirs.bootstrap))
        for name, at in (("pybroker", client), ("Apache Kafka 4.3", kafka)):
            print(f"{name}: {death(at, options.members):.2f} s", flush=True)


if __name__ == "__main__":
    main()
