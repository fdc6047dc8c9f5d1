"""What is known of the wall clock: jumps, rests, stamps, and what is still trusted."""

import pytest

from pybroker_kafka.protocol.wall_clock import MAX_DRIFT_MS, MAX_JITTER_MS, REST_MS, WallClock

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000
INTERVAL_MS = 5 * 60_000


def set_by(wall: WallClock, now_ms: int, step_ms: int) -> int:
    return wall.note(now_ms, wall.at_ms(now_ms) + step_ms)


def test_a_clock_that_nobody_sets() -> None:
    wall = WallClock(5)
    assert wall.note(NOW_MS, NOW_MS + 5) == 0
    assert wall.at_ms(NOW_MS) == wall.stamp_ms(NOW_MS) == wall.trusted_ms(NOW_MS) == NOW_MS + 5
    assert wall.comparable_ms(NOW_MS, INTERVAL_MS) == NOW_MS + 5


def test_readings_that_are_a_little_apart_are_no_drift() -> None:
    wall = WallClock()
    assert set_by(wall, NOW_MS, MAX_JITTER_MS) == 0
    assert wall.lead_ms == 0


def test_a_drift_is_followed_and_counts_as_a_jump_once_it_is_large() -> None:
    wall = WallClock()
    step_ms = MAX_DRIFT_MS // 4
    for number in range(1, 5):
        assert set_by(wall, NOW_MS + number * DAY_MS, step_ms) == 0
        assert wall.lead_ms == number * step_ms
        assert not wall.rests(NOW_MS + number * DAY_MS, INTERVAL_MS)
    assert set_by(wall, NOW_MS + 5 * DAY_MS, step_ms) == step_ms
    assert wall.rests(NOW_MS + 5 * DAY_MS, INTERVAL_MS)


@pytest.mark.parametrize("step_ms", [-20 * 365 * DAY_MS, -2_000, 2_000, 10 * DAY_MS])
def test_a_job_rests_for_its_interval_after_a_jump(step_ms: int) -> None:
    wall = WallClock()
    assert set_by(wall, NOW_MS, step_ms) == step_ms
    assert wall.rests(NOW_MS, INTERVAL_MS)
    assert wall.comparable_ms(NOW_MS + INTERVAL_MS - 1, INTERVAL_MS) is None
    end_ms = NOW_MS + INTERVAL_MS
    assert wall.comparable_ms(end_ms, INTERVAL_MS) == end_ms + step_ms
    assert wall.rests(NOW_MS + REST_MS - 1, 1_000)  # a short interval is no measure
    assert not wall.rests(NOW_MS + REST_MS, 1_000)


def test_each_jump_begins_the_rest_anew() -> None:
    wall = WallClock()
    set_by(wall, NOW_MS, 10 * DAY_MS)
    assert set_by(wall, NOW_MS + 2_000, -10 * DAY_MS) == -10 * DAY_MS
    assert wall.lead_ms == 0
    assert wall.rests(NOW_MS + INTERVAL_MS, INTERVAL_MS)
    assert not wall.rests(NOW_MS + 2_000 + INTERVAL_MS, INTERVAL_MS)


def test_what_is_trusted_goes_on_as_before_for_a_while() -> None:
    wall = WallClock()
    set_by(wall, NOW_MS, 10 * DAY_MS)
    set_by(wall, NOW_MS + 1_000, DAY_MS)
    assert wall.trusted_ms(NOW_MS + 1_000 + REST_MS - 1) == NOW_MS + 1_000 + REST_MS - 1
    later_ms = NOW_MS + 1_000 + REST_MS
    assert wall.trusted_ms(later_ms) == later_ms + 11 * DAY_MS


def test_stamps_do_not_go_back_at_once() -> None:
    wall = WallClock()
    set_by(wall, NOW_MS, 10 * DAY_MS)
    assert wall.stamp_ms(NOW_MS) == NOW_MS + 10 * DAY_MS
    set_by(wall, NOW_MS, -30 * DAY_MS)
    assert wall.stamp_ms(NOW_MS) == NOW_MS
    assert wall.stamp_ms(NOW_MS + REST_MS) == NOW_MS + REST_MS - 20 * DAY_MS


def test_a_start_soon_after_the_last_note() -> None:
    wall = WallClock()
    wall.resume(NOW_MS, NOW_MS - 5_000)
    assert not wall.rests(NOW_MS, INTERVAL_MS)


@pytest.mark.parametrize("known_ms", [0, NOW_MS - 10 * DAY_MS, NOW_MS + 10 * DAY_MS])
def test_a_start_far_from_the_last_note_rests(known_ms: int) -> None:
    wall = WallClock()
    wall.resume(NOW_MS, known_ms)
    assert wall.rests(NOW_MS + INTERVAL_MS - 1, INTERVAL_MS)
    assert wall.stamp_ms(NOW_MS) == wall.trusted_ms(NOW_MS) == max(NOW_MS, known_ms)
    assert wall.trusted_ms(NOW_MS + REST_MS) == NOW_MS + REST_MS
