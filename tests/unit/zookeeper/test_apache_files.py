"""Files that Apache ZooKeeper 3.9.3 wrote, and those of an earlier version of ours."""

import contextlib
import gzip
import logging
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from pybroker_kafka.broker.zookeeper.member_storage import MemberStorage
from pybroker_kafka.broker.zookeeper.storage import (
    DataDirectoryError,
    FileStorage,
    open_storage,
    read_content,
)
from pybroker_kafka.protocol.errors import ProtocolError
from pybroker_kafka.protocol.records.compression import Compression, compress
from pybroker_kafka.protocol.zookeeper.constants import OPEN_ACL, Op, OwnerKind, owner_kind
from pybroker_kafka.zookeeper.acl import digest_id
from pybroker_kafka.zookeeper.quorum.learner import Epochs
from pybroker_kafka.zookeeper.snapshot import capture
from pybroker_kafka.zookeeper.snapshot_file import MAX_ZXID, decode_snapshot, encode_snapshot
from pybroker_kafka.zookeeper.transactions import CloseSessionTxn, CreateTxn, Txn, TxnHeader
from pybroker_kafka.zookeeper.tree import DataTree
from pybroker_kafka.zookeeper.txn_bytes import decode_txn, encode_txn
from pybroker_kafka.zookeeper.wal import (
    HEADER_SIZE,
    Recovered,
    RecoveryError,
    encode_records,
    log_header,
    log_name,
    read_log,
    recover,
    snapshot_name,
)
from tests.unit.zookeeper.apache_files import EARLIER, MEMBER, ONE_ALONE, unpacked
from tests.unit.zookeeper.test_wal import RECORD_SIZE, busy_world, state_of

ALONE = unpacked(ONE_ALONE)
LAST = 0x14
TYPES = {
    *(Op.CREATE_SESSION, Op.CLOSE_SESSION, Op.CREATE, Op.CREATE2, Op.CREATE_TTL),
    *(Op.CREATE_CONTAINER, Op.DELETE, Op.DELETE_CONTAINER, Op.SET_DATA, Op.SET_ACL),
    *(Op.MULTI, Op.ERROR),
}
SEAL_SIZE = 13
DIGEST_PART_SIZE = 20 + SEAL_SIZE
LAST_ZXID_PART_SIZE = 8 + SEAL_SIZE


def recovered_from(files: dict[str, bytes]) -> Recovered:
    return recover(list(files), files.__getitem__)


def payloads(log: bytes) -> list[bytes]:
    found, position = [], HEADER_SIZE
    while position < len(log):
        (length,) = struct.unpack_from(">i", log, position + 8)
        found.append(log[position + 12 : position + 12 + length])
        position += RECORD_SIZE + length
    return found


def test_the_log_and_the_snapshot_have_the_same_state() -> None:
    by_log = recovered_from({name: ALONE[name] for name in ("snapshot.0", "log.1")})
    by_snapshot = recovered_from(ALONE)
    assert by_log.notes == by_snapshot.notes == []
    assert (by_log.replayed, by_snapshot.replayed) == (LAST, 0)
    assert by_log.tree.last_zxid == by_snapshot.tree.last_zxid == LAST
    assert state_of(by_log.tree) == state_of(by_snapshot.tree)
    assert by_log.sessions == by_snapshot.sessions
    assert sorted(by_log.sessions.values()) == [10_000, 20_000]
    assert by_log.tree.ephemerals == by_snapshot.tree.ephemerals


def test_every_kind_of_transaction_is_read() -> None:
    tree = recovered_from(ALONE).tree
    assert {node for node in tree.nodes if not node.startswith("/zookeeper")} == {
        *("", "/", "/a", "/a/e", "/a/s-0000000001", "/c", "/t")
    }
    a, one = tree.nodes["/a"], tree.nodes["/a/s-0000000001"]
    assert (a.data, a.version, one.acl[0].id) == (b"2", 2, digest_id(b"u:p"))
    assert owner_kind(tree.nodes["/c"].owner) is OwnerKind.CONTAINER
    assert owner_kind(tree.nodes["/t"].owner) is OwnerKind.TTL
    assert list(tree.ephemerals.values()) == [{"/a/e": None}]
    types = {txn.header.type for _, txn in read_log("log.1", ALONE["log.1"]).transactions}
    assert types == TYPES


