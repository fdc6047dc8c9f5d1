"""Writers of one table that die at any moment, beside each other: each record is once in it.

The twin of a table is a list of rows with offsets, which takes a commit if it is made upon its
newest version. A commit may land although its writer hears of an error, or not land.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.tables.intake import MAX_WAITING_BYTES, Intake

PARTITIONS = 2
LAG_MS = 100

Row = tuple[int, int]


class Store:
    """The dumb table."""

    def __init__(self) -> None:
        self.version = 0
        self.rows: list[Row] = []
        self.offsets: dict[int, int] = {}

    def commit(self, version: int, rows: list[Row], offsets: dict[int, int]) -> bool:
        if version != self.version:
            return False
        assert all(offsets.get(part, 0) >= at for part, at in self.offsets.items())
        self.version += 1
        self.rows += rows
        self.offsets = dict(offsets)
        return True


class Writer:
    """As `TopicWriter`, without a cluster: it reads from where the table ends, with overlaps."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.open()

    def open(self) -> None:
        self.version = self._store.version
        self.intake = Intake(self._store.offsets, LAG_MS)
        self.waiting: list[Row] = []

    def read(self, partition: int, end: int, overlap: int, count: int, now_ms: int) -> None:
        at = self.intake.offsets.get(partition, 0)
        first, behind = max(0, at - overlap), min(end, at + count)
        if first >= behind:
            return
        begin = self.intake.accept(partition, first, behind, 1, now_ms)
        self.waiting += [(partition, offset) for offset in range(begin, behind)]

    def commit(self, outcome: str) -> None:
        landed = outcome != "not landed" and self._store.commit(
            self.version, self.waiting, self.intake.offsets
        )
        if landed and outcome == "known":
            self.version += 1
            self.waiting = []
            self.intake.committed()
        else:
            self.open()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, PARTITIONS - 1), st.integers(1, 5)),
        st.tuples(
            st.just("read"),
            st.integers(0, 1),
            st.integers(0, PARTITIONS - 1),
            st.integers(0, 3),
            st.integers(1, 6),
        ),
        st.tuples(
            st.just("commit"),
            st.integers(0, 1),
            st.sampled_from(["known", "known", "unknown", "not landed"]),
        ),
        st.tuples(st.just("killed"), st.integers(0, 1)),
    ),
    max_size=60,
)


@given(STEPS)
def test_each_record_is_once_in_the_table(steps: list[tuple[object, ...]]) -> None:
    store = Store()
    writers = [Writer(store), Writer(store)]
    ends = [0] * PARTITIONS
    for number, step in enumerate(steps):
        match step:
            case ("append", int(partition), int(count)):
                ends[partition] += count
            case ("read", int(which), int(partition), int(overlap), int(count)):
                writers[which].read(partition, ends[partition], overlap, count, number)
            case ("commit", int(which), str(outcome)):
                writers[which].commit(outcome)
            case ("killed", int(which)):
                writers[which] = Writer(store)
    last = Writer(store)
    for partition, end in enumerate(ends):
        last.read(partition, end, 0, end, 0)
    last.commit("known")
    expected = [(partition, offset) for partition, end in enumerate(ends) for offset in range(end)]
    assert sorted(store.rows) == expected


def test_a_commit_is_due_after_the_lag_or_with_enough_bytes() -> None:
    intake = Intake({0: 5}, LAG_MS)
    assert intake.wait_ms(0) is None
    assert intake.accept(0, 3, 5, 1, 0) == 5
    assert intake.wait_ms(0) is None, "all of it is in the table"
    assert intake.accept(0, 3, 7, 1, 10) == 5
    assert intake.wait_ms(50) == 60
    intake.accept(1, 0, 1, 1, 50)
    assert intake.wait_ms(50) == 60, "the oldest counts"
    assert intake.is_due(110)
    intake.committed()
    assert not intake.is_due(1000)
    intake.accept(1, 1, 2, MAX_WAITING_BYTES, 1000)
    assert intake.is_due(1000)
