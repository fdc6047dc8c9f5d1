"""A cluster over a network in memory: coordinators, found and forgotten; leaders; old brokers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import MockClock, memory_stream_pair

from pybroker_kafka.client.cluster import Cluster, CoordinatorKind
from pybroker_kafka.client.errors import ClientError, ConnectionFailed, Refused
from pybroker_kafka.client.metadata import Leader
from pybroker_kafka.client.refusals import NotAllowed
from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.api_versions import ApiVersion, ApiVersionsResponse
from pybroker_kafka.protocol.apis.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from pybroker_kafka.protocol.apis.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from pybroker_kafka.protocol.apis.find_coordinator import Coordinator, FindCoordinatorResponse
from pybroker_kafka.protocol.apis.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.broker_streams import answer_requests

NEWEST = {
    ApiKey.API_VERSIONS: 3,
    ApiKey.METADATA: 12,
    ApiKey.FIND_COORDINATOR: 4,
    ApiKey.CREATE_TOPICS: 7,
    ApiKey.ELECT_LEADERS: 2,
}
NO_SUCH_FACTOR = ErrorCode.INVALID_REPLICATION_FACTOR


class World:
    """Two brokers, "one:1" and "two:2", that answer as `answers` has it."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self.newest = dict(NEWEST)
        self.opened: list[int] = []
        self.asked: list[tuple[ApiKey, int, Any]] = []
        self.codes: list[ErrorCode] = []  # of the next FindCoordinator answers, then none
        self.too_few_brokers: list[
            bool
        ] = []  # whether a metadata answer names none at all; from its end
        self.coordinator = 2
        self.refusing = 0  # how many more requests reach a broker that is not the controller
        self.leader = Leader(1, 7)
        self.dead: set[int] = set()
        self.paused: set[int] = set()
        self.closes: list[ApiKey] = []  # the next requests that a broker closes the connection on

    async def reach(self, _host: str, port: int) -> trio.abc.Stream:
        if port in self.dead:
            raise ConnectionRefusedError
        self.opened.append(port)
        ours, theirs = memory_stream_pair()
        self._nursery.start_soon(answer_requests, theirs, partial(self.answer, port))
        return ours

    async def answer(self, port: int, key: ApiKey, version: int, body: Any) -> Any:
        if port in self.paused:
            await trio.sleep_forever()
        if key in self.closes:
            self.closes.remove(key)
            return None
        self.asked.append((key, version, body))
        answers: dict[ApiKey, Callable[[int, Any], Any]] = {
            ApiKey.API_VERSIONS: self._versions,
            ApiKey.METADATA: self._metadata,
            ApiKey.FIND_COORDINATOR: self._find,
            ApiKey.CREATE_TOPICS: self._create,
            ApiKey.ELECT_LEADERS: self._elect,
        }
        return answers[key](version, body)

    def _versions(self, _version: int, _body: Any) -> ApiVersionsResponse:
        served = [
            ApiVersion(api_key=key, min_version=0, max_version=newest)
            for key, newest in self.newest.items()
        ]
        return ApiVersionsResponse(api_keys=served)

    def _metadata(self, _version: int, _body: Any) -> MetadataResponse:
        part = MetadataResponsePartition(
            partition_index=0, leader_id=self.leader.broker_id, leader_epoch=self.leader.epoch,
            replica_nodes=[1, 2], isr_nodes=[1, 2],
        )  # fmt: skip
        brokers = [
            MetadataResponseBroker(node_id=1, host="one", port=1),
            MetadataResponseBroker(node_id=2, host="two", port=2),
        ]
        topic = MetadataResponseTopic(name="t", topic_id=bytes(16), partitions=[part])
        if self.too_few_brokers:
            knows_none = self.too_few_brokers.pop()
            topic = MetadataResponseTopic(error_code=NO_SUCH_FACTOR, name="t")
            brokers = [] if knows_none else brokers
        return MetadataResponse(brokers=brokers, controller_id=1, topics=[topic])

    def _find(self, version: int, body: Any) -> FindCoordinatorResponse:
        code = self.codes.pop(0) if self.codes else ErrorCode.NONE
        where = self.coordinator
        host = {1: "one", 2: "two"}[where]
        if version < 4:
            return FindCoordinatorResponse(error_code=code, node_id=where, host=host, port=where)
        found = Coordinator(
            key=body.coordinator_keys[0], node_id=where, host=host, port=where, error_code=code
        )
        return FindCoordinatorResponse(coordinators=[found])

    def _controller_code(self) -> ErrorCode:
        self.refusing -= 1
        return ErrorCode.NOT_CONTROLLER if self.refusing >= 0 else ErrorCode.NONE

    def _create(self, _version: int, _body: Any) -> CreateTopicsResponse:
        created = CreatableTopicResult(name="t", error_code=self._controller_code())
        return CreateTopicsResponse(topics=[created])

    def _elect(self, _version: int, _body: Any) -> ElectLeadersResponse:
        return ElectLeadersResponse(error_code=self._controller_code())

    def count(self, key: ApiKey) -> int:
        return sum(one == key for one, _, _ in self.asked)