def test_ours_are_the_same_bytes() -> None:
    assert b"".join(encode_snapshot(capture(DataTree(), {}))) == ALONE["snapshot.0"]
    read = decode_snapshot(ALONE["snapshot.14"], LAST)
    ours = decode_snapshot(b"".join(encode_snapshot(capture(read.tree, read.sessions))), 0)
    assert state_of(ours.tree) == state_of(read.tree)
    assert ours[1:] == read[1:]
    records = payloads(ALONE["log.1"])
    assert log_header() + encode_records(records) == ALONE["log.1"]
    digest_size = 12
    for record in records:
        txn = decode_txn(record)
        if txn.header.type == Op.MULTI:
            # Ours keep no version that was checked, and no parts before the one that failed.
            assert decode_txn(encode_txn(txn)) == txn
        else:
            assert encode_txn(txn) in (record, record[:-digest_size])


def test_a_member_of_an_ensemble(tmp_path: Path) -> None:
    files = tmp_path / "version-2"
    files.mkdir()
    for name, data in unpacked(MEMBER).items():
        (files / name).write_bytes(data)
    storage = MemberStorage(tmp_path, fsync=False)
    storage.close()
    assert storage.epochs == Epochs(1, 1)
    tree = storage.recovered.tree
    assert tree.last_zxid >> 32 == 1
    assert tree.ephemerals == {}
    config = (tree.nodes["/zookeeper/config"].data or b"").decode()
    assert config.splitlines()[1].endswith("observer;127.0.0.1:30648")
    assert "version=100000003" in config
    assert Op.RECONFIG in [txn.header.type for txn in storage.recovered.recent]


@pytest.mark.parametrize("zeros", [1, 12, 13, 64, 2_000_000])
def test_zeros_are_the_end_of_a_log(tmp_path: Path, zeros: int) -> None:
    files = tmp_path / "version-2"
    files.mkdir()
    (files / "snapshot.0").write_bytes(ALONE["snapshot.0"])
    (files / "log.1").write_bytes(ALONE["log.1"] + bytes(zeros))
    assert read_content(files / "log.1") == ALONE["log.1"]
    storage = FileStorage(tmp_path, fsync=False)
    assert storage.recovered.notes == []
    assert storage.recovered.tree.last_zxid == LAST
    storage._write([encode_txn(Txn(TxnHeader(0, 0, LAST + 1, 1, Op.CLOSE_SESSION), CLOSED))])
    storage.close()
    assert len((files / "log.1").read_bytes()) == len(ALONE["log.1"]) + RECORD_SIZE + 32 + 4
    again = FileStorage(tmp_path, fsync=False)
    again.close()
    assert again.recovered.tree.last_zxid == LAST + 1
    assert sorted(path.name for path in files.iterdir()) == ["log.1", "snapshot.0"]


CLOSED = CloseSessionTxn([])


def split_log(at: int) -> tuple[bytes, list[bytes]]:
    """A log of the first `at` transactions, and the rest."""
    records = payloads(ALONE["log.1"])
    return log_header() + encode_records(records[:at]), records[at:]


@pytest.mark.parametrize("left", [1, 9, 20, -1])
@pytest.mark.parametrize("zeros", [0, 500])
def test_a_server_that_was_killed_left_the_beginning_of_a_record(left: int, zeros: int) -> None:
    """The next log has it once more, or, had nobody else got it, another one in its place."""
    before, records = split_log(5)
    torn = encode_records(records[:1])[:left]
    files = {
        "snapshot.0": ALONE["snapshot.0"],
        "log.1": before + torn + bytes(zeros),
        "log.6": log_header() + encode_records(records),
    }
    recovered = recovered_from(files)
    assert recovered.tree.last_zxid == LAST
    assert bool(recovered.notes) == any(torn)
    if any(torn):
        files["log.7"] = log_header() + encode_records(records[1:])
        del files["log.6"]
        with pytest.raises(RecoveryError, match=r"log\.1 is damaged at byte \d+, and logs follow"):
            recovered_from(files)


