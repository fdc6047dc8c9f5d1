"""Questions to transaction coordinators: batching, order, and every kind of answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from pybroker_kafka.broker.coordinators.transaction_verifier import (
    Question,
    TransactionVerifier,
)
from pybroker_kafka.client.security.connector import Link
from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from pybroker_kafka.protocol.apis.api_versions import ApiVersion, ApiVersionsResponse
from pybroker_kafka.protocol.apis.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.topics import TRANSACTIONS_TOPIC
from pybroker_kafka.replication.metadata_cache import Endpoint, MetadataCache
from tests.support.broker_streams import answer_requests

A, B = ("a", 0), ("b", 3)
ADD_PARTITIONS = ApiKey.ADD_PARTITIONS_TO_TXN
Errors = dict[tuple[str, int], ErrorCode]


class Coordinator:
    """Answers requests on one end of a stream; `error_of` decides about partitions."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.nursery = nursery
        self.requests: list[AddPartitionsToTxnRequest] = []
        self.max_version = 5
        self.error_code = 0
        self.error_of: Callable[[str, int], int] = lambda topic, partition: 0
        self.skipped: set[str] = set()
        self.is_broken = False
        self.gate = trio.Event()
        self.gate.set()

    async def connect(self, endpoint: Endpoint) -> Link:
        ours, theirs = trio.testing.memory_stream_pair()
        self.nursery.start_soon(answer_requests, theirs, self.answer)
        return Link(ours)

    async def answer(self, key: ApiKey, version: int, body: Any) -> Any:
        if self.is_broken:
            return None
        if key is ApiKey.API_VERSIONS:
            served = ApiVersion(api_key=ADD_PARTITIONS, max_version=self.max_version)
            return ApiVersionsResponse(api_keys=[served])
        self.requests.append(body)
        await self.gate.wait()
        return AddPartitionsToTxnResponse(
            error_code=self.error_code,
            results_by_transaction=[
                AddPartitionsToTxnResult(
                    transactional_id=transaction.transactional_id,
                    topic_results=[
                        AddPartitionsToTxnTopicResult(
                            name=topic.name,
                            results_by_partition=[
                                AddPartitionsToTxnPartitionResult(
                                    partition_index=index,
                                    partition_error_code=self.error_of(topic.name, index),
                                )
                                for index in topic.partitions
                            ],
                        )
                        for topic in transaction.topics
                    ],
                )
                for transaction in body.transactions
                if transaction.transactional_id not in self.skipped
            ],
        )


class World:
    def __init__(self, coordinator: Coordinator, metadata: MetadataCache) -> None:
        self.coordinator = coordinator
        self.metadata = metadata
        self.verifier = TransactionVerifier(
            metadata,
            "INTERNAL",
            "1",
            self.verify_here,
            self.add_here,
            connect=coordinator.connect,
            timeout_ms=1_000,
        )
        self.asked_here: list[tuple[str, int, int]] = []
        self.added_here: list[Callable[[], None]] = []
        self.answers: dict[str, list[Errors]] = {}

    def verify_here(
        self, name: str, producer_id: int, epoch: int, keys: Iterable[tuple[str, int]]
    ) -> Errors:
        self.asked_here.append((name, producer_id, epoch))
        return {key: ErrorCode(self.coordinator.error_of(*key)) for key in keys}

    def add_here(
        self,
        name: str,
        producer_id: int,
        epoch: int,
        keys: Collection[tuple[str, int]],
        on_answer: Callable[[Errors], None],
    ) -> None:
        """Answered when the test says so, as an append would be."""
        self.asked_here.append((name, producer_id, epoch))
        errors = {key: ErrorCode(self.coordinator.error_of(*key)) for key in keys}
        self.added_here.append(lambda: on_answer(errors))

    def ask(
        self,
        name: str = "t",
        *,
        keys: tuple[tuple[str, int], ...] = (A, B),
        epoch: int = 0,
        label: str | None = None,
        knows_abortable: bool = False,
        adds: bool = False,
    ) -> str:
        label = label or name
        given = self.answers.setdefault(label, [])
        self.verifier.ask(
            Question(
                name,
                17,
                epoch,
                keys,
                lambda errors: given.append(dict(errors)),
                knows_abortable=knows_abortable,
                adds=adds,
            )
        )
        return label

    async def answer_to(self, label: str) -> Errors:
        while not self.answers[label]:
            await trio.lowlevel.checkpoint()
        (errors,) = self.answers[label]
        return errors

    def publish(self, *, alive: tuple[int, ...] = (2,), leader: int = 2) -> None:
        self.metadata.update(
            UpdateMetadataRequest(
                live_brokers=[
                    UpdateMetadataBroker(
                        id=broker,
                        endpoints=[UpdateMetadataEndpoint(host="h", port=9, listener="INTERNAL")],
                    )
                    for broker in alive
                ],
                topic_states=[
                    UpdateMetadataTopicState(
                        topic_name=TRANSACTIONS_TOPIC,
                        topic_id=b"\x01" * 16,
                        partition_states=[
                            UpdateMetadataPartitionState(partition_index=0, leader=leader)
                        ],
                    )
                ],
            )
        )


