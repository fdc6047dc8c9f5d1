"""The transaction log: its bytes, and how a state is recovered from snapshots and logs.

ZooKeeper's files hold the same things in another form; ours are our own.

Log file `log.<zxid of its first transaction, 16 hex digits>`:

    header   8 bytes magic "PYZKLOG\\n", uint32 format version, uint32 CRC-32 of these 12 bytes
    records  uint32 length, uint32 CRC-32 of the payload, payload: a transaction (transactions.py)

Recovery: the newest readable snapshot, then every logged transaction above it. zxids are
contiguous, so a hole is noticed. The newest log may end in a torn record (the machine stopped in
the middle of a write that nobody had been told of): it is cut there. Anything else that cannot be
read is an error that names the file, never a silent loss.
"""

import zlib
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from struct import Struct
from typing import NamedTuple

from coordinator.zookeeper.snapshot import decode_snapshot
from coordinator.zookeeper.transactions import (
    CloseSessionTxn,
    CreateSessionTxn,
    Txn,
    decode_txn,
)
from coordinator.zookeeper.tree import DataTree
from protocol.errors import ProtocolError

LOG_PREFIX = "log."
SNAPSHOT_PREFIX = "snapshot."
FORMAT_VERSION = 1
SNAPSHOTS_KEPT = 3

_MAGIC = b"PYZKLOG\n"
_HEADER = Struct(">8sI")
_RECORD = Struct(">II")
_CRC = Struct(">I")
HEADER_SIZE = _HEADER.size + _CRC.size


class RecoveryError(Exception):
    """The files do not add up to a state; the message says which one and why."""


class LogContents(NamedTuple):
    """What a log file holds: whole transactions up to `valid_bytes`, then perhaps a torn one."""

    transactions: list[Txn]
    valid_bytes: int


class Recovered(NamedTuple):
    tree: DataTree
    sessions: dict[int, int]
    """Session id to timeout in ms."""
    last_log: str | None
    """The log to go on with, None to begin a new one."""
    last_log_valid_bytes: int
    replayed: int
    notes: list[str]
    """What a person should know: snapshots passed over, a torn tail."""


def log_name(first_zxid: int) -> str:
    return f"{LOG_PREFIX}{first_zxid:016x}"


def snapshot_name(zxid: int) -> str:
    return f"{SNAPSHOT_PREFIX}{zxid:016x}"


def zxid_of(name: str) -> int | None:
    """The zxid in the name of a log or a snapshot; None for other files."""
    for prefix in (LOG_PREFIX, SNAPSHOT_PREFIX):
        digits = name.removeprefix(prefix)
        if digits != name and len(digits) == 16:
            try:
                return int(digits, 16)
            except ValueError:
                return None
    return None


def log_header() -> bytes:
    header = _HEADER.pack(_MAGIC, FORMAT_VERSION)
    return header + _CRC.pack(zlib.crc32(header))


def encode_records(payloads: Iterable[bytes]) -> bytes:
    """The payloads as one piece to append to a log."""
    parts: list[bytes] = []
    for payload in payloads:
        parts.append(_RECORD.pack(len(payload), zlib.crc32(payload)))
        parts.append(payload)
    return b"".join(parts)


def read_log(name: str, data: bytes) -> LogContents:
    """All transactions up to the first record that is cut short or damaged.

    Raises RecoveryError if the header is whole and not ours. A header cut short is an empty log.
    """
    if len(data) < HEADER_SIZE:
        return LogContents([], 0)
    magic, version = _HEADER.unpack_from(data)
    if magic != _MAGIC or _CRC.unpack_from(data, _HEADER.size)[0] != zlib.crc32(data[:12]):
        raise RecoveryError(f"{name} is not a transaction log of ours (bad header)")
    if version != FORMAT_VERSION:
        raise RecoveryError(f"{name} has format {version}; this version reads {FORMAT_VERSION}")
    view = memoryview(data)
    transactions: list[Txn] = []
    position = HEADER_SIZE
    while position + _RECORD.size <= len(data):
        length, checksum = _RECORD.unpack_from(data, position)
        end = position + _RECORD.size + length
        payload = view[position + _RECORD.size : end]
        if end > len(data) or length == 0 or zlib.crc32(payload) != checksum:
            break
        try:
            transactions.append(decode_txn(payload))
        except ProtocolError as error:
            raise RecoveryError(f"{name} holds an unknown transaction: {error}") from error
        position = end
    return LogContents(transactions, position)


