"""The transaction log: its bytes, and how a state is recovered from snapshots and logs.

Both are the files of Apache ZooKeeper 3.9. File `log.<zxid of its first transaction in hex>`:

    header   int32 magic "ZKLG", int32 version 2, int64 database 0
    records  int64 Adler-32 of the payload, int32 length, payload: a transaction (`txn_bytes`), "B"
    zeros    ZooKeeper makes a log longer than it is, ahead of time

Recovery: the newest readable snapshot, then every logged transaction above it. zxids are
contiguous (in an ensemble, each epoch begins with 1 in its lower half), so a hole is noticed. The
newest log may end in a torn record (the machine stopped in the middle of a write that was not
acknowledged): it is cut there. A tail is torn only if no valid record follows the unreadable bytes.
An older log, too, may end in a record that is not written to its end, where the next log continues:
ZooKeeper begins a log at each start, and leaves the earlier one. Anything else is an error that
names the file and the offset, never a silent loss; an operator who accepts the loss of the rest
asks for it (`cut`).

Mirrors: FileTxnSnapLog.restore, FileTxnLog (which stops at a wrong checksum, too).
"""

import re
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from struct import Struct
from typing import NamedTuple

from ..protocol.errors import ProtocolError
from ..protocol.invariants import BrokenInvariant
from .fuzzy import fitted
from .snapshot_file import MAX_ZXID, Snapshot, decode_snapshot
from .transactions import CloseSessionTxn, CreateSessionTxn, Txn
from .tree import DataTree
from .txn_bytes import close_session_in, decode_txn

LOG_PREFIX = "log."
SNAPSHOT_PREFIX = "snapshot."
SNAPSHOTS_KEPT = 3

_NAME = re.compile(r"log\.([0-9a-f]{1,16})|snapshot\.([0-9a-f]{1,16})(\.gz|\.snappy)?")
_HEADER = Struct(">4siq")
_MAGIC, _VERSION, _DATABASE_ID = b"ZKLG", 2, 0
_RECORD = Struct(">Qi")
_END = 0x42  # "B"
_ZXID = Struct(">q")
_ZXID_AT = 12  # in a transaction
HEADER_SIZE = _HEADER.size


class RecoveryError(Exception):
    """The files do not yield a state; the message names the file, the position and the reason."""

    def __init__(self, name: str, offset: int, why: str) -> None:
        super().__init__(f"{name} {why}")
        self.name = name
        self.offset = offset
        """What is below it in this file is good."""


class Logged(NamedTuple):
    position: int
    txn: Txn


class LogContents(NamedTuple):
    """The content of a log file: whole transactions up to `valid_bytes`, then perhaps a torn
    one."""

    transactions: list[Logged]
    valid_bytes: int
    end: int = 0
    """Of what was written: zeros may follow."""
    problem: str | None = None
    """Why what is behind `valid_bytes` cannot be an unfinished write."""
    is_cut_short: bool = False
    """What is behind `valid_bytes` is the beginning of a record, and nothing is behind that."""


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
    put_aside: Sequence[str] = ()
    """With `cut`: logs that are given up as a whole."""
    recent: Sequence[Txn] = ()
    """The last transactions of the logs, as many as were asked for."""
    has_snapshot: bool = False


class Truncation(NamedTuple):
    """How the files are cut behind a transaction, and the state that is left."""

    removed: Sequence[str]
    """In the order in which they are to be removed."""
    cut: str | None
    cut_at: int
    recovered: Recovered


def log_name(first_zxid: int) -> str:
    return f"{LOG_PREFIX}{first_zxid:x}"


def snapshot_name(zxid: int) -> str:
    return f"{SNAPSHOT_PREFIX}{zxid:x}"


def zxid_of(name: str) -> int | None:
    """The zxid in the name of a log or a snapshot; None for other files."""
    found = _NAME.fullmatch(name)
    zxid = int(found[1] or found[2], 16) if found is not None else -1
    return zxid if 0 <= zxid <= MAX_ZXID else None


def follows(zxid: int, last_zxid: int) -> bool:
    """Whether no transaction is missing between the two: one behind, or the first of an epoch."""
    return zxid <= last_zxid + 1 or (zxid & 0xFFFF_FFFF == 1 and zxid >> 32 > last_zxid >> 32)


