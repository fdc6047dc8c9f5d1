"""Tellers that make transactions, readers that see committed ones only, and the book between them.

A teller has a transactional id; each transaction of its writes to some partitions, and often
commits an offset of its own group: the number of the transaction. At times it stands still for
longer than its transaction may take, and goes on as a zombie. What it cannot know it leaves open,
and begins a new epoch. One of version 2 (KIP-890, part 2) adds nothing to its transactions before
it writes, and gets the epoch of the next one with the end.

The book knows each transaction: what belongs to it, and what its teller was told. Of a transaction
that was told to be committed readers see all, once; of one that was told to be aborted nothing; of
the others all or nothing. Offsets that anybody sees belong to transactions that were committed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pybroker_kafka.protocol.apis.add_offsets_to_txn import AddOffsetsToTxnRequest
from pybroker_kafka.protocol.apis.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from pybroker_kafka.protocol.apis.end_txn import EndTxnRequest
from pybroker_kafka.protocol.apis.fetch import FetchResponsePartitionData
from pybroker_kafka.protocol.apis.init_producer_id import InitProducerIdRequest
from pybroker_kafka.protocol.apis.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from pybroker_kafka.protocol.apis.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.records.batch import (
    ControlRecordType,
    EndTxnMarker,
    iter_batch_headers,
    iter_records,
)
from pybroker_kafka.protocol.records.builder import build_batch
from pybroker_kafka.protocol.records.record import SimpleRecord
from pybroker_kafka.protocol.topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition
from pybroker_kafka.replication.types import Isolation
from tests.simulation.broker import Produced, produce_request
from tests.simulation.clients import PRODUCE_VERSION, RETRY_MS, Client, Reader
from tests.simulation.cluster import TOPIC
from tests.support.frames import joined

if TYPE_CHECKING:
    from tests.simulation.transactions import TransactionalCluster

TRANSACTION_TIMEOUT_MS = 1_500
STANDSTILLS_MS = (1_200, 2_500, 4_000)
STANDSTILL_SHARE = 0.015
OFFSETS_SHARE = 0.6
ABORTED_SHARE = 0.25
LONGEST_PAUSE_MS = 60
OFFSET_PAUSE_MS = 40
INIT_VERSION = 5
ADD_VERSION = 3
END_VERSION = 3
OFFSETS_VERSION = 3
OFFSET_FETCH_VERSION = 8
PRODUCE_TIMEOUT_MS = 1_000

ABORTED = ErrorCode.TRANSACTION_ABORTABLE  # in the book: told to be aborted
UNKNOWN = ErrorCode.UNKNOWN_SERVER_ERROR

RETRIED = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


@dataclass(slots=True)
class Transaction:
    teller: str
    number: int
    values: set[bytes] = field(default_factory=set)
    has_offset: bool = False
    outcome: ErrorCode = UNKNOWN


class Book:
    def __init__(self, cluster: TransactionalCluster) -> None:
        self._cluster = cluster
        self.transactions: dict[tuple[str, int], Transaction] = {}
        self.of_value: dict[bytes, Transaction] = {}
        self.seen: dict[bytes, TopicPartition] = {}
        self.seen_offsets: set[tuple[str, int]] = set()

    def begin(self, teller: str, number: int) -> Transaction:
        made = self.transactions[teller, number] = Transaction(teller, number)
        return made

    def wrote(self, transaction: Transaction, value: bytes) -> None:
        transaction.values.add(value)
        self.of_value[value] = transaction

    def see(self, who: str, key: TopicPartition, value: bytes) -> None:
        transaction = self.of_value[value]
        if value in self.seen:
            self._cluster.audit.fail(f"{who} sees {value!r} again on {key}")
        if transaction.outcome is ABORTED:
            self._cluster.audit.fail(f"{who} sees {value!r} of an aborted transaction")
        self.seen[value] = key

    def see_offset(self, teller: str, number: int) -> None:
        self.seen_offsets.add((teller, number))
        if self.transactions[teller, number].outcome is ABORTED:
            self._cluster.audit.fail(f"offset {number} of {teller} is of an aborted transaction")

    def check(self) -> None:
        """All is quiet: nothing may be missing, and nothing be there in part."""
        fail = self._cluster.audit.fail
        for transaction in self.transactions.values():
            found = sum(value in self.seen for value in transaction.values)
            what = f"{transaction.teller} {transaction.number}"
            if transaction.outcome is ErrorCode.NONE and found < len(transaction.values):
                fail(f"{what} was committed, {found} of {len(transaction.values)} are there")
            if transaction.outcome is ABORTED and found:
                fail(f"{what} was aborted, {found} of {len(transaction.values)} are there")
            if 0 < found < len(transaction.values):
                fail(f"{what}: {found} of {len(transaction.values)} are there")
        for teller, number in self.seen_offsets:
            transaction = self.transactions[teller, number]
            if transaction.outcome is ABORTED or not transaction.values <= self.seen.keys():
                fail(f"offset {number} of {teller} was seen, and its transaction is not there")
        for reader in self._cluster.offset_readers:
            self._check_last_offset(reader.group, reader.latest)

    def last_committed_offset(self, teller: str) -> int:
        """The last one whose transaction its teller was told to be committed; -1 for none."""
        committed = [
            one.number
            for one in self.transactions.values()
            if one.teller == teller and one.has_offset and one.outcome is ErrorCode.NONE
        ]
        return max(committed, default=-1)

    def _check_last_offset(self, teller: str, latest: int) -> None:
        committed = self.last_committed_offset(teller)
        if committed > latest:
            self._cluster.audit.fail(f"{teller} has committed offset {committed}, not {latest}")


class Coordinated(Client):
    """A client that talks to coordinators."""

    cluster: TransactionalCluster

    def ask_leader(
        self, key: TopicPartition, message: Any, version: int, done: Any, again: Any
    ) -> None:
        """Send to the leader that somebody's metadata name, or try `again` later."""
        leader = self.ask_for_leader(key)
        if leader is None:
            self.later(RETRY_MS, again)
        else:
            self.call(leader, message, version, done)


