"""ISR changes that this broker's leaders propose, on their way to the controller and back.

Job: keep the latest proposal of each partition, put all that wait into one AlterPartition (v3), and
say what its answer decides.

Invariants: one request is under way at most, and a proposal is in one place: waiting, or under way.
Each is answered or asked again: trouble with the request as a whole (no controller, a stale broker
epoch), and a partition that the answer leaves out, put it back, unless its partition has proposed
something newer meanwhile.

Mirrors kafka.server.DefaultAlterPartitionManager, without what waits: that is
`broker.replicas.alter_partition_sender`, and the simulation's broker.
"""

from typing import NamedTuple

from ..protocol.errors import ErrorCode
from ..protocol.messages.cluster import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    BrokerState,
)
from .types import AlterIsr

ALTER_PARTITION_VERSION = 3

TopicPartitionId = tuple[bytes, int]  # a topic's id and a partition of it


class DecidedIsr(NamedTuple):
    """What the controller made of a proposal: the arguments of `IsrChanges.altered`."""

    proposal: AlterIsr
    error: ErrorCode
    isr: tuple[int, ...]
    partition_epoch: int


class IsrProposals:
    __slots__ = ("_broker_id", "_under_way", "_waiting")

    def __init__(self, broker_id: int) -> None:
        self._broker_id = broker_id
        self._waiting: dict[TopicPartitionId, AlterIsr] = {}
        self._under_way: dict[TopicPartitionId, AlterIsr] = {}

    def propose(self, change: AlterIsr) -> None:
        self._waiting[change.topic_id, change.partition] = change

    def begin(self) -> bool:
        """Put what waits under way; False if nothing waits."""
        assert not self._under_way, "one AlterPartition at a time"
        self._under_way, self._waiting = self._waiting, {}
        return bool(self._under_way)

    def request(self, broker_epoch: int) -> AlterPartitionRequest:
        """What is under way, for this try: the broker's epoch may change between two of them."""
        topics: dict[bytes, AlterPartitionRequestTopicData] = {}
        for proposal in self._under_way.values():
            topic = topics.get(proposal.topic_id)
            if topic is None:
                topic = AlterPartitionRequestTopicData(topic_id=proposal.topic_id, partitions=[])
                topics[proposal.topic_id] = topic
            topic.partitions.append(
                AlterPartitionRequestPartitionData(
                    partition_index=proposal.partition,
                    leader_epoch=proposal.leader_epoch,
                    partition_epoch=proposal.partition_epoch,
                    new_isr_with_epochs=[
                        BrokerState(broker_id=broker_id) for broker_id in proposal.isr
                    ],
                )
            )
        return AlterPartitionRequest(
            broker_id=self._broker_id, broker_epoch=broker_epoch, topics=list(topics.values())
        )

    def answered(self, response: AlterPartitionResponse) -> list[DecidedIsr]:
        """What the answer decides; the rest waits again."""
        proposals, self._under_way = self._under_way, {}
        if response.error_code != ErrorCode.NONE:
            self._waiting = {**proposals, **self._waiting}
            return []
        answers = {
            (bytes(topic.topic_id), answer.partition_index): answer
            for topic in response.topics
            for answer in topic.partitions
        }
        decided = []
        for key, proposal in proposals.items():
            answer = answers.get(key)
            if answer is None:
                self._waiting.setdefault(key, proposal)  # not even an error: ask again
            else:
                error = ErrorCode(answer.error_code)
                decided.append(
                    DecidedIsr(proposal, error, tuple(answer.isr), answer.partition_epoch)
                )
        return decided
