"""The transaction runtime over a real replica manager and real logs; the test plays the leaders.

Time is virtual (trio's MockClock), except where a worker thread reads a log. Markers go over
streams in memory to `Leaders`, who answer for the brokers of the cluster.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import trio
import trio.testing
from trio.testing import MockClock

from pybroker_kafka.broker.coordinators.marker_sender import MAX_OWN_PARTITIONS
from pybroker_kafka.broker.coordinators.marker_writer import MarkerWriter
from pybroker_kafka.broker.coordinators.producer_ids import ProducerIds
from pybroker_kafka.broker.coordinators.transaction_runtime import TransactionRuntime
from pybroker_kafka.client.security.connector import Link
from pybroker_kafka.coordinator.transaction.core import InitAttempt, TransactionConfig
from pybroker_kafka.coordinator.transaction.states import TransactionState
from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from pybroker_kafka.protocol.errors import ErrorCode, KafkaError
from pybroker_kafka.protocol.topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition
from pybroker_kafka.replication.metadata_cache import Endpoint
from tests.support.broker_streams import answer_requests
from tests.support.coordinator_node import CoordinatorNode
from tests.support.replication import ME
from tests.support.sources import needs_sources
from tests.unit.coordinator.transaction.harness import FIRST_PRODUCER_ID, NAME, Call

E, S = ErrorCode, TransactionState
WAIT_SECONDS = 120.0
A, B = ("a", 0), ("b", 0)
PRODUCER = (FIRST_PRODUCER_ID, 0)


class Leaders:
    """Answers WriteTxnMarkers; `says` decides for (broker, topic), None closes the connection."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self.connections = 0
        self.requests: list[tuple[int, Any]] = []
        self.says: Callable[[int, str], ErrorCode | None] = lambda broker, topic: E.NONE

    async def connect(self, endpoint: Endpoint) -> Link:
        self.connections += 1
        ours, theirs = trio.testing.memory_stream_pair()
        broker = endpoint.port - 9000
        self._nursery.start_soon(answer_requests, theirs, partial(self._answer, broker))
        return Link(ours)

    async def _answer(
        self, broker: int, key: ApiKey, version: int, body: Any
    ) -> WriteTxnMarkersResponse | None:
        assert (key, version) == (ApiKey.WRITE_TXN_MARKERS, 1)
        self.requests.append((broker, body))
        topics = {topic.name for marker in body.markers for topic in marker.topics}
        if any(self.says(broker, topic) is None for topic in topics):
            return None

        def error(topic: str) -> int:
            said = self.says(broker, topic)
            assert said is not None
            return int(said)

        return WriteTxnMarkersResponse(
            markers=[
                WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=[
                        WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=[
                                WritableTxnMarkerPartitionResult(
                                    partition_index=index, error_code=error(topic.name)
                                )
                                for index in topic.partition_indexes
                            ],
                        )
                        for topic in marker.topics
                    ],
                )
                for marker in body.markers
            ]
        )


class ProducerIdsInMemory(ProducerIds):
    """Without a controller that gives blocks of them."""

    def __init__(self) -> None:
        super().__init__(self._no_block)
        self.next = FIRST_PRODUCER_ID
        self.is_empty = False

    async def next_id(self) -> int:
        await trio.lowlevel.checkpoint()
        if self.is_empty:
            raise KafkaError(E.COORDINATOR_LOAD_IN_PROGRESS)
        self.next += 1
        return self.next - 1

    async def _no_block(self) -> range:
        raise AssertionError


