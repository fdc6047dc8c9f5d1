"""Groups of the consumer protocol: a heartbeat that changes nothing, and a member's death.

`python -m benchmarks.groups` measures both, at a broker of ours and at Apache Kafka 4.3, in turns.
Heartbeats go over one connection, those of a member of the consumer protocol and those of a member
of the classic protocol in turns. For a death a thousand members are in a group over a thousand
partitions; one stops, and the time is taken from the end of its session until the group is stable
again. All members heartbeat from one process, one after the other: both brokers get the same
requests. `heartbeats` or `death` as an argument measures that alone.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from pybroker_kafka.protocol.apis.consumer_group_describe import ConsumerGroupDescribeRequest
from pybroker_kafka.protocol.apis.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)
from pybroker_kafka.protocol.apis.heartbeat import HeartbeatRequest
from pybroker_kafka.protocol.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pybroker_kafka.protocol.apis.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from pybroker_kafka.protocol.codec import decode_from, encode_versioned
from pybroker_kafka.protocol.features import RELEASES
from pybroker_kafka.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from pybroker_kafka.protocol.schema import Message
from tests.support.apache_kafka_4 import running_kafka_4
from tests.support.patience import until
from tests.support.processes import cpu_seconds, running_broker
from tests.support.wire import Topic, WireClient, unique
from tests.wire.feature_steps import finalize
from tests.wire.transaction_steps import RETRIED

OURS, THEIRS = "pybroker", "Apache Kafka 4.3"
HEARTBEAT_AT_MOST, DEATH_AT_MOST = 1.2, 0.5  # of the classic one; of Apache Kafka's time
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
HEADER = 5  # of an answer: the correlation id, and no tags


class Place(NamedTuple):
    """A broker."""

    client: WireClient
    pid: int


class Repeated:
    """A request that goes out again and again as the same bytes: the client costs little."""

    def __init__(self, client: WireClient, request: Message, version: int) -> None:
        self._client = client
        self._frame = client.frame(request, version)

    def send(self) -> bytes:
        """The answer, as it is."""
        self._client.socket.sendall(self._frame)
        return self._client.exactly(int.from_bytes(self._client.exactly(4), "big"))


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
        self._repeated: Repeated | None = None
        self._unchanged = b""

    def beat(self) -> None:
        if self._repeated is not None:
            answer = self._repeated.send()
            if answer != self._unchanged:
                self._learn(answer)
            return
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
        sent = Repeated(self._client, request, HEARTBEAT_VERSION)
        answer = sent.send()
        is_plain = self.epoch > 0 and not self._says_more
        before = self.epoch
        self._learn(answer)
        if is_plain and before == self.epoch and not self._says_more:
            self._repeated, self._unchanged = sent, answer

    def _learn(self, frame: bytes) -> None:
        answer: Any
        answer, _ = decode_from(ConsumerGroupHeartbeatResponse, HEARTBEAT_VERSION, frame, HEADER)
        assert answer.error_code == 0, answer
        self.epoch = answer.member_epoch
        self._repeated = None
        self._says_more = answer.assignment is not None
        if answer.assignment is not None:
            self._partitions = [
                p for one in answer.assignment.topic_partitions for p in one.partitions
            ]


def state_of(client: WireClient, group: str) -> tuple[str, int]:
    request = ConsumerGroupDescribeRequest(group_ids=[group])
    (found,) = client.call(request, HEARTBEAT_VERSION).groups
    return str(found.group_state), len(found.members)


def coordinates(client: WireClient, group: str) -> bool:
    """Whether the broker has read what it knows of the group."""
    request = ConsumerGroupDescribeRequest(group_ids=[group])
    (found,) = client.call(request, HEARTBEAT_VERSION).groups
    return found.error_code not in RETRIED


def settle(client: WireClient, group: str, members: list[Member], count: int) -> None:
    """Heartbeats until the group is stable with so many members."""
    while state_of(client, group) != ("Stable", count):
        for member in members:
            member.beat()


def death(client: WireClient, count: int) -> float:
    """The seconds from the end of a member's session until the group is stable without it."""
    topic, group = client.create_topic(count), unique("death")
    client.coordinator(group)
    until(lambda: coordinates(client, group))
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


