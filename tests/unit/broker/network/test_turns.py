"""Long work in turns: who takes how long, and what others can do in between. The clock is ours."""

from __future__ import annotations

from collections.abc import Generator

import pytest
import trio

from pybroker_kafka.broker.network import turns as turns_module
from pybroker_kafka.broker.network.turns import TURN_SECONDS, Pace, Steps, Turns, distinct

MUCH = 50


class Clock:
    """Stands still unless somebody works."""

    def __init__(self) -> None:
        self.now = 0.0
        self.log: list[str] = []

    def work(self, seconds: float, name: str) -> Generator[None, None, None]:
        """Steps of a third of a turn."""
        ends = self.now + seconds
        spent = 0.0
        while spent < seconds:
            spent += TURN_SECONDS / 3
            self.now += TURN_SECONDS / 3
            self.log.append(name)
            yield
        assert self.now >= ends


def unexpected(error: Exception) -> None:
    raise error


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(turns_module, "perf_counter", lambda: made.now)
    return made


async def test_what_is_short_is_done_at_once(clock: Clock) -> None:
    turns = Turns()
    turns.begin(clock.work(TURN_SECONDS / 3, "short"), unexpected)
    assert clock.log == ["short"]
    assert len(turns) == 0


async def test_what_is_long_goes_on_beside_others(clock: Clock, nursery: trio.Nursery) -> None:
    turns = Turns()
    nursery.start_soon(turns.run)
    for name in ("a", "b"):
        turns.begin(clock.work(MUCH * TURN_SECONDS, name), unexpected)
    assert len(turns) == 2
    rounds = 0
    while len(turns):
        rounds += 1
        before = clock.now
        await trio.lowlevel.checkpoint()
        assert clock.now - before < 3 * TURN_SECONDS  # trio does a round's tasks in any order
    assert rounds >= MUCH
    first_half = clock.log[: len(clock.log) // 2]
    assert abs(first_half.count("a") - first_half.count("b")) <= 6
    nursery.cancel_scope.cancel()


async def test_a_coroutine_waits_for_its_result(nursery: trio.Nursery) -> None:
    turns = Turns()
    nursery.start_soon(turns.run)
    assert await turns.finish(distinct(["x", "y", "x"])) == ["x", "y"]

    def fails() -> Steps:
        yield
        raise ValueError("on purpose")

    with pytest.raises(ValueError, match="on purpose"):
        await turns.finish(fails())
    nursery.cancel_scope.cancel()


async def test_what_fails_is_told_to_whoever_is_named_and_others_go_on(
    nursery: trio.Nursery,
) -> None:
    turns = Turns()
    nursery.start_soon(turns.run)
    told: list[Exception] = []

    def fails(after: int) -> Steps:
        for _ in range(after):
            yield
        raise ValueError("on purpose")

    turns.begin(fails(0), told.append)  # in the turn of whoever began it
    turns.add(fails(3), told.append)
    assert await turns.finish(distinct(["x"])) == ["x"]
    assert [str(error) for error in told] == ["on purpose", "on purpose"]
    nursery.cancel_scope.cancel()


async def test_coroutines_take_one_turn_between_two_rounds(
    clock: Clock, nursery: trio.Nursery
) -> None:
    turns = Turns()
    nursery.start_soon(turns.run)
    done: list[int] = []

    async def loops(number: int) -> None:
        pace = Pace(turns)
        clock.now += TURN_SECONDS
        await pace()
        done.append(number)

    for number in range(10):
        nursery.start_soon(loops, number)
    rounds = 0
    while len(done) < 10:
        await trio.lowlevel.checkpoint()
        rounds += 1
    assert rounds >= 9
    nursery.cancel_scope.cancel()


async def test_a_short_loop_is_not_interrupted(clock: Clock) -> None:
    pace = Pace(Turns())
    for _ in range(100):
        await pace()  # nobody takes turns here: it would wait for ever