class Teller(Coordinated):
    produce_version = PRODUCE_VERSION
    offsets_version = OFFSETS_VERSION
    end_version = END_VERSION
    adds = True  # it adds partitions and offsets before it writes them

    def __init__(self, cluster: TransactionalCluster, name: str) -> None:
        super().__init__(cluster, name, (TRANSACTIONS_TOPIC, 0))
        self.is_stopping = False
        self.is_idle = False
        self._number = 0
        self._producer = (-1, -1)
        self._sequences: dict[TopicPartition, int] = {}
        self._transaction = Transaction(name, -1)
        self._steps: list[Any] = []
        self._commit = True

    def start(self) -> None:
        self.later(self.kernel.random.randint(0, 300), self._init)

    # A new epoch

    def _init(self) -> None:
        request = InitProducerIdRequest(
            transactional_id=self.name, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
        )
        self.ask_leader(self.key, request, INIT_VERSION, self._initialized, self._init)

    def _initialized(self, answer: Any) -> None:
        if answer is None or answer.error_code:
            self.later(RETRY_MS, self._init)
            return
        self._producer = (answer.producer_id, answer.producer_epoch)
        self._sequences = {}
        self._begin()

    # A transaction

    def _begin(self) -> None:
        if self.is_stopping:
            self.is_idle = True
            return
        random = self.kernel.random
        self._number += 1
        self._transaction = self.cluster.book.begin(self.name, self._number)
        self._commit = random.random() >= ABORTED_SHARE
        data = self.cluster.data_keys
        keys = random.sample(data, random.randint(1, len(data)))
        self._steps = [(self._add, keys)] if self.adds else []
        for _ in range(random.choice((1, 1, 2))):
            self._steps += [(self._produce, key) for key in keys]
        if random.random() < OFFSETS_SHARE:
            self._transaction.has_offset = True
            if self.adds:
                self._steps.append((self._add_offsets, None))
            self._steps.append((self._commit_offset, None))
        self._steps.append((self._end, None))
        self._next()

    def _next(self) -> None:
        if self._steps:
            step, argument = self._steps.pop(0)
            pause_ms = 0
            if self.kernel.chance(STANDSTILL_SHARE):
                pause_ms = self.kernel.random.choice(STANDSTILLS_MS)
                self.kernel.note(f"{self.name} stands still in {self._number} for {pause_ms} ms")
            self.later(pause_ms, step, argument)
        else:
            self.later(self.kernel.random.randint(0, LONGEST_PAUSE_MS), self._begin)

    def _judge(self, error: ErrorCode | None, again: Any, argument: Any) -> None:
        """Go on, try once more, or give the transaction up."""
        if error is ErrorCode.NONE:
            self._next()
        elif error is None or error in RETRIED:
            self.later(RETRY_MS, again, argument)
        else:
            self.kernel.note(f"{self.name} gives {self._number} up: {error.name}")
            self.later(RETRY_MS, self._init)

    def _add(self, keys: list[TopicPartition]) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self._producer[0],
            v3_and_below_producer_epoch=self._producer[1],
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=topic, partitions=[p]) for topic, p in keys
            ],
        )

        def done(answer: Any) -> None:
            if answer is None:
                self._judge(None, self._add, keys)
                return
            errors = [
                ErrorCode(entry.partition_error_code)
                for topic in answer.results_by_topic_v3_and_below
                for entry in topic.results_by_partition
            ]
            # What is not to be tried again counts before what is.
            errors.sort(key=lambda error: (error is ErrorCode.NONE, error in RETRIED))
            self._judge(errors[0], self._add, keys)

        self.ask_leader(self.key, request, ADD_VERSION, done, lambda: self._add(keys))

    def _produce(self, key: TopicPartition) -> None:
        count = self.kernel.random.randint(1, 3)
        sequence = self._sequences.get(key, 0)
        name = f"{self.name}:{self._number}:{key[1]}:{sequence}:{self._producer[1]}"
        values = [f"{name}:{index}".encode() for index in range(count)]
        for value in values:
            self.cluster.book.wrote(self._transaction, value)
        batch = build_batch(
            [SimpleRecord(self.kernel.now_ms, b"k", value) for value in values],
            producer_id=self._producer[0],
            producer_epoch=self._producer[1],
            base_sequence=sequence,
            is_transactional=True,
        )
        self._sequences[key] = sequence + count
        self._send((key, bytes(batch)))

    def _send(self, what: tuple[TopicPartition, bytes]) -> None:
        key, records = what
        request = produce_request(key, records, PRODUCE_TIMEOUT_MS, self.name)

        def done(answer: Produced | None) -> None:
            error = None if answer is None else answer.error_of(key)
            self._judge(error, self._send, what)

        self.ask_leader(key, request, self.produce_version, done, lambda: self._send(what))

    def _add_offsets(self, _: None) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.name,
            producer_id=self._producer[0],
            producer_epoch=self._producer[1],
            group_id=self.name,
        )

        def done(answer: Any) -> None:
            error = None if answer is None else ErrorCode(answer.error_code)
            self._judge(error, self._add_offsets, None)

        again = self._add_offsets
        self.ask_leader(self.key, request, OFFSETS_VERSION, done, lambda: again(None))

    def _commit_offset(self, _: None) -> None:
        entry = TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=self._number, committed_metadata=""
        )
        topic, _index = self.cluster.data_keys[0]
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=self.name,
            producer_id=self._producer[0],
            producer_epoch=self._producer[1],
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[entry])],
        )

        def done(answer: Any) -> None:
            error = None
            if answer is not None:
                error = ErrorCode(answer.topics[0].partitions[0].error_code)
            self._judge(error, self._commit_offset, None)

        again = self._commit_offset
        version = self.offsets_version
        self.ask_leader((OFFSETS_TOPIC, 0), request, version, done, lambda: again(None))

    def _end(self, _: None) -> None:
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self._producer[0],
            producer_epoch=self._producer[1],
            committed=self._commit,
        )

        def done(answer: Any) -> None:
            error = None if answer is None else ErrorCode(answer.error_code)
            if error is ErrorCode.NONE:
                self._transaction.outcome = ErrorCode.NONE if self._commit else ABORTED
                self._ended(answer)
            self._judge(error, self._end, None)

        again = self._end
        self.ask_leader(self.key, request, self.end_version, done, lambda: again(None))

    def _ended(self, answer: Any) -> None:
        """The producer of the next transaction is the same."""


