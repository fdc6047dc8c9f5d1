"""Requests in parts: cut anywhere, the answers joined are the answer to the whole."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import Any

import pytest

from pybroker_kafka.broker.network.request import Request, Route
from pybroker_kafka.broker.network.request_parts import (
    MAX_PART_ELEMENTS,
    InParts,
    cut,
    join,
    place_to_cut,
    weight,
)
from pybroker_kafka.broker.network.turns import Failed, Steps, Turns
from pybroker_kafka.broker.observability.request_metrics import RequestMetrics
from pybroker_kafka.protocol import codec
from pybroker_kafka.protocol.api import API_TABLE, ApiKey, response_class
from pybroker_kafka.protocol.apis.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from pybroker_kafka.protocol.apis.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersRequestTopicPartitions,
)
from pybroker_kafka.protocol.apis.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from pybroker_kafka.protocol.apis.metadata import MetadataRequest, MetadataRequestTopic
from pybroker_kafka.protocol.apis.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.failures import error_response
from pybroker_kafka.protocol.schema import Message
from tests.support.handlers import AtOnce, Call, RecordingSink
from tests.support.network import api_versions, running_network


def request(*groups: tuple[int, ...]) -> OffsetFetchRequest:
    """A group for each tuple, a topic for each number in it, with so many partitions."""
    return OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group_id=f"g{g}",
                topics=[
                    OffsetFetchRequestTopics(name=f"t{t}", partition_indexes=list(range(count)))
                    for t, count in enumerate(counts)
                ],
            )
            for g, counts in enumerate(groups)
        ]
    )


def route_of(key: ApiKey) -> Route:
    version = API_TABLE[key].max_version
    return Route(key, version, lambda _: None, RequestMetrics(key.name, version), Turns())


def answer(asked: OffsetFetchRequest) -> OffsetFetchResponse:
    return OffsetFetchResponse(
        groups=[
            OffsetFetchResponseGroup(
                group_id=group.group_id,
                topics=[
                    OffsetFetchResponseTopics(
                        name=topic.name,
                        partitions=[
                            OffsetFetchResponsePartitions(partition_index=index)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in group.topics or ()
                ],
            )
            for group in asked.groups
        ]
    )


@pytest.mark.parametrize(
    "groups",
    [
        ((5 * MAX_PART_ELEMENTS + 3,),),
        ((1,) * (3 * MAX_PART_ELEMENTS),),
        tuple((1, 2) for _ in range(2 * MAX_PART_ELEMENTS)),
        ((3, 4 * MAX_PART_ELEMENTS, 2), (7,), (), (MAX_PART_ELEMENTS, MAX_PART_ELEMENTS)),
    ],
)
def test_the_joined_answers_are_the_answer(groups: tuple[tuple[int, ...], ...]) -> None:
    whole = request(*groups)
    expected = answer(whole)
    place = place_to_cut(route_of(ApiKey.OFFSET_FETCH), whole)
    assert place is not None
    joined: Any = None
    parts = list(cut(whole.groups, place.asked[1:]))
    assert len(parts) > 1
    for part in parts:
        assert weight(part, place.asked[1:]) <= MAX_PART_ELEMENTS + 2  # and their outer elements
        response = answer(OffsetFetchRequest(groups=part))
        if joined is None:
            joined = response
        else:
            join(joined, response, place.answered)
    assert joined == expected
    assert whole == request(*groups), "the request is as it was"


def test_what_is_small_is_not_cut() -> None:
    assert place_to_cut(route_of(ApiKey.OFFSET_FETCH), request((MAX_PART_ELEMENTS - 2,))) is None
    assert place_to_cut(route_of(ApiKey.METADATA), MetadataRequest(topics=None)) is None


PARTITIONS = 2 * MAX_PART_ELEMENTS + 20


class Cut:
    """Serves one API in parts."""

    def __init__(self, key: ApiKey, handle: Callable[[Request], None]) -> None:
        self._key = key
        self._handle = handle

    def handlers(self) -> Any:
        return {self._key: self._steps}

    def _steps(self, request: Request) -> Steps:
        place = place_to_cut(request.route, request.body)
        assert place is not None
        return InParts(request, place, self._handle).steps()


def three_topics(key: ApiKey) -> Message:
    """A request with partitions for many parts."""
    names, indexes = ("a", "b", "c"), list(range(PARTITIONS))
    if key is ApiKey.ELECT_LEADERS:
        chosen = [
            ElectLeadersRequestTopicPartitions(topic=name, partitions=indexes) for name in names
        ]
        return ElectLeadersRequest(topic_partitions=chosen)
    if key is ApiKey.LIST_PARTITION_REASSIGNMENTS:
        listed = [
            ListPartitionReassignmentsTopics(name=name, partition_indexes=indexes) for name in names
        ]
        return ListPartitionReassignmentsRequest(topics=listed)
    moved = [ReassignablePartition(partition_index=index) for index in indexes]
    return AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name=name, partitions=moved) for name in names]
    )


REFUSED = [
    (key, version)
    for key in (
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ELECT_LEADERS,
    )
    for version in range(API_TABLE[key].min_version, API_TABLE[key].max_version + 1)
]


@pytest.mark.parametrize("parts_before", [0, 2])
@pytest.mark.parametrize(("key", "version"), REFUSED, ids=[f"{k.name}-{v}" for k, v in REFUSED])
def test_a_refusal_names_all_that_was_asked_for(
    key: ApiKey, version: int, parts_before: int
) -> None:
    """As Kafka's getErrorResponse; nothing is done behind it, and it counts once."""
    seen: list[Request] = []

    def handle(part: Request) -> None:
        seen.append(part)
        if len(seen) > parts_before:
            part.fail(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        else:
            part.respond(response_class(key)())

    call = Call(Cut(key, handle), key, version, three_topics(key))
    of_all = error_response(call.request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    expected = codec.decode(
        response_class(key), version, memoryview(bytearray(codec.encode(of_all, version)))
    )
    if key is ApiKey.ELECT_LEADERS and version == 0:  # says it at each element: parts are done
        assert len(seen) > 1
        assert parts_before or call.answer == expected
        return
    assert call.answer == expected
    assert len(seen) == parts_before + 1


def test_a_refusal_that_comes_later_names_all() -> None:
    key = ApiKey.ALTER_PARTITION_REASSIGNMENTS
    waiting: list[Request] = []
    call = Call(Cut(key, waiting.append), key, 0, three_topics(key))
    assert call.waits
    (part,) = waiting
    part.fail(ErrorCode.NOT_CONTROLLER)
    assert not call.waits
    assert [len(topic.partitions) for topic in call.answer.responses] == [PARTITIONS] * 3
    assert len(waiting) == 1


async def test_a_large_request_through_the_network() -> None:
    """Decoded, handled and encoded in turns, while a small one on another connection passes."""
    async with running_network() as network:
        large, small = await network.connect(), await network.connect()
        names = [f"topic-{number}" for number in range(20_000)]
        asked = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in names],
            allow_auto_topic_creation=False,
        )
        response = await large.ask(asked, 9)
        assert [topic.name for topic in response.topics] == names
        assert (await small.ask(api_versions(), 3)).error_code == 0