class Node(CoordinatorNode[TransactionRuntime]):
    """One broker's transaction coordinator with what it stands on."""

    def __init__(self, directory: Path, leaders: Leaders, replicas: tuple[int, ...]) -> None:
        super().__init__(directory, replicas)
        self.producer_ids = ProducerIdsInMemory()
        self.offsets_ended: list[tuple[int, frozenset[int], bool]] = []
        self.runtime = TransactionRuntime(
            self.replica_runtime,
            TransactionConfig(request_timeout_ms=1_000),
            self.producer_ids,
            MarkerWriter(
                self.replica_runtime, lambda *ended: self.offsets_ended.append(ended), 1_000
            ),
            listener="PLAINTEXT",
            clock=self.clock,
            load_buffer_bytes=1 << 20,
            connect=leaders.connect,
        )

    @property
    def state(self) -> TransactionState:
        (metadata,) = self.runtime.machine.transactions()
        return metadata.state

    def lead_another(self, topic: str, partition: int) -> TopicPartition:
        """This broker leads a partition of another topic, alone."""
        self.cluster.publish(ME, topic=topic, partition=partition)
        result = self.cluster.role(topic=topic, partition=partition)
        assert result.error_code == E.NONE
        self.replica_runtime.apply_effects()
        return topic, partition

    def log_end(self, key: TopicPartition) -> int:
        return self.cluster.manager.partitions[key].log.log_end_offset

    def init(self) -> Call:
        call = Call("InitProducerId")
        attempt = InitAttempt(call, NAME, 60_000, None)
        self.runtime.machine.init_producer_id(attempt, self.runtime.now_ms)
        self.runtime.perform()
        return call

    def add(self, *partitions: tuple[str, int]) -> Call:
        call, machine = Call("AddPartitionsToTxn"), self.runtime.machine
        now_ms = self.runtime.now_ms
        machine.add_partitions(call, NAME, *PRODUCER, partitions, now_ms)
        self.runtime.perform()
        return call

    def end(self, *, committed: bool = True) -> Call:
        call, machine = Call("EndTxn"), self.runtime.machine
        now_ms = self.runtime.now_ms
        machine.end_transaction(call, NAME, *PRODUCER, now_ms, committed=committed)
        self.runtime.perform()
        return call

    async def begin(self) -> None:
        """A producer with a transaction over both partitions."""
        call = self.init()
        await until(lambda: not call.is_waiting)
        assert (call.error, self.add(A, B).error) == (E.NONE, E.NONE)


async def until(is_true: Callable[[], bool]) -> None:
    """By the real clock: a worker thread takes its time while the virtual one flies."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_true():
        assert time.monotonic() < deadline
        await trio.sleep(0.01)


async def replicated(node: Node, call: Call) -> Call:
    """A call that waits for its append, once the follower has that."""
    await until(lambda: node.runtime.machine.appends_in_flight == 1)
    assert call.is_waiting
    node.follower_catches_up()
    return call


@asynccontextmanager
async def a_node(
    directory: Path, *, replicas: tuple[int, ...] = (ME,)
) -> AsyncIterator[tuple[Node, Leaders]]:
    """A coordinator of the topic's one partition; `a` is led by broker 2, `b` by broker 3."""
    async with trio.open_nursery() as nursery:
        leaders = Leaders(nursery)
        node = Node(directory, leaders, replicas)
        node.cluster.publish(2, topic="a")
        node.cluster.publish(3, topic="b")
        await nursery.start(node.replica_runtime.run)
        await nursery.start(node.runtime.run, 1)
        node.lead()
        try:
            yield node, leaders
        finally:
            nursery.cancel_scope.cancel()
    node.cluster.log_manager.clean_shutdown()


