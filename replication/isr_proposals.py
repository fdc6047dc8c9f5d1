"""ISR changes that this broker's leaders propose, on their way to the controller and back.

Job: keep the latest proposal of each partition, put all that wait into one AlterPartition, and
return the decisions in its answer. Topics go by their ids from v2 on, if all have one, and by name
before.

Invariants: one request is under way at most, and a proposal is in one place: waiting, or under way.
Each is answered or asked again: trouble with the request as a whole (no controller, a stale broker
epoch), and a partition that the answer leaves out, put it back, unless its partition has proposed
something newer meanwhile.

Mirrors kafka.server.DefaultAlterPartitionManager, without waiting: that is done by
`broker.replicas.alter_partition_sender`, and the simulation's broker.
"""

from typing import NamedTuple

from ..protocol.apis.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    BrokerState,
)
from ..protocol.errors import ErrorCode
from ..protocol.invariants import BrokenInvariant
from ..protocol.topics import TopicPartition
from .inter_broker import NEWEST
from .types import ZERO_TOPIC_ID, AlterIsr

BY_ID_SINCE_VERSION = 2
WITH_BROKER_STATES_SINCE_VERSION = 3


class DecidedIsr(NamedTuple):
    """The controller's decision on a proposal: the arguments of `IsrChanges.altered`."""

    proposal: AlterIsr
    error: ErrorCode
    isr: tuple[int, ...]
    partition_epoch: int


class IsrProposals:
    __slots__ = ("_broker_id", "_newest_version", "_under_way", "_waiting")

    def __init__(self, broker_id: int, newest_version: int = NEWEST.alter_partition) -> None:
        """`newest_version` is the AlterPartition version that all controllers of the cluster
        know."""
        self._broker_id = broker_id
        self._newest_version = newest_version
        self._waiting: dict[TopicPartition, AlterIsr] = {}
        self._under_way: dict[TopicPartition, AlterIsr] = {}

    def propose(self, change: AlterIsr) -> None:
        self._waiting[change.topic, change.partition] = change

    def take(self) -> AlterIsr | None:
        """Remove a waiting proposal, for a caller that decides it without a controller; None if
        none waits."""
        return self._waiting.pop(next(iter(self._waiting))) if self._waiting else None

    def put_back(self, change: AlterIsr) -> None:
        self._waiting.setdefault((change.topic, change.partition), change)

    @property
    def version(self) -> int:
        """The version of the request under way."""
        if all(proposal.topic_id != ZERO_TOPIC_ID for proposal in self._under_way.values()):
            return self._newest_version
        return min(self._newest_version, BY_ID_SINCE_VERSION - 1)

    def begin(self) -> bool:
        """Put the waiting proposals under way; False if there are none."""
        if self._under_way:
            raise BrokenInvariant(f"another AlterPartition is under way: {self._under_way}")
        self._under_way, self._waiting = self._waiting, {}
        return bool(self._under_way)

    def request(self, broker_epoch: int) -> AlterPartitionRequest:
        """The request for the proposals under way; the broker epoch may change between two
        tries."""
        topics: dict[str, AlterPartitionRequestTopicData] = {}
        with_states = self.version >= WITH_BROKER_STATES_SINCE_VERSION
        for proposal in self._under_way.values():
            topic = topics.get(proposal.topic)
            if topic is None:
                topic = topics[proposal.topic] = AlterPartitionRequestTopicData(
                    topic_name=proposal.topic, topic_id=proposal.topic_id, partitions=[]
                )
            asked = AlterPartitionRequestPartitionData(
                partition_index=proposal.partition,
                leader_epoch=proposal.leader_epoch,
                partition_epoch=proposal.partition_epoch,
            )
            if with_states:
                asked.new_isr_with_epochs = [BrokerState(broker_id=one) for one in proposal.isr]
            else:
                asked.new_isr = list(proposal.isr)
            topic.partitions.append(asked)
        return AlterPartitionRequest(
            broker_id=self._broker_id, broker_epoch=broker_epoch, topics=list(topics.values())
        )

    def answered(self, response: AlterPartitionResponse) -> list[DecidedIsr]:
        """The proposals that the answer decides; the others wait again."""
        by_id = self.version >= BY_ID_SINCE_VERSION
        proposals, self._under_way = self._under_way, {}
        if response.error_code != ErrorCode.NONE:
            self._waiting = {**proposals, **self._waiting}
            return []
        answers = {
            (bytes(topic.topic_id) if by_id else topic.topic_name, answer.partition_index): answer
            for topic in response.topics
            for answer in topic.partitions
        }
        decided = []
        for key, proposal in proposals.items():
            name = proposal.topic_id if by_id else proposal.topic
            answer = answers.get((name, proposal.partition))
            if answer is None:
                self._waiting.setdefault(key, proposal)  # not even an error: ask again
            else:
                error = ErrorCode(answer.error_code)
                decided.append(
                    DecidedIsr(proposal, error, tuple(answer.isr), answer.partition_epoch)
                )
        return decided
