"""Log and snapshot: what is recovered, cut at every byte, damaged, or missing."""

import os
from pathlib import Path

import pytest

from pybroker_kafka.broker.zookeeper.storage import DataDirectoryError, open_storage
from pybroker_kafka.protocol.errors import ProtocolError
from pybroker_kafka.protocol.zookeeper.constants import OPEN_ACL, Op
from pybroker_kafka.protocol.zookeeper.jute import (
    ACL,
    CreateTTLRequest,
    DeleteRequest,
    Id,
    SetACLRequest,
    SetDataRequest,
)
from pybroker_kafka.zookeeper.snapshot import capture
from pybroker_kafka.zookeeper.snapshot_file import decode_snapshot, encode_snapshot
from pybroker_kafka.zookeeper.tree import DataTree
from pybroker_kafka.zookeeper.wal import (
    HEADER_SIZE,
    Recovered,
    RecoveryError,
    encode_records,
    log_header,
    log_name,
    obsolete,
    recover,
    snapshot_name,
)
from tests.support.zookeeper_machine import World, walk

RECORD_SIZE = 13
"""Of a record in a log without its transaction."""


def busy_world() -> World:
    """A bit of everything that a log can hold."""
    world = World()
    client, other = world.client(), world.client()
    client.create("/a", b"data")
    client.create("/a/e", None, flags=1)
    client.create("/a/s-", flags=2)
    client.create("/c", op=Op.CREATE_CONTAINER, flags=4)
    client.call(Op.CREATE_TTL, CreateTTLRequest("/t", b"", list(OPEN_ACL), 5, 60_000))
    client.call(Op.SET_DATA, SetDataRequest("/a", b"\xff" * 300, 0))
    client.call(Op.SET_ACL, SetACLRequest("/a", [ACL(1, Id("ip", "127.0.0.1"))], -1))
    client.create("/a/x", b"")
    assert client.multi(
        (Op.CHECK, DeleteRequest("/c", 0)),
        (Op.SET_DATA, SetDataRequest("/c", b"1", -1)),
        (Op.DELETE, DeleteRequest("/t", -1)),
    ) == [0, 0, 0]
    assert client.multi((Op.DELETE, DeleteRequest("/c", 9))) == [-103]
    other.create("/gone", flags=1)
    other.call(Op.CLOSE_SESSION)
    return world


def state_of(tree: DataTree) -> dict[str, tuple[object, ...]]:
    return {
        path: (node.data, node.acl, node.owner, node.stat(), sorted(node.children or ()))
        for path, node in walk(tree)
    }


def log_of(world: World) -> bytes:
    return log_header() + encode_records(world.records)


def test_replaying_the_log_gives_the_same_state() -> None:
    world = busy_world()
    recovered = recover([log_name(1)], {log_name(1): log_of(world)}.__getitem__)
    tree = world.machine.tree
    assert state_of(recovered.tree) == state_of(tree)
    assert recovered.tree.last_zxid == tree.last_zxid
    assert recovered.tree.ephemerals == tree.ephemerals
    assert (recovered.tree.containers, recovered.tree.ttls) == (tree.containers, tree.ttls)
    assert recovered.tree.data_size == tree.data_size
    assert recovered.sessions == world.machine.sessions.timeouts_ms()
    assert recovered.notes == []


def test_a_snapshot_gives_the_same_state() -> None:
    world = busy_world()
    tree, sessions = world.machine.tree, world.machine.sessions.timeouts_ms()
    captured = capture(tree, sessions)
    before = state_of(tree)
    world.client().create("/after")
    data = b"".join(encode_snapshot(captured))
    decoded, decoded_sessions, fuzzy_until = decode_snapshot(data, captured.zxid)
    assert fuzzy_until == captured.zxid + 1
    assert state_of(decoded) == before
    assert decoded_sessions == sessions
    assert decoded.ephemerals == tree.ephemerals
    assert (decoded.containers, decoded.ttls) == (tree.containers, tree.ttls)


def recovered_from(log: bytes) -> Recovered:
    """With this as the only log."""
    return recover([log_name(1)], lambda _name: log)


def test_a_torn_tail_is_cut_at_the_last_whole_record() -> None:
    world = busy_world()
    whole = log_of(world)
    ends = [HEADER_SIZE]
    for record in world.records:
        ends.append(ends[-1] + RECORD_SIZE + len(record))
    for size in range(len(whole) + 1):
        recovered = recovered_from(whole[:size])
        count = sum(end <= size for end in ends) - 1
        assert recovered.replayed == max(count, 0)
        assert recovered.last_log_valid_bytes == (ends[count] if count >= 0 else 0)
        assert bool(recovered.notes) == any(whole[recovered.last_log_valid_bytes : size])