def is_snapshot(name: str) -> bool:
    return name.startswith(SNAPSHOT_PREFIX) and zxid_of(name) is not None


def logs_in(names: Iterable[str]) -> list[str]:
    """From the oldest to the newest."""
    logs = [name for name in names if name.startswith(LOG_PREFIX) and zxid_of(name)]
    return sorted(logs, key=_order)


def _snapshots_in(names: Iterable[str]) -> list[str]:
    """From the newest to the oldest."""
    return sorted(filter(is_snapshot, names), key=_order, reverse=True)


def _order(name: str) -> int:
    return zxid_of(name) or 0


def log_header() -> bytes:
    return _HEADER.pack(_MAGIC, _VERSION, _DATABASE_ID)


def encode_records(payloads: Iterable[bytes]) -> bytes:
    """The payloads as one piece to append to a log."""
    parts: list[bytes] = []
    for payload in payloads:
        parts += (_RECORD.pack(zlib.adler32(payload), len(payload)), payload, b"B")
    return b"".join(parts)


def zxid_in(payload: bytes) -> int:
    zxid: int = _ZXID.unpack_from(payload, _ZXID_AT)[0]
    return zxid


def read_log(name: str, data: bytes) -> LogContents:
    """All transactions up to the first record that is cut short or damaged.

    A header cut short is an empty log; a whole one that is not ours is a problem, and so is a
    whole record behind a damaged one: that was no unfinished write.
    """
    if len(data) < HEADER_SIZE:
        return LogContents([], 0, len(data), is_cut_short=True)
    magic, version, database_id = _HEADER.unpack_from(data)
    if magic != _MAGIC or database_id != _DATABASE_ID:
        problem = "is not a transaction log of ZooKeeper (bad header at byte 0)"
        return LogContents([], 0, problem=problem)
    if version != _VERSION:
        problem = f"has format {version} (at byte 4); this version reads {_VERSION}"
        return LogContents([], 0, problem=problem)
    transactions: list[Logged] = []
    position = HEADER_SIZE
    while (payload := _payload_at(data, position)) is not None:
        try:
            transactions.append(Logged(position, decode_txn(payload)))
        except ProtocolError as error:
            problem = f"holds an unknown transaction at byte {position}: {error}"
            return LogContents(transactions, position, problem=problem)
        position += _RECORD.size + len(payload) + 1
    end = len(data.rstrip(b"\0"))
    if position >= end:
        return LogContents(transactions, position, position)
    last_zxid = transactions[-1].txn.header.zxid if transactions else (zxid_of(name) or 1) - 1
    following = _find_record(data[:end], position + 1, last_zxid)
    if following is not None:
        problem = (
            f"is damaged at byte {position}, after transaction {last_zxid:#x}: transaction "
            f"{following.txn.header.zxid:#x} follows at byte {following.position}, so this is "
            "no unfinished write"
        )
        return LogContents(transactions, position, problem=problem)
    is_cut_short = end < position + _RECORD.size
    if not is_cut_short:
        length = _RECORD.unpack_from(data, position)[1]
        is_cut_short = end <= position + _RECORD.size + length
    return LogContents(transactions, position, end, is_cut_short=is_cut_short)


def _payload_at(data: bytes, position: int) -> memoryview | None:
    """The transaction of a whole record, None if there is none at `position`."""
    start = position + _RECORD.size
    if start > len(data):
        return None
    checksum, length = _RECORD.unpack_from(data, position)
    if length <= 0 or start + length >= len(data) or data[start + length] != _END:
        return None
    payload = memoryview(data)[start : start + length]
    return payload if zlib.adler32(payload) == checksum else None


