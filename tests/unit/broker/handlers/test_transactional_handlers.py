"""Produce within transactions, WriteTxnMarkers and DescribeProducers through real codecs and logs.

The transaction coordinator is the test: it gets the questions of the verifier and answers them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pybroker_kafka.broker.coordinators.marker_writer import MarkerWriter
from pybroker_kafka.broker.coordinators.transaction_verifier import Question
from pybroker_kafka.broker.handlers.describe_producers import DescribeProducersHandler
from pybroker_kafka.broker.handlers.produce import ProduceHandler
from pybroker_kafka.broker.handlers.transactional_produce import (
    MAX_ADD_RETRIES_MS,
    TransactionalProduce,
)
from pybroker_kafka.broker.handlers.write_txn_markers import WriteTxnMarkersHandler
from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.describe_producers import DescribeProducersRequest, TopicRequest
from pybroker_kafka.protocol.apis.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from pybroker_kafka.protocol.apis.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.records.builder import build_batch
from pybroker_kafka.protocol.records.record import SimpleRecord
from pybroker_kafka.protocol.topics import OFFSETS_TOPIC
from pybroker_kafka.replication.types import Isolation
from pybroker_kafka.storage.log_config import LogConfig
from tests.support.handlers import CLOSED, Call
from tests.support.replication import KEY, ME, NOW, TOPIC, TOPIC_ID
from tests.support.replication_handlers import HandlerBroker, versions

PRODUCER = 7
UNTIL_ANSWERED = None


class Questions(list[Question]):
    """Stands where the verifier does; the test answers."""

    answers_at_once = False  # as the own coordinator does

    def __init__(self) -> None:
        super().__init__()
        self.later: list[Callable[[], None]] = []

    def call_later(self, _delay_ms: int, action: Callable[[], None]) -> None:
        self.later.append(action)

    def ask(self, question: Question) -> None:
        self.append(question)
        if self.answers_at_once:
            question.answer({})

    def answer(self, error: ErrorCode | None = None) -> None:
        question = self.pop(0)
        if error is None:
            question.answer({})
        else:
            question.fail(question.error_for(error))


class Broker(HandlerBroker):
    def __init__(self, directory: Path, **options: Any) -> None:
        super().__init__(directory, **options)
        self.questions = Questions()
        self.verifies = True
        verifier: Any = self.questions
        transactions = TransactionalProduce(self.replica_runtime, verifier, lambda: self.verifies)
        self.produces = ProduceHandler(self.replica_runtime, transactions)
        self.ended: list[tuple[int, frozenset[int], bool]] = []
        self.markers = WriteTxnMarkersHandler(
            MarkerWriter(self.replica_runtime, lambda *ended: self.ended.append(ended), 1_000)
        )
        self.producers = DescribeProducersHandler(self.cluster.manager)

    def send(
        self,
        *sequences: int,
        version: int = 11,
        epoch: int = 0,
        acks: int = 1,
        producers: tuple[int, ...] = (),
        transactional: bool = True,
    ) -> Call:
        """One batch a partition: partition `i` gets `sequences[i]`."""
        data = [
            PartitionProduceData(
                index=index,
                records=build_batch(
                    [SimpleRecord(NOW, None, b"v")],
                    producer_id=producers[index] if producers else PRODUCER,
                    producer_epoch=epoch,
                    base_sequence=sequence,
                    is_transactional=transactional,
                ),
            )
            for index, sequence in enumerate(sequences)
        ]
        message = ProduceRequest(
            transactional_id="t",
            acks=acks,
            timeout_ms=1_000,
            topic_data=[TopicProduceData(name=TOPIC, topic_id=TOPIC_ID, partition_data=data)],
        )
        return self.call_produce(version, message)

    def write(
        self,
        *partitions: int,
        version: int = 1,
        committed: bool = False,
        epoch: int = 0,
        coordinator_epoch: int = 0,
        transaction_version: int = 0,
        topic: str = TOPIC,
        client_id: str = "client",
        connection: int = 0,
    ) -> Call:
        marker = WritableTxnMarker(
            producer_id=PRODUCER,
            producer_epoch=epoch,
            transaction_result=committed,
            topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=list(partitions))],
            coordinator_epoch=coordinator_epoch,
            transaction_version=transaction_version,
        )
        message = WriteTxnMarkersRequest(markers=[marker])
        return Call(
            self.markers,
            ApiKey.WRITE_TXN_MARKERS,
            version,
            message,
            client_id=client_id,
            connection=connection,
        )

    def describe(self, topic: str, partition: int) -> Any:
        message = DescribeProducersRequest(
            topics=[TopicRequest(name=topic, partition_indexes=[partition])]
        )
        answer = Call(self.producers, ApiKey.DESCRIBE_PRODUCERS, 0, message).answer
        (described,) = answer.topics
        assert described.name == topic
        (result,) = described.partitions
        return result

    @property
    def end_offset(self) -> int:
        return self.cluster.partition.log.log_end_offset


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path)


def results(call: Call) -> list[tuple[int, int]]:
    assert call.answer is not UNTIL_ANSWERED
    (topic,) = call.answer.responses
    return [(part.error_code, part.base_offset) for part in topic.partition_responses]


def marker_errors(call: Call) -> dict[tuple[str, int], int]:
    (marker,) = call.answer.markers
    assert marker.producer_id == PRODUCER
    return {
        (topic.name, part.partition_index): part.error_code
        for topic in marker.topics
        for part in topic.partitions
    }


class TestProduce:
    def test_the_first_batch_waits_for_the_coordinator(self, broker: Broker) -> None:
        broker.lead()
        call = broker.send(0)
        assert call.answer is UNTIL_ANSWERED
        assert broker.end_offset == 0
        (question,) = broker.questions
        assert (question.transactional_id, question.keys) == ("t", (KEY,))
        assert (question.producer_id, question.producer_epoch) == (PRODUCER, 0)
        broker.questions.answer()
        assert results(call) == [(0, 0)]
        assert results(broker.send(1)) == [(0, 1)]
        assert not broker.questions

    def test_the_own_coordinator_answers_at_once(self, broker: Broker) -> None:
        broker.lead()
        broker.cluster.role(partition=1)
        broker.questions.answers_at_once = True
        assert results(broker.send(0, 0)) == [(0, 0), (0, 0)]
        assert results(broker.send(1)) == [(0, 1)]
        assert len(broker.questions) == 1

    def test_after_the_marker_it_is_asked_again(self, broker: Broker) -> None:
        broker.lead()
        call = broker.send(0)
        broker.questions.answer()
        assert results(call) == [(0, 0)]
        assert marker_errors(broker.write(0)) == {KEY: 0}
        again = broker.send(1)
        assert again.answer is UNTIL_ANSWERED
        broker.questions.answer()
        assert results(again) == [(0, 2)]

    def test_a_marker_before_the_answer(self, broker: Broker) -> None:
        """The answer is out of date: what it verified has ended."""
        broker.lead()
        call = broker.send(0)
        assert marker_errors(broker.write(0)) == {KEY: 0}
        broker.questions.answer()
        assert results(call) == [(ErrorCode.INVALID_TXN_STATE, -1)]
        assert broker.end_offset == 1

    @pytest.mark.parametrize(
        ("version", "error", "answer"),
        [
            (11, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
            (10, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE),
            (9, ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_TXN_STATE),
            (9, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_ENOUGH_REPLICAS),
            (9, ErrorCode.NETWORK_EXCEPTION, ErrorCode.NOT_ENOUGH_REPLICAS),
            (9, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_ENOUGH_REPLICAS),
            (9, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_ENOUGH_REPLICAS),
            (9, ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_ENOUGH_REPLICAS),
            (9, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
            (9, ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ],
    )
    def test_what_the_coordinator_refuses(
        self, broker: Broker, version: int, error: ErrorCode, answer: ErrorCode
    ) -> None:
        broker.lead()
        call = broker.send(0, version=version)
        broker.questions.answer(error)
        assert results(call) == [(answer, -1)]
        assert broker.end_offset == 0
        repeated = broker.send(0, version=version)
        broker.questions.answer()
        assert results(repeated) == [(0, 0)]

    @pytest.mark.parametrize("version", [v for v in versions(ApiKey.PRODUCE) if v >= 3])
    def test_one_partition_may_be_refused_and_the_other_not(
        self, broker: Broker, version: int
    ) -> None:
        broker.lead()
        broker.cluster.role(partition=1)
        call = broker.send(0, 0, version=version)
        (question,) = broker.questions
        question.answer({(TOPIC, 0): ErrorCode.INVALID_TXN_STATE})
        assert results(call) == [(ErrorCode.INVALID_TXN_STATE, -1), (0, 0)]

    def test_a_partition_that_is_not_led_here(self, broker: Broker) -> None:
        broker.lead()
        call = broker.send(0, 0)
        (question,) = broker.questions
        assert question.keys == (KEY,)
        broker.questions.answer()
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert results(call) == [(0, 0), (missing, -1)]
        broker.cluster.role(2, replicas=(ME, 2), leader_epoch=1)
        assert results(broker.send(1)) == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]

    def test_waiting_for_replicas_comes_after_the_verification(self, broker: Broker) -> None:
        broker.lead(replicas=(ME, 2))
        broker.cluster.role(partition=1)
        call = broker.send(0, 0, acks=-1)
        (question,) = broker.questions
        question.answer({(TOPIC, 1): ErrorCode.NOT_COORDINATOR})
        assert call.answer is UNTIL_ANSWERED
        broker.cluster.follow(2, 1)
        broker.replica_runtime.apply_effects()
        assert results(call) == [(0, 0), (ErrorCode.NOT_ENOUGH_REPLICAS, -1)]

    def test_two_producers_in_one_request(self, broker: Broker) -> None:
        broker.lead()
        broker.cluster.role(partition=1)
        call = broker.send(0, 0, producers=(PRODUCER, 8))
        assert results(call) == [(ErrorCode.INVALID_PRODUCER_ID_MAPPING, -1)] * 2
        assert broker.end_offset == 0

    def test_without_verification_nobody_is_asked(self, broker: Broker) -> None:
        broker.lead()
        broker.verifies = False
        assert results(broker.send(0)) == [(0, 0)]

    def test_an_idempotent_batch_is_not_asked_about(self, broker: Broker) -> None:
        broker.lead()
        assert results(broker.send(0, transactional=False)) == [(0, 0)]
        assert not broker.questions

    def test_a_duplicate_is_answered_with_its_offset(self, broker: Broker) -> None:
        broker.lead()
        broker.send(0)
        broker.questions.answer()
        broker.write(0)
        repeated = broker.send(0)
        broker.questions.answer()
        assert results(repeated) == [(0, 0)]
        assert broker.end_offset == 2


class TestVersion2:
    """Produce v12 and v13: the coordinator adds the partitions (KIP-890, part 2)."""

    @pytest.mark.parametrize("version", [12, 13])
    @pytest.mark.parametrize("verifies", [False, True])
    def test_partitions_are_added(self, broker: Broker, version: int, verifies: bool) -> None:
        broker.verifies = verifies
        broker.lead()
        call = broker.send(0, version=version)
        (question,) = broker.questions
        assert (question.adds, question.keys) == (True, (KEY,))
        broker.questions.answer()
        assert results(call) == [(0, 0)]
        assert results(broker.send(1, version=version)) == [(0, 1)]
        assert not broker.questions

    def test_an_open_transaction_of_another_epoch_is_another(self, broker: Broker) -> None:
        broker.lead()
        broker.send(0, version=12)
        broker.questions.answer()
        newer = broker.send(0, version=12, epoch=1)
        assert len(broker.questions) == 1
        broker.questions.answer(ErrorCode.PRODUCER_FENCED)
        assert results(newer) == [(ErrorCode.INVALID_PRODUCER_EPOCH, -1)]
        newer = broker.send(0, version=12, epoch=1)
        broker.questions.answer()
        assert results(newer) == [(0, 1)]
        older = broker.send(1, version=12)
        assert results(older) == [(ErrorCode.INVALID_PRODUCER_EPOCH, -1)]
        assert not broker.questions

    def test_a_busy_coordinator_is_asked_again(self, broker: Broker) -> None:
        broker.lead()
        broker.cluster.role(partition=1)
        call = broker.send(0, 0, version=12)
        for _ in range(2):
            (question,) = broker.questions
            assert question.keys == (KEY, (TOPIC, 1))
            broker.questions.answer(ErrorCode.CONCURRENT_TRANSACTIONS)
            assert call.answer is UNTIL_ANSWERED
            broker.questions.later.pop()()
        # One of them is led by another since then.
        broker.questions.answer(ErrorCode.CONCURRENT_TRANSACTIONS)
        broker.cluster.role(2, replicas=(ME, 2), leader_epoch=1)
        broker.questions.later.pop()()
        (question,) = broker.questions
        assert question.keys == ((TOPIC, 1),)
        broker.questions.answer()
        assert results(call) == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1), (0, 0)]

    def test_the_marker_before_comes_while_it_is_asked(self, broker: Broker) -> None:
        """It has the epoch of the transaction that begins, and belongs to the one before."""
        broker.lead()
        broker.send(0, version=12)
        broker.questions.answer()
        call = broker.send(0, version=12, epoch=1)
        assert marker_errors(broker.write(0, version=2, epoch=1, transaction_version=2)) == {KEY: 0}
        broker.questions.answer()
        assert results(call) == [(0, 2)]
        # The same marker again is late now.
        late = broker.write(0, version=2, epoch=1, transaction_version=2)
        assert marker_errors(late) == {KEY: ErrorCode.INVALID_PRODUCER_EPOCH}

    def test_the_marker_of_the_transaction_comes_while_it_is_asked(self, broker: Broker) -> None:
        broker.lead()
        call = broker.send(0, version=12)
        assert marker_errors(broker.write(0, version=2, epoch=1, transaction_version=2)) == {KEY: 0}
        broker.questions.answer()
        assert results(call) == [(ErrorCode.INVALID_PRODUCER_EPOCH, -1)]
        assert broker.end_offset == 1

    def test_a_patient_end(self, broker: Broker) -> None:
        broker.lead()
        call = broker.send(0, version=12)
        broker.cluster.now_ms += MAX_ADD_RETRIES_MS
        broker.questions.answer(ErrorCode.CONCURRENT_TRANSACTIONS)
        assert results(call) == [(ErrorCode.CONCURRENT_TRANSACTIONS, -1)]
        call = broker.send(0, version=12)
        broker.questions.answer(ErrorCode.NOT_COORDINATOR)
        assert results(call) == [(ErrorCode.NOT_ENOUGH_REPLICAS, -1)]


class TestMarkers:
    @pytest.mark.parametrize("version", versions(ApiKey.WRITE_TXN_MARKERS))
    def test_every_partition_has_its_error(self, broker: Broker, version: int) -> None:
        broker.lead()
        call = broker.write(0, 4, version=version)
        assert marker_errors(call) == {KEY: 0, (TOPIC, 4): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}

    def test_an_old_message_format_holds_no_marker(self, broker: Broker) -> None:
        broker.lead()
        old = LogConfig.from_overrides(
            {"message.format.version": "0.10.2"}, {"inter.broker.protocol.version": "2.8"}
        )
        broker.cluster.partition.log.set_config(old)
        assert marker_errors(broker.write(0)) == {KEY: ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT}
        assert broker.end_offset == 0

    def test_no_marker_no_wait(self, broker: Broker) -> None:
        message = WriteTxnMarkersRequest(markers=[])
        call = Call(broker.markers, ApiKey.WRITE_TXN_MARKERS, 1, message)
        assert call.answer.markers == []

    def test_only_unknown_partitions(self, broker: Broker) -> None:
        call = broker.write(0)
        assert marker_errors(call) == {KEY: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}

    def test_the_answer_waits_for_the_followers(self, broker: Broker) -> None:
        broker.lead(replicas=(ME, 2))
        call = broker.write(0)
        assert call.answer is UNTIL_ANSWERED
        broker.cluster.follow(2, 1)
        broker.replica_runtime.apply_effects()
        assert marker_errors(call) == {KEY: 0}

    def test_followers_that_do_not_come(self, broker: Broker) -> None:
        broker.lead(replicas=(ME, 2))
        call = broker.write(0)
        broker.cluster.now_ms += 1_001
        broker.cluster.manager.waiting.tick(broker.cluster.now_ms)
        broker.replica_runtime.apply_effects()
        assert marker_errors(call) == {KEY: ErrorCode.REQUEST_TIMED_OUT}

    def test_fencing(self, broker: Broker) -> None:
        broker.lead()
        assert marker_errors(broker.write(0, epoch=3, coordinator_epoch=5)) == {KEY: 0}
        old_producer = broker.write(0, epoch=2, coordinator_epoch=5)
        assert marker_errors(old_producer) == {KEY: ErrorCode.INVALID_PRODUCER_EPOCH}
        zombie = broker.write(0, epoch=3, coordinator_epoch=4)
        assert marker_errors(zombie) == {KEY: ErrorCode.TRANSACTION_COORDINATOR_FENCED}
        assert broker.end_offset == 1
        assert marker_errors(broker.write(0, epoch=3, coordinator_epoch=6)) == {KEY: 0}

    def test_markers_that_come_late_are_left_out(self, broker: Broker) -> None:
        """They were sent again on a newer connection, and the next transaction has begun."""
        broker.lead()
        sender = "broker-2-txn-marker-sender"
        assert marker_errors(broker.write(0, client_id=sender, connection=5)) == {KEY: 0}
        broker.send(0)
        broker.questions.answer()
        assert broker.end_offset == 2
        assert broker.write(0, client_id=sender, connection=4).answer == CLOSED
        assert broker.end_offset == 2
        # Other coordinators have connections of their own; administrators may have several.
        other = broker.write(0, client_id="broker-3-txn-marker-sender", connection=4)
        assert marker_errors(other) == {KEY: 0}
        for connection in (6, 3):
            assert marker_errors(broker.write(0, connection=connection)) == {KEY: 0}
        assert marker_errors(broker.write(0, client_id=sender, connection=6)) == {KEY: 0}

    def test_the_group_coordinator_hears_of_the_offsets_topic(self, broker: Broker) -> None:
        broker.cluster.publish(ME, topic=OFFSETS_TOPIC)
        broker.cluster.role(topic=OFFSETS_TOPIC, topic_id=b"\x05" * 16, replicas=(ME, 2))
        call = broker.write(0, 1, topic=OFFSETS_TOPIC, committed=True)
        assert broker.ended == []
        broker.cluster.manager.partitions[OFFSETS_TOPIC, 0].update_follower(
            broker.cluster.manager.partitions[OFFSETS_TOPIC, 0].remotes[2], 1, 0, 1, -1, NOW
        )
        broker.cluster.manager.waiting.check((OFFSETS_TOPIC, 0))
        broker.replica_runtime.apply_effects()
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert marker_errors(call) == {(OFFSETS_TOPIC, 0): 0, (OFFSETS_TOPIC, 1): missing}
        assert broker.ended == [(PRODUCER, frozenset({0}), True)]

    def test_a_failed_marker_ends_no_offsets(self, broker: Broker) -> None:
        broker.cluster.publish(ME, topic=OFFSETS_TOPIC)
        broker.cluster.role(topic=OFFSETS_TOPIC, topic_id=b"\x05" * 16)
        broker.write(0, topic=OFFSETS_TOPIC, epoch=3)
        broker.ended.clear()
        broker.write(0, topic=OFFSETS_TOPIC, epoch=2)
        assert broker.ended == []


class TestReadCommitted:
    def test_the_marker_lets_a_waiting_reader_go(self, broker: Broker) -> None:
        broker.lead()
        broker.verifies = False
        broker.send(0)
        waiting = broker.fetch(11, max_wait_ms=10_000, isolation_level=Isolation.READ_COMMITTED)
        assert waiting.answer is UNTIL_ANSWERED
        broker.send(1)
        assert waiting.answer is UNTIL_ANSWERED
        broker.write(0)
        (topic,) = waiting.answer.responses
        (data,) = topic.partitions
        assert [(a.producer_id, a.first_offset) for a in data.aborted_transactions] == [
            (PRODUCER, 0)
        ]
        assert (data.last_stable_offset, data.high_watermark) == (3, 3)

    def test_no_list_for_those_who_do_not_ask(self, broker: Broker) -> None:
        broker.lead()
        broker.verifies = False
        broker.send(0)
        broker.write(0)
        assert broker.fetched(11).aborted_transactions is None
        committed = broker.fetched(11, 2, isolation_level=Isolation.READ_COMMITTED)
        assert committed.aborted_transactions == []

    def test_a_marker_that_is_not_replicated_ends_nothing_yet(self, broker: Broker) -> None:
        broker.lead(replicas=(ME, 2))
        broker.verifies = False
        broker.send(0)
        broker.cluster.follow(2, 1)
        broker.write(0, committed=True)
        log = broker.cluster.partition.log
        assert (log.last_stable_offset, log.high_watermark, log.log_end_offset) == (0, 1, 2)
        broker.cluster.follow(2, 2)
        broker.replica_runtime.apply_effects()
        assert (log.last_stable_offset, log.high_watermark) == (2, 2)


class TestDescribeProducers:
    def test_an_open_transaction(self, broker: Broker) -> None:
        broker.lead()
        broker.verifies = False
        broker.send(5, epoch=2)
        (state,) = broker.describe(TOPIC, 0).active_producers
        assert (state.producer_id, state.producer_epoch, state.last_sequence) == (PRODUCER, 2, 5)
        assert (state.current_txn_start_offset, state.coordinator_epoch) == (0, -1)
        assert state.last_timestamp == NOW
        broker.write(0, epoch=2, coordinator_epoch=4)
        (state,) = broker.describe(TOPIC, 0).active_producers
        assert (state.current_txn_start_offset, state.coordinator_epoch) == (-1, 4)

    def test_errors(self, broker: Broker) -> None:
        broker.lead()
        assert broker.describe("a b", 0).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert broker.describe("nobody", 0).error_code == unknown
        assert broker.describe(TOPIC, 9).error_code == unknown
        broker.cluster.publish(2, topic="elsewhere")
        elsewhere = broker.describe("elsewhere", 0).error_code
        assert elsewhere == ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_a_follower_says_what_it_knows(self, broker: Broker) -> None:
        broker.lead()
        broker.verifies = False
        broker.send(0)
        broker.cluster.role(2, replicas=(ME, 2), leader_epoch=1)
        (state,) = broker.describe(TOPIC, 0).active_producers
        assert (state.producer_id, state.current_txn_start_offset) == (PRODUCER, 0)
