"""The timer wheel, as the groups use it, against a list of deadlines."""

import random

import pytest

from pybroker_kafka.protocol.timer_wheel import TimerEntry, TimerWheel


class ListOfTimers:
    """The dumb twin: looks at all deadlines whenever it is asked."""

    def __init__(self) -> None:
        self.deadlines: dict[TimerEntry, int] = {}

    def due(self, now_ms: int) -> set[TimerEntry]:
        return {timer for timer, deadline in self.deadlines.items() if deadline <= now_ms}


@pytest.mark.parametrize("scale", [1, 100, 10_000])
def test_against_the_dumb_twin(scale: int) -> None:
    for seed in range(100):
        rng = random.Random(seed)
        wheel: TimerWheel[TimerEntry] = TimerWheel(0)
        twin = ListOfTimers()
        timers = [TimerEntry() for _ in range(8)]
        now_ms = 0
        for _ in range(100):
            timer = rng.choice(timers)
            match rng.randrange(4):
                case 0 | 1:
                    deadline_ms = now_ms + rng.randrange(50 * scale)
                    wheel.reschedule(timer, deadline_ms)
                    twin.deadlines[timer] = deadline_ms
                case 2:
                    wheel.cancel(timer)
                    twin.deadlines.pop(timer, None)
                case _:
                    now_ms += rng.randrange(20 * scale)
                    expected = twin.due(now_ms)
                    fired = []
                    while due := wheel.advance(now_ms, 1):
                        fired += due
                    for one in fired:
                        del twin.deadlines[one]
                    assert set(fired) == expected, f"seed {seed}"
            assert all(one.is_scheduled == (one in twin.deadlines) for one in timers)
            assert len(wheel) == len(twin.deadlines)
            # It may be too early, and never too late.
            next_ms = min(twin.deadlines.values(), default=None)
            soon_ms = now_ms + rng.randrange(50 * scale)
            if next_ms is not None and next_ms < soon_ms:
                assert wheel.is_due_before(soon_ms), f"seed {seed}"
            found_ms = wheel.next_deadline_ms()
            assert (found_ms is None) == (next_ms is None), f"seed {seed}"
            if found_ms is not None and next_ms is not None:
                assert now_ms <= found_ms <= max(next_ms, now_ms), f"seed {seed}"
                assert not wheel.is_due_before(found_ms), f"seed {seed}"


def test_they_leave_in_the_order_of_their_deadlines() -> None:
    wheel: TimerWheel[TimerEntry] = TimerWheel(0)
    deadlines = random.Random(1).sample(range(1, 1_000_000), 500)
    for deadline_ms in deadlines:
        wheel.schedule(TimerEntry(), deadline_ms)
    left = [entry.deadline_ms for entry in wheel.advance(1_000_000, 500)]
    assert left == sorted(deadlines)


def test_a_deadline_that_is_pushed_back_is_looked_at_seldom() -> None:
    wheel: TimerWheel[TimerEntry] = TimerWheel(0)
    timer = TimerEntry()
    wakes = 0
    for now_ms in range(0, 3_000_000, 3_000):
        wheel.reschedule(timer, now_ms + 45_000)
        while (next_ms := wheel.next_deadline_ms()) is not None and next_ms < now_ms + 3_000:
            assert wheel.advance(next_ms, 1) == []
            wakes += 1
    assert wakes < 200
    assert len(wheel) == 1
