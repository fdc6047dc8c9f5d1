"""ISR changes on their way to the controller: none is lost, the newest counts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.protocol import codec
from pybroker_kafka.protocol.apis.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.replication.inter_broker import NEWEST
from pybroker_kafka.replication.isr_proposals import IsrProposals
from pybroker_kafka.replication.types import AlterIsr

ME = 1
FENCED = ErrorCode.FENCED_LEADER_EPOCH


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b"-")


def change(topic: str, partition: int, *isr: int, partition_epoch: int = 3) -> AlterIsr:
    return AlterIsr(
        topic=topic,
        partition=partition,
        topic_id=topic_id(topic),
        leader_epoch=7,
        isr=isr,
        partition_epoch=partition_epoch,
    )


def answer_to(
    request: AlterPartitionRequest, left_out: int = 0, error: ErrorCode = ErrorCode.NONE
) -> AlterPartitionResponse:
    """Of a controller that agrees, or refuses each partition; the last `left_out` it forgets."""
    places = [
        (topic.topic_id, partition) for topic in request.topics for partition in topic.partitions
    ]
    response = AlterPartitionResponse(
        topics=[
            AlterPartitionResponseTopicData(
                topic_id=topic,
                partitions=[
                    AlterPartitionResponsePartitionData(
                        partition_index=asked.partition_index,
                        error_code=error,
                        isr=[state.broker_id for state in asked.new_isr_with_epochs],
                        partition_epoch=asked.partition_epoch + 1,
                    )
                ],
            )
            for topic, asked in places[: len(places) - left_out]
        ]
    )
    encoded = codec.encode(response, NEWEST.alter_partition)
    return codec.decode(AlterPartitionResponse, NEWEST.alter_partition, encoded)


def test_what_waits_goes_in_one_request_by_topic() -> None:
    changes = IsrProposals(ME)
    assert not changes.begin()
    proposals = [change("a", 0, 1), change("b", 0, 1, 2), change("a", 1, 1, 3)]
    for one in proposals:
        changes.propose(one)
    assert changes.begin()
    request = changes.request(broker_epoch=40)
    assert (request.broker_id, request.broker_epoch) == (ME, 40)
    assert [topic.topic_id for topic in request.topics] == [topic_id("a"), topic_id("b")]
    assert [p.partition_index for p in request.topics[0].partitions] == [0, 1]
    assert changes.request(broker_epoch=41).broker_epoch == 41
    decided = changes.answered(answer_to(request))
    assert [(one.error, one.isr, one.partition_epoch) for one in decided] == [
        (ErrorCode.NONE, (1,), 4), (ErrorCode.NONE, (1, 2), 4), (ErrorCode.NONE, (1, 3), 4)
    ]  # fmt: skip
    assert {one.proposal.topic for one in decided} == {"a", "b"}
    assert not changes.begin()


def test_a_refusal_is_an_answer_and_trouble_with_the_whole_is_none() -> None:
    changes = IsrProposals(ME)
    changes.propose(change("a", 0, 1))
    assert changes.begin()
    stale = AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    assert changes.answered(stale) == []
    assert changes.begin()
    refused = changes.answered(answer_to(changes.request(1), error=FENCED))
    assert [one.error for one in refused] == [FENCED]
    assert not changes.begin()


def test_something_newer_replaces_what_comes_back() -> None:
    changes = IsrProposals(ME)
    changes.propose(change("a", 0, 1))
    assert changes.begin()
    newer = change("a", 0, 1, 2, partition_epoch=9)
    changes.propose(newer)
    assert changes.answered(AlterPartitionResponse(error_code=ErrorCode.NOT_CONTROLLER)) == []
    assert changes.begin()
    (decided,) = changes.answered(answer_to(changes.request(1)))
    assert decided.proposal == newer


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(0, 2)), max_size=12))
def test_each_newest_proposal_is_decided_once(history: list[tuple[int, int, int]]) -> None:
    """A dumb twin: the newest proposal of each partition, until it is decided."""
    changes = IsrProposals(ME)
    open_: dict[int, AlterIsr] = {}
    sent: dict[int, AlterIsr] = {}

    def settle(response: AlterPartitionResponse) -> None:
        for one in changes.answered(response):
            partition = one.proposal.partition
            assert one.proposal == sent[partition]
            if open_.get(partition) == sent[partition]:
                del open_[partition]

    for step, (kind, partition, extra) in enumerate(history):
        if kind < 2:
            open_[partition] = change("a", partition, ME, partition_epoch=step)
            changes.propose(open_[partition])
        elif changes.begin():
            sent = dict(open_)
            if kind == 2:
                settle(answer_to(changes.request(1), left_out=extra))
            else:
                settle(AlterPartitionResponse(error_code=ErrorCode.NOT_CONTROLLER))
        else:
            assert not open_
    if changes.begin():
        sent = dict(open_)
        settle(answer_to(changes.request(1)))
    assert not open_
    assert not changes.begin()