@pytest.fixture
def world(nursery: trio.Nursery, autojump_clock: MockClock) -> World:
    return World(nursery)


async def test_a_connection_that_is_closed_under_a_request_is_opened_once_more(
    world: World,
) -> None:
    """As a broker closes one whose login has expired; twice means that it does not want us."""
    world.closes = [ApiKey.METADATA]
    async with Cluster("one:1", network=world.reach) as cluster:
        answer = await cluster.ask_anyone(ApiKey.METADATA, MetadataRequest(), MetadataResponse)
        assert len(answer.brokers) == 2
        assert world.opened == [1, 1]
        world.closes = [ApiKey.METADATA] * 3  # the open connection, and two new ones
        with pytest.raises(ConnectionFailed, match="closed the connection"):
            await cluster.ask_anyone(ApiKey.METADATA, MetadataRequest(), MetadataResponse)
        assert world.closes == []


async def test_a_coordinator_is_asked_for_once(world: World) -> None:
    async with Cluster("one:1", network=world.reach) as cluster:
        first = await cluster.coordinator(CoordinatorKind.GROUP, "g")
        assert first.address == "two:2"
        assert await cluster.coordinator(CoordinatorKind.GROUP, "g") is first
        assert world.count(ApiKey.FIND_COORDINATOR) == 1
        # Of another kind it is another question, and one connection to the same broker.
        assert await cluster.coordinator(CoordinatorKind.TRANSACTION, "g") is first
        assert world.asked[-1][2].key_type == 1
        world.coordinator = 1
        cluster.forget_coordinator(CoordinatorKind.GROUP, "g")
        moved = await cluster.coordinator(CoordinatorKind.GROUP, "g")
        assert moved.address == "one:1"
    assert not first.is_open
    assert not moved.is_open