def recover(names: Sequence[str], read: Callable[[str], bytes]) -> Recovered:
    """The state that the files of a directory amount to. Raises RecoveryError."""
    notes: list[str] = []
    tree, sessions = _newest_snapshot(names, read, notes)
    start_zxid = tree.last_zxid
    logs = sorted(name for name in names if name.startswith(LOG_PREFIX) and zxid_of(name))
    first_needed = 0
    for index, name in enumerate(logs):
        if (zxid_of(name) or 0) <= start_zxid + 1:
            first_needed = index
    replayed = valid_bytes = 0
    for name in logs[first_needed:]:
        data = read(name)
        contents = read_log(name, data)
        valid_bytes = contents.valid_bytes
        if valid_bytes < len(data):
            if name != logs[-1]:
                raise RecoveryError(f"{name} is damaged at byte {valid_bytes}, and logs follow it")
            notes.append(
                f"{name}: dropped {len(data) - valid_bytes} bytes of an unfinished write at its end"
            )
        for txn in contents.transactions:
            if txn.header.zxid <= tree.last_zxid:
                continue
            if txn.header.zxid != tree.last_zxid + 1:
                raise RecoveryError(
                    f"{name} goes on at zxid {txn.header.zxid:#x}, but the last transaction before"
                    f" it is {tree.last_zxid:#x}: a file is missing"
                )
            _replay(txn, tree, sessions)
            replayed += 1
    last_log = logs[-1] if logs else None
    if last_log is not None and (zxid_of(last_log) or 0) > tree.last_zxid + 1:
        raise RecoveryError(f"{last_log} begins past the last transaction {tree.last_zxid:#x}")
    return Recovered(tree, sessions, last_log, valid_bytes, replayed, notes)


def obsolete(names: Sequence[str]) -> list[str]:
    """The files that no recovery from one of the newest snapshots could need."""
    snapshots = sorted(
        (name for name in names if name.startswith(SNAPSHOT_PREFIX) and zxid_of(name) is not None),
        reverse=True,
    )
    if len(snapshots) < SNAPSHOTS_KEPT:
        return []
    oldest_zxid = zxid_of(snapshots[SNAPSHOTS_KEPT - 1]) or 0
    logs = sorted(name for name in names if name.startswith(LOG_PREFIX) and zxid_of(name))
    unneeded = [
        name for name, following in pairwise(logs) if (zxid_of(following) or 0) <= oldest_zxid + 1
    ]
    return snapshots[SNAPSHOTS_KEPT:] + unneeded


def _newest_snapshot(
    names: Sequence[str], read: Callable[[str], bytes], notes: list[str]
) -> tuple[DataTree, dict[int, int]]:
    for name in sorted(names, reverse=True):
        if not name.startswith(SNAPSHOT_PREFIX) or zxid_of(name) is None:
            continue
        try:
            return decode_snapshot(read(name))
        except ProtocolError as error:
            notes.append(f"{name} was passed over: {error}")
    return DataTree(), {}


def _replay(txn: Txn, tree: DataTree, sessions: dict[int, int]) -> None:
    tree.apply(txn)
    if isinstance(txn.body, CreateSessionTxn):
        sessions[txn.header.session_id] = txn.body.timeout_ms
    elif isinstance(txn.body, CloseSessionTxn):
        sessions.pop(txn.header.session_id, None)