class Teller2(Teller):
    """A producer of transaction version 2."""

    produce_version = 12
    offsets_version = 5
    end_version = 5
    adds = False

    def _ended(self, answer: Any) -> None:
        self._producer = (answer.producer_id, answer.producer_epoch)
        self._sequences = {}


class CommittedReader(Reader):
    """Reads one partition with read_committed: it drops what the broker says was aborted."""

    cluster: TransactionalCluster
    isolation = Isolation.READ_COMMITTED
    longest_start_ms = 300
    longest_pause_ms = 60

    def read(self, data: FetchResponsePartitionData) -> None:
        records = joined([data.records or b""])
        waiting = sorted(data.aborted_transactions or (), key=lambda one: one.first_offset)
        dropped: set[int] = set()
        for position, header in iter_batch_headers(records):
            while waiting and waiting[0].first_offset <= header.last_offset:
                dropped.add(waiting.pop(0).producer_id)
            if header.next_offset <= self.position:
                continue
            found = list(iter_records(records, position))
            if header.is_control:
                marker = EndTxnMarker.parse(found[0].key, found[0].value)
                if marker.kind is ControlRecordType.ABORT:
                    dropped.discard(header.producer_id)
            elif header.producer_id not in dropped:
                for record in found:
                    self.cluster.book.see(self.name, self.key, record.value or b"")
            self.position = header.next_offset


