"""Damage anywhere in the embedded ZooKeeper's files, against a dumb twin.

Either the state is exactly the one up to a torn tail of the newest log, or the start refuses with a
message that names the file and the byte. The twin does not read the damaged bytes: it knows which
records the damage has touched, and the state after each transaction.
"""

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
from pybroker_kafka.zookeeper.snapshot import capture, encode_snapshot
from pybroker_kafka.zookeeper.transactions import decode_txn
from pybroker_kafka.zookeeper.tree import DataTree
from pybroker_kafka.zookeeper.wal import (
    HEADER_SIZE,
    RecoveryError,
    encode_records,
    log_header,
    log_name,
    recover,
    snapshot_name,
)
from tests.unit.zookeeper.test_wal import busy_world, state_of

ROLLS = (0, 3, 7)
"""How many transactions are before each log; at the end of each log but the last a snapshot."""
RECORD_HEADER_SIZE = 8

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
            ends[name].append(ends[name][-1] + RECORD_HEADER_SIZE + len(record))
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


def expected(files: dict[str, bytes], found: list[Damage]) -> tuple[int, str | None]:
    """How many transactions there are, and the file with which recovery gives up, if it does."""
    whole = world().files
    by_name = {one.name: one for one in found if one.data != whole[one.name]}
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
            return count, name
        count += 0 if header_damaged else intact
        if follows:
            return count, name
        if name != logs[-1] and (intact < len(ends) - 1 or len(damage.data) > ends[-1]):
            at_edge = is_cut and (damage.start in ends or not damage.data)
            # A log that was cut between two records does not show it: the next one does.
            return count, logs[logs.index(name) + 1] if at_edge else name
    return count, None


def attempt(files: dict[str, bytes], *, cut: bool = False) -> tuple[State, list[str]]:
    recovered = recover(list(files), files.__getitem__, cut=cut)
    return state_of(recovered.tree), recovered.notes


@settings(max_examples=400, deadline=None)
@given(st.lists(damages(), min_size=1, max_size=3, unique_by=lambda one: one.name))
def test_a_damaged_file_is_a_torn_tail_or_a_refusal(found: list[Damage]) -> None:
    files = {**world().files, **{one.name: one.data for one in found}}
    count, refused = expected(files, found)
    if refused is None:
        state, notes = attempt(files)
        assert state == world().states[count]
        assert (
            notes
            or count == len(world().states) - 1
            or any(not one.data for one in found)
            or (any(len(one.data) in world().ends.get(one.name, ()) for one in found))
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
        count, refused = expected(files, found)
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
    for file_name, data in world().files.items():
        if log_number == len(ROLLS) - 1 or not file_name.startswith("snapshot."):
            (tmp_path / file_name).write_bytes(data)
    damaged = bytearray((tmp_path / name).read_bytes())
    damaged[ends[2] + 9] ^= 1
    (tmp_path / name).write_bytes(damaged)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(DataDirectoryError) as error:
        open_storage(tmp_path, fsync=False)
    assert name in str(error.value)
    assert f"at byte {ends[2]}" in str(error.value)
    assert f"--data-dir {tmp_path} --cut-damaged-log" in str(error.value)
    kept = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert {key: kept[key] for key in before} == before
    result = CliRunner().invoke(
        main, ["zookeeper", "--data-dir", str(tmp_path), "--cut-damaged-log"]
    )
    assert result.exit_code == 0, result.output
    count = ROLLS[log_number] + 2
    assert f"damaged at byte {ends[2]}" in result.output
    assert f"the state ends at transaction {count:#x}" in result.output
    state = world().states[count]
    assert (tmp_path / f"{name}.torn").read_bytes() == bytes(damaged[ends[2] :])
    for later in ROLLS[log_number + 1 :]:
        torn = tmp_path / f"{log_name(later + 1)}.torn"
        assert torn.read_bytes() == world().files[log_name(later + 1)]
    again = open_storage(tmp_path, fsync=False)
    assert state_of(again.recovered.tree) == state
    assert again.recovered.notes == []
    again.close()


def test_a_snapshot_that_cannot_be_read_and_is_all_there_is_refused() -> None:
    name = snapshot_name(ROLLS[1])
    with pytest.raises(RecoveryError, match=f"{name} is of a later state"):
        attempt({name: world().files[name][:-3]})