async def test_a_coordinator_that_is_not_there_yet_is_waited_for(
    world: World, autojump_clock: MockClock
) -> None:
    world.codes = [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 3
    async with Cluster("one:1", network=world.reach) as cluster:
        found = await cluster.coordinator(CoordinatorKind.GROUP, "g")
        assert found.address == "two:2"
        assert world.count(ApiKey.FIND_COORDINATOR) == 4
        world.codes = [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 1000
        with pytest.raises(ClientError, match=r"group 'h' has no coordinator: The coordinator"):
            await cluster.coordinator(CoordinatorKind.GROUP, "h")


async def test_a_broker_that_knows_of_no_broker_yet_is_asked_again(
    world: World, autojump_clock: MockClock
) -> None:
    """It cannot create the topic that it does not know of, either."""
    async with Cluster("one:1", network=world.reach) as cluster:
        world.too_few_brokers = [True] * 3
        assert (await cluster.topic("t", create_missing=True)).partitions
        assert world.count(ApiKey.METADATA) == 4
        world.too_few_brokers = [False, True]
        with pytest.raises(ClientError, match="replication factor"):
            await cluster.topic("t", create_missing=True)
        assert not world.too_few_brokers


async def test_a_refusal_is_not_asked_again(world: World) -> None:
    async with Cluster("one:1", network=world.reach) as cluster:
        world.codes = [ErrorCode.GROUP_AUTHORIZATION_FAILED]
        with pytest.raises(NotAllowed) as caught:
            await cluster.coordinator(CoordinatorKind.GROUP, "g")
        assert caught.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED
        world.codes = [ErrorCode.INVALID_REQUEST]
        with pytest.raises(Refused):
            await cluster.coordinator(CoordinatorKind.GROUP, "g")
        assert world.count(ApiKey.FIND_COORDINATOR) == 2


async def test_a_dead_coordinator_is_looked_for_again(world: World) -> None:
    async with Cluster("one:1", network=world.reach) as cluster:
        first = await cluster.coordinator(CoordinatorKind.GROUP, "g")
        first.close()
        world.dead.add(2)
        world.coordinator = 1
        assert (await cluster.coordinator(CoordinatorKind.GROUP, "g")).address == "one:1"


async def test_old_brokers_are_asked_as_they_can_be(world: World) -> None:
    world.newest = {ApiKey.API_VERSIONS: 0, ApiKey.METADATA: 0, ApiKey.FIND_COORDINATOR: 0}
    async with Cluster("one:1", network=world.reach) as cluster:
        await cluster.metadata(["t"])
        assert (await cluster.coordinator(CoordinatorKind.GROUP, "g")).address == "two:2"
        assert world.asked[-1][0] is ApiKey.API_VERSIONS
        await cluster.metadata(None)
        key, version, body = world.asked[-1]
        assert (key, version, body.topics) == (ApiKey.METADATA, 0, [])


@pytest.mark.parametrize(
    ("key", "question", "answer_class"),
    [
        (ApiKey.CREATE_TOPICS, CreateTopicsRequest(), CreateTopicsResponse),
        (ApiKey.ELECT_LEADERS, ElectLeadersRequest(), ElectLeadersResponse),
    ],
)
async def test_the_successor_of_a_controller_is_asked(
    world: World, autojump_clock: MockClock, key: ApiKey, question: Any, answer_class: type[Any]
) -> None:
    async with Cluster("one:1", network=world.reach) as cluster:
        world.refusing = 3
        answer = await cluster.ask_controller(key, question, answer_class)
        assert codes_of(answer) == [ErrorCode.NONE]
        assert world.count(key) == world.count(ApiKey.METADATA) == 4
        world.refusing = 10_000
        answer = await cluster.ask_controller(key, question, answer_class)
        assert codes_of(answer) == [ErrorCode.NOT_CONTROLLER]


def codes_of(answer: Any) -> list[int]:
    return [
        one.error_code
        for one in (answer, *getattr(answer, "topics", ()))
        if hasattr(one, "error_code")
    ]


async def test_who_leads_is_known_until_it_is_stale(world: World) -> None:
    async with Cluster("one:1", network=world.reach) as cluster:
        assert await cluster.leader("t", 0) == Leader(1, 7)
        asked = world.count(ApiKey.METADATA)
        assert await cluster.leader("t", 0) == Leader(1, 7)
        assert world.count(ApiKey.METADATA) == asked
        world.leader = Leader(2, 8)
        cluster.cache.mark_stale("t")
        assert await cluster.leader("t", 0) == Leader(2, 8)
        with pytest.raises(ClientError, match="has no partition 1"):
            await cluster.leader("t", 1)


async def test_many_tasks_open_one_connection(world: World) -> None:
    async with Cluster("one:1", network=world.reach) as cluster:
        await cluster.metadata([])
        world.opened.clear()
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(cluster.connection, 2)
        assert world.opened == [2]
        assert await cluster.connection(2, "other") is not await cluster.connection(2)
        assert world.opened == [2, 2]


async def test_a_silent_broker_holds_no_question_up_that_another_can_answer(world: World) -> None:
    async with Cluster("one:1", network=world.reach) as cluster:
        await cluster.metadata([])
        world.paused.add(1)
        for question in (
            partial(cluster.metadata, []),
            partial(cluster.coordinator, CoordinatorKind.GROUP, "g"),
            partial(cluster.metadata, ["t"]),
        ):
            begun = trio.current_time()
            await question()
            assert trio.current_time() - begun < 1.5
        # Once another has answered it is asked first.
        assert world.opened == [1, 2, 2]