def test_a_whole_record_that_is_damaged_is_not_torn() -> None:
    before, records = split_log(5)
    damaged = bytearray(encode_records(records[:1]))
    damaged[30] ^= 1
    files = {
        "snapshot.0": ALONE["snapshot.0"],
        "log.1": before + bytes(damaged) + bytes(100),
        "log.100000001": log_header(),
    }
    with pytest.raises(RecoveryError, match=rf"log\.1 is damaged at byte {len(before)}, and logs"):
        recovered_from(files)


def test_a_close_of_a_session_without_its_nodes() -> None:
    """With closeSessionTxn.enabled=false: a header, and a digest of the tree behind it."""
    header = TxnHeader(7, 0, LAST + 1, 1, Op.CLOSE_SESSION)
    bare = encode_txn(Txn(header, CLOSED))[:-4]
    digest = struct.pack(">iq", 2, 12345)
    assert decode_txn(bare) == decode_txn(bare + digest) == Txn(header, CLOSED)
    named = encode_txn(Txn(header, CloseSessionTxn(["/e", "/f"])))
    assert decode_txn(named + digest).body == CloseSessionTxn(["/e", "/f"])


def resealed(data: bytes) -> bytes:
    return data + struct.pack(">Qi1s", zlib.adler32(data), 1, b"/")


def test_snapshots_of_earlier_and_of_other_servers(tmp_path: Path) -> None:
    """Before 3.6 there was no digest, before 3.9 no last zxid; both can be turned off."""
    whole = ALONE["snapshot.14"]
    nodes = whole[: -DIGEST_PART_SIZE - LAST_ZXID_PART_SIZE]
    without = [
        (nodes, MAX_ZXID),
        (whole[:-LAST_ZXID_PART_SIZE], MAX_ZXID),
        (resealed(nodes + whole[-LAST_ZXID_PART_SIZE:-SEAL_SIZE]), LAST + 1),
        (whole, LAST + 1),
    ]
    expected = state_of(decode_snapshot(whole, LAST).tree)
    for data, fuzzy_until in without:
        read = decode_snapshot(data, LAST)
        assert (state_of(read.tree), read.fuzzy_until) == (expected, fuzzy_until)
    for suffix, packed in (
        (".gz", gzip.compress(whole)),
        (".snappy", compress(Compression.SNAPPY, whole)),
    ):
        assert state_of(decode_snapshot(packed, LAST, suffix).tree) == expected
        files = tmp_path / suffix[1:] / "version-2"
        files.mkdir(parents=True)
        (files / f"snapshot.14{suffix}").write_bytes(packed)
        storage = FileStorage(files.parent, fsync=False)
        storage.close()
        assert storage.recovered.tree.last_zxid == LAST
        with pytest.raises(ProtocolError, match="decompressed"):
            decode_snapshot(packed[:-9], LAST, suffix)
    for data in (whole[:-1], nodes[:-SEAL_SIZE], resealed(nodes[: -SEAL_SIZE - 5]), b""):
        with pytest.raises(ProtocolError):
            decode_snapshot(data, LAST)


def test_logs_in_a_directory_of_their_own(tmp_path: Path) -> None:
    storage = open_storage(tmp_path / "data", tmp_path / "logs", fsync=True)
    storage._write(busy_world().records)  # type: ignore[attr-defined]
    storage.close()
    assert [path.name for path in (tmp_path / "logs" / "version-2").iterdir()] == ["log.1"]
    assert [path.name for path in (tmp_path / "data" / "version-2").iterdir()] == ["snapshot.0"]
    again = open_storage(tmp_path / "data", tmp_path / "logs", fsync=True)
    again.close()
    assert state_of(again.recovered.tree) == state_of(busy_world().machine.tree)
    (tmp_path / "logs" / "version-2" / "log.1").rename(tmp_path / "data" / "version-2" / "log.1")
    with pytest.raises(DataDirectoryError, match=r"has log\.1: check dataDir and dataLogDir"):
        open_storage(tmp_path / "data", tmp_path / "logs", fsync=True)


