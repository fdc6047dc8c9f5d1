"""Deletions in the tier that go on after a restart."""

from __future__ import annotations

from pathlib import Path

from pybroker_kafka.storage.remote.deletions import TierDeletions
from pybroker_kafka.storage.remote.segments import TopicIdPartition

ONE, OTHER, THIRD = (TopicIdPartition(bytes([n] * 16), f"topic-{n}", 7 * n) for n in (1, 2, 3))


def test_what_has_begun_is_known_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "deletions"
    deletions = TierDeletions(str(path))
    assert not deletions.under_way
    assert not path.exists()
    for partition in (ONE, OTHER, THIRD, THIRD):
        deletions.begin(partition)
    deletions.end(OTHER)
    again = TierDeletions(str(path))
    assert list(again.under_way) == [ONE, THIRD]
    again.end(ONE)
    again.end(THIRD)
    assert not path.exists()


def test_a_line_that_was_cut_off_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "deletions"
    TierDeletions(str(path)).begin(ONE)
    whole = path.read_bytes()
    for size in range(len(whole) - 1):
        path.write_bytes(whole[:size])
        deletions = TierDeletions(str(path))
        assert not deletions.under_way
        deletions.begin(OTHER)
        assert list(TierDeletions(str(path)).under_way) == [OTHER]


def test_what_cannot_be_written_is_done_all_the_same(tmp_path: Path) -> None:
    deletions = TierDeletions(str(tmp_path / "nowhere" / "deletions"))
    deletions.begin(ONE)
    assert list(deletions.under_way) == [ONE]
    deletions.end(ONE)
    assert not deletions.under_way
