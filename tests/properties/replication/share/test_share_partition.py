"""A share partition against a dumb twin with a state for each record; planted faults."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pybroker_kafka.protocol.errors import KafkaError
from pybroker_kafka.protocol.invariants import BrokenInvariant
from pybroker_kafka.replication.share import acknowledging, in_flight
from pybroker_kafka.replication.share.acquiring import Acquired, subtract
from pybroker_kafka.replication.share.in_flight import NO_MEMBER, RecordState, Run
from pybroker_kafka.replication.share.limits import ShareLimits
from pybroker_kafka.replication.share.share_partition import SharePartition
from tests.support.share_twin import KINDS, Step, play, random_limits, random_steps

_NUMBER = st.integers(0, 63)
_STEPS = st.lists(st.tuples(st.sampled_from(KINDS), _NUMBER, _NUMBER, _NUMBER), max_size=60)
_LIMITS = st.builds(
    ShareLimits,
    record_lock_duration_ms=st.sampled_from((50, 100)),
    delivery_count_limit=st.sampled_from((2, 3, 5, 6)),
    max_record_locks=st.sampled_from((5, 12, 30)),
    renew_acknowledge_enable=st.just(True),
)


@settings(max_examples=200, deadline=None)
@given(limits=_LIMITS, steps=_STEPS)
def test_agrees_with_the_twin(limits: ShareLimits, steps: list[Step]) -> None:
    play(limits, steps)


@pytest.mark.parametrize("start", range(0, 300, 100))
def test_agrees_with_the_twin_in_long_histories(start: int) -> None:
    for seed in range(start, start + 100):
        random = Random(seed)
        limits = random_limits(random)
        try:
            play(limits, random_steps(random, 80))
        except (AssertionError, KafkaError) as error:
            raise AssertionError(f"seed {seed}") from error


# Faults


def _roll_back_to_available(monkeypatch: pytest.MonkeyPatch) -> None:
    finish = Run.finish

    def faulty(self: Run, is_stored: bool, now_ms: int) -> None:
        finish(self, is_stored, now_ms)
        if not is_stored and self.state is RecordState.ACQUIRED:
            self.state, self.member_id = RecordState.AVAILABLE, NO_MEMBER

    monkeypatch.setattr(Run, "finish", faulty)


def _forget_the_other_half(monkeypatch: pytest.MonkeyPatch) -> None:
    split_off = Run.split_off

    def faulty(self: Run, offset: int) -> Run:
        rest = split_off(self, offset)
        if self.write is not None:
            self.write.runs.pop()
        return rest

    monkeypatch.setattr(Run, "split_off", faulty)


def _deliver_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    move = Run.move

    def faulty(self: Run, state: RecordState, limit: int, member_id: str = NO_MEMBER) -> None:
        move(self, state, limit + 1, member_id)

    monkeypatch.setattr(Run, "move", faulty)


def _deliver_while_being_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Run, "is_available", property(lambda self: self.state is RecordState.AVAILABLE)
    )

    def move(self: Run, state: RecordState, limit: int, member_id: str = NO_MEMBER) -> None:
        self.state, self.member_id = state, member_id
        self.delivery_count += state is RecordState.ACQUIRED

    monkeypatch.setattr(Run, "move", move)


def _take_from_any_member(monkeypatch: pytest.MonkeyPatch) -> None:
    check = acknowledging._check
    monkeypatch.setattr(acknowledging, "_check", lambda run, member_id: check(run, run.member_id))


def _start_before_it_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = SharePartition.begin

    def faulty(self: SharePartition, write: Any) -> Any:
        for run in write.runs:
            run.write = None
        self.advance_start()
        for run in write.runs:
            run.write = write
        return begin(self, write)

    monkeypatch.setattr(SharePartition, "begin", faulty)


def _do_not_look_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that are available again are not found."""
    finish = SharePartition.finish

    def faulty(self: SharePartition, write: Any, **arguments: Any) -> None:
        looks = self._find_available
        finish(self, write, **arguments)
        self._find_available = looks

    monkeypatch.setattr(SharePartition, "finish", faulty)


def _no_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an earlier leader had in flight, and did not store, is not fetched again."""
    monkeypatch.setattr(SharePartition, "has_gaps", property(lambda self: False))


def _locks_never_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SharePartition, "expire", lambda self, now_ms: (None, 0))


def _keep_what_was_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An acknowledgement that is refused has changed a part."""
    finish = SharePartition.finish

    def faulty(self: SharePartition, write: Any, **arguments: Any) -> None:
        if write.start_offset != -1:
            finish(self, write, **arguments)

    monkeypatch.setattr(SharePartition, "finish", faulty)


_FAULTS: tuple[Callable[[pytest.MonkeyPatch], None], ...] = (
    _roll_back_to_available,
    _forget_the_other_half,
    _deliver_for_ever,
    _deliver_while_being_written,
    _take_from_any_member,
    _start_before_it_is_stored,
    _do_not_look_again,
    _no_gaps,
    _locks_never_end,
    _keep_what_was_changed,
)


@pytest.mark.parametrize("plant", _FAULTS, ids=lambda plant: plant.__name__.strip("_"))
def test_finds_planted_faults(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    for seed in range(400):
        random = Random(seed)
        try:
            play(random_limits(random), random_steps(random, 80))
        except (AssertionError, BrokenInvariant, KeyError):
            return
    pytest.fail("400 histories have not found it")


# Small parts


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=6),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=6),
)
def test_subtract(first: list[tuple[int, int]], second: list[tuple[int, int]]) -> None:
    acquired = [Acquired(start, last, 1) for start, last in _ranges(first)]
    ranges = _ranges(second)
    left = [
        offset for start, last, _ in subtract(acquired, ranges) for offset in range(start, last + 1)
    ]
    removed = {offset for start, last in ranges for offset in range(start, last + 1)}
    assert left == [
        offset
        for start, last, _ in acquired
        for offset in range(start, last + 1)
        if offset not in removed
    ]


def _ranges(steps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    ranges, offset = [], 0
    for gap, length in steps:
        ranges.append((offset + gap, offset + gap + length))
        offset += gap + length + 1
    return ranges


def test_states_have_the_numbers_of_the_store() -> None:
    assert [state.value for state in in_flight.RecordState] == [0, 1, 2, 3, 4]
