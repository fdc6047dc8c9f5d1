"""The two clocks of a broker: what a wall clock that is set changes, and what not."""

from __future__ import annotations

import logging

import pytest
import trio
from trio.testing import MockClock

from pybroker_kafka.broker.resources.clock import LOOK_SECONDS, Clock, wall_clock_ms
from pybroker_kafka.protocol.wall_clock import REST_MS

DAY_MS = 86_400_000


class Wall:
    def __init__(self) -> None:
        self.ahead_ms = 0

    def read(self) -> int:
        return wall_clock_ms() + self.ahead_ms


def test_the_time_of_machines_begins_at_the_wall_clock_and_does_not_jump() -> None:
    wall = Wall()
    wall.ahead_ms = -3650 * DAY_MS
    clock = Clock(wall.read)
    before_ms = clock.now_ms()
    assert abs(before_ms - wall.read()) < 1_000
    wall.ahead_ms = 10 * DAY_MS
    assert 0 <= clock.now_ms() - before_ms < 60_000
    clock.look()
    assert abs(clock.wall.at_ms(clock.now_ms()) - wall.read()) < 1_000


async def test_a_jump_is_noticed_and_told(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    with caplog.at_level(logging.WARNING):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(clock.watch)
            await trio.sleep(3 * LOOK_SECONDS)
            assert not caplog.messages
            clock.ahead_ms = -10 * DAY_MS
            await trio.sleep(2 * LOOK_SECONDS)
            nursery.cancel_scope.cancel()
    assert len(caplog.messages) == 1
    assert "-8640" in caplog.messages[0] or "-8639" in caplog.messages[0]
    assert clock.wall.rests(clock.now_ms(), 0)


def test_time_that_passes_is_no_jump() -> None:
    clock = Clock()
    before_ms = clock.now_ms()
    clock.advance(DAY_MS)
    clock.look()
    assert clock.now_ms() - before_ms >= DAY_MS
    assert clock.wall_ms() - before_ms >= DAY_MS - 1_000
    assert not clock.wall.rests(clock.now_ms(), REST_MS)


def test_dates_are_compared_with_this_very_millisecond() -> None:
    """Both clocks are read in whole milliseconds, and drift apart by some between two looks."""
    wall = Wall()
    clock = Clock(wall.read)
    for ahead_ms in (-9, 0, 3, 9):
        wall.ahead_ms = ahead_ms
        earliest_ms = wall.read()
        trusted_ms = clock.trusted_ms()
        assert earliest_ms <= trusted_ms <= wall.read()


def test_a_jump_is_not_trusted_at_once() -> None:
    wall = Wall()
    clock = Clock(wall.read)
    for ahead_ms in (-DAY_MS, DAY_MS):
        wall.ahead_ms = ahead_ms
        assert abs(clock.trusted_ms() - wall_clock_ms()) < 1_000
        clock.look()
        assert abs(clock.trusted_ms() - wall_clock_ms()) < 1_000
    clock.advance(REST_MS)
    assert abs(clock.trusted_ms() - wall_clock_ms() - DAY_MS - REST_MS) < 1_000