def earlier(directory: Path) -> None:
    directory.mkdir(exist_ok=True)
    for name, data in unpacked(EARLIER).items():
        (directory / name).write_bytes(data)
    (directory / "session.secret").write_bytes(bytes(16))
    (directory / "acceptedEpoch").write_text("3")
    (directory / "currentEpoch").write_text("2")


def assert_is_new(directory: Path) -> None:
    storage = MemberStorage(directory, fsync=False)
    storage.close()
    world = busy_world()
    assert state_of(storage.recovered.tree) == state_of(world.machine.tree)
    assert storage.recovered.sessions == world.machine.sessions.timeouts_ms()
    assert storage.recovered.tree.last_zxid == world.machine.tree.last_zxid
    assert storage.epochs == Epochs(3, 2)
    assert storage.secret == bytes(16)
    assert sorted(path.name for path in directory.iterdir()) == [
        *("lock", "session.secret", "version-2")
    ]


def test_the_files_of_an_earlier_version_are_written_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    earlier(tmp_path / "data")
    caplog.set_level(logging.INFO, "pybroker.broker.zookeeper.storage")
    assert_is_new(tmp_path / "data")
    (line,) = caplog.messages
    assert "have the format of an earlier version" in line


def test_an_earlier_snapshot_that_took_the_place_of_everything(tmp_path: Path) -> None:
    earlier(tmp_path)
    snapshot = tmp_path / f"snapshot.{8:016x}"
    snapshot.rename(snapshot.with_name(snapshot.name + ".whole"))
    storage = MemberStorage(tmp_path, fsync=False)
    storage.close()
    assert storage.recovered.tree.last_zxid == 8
    assert storage.recovered.sessions == dict.fromkeys(storage.recovered.sessions, 1000)
    assert len(storage.recovered.sessions) == 2


def test_a_stop_while_they_are_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stop(Exception):
        pass

    def stopping(original: Callable[..., None], steps: list[int]) -> Callable[..., None]:
        def run(*arguments: object, **named: object) -> None:
            if steps[0] == 0:
                raise Stop
            steps[0] -= 1
            original(*arguments, **named)

        return run

    stops = 0
    for number, (owner, name) in enumerate([(FileStorage, "_sync_directory"), (Path, "unlink")]):
        original = getattr(owner, name)
        for step in range(10):
            directory = tmp_path / f"{number}-{step}"
            earlier(directory)
            with monkeypatch.context() as patch, contextlib.suppress(Stop):
                patch.setattr(owner, name, stopping(original, [step]))
                stops += 1
                MemberStorage(directory, fsync=False).close()
                stops -= 1
            assert_is_new(directory)
    assert stops >= 8


@pytest.mark.parametrize("name", sorted(EARLIER))
def test_damage_in_the_files_of_an_earlier_version(tmp_path: Path, name: str) -> None:
    earlier(tmp_path / "data")
    path = tmp_path / "data" / name
    data = bytearray(path.read_bytes())
    data[60] ^= 1
    path.write_bytes(data)
    if name != f"log.{9:016x}":
        assert_is_new(tmp_path / "data")  # the snapshot, or the logs, have it all
        return
    before = {it.name: it.read_bytes() for it in (tmp_path / "data").iterdir() if it.is_file()}
    with pytest.raises(DataDirectoryError, match=rf"{name}, byte \d+: it is damaged"):
        MemberStorage(tmp_path / "data", fsync=False)
    kept = {it.name: it.read_bytes() for it in (tmp_path / "data").iterdir() if it.is_file()}
    assert {one: kept[one] for one in before} == before


def test_the_names_are_as_zookeeper_writes_them() -> None:
    assert (log_name(0x1_0000_00AB), snapshot_name(0)) == ("log.1000000ab", "snapshot.0")
    last = Txn(TxnHeader(1, 1, 10, 1, Op.CREATE), CreateTxn("/x", b"", OPEN_ACL, 0, 1))
    tree = DataTree()
    tree.last_zxid = 9
    files = {
        snapshot_name(9): b"".join(encode_snapshot(capture(tree, {}))),
        log_name(10): log_header() + encode_records([encode_txn(last)]),
        snapshot_name(0): ALONE["snapshot.0"],
    }
    assert recovered_from(files).tree.last_zxid == 10
