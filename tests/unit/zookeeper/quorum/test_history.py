"""The history, and the plan for a learner by the place of its log's end."""

import pytest

from pybroker_kafka.protocol.invariants import BrokenInvariant
from pybroker_kafka.zookeeper.quorum.history import History, Logged, Plan
from pybroker_kafka.zookeeper.quorum.packets import PacketType

DIFF, TRUNC, SNAP = PacketType.DIFF, PacketType.TRUNC, PacketType.SNAP
ONE, TWO = 1 << 32, 2 << 32


def history(*zxids: int) -> History:
    return History(zxids[-1] if zxids else 0, [Logged(zxid, b"") for zxid in zxids])


@pytest.mark.parametrize(
    ("peer", "committed", "plan"),
    [
        (ONE | 5, ONE | 5, Plan(DIFF, ONE | 5, ONE | 5)),
        (ONE | 3, ONE | 5, Plan(DIFF, ONE | 5, ONE | 3)),
        (ONE | 2, ONE | 5, Plan(SNAP, ONE | 5, ONE | 5)),  # before the oldest
        (ONE | 9, ONE | 5, Plan(TRUNC, ONE | 5, ONE | 5)),
        (ONE | 5, ONE | 4, Plan(TRUNC, ONE | 4, ONE | 4)),  # not committed yet
        (0, ONE | 5, Plan(SNAP, ONE | 5, ONE | 5)),
        (TWO, ONE | 5, Plan(DIFF, ONE | 5, TWO)),  # it led, and logged nothing
    ],
)
def test_plans(peer: int, committed: int, plan: Plan) -> None:
    assert history(ONE | 3, ONE | 4, ONE | 5).plan(peer, committed) == plan


def test_plans_over_epochs() -> None:
    two_epochs = history(ONE | 3, ONE | 4, TWO | 1, TWO | 2, TWO | 4)
    committed = TWO | 4
    assert two_epochs.plan(ONE | 9, committed) == Plan(SNAP, committed, committed)
    assert two_epochs.plan(TWO | 3, committed) == Plan(TRUNC, TWO | 2, TWO | 2)
    assert two_epochs.plan(TWO, committed) == Plan(DIFF, committed, TWO)
    assert two_epochs.plan(ONE | 4, committed) == Plan(DIFF, committed, ONE | 4)


def test_plans_of_a_leader_that_has_just_started() -> None:
    empty = History(ONE | 5)
    assert empty.plan(ONE | 5, ONE | 5).type is DIFF
    assert empty.plan(ONE | 4, ONE | 5).type is SNAP
    assert empty.plan(ONE | 6, ONE | 5).type is TRUNC
    assert History(0).plan(0, 0).type is DIFF


def test_it_keeps_the_newest() -> None:
    kept = History(0, kept=3)
    for zxid in range(1, 20):
        kept.append(zxid, b"")
    assert 3 <= len(kept.behind(0)) < 6
    assert kept.last_zxid == 19
    assert [it.zxid for it in kept.behind(17)] == [18, 19]
    kept.truncate(18)
    assert kept.last_zxid == 18
    kept.append(ONE | 1, b"")
    kept.reset(5)
    assert (kept.behind(0), kept.last_zxid) == ([], 5)
    with pytest.raises(BrokenInvariant):
        kept.append(5, b"")


def test_a_log_that_ends_before_its_snapshot_is_no_history() -> None:
    assert History(9, [Logged(7, b"")]).behind(0) == []
