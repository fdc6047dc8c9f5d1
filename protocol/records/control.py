"""Control records: the key that names their type, and the transaction markers.

Mirrors Kafka's ControlRecordType and EndTransactionMarker. Of the KRaft types (2-6) only the
numbers are known here; a ZooKeeper-mode broker never writes them.
"""

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from ..errors import ProtocolError
from ..primitives import Buffer

_KEY = Struct(">hh")
_END_TXN_VALUE = Struct(">hi")
_CURRENT_VERSION: Final = 0


class ControlRecordType(IntEnum):
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6
    UNKNOWN = -1


def control_record_key(kind: ControlRecordType) -> bytes:
    return _KEY.pack(_CURRENT_VERSION, kind)


def parse_control_record_type(key: Buffer | None) -> ControlRecordType:
    """The type named by a control record's key; newer versions may append fields to it."""
    if key is None or len(key) < _KEY.size:
        raise ProtocolError("a control record's key is cut short")
    version, kind = _KEY.unpack_from(key)
    if version < 0:
        raise ProtocolError(f"control record key version {version}")
    return ControlRecordType(kind) if 0 <= kind <= 6 else ControlRecordType.UNKNOWN


class EndTxnMarker(NamedTuple):
    """COMMIT or ABORT of a transaction, with the epoch of the coordinator that wrote it."""

    kind: ControlRecordType
    coordinator_epoch: int

    def key(self) -> bytes:
        return control_record_key(self.kind)

    def value(self) -> bytes:
        return _END_TXN_VALUE.pack(_CURRENT_VERSION, self.coordinator_epoch)

    @classmethod
    def parse(cls, key: Buffer | None, value: Buffer | None) -> "EndTxnMarker":
        kind = parse_control_record_type(key)
        if kind not in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
            raise ProtocolError(f"{kind.name} is not a transaction marker")
        if value is None or len(value) < _END_TXN_VALUE.size:
            raise ProtocolError("a transaction marker's value is cut short")
        version, coordinator_epoch = _END_TXN_VALUE.unpack_from(value)
        if version < 0:
            raise ProtocolError(f"transaction marker version {version}")
        return cls(kind, coordinator_epoch)