@asynccontextmanager
async def a_world() -> AsyncIterator[World]:
    async with trio.open_nursery() as nursery:
        world = World(Coordinator(nursery), MetadataCache(1, "c"))
        world.publish()
        await nursery.start(world.verifier.run)
        with trio.fail_after(120):
            yield world
        nursery.cancel_scope.cancel()


async def test_what_belongs_to_the_transaction_has_no_error() -> None:
    async with a_world() as world:
        assert await world.answer_to(world.ask()) == {}
        (request,) = world.coordinator.requests
        (transaction,) = request.transactions
        assert transaction.verify_only
        assert (transaction.transactional_id, transaction.producer_id) == ("t", 17)
        assert {topic.name: topic.partitions for topic in transaction.topics} == {
            "a": [0],
            "b": [3],
        }


async def test_the_own_coordinator_is_asked_at_once() -> None:
    async with a_world() as world:
        world.publish(alive=(1, 2), leader=1)
        label = world.ask(epoch=4)
        assert world.answers[label] == [{}]
        world.coordinator.error_of = lambda topic, _: (
            ErrorCode.TRANSACTION_ABORTABLE if topic == "b" else 0
        )
        for knows_abortable, answer in (
            (True, ErrorCode.TRANSACTION_ABORTABLE),
            (False, ErrorCode.INVALID_TXN_STATE),
        ):
            world.answers.clear()
            world.ask(knows_abortable=knows_abortable)
            assert world.answers[label] == [{B: answer}]
        assert world.verifier.failure_count == 2
        assert world.asked_here == [("t", 17, 4), ("t", 17, 0), ("t", 17, 0)]
        assert world.coordinator.requests == []


async def test_partitions_of_version_2_are_added() -> None:
    async with a_world() as world:
        world.coordinator.gate = trio.Event()
        world.ask("busy")
        while not world.coordinator.requests:
            await trio.lowlevel.checkpoint()
        labels = [world.ask("verified"), world.ask("added", adds=True)]
        world.coordinator.gate.set()
        for label in labels:
            assert await world.answer_to(label) == {}
        transactions = world.coordinator.requests[1].transactions
        assert [(t.transactional_id, t.verify_only) for t in transactions] == [
            ("verified", True),
            ("added", False),
        ]


async def test_the_own_coordinator_adds_when_it_has_logged_it() -> None:
    async with a_world() as world:
        world.publish(alive=(1, 2), leader=1)
        world.coordinator.error_of = lambda topic, _: (
            ErrorCode.PRODUCER_FENCED if topic == "b" else 0
        )
        label = world.ask(adds=True)
        assert world.answers[label] == []
        (logged,) = world.added_here
        logged()
        assert world.answers[label] == [{B: ErrorCode.INVALID_PRODUCER_EPOCH}]


