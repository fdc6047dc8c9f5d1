"""A dumb twin of a share partition: one entry for each record, and a log and a store beside it.

`ShareHistory` drives a `SharePartition` through a history of small steps and keeps a `Record` for
each offset. After each step both must agree on every record in flight. It fails with an
AssertionError if a record that is done with is delivered again, if one is acquired by two members
or too often, if one is lost, or if an acknowledgement is taken or refused against what the records
say.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from pybroker_kafka.protocol.errors import KafkaError
from pybroker_kafka.replication.share.acknowledging import (
    Acknowledgement,
    AcknowledgeType,
    acknowledge,
)
from pybroker_kafka.replication.share.acquiring import (
    Acquired,
    AcquireMode,
    Asked,
    FetchedBatch,
    acquire,
    enough_offset,
)
from pybroker_kafka.replication.share.in_flight import RecordState, StateBatch, StateWrite
from pybroker_kafka.replication.share.limits import ShareLimits
from pybroker_kafka.replication.share.share_partition import SharePartition

AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = (
    RecordState.AVAILABLE,
    RecordState.ACQUIRED,
    RecordState.ACKNOWLEDGED,
    RecordState.ARCHIVED,
)
_OUTCOME = {
    AcknowledgeType.GAP: ARCHIVED,
    AcknowledgeType.ACCEPT: ACKNOWLEDGED,
    AcknowledgeType.RELEASE: AVAILABLE,
    AcknowledgeType.REJECT: ARCHIVED,
}
MEMBERS = ("a", "b", "c")
KINDS = (
    "append", "append", "fetch", "fetch", "fetch", "fetch", "acknowledge", "acknowledge",
    "acknowledge", "acknowledge each", "anything", "write", "write", "write", "fail", "wait",
    "release", "compact", "retain", "move",
)  # fmt: skip

# Kind, and numbers to choose with.
Step = tuple[str, int, int, int]


@dataclass
class Record:
    state: RecordState = AVAILABLE
    count: int = 0
    member: str = ""
    lock_ends_ms: int = -1
    # The member to return to, while a write is under way.
    before: str | None = None
    is_final: bool = False

    @property
    def is_done(self) -> bool:
        return self.state in (ACKNOWLEDGED, ARCHIVED)


@dataclass
class Store:
    """The share coordinator: what is stored of each offset."""

    start_offset: int = -1
    records: dict[int, tuple[int, int]] = field(default_factory=dict)

    def write(self, write: StateWrite) -> None:
        for batch in write.batches:
            for offset in range(batch.first_offset, batch.last_offset + 1):
                self.records[offset] = batch.state, batch.delivery_count
        self.start_offset = max(self.start_offset, write.start_offset)

    def read(self) -> list[StateBatch]:
        return [
            StateBatch(offset, offset, *self.records[offset])
            for offset in sorted(self.records)
            if offset >= self.start_offset
        ]


class ShareHistory:
    def __init__(self, limits: ShareLimits) -> None:
        self.limits = limits
        self.now_ms = 0
        # (first, last) of each batch of the log; offsets between them were compacted away.
        self.log: list[tuple[int, int]] = []
        self.log_start = 0
        self.log_end = 0
        self.store = Store()
        self.records: dict[int, Record] = {}
        # Writes under way, and the offsets that they change for good.
        self.writes: list[tuple[StateWrite, list[int]]] = []
        self.done: set[int] = set()
        # Delivered as often as may be; that is not stored, or not yet.
        self.given_up: set[int] = set()
        self.partition = SharePartition(0, limits)
        self.partition.initialize(0, 0, [])

    def step(self, step: Step) -> None:
        kind, a, b, c = step
        member = MEMBERS[a % len(MEMBERS)]
        if kind == "append":
            self.append(1 + a % 6, b % 3 if c % 4 == 0 else 0)
        elif kind == "fetch":
            self.fetch(member, AcquireMode(b % 2), 1 + c % 9, 1 + b % 4, 1 + a % 4)
        elif kind == "acknowledge":
            held = self.held(member)
            if held:
                first = held[b % len(held)]
                self.acknowledge(member, first, [c % 5], self._length(held, first, a))
        elif kind == "acknowledge each":
            held = self.held(member)
            if held:
                first = held[b % len(held)]
                count = self._length(held, first, a)
                self.acknowledge(member, first, [(c + n // 2) % 5 for n in range(count)], count)
        elif kind == "anything":
            self.acknowledge(member, b % (self.log_end + 3), [1 + c % 3], 1 + c % 5)
        elif kind == "write":
            self.end_write(is_stored=True)
        elif kind == "fail":
            self.end_write(is_stored=False)
        elif kind == "wait":
            self.wait((1, 40, 60, 200)[a % 4])
        elif kind == "release":
            self.release(member)
        elif kind == "compact" and len(self.log) > 1:
            self.log.pop(a % (len(self.log) - 1))
        elif kind == "retain" and c % 3 == 0:
            self.log_start = min(self.log_start + a % 5, self.log_end)
            self.log = [batch for batch in self.log if batch[1] >= self.log_start]
        elif kind == "move" and c % 3 == 0:
            self.move(are_stored=a % 2 == 0)
        self.check()

    @staticmethod
    def _length(held: list[int], first: int, wanted: int) -> int:
        """As many as the member holds in a row, at most."""
        count = 1
        while count <= wanted % 7 and first + count in held:
            count += 1
        return count

    # The log

    def append(self, count: int, gap: int) -> None:
        first = self.log_end + gap
        self.log.append((first, first + count - 1))
        self.log_end = first + count

    # Members

    def fetch(
        self, member: str, mode: AcquireMode, most: int, batch_size: int, batches: int
    ) -> list[Acquired]:
        partition = self.partition
        if not partition.can_acquire():
            assert not self._available(), "available records are not fetched"
            return []
        fetch_offset = partition.next_fetch_offset()
        if fetch_offset < self.log_start:
            self._follow_log_start()
            return []
        enough = enough_offset(partition, fetch_offset, most)
        found = [batch for batch in self.log if batch[1] >= fetch_offset][:batches]
        fetched = []
        for first, last in found:
            fetched.append(FetchedBatch(first, last, 0, 0, -1, False, False))
            if last >= enough:
                break
        asked = Asked(member, mode, batch_size, most)
        outcome = acquire(partition, asked, fetch_offset, fetched, self.now_ms)
        assert outcome.record_count == sum(last - first + 1 for first, last, _ in outcome.acquired)
        assert mode is AcquireMode.BATCH_OPTIMIZED or outcome.record_count <= most, (
            "above the limit"
        )
        if fetched and fetched[0].base_offset <= fetch_offset:
            assert outcome.acquired, "nothing is acquired"
        if fetched:
            for offset, record in self.records.items():
                if fetch_offset <= offset < fetched[0].base_offset and record.state is AVAILABLE:
                    self._archive(record)
        self._acquired(member, outcome.acquired)
        for batch in partition.batches:
            for run in batch.runs:
                for offset in range(run.first, run.last + 1):
                    if offset not in self.records:  # behind a limit, in a batch that was cut
                        assert run.state is AVAILABLE
                        assert run.delivery_count == 0
                        self.records[offset] = Record()
        return outcome.acquired

    def _available(self) -> list[int]:
        start = self.partition.start_offset
        return [
            offset
            for offset, record in self.records.items()
            if offset >= start and record.state is AVAILABLE and record.before is None
        ]

    def _acquired(self, member: str, acquired: list[Acquired]) -> None:
        before = -1
        for first, last, count in acquired:
            assert before < first <= last, "out of order"
            before = last
            for offset in range(first, last + 1):
                assert self.partition.start_offset <= offset < self.log_end, "not in the log"
                assert offset not in self.done, f"{offset} is done with, and delivered again"
                record = self.records.setdefault(offset, Record())
                assert record.state is AVAILABLE, f"{offset} is {record.state.name}"
                assert record.before is None, f"{offset} is being written"
                record.state, record.member = ACQUIRED, member
                record.count += 1
                assert record.count == count, f"{offset} is delivered {record.count} times"
                assert count <= self.limits.delivery_count_limit, "too many deliveries"
                record.lock_ends_ms = self._lock_end_ms()

    def _lock_end_ms(self) -> int:
        return self.now_ms + self.limits.record_lock_duration_ms

    def _archive(self, record: Record) -> None:
        record.state, record.member, record.lock_ends_ms = ARCHIVED, "", -1
        record.is_final = True

    def _follow_log_start(self) -> None:
        start = self.partition.start_offset
        self.partition.log_start_moved(self.log_start)
        for offset, record in self.records.items():
            if start <= offset < self.log_start and record.state is AVAILABLE:
                self._archive(record)

    def held(self, member: str) -> list[int]:
        return [
            offset
            for offset, record in sorted(self.records.items())
            if record.state is ACQUIRED and record.member == member
        ]

    def acknowledge(self, member: str, first: int, types: list[int], count: int) -> None:
        """`count` offsets from `first` on; `types` has one for all, or one for each."""
        start, last = self.partition.start_offset, first + count - 1
        concerned = range(max(first, start), last + 1)
        is_held = [
            record is not None and record.state is ACQUIRED and record.member == member
            for record in map(self.records.get, concerned)
        ]
        batch = Acknowledgement(first, last, types)
        try:
            write = acknowledge(self.partition, member, [batch], self.now_ms)
        except KafkaError:
            assert not all(is_held), f"{first}-{last} of {member} is refused"
            return
        changed = []
        for offset, held in zip(concerned, is_held, strict=True):
            if not held:
                assert offset not in self.records, f"{offset} is not {member}'s"
                continue
            record = self.records[offset]
            kind = AcknowledgeType(types[0] if len(types) == 1 else types[offset - first])
            if kind is AcknowledgeType.RENEW:
                record.lock_ends_ms = self._lock_end_ms()
            else:
                self._start(record, _OUTCOME[kind])
                changed.append(offset)
        assert (write is None) == (not changed)
        if write is not None:
            self.writes.append((write, changed))

    def _start(self, record: Record, state: RecordState) -> None:
        record.before = record.member
        self._change(record, state)

    def _change(self, record: Record, state: RecordState) -> None:
        if state is AVAILABLE and record.count >= self.limits.delivery_count_limit:
            state = ARCHIVED
        record.state, record.member = state, ""

    def release(self, member: str) -> None:
        start = self.partition.start_offset
        write = self.partition.release(member)
        changed = self.held(member)
        for offset in changed:
            self._start(self.records[offset], ARCHIVED if offset < start else AVAILABLE)
        assert (write is None) == (not changed)
        if write is not None:
            self.writes.append((write, changed))

    # Time

    def wait(self, ms: int) -> None:
        self.now_ms += ms
        start = self.partition.start_offset
        write, count = self.partition.expire(self.now_ms)
        ended = [
            offset
            for offset, record in self.records.items()
            if record.state is ACQUIRED and record.lock_ends_ms <= self.now_ms
        ]
        for offset in ended:
            record = self.records[offset]
            self._change(record, ARCHIVED if offset < start else AVAILABLE)
            record.lock_ends_ms = -1
            if record.is_done:
                self.given_up.add(offset)
        assert count == len(ended), f"the locks of {ended} have ended, not {count}"
        assert (write is None) == (not ended)
        if write is not None:
            self.writes.append((write, []))

    # Writes, and a new leader

    def end_write(self, *, is_stored: bool) -> None:
        if not self.writes:
            return
        write, changed = self.writes.pop(0)
        start = self.partition.start_offset
        if is_stored:
            self._stored(write)
        self.partition.written(write, is_stored=is_stored, now_ms=self.now_ms)
        for offset in changed:
            record = self.records[offset]
            before, record.before = record.before, None
            assert before is not None
            if is_stored or record.is_final:
                record.lock_ends_ms = -1
            elif record.lock_ends_ms <= self.now_ms:
                record.state, record.member, record.lock_ends_ms = ACQUIRED, "", -1
                self._change(record, AVAILABLE)
                if record.is_done:
                    self.given_up.add(offset)
                elif offset < start:
                    self._archive(record)
            else:
                record.state, record.member = ACQUIRED, before

    def _stored(self, write: StateWrite) -> None:
        self.store.write(write)
        for batch in write.batches:
            if batch.state in (ACKNOWLEDGED, ARCHIVED):
                self.done.update(range(batch.first_offset, batch.last_offset + 1))

    def move(self, *, are_stored: bool) -> None:
        """A new leader; the answers to the old one's writes are lost."""
        for write, _ in self.writes:
            if are_stored:
                self._stored(write)
        self.writes.clear()
        start = max(self.store.start_offset, 0)
        self.partition = SharePartition(self.partition.leader_epoch + 1, self.limits)
        stored = [batch for batch in self.store.read() if batch.first_offset >= start]
        self.partition.initialize(start, 0, _joined(stored))
        self.records = {
            batch.first_offset: Record(RecordState(batch.state), batch.delivery_count)
            for batch in stored
        }

    # Both agree

    def check(self) -> None:
        partition = self.partition
        partition.check()
        start = partition.start_offset
        known = set()
        for batch in partition.batches:
            for run in batch.runs:
                for offset in range(run.first, run.last + 1):
                    known.add(offset)
                    if offset < start:
                        continue
                    record = self.records[offset]
                    assert (run.state, run.delivery_count, run.member_id) == (
                        record.state,
                        record.count,
                        record.member,
                    ), f"{offset} is {record}, not {run}"
                    assert (run.write is None) == (record.before is None)
                    if run.state is ACQUIRED:
                        assert run.lock_ends_ms == record.lock_ends_ms
        for offset, record in self.records.items():
            if offset < start:
                if offset >= self.log_start and record.before is None:
                    assert record.is_done, f"the start {start} has passed {offset}: {record}"
            elif not record.is_done:
                assert offset in known, f"{offset} is lost: {record}"
        earliest = partition.next_lock_end_ms
        for record in self.records.values():
            if record.state is ACQUIRED:
                assert earliest is not None
                assert earliest <= record.lock_ends_ms

    def drain(self) -> None:
        """All that is in the log is delivered and accepted in the end."""
        for _ in range(40 * (len(self.log) + 5)):
            while self.writes:
                self.end_write(is_stored=True)
            self.wait(1000)
            while self.writes:
                self.end_write(is_stored=True)
            acquired = self.fetch("z", AcquireMode.BATCH_OPTIMIZED, 100, 100, 100)
            for first, last, _ in acquired:
                self.acknowledge("z", first, [1], last - first + 1)
            self.check()
            if not acquired and self.partition.next_fetch_offset() >= self.log_end:
                break
        while self.writes:
            self.end_write(is_stored=True)
        self.check()
        for first, last in self.log:
            for offset in range(max(first, self.log_start), last + 1):
                record = self.records.get(offset)
                is_done = (
                    offset in self.done
                    or offset in self.given_up
                    or (record is not None and record.is_done)
                )
                assert is_done, f"{offset} was never delivered"


def _joined(batches: list[StateBatch]) -> list[StateBatch]:
    """Neighbours alike are one batch, as share coordinators keep them."""
    joined: list[StateBatch] = []
    for batch in batches:
        if (
            joined
            and joined[-1].last_offset + 1 == batch.first_offset
            and joined[-1][2:] == batch[2:]
        ):
            joined[-1] = joined[-1]._replace(last_offset=batch.last_offset)
        else:
            joined.append(batch)
    return joined


def random_steps(random: Random, count: int) -> list[Step]:
    return [
        (random.choice(KINDS), random.randrange(64), random.randrange(64), random.randrange(64))
        for _ in range(count)
    ]


def random_limits(random: Random) -> ShareLimits:
    return ShareLimits(
        record_lock_duration_ms=random.choice((50, 100)),
        delivery_count_limit=random.choice((2, 3, 5, 6)),
        max_record_locks=random.choice((5, 12, 30)),
    )


def play(limits: ShareLimits, steps: list[Step]) -> ShareHistory:
    history = ShareHistory(limits)
    for step in steps:
        history.step(step)
    history.drain()
    return history
