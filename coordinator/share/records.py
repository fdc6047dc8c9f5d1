"""Changes of share partitions as records of `__share_group_state`, and back.

A key begins with the number of its kind, a value with its version, 0; a tombstone has the key of a
snapshot. Mirrors ShareCoordinatorRecordHelpers and ShareCoordinatorRecordSerde.
"""

from typing import Any, Final

from ...protocol.codec import decode, decode_versioned, encode, encode_versioned
from ...protocol.messages import share_state_data as data
from .batches import StateBatch
from .state import Change, Key, State, Update

_KIND_BYTES: Final = 2
_VERSION: Final = 0
SNAPSHOT: Final = b"\0\0"
UPDATE: Final = b"\0\1"


def record(key: Key, change: Change) -> tuple[bytes, bytes | None]:
    """The key and value of a change; a value of None is a tombstone."""
    named: Any = {"group_id": key.group_id, "topic_id": key.topic_id, "partition": key.partition}
    if isinstance(change, Update):
        return UPDATE + encode(data.ShareUpdateKey(**named), _VERSION), encode_versioned(
            data.ShareUpdateValue(
                snapshot_epoch=change.snapshot_epoch,
                leader_epoch=change.leader_epoch,
                start_offset=change.start_offset,
                delivery_complete_count=change.delivery_complete_count,
                state_batches=_batches(change.batches),
            ),
            _VERSION,
        )
    key_bytes = SNAPSHOT + encode(data.ShareSnapshotKey(**named), _VERSION)
    if change is None:
        return key_bytes, None
    value = data.ShareSnapshotValue(
        snapshot_epoch=change.snapshot_epoch,
        state_epoch=change.state_epoch,
        leader_epoch=change.leader_epoch,
        start_offset=change.start_offset,
        delivery_complete_count=change.delivery_complete_count,
        create_timestamp=change.create_ms,
        write_timestamp=change.write_ms,
        state_batches=_batches(change.batches),
    )
    return key_bytes, encode_versioned(value, _VERSION)


def is_known_key(key: bytes) -> bool:
    return key[:_KIND_BYTES] in (SNAPSHOT, UPDATE)


def read(key: bytes, value: bytes | None) -> tuple[Key, Change]:
    """The share partition and its change; raises ProtocolError."""
    is_update = key[:_KIND_BYTES] == UPDATE
    named: Any = decode(
        data.ShareUpdateKey if is_update else data.ShareSnapshotKey, _VERSION, key, _KIND_BYTES
    )
    found = Key(named.group_id, named.topic_id, named.partition)
    if value is None:
        return found, None
    if is_update:
        update = decode_versioned(data.ShareUpdateValue, value)
        return found, Update(
            update.snapshot_epoch,
            update.leader_epoch,
            update.start_offset,
            update.delivery_complete_count,
            _read(update.state_batches),
        )
    snapshot = decode_versioned(data.ShareSnapshotValue, value)
    return found, State(
        snapshot.snapshot_epoch,
        snapshot.state_epoch,
        snapshot.leader_epoch,
        snapshot.start_offset,
        snapshot.delivery_complete_count,
        _read(snapshot.state_batches),
        snapshot.create_timestamp,
        snapshot.write_timestamp,
    )


def _batches(batches: tuple[StateBatch, ...]) -> list[data.StateBatch]:
    return [
        data.StateBatch(
            first_offset=batch.first_offset,
            last_offset=batch.last_offset,
            delivery_state=batch.delivery_state,
            delivery_count=batch.delivery_count,
        )
        for batch in batches
    ]


def _read(batches: list[data.StateBatch]) -> tuple[StateBatch, ...]:
    return tuple(
        StateBatch(
            batch.first_offset, batch.last_offset, batch.delivery_count, batch.delivery_state
        )
        for batch in batches
    )
