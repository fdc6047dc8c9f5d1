"""Transactions and the producers that write them (KIP-664).

Mirrors: listTransactions, describeTransactions, abortTransaction, fenceProducers and
describeProducers of KafkaAdminClient; of TransactionsCommand the search for hanging transactions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from ...protocol.api import ApiKey
from ...protocol.apis.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from ...protocol.apis.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from ...protocol.apis.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ...protocol.apis.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ...protocol.apis.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ...protocol.errors import ErrorCode
from ...protocol.topics import TopicPartition
from ..cluster import Cluster, CoordinatorKind
from ..connection import Connection
from ..errors import ClientError
from .results import Results
from .routing import (
    Answer,
    Purpose,
    ask_brokers,
    ask_coordinators,
    ask_leaders,
    by_topic,
)

DURATION_FILTER_VERSION = 1  # of ListTransactions (KIP-994)
FENCING_TIMEOUT_MS = 60_000  # of the new transaction, which is never begun
OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")


@dataclass(frozen=True, slots=True)
class ListedTransaction:
    """A transactional id and its state."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transactional id; `began_ms` is -1 and there are no partitions without an open
    transaction."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    began_ms: int
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class ActiveProducer:
    """A producer that has written to a partition; `first_offset` is of its open transaction, -1 for
    none."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    first_offset: int


Hanging = list[tuple[TopicPartition, ActiveProducer]]


class Transactions:
    """`Transactions(cluster)`; each method raises ClientError if the cluster does not answer."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def list(
        self,
        *,
        states: Collection[str] = (),
        producer_ids: Collection[int] = (),
        longer_than_ms: int = -1,
    ) -> Results[int, tuple[ListedTransaction, ...]]:
        """The transactional ids of each coordinator; all filters must match."""

        async def ask(connection: Connection, broker_id: int) -> tuple[ListedTransaction, ...]:
            def question(version: int) -> ListTransactionsRequest:
                if longer_than_ms >= 0 and version < DURATION_FILTER_VERSION:
                    raise ClientError(f"broker {broker_id} is too old to return durations")
                return ListTransactionsRequest(
                    state_filters=list(states),
                    producer_id_filters=list(producer_ids),
                    duration_filter=longer_than_ms,
                )

            answer = await connection.request(
                ApiKey.LIST_TRANSACTIONS, question, ListTransactionsResponse
            )
            what = f"cannot list the transactions of broker {broker_id}"
            self._cluster.asks("describe").check(answer.error_code, None, what)
            return tuple(
                ListedTransaction(
                    one.transactional_id, one.producer_id, one.transaction_state, broker_id
                )
                for one in answer.transaction_states
            )

        return await ask_brokers(self._cluster, None, ask)

    async def describe(self, ids: Collection[str]) -> Results[str, TransactionDescription]:
        """The open transaction of each transactional id, and its start time."""

        async def ask(
            connection: Connection, mine: list[str]
        ) -> dict[str, Answer[TransactionDescription]]:
            request = DescribeTransactionsRequest(transactional_ids=mine)
            answer = await connection.request(
                ApiKey.DESCRIBE_TRANSACTIONS, request, DescribeTransactionsResponse
            )
            return {
                one.transactional_id: Answer(
                    one.error_code,
                    None,
                    TransactionDescription(
                        transactional_id=one.transactional_id,
                        state=one.transaction_state,
                        producer_id=one.producer_id,
                        producer_epoch=one.producer_epoch,
                        timeout_ms=one.transaction_timeout_ms,
                        began_ms=one.transaction_start_time_ms,
                        partitions=frozenset(
                            (topic.topic, n) for topic in one.topics for n in topic.partitions
                        ),
                    ),
                )
                for one in answer.transaction_states
            }

        purpose = Purpose("describe", "cannot describe transactional id")
        return await ask_coordinators(self._cluster, CoordinatorKind.TRANSACTION, ids, ask, purpose)

    async def fence(self, ids: Collection[str]) -> Results[str, tuple[int, int]]:
        """Fence the current producers with these ids, and abort their transactions: new id and
        epoch."""

        async def ask(
            connection: Connection, mine: list[str]
        ) -> dict[str, Answer[tuple[int, int]]]:
            found = {}
            for name in mine:
                request = InitProducerIdRequest(
                    transactional_id=name, transaction_timeout_ms=FENCING_TIMEOUT_MS
                )
                answer = await connection.request(
                    ApiKey.INIT_PRODUCER_ID, request, InitProducerIdResponse
                )
                made = (answer.producer_id, answer.producer_epoch)
                found[name] = Answer(answer.error_code, None, made)
            return found

        purpose = Purpose("write", "cannot fence transactional id")
        return await ask_coordinators(self._cluster, CoordinatorKind.TRANSACTION, ids, ask, purpose)

    async def abort(self, partition: TopicPartition, producer: ActiveProducer) -> None:
        """Abort a hanging transaction in one partition; its coordinator will not end it.

        Raises Refused.
        """
        marker = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            transaction_result=False,
            coordinator_epoch=max(producer.coordinator_epoch, 0),
        )
        marker.topics = [
            WritableTxnMarkerTopic(name=partition[0], partition_indexes=[partition[1]])
        ]

        async def ask(
            connection: Connection, mine: list[TopicPartition]
        ) -> dict[TopicPartition, Answer[None]]:
            request = WriteTxnMarkersRequest(markers=[marker])
            answer = await connection.request(
                ApiKey.WRITE_TXN_MARKERS, request, WriteTxnMarkersResponse
            )
            code = answer.markers[0].topics[0].partitions[0].error_code
            return {mine[0]: Answer(code, None, None)}

        purpose = Purpose("cluster_action", "cannot abort a transaction in")
        (await ask_leaders(self._cluster, [partition], ask, purpose)).all()

    async def producers(
        self, partitions: Collection[TopicPartition]
    ) -> Results[TopicPartition, tuple[ActiveProducer, ...]]:
        """The producers that have written to each partition, as its leader knows them."""

        async def ask(
            connection: Connection, mine: list[TopicPartition]
        ) -> dict[TopicPartition, Answer[tuple[ActiveProducer, ...]]]:
            request = DescribeProducersRequest(
                topics=[
                    TopicRequest(name=topic, partition_indexes=numbers)
                    for topic, numbers in by_topic(mine).items()
                ]
            )
            answer = await connection.request(
                ApiKey.DESCRIBE_PRODUCERS, request, DescribeProducersResponse
            )
            return {
                (topic.name, part.partition_index): Answer(
                    part.error_code,
                    part.error_message,
                    tuple(
                        ActiveProducer(
                            producer_id=one.producer_id,
                            producer_epoch=one.producer_epoch,
                            coordinator_epoch=one.coordinator_epoch,
                            last_sequence=one.last_sequence,
                            last_timestamp_ms=one.last_timestamp,
                            first_offset=one.current_txn_start_offset,
                        )
                        for one in part.active_producers
                    ),
                )
                for topic in answer.topics
                for part in topic.partitions
            }

        purpose = Purpose("read", "cannot describe the producers of")
        return await ask_leaders(self._cluster, partitions, ask, purpose)

    async def open_at(self, place: TopicPartition, first_offset: int) -> ActiveProducer | None:
        """The producer of the open transaction that begins at an offset of a partition."""
        for one in (await self.producers([place]))[place]:
            if one.first_offset == first_offset >= 0:
                return one
        return None

    async def find_hanging(
        self, partitions: Collection[TopicPartition], *, before_ms: int
    ) -> Hanging:
        """Transactions open in a partition, without writes since `before_ms`, that no coordinator
        knows.

        Raises Refused if a partition or a coordinator cannot be asked.
        """
        found = (await self.producers(partitions)).all()
        candidates = open_since(found, before_ms)
        if not candidates:
            return []
        ids = {one.producer_id for _, one in candidates}
        listed = (await self.list(producer_ids=ids)).all()
        names = [one.transactional_id for some in listed.values() for one in some]
        described = await self.describe(names)
        for error in described.errors.values():
            if error.code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise error
        return hanging(candidates, described.values.values())


def open_since(
    producers: Mapping[TopicPartition, Iterable[ActiveProducer]], before_ms: int
) -> Hanging:
    """Transactions open in a partition whose producers have not written since `before_ms`."""
    return [
        (partition, one)
        for partition, some in sorted(producers.items())
        for one in some
        if one.first_offset >= 0 and one.last_timestamp_ms < before_ms
    ]


def hanging(
    candidates: Iterable[tuple[TopicPartition, ActiveProducer]],
    described: Iterable[TransactionDescription],
) -> Hanging:
    """The candidates for which no open transaction of the same producer id and epoch has the
    partition."""
    known = {
        (one.producer_id, one.producer_epoch, partition)
        for one in described
        if one.state in OPEN_STATES
        for partition in one.partitions
    }
    return [
        (partition, one)
        for partition, one in candidates
        if (one.producer_id, one.producer_epoch, partition) not in known
    ]