def _find_record(data: bytes, start: int, last_zxid: int) -> Logged | None:
    """The first whole record at or behind `start` with a transaction after `last_zxid`.

    A regular expression finds possible headers: a log has millions of bytes, and a checksum at each
    would be slow.
    """
    most = last_zxid + 1 + (len(data) - start) // _RECORD.size
    tops = {_ZXID.pack(zxid >> 24)[3:] for zxid in (last_zxid + 1, most)}
    patterns = [re.escape(top) for top in sorted(tops)]
    if last_zxid >> 32:
        patterns.append(rb".{4}\x00")  # the beginning of another epoch
    zxid = b"(?:" + b"|".join(patterns) + b").{3}"
    # Checksum, length below 2^24 and not 0, session, cxid, zxid, time below 2^48 ms, type not 0.
    pattern = rb"(?=\x00{4}.{4}\x00(?!\x00{3}).{3}.{8}.{4}" + zxid + rb"\x00{2}.{6}"
    pattern += rb"(?:\x00{3}[^\x00]|\xff{3}.))"
    for match in re.compile(pattern, re.DOTALL).finditer(data, start):
        payload = _payload_at(data, match.start())
        if payload is not None:
            try:
                txn = decode_txn(payload)
            except ProtocolError:
                continue
            if txn.header.zxid > last_zxid:
                return Logged(match.start(), txn)
    return None


def recover(
    names: Sequence[str], read: Callable[[str], bytes], *, cut: bool = False, keep: int = 0
) -> Recovered:
    """Recover the state from the files of a directory. Raises RecoveryError.

    With `cut`, the state up to the first damage in the logs, if there is any state before it.
    `keep`: how many of the last transactions the caller wants.
    """
    notes: list[str] = []
    found = _newest_snapshot(names, read, notes)
    start = found or Snapshot(DataTree(), {}, 0)
    tree = start.tree
    logs = logs_in(names)
    first_needed = 0
    for index, name in enumerate(logs):
        if _order(name) <= tree.last_zxid + 1:
            first_needed = index
    replay = _Replay(start, notes, keep)
    put_aside: list[str] = []
    try:
        for name, following in zip(
            logs[first_needed:], [*logs[first_needed + 1 :], None], strict=bool(logs)
        ):
            replay.log(name, read_log(name, _read_log_file(name, read)), following)
    except RecoveryError as error:
        if not cut or tree.last_zxid == 0:
            raise
        notes.append(f"{error}; everything from there on is dropped")
        put_aside = logs[logs.index(error.name) + (1 if error.offset else 0) :]
        replay.end_at(error)
    # The name of an unreadable snapshot still has the zxid of its state.
    later = [name for name in _snapshots_in(names) if _order(name) > tree.last_zxid]
    if later and not cut:
        why = f"is of a later state than all that can be read, which ends at {tree.last_zxid:#x}"
        raise RecoveryError(later[0], 0, "; ".join([why, *notes]))
    if replay.log_end_zxid < tree.last_zxid:
        replay.last_log = None  # it lost what the snapshot has
    return Recovered(
        tree,
        start.sessions,
        replay.last_log,
        replay.valid_bytes,
        replay.count,
        notes,
        put_aside + later,
        tuple(replay.recent),
        found is not None,
    )


def truncation(
    names: Sequence[str], read: Callable[[str], bytes], zxid: int, *, keep: int = 0
) -> Truncation | None:
    """How the files are cut so that `zxid` is their last transaction; None if they cannot be.

    Snapshots go first, then logs from the newest on, so that a stop in between leaves the files of
    an earlier state.
    """
    snapshots = [name for name in _snapshots_in(names) if _order(name) > zxid]
    logs = logs_in(names)
    later = [name for name in logs if _order(name) > zxid]
    removed = [*snapshots, *reversed(later)]
    kept = [name for name in names if name not in removed]
    last = next((name for name in reversed(logs) if name not in later), None)
    cut_at = 0
    if last is not None:
        contents = read_log(last, read(last))
        positions = [at for at, txn in contents.transactions if txn.header.zxid > zxid]
        cut_at = positions[0] if positions else contents.valid_bytes

    def read_cut(name: str) -> bytes:
        data = read(name)
        return data[:cut_at] if name == last else data

    try:
        recovered = recover(kept, read_cut, keep=keep)
    except RecoveryError:
        return None
    if recovered.tree.last_zxid != zxid:
        return None
    return Truncation(removed, last, cut_at, recovered)


def _read_log_file(name: str, read: Callable[[str], bytes]) -> bytes:
    try:
        return read(name)
    except OSError as error:
        raise RecoveryError(name, 0, f"cannot be read: {error}") from error


