"""The queues of markers by destination, the request, and how an answer is read."""

from pybroker_kafka.coordinator.transaction.core import MarkerJob
from pybroker_kafka.coordinator.transaction.markers import (
    MAX_PARTITIONS_PER_REQUEST,
    NO_BROKER,
    MarkerQueues,
    marker_results,
    markers_request,
)
from pybroker_kafka.protocol.apis.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.topics import TopicPartition
from tests.unit.coordinator.transaction.harness import A, B, C

LEADERS: dict[TopicPartition, int] = {A: 1, B: 2, C: 1, ("leaderless", 0): NO_BROKER}


def job(*partitions: TopicPartition, log_partition: int = 0, producer_id: int = 7) -> MarkerJob:
    return MarkerJob(
        log_partition, 4, f"txn-{producer_id}", producer_id, 3, True, frozenset(partitions)
    )


def test_each_leader_gets_its_partitions() -> None:
    queues = MarkerQueues(LEADERS.get)
    gone, leaderless = ("gone", 0), ("leaderless", 0)
    routed = queues.add(job(A, B, C, gone, leaderless))
    assert (routed.brokers, routed.gone, routed.leaderless) == ([1, 2], {gone}, {leaderless})
    queues.add(job(B, producer_id=8))
    assert len(queues) == 3
    assert queues.take(1) == [job(A, C)]
    assert queues.take(1) == []
    assert (queues.waits(1), queues.waits(2), queues.waits(9)) == (False, True, False)
    assert queues.take(2) == [job(B), job(B, producer_id=8)]
    assert queues.take(9) == []


def test_a_request_is_not_boundless() -> None:
    many = [("t", n) for n in range(MAX_PARTITIONS_PER_REQUEST + 1)]
    queues = MarkerQueues(lambda _: 1)
    queues.add(job(*many))
    queues.add(job(A))
    queues.add(job(*many[:-1], producer_id=9))
    assert [[len(j.partitions) for j in queues.take(1)] for _ in range(4)] == [
        [MAX_PARTITIONS_PER_REQUEST + 1],
        [1],
        [MAX_PARTITIONS_PER_REQUEST],
        [],
    ]


def test_pieces_of_a_job() -> None:
    many = [("t", n) for n in range(5)]
    queues = MarkerQueues(lambda _: 1)
    queues.add(job(*many))
    queues.add(job(A, producer_id=8))
    assert queues.take_piece(1, 2) == job(*many[:2])
    assert queues.take_piece(1, 2) == job(*many[2:4])
    assert queues.take_piece(1, 2) == job(many[4])
    assert queues.take_piece(1, 2) == job(A, producer_id=8)
    assert not queues.waits(1)


def test_unloading_drops_what_waits() -> None:
    queues = MarkerQueues(LEADERS.get)
    queues.add(job(A, B))
    queues.add(job(A, log_partition=5))
    queues.unload(0)
    assert queues.take(1) == [job(A, log_partition=5)]
    assert queues.take(2) == []


def test_the_request() -> None:
    request = markers_request([job(C, B, A), job(A, producer_id=8)._replace(committed=False)])
    first, second = request.markers
    assert (first.producer_id, first.producer_epoch, first.coordinator_epoch) == (7, 3, 4)
    assert (first.transaction_result, second.transaction_result) == (True, False)
    assert [(t.name, t.partition_indexes) for t in first.topics] == [("a", [0, 1]), ("b", [0])]
    assert second.producer_id == 8


def result(producer_id: int, topic: str, **codes: int) -> WritableTxnMarkerResult:
    return WritableTxnMarkerResult(
        producer_id=producer_id,
        topics=[
            WritableTxnMarkerTopicResult(
                name=topic,
                partitions=[
                    WritableTxnMarkerPartitionResult(partition_index=int(p[1:]), error_code=code)
                    for p, code in codes.items()
                ],
            )
        ],
    )


def test_the_answer() -> None:
    response = WriteTxnMarkersResponse(
        markers=[result(7, "a", _0=0, _1=6), result(8, "a", _0=47), result(7, "b", _0=9999)]
    )
    assert marker_results(response) == {
        7: {
            A: ErrorCode.NONE,
            B: ErrorCode.NOT_LEADER_OR_FOLLOWER,
            C: ErrorCode.UNKNOWN_SERVER_ERROR,
        },
        8: {A: ErrorCode.INVALID_PRODUCER_EPOCH},
    }