class Cost(NamedTuple):
    """Of one heartbeat, in microseconds."""

    wall: float
    cpu: float  # of the broker


def heartbeats(client: WireClient, pid: int, count: int, rounds: int) -> tuple[Cost, Cost]:
    """One of the consumer protocol, and a classic one: the median time and the mean CPU time."""
    topic = client.create_topic(1)
    client.coordinator("new")
    member = Member(client, "new", "m", topic)
    until(lambda: coordinates(client, "new"))
    for _ in range(3):
        member.beat()
    new = ConsumerGroupHeartbeatRequest(group_id="new", member_id="m", member_epoch=member.epoch)
    kinds = [
        Repeated(client, new, HEARTBEAT_VERSION),
        Repeated(client, joined_classic(client), CLASSIC_HEARTBEAT_VERSION),
    ]
    wall: list[list[float]] = [[], []]
    cpu = [0.0, 0.0]
    for _ in range(rounds):
        for place, kind in enumerate(kinds):
            answer = kind.send()
            used, began = cpu_seconds(pid), time.perf_counter()
            for _ in range(count):
                assert kind.send() == answer
            wall[place].append((time.perf_counter() - began) / count * 1e6)
            cpu[place] += cpu_seconds(pid) - used
    first, second = (
        Cost(statistics.median(wall[place]), cpu[place] / (count * rounds) * 1e6)
        for place in (0, 1)
    )
    return first, second


def measure_heartbeats(places: dict[str, Place], count: int, rounds: int) -> None:
    print("microseconds of a heartbeat: consumer, classic, ratio")
    for name, (client, pid) in places.items():
        new, classic = heartbeats(client, pid, count, rounds)
        told = f", to be at most {HEARTBEAT_AT_MOST}" if name == OURS else ""
        for what in Cost._fields:
            mine, other = getattr(new, what), getattr(classic, what)
            print(
                f"{name:>16} {what:>4} {mine:7.1f} {other:7.1f} {mine / other:6.2f}{told}",
                flush=True,
            )


def measure_deaths(places: dict[str, Place], members: int, rounds: int) -> None:
    print(f"until {members} members are stable without one: {OURS}, {THEIRS}, ratio")
    took: dict[str, list[float]] = {name: [] for name in places}
    for number in range(rounds):
        for name, (client, _) in places.items():
            took[name].append(death(client, members))
        mine, other = took[OURS][-1], took[THEIRS][-1]
        print(f"{number + 1:>6} {mine:8.2f} s {other:8.2f} s {mine / other:6.2f}", flush=True)
    mine, other = (statistics.median(took[name]) for name in (OURS, THEIRS))
    print(f"median {mine:8.2f} s {other:8.2f} s {mine / other:6.2f}, to be at most {DEATH_AT_MOST}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("all", "heartbeats", "death"), default="all", nargs="?")
    parser.add_argument("--members", type=int, default=1000)
    parser.add_argument("--deaths", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=15, help="of heartbeats")
    parser.add_argument("--count", type=int, default=1000, help="heartbeats in a round")
    options = parser.parse_args()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ours = stack.enter_context(running_broker(directory / "ours", CONFIG))
        theirs = stack.enter_context(running_kafka_4(directory / "theirs", CONFIG))
        places = {
            OURS: Place(stack.enter_context(WireClient(ours.bootstrap)), ours.pid),
            THEIRS: Place(stack.enter_context(WireClient(theirs.bootstrap)), theirs.pid),
        }
        finalize(places[OURS].client, dict(RELEASES["4.3"]))
        if options.what != "death":
            measure_heartbeats(places, options.count, options.rounds)
        if options.what != "heartbeats":
            measure_deaths(places, options.members, options.deaths)


if __name__ == "__main__":
    main()