async def test_markers_go_to_the_leaders(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_node(tmp_path) as (node, leaders):
        for _ in range(3):
            assert node.runtime.machine.pending_markers == 0
            if not leaders.requests:
                await node.begin()
            else:
                assert node.add(A, B).error is E.NONE
            assert node.end().error is E.NONE
            await until(lambda: node.state is S.COMPLETE_COMMIT)
        assert sorted(broker for broker, _ in leaders.requests) == [2, 2, 2, 3, 3, 3]
        for broker, request in leaders.requests:
            (marker,) = request.markers
            assert (marker.producer_id, marker.producer_epoch) == PRODUCER
            assert (marker.transaction_result, marker.coordinator_epoch) == (True, 0)
            assert [t.name for t in marker.topics] == [{2: "a", 3: "b"}[broker]]
        assert leaders.connections == 2  # one a destination, kept


async def test_what_this_broker_leads_is_written_without_a_request(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """When EndTxn is answered the transaction is over, if nobody else is to be asked."""
    async with a_node(tmp_path) as (node, leaders):
        own = [node.lead_another("own", n) for n in range(2)]
        offsets = node.lead_another(OFFSETS_TOPIC, 0)
        call = node.init()
        await until(lambda: not call.is_waiting)
        for committed in (True, False):
            assert node.add(*own, offsets).error is E.NONE
            assert node.end(committed=committed).error is E.NONE
            assert node.state is (S.COMPLETE_COMMIT if committed else S.COMPLETE_ABORT)
        assert [node.log_end(key) for key in (*own, offsets)] == [2, 2, 2]
        partitions = frozenset({0})
        assert node.offsets_ended == [
            (PRODUCER[0], partitions, True),
            (PRODUCER[0], partitions, False),
        ]
        assert leaders.connections == 0

        # With others as well, and with more than is written in one go.
        many = [node.lead_another("many", n) for n in range(2 * MAX_OWN_PARTITIONS + 1)]
        assert node.add(A, *many).error is E.NONE
        assert node.end().error is E.NONE
        assert [node.log_end(key) for key in many].count(1) == MAX_OWN_PARTITIONS
        await until(lambda: node.state is S.COMPLETE_COMMIT)
        assert {node.log_end(key) for key in many} == {1}
        assert len(leaders.requests) == 1


async def test_an_own_partition_that_is_gone_before_the_metadata_knows(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with a_node(tmp_path) as (node, _):
        call = node.init()
        await until(lambda: not call.is_waiting)
        node.cluster.publish(ME, topic="own")  # it is not hosted here yet
        assert node.add(("own", 0)).error is E.NONE
        assert node.end().error is E.NONE
        assert node.state is S.PREPARE_COMMIT
        await until(lambda: node.runtime.machine.marker_retries == 1)
        node.lead_another("own", 0)
        await until(lambda: node.state is S.COMPLETE_COMMIT)


async def test_a_writer_that_fails(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_node(tmp_path) as (node, _):
        own = node.lead_another("own", 0)
        call = node.init()
        await until(lambda: not call.is_waiting)
        node.add(own)
        with patch.object(MarkerWriter, "write", side_effect=RuntimeError("a defect")):
            assert node.end().error is E.NONE
        assert node.state is S.PREPARE_COMMIT
        await until(lambda: node.state is S.COMPLETE_COMMIT)


async def test_a_leader_that_moves(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_node(tmp_path) as (node, leaders):
        await node.begin()
        leaders.says = lambda broker, topic: (
            E.NOT_LEADER_OR_FOLLOWER if (broker, topic) == (2, "a") else E.NONE
        )
        node.end()
        await until(lambda: len(leaders.requests) > 4)
        assert node.state is S.PREPARE_COMMIT
        assert node.runtime.machine.describe(NAME).topics[0].topic == "a"
        node.cluster.publish(3, topic="a", leader_epoch=1)
        await until(lambda: node.state is S.COMPLETE_COMMIT)
        assert leaders.requests[-1][0] == 3


async def test_a_leader_that_dies(tmp_path: Path, autojump_clock: MockClock) -> None:
    """First its connections break, then it is known to be dead, then there is another."""
    async with a_node(tmp_path) as (node, leaders):
        await node.begin()
        leaders.says = lambda broker, topic: None if broker == 2 else E.NONE
        node.end(committed=False)
        await until(lambda: leaders.connections > 4)
        node.cluster.alive([ME, 3])
        await until(lambda: node.runtime.machine.marker_retries == 1)
        seen = leaders.connections
        await trio.sleep(2)
        assert leaders.connections <= seen + 1
        assert node.state is S.PREPARE_ABORT
        node.cluster.publish(3, topic="a", leader_epoch=1)
        await until(lambda: node.state is S.COMPLETE_ABORT)


async def test_a_leader_that_says_nothing(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_node(tmp_path) as (node, leaders):
        await node.begin()
        connect = leaders.connect
        silent: list[Any] = []

        async def silence(endpoint: Endpoint) -> Link:
            if endpoint.port == 9002 and not silent:
                ours, theirs = trio.testing.memory_stream_pair()
                silent.append(theirs)
                return Link(ours)
            return await connect(endpoint)

        node.runtime.markers._connect = silence
        started = trio.current_time()
        node.end()
        await until(lambda: node.state is S.COMPLETE_COMMIT)
        # Given up after the request's timeout.
        assert 1 <= trio.current_time() - started < 2


async def test_partitions_that_are_gone(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_node(tmp_path) as (node, leaders):
        await node.begin()
        node.add(("gone", 5))
        node.end()
        await until(lambda: node.state is S.COMPLETE_COMMIT)
        assert len(leaders.requests) == 2


async def test_markers_of_many_transactions_share_a_request(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with a_node(tmp_path) as (node, leaders):
        machine, now_ms = node.runtime.machine, node.runtime.now_ms
        calls = []
        for n in range(10):
            calls.append(Call("InitProducerId"))
            attempt = InitAttempt(calls[-1], f"id-{n}", 60_000, None)
            machine.init_producer_id(attempt, now_ms)
            node.runtime.perform()
        await until(lambda: not any(call.is_waiting for call in calls))
        for n, call in enumerate(calls):
            producer = (call.result.producer_id, 0)
            added, ended = Call("AddPartitionsToTxn"), Call("EndTxn")
            machine.add_partitions(added, f"id-{n}", *producer, [A], now_ms)
            node.runtime.perform()
            machine.end_transaction(ended, f"id-{n}", *producer, now_ms, committed=True)
            node.runtime.perform()
            assert (added.error, ended.error) == (E.NONE, E.NONE)
        await until(lambda: all(m.state is S.COMPLETE_COMMIT for m in machine.transactions()))
        assert sum(len(request.markers) for _, request in leaders.requests) == 10
        assert len(leaders.requests) <= 2


async def test_what_the_next_leader_finds(tmp_path: Path, autojump_clock: MockClock) -> None:
    """The log is read in a worker thread; a decided transaction is ended in the new epoch."""
    async with a_node(tmp_path) as (node, leaders):
        await node.begin()
        leaders.says = lambda broker, topic: E.NOT_LEADER_OR_FOLLOWER
        node.end()
        await until(lambda: len(leaders.requests) >= 2)
        node.lead(2, epoch=1)
        assert list(node.runtime.machine.transactions()) == []
        assert node.add(A).error is E.NOT_COORDINATOR
        await trio.sleep(1)
        leaders.requests.clear()
        leaders.says = lambda broker, topic: E.NONE
        node.lead(ME, epoch=2)
        await until(lambda: len(list(node.runtime.machine.transactions())) == 1)
        await until(lambda: node.state is S.COMPLETE_COMMIT)
        epochs = {r.markers[0].coordinator_epoch for _, r in leaders.requests}
        assert epochs == {2}


async def test_what_only_this_broker_has_is_not_acted_on(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """It leads again with a record that the ISR did not get: it waits until it has it."""
    async with a_node(tmp_path, replicas=(ME, 2)) as (node, _):
        assert (await replicated(node, node.init())).error is E.NONE
        node.add(A, B)
        node.lead(2, epoch=1)
        node.lead(ME, epoch=2)
        for _ in range(20):
            await trio.sleep(0.05)
            assert node.add(A).error is E.COORDINATOR_LOAD_IN_PROGRESS
        node.follower_catches_up()
        await until(lambda: len(list(node.runtime.machine.transactions())) == 1)
        assert (await replicated(node, node.add(A))).error is E.NONE


async def test_a_coordinator_that_is_none_any_more_tells_nothing(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """Its followers follow somebody else: what it remembers of a transaction is not confirmed."""
    async with a_node(tmp_path, replicas=(ME, 2)) as (node, _):
        for ask in (node.init, lambda: node.add(B), node.end):
            assert (await replicated(node, ask())).error is E.NONE
        await until(lambda: node.runtime.machine.appends_in_flight == 1)
        node.follower_catches_up()
        assert node.state is S.COMPLETE_COMMIT
        call = node.end()
        await trio.sleep(0.9)
        assert call.is_waiting
        await until(lambda: not call.is_waiting)
        assert call.error is E.COORDINATOR_NOT_AVAILABLE
        call = node.end()
        node.lead(2, epoch=1)
        assert call.error is E.NOT_COORDINATOR


@needs_sources
async def test_a_log_that_cannot_be_read(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_node(tmp_path) as (node, _):
        await node.begin()
        node.lead(2, epoch=1)
        partition_log = node.cluster.manager.partitions[TRANSACTIONS_TOPIC, 0].log

        def broken(*_: Any, **__: Any) -> None:
            raise OSError("the disk is gone")

        with patch.object(type(partition_log), "read", broken):
            node.lead(ME, epoch=2)
            await until(lambda: node.add(A).error is not E.COORDINATOR_LOAD_IN_PROGRESS)
        assert node.add(A).error is E.NOT_COORDINATOR


async def test_the_answer_waits_for_the_followers(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with a_node(tmp_path, replicas=(ME, 2)) as (node, _):
        call = node.init()
        await trio.sleep(1)
        assert call.is_waiting
        assert node.init().error is E.CONCURRENT_TRANSACTIONS
        node.follower_catches_up()
        assert call.result == (E.NONE, *PRODUCER)


async def test_followers_that_do_not_come(tmp_path: Path, autojump_clock: MockClock) -> None:
    """As long as the transaction may take, then the client is told to ask again."""
    async with a_node(tmp_path, replicas=(ME, 2)) as (node, _):
        started = trio.current_time()
        call = node.init()
        await until(lambda: not call.is_waiting)
        assert call.error is E.COORDINATOR_NOT_AVAILABLE
        assert 59 <= trio.current_time() - started <= 62


async def test_no_producer_ids(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_node(tmp_path) as (node, _):
        node.producer_ids.is_empty = True
        call = node.init()
        await until(lambda: not call.is_waiting)
        assert call.error is E.COORDINATOR_LOAD_IN_PROGRESS


async def test_a_transaction_times_out(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_node(tmp_path) as (node, leaders):
        await node.begin()
        await trio.sleep(59)
        assert node.state is S.ONGOING
        await trio.sleep(12)
        assert node.state is S.COMPLETE_ABORT
        markers = [request.markers[0] for _, request in leaders.requests]
        assert {(m.transaction_result, m.producer_epoch) for m in markers} == {(False, 1)}
