"""Topics that a request names by id get their names; unknown ones have an error of their own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pybroker_kafka.broker.authorization.guard import AccessGuard
from pybroker_kafka.broker.network.request import Request
from pybroker_kafka.broker.network.topic_names import TopicNames
from pybroker_kafka.broker.security.access import DenialLog
from pybroker_kafka.protocol.acls import AclOperation, ResourceType
from pybroker_kafka.protocol.api import ApiKey, pages
from pybroker_kafka.protocol.api_page import has_field
from pybroker_kafka.protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from pybroker_kafka.protocol.apis.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.authorizers import Rules
from tests.support.handlers import CLOSED, Call

FIRST, SECOND, UNKNOWN = (bytes([number]) * 16 for number in (1, 2, 3))
NAMES = TopicNames({FIRST: "first", SECOND: "second"}.get)
UNKNOWN_ID = ErrorCode.UNKNOWN_TOPIC_ID


def commit(*ids: bytes) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=3)
    return OffsetCommitRequest(
        group_id="g",
        topics=[OffsetCommitRequestTopic(topic_id=one, partitions=[partition]) for one in ids],
    )


class Handled:
    """A handler of commits, with the names that reached it."""

    def __init__(self, rules: Rules | None = None) -> None:
        self.names: list[list[str]] = []
        key, version = ApiKey.OFFSET_COMMIT, 10
        if rules is None:
            handle = NAMES(key, self._handle, version)
        else:
            guard = AccessGuard(rules, DenialLog(lambda: 0.0), lambda: True, names=NAMES)
            handle = guard(key, self._handle, version)
        self._handlers = {key: handle}

    def handlers(self) -> Any:
        return self._handlers

    def _handle(self, request: Request) -> None:
        topics = request.body.topics
        self.names.append([topic.name for topic in topics])
        partition = OffsetCommitResponsePartition(partition_index=3)
        results = [
            OffsetCommitResponseTopic(topic_id=topic.topic_id, partitions=[partition])
            for topic in topics
        ]
        request.respond(OffsetCommitResponse(topics=results))

    def commit(self, *ids: bytes) -> list[tuple[bytes, int]]:
        answer = Call(self, ApiKey.OFFSET_COMMIT, 10, commit(*ids)).answer
        return [(topic.topic_id, topic.partitions[0].error_code) for topic in answer.topics]


def test_known_topics_have_their_names() -> None:
    handled = Handled()
    assert handled.commit(SECOND, FIRST) == [(SECOND, 0), (FIRST, 0)]
    assert handled.names == [["second", "first"]]


def test_unknown_topics_are_answered_beside_the_others() -> None:
    handled = Handled()
    assert handled.commit(UNKNOWN, FIRST) == [(FIRST, 0), (UNKNOWN, UNKNOWN_ID)]
    assert handled.commit(UNKNOWN) == [(UNKNOWN, UNKNOWN_ID)]
    assert handled.names == [["first"]]


def test_permissions_are_those_of_the_names() -> None:
    read, topic = AclOperation.READ, ResourceType.TOPIC
    rules = Rules({(read, ResourceType.GROUP, "g"), (read, topic, "first")})
    handled = Handled(rules)
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    found = handled.commit(FIRST, SECOND, UNKNOWN)
    assert dict(found) == {FIRST: 0, SECOND: denied, UNKNOWN: UNKNOWN_ID}
    assert handled.names == [["first"]]
    rules.change(set())
    group_denied = ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert handled.commit(FIRST, UNKNOWN) == [(FIRST, group_denied), (UNKNOWN, group_denied)]


def test_old_versions_keep_the_handler_itself() -> None:
    def handle(request: Request) -> None:
        raise AssertionError(request)

    assert NAMES(ApiKey.OFFSET_COMMIT, handle, 9) is handle
    assert NAMES(ApiKey.FETCH, handle, 18) is handle


@pytest.mark.parametrize("allowed", [None, {(AclOperation.WRITE, ResourceType.TOPIC, "first")}])
def test_a_producer_writes_by_id(allowed: Any) -> None:
    key = ApiKey.PRODUCE
    seen: list[str] = []

    def handle(request: Request) -> None:
        seen.extend(topic.name for topic in request.body.topic_data)
        request.respond(None)

    guard = AccessGuard(Rules(allowed), DenialLog(lambda: 0.0), lambda: True, names=NAMES)
    handlers = SimpleNamespace(handlers=lambda: {key: guard(key, handle, 13)})

    def produce(*ids: bytes) -> Any:
        data = [PartitionProduceData(records=b"")]
        topics = [TopicProduceData(topic_id=one, partition_data=data) for one in ids]
        return Call(handlers, key, 13, ProduceRequest(acks=0, topic_data=topics)).answer

    produce(FIRST)
    assert seen == ["first"]
    assert produce(FIRST, UNKNOWN) == CLOSED  # acks=0 has no other way to say it
    assert seen == ["first", "first"]


def test_pages_name_lists_of_topics() -> None:
    for _, page in pages():
        place = page.topics_by_id
        if place is None:
            continue
        element = next(f.element for f in page.request._fields if f.name == place.topics)
        for version in (place.since - 1, place.since):
            has_ids = version == place.since
            assert has_field(element, "topic_id", version) is has_ids
            assert has_field(element, "name", version) is not has_ids
