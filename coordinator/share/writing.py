"""The changes of share partitions on their way to the log, and the answers that wait for them.

A change is applied at once and goes to the log; the answer waits for it, and so do answers to later
questions about the same partition of the topic. A change that does not get into the log is undone.

Invariants: an answer is given once, after all appends it waits for; the epochs of a share partition
never fall.

Mirrors: the writes of CoordinatorRuntime, as ShareCoordinatorService uses it.
"""

from typing import Final, NamedTuple

from ...protocol.errors import ErrorCode
from ...protocol.invariants import BrokenInvariant
from ...protocol.records.builder import build_batch
from ...protocol.records.record import SimpleRecord
from ...protocol.wall_clock import WallClock
from ..append_errors import IN_THE_LOG, store_error
from .answers import Answer
from .config import ShareCoordinatorConfig
from .effects import Append, Effect, Reply
from .owned import Owned
from .records import record
from .state import Change, Entry, Key, State, replayed

MAX_BATCH_BYTES: Final = 16_384


class _Made(NamedTuple):
    """A change as it was applied."""

    key: Key
    change: Change
    before: Entry | None
    after: Entry | None


class _Sent:
    """An append on its way."""

    __slots__ = ("answers", "made", "owner")

    def __init__(self, owner: Owned, made: list[_Made]) -> None:
        self.owner = owner
        self.made = made
        # The keys of each answer that stand or fall with it.
        self.answers: list[tuple[Answer, list[Key]]] = []


class Batch:
    """Changes of one partition that go to the log together, and an answer that waits for them."""

    __slots__ = ("answer", "keys", "made", "owner", "records", "size")

    def __init__(self, owner: Owned, answer: Answer | None = None) -> None:
        self.owner = owner
        self.answer = answer
        self.keys: list[Key] = []  # of the answer
        self.made: list[_Made] = []
        self.records: list[SimpleRecord] = []
        self.size = 0  # bytes of keys and values


class ShareWriter:
    """See the module."""

    __slots__ = ("_config", "_effects", "_next_append_id", "_sent", "_wall")

    def __init__(self, config: ShareCoordinatorConfig, wall: WallClock) -> None:
        self._config = config
        self._wall = wall
        self._effects: list[Effect] = []
        self._sent: dict[int, _Sent] = {}
        self._next_append_id = 1

    def do(self, effect: Effect) -> None:
        """Add an effect of another kind."""
        self._effects.append(effect)

    def reply(self, answer: Answer) -> None:
        """Give an answer, unless it waits."""
        if not answer.waits:
            self._effects.append(Reply(answer.token, answer.response()))

    def take_effects(self) -> list[Effect]:
        """Remove and return the effects since the last time, in order."""
        effects, self._effects = self._effects, []
        return effects

    def add(self, batch: Batch, key: Key, change: Change, now_ms: int) -> None:
        """Apply a change, which goes to the log with the batch."""
        key_bytes, value = record(key, change)
        more = len(key_bytes) + len(value or b"")
        if batch.records and batch.size + more > MAX_BATCH_BYTES:
            self.send(batch)
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

    def send(self, batch: Batch) -> None:
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
        if error not in IN_THE_LOG:
            for made in reversed(sent.made):
                self._undo(owner, made)
        elif error is ErrorCode.NONE:
            _note_offsets(owner, sent.made, base_offset)
        answer_error = store_error(error)
        if error is ErrorCode.NONE and owner.is_over:
            answer_error = ErrorCode.NOT_COORDINATOR
        for answer, keys in sent.answers:
            if answer_error is not ErrorCode.NONE:
                for key in keys:
                    answer.fail(key, answer_error)
            answer.waits -= 1
            self.reply(answer)

    def _undo(self, owner: Owned, made: _Made) -> None:
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


def _note_offsets(owner: Owned, made: list[_Made], base_offset: int) -> None:
    for offset, one in enumerate(made, base_offset):
        if one.change is None:
            owner.snapshot_offsets.pop(one.key, None)
            owner.tombstone_offset = offset
        elif isinstance(one.change, State):
            owner.snapshot_offsets[one.key] = offset
