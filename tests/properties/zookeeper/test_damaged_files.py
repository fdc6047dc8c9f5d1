"""Damage anywhere in the embedded ZooKeeper's files, against a dumb twin.

Either the state is exactly the one up to a torn tail of the newest log, or the start refuses with a
message that names the file and the byte. The twin does not read the damaged bytes: it knows which
records the damage has touched, and the state after each transaction.
"""

import contextlib
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from pybroker_kafka.broker.zookeeper.storage import DataDirectoryError, open_storage
from pybroker_kafka.cli.main import main
from pybroker_kafka.zookeeper.snapshot import capture
from pybroker_kafka.zookeeper.snapshot_file import encode_snapshot
from pybroker_kafka.zookeeper.tree import DataTree
from pybroker_kafka.zookeeper.txn_bytes import decode_txn
from pybroker_kafka.zookeeper.wal import (
    HEADER_SIZE,
    RecoveryError,
    encode_records,
    log_header,
    log_name,
    recover,
    snapshot_name,
)
from tests.unit.zookeeper.test_wal import RECORD_SIZE, busy_world, state_of

ROLLS = (0, 3, 7)
"""How many transactions are before each log; at the end of each log but the last a snapshot."""
SEAL = bytes(8 + 4 + 1)
NEWEST_PART = bytes(8) + SEAL  # the last zxid
NEWER_PARTS = bytes(8 + 4 + 8) + SEAL + NEWEST_PART  # the digest, too

State = dict[str, tuple[object, ...]]


class World(NamedTuple):
    files: dict[str, bytes]
    states: list[State]
    """After so many transactions."""
    ends: dict[str, list[int]]
    """For each log the end of its header, then of each record."""


@cache
def world() -> World:
    records = busy_world().records
    tree = DataTree()
    states, files, ends = [state_of(tree)], {}, {}
    bounds = [*ROLLS, len(records)]
    for first, last in pairwise(bounds):
        if first:
            files[snapshot_name(first)] = b"".join(encode_snapshot(capture(tree, {7: 4000})))
        name = log_name(first + 1)
        files[name] = log_header() + encode_records(records[first:last])
        ends[name] = [HEADER_SIZE]
        for record in records[first:last]:
            ends[name].append(ends[name][-1] + RECORD_SIZE + len(record))
            tree.apply(decode_txn(record))
            states.append(state_of(tree))
    return World(files, states, ends)


class Damage(NamedTuple):
    name: str
    start: int
    end: int
    data: bytes
    """The whole file with the damage in it."""


def damages() -> st.SearchStrategy[Damage]:
    """A file with a flipped bit, zeros, garbage, a cut end, or garbage behind it."""

    @st.composite
    def damage(draw: st.DrawFn) -> Damage:
        name = str(draw(st.sampled_from(sorted(world().files))))
        data = world().files[name]
        start = draw(st.integers(0, len(data) - 1))
        kind = str(draw(st.sampled_from(["flip", "zeros", "garbage", "cut", "tail", "empty"])))
        if kind == "cut":
            return Damage(name, start, len(data), data[:start])
        if kind == "empty":
            return Damage(name, 0, len(data), b"")
        if kind == "tail":
            extra = bytes(draw(st.binary(min_size=1, max_size=40)))
            return Damage(name, len(data), len(data), data + extra)
        if kind == "flip":
            piece = bytes([data[start] ^ (1 << draw(st.integers(0, 7)))])
        else:
            size = min(draw(st.integers(1, 200)), len(data) - start)
            piece = bytes(size)
            if kind == "garbage":
                piece = bytes(draw(st.binary(min_size=size, max_size=size)))
        # Only what differs is damaged.
        changed = [at for at, byte in enumerate(piece, start) if byte != data[at]] or [start]
        damaged = data[:start] + piece + data[start + len(piece) :]
        return Damage(name, changed[0], changed[-1] + 1, damaged)

    return damage()


def is_blank(damage: Damage) -> bool:
    """Whether nothing but zeros, which may follow a log, is behind its whole records."""
    ends = world().ends[damage.name]
    return not any(damage.data[max(end for end in (0, *ends) if end <= damage.start) :])


def is_whole(damage: Damage) -> bool:
    """Also a snapshot without what ZooKeeper 3.6 and 3.9 have put behind its nodes."""
    data = world().files[damage.name]
    nodes = {len(data) - len(NEWER_PARTS), len(data) - len(NEWEST_PART)}
    is_cut = damage.name.startswith("snapshot.") and data.startswith(damage.data)
    return damage.data == data or (is_cut and len(damage.data) in nodes)


def expected(found: list[Damage]) -> tuple[int, str | None, bool]:
    """How many transactions there are, the file with which recovery gives up, if it does, and
    whether it may go on, too: garbage behind an older log can look like an unfinished write."""
    by_name = {one.name: one for one in found if not is_whole(one)}
    snapshots = [first for first in ROLLS[1:] if snapshot_name(first) not in by_name]
    count = max(snapshots, default=0)
    logs = [log_name(first + 1) for first in ROLLS if first >= count]
    for name in logs:
        damage = by_name.get(name)
        ends = world().ends[name]
        if damage is None:
            count += len(ends) - 1
            continue
        intact = sum(end <= damage.start for end in ends[1:])
        header_damaged = damage.start < HEADER_SIZE
        is_cut = len(damage.data) <= damage.start
        follows = any(start >= damage.end for start in ends[intact:-1]) and not is_cut
        if header_damaged and len(damage.data) >= HEADER_SIZE:
            return count, name, False
        count += 0 if header_damaged else intact
        if follows:
            return count, name, False
        if name != logs[-1] and intact < len(ends) - 1:
            # A log that was cut between two records does not show it: the next one does.
            return count, logs[logs.index(name) + 1] if is_blank(damage) else name, False
        if name != logs[-1] and not is_blank(damage):
            return count, name, True
    return count, None, False


