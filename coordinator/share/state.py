"""The state of one share partition, and how the records of its log change it.

Job: `State`, the content of a snapshot; `Entry`, a state with what was seen of epochs and updates;
`replayed`, the entry after one more record, in a running coordinator as in one that loads the log.

Invariant: replaying the records of a log in order gives the entries of the coordinator that wrote
them.

Mirrors ShareGroupOffset, and the replay of ShareCoordinatorShard.
"""

from typing import Final, NamedTuple

from ...protocol.uuids import uuid_to_text
from .batches import StateBatch, combine

UNKNOWN: Final = -1


class Key(NamedTuple):
    """The name of a share partition."""

    group_id: str
    topic_id: bytes
    partition: int

    @property
    def text(self) -> str:
        """Its key at FindCoordinator."""
        return f"{self.group_id}:{uuid_to_text(self.topic_id)}:{self.partition}"


class State(NamedTuple):
    """As the last snapshot and the updates behind it have it."""

    snapshot_epoch: int = 0
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = UNKNOWN
    # Of offsets at or above the start offset; -1: not known.
    delivery_complete_count: int = UNKNOWN
    batches: tuple[StateBatch, ...] = ()
    # When the state and its snapshot were written, milliseconds since 1970; 0: by an update.
    create_ms: int = 0
    write_ms: int = 0


class Update(NamedTuple):
    """A change of a state since its snapshot."""

    snapshot_epoch: int
    leader_epoch: int
    start_offset: int  # -1: unchanged
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]


class Entry(NamedTuple):
    state: State
    # The highest that were seen; requests with lower ones are refused.
    leader_epoch: int = UNKNOWN
    state_epoch: int = UNKNOWN
    updates: int = 0  # since the last snapshot that followed too many


NOTHING: Final = Entry(State())

# Of a record: None is a tombstone.
Change = State | Update | None


def replayed(entry: Entry | None, change: Change, updates_per_snapshot: int) -> Entry | None:
    """The entry after the record; None: there is no such share partition any more."""
    if change is None:
        return None
    known = NOTHING if entry is None else entry
    leader_epoch = max(known.leader_epoch, change.leader_epoch)
    if isinstance(change, State):
        updates = 0 if known.updates >= updates_per_snapshot else known.updates
        return Entry(change, leader_epoch, max(known.state_epoch, change.state_epoch), updates)
    state = merged(known.state, change) if entry is not None else _first(change)
    return Entry(state, leader_epoch, known.state_epoch, known.updates + 1)


def merged(state: State, update: Update) -> State:
    start_offset = state.start_offset if update.start_offset == UNKNOWN else update.start_offset
    return state._replace(
        leader_epoch=state.leader_epoch if update.leader_epoch == UNKNOWN else update.leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=update.delivery_complete_count,
        batches=combine(state.batches, update.batches, start_offset),
    )


def _first(update: Update) -> State:
    """An update without a snapshot before it, in a log that has lost its beginning."""
    return State(
        update.snapshot_epoch,
        0,
        update.leader_epoch,
        update.start_offset,
        update.delivery_complete_count,
        update.batches,
    )
