"""Streams groups: who may send heartbeats and see groups, and whose topics are created."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from pybroker_kafka.broker.cluster.streams_topics import MAX_ERRORS, StreamsTopics
from pybroker_kafka.broker.cluster.topic_creation import WantedTopic
from pybroker_kafka.broker.handlers.streams_groups import StreamsGroupHandlers
from pybroker_kafka.coordinator.group.core import Append, Reply
from pybroker_kafka.coordinator.group.streams.topology import TopicInfo
from pybroker_kafka.protocol.acls import AclOperation, ResourceType
from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.streams_group_describe import StreamsGroupDescribeRequest
from pybroker_kafka.protocol.apis.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from pybroker_kafka.protocol.errors import ErrorCode, KafkaError
from tests.support.handlers import Call
from tests.unit.coordinator.group.consumer_harness import Topics
from tests.unit.coordinator.group.streams_harness import StreamsHarness, subtopology, topology

COUNTING = topology(
    subtopology("0", "in", sinks=["r"]),
    subtopology("1", repartition={"r": 0}, changelogs=["c"]),
)
MISSING = "Internal topics are missing: c, r"


class Access:
    """Permits all but some questions."""

    def __init__(self, *denied: tuple[AclOperation, ResourceType, str]) -> None:
        self.denied = {*denied}

    def permits(
        self, operation: AclOperation, kind: ResourceType, name: str, *_: Any, **__: Any
    ) -> bool:
        return (operation, kind, name) not in self.denied

    def operations_on(self, *_: Any) -> int:
        return 8


class Creator:
    """Creates topics, or does not."""

    def __init__(self) -> None:
        self.made: list[WantedTopic] = []
        self.problem: str | None = None

    async def create(self, topic: WantedTopic, **_: Any) -> None:
        if self.problem is not None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, self.problem)
        self.made.append(topic)


class Runtime:
    """Answers and appends at once."""

    def __init__(self) -> None:
        self.machine = StreamsHarness(Topics(**{"in": 2})).machine
        self.now_ms = 0
        self.tasks: list[Callable[[], Awaitable[None]]] = []

    def perform(self) -> None:
        for effect in self.machine.take_effects():
            if isinstance(effect, Reply):
                effect.token.respond(effect.response)
            elif isinstance(effect, Append):
                self.machine.appended(effect.append_id, ErrorCode.NONE, 0, self.now_ms)
                self.perform()

    def spawn(self, handler: Any, *arguments: Any) -> None:
        self.tasks.append(lambda: handler(*arguments))

    async def run(self) -> None:
        tasks, self.tasks = self.tasks, []
        for task in tasks:
            await task()


class Broker:
    def __init__(self) -> None:
        self.runtime = cast(Any, Runtime())
        self.creator = cast(Any, Creator())
        self.now_ms = 0
        self.topics = StreamsTopics(self.creator, lambda: self.now_ms)
        self.handlers = StreamsGroupHandlers(self.runtime, self.topics)

    def join(self, *denied: Any, of: Any = COUNTING) -> Any:
        request = StreamsGroupHeartbeatRequest(
            group_id="g", member_id="m", topology=of, process_id="p", rebalance_timeout_ms=1
        )
        key = ApiKey.STREAMS_GROUP_HEARTBEAT
        return Call(self.handlers, key, 0, request, access=Access(*denied)).answer

    def describe(self, *denied: Any) -> Any:
        request = StreamsGroupDescribeRequest(group_ids=["g"], include_authorized_operations=True)
        key = ApiKey.STREAMS_GROUP_DESCRIBE
        (group,) = Call(self.handlers, key, 0, request, access=Access(*denied)).answer.groups
        return group

    def detail(self, *denied: Any) -> str:
        """Of the status of a member that joins."""
        (status,) = self.join(*denied).status
        return str(status.status_detail)


@pytest.fixture
def broker() -> Broker:
    return Broker()


READ_GROUP = (AclOperation.READ, ResourceType.GROUP, "g")
DESCRIBE_GROUP = (AclOperation.DESCRIBE, ResourceType.GROUP, "g")
CREATE_ALL = (AclOperation.CREATE, ResourceType.CLUSTER, "kafka-cluster")


def test_a_heartbeat_needs_the_group_and_all_topics(broker: Broker) -> None:
    assert broker.join(READ_GROUP).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    for name in ("in", "r", "c"):
        denied = (AclOperation.DESCRIBE, ResourceType.TOPIC, name)
        assert broker.join(denied).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert not list(broker.runtime.machine.groups)
    assert broker.join().error_code == ErrorCode.NONE


async def test_missing_topics_are_created_once(broker: Broker) -> None:
    assert broker.detail() == MISSING
    broker.join()
    assert len(broker.runtime.tasks) == 1, "they are on their way"
    await broker.runtime.run()
    made = broker.creator.made
    assert [(topic.name, topic.partition_count) for topic in made] == [("c", 2), ("r", 2)]
    assert {topic.replication_factor for topic in made} == {-1}


async def test_topics_are_created_with_the_members_permissions(broker: Broker) -> None:
    one = (AclOperation.CREATE, ResourceType.TOPIC, "r")
    assert broker.detail(one) == MISSING, "the cluster's permission is enough"
    broker = Broker()
    assert broker.detail(CREATE_ALL, one) == f"{MISSING}; Unauthorized to CREATE on topics r."
    assert not broker.runtime.tasks


async def test_errors_are_told_for_a_while(broker: Broker) -> None:
    broker.creator.problem = "no such thing"
    broker.join()
    await broker.runtime.run()
    told = f"{MISSING}; Creation failed: c (no such thing), r (no such thing)."
    assert broker.detail() == told
    assert not broker.runtime.tasks, "not tried again yet"
    broker.now_ms += 10_000
    broker.creator.problem = None
    assert broker.detail() == MISSING
    await broker.runtime.run()
    assert len(broker.creator.made) == 2


async def test_errors_are_bounded(broker: Broker) -> None:
    broker.creator.problem = "no"
    topics = [TopicInfo(f"t{n}", 1) for n in range(MAX_ERRORS + 2)]
    claimed = broker.topics.claim({topic.name: topic for topic in topics})
    await broker.topics.create(claimed, 1_000, None)
    kept = [topic.name for topic in topics if broker.topics.error(topic.name) is not None]
    assert len(kept) == MAX_ERRORS
    too_many = TopicInfo("x", 1, configs=tuple((str(n), "") for n in range(1_001)))
    await broker.topics.create([too_many], 1_000, None)
    assert "configs" in str(broker.topics.error("x"))


def test_a_group_is_seen_with_all_its_topics(broker: Broker) -> None:
    broker.join()
    assert broker.describe(DESCRIBE_GROUP).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    hidden = broker.describe((AclOperation.DESCRIBE, ResourceType.TOPIC, "r"))
    assert hidden.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert (hidden.topology, hidden.members) == (None, [])
    seen = broker.describe()
    assert (seen.error_code, seen.authorized_operations, len(seen.members)) == (0, 8, 1)


@pytest.mark.parametrize("name", ["__transaction_state", "a/b", ""])
def test_topics_that_no_topology_has(broker: Broker, name: str) -> None:
    answer = broker.join(of=topology(subtopology("0", name)))
    assert answer.error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY


def test_a_topology_of_too_many_topics(broker: Broker) -> None:
    answer = broker.join(of=topology(subtopology("0", *(f"t{n}" for n in range(5_001)))))
    assert answer.error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert "5000 topics" in answer.error_message
