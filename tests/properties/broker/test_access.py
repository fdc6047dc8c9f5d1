"""What a connection remembers of the authorizer, and how requests are split, against their twins:
the authorizer itself, and a loop over all elements.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.broker.authorization.guard import AccessGuard
from pybroker_kafka.broker.network.request import Request
from pybroker_kafka.broker.security import access as access_module
from pybroker_kafka.broker.security.access import Access, DenialLog
from pybroker_kafka.broker.security.principal import ANONYMOUS
from pybroker_kafka.protocol.acls import CLUSTER_NAME, AclOperation, ResourceType
from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeGroupsResponseDescribedGroup,
)
from pybroker_kafka.protocol.apis.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from pybroker_kafka.protocol.apis.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponseEpochEndOffset,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.authorizers import Rules
from tests.support.handlers import Call

NAMES = st.sampled_from("abcde")
QUESTIONS = st.tuples(
    st.sampled_from([AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE]),
    st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP]),
    NAMES,
)
ALLOWED = st.sets(QUESTIONS, max_size=12)


@given(st.lists(st.one_of(QUESTIONS, ALLOWED), max_size=60), st.integers(1, 6))
def test_what_is_remembered_is_what_the_authorizer_says(steps: list[Any], room: int) -> None:
    rules = Rules(set())
    access = Access(rules, ANONYMOUS, "h", DenialLog(lambda: 0.0))
    with patch.object(access_module, "MAX_REMEMBERED", room):
        for step in steps:
            if isinstance(step, set):
                rules.change(step)
            else:
                assert rules.allowed is not None
                assert access.permits(*step) is (step in rules.allowed)
                remembered = sum(map(len, access.known.values()))
                assert remembered == access.size <= room


def guarded(rules: Rules, key: ApiKey, answer: Any) -> Any:
    def handle(request: Request) -> None:
        request.respond(answer(request.body))

    guard = AccessGuard(rules, DenialLog(lambda: 0.0), lambda: True)

    class Handlers:
        def handlers(self) -> Any:
            return {key: guard(key, handle)}

    return Handlers()


def described(body: Any) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(
        groups=[DescribeGroupsResponseDescribedGroup(group_id=name) for name in body.groups]
    )


@given(st.lists(NAMES, max_size=8), st.sets(NAMES))
def test_names_are_split(asked: list[str], allowed: set[str]) -> None:
    key = ApiKey.DESCRIBE_GROUPS
    rules = Rules({(AclOperation.DESCRIBE, ResourceType.GROUP, name) for name in allowed})
    answer = Call(guarded(rules, key, described), key, 5, DescribeGroupsRequest(groups=asked))
    expected = [(name, ErrorCode.NONE) for name in asked if name in allowed]
    expected += [
        (name, ErrorCode.GROUP_AUTHORIZATION_FAILED) for name in asked if name not in allowed
    ]
    assert [(one.group_id, one.error_code) for one in answer.answer.groups] == expected


def ended(body: Any) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    OffsetForLeaderEpochResponseEpochEndOffset(partition=one.partition)
                    for one in topic.partitions
                ],
            )
            for topic in body.topics
        ]
    )


@given(
    st.lists(st.tuples(NAMES, st.lists(st.integers(0, 9), max_size=3)), max_size=6),
    st.sets(NAMES),
    st.booleans(),
)
def test_topics_are_split(
    asked: list[tuple[str, list[int]]], allowed: set[str], is_broker: bool
) -> None:
    key = ApiKey.OFFSET_FOR_LEADER_EPOCH
    rules = Rules({(AclOperation.DESCRIBE, ResourceType.TOPIC, name) for name in allowed})
    if is_broker:
        assert rules.allowed is not None
        rules.allowed.add((AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME))
    topics = [
        OffsetForLeaderTopic(
            topic=name, partitions=[OffsetForLeaderPartition(partition=one) for one in partitions]
        )
        for name, partitions in asked
    ]
    call = Call(guarded(rules, key, ended), key, 4, OffsetForLeaderEpochRequest(topics=topics))

    def said(is_allowed: bool) -> list[Any]:
        code = ErrorCode.NONE if is_allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return [
            (name, [(one, code) for one in partitions])
            for name, partitions in asked
            if (is_broker or name in allowed) is is_allowed
        ]

    assert [
        (topic.topic, [(one.partition, one.error_code) for one in topic.partitions])
        for topic in call.answer.topics
    ] == said(True) + said(False)


@given(st.lists(NAMES, max_size=8), st.sets(NAMES))
def test_groups_are_left_out(listed: list[str], allowed: set[str]) -> None:
    key = ApiKey.LIST_GROUPS
    rules = Rules({(AclOperation.DESCRIBE, ResourceType.GROUP, name) for name in allowed})
    response = ListGroupsResponse(groups=[ListedGroup(group_id=name) for name in listed])
    call = Call(guarded(rules, key, lambda _: response), key, 4, ListGroupsRequest())
    assert [one.group_id for one in call.answer.groups] == [n for n in listed if n in allowed]
