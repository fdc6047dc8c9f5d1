"""Keys and values in `__share_group_state`: the state of share partitions (KIP-932).

Keys have no version of their own: the int16 in front of a key is the number of its kind, 0 for a
snapshot and 1 for an update. Values stand behind an int16 version, as all do; each has version 0
only.

Mirrors: the schemas of the same names in share-coordinator/src/main/resources/common/message.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, int8, int16, int32, int64, message, string, uuid


class StateBatch(Struct):
    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()
    delivery_count: int = int16()


@message(kind="data", valid="0")
class ShareSnapshotKey(Message):
    group_id: str = string()
    topic_id: bytes = uuid()
    partition: int = int32()


@message(kind="data", valid="0", flexible="0+")
class ShareSnapshotValue(Message):
    snapshot_epoch: int = int32()
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(default=-1, tag=0)
    create_timestamp: int = int64()
    write_timestamp: int = int64()
    state_batches: list[StateBatch] = array(StateBatch)


@message(kind="data", valid="0")
class ShareUpdateKey(Message):
    group_id: str = string()
    topic_id: bytes = uuid()
    partition: int = int32()


@message(kind="data", valid="0", flexible="0+")
class ShareUpdateValue(Message):
    snapshot_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(default=-1, tag=0)
    state_batches: list[StateBatch] = array(StateBatch)
