"""The guard before handlers that say yes to everything."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from pybroker_kafka.broker.authorization.guard import AccessGuard
from pybroker_kafka.broker.handlers.envelope import EnvelopeHandler
from pybroker_kafka.broker.network.dispatcher import Dispatcher
from pybroker_kafka.broker.network.request import Request
from pybroker_kafka.broker.observability.metrics import BrokerMetrics
from pybroker_kafka.broker.security import access as access_module
from pybroker_kafka.broker.security.access import DenialLog
from pybroker_kafka.protocol.acls import CLUSTER_NAME, AclOperation, ResourceType
from pybroker_kafka.protocol.api import API_TABLE, ApiKey, pages, request_class
from pybroker_kafka.protocol.api import page as page_of
from pybroker_kafka.protocol.apis.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from pybroker_kafka.protocol.apis.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from pybroker_kafka.protocol.apis.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsResponseTopicData,
    DescribeTransactionsResponseTransactionState,
)
from pybroker_kafka.protocol.apis.envelope import EnvelopeRequest
from pybroker_kafka.protocol.apis.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from pybroker_kafka.protocol.apis.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from pybroker_kafka.protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from pybroker_kafka.protocol.apis.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from pybroker_kafka.protocol.apis.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopic,
)
from pybroker_kafka.protocol.apis.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.schema import Struct
from tests.support.authorizers import Rules
from tests.support.handlers import CLOSED, Call
from tests.support.message_factory import MessageFactory

READ, WRITE, DELETE = AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE
DESCRIBE = AclOperation.DESCRIBE
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTION = ResourceType.TRANSACTIONAL_ID
TOPIC_FAILED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_FAILED = ErrorCode.GROUP_AUTHORIZATION_FAILED


class Guarded:
    """One handler behind a guard; remembers the requests that came through."""

    def __init__(
        self, rules: Rules, key: ApiKey, answer: Callable[[Any], Any], *, is_controller: bool = True
    ) -> None:
        self.bodies: list[Any] = []
        self.requests: list[Request] = []
        self._answer = answer
        guard = AccessGuard(rules, DenialLog(lambda: 0.0), lambda: is_controller)
        self._handlers = {key: guard(key, self._handle)}

    def _handle(self, request: Request) -> None:
        self.requests.append(request)
        self.bodies.append(request.body)
        request.respond(self._answer(request.body))

    def handlers(self) -> Any:
        return self._handlers


def codes_in(value: Any) -> Iterator[int]:
    if isinstance(value, list):
        for item in value:
            yield from codes_in(item)
    elif isinstance(value, Struct):
        for field in value._fields:
            if field.name in ("error_code", "partition_error_code"):
                yield getattr(value, field.name)
            else:
                yield from codes_in(getattr(value, field.name))


WHOLE = [
    (key, version)
    for key, page in pages()
    if page.access.whole
    for version in range(API_TABLE[key].min_version, API_TABLE[key].max_version + 1)
]
# No place for it: Kafka's neither.
SILENT = {(ApiKey.DESCRIBE_LOG_DIRS, version) for version in range(3)}
SILENT |= {(ApiKey.ADD_PARTITIONS_TO_TXN, version) for version in range(4)}  # asked by the handler


@pytest.mark.parametrize(("key", "version"), WHOLE, ids=[f"{k.name}-{v}" for k, v in WHOLE])
def test_a_request_that_is_denied_does_not_reach_its_handler(key: ApiKey, version: int) -> None:
    if (key, version) in SILENT or key is ApiKey.PRODUCE:
        return
    body: Any = MessageFactory(bytes([4]) * 2000).make(request_class(key), version)
    guarded = Guarded(Rules(set()), key, lambda body: pytest.fail("it was asked"))
    call = Call(guarded, key, version, body)
    denied = {int(whole.denied) for whole in page_of(key).access.whole}
    said = set(codes_in(call.answer)) - {0}
    assert said
    assert said <= denied


def test_the_first_question_that_is_denied_is_the_answer() -> None:
    body = AddOffsetsToTxnRequest(transactional_id="t", group_id="g")
    rules = Rules(set())
    key = ApiKey.ADD_OFFSETS_TO_TXN

    def error() -> int:
        answer = AddOffsetsToTxnResponse()
        code: int = Call(Guarded(rules, key, lambda _: answer), key, 3, body).answer.error_code
        return code

    assert error() == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    rules.change({(WRITE, TRANSACTION, "t")})
    assert error() == ErrorCode.GROUP_AUTHORIZATION_FAILED
    rules.change({(WRITE, TRANSACTION, "t"), (READ, GROUP, "g")})
    assert error() == ErrorCode.NONE


def test_a_producer_id_takes_idempotent_write_or_any_topic() -> None:
    key, body = ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest(transactional_id=None)

    def is_served(*allowed: Any) -> bool:
        answer = InitProducerIdResponse()
        guarded = Guarded(Rules(set(allowed)), key, lambda _: answer)
        code = Call(guarded, key, 4, body).answer.error_code
        assert code in (ErrorCode.NONE, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return bool(code == ErrorCode.NONE)

    assert not is_served()
    assert not is_served((READ, TOPIC, "x"))
    assert is_served((WRITE, TOPIC, "x"))
    assert is_served((AclOperation.IDEMPOTENT_WRITE, CLUSTER, CLUSTER_NAME))


def test_an_envelope_is_closed_whoever_sends_it() -> None:
    key, body = ApiKey.ENVELOPE, EnvelopeRequest(request_data=b"x", client_host_address=b"1234")
    guard = AccessGuard(Rules(set()), DenialLog(lambda: 0.0), lambda: True)
    handle = guard(key, EnvelopeHandler().envelope)
    handlers = SimpleNamespace(handlers=lambda: {key: handle})
    assert Call(handlers, key, 0, body).answer == CLOSED


def commit(*topics: str) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=3)
    return OffsetCommitRequest(
        group_id="g",
        topics=[OffsetCommitRequestTopic(name=name, partitions=[partition]) for name in topics],
    )


def committed(body: Any) -> OffsetCommitResponse:
    partition = OffsetCommitResponsePartition(partition_index=3)
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(name=topic.name, partitions=[partition])
            for topic in body.topics
        ]
    )


def test_denied_elements_are_answered_beside_those_that_were_done() -> None:
    rules = Rules({(READ, GROUP, "g"), (READ, TOPIC, "a"), (READ, TOPIC, "c")})
    guarded = Guarded(rules, ApiKey.OFFSET_COMMIT, committed)
    call = Call(guarded, ApiKey.OFFSET_COMMIT, 7, commit("a", "b", "c"))
    assert type(guarded.bodies[0]) is OffsetCommitRequest
    assert [topic.name for topic in guarded.bodies[0].topics] == ["a", "c"]
    assert [(t.name, t.partitions[0].error_code) for t in call.answer.topics] == [
        ("a", 0), ("c", 0), ("b", TOPIC_FAILED),
    ]  # fmt: skip
    nothing = Call(guarded, ApiKey.OFFSET_COMMIT, 7, commit("b"))
    assert nothing.answer.topics[0].partitions[0].error_code == TOPIC_FAILED
    assert len(guarded.bodies) == 1


def test_where_nothing_is_denied_the_handler_gets_the_request_itself() -> None:
    guarded = Guarded(Rules(), ApiKey.OFFSET_COMMIT, committed)
    call = Call(guarded, ApiKey.OFFSET_COMMIT, 7, commit("a", "b"))
    assert guarded.requests == [call.request]


def test_answers_are_remembered_until_something_changes() -> None:
    rules = Rules()
    guarded = Guarded(rules, ApiKey.OFFSET_COMMIT, committed)
    call = Call(guarded, ApiKey.OFFSET_COMMIT, 7, commit("a"))
    access = call.request.peer.access
    assert access is not None
    rules.asked.clear()
    assert access.permits(READ, TOPIC, "a")
    assert rules.asked == []
    rules.change(set())
    assert not access.permits(READ, TOPIC, "a")


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_module, "MAX_REMEMBERED", 10)
    call = Call(Guarded(Rules(), ApiKey.OFFSET_COMMIT, committed), ApiKey.OFFSET_COMMIT, 7,
                commit("a"))  # fmt: skip
    access = call.request.peer.access
    assert access is not None
    for number in range(100):
        assert access.permits(READ, TOPIC, f"t{number}")
        assert sum(map(len, access.known.values())) <= 10
    size = access.size
    assert access.permits(READ, TOPIC, "x" * 256)
    assert access.size == size


def produced(body: Any) -> ProduceResponse | None:
    if body.acks == 0:
        return None
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                partition_responses=[
                    PartitionProduceResponse(index=one.index, base_offset=1)
                    for one in topic.partition_data
                ],
            )
            for topic in body.topic_data
        ]
    )


def records(*topics: str, acks: int = 1, transactional: bool = False) -> ProduceRequest:
    batch = bytearray(61)
    batch[16], batch[22] = 2, 0x10 if transactional else 0
    return ProduceRequest(
        transactional_id="t" if transactional else None,
        acks=acks,
        topic_data=[
            TopicProduceData(
                name=name,
                partition_data=[PartitionProduceData(index=0, records=bytes(batch))],
            )
            for name in topics
        ],
    )


def test_produce_to_some_topics() -> None:
    guarded = Guarded(Rules({(WRITE, TOPIC, "a")}), ApiKey.PRODUCE, produced)
    answer = Call(guarded, ApiKey.PRODUCE, 9, records("b", "a")).answer
    assert [
        (topic.name, topic.partition_responses[0].error_code) for topic in answer.responses
    ] == [("a", 0), ("b", TOPIC_FAILED)]
    assert Call(guarded, ApiKey.PRODUCE, 9, records("a", acks=0)).answer == "no response"
    # What is allowed is appended all the same.
    assert Call(guarded, ApiKey.PRODUCE, 9, records("a", "b", acks=0)).answer == CLOSED
    assert Call(guarded, ApiKey.PRODUCE, 9, records("b", acks=0)).answer == CLOSED
    assert [len(body.topic_data) for body in guarded.bodies] == [1, 1, 1]


def test_transactional_records_ask_for_the_transactional_id() -> None:
    rules = Rules({(WRITE, TOPIC, "a")})
    guarded = Guarded(rules, ApiKey.PRODUCE, produced)
    body = records("a", transactional=True)
    answer = Call(guarded, ApiKey.PRODUCE, 9, body).answer
    assert list(codes_in(answer)) == [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]
    rules.change({(WRITE, TOPIC, "a"), (WRITE, TRANSACTION, "t")})
    assert list(codes_in(Call(guarded, ApiKey.PRODUCE, 9, body).answer)) == [0]
    # An id alone says nothing.
    rules.change({(WRITE, TOPIC, "a")})
    body = records("a")
    body.transactional_id = "t"
    assert list(codes_in(Call(guarded, ApiKey.PRODUCE, 9, body).answer)) == [0]


def test_an_error_of_the_group_comes_before_denied_topics() -> None:
    key = ApiKey.OFFSET_DELETE
    rules = Rules({(DELETE, GROUP, "g")})
    body = OffsetDeleteRequest(
        group_id="g",
        topics=[OffsetDeleteRequestTopic(name="a", partitions=[OffsetDeleteRequestPartition()])],
    )
    response = OffsetDeleteResponse()
    answer = Call(Guarded(rules, key, lambda _: response), key, 0, body).answer
    assert answer.topics[0].partitions[0].error_code == TOPIC_FAILED
    response = OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND)
    answer = Call(Guarded(rules, key, lambda _: response), key, 0, body).answer
    assert (answer.error_code, answer.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])


def test_names_as_elements() -> None:
    key = ApiKey.DELETE_GROUPS
    guarded = Guarded(
        Rules({(DELETE, GROUP, "g")}),
        key,
        lambda body: DeleteGroupsResponse(
            results=[DeletableGroupResult(group_id=g) for g in body.groups_names]
        ),
    )
    body = DeleteGroupsRequest(groups_names=["h", "g"])
    answer = Call(guarded, key, 2, body).answer
    assert [(one.group_id, one.error_code) for one in answer.results] == [
        ("g", 0), ("h", GROUP_FAILED),
    ]  # fmt: skip


def test_brokers_are_not_asked_about_topics() -> None:
    key = ApiKey.OFFSET_FOR_LEADER_EPOCH
    body = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="a", partitions=[])])
    rules = Rules({(AclOperation.CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)})
    guarded = Guarded(rules, key, lambda _: OffsetForLeaderEpochResponse())
    Call(guarded, key, 4, body)
    assert len(guarded.bodies) == 1
    rules.change(set())
    Call(guarded, key, 4, body)
    assert len(guarded.bodies) == 1


@pytest.mark.parametrize("may_describe_cluster", [False, True])
def test_groups_are_hidden(may_describe_cluster: bool) -> None:
    names = [f"g{number}" for number in range(500)]
    shown = set(random.Random(1).sample(names, 100))
    allowed = {(DESCRIBE, GROUP, name) for name in shown}
    if may_describe_cluster:
        allowed.add((DESCRIBE, CLUSTER, CLUSTER_NAME))
        shown = set(names)
    key = ApiKey.LIST_GROUPS
    response = ListGroupsResponse(groups=[ListedGroup(group_id=name) for name in names])
    answer = Call(Guarded(Rules(allowed), key, lambda _: response), key, 4,
                  ListGroupsRequest()).answer  # fmt: skip
    assert [group.group_id for group in answer.groups] == [n for n in names if n in shown]


def test_topics_of_a_transaction_are_hidden() -> None:
    key = ApiKey.DESCRIBE_TRANSACTIONS
    allowed = {(DESCRIBE, TRANSACTION, "t"), (DESCRIBE, TOPIC, "a")}

    def described(body: Any) -> DescribeTransactionsResponse:
        return DescribeTransactionsResponse(
            transaction_states=[
                DescribeTransactionsResponseTransactionState(
                    transactional_id=name,
                    topics=[
                        DescribeTransactionsResponseTopicData(topic=topic, partitions=[0])
                        for topic in ("a", "b")
                    ],
                )
                for name in body.transactional_ids
            ]
        )

    body = DescribeTransactionsRequest(transactional_ids=["t", "u"])
    answer = Call(Guarded(Rules(allowed), key, described), key, 0, body).answer
    first, second = answer.transaction_states
    assert [topic.topic for topic in first.topics] == ["a"]
    assert second.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_who_is_no_controller_says_so_first() -> None:
    key = ApiKey.ALTER_USER_SCRAM_CREDENTIALS
    body: Any = MessageFactory(bytes([4]) * 2000).make(request_class(key), 0)
    guarded = Guarded(Rules(set()), key, lambda _: None, is_controller=False)
    assert set(codes_in(Call(guarded, key, 0, body).answer)) == {ErrorCode.NOT_CONTROLLER}


def test_denials_are_logged_but_not_for_ever(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pybroker.authorizer")
    guarded = Guarded(Rules({(READ, GROUP, "g")}), ApiKey.OFFSET_COMMIT, committed)
    access = Call(guarded, ApiKey.OFFSET_COMMIT, 7, commit("x\ny")).request.peer.access
    (line,) = [record.getMessage() for record in caplog.records]
    assert "User:ANONYMOUS may not READ TOPIC 'x\\ny' (OffsetCommit from 127.0.0.1);" in line
    assert line.endswith("acls add --allow User:ANONYMOUS --operation read --topic 'x\\ny'")
    assert access is not None
    for number in range(1000):
        access.permits(READ, TOPIC, f"t{number}")
    assert len(caplog.records) == access_module.MAX_LINES


def test_the_dispatcher_guards_its_routes() -> None:
    dispatcher = Dispatcher(BrokerMetrics())
    dispatcher.guard_with(AccessGuard(Rules(), DenialLog(lambda: 0.0), lambda: True))
    reached: list[Request] = []
    route = dispatcher._add_route(0, ApiKey.PRODUCE, 9, reached.append)
    assert route.handle != reached.append


def test_what_brokers_lack_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    key = ApiKey.ALLOCATE_PRODUCER_IDS
    body: Any = MessageFactory(bytes([4]) * 2000).make(request_class(key), 0)
    Call(Guarded(Rules(set()), key, lambda _: None), key, 0, body)
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "super.users" in record.getMessage()