class Later(AtOnce):
    """Turns that begin only when they are told to."""

    def __init__(self) -> None:
        super().__init__()
        self.left: deque[Steps] = deque()

    def begin(self, steps: Steps, failed: Failed) -> None:
        self.left.append(steps)

    def run_all(self) -> None:
        while self.left:
            super().begin(self.left.popleft(), lambda error: None)


class Slow:
    """A filter that needs a turn for each answer."""

    def filtered(self, request: Request, response: Any) -> Generator[None, None, Any]:
        yield
        return response


def test_a_part_has_arrived_when_its_answer_has_passed_its_filters() -> None:
    """It is answered before that, and the next part must not overtake it."""
    key = ApiKey.OFFSET_FETCH
    version = API_TABLE[key].highest()  # the last one with names
    whole = request((3 * MAX_PART_ELEMENTS,), (2,))
    turns = Later()
    route = Route(key, version, lambda _: None, RequestMetrics(key.name, version), turns)
    connection = RecordingSink("PLAINTEXT", 0, key, version)
    asked = Request(connection, route, 1, "app", whole, 100, 0.0)
    parts: list[int] = []

    def handle(part: Request) -> None:
        assert not part.is_plain
        parts.append(len(turns.left))
        part.add_filter(Slow())
        part.respond(answer(part.body))

    place = place_to_cut(route, whole)
    assert place is not None
    turns.begin(InParts(asked, place, handle).steps(), lambda error: None)
    turns.run_all()
    assert connection.answer == answer(whole)
    assert parts == [0] * 4, "one part at a time"