class OffsetReader(Coordinated):
    """Looks at a teller's offset again and again, at times only at what is stable."""

    def __init__(self, cluster: TransactionalCluster, group: str) -> None:
        super().__init__(cluster, f"offsets of {group}", (OFFSETS_TOPIC, 0))
        self.group = group
        self.latest = -1
        self._is_stable = False
        self._is_strict = True
        self._known = -1
        self._is_final = False  # nothing is committed any more

    @property
    def is_settled(self) -> bool:
        """It was told what is stable after the last commit: an answer of before says nothing."""
        return self._is_final and self._is_stable

    def start(self) -> None:
        self._fetch()

    def _fetch(self) -> None:
        if not self._is_final and all(teller.is_idle for teller in self.cluster.tellers):
            self._is_final = True
            self._is_stable = False
        # A stable offset is proved by a record: in the end the log must come to rest.
        self._is_strict = self.kernel.chance(0.5) and not self.is_settled
        self._known = self.cluster.book.last_committed_offset(self.group)
        request = OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(
                    group_id=self.group,
                    topics=[OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])],
                )
            ],
            require_stable=self._is_strict,
        )
        self.ask_leader(self.key, request, OFFSET_FETCH_VERSION, self._fetched, self._fetch)

    def _fetched(self, answer: Any) -> None:
        self.later(OFFSET_PAUSE_MS, self._fetch)
        if answer is None:
            return
        (group,) = answer.groups
        if group.error_code:
            return
        entry = group.topics[0].partitions[0]
        if self._is_strict:
            self._is_stable = not entry.error_code
            if self._is_stable and entry.committed_offset < self._known:
                self.cluster.audit.fail(
                    f"{self.group} is told to go on from {entry.committed_offset}, and "
                    f"{self._known} was committed before it asked"
                )
        if entry.committed_offset >= 0:
            self.latest = entry.committed_offset
            self.cluster.book.see_offset(self.group, entry.committed_offset)
