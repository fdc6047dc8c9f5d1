"""The share coordinator of one broker, as a pure state machine.

The runtime passes in requests with an opaque token, outcomes of appends, loads and ticks, and
performs the effects from `take_effects` after each call, in order: `Reply(token, response)`,
`Append(append_id, partition, batch)` with acks=all, `Prune(partition, before_offset)`.

A change is applied at once and goes to the log; the answer waits for it, and so do answers to later
questions about the same partition of the topic. A change that does not get into the log is undone.
A write becomes an update; after too many of them a snapshot. A partition of the topic is pruned up
to the oldest of the last snapshots; share partitions at rest get a snapshot from time to time, so
that the oldest is not too old.

Invariants: every token is replied to exactly once, if every Append gets its `appended`; the epochs
of a share partition never fall; its entry is that of its records in the log, replayed in order, and
of appends on their way. A partition is loading, owned or neither.

A leader that takes over writes its epoch, so that a coordinator that has lost its own leadership
cannot answer it from memory. Mirrors ShareCoordinatorService and ShareCoordinatorShard.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from ...protocol.apis.delete_share_group_state import DeleteShareGroupStateRequest
from ...protocol.apis.initialize_share_group_state import InitializeShareGroupStateRequest
from ...protocol.apis.read_share_group_state import ReadShareGroupStateRequest
from ...protocol.apis.read_share_group_state import StateBatch as ReadBatch
from ...protocol.apis.read_share_group_state_summary import ReadShareGroupStateSummaryRequest
from ...protocol.apis.write_share_group_state import WriteShareGroupStateRequest
from ...protocol.errors import ErrorCode
from ...protocol.invariants import BrokenInvariant
from ...protocol.records.builder import build_batch
from ...protocol.records.record import SimpleRecord
from ...protocol.wall_clock import WallClock
from ..group.consumer.topics import NoTopics, TopicImage
from ..group.placement import partition_for_key
from .answers import DELETE, INITIALIZE, READ, SUMMARY, WRITE, Answer, Kind
from .batches import StateBatch, combine
from .config import ShareCoordinatorConfig
from .loader import PartitionLoad
from .records import record
from .state import UNKNOWN, Change, Entry, Key, State, Update, replayed

logger = logging.getLogger("pybroker.coordinator.share")

MAX_BATCH_BYTES: Final = 16_384

_STORE_ERRORS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
# With these the batch is in the log, and its changes stand.
_IN_THE_LOG: Final = (
    ErrorCode.NONE,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
)


class Reply(NamedTuple):
    """Effect: answer the request that came with `token`."""

    token: Any
    response: Any


class Append(NamedTuple):
    """Effect: append a batch to a partition of `__share_group_state` with acks=all."""

    append_id: int
    partition: int
    batch: bytearray


class Prune(NamedTuple):
    """Effect: delete the records of a partition before the offset."""

    partition: int
    before_offset: int


Effect = Reply | Append | Prune


class _Made(NamedTuple):
    """A change as it was applied."""

    key: Key
    change: Change
    before: Entry | None
    after: Entry | None


class _Sent:
    """An append on its way."""

    __slots__ = ("answers", "made", "owner")

    def __init__(self, owner: "_Owned", made: list[_Made]) -> None:
        self.owner = owner
        self.made = made
        # The keys of each answer that stand or fall with it.
        self.answers: list[tuple[Answer, list[Key]]] = []


class _Owned:
    """One leadership of a partition of `__share_group_state`."""

    __slots__ = ("entries", "last_append_id", "partition", "pruned_before", "snapshot_offsets",
                 "tombstone_offset")  # fmt: skip

    def __init__(self, load: PartitionLoad) -> None:
        self.partition = load.partition
        self.entries = load.entries
        # The offset in the log of each one's last snapshot; of one on its way, the one before.
        self.snapshot_offsets = load.snapshot_offsets
        self.tombstone_offset = UNKNOWN  # of the last one since the load
        self.last_append_id: int | None = None  # None: nothing is on its way
        self.pruned_before = UNKNOWN

    def needed_offset(self) -> int:
        """All records before it are superseded."""
        return min(self.snapshot_offsets.values(), default=self.tombstone_offset)


class _Batch:
    """Changes of one partition that go to the log together, and an answer that waits for them."""

    __slots__ = ("answer", "keys", "made", "owner", "records", "size")

    def __init__(self, owner: _Owned, answer: Answer | None = None) -> None:
        self.owner = owner
        self.answer = answer
        self.keys: list[Key] = []  # of the answer
        self.made: list[_Made] = []
        self.records: list[SimpleRecord] = []
        self.size = 0  # bytes of keys and values


# The result for a partition, and the change that goes to the log, if any.
_Outcome = tuple[Any, list[Change]]


class ShareCoordinator:
    """All share partitions whose partition of `__share_group_state` this broker leads."""

    __slots__ = (
        "_cold_check_ms", "_config", "_effects", "_epochs", "_image", "_is_active", "_loading",
        "_next_append_id", "_owned", "_partition_count", "_prune_ms", "_sent", "_wall", "writes",
    )  # fmt: skip

    def __init__(
        self,
        config: ShareCoordinatorConfig,
        wall: WallClock | None = None,
        image: TopicImage | None = None,
    ) -> None:
        """`wall` beside the `now_ms` of all calls; without one they are the same."""
        self._config = config
        self._wall = wall or WallClock()
        self._image: TopicImage = image or NoTopics()
        self._is_active = False
        self._partition_count = 0
        self._owned: dict[int, _Owned] = {}
        self._loading: dict[int, PartitionLoad] = {}
        self._epochs: dict[int, int] = {}
        self._effects: list[Effect] = []
        self._sent: dict[int, _Sent] = {}
        self._next_append_id = 1
        self._prune_ms: int | None = None
        self._cold_check_ms: int | None = None
        # Share partitions that were to be written since the start; refused ones count.
        self.writes = 0

    def pruned(self) -> list[tuple[int, int]]:
        """Partitions that were pruned, and before which offset the last time."""
        return [
            (owner.partition, owner.pruned_before)
            for owner in self._owned.values()
            if owner.pruned_before != UNKNOWN
        ]

    def take_effects(self) -> list[Effect]:
        """Remove and return the effects of the calls since the last time, in order."""
        effects, self._effects = self._effects, []
        return effects

    # Life cycle

    def start(self, partition_count: int, now_ms: int) -> None:
        """Begin to serve; `partition_count` is that of the topic, made or to be made."""
        assert partition_count > 0
        self._partition_count = partition_count
        self._is_active = True
        self._prune_ms = now_ms + self._config.prune_interval_ms
        self._cold_check_ms = now_ms + self._config.cold_partition_snapshot_interval_ms

    def stop(self) -> None:
        """Stop serving; waiting requests stay unanswered, since their connections are closed."""
        self._is_active = False
        self._prune_ms = self._cold_check_ms = None

    def partition_for(self, key_text: str) -> int:
        """The partition of the topic that owns a share partition, by `Key.text`."""
        return partition_for_key(key_text, self._partition_count)

    def next_deadline_ms(self) -> int | None:
        """When `tick` is needed next."""
        deadlines = (self._prune_ms, self._cold_check_ms)
        return min((at_ms for at_ms in deadlines if at_ms is not None), default=None)

    def is_due_before(self, at_ms: float) -> bool:
        """Whether `tick` is needed before `at_ms`."""
        deadline_ms = self.next_deadline_ms()
        return deadline_ms is not None and deadline_ms < at_ms

    def tick(self, now_ms: int) -> None:
        """The periodic jobs."""
        if self._prune_ms is not None and self._prune_ms <= now_ms:
            self._prune_ms = now_ms + self._config.prune_interval_ms
            for owner in self._owned.values():
                self._prune(owner)
        if self._cold_check_ms is not None and self._cold_check_ms <= now_ms:
            self._cold_check_ms = now_ms + self._config.cold_partition_snapshot_interval_ms
            for owner in self._owned.values():
                self._snapshot_cold(owner, now_ms)

    def _prune(self, owner: _Owned) -> None:
        offset = owner.needed_offset()
        if offset > 0 and offset != owner.pruned_before:
            owner.pruned_before = offset
            self._effects.append(Prune(owner.partition, offset))

    def _snapshot_cold(self, owner: _Owned, now_ms: int) -> None:
        states = {key: entry.state for key, entry in owner.entries.items()}
        if all(state.create_ms != state.write_ms for state in states.values()):
            return  # all have been at rest: nothing is written that would have to be pruned
        stamp_ms = self._wall.stamp_ms(now_ms)
        oldest_ms = stamp_ms - self._config.cold_partition_snapshot_interval_ms
        batch = _Batch(owner)
        for key, state in states.items():
            if state.write_ms <= oldest_ms:
                epoch = state.snapshot_epoch + 1
                snapshot = state._replace(snapshot_epoch=epoch, write_ms=stamp_ms)
                self._add(batch, key, snapshot, now_ms)
        self._send(batch)

    def topics_deleted(self, now_ms: int) -> None:
        """Forget the share partitions of topics that there are no more."""
        for owner in self._owned.values():
            batch = _Batch(owner)
            for key in list(owner.entries):
                if self._image.topic_name(key.topic_id) is None:
                    self._add(batch, key, None, now_ms)
            self._send(batch)

    # Loading and unloading

    def begin_load(self, partition: int, epoch: int) -> PartitionLoad | None:
        """This broker leads the partition in `epoch`: fill the returned load, then `finish_load`.

        None: nothing to load (an older epoch, or the partition is owned or being loaded).
        """
        if not self._advance_epoch(partition, epoch):
            return None
        if partition in self._owned or partition in self._loading:
            return None
        limit = self._config.snapshot_update_records_per_snapshot
        load = self._loading[partition] = PartitionLoad(partition, epoch, limit)
        return load

    def is_loading(self, load: PartitionLoad) -> bool:
        """Whether the load is still needed."""
        return self._loading.get(load.partition) is load

    def finish_load(self, load: PartitionLoad, now_ms: int) -> None:
        """Take over the states read. If the partition was unloaded meanwhile, nothing happens."""
        if self.is_loading(load):
            del self._loading[load.partition]
            self._owned[load.partition] = _Owned(load)

    def abandon_load(self, load: PartitionLoad) -> None:
        """The partition could not be read: it is not served here."""
        if self.is_loading(load):
            del self._loading[load.partition]

    def unload(self, partition: int, epoch: int | None) -> None:
        """This broker does not lead the partition any more (since `epoch`, if it is known)."""
        if epoch is not None and not self._advance_epoch(partition, epoch):
            return
        self._loading.pop(partition, None)
        self._owned.pop(partition, None)

    def _advance_epoch(self, partition: int, epoch: int) -> bool:
        """Note the coordinator epoch; False if a later one is known."""
        if epoch < self._epochs.get(partition, epoch):
            return False
        self._epochs[partition] = epoch
        return True

    def states(self) -> Iterator[tuple[Key, Entry]]:
        """All states, for reading only."""
        for owner in self._owned.values():
            yield from owner.entries.items()

    # Requests

    def initialize(
        self, token: object, request: InitializeShareGroupStateRequest, now_ms: int
    ) -> None:
        self._serve(token, request, INITIALIZE, self._initialize, now_ms)

    def read(self, token: object, request: ReadShareGroupStateRequest, now_ms: int) -> None:
        self._serve(token, request, READ, self._read, now_ms)

    def write(self, token: object, request: WriteShareGroupStateRequest, now_ms: int) -> None:
        self._serve(token, request, WRITE, self._write, now_ms)

    def delete(self, token: object, request: DeleteShareGroupStateRequest, now_ms: int) -> None:
        self._serve(token, request, DELETE, self._delete, now_ms)

    def read_summary(
        self, token: object, request: ReadShareGroupStateSummaryRequest, now_ms: int
    ) -> None:
        self._serve(token, request, SUMMARY, self._summary, now_ms)

    def _serve(
        self,
        token: object,
        request: Any,
        kind: Kind,
        serve: Callable[[_Owned, Key, Any, int], _Outcome],
        now_ms: int,
    ) -> None:
        answer = Answer(token, kind)
        if not request.group_id or any(not topic.partitions for topic in request.topics):
            self._effects.append(Reply(token, answer.response()))
            return
        batches: dict[_Owned, _Batch] = {}
        for topic in request.topics:
            for asked in topic.partitions:
                key = Key(request.group_id, topic.topic_id, asked.partition)
                owner = self._owner_of(key)
                if isinstance(owner, ErrorCode):
                    answer.fail(key, owner)
                    continue
                batch = batches.setdefault(owner, _Batch(owner, answer))
                result, changes = serve(owner, key, asked, now_ms)
                answer.set(key, result)
                for change in changes:
                    self._add(batch, key, change, now_ms)
                batch.keys.append(key)
        for batch in batches.values():
            self._send(batch)
        if not answer.waits:
            self._effects.append(Reply(token, answer.response()))

    def _owner_of(self, key: Key) -> _Owned | ErrorCode:
        if not self._is_active:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        partition = self.partition_for(key.text)
        if partition in self._loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return self._owned.get(partition, ErrorCode.NOT_COORDINATOR)

    def _is_known(self, key: Key) -> bool:
        """Whether there is such a partition of a topic."""
        return key.partition < (self._image.partition_count(key.topic_id) or 0)

    def _initialize(self, owner: _Owned, key: Key, asked: Any, now_ms: int) -> _Outcome:
        entry = owner.entries.get(key)
        if key.partition < 0:
            return _negative(INITIALIZE, key)
        if entry is not None and _is_fenced(asked.state_epoch, entry.state_epoch):
            return _refused(INITIALIZE, key, ErrorCode.FENCED_STATE_EPOCH)
        if not self._is_known(key):
            return _refused(INITIALIZE, key, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        stamp_ms = self._wall.stamp_ms(now_ms)
        # Delivery has not begun without a start offset; from a given one on none is complete.
        count = UNKNOWN if asked.start_offset == UNKNOWN else 0
        state = State(
            0 if entry is None else entry.state.snapshot_epoch + 1,
            asked.state_epoch,
            0,
            asked.start_offset,
            count,
            (),
            stamp_ms,
            stamp_ms,
        )
        return _done(INITIALIZE, key), [state]

    def _write(self, owner: _Owned, key: Key, asked: Any, now_ms: int) -> _Outcome:
        self.writes += 1
        entry = owner.entries.get(key)
        if key.partition < 0:
            return _negative(WRITE, key)
        if entry is None:
            return _refused(
                WRITE,
                key,
                ErrorCode.INVALID_REQUEST,
                "Write operation on uninitialized share partition not allowed.",
            )
        if _is_fenced(asked.leader_epoch, entry.leader_epoch):
            return _refused(WRITE, key, ErrorCode.FENCED_LEADER_EPOCH)
        if _is_fenced(asked.state_epoch, entry.state_epoch):
            return _refused(WRITE, key, ErrorCode.FENCED_STATE_EPOCH)
        if not self._is_known(key):
            return _refused(WRITE, key, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        batches = tuple(
            StateBatch(b.first_offset, b.last_offset, b.delivery_count, b.delivery_state)
            for b in asked.state_batches
        )
        update = Update(
            entry.state.snapshot_epoch,
            entry.state.leader_epoch,
            asked.start_offset,
            asked.delivery_complete_count,
            batches,
        )
        return _done(WRITE, key), [self._written(entry, update, now_ms)]

    def _written(self, entry: Entry, update: Update, now_ms: int) -> Change:
        """The update, or a snapshot after too many of them."""
        state, start_offset = entry.state, update.start_offset
        if entry.updates < self._config.snapshot_update_records_per_snapshot:
            return update._replace(batches=combine((), update.batches, start_offset))
        stamp_ms = self._wall.stamp_ms(now_ms)
        if start_offset == UNKNOWN:
            start_offset = state.start_offset
        return State(
            state.snapshot_epoch + 1,
            state.state_epoch,
            update.leader_epoch,
            start_offset,
            update.delivery_complete_count,
            combine(state.batches, update.batches, start_offset),
            stamp_ms,
            stamp_ms,
        )

    def _read(self, owner: _Owned, key: Key, asked: Any, now_ms: int) -> _Outcome:
        entry = owner.entries.get(key)
        if key.partition < 0:
            return _negative(READ, key)
        if entry is None:
            return _refused(
                READ,
                key,
                ErrorCode.INVALID_REQUEST,
                "Read operation on uninitialized share partition not allowed.",
            )
        if _is_fenced(asked.leader_epoch, entry.leader_epoch):
            return _refused(READ, key, ErrorCode.FENCED_LEADER_EPOCH)
        if not self._is_known(key):
            return _refused(READ, key, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        state, leader_epoch = entry.state, asked.leader_epoch
        result = READ.partition(
            partition=key.partition,
            state_epoch=state.state_epoch,
            start_offset=state.start_offset,
            state_batches=[
                ReadBatch(
                    first_offset=batch.first_offset,
                    last_offset=batch.last_offset,
                    delivery_state=batch.delivery_state,
                    delivery_count=batch.delivery_count,
                )
                for batch in state.batches
            ],
        )
        if leader_epoch in (UNKNOWN, entry.leader_epoch):
            return result, []
        logger.info("%s has a leader of epoch %d", key.text, leader_epoch)
        self.writes += 1
        update = Update(
            state.snapshot_epoch,
            leader_epoch,
            state.start_offset,
            state.delivery_complete_count,
            (),
        )
        return result, [self._written(entry, update, now_ms)]

    def _delete(self, owner: _Owned, key: Key, asked: Any, now_ms: int) -> _Outcome:
        if key.partition < 0:
            return _negative(DELETE, key)
        if not self._is_known(key):
            return _refused(DELETE, key, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return _done(DELETE, key), [None] if key in owner.entries else []

    def _summary(self, owner: _Owned, key: Key, asked: Any, now_ms: int) -> _Outcome:
        if key.partition < 0:
            return _negative(SUMMARY, key)
        if not self._is_known(key):
            return _refused(SUMMARY, key, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        entry = owner.entries.get(key)
        state = State() if entry is None else entry.state
        return SUMMARY.partition(
            partition=key.partition,
            state_epoch=state.state_epoch,
            leader_epoch=state.leader_epoch,
            start_offset=state.start_offset,
            delivery_complete_count=state.delivery_complete_count,
        ), []

    # Changes

    def _add(self, batch: _Batch, key: Key, change: Change, now_ms: int) -> None:
        """Apply a change, which goes to the log with the batch."""
        key_bytes, value = record(key, change)
        more = len(key_bytes) + len(value or b"")
        if batch.records and batch.size + more > MAX_BATCH_BYTES:
            self._send(batch)
        entries = batch.owner.entries
        before = entries.get(key)
        after = replayed(before, change, self._config.snapshot_update_records_per_snapshot)
        if before is not None and after is not None:
            epochs = (before.leader_epoch, after.leader_epoch)
            if epochs[0] > epochs[1] or before.state_epoch > after.state_epoch:
                raise BrokenInvariant(f"the epochs of {key} fall from {before} to {after}")
        _put(entries, key, after)
        batch.size += more
        batch.records.append(SimpleRecord(self._wall.stamp_ms(now_ms), key_bytes, value))
        batch.made.append(_Made(key, change, before, after))

    def _send(self, batch: _Batch) -> None:
        """Write what the batch has, and let its answer wait for that, or for what the partition has
        on its way."""
        owner, answer = batch.owner, batch.answer
        if batch.records:
            append_id = self._next_append_id
            self._next_append_id += 1
            data = build_batch(batch.records, compression=self._config.compression)
            self._effects.append(Append(append_id, owner.partition, data))
            self._sent[append_id] = _Sent(owner, batch.made)
            owner.last_append_id = append_id
        if answer is not None and batch.keys and owner.last_append_id is not None:
            answer.waits += 1
            self._sent[owner.last_append_id].answers.append((answer, batch.keys))
        batch.records, batch.made, batch.keys, batch.size = [], [], [], 0

    def appended(self, append_id: int, error: ErrorCode, base_offset: int) -> None:
        """The outcome of an Append; `base_offset` is -1 on errors."""
        sent = self._sent.pop(append_id, None)
        if sent is None:
            raise BrokenInvariant(f"append {append_id} is answered twice, or was never handed out")
        owner = sent.owner
        if owner.last_append_id == append_id:
            owner.last_append_id = None
        if error not in _IN_THE_LOG:
            for made in reversed(sent.made):
                self._undo(owner, made)
        elif error is ErrorCode.NONE:
            _note_offsets(owner, sent.made, base_offset)
        answer_error = _STORE_ERRORS.get(error, error)
        if error is ErrorCode.NONE and self._owned.get(owner.partition) is not owner:
            answer_error = ErrorCode.NOT_COORDINATOR
        for answer, keys in sent.answers:
            if answer_error is not ErrorCode.NONE:
                for key in keys:
                    answer.fail(key, answer_error)
            answer.waits -= 1
            if not answer.waits:
                self._effects.append(Reply(answer.token, answer.response()))

    def _undo(self, owner: _Owned, made: _Made) -> None:
        """Take back a change that is not in the log. Later ones of the same share partition that
        are on their way go the same way, and must not bring it back."""
        if owner.entries.get(made.key) is made.after:
            _put(owner.entries, made.key, made.before)
            return
        for sent in self._sent.values():
            if sent.owner is owner:
                sent.made = [
                    later._replace(before=made.before)
                    if later.key == made.key and later.before is made.after
                    else later
                    for later in sent.made
                ]


def _put(entries: dict[Key, Entry], key: Key, entry: Entry | None) -> None:
    if entry is None:
        entries.pop(key, None)
    else:
        entries[key] = entry


def _note_offsets(owner: _Owned, made: list[_Made], base_offset: int) -> None:
    for offset, one in enumerate(made, base_offset):
        if one.change is None:
            owner.snapshot_offsets.pop(one.key, None)
            owner.tombstone_offset = offset
        elif isinstance(one.change, State):
            owner.snapshot_offsets[one.key] = offset


def _is_fenced(asked_epoch: int, known_epoch: int) -> bool:
    return asked_epoch != UNKNOWN and asked_epoch < known_epoch


def _done(kind: Kind, key: Key) -> Any:
    return kind.partition(partition=key.partition)


def _refused(kind: Kind, key: Key, error: ErrorCode, message: str | None = None) -> _Outcome:
    return kind.result(key.partition, error, message), []


def _negative(kind: Kind, key: Key) -> _Outcome:
    message = "The partition id cannot be a negative number."
    return _refused(kind, key, ErrorCode.INVALID_REQUEST, message)
