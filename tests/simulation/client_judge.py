"""What the client promised, and whether it is so: the judge between its users and the logs.

Users tell what they asked for and what they were told; in the end the logs say what is there.
- a record that was acknowledged is in the log, where it was said to be;
- of an idempotent producer none is there twice, and those of one producer are in their order;
- a transaction is there whole or not at all: whole if its commit returned, not if it was aborted;
  who reads what is committed sees neither parts of one, nor a record twice, nor an aborted one;
- members of a group are handed every record, as it is in the log; what they commit is never beyond
  what their users have done with (looked at when a commit leaves the client).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from pybroker_kafka.client.consumer.received import Received
from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from pybroker_kafka.protocol.apis.produce import ProduceRequest, ProduceResponse
from pybroker_kafka.protocol.apis.share_acknowledge import ShareAcknowledgeRequest
from pybroker_kafka.protocol.apis.share_fetch import ShareFetchRequest
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.framing import decode_response
from pybroker_kafka.protocol.records.batch import (
    ControlRecordType,
    EndTxnMarker,
    iter_batch_headers,
    iter_records,
)
from pybroker_kafka.protocol.topics import TopicPartition
from tests.simulation.audit import MAX_READ_BYTES
from tests.support.frames import joined

if TYPE_CHECKING:
    from tests.simulation.client_cluster import ClientCluster
    from tests.simulation.kernel import Process
    from tests.simulation.streams import Connection, Sent


class Outcome(Enum):
    UNKNOWN = "open"  # nobody was told, or an error: it may be there all the same
    DONE = "acknowledged"
    UNDONE = "aborted"


@dataclass(slots=True, eq=False)
class Written:
    """A record that a producer was given."""

    value: bytes
    writer: str
    number: int
    is_once: bool  # never twice
    outcome: Outcome = Outcome.UNKNOWN
    partition: int = -1
    offset: int = -1


@dataclass(slots=True, eq=False)
class Transaction:
    name: str
    number: int
    values: list[bytes] = field(default_factory=list)
    has_offset: bool = False
    outcome: Outcome = Outcome.UNKNOWN


class Log:
    """What is committed of a partition, read from whoever leads it, as far as it was read."""

    def __init__(self) -> None:
        self.end = 0
        self.values: dict[int, bytes] = {}  # by offset; control records are none
        self.aborted: set[int] = set()  # offsets
        self._open: defaultdict[int, list[int]] = defaultdict(list)  # offsets by producer id

    def read(self, data: bytes, end: int) -> None:
        for position, header in iter_batch_headers(data):
            if header.base_offset < self.end or header.next_offset > end:
                continue
            self.end = header.next_offset
            records = list(iter_records(data[position : position + header.size_in_bytes]))
            if header.is_control:
                offsets = self._open.pop(header.producer_id, [])
                marker = EndTxnMarker.parse(records[0].key, records[0].value)
                if marker.kind is ControlRecordType.ABORT:
                    self.aborted.update(offsets)
                continue
            for record in records:
                self.values[record.offset] = record.value or b""
                if header.is_transactional:
                    self._open[header.producer_id].append(record.offset)


def _batches_of(message: Any) -> str:
    """Of a produce request, for the trace: partition, producer, epoch and numbers of each batch."""
    if not isinstance(message, ProduceRequest):
        return ""
    words = []
    for topic in message.topic_data:
        for data in topic.partition_data:
            for _, header in iter_batch_headers(joined([data.records or b""])):
                first = header.base_sequence
                words.append(
                    f"{data.index}: {header.producer_id}/{header.producer_epoch} {first} to "
                    f"{first + header.record_count - 1}"
                )
    return f" ({', '.join(words)})"


class Group:
    """Of consumers: what they were handed, and what is done."""

    def __init__(self) -> None:
        self.handed: dict[tuple[TopicPartition, int], bytes] = {}
        self.done: defaultdict[TopicPartition, set[int]] = defaultdict(set)
        self.done_below: defaultdict[TopicPartition, int] = defaultdict(int)
        self.committed: defaultdict[TopicPartition, int] = defaultdict(int)
        # The client, and the number of its connection.
        self.committed_by: dict[TopicPartition, tuple[Process, int]] = {}


class Judge:
    def __init__(self, cluster: ClientCluster) -> None:
        self._cluster = cluster
        self._written: dict[bytes, Written] = {}
        self._transactions: dict[bytes, Transaction] = {}  # by value
        self._transactions_of: defaultdict[str, list[Transaction]] = defaultdict(list)  # by teller
        self._logs: defaultdict[TopicPartition, Log] = defaultdict(Log)
        self.groups: defaultdict[str, Group] = defaultdict(Group)
        self.acknowledged = 0

    def fail(self, text: str) -> None:
        self._cluster.audit.fail(text)

    # What users tell

    def write(self, writer: str, number: int, *, is_once: bool = True) -> Written:
        """A record is about to be given to a producer."""
        value = b"%s %d" % (writer.encode(), number)
        written = self._written[value] = Written(value, writer, number, is_once)
        return written

    def acknowledge(self, written: Written, partition: int, offset: int) -> None:
        written.outcome = Outcome.DONE
        written.partition, written.offset = partition, offset
        self.acknowledged += 1
        self._cluster.kernel.note(f"{written.value!r} is at {partition}:{offset}")

    def begin(self, transaction: Transaction) -> None:
        self._transactions_of[transaction.name].append(transaction)

    def put_into(self, transaction: Transaction, written: Written) -> None:
        transaction.values.append(written.value)
        self._transactions[written.value] = transaction

    def settle(self, transaction: Transaction, outcome: Outcome) -> None:
        transaction.outcome = outcome
        self._cluster.kernel.note(f"{transaction.name} {transaction.number} is {outcome.value}")

    def see_committed(self, who: str, seen: set[bytes], record: Received) -> None:
        """A reader of what is committed is given a record; `seen` is what it was given before."""
        value = record.value or b""
        if value in seen and self._written[value].is_once:
            self.fail(f"{who} is given {value!r} again")
        seen.add(value)
        transaction = self._transactions.get(value)
        if transaction is not None and transaction.outcome is Outcome.UNDONE:
            self.fail(f"{who} is given {value!r} of an aborted transaction")

    def check_seen(self, who: str, seen: set[bytes]) -> None:
        """A reader of what is committed is at the end of all partitions."""
        for value in self._committed() - seen:
            self.fail(f"{who} is not given {value!r}")
        for value in seen - self._committed():
            self.fail(f"{who} is given {value!r}, which is not committed")

    def check_offset(self, teller: str, offset: int) -> None:
        """All transactions of a teller are over: what its group has, 0 for nothing."""
        of_offsets = [one for one in self._transactions_of[teller] if one.has_offset]
        known = {one.number for one in of_offsets if one.outcome is not Outcome.UNDONE}
        last = max((one.number for one in of_offsets if one.outcome is Outcome.DONE), default=0)
        if offset < last or (offset and offset not in known):
            self.fail(f"the offset of {teller} is {offset}, committed is {last} of {known}")

    def hand_out(self, group: str, record: Received) -> None:
        self._cluster.kernel.note(f"{group} is given {record.partition}:{record.offset}")
        key = ((record.topic, record.partition), record.offset)
        value = record.value or b""
        before = self.groups[group].handed.setdefault(key, value)
        if before != value:
            self.fail(f"{group} is given {value!r} at {key}, and was given {before!r}")

    def finish(self, group: str, record: Received) -> None:
        """Its user is done with it: it may be committed."""
        self.groups[group].done[record.topic, record.partition].add(record.offset)

    def sent(self, connection: Connection, sent: Sent) -> None:
        """A request leaves a client."""
        self._cluster.kernel.note(
            f"{connection.host.name} sends {sent.api_key.name} {sent.correlation_id} to "
            f"{connection.broker.name} on {connection.number}{_batches_of(sent.message)}"
        )
        if isinstance(sent.message, ShareFetchRequest | ShareAcknowledgeRequest):
            self._cluster.queue_book.sent(sent.message)
        if isinstance(sent.message, OffsetCommitRequest):
            self._note_commit(sent.message)
            for topic in sent.message.topics:
                for entry in topic.partitions:
                    key = (topic.name, entry.partition_index)
                    self._check_commit(sent.message.group_id, key, entry.committed_offset)

    def _note_commit(self, request: OffsetCommitRequest) -> None:
        places = [
            f"{entry.partition_index}:{entry.committed_offset}"
            for topic in request.topics
            for entry in topic.partitions
        ]
        who = f"{request.member_id} of generation {request.generation_id_or_member_epoch}"
        self._cluster.kernel.note(f"that commits {', '.join(places)} as {who}")

    def answered(self, connection: Connection, sent: Sent, frame: bytes) -> None:
        """A broker answers a request; the frame is without its size."""
        if sent.api_key not in (ApiKey.PRODUCE, ApiKey.OFFSET_COMMIT):
            return
        _, response = decode_response(sent.api_key, sent.version, memoryview(frame))
        if isinstance(response, ProduceResponse):
            self._cluster.audit.acknowledged(connection.broker, sent.message, response)
            self._note_answer(connection, sent, response)
        elif isinstance(response, OffsetCommitResponse):
            self._committed_offsets(connection, sent.message, response)

    def _committed_offsets(
        self, via: Connection, request: OffsetCommitRequest, response: OffsetCommitResponse
    ) -> None:
        """What a group has committed does not go back: its users seek nowhere.

        But a commit on a connection that its client has given up may arrive behind those on the
        next one, once the network carries again: Kafka's protocol has nothing against it.
        """
        source, connection = via.host.process, via.number
        asked = {
            (topic.name, entry.partition_index): entry.committed_offset
            for topic in request.topics
            for entry in topic.partitions
        }
        who = f"{request.member_id} of generation {request.generation_id_or_member_epoch}"
        group = self.groups[request.group_id]
        committed = group.committed
        for topic in response.topics:
            for entry in topic.partitions:
                key = (topic.name, entry.partition_index)
                if entry.error_code:
                    continue
                last_source, last_connection = group.committed_by.get(key, (source, connection))
                is_late = last_source is source and connection < last_connection
                if asked[key] < committed[key] and not is_late:
                    self.fail(f"{who} commits {asked[key]} of {key} behind {committed[key]}")
                committed[key] = asked[key]
                group.committed_by[key] = (source, connection)

    def _note_answer(self, connection: Connection, sent: Sent, response: ProduceResponse) -> None:
        codes = [
            f"{part.index}: {ErrorCode(part.error_code).name} at {part.base_offset}"
            for topic in response.responses
            for part in topic.partition_responses
        ]
        self._cluster.kernel.note(
            f"{connection.broker.name} answers PRODUCE {sent.correlation_id} on "
            f"{connection.number}: {', '.join(codes)}"
        )

    def _check_commit(self, name: str, key: TopicPartition, offset: int) -> None:
        group = self.groups[name]
        if offset <= group.done_below[key]:
            return
        log, done = self.log(key), group.done[key]
        for place in range(group.done_below[key], offset):
            if place in log.values and place not in done:
                self.fail(f"{name} commits {offset} of {key}, and {place} is not done")
        group.done_below[key] = min(offset, log.end)

    # What is there

    def log(self, key: TopicPartition) -> Log:
        """Brought up to what is committed by now."""
        log = self._logs[key]
        end = self._cluster.audit.ledger(key).end
        if log.end < end:
            for broker in self._cluster.brokers.values():
                partition = broker.manager.partitions.get(key) if broker.process.alive else None
                if partition is not None and partition.log.high_watermark >= end:
                    while log.end < end:
                        before = log.end
                        found = partition.log.read(before, MAX_READ_BYTES, upper_bound_offset=end)
                        log.read(found.records.read(), end)
                        assert log.end > before, f"{key} cannot be read at {before}"
                    break
        return log

    def can_read(self, key: TopicPartition) -> bool:
        """All that is committed: whoever has it is alive."""
        return self.log(key).end == self._cluster.audit.ledger(key).end

    def what_is_left(self, group: str) -> str:
        """Of the records that a group has not done."""
        for key in self._cluster.data_keys:
            if not self.can_read(key):
                return f"nobody has all of {key}"
            left = self.log(key).values.keys() - self.groups[group].done[key]
            if left:
                return f"{group} is not given {len(left)} of {key}, {min(left)} the first"
        return ""

    def _committed(self) -> set[bytes]:
        logs = [self.log(key) for key in self._cluster.data_keys]
        return {log.values[at] for log in logs for at in log.values.keys() - log.aborted}

    def check(self) -> None:
        """All is quiet: nothing may be missing, and nothing be there twice or in part."""
        places: defaultdict[bytes, list[tuple[int, int]]] = defaultdict(list)
        for key in self._cluster.data_keys:
            log = self.log(key)
            assert self.can_read(key)
            for offset, value in log.values.items():
                places[value].append((key[1], offset))
            self._check_order(key, log)
        for written in self._written.values():
            self._check_written(written, places[written.value])
        committed = self._committed()
        for transaction in dict.fromkeys(self._transactions.values()):
            self._check_transaction(transaction, committed)
        for name, group in self.groups.items():
            for (key, offset), value in group.handed.items():
                if self.log(key).values.get(offset) != value:
                    self.fail(f"{name} was given {value!r} at {key} {offset}: that is not there")

    def _check_written(self, written: Written, places: list[tuple[int, int]]) -> None:
        what = f"{written.value!r}"
        if written.outcome is Outcome.DONE:
            if not places:
                self.fail(f"{what} was acknowledged, and is lost")
            told = (written.partition, written.offset)
            if written.offset >= 0 and told not in places:
                self.fail(f"{what} is at {places}, not at {told}")
        if written.is_once and len(places) > 1:
            self.fail(f"{what} is there {len(places)} times: {places}")

    def _check_order(self, key: TopicPartition, log: Log) -> None:
        last: dict[str, int] = {}
        found: set[bytes] = set()
        for value in log.values.values():
            written = self._written[value]
            is_in_time = written.is_once or written.outcome is Outcome.DONE
            if value in found or not is_in_time:  # a plain one, given up, may come at any time
                continue
            found.add(value)
            if written.number < last.get(written.writer, -1):
                self.fail(
                    f"{value!r} is behind number {last[written.writer]} of its producer in {key}"
                )
            last[written.writer] = written.number

    def _check_transaction(self, transaction: Transaction, committed: set[bytes]) -> None:
        found = sum(value in committed for value in transaction.values)
        count = len(transaction.values)
        what = f"{transaction.name} {transaction.number}: {found} of {count} records are there"
        if 0 < found < count:
            self.fail(what)
        if transaction.outcome is Outcome.DONE and found < count:
            self.fail(f"{what}, and it was committed")
        if transaction.outcome is Outcome.UNDONE and found:
            self.fail(f"{what}, and it was aborted")