def test_a_flipped_bit_never_goes_unnoticed() -> None:
    world = busy_world()
    whole = log_of(world)
    complete = recovered_from(whole).replayed
    last_record = len(whole) - len(encode_records(world.records[-1:]))
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 0x10
        if position >= last_record:
            recovered = recovered_from(bytes(damaged))
            assert recovered.replayed == complete - 1
            assert recovered.notes
        else:
            with pytest.raises(RecoveryError, match=r"damaged at byte \d+|byte [04]\b"):
                recovered_from(bytes(damaged))


def test_damage_before_the_newest_log_and_holes_are_errors() -> None:
    world = busy_world()
    first, second = world.records[:5], world.records[5:]
    files = {
        log_name(1): log_header() + encode_records(first),
        log_name(6): log_header() + encode_records(second),
    }
    assert recover(list(files), files.__getitem__).replayed == len(world.records)
    torn = {**files, log_name(1): files[log_name(1)][:-1]}
    with pytest.raises(RecoveryError, match="damaged"):
        recover(list(torn), torn.__getitem__)
    with pytest.raises(RecoveryError, match="missing"):
        recover([log_name(6)], files.__getitem__)
    short = {**files, log_name(1): log_header() + encode_records(first[:-1])}
    with pytest.raises(RecoveryError, match="missing"):
        recover(list(short), short.__getitem__)
    with pytest.raises(RecoveryError, match="not a transaction log"):
        recover([log_name(1)], lambda name: b"something else entirely")


def test_a_damaged_snapshot_is_passed_over_for_an_older_one() -> None:
    world = busy_world()
    tree = world.machine.tree
    snapshot = b"".join(encode_snapshot(capture(tree, {})))
    for position in range(0, len(snapshot), 7):
        damaged = bytearray(snapshot)
        damaged[position] ^= 1
        with pytest.raises(ProtocolError):
            decode_snapshot(bytes(damaged), tree.last_zxid)
    files = {log_name(1): log_of(world), snapshot_name(tree.last_zxid): snapshot[:-1]}
    recovered = recover(list(files), files.__getitem__)
    assert recovered.replayed == len(world.records)
    assert "passed over" in recovered.notes[0]


def test_only_what_no_kept_snapshot_needs_is_obsolete() -> None:
    snapshots = [snapshot_name(zxid) for zxid in (10, 20, 30, 40)]
    logs = [log_name(zxid) for zxid in (1, 11, 21, 31, 41)]
    names = [*logs, *snapshots, "lock", "session.secret"]
    # Kept are 20, 30 and 40: recovery from 20 begins with the log of 21.
    assert sorted(obsolete(names)) == sorted([snapshots[0], *logs[:2]])
    assert obsolete([*logs, *snapshots[:2]]) == []


def test_storage_goes_on_where_it_stopped(tmp_path: Path) -> None:
    storage = open_storage(tmp_path, fsync=True)
    secret = storage.secret
    world = busy_world()
    storage._write(world.records)  # type: ignore[attr-defined]
    storage.close()
    log = tmp_path / "version-2" / log_name(1)
    log.write_bytes(log.read_bytes() + b"\0\0\0\x50torn")
    again = open_storage(tmp_path, fsync=True)
    assert again.secret == secret
    assert state_of(again.recovered.tree) == state_of(world.machine.tree)
    assert log.read_bytes() == log_of(world)
    assert log.with_name("torn." + log.name).read_bytes() == b"\0\0\0\x50torn"
    again.close()
    assert (tmp_path / "session.secret").stat().st_mode & 0o077 == 0


def test_a_directory_in_use_or_not_ours_is_refused(tmp_path: Path) -> None:
    storage = open_storage(tmp_path / "mine", fsync=False)
    with pytest.raises(DataDirectoryError, match="in use"):
        open_storage(tmp_path / "mine", fsync=False)
    storage.close()
    open_storage(tmp_path / "mine", fsync=False).close()
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter.txt").write_text("dear")
    with pytest.raises(DataDirectoryError, match="not empty"):
        open_storage(tmp_path / "home", fsync=False)
    assert os.listdir(tmp_path / "home") == ["letter.txt"]
    (tmp_path / "mine" / "version-2" / log_name(1)).write_bytes(b"x" * 100)
    with pytest.raises(DataDirectoryError, match="cannot recover"):
        open_storage(tmp_path / "mine", fsync=False)