def attempt(files: dict[str, bytes], *, cut: bool = False) -> tuple[State, list[str]]:
    recovered = recover(list(files), files.__getitem__, cut=cut)
    return state_of(recovered.tree), recovered.notes


@settings(max_examples=400, deadline=None)
@given(st.lists(damages(), min_size=1, max_size=3, unique_by=lambda one: one.name))
def test_a_damaged_file_is_a_torn_tail_or_a_refusal(found: list[Damage]) -> None:
    files = {**world().files, **{one.name: one.data for one in found}}
    count, refused, may_go_on = expected(found)
    if may_go_on:
        with contextlib.suppress(RecoveryError):
            state, notes = attempt(files)
            assert notes
            assert state in world().states
        return
    if refused is None:
        state, notes = attempt(files)
        assert state == world().states[count]
        assert (
            notes
            or count == len(world().states) - 1
            or any(one.name in world().ends and is_blank(one) for one in found)
        )
        return
    with pytest.raises(RecoveryError) as error:
        attempt(files)
    assert error.value.name == refused
    assert refused in str(error.value)
    assert re.search(r"byte \d+", str(error.value))
    if count:
        state, _ = attempt(files, cut=True)
        assert state == world().states[count]


def positions(data: bytes) -> Iterator[int]:
    yield from range(0, len(data), 3)


def test_every_third_byte_of_the_newest_log() -> None:
    """The damage of the report: a few bytes in the middle, an empty tree after it."""
    name = log_name(ROLLS[-1] + 1)
    data = world().files[name]
    for position in positions(data):
        end = min(position + 4, len(data))
        damaged = data[:position] + bytes(b ^ 0xA5 for b in data[position:end]) + data[end:]
        found = [Damage(name, position, end, damaged)]
        files = {**world().files, name: damaged}
        count, refused, _ = expected(found)
        if refused is None:
            assert attempt(files)[0] == world().states[count]
        else:
            with pytest.raises(RecoveryError, match=f"{name} is"):
                attempt(files)


@pytest.mark.parametrize("log_number", [0, 1, 2])
def test_who_gives_up_the_rest_can_start_again(tmp_path: Path, log_number: int) -> None:
    """Refused with what to do; that done, the state is the one up to the damage."""
    name = log_name(ROLLS[log_number] + 1)
    ends = world().ends[name]
    files = tmp_path / "version-2"
    files.mkdir()
    for file_name, data in world().files.items():
        if log_number == len(ROLLS) - 1 or not file_name.startswith("snapshot."):
            (files / file_name).write_bytes(data)
    damaged = bytearray((files / name).read_bytes())
    damaged[ends[2] + 9] ^= 1
    (files / name).write_bytes(damaged)
    before = {path.name: path.read_bytes() for path in files.iterdir()}
    with pytest.raises(DataDirectoryError) as error:
        open_storage(tmp_path, fsync=False)
    assert name in str(error.value)
    assert f"at byte {ends[2]}" in str(error.value)
    assert f"--data-dir {tmp_path} --cut-damaged-log" in str(error.value)
    assert {path.name: path.read_bytes() for path in files.iterdir()} == before
    result = CliRunner().invoke(
        main, ["zookeeper", "--data-dir", str(tmp_path), "--cut-damaged-log"]
    )
    assert result.exit_code == 0, result.output
    count = ROLLS[log_number] + 2
    assert f"damaged at byte {ends[2]}" in result.output
    assert f"the state ends at transaction {count:#x}" in result.output
    state = world().states[count]
    assert (files / f"torn.{name}").read_bytes() == bytes(damaged[ends[2] :])
    for later in ROLLS[log_number + 1 :]:
        torn = files / f"torn.{log_name(later + 1)}"
        assert torn.read_bytes() == world().files[log_name(later + 1)]
    again = open_storage(tmp_path, fsync=False)
    assert state_of(again.recovered.tree) == state
    assert again.recovered.notes == []
    again.close()


def test_who_gives_up_the_rest_of_a_log_in_another_directory(tmp_path: Path) -> None:
    data, logs = tmp_path / "data", tmp_path / "logs"
    open_storage(data, logs, fsync=False).close()
    name = log_name(1)
    damaged = bytearray(world().files[name])
    damaged[world().ends[name][1] + 20] ^= 1
    (logs / "version-2" / name).write_bytes(damaged)
    with pytest.raises(DataDirectoryError, match=r"pybroker zookeeper zoo\.cfg --cut-damaged-log"):
        open_storage(data, logs, fsync=False)
    config = tmp_path / "zoo.cfg"
    config.write_text(f"dataDir={data}\ndataLogDir={logs}\nclientPort=2181\n")
    result = CliRunner().invoke(main, ["zookeeper", str(config), "--cut-damaged-log"])
    assert result.exit_code == 0, result.output
    assert "the state ends at transaction 0x1" in result.output
    again = open_storage(data, logs, fsync=False)
    again.close()
    assert state_of(again.recovered.tree) == world().states[1]


def test_a_snapshot_that_cannot_be_read_and_is_all_there_is_refused() -> None:
    name = snapshot_name(ROLLS[1])
    with pytest.raises(RecoveryError, match=f"{name} is of a later state"):
        attempt({name: world().files[name][:-3]})