async def test_later() -> None:
    async with a_world() as world:
        done = trio.Event()
        world.verifier.call_later(1, done.set)
        await done.wait()


@pytest.mark.parametrize(
    ("error", "knows_abortable", "answer"),
    [
        (ErrorCode.INVALID_TXN_STATE, False, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, False, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, True, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.PRODUCER_FENCED, True, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, True, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ErrorCode.CONCURRENT_TRANSACTIONS, False, ErrorCode.CONCURRENT_TRANSACTIONS),
    ],
)
async def test_errors_of_partitions(
    error: ErrorCode, knows_abortable: bool, answer: ErrorCode
) -> None:
    async with a_world() as world:
        world.coordinator.error_of = lambda topic, _: error if topic == "b" else 0
        label = world.ask(knows_abortable=knows_abortable)
        assert await world.answer_to(label) == {B: answer}
        assert world.verifier.failure_count == 1


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
    ],
)
async def test_errors_of_the_whole_answer(error: ErrorCode, answer: ErrorCode) -> None:
    async with a_world() as world:
        world.coordinator.error_code = error
        assert await world.answer_to(world.ask()) == {A: answer, B: answer}


async def test_no_coordinator() -> None:
    async with a_world() as world:
        not_available = {A: ErrorCode.COORDINATOR_NOT_AVAILABLE}
        world.publish(leader=-1)
        assert await world.answer_to(world.ask("x", keys=(A,))) == not_available
        world.publish(alive=(3,))
        assert await world.answer_to(world.ask("y", keys=(A,))) == not_available


async def test_a_broken_connection() -> None:
    async with a_world() as world:
        assert await world.answer_to(world.ask("before")) == {}
        world.coordinator.is_broken = True
        failed = dict.fromkeys((A, B), ErrorCode.NETWORK_EXCEPTION)
        assert await world.answer_to(world.ask("during")) == failed
        world.coordinator.is_broken = False
        assert await world.answer_to(world.ask("after")) == {}


async def test_an_old_coordinator_verifies_by_its_silence() -> None:
    async with a_world() as world:
        world.coordinator.max_version = 3
        assert await world.answer_to(world.ask()) == {}
        assert world.coordinator.requests == []


async def test_a_transaction_that_was_left_out() -> None:
    async with a_world() as world:
        world.coordinator.skipped = {"t"}
        failed = dict.fromkeys((A, B), ErrorCode.NETWORK_EXCEPTION)
        assert await world.answer_to(world.ask()) == failed


async def test_questions_wait_for_one_another_and_go_together() -> None:
    async with a_world() as world:
        world.coordinator.gate = trio.Event()
        world.ask("first")
        while not world.coordinator.requests:
            await trio.lowlevel.checkpoint()
        world.ask("second")
        world.ask("third")
        await trio.testing.wait_all_tasks_blocked()
        assert len(world.coordinator.requests) == 1
        world.coordinator.gate.set()
        for label in ("first", "second", "third"):
            assert await world.answer_to(label) == {}
        names = [[t.transactional_id for t in r.transactions] for r in world.coordinator.requests]
        assert names == [["first"], ["second", "third"]]


async def test_two_questions_about_one_transactional_id() -> None:
    async with a_world() as world:
        world.coordinator.gate = trio.Event()
        world.ask("busy")
        while not world.coordinator.requests:
            await trio.lowlevel.checkpoint()
        fenced = dict.fromkeys((A, B), ErrorCode.INVALID_PRODUCER_EPOCH)
        world.ask(epoch=1, label="first")
        assert await world.answer_to(world.ask(epoch=0, label="older")) == fenced
        world.ask(epoch=1, label="again")
        repeated = dict.fromkeys((A, B), ErrorCode.NETWORK_EXCEPTION)
        assert await world.answer_to("first") == repeated
        world.ask(epoch=2, label="newer")
        assert await world.answer_to("again") == fenced
        world.coordinator.gate.set()
        assert await world.answer_to("newer") == {}