class _Replay:
    """Logs applied to a state, one after the other."""

    __slots__ = (
        "_fuzzy_until",
        "_notes",
        "_sessions",
        "_tree",
        "count",
        "last_log",
        "log_end_zxid",
        "recent",
        "valid_bytes",
    )

    def __init__(self, start: Snapshot, notes: list[str], keep: int) -> None:
        self.recent: deque[Txn] = deque(maxlen=keep)
        self._tree, self._sessions, self._fuzzy_until = start
        self._notes = notes
        self.count = self.valid_bytes = self.log_end_zxid = 0
        self.last_log: str | None = None

    def log(self, name: str, contents: LogContents, following: str | None) -> None:
        """Apply a log; RecoveryError if there is more that cannot be applied. `following`: the
        log behind it."""
        first_zxid = zxid_of(name) or 0
        if not follows(first_zxid, self._tree.last_zxid):
            raise self._hole(name, 0, first_zxid)
        self.log_end_zxid = first_zxid - 1
        for position, txn in contents.transactions:
            if not follows(txn.header.zxid, self._tree.last_zxid):
                raise self._hole(name, position, txn.header.zxid)
            self.log_end_zxid = txn.header.zxid
            if txn.header.zxid > self._tree.last_zxid:
                try:
                    self._apply(txn)
                except (KeyError, BrokenInvariant) as error:  # with a checksum that is right
                    why = f"has transaction {txn.header.zxid:#x}, which cannot be applied: {error}"
                    raise RecoveryError(name, position, why) from error
                self.count += 1
            self.recent.append(txn)
        valid_bytes, problem = contents.valid_bytes, contents.problem
        self.last_log, self.valid_bytes = name, valid_bytes
        if problem is None and valid_bytes < contents.end:
            if following is None or (
                contents.is_cut_short and follows(_order(following), self._tree.last_zxid)
            ):
                size = contents.end - valid_bytes
                self._notes.append(
                    f"{name}: dropped {size} bytes of an unfinished write at its end"
                )
            else:
                problem = f"is damaged at byte {valid_bytes}, and logs follow it"
        if problem is not None:
            raise RecoveryError(name, valid_bytes, problem)

    def _apply(self, txn: Txn) -> None:
        txn = close_session_in(self._tree, txn)
        if txn.header.zxid <= self._fuzzy_until:
            txn = fitted(self._tree, txn)
        self._tree.apply(txn)
        if isinstance(txn.body, CreateSessionTxn):
            self._sessions[txn.header.session_id] = txn.body.timeout_ms
        elif isinstance(txn.body, CloseSessionTxn):
            self._sessions.pop(txn.header.session_id, None)

    def end_at(self, error: RecoveryError) -> None:
        """Continue the log behind its last good transaction."""
        if error.offset:
            self.last_log, self.valid_bytes = error.name, error.offset
        elif self.last_log == error.name:
            self.last_log = None

    def _hole(self, name: str, position: int, zxid: int) -> RecoveryError:
        before = f"the last transaction before it is {self._tree.last_zxid:#x}"
        if self.last_log is not None:
            before += f", in {self.last_log}"
        why = (
            f"continues at transaction {zxid:#x} (byte {position}), but {before}: some are missing"
        )
        return RecoveryError(name, position, "; ".join([why, *self._notes]))


def obsolete(names: Sequence[str]) -> list[str]:
    """The files that no recovery from one of the newest snapshots could need."""
    snapshots = _snapshots_in(names)
    if len(snapshots) < SNAPSHOTS_KEPT:
        return []
    oldest_zxid = _order(snapshots[SNAPSHOTS_KEPT - 1])
    unneeded = [
        name for name, following in pairwise(logs_in(names)) if _order(following) <= oldest_zxid + 1
    ]
    return snapshots[SNAPSHOTS_KEPT:] + unneeded


def _newest_snapshot(
    names: Sequence[str], read: Callable[[str], bytes], notes: list[str]
) -> Snapshot | None:
    for name in _snapshots_in(names):
        try:
            named = _NAME.fullmatch(name)
            suffix = named[3] if named is not None else None
            return decode_snapshot(read(name), _order(name), suffix or "")
        except (ProtocolError, OSError) as error:
            notes.append(f"{name} was passed over: {error}")
    return None
