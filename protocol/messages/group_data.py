"""Keys and values in `__consumer_offsets`: offsets and group metadata.

Each stands behind an int16 version (`codec.encode_versioned`). Of the keys, versions 0 and 1 are
offsets, 2 is group metadata. Values: OffsetCommitValue 1 carries an expiry time, 3 leader epochs;
GroupMetadataValue 2 the time of the last state, 3 static members; 4 of both is flexible.

Mirrors: the schemas of the same names in group-coordinator/src/main/resources/common/message.
"""

from __future__ import annotations

from ..primitives import Buffer
from ..schema import Message, Struct, array, binary, int32, int64, message, string


@message(kind="data", valid="0-1")
class OffsetCommitKey(Message):
    group: str = string("0-1")
    topic: str = string("0-1")
    partition: int = int32("0-1")


@message(kind="data", valid="0-4", flexible="4+")
class OffsetCommitValue(Message):
    offset: int = int64()
    leader_epoch: int = int32("3+", default=-1, ignorable=True)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64("1", default=-1, ignorable=True)


@message(kind="data", valid="2")
class GroupMetadataKey(Message):
    group: str = string("2")


class MemberMetadata(Struct):
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout: int = int32("1+", default=-1, ignorable=True)
    session_timeout: int = int32()
    subscription: Buffer = binary()
    assignment: Buffer = binary()


@message(kind="data", valid="0-4", flexible="4+")
class GroupMetadataValue(Message):
    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable="0+")
    leader: str | None = string(nullable="0+")
    current_state_timestamp: int = int64("2+", default=-1, ignorable=True)
    members: list[MemberMetadata] = array(MemberMetadata)
