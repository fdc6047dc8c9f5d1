"""The timer heap against a list of deadlines."""

import random

from pybroker.coordinator.group.timers import Timer, TimerHeap, TimerKind


def timer_of(member_id: str) -> Timer[None]:
    return Timer(TimerKind.SESSION, member_id=member_id)


class ListOfTimers:
    """The dumb twin: sorts all deadlines whenever it is asked."""

    def __init__(self) -> None:
        self.deadlines: dict[Timer[None], int] = {}

    def due(self, now_ms: int) -> set[Timer[None]]:
        return {timer for timer, deadline in self.deadlines.items() if deadline <= now_ms}


def test_against_the_dumb_twin() -> None:
    for seed in range(200):
        rng = random.Random(seed)
        heap: TimerHeap[None] = TimerHeap()
        twin = ListOfTimers()
        timers = [timer_of(str(n)) for n in range(8)]
        now_ms = 0
        for _ in range(100):
            timer = rng.choice(timers)
            match rng.randrange(4):
                case 0 | 1:
                    deadline_ms = now_ms + rng.randrange(50)
                    heap.schedule(timer, deadline_ms)
                    twin.deadlines[timer] = deadline_ms
                case 2:
                    heap.cancel(timer)
                    twin.deadlines.pop(timer, None)
                case _:
                    now_ms += rng.randrange(20)
                    expected = twin.due(now_ms)
                    fired = []
                    while (due := heap.pop_due(now_ms)) is not None:
                        fired.append(due)
                    order = [twin.deadlines.pop(fired_timer) for fired_timer in fired]
                    assert set(fired) == expected, f"seed {seed}"
                    assert order == sorted(order), f"seed {seed}"
            next_ms = min(twin.deadlines.values(), default=None)
            soon_ms = now_ms + rng.randrange(50)
            is_due = next_ms is not None and next_ms < soon_ms
            assert heap.is_due_before(soon_ms) == is_due, f"seed {seed}"
            assert heap.next_deadline_ms() == next_ms, f"seed {seed}"


def test_pushing_a_deadline_back_does_not_grow_the_heap() -> None:
    heap: TimerHeap[None] = TimerHeap()
    timer = timer_of("")
    for now_ms in range(10_000):
        heap.schedule(timer, now_ms + 100)
        assert heap.pop_due(now_ms) is None
    assert len(heap) == 1


def test_cancelled_timers_do_not_pile_up() -> None:
    heap: TimerHeap[None] = TimerHeap()
    kept = [timer_of("") for _ in range(100)]
    for timer in kept:
        heap.schedule(timer, 1_000_000)
    for _ in range(20_000):
        timer = timer_of("")
        heap.schedule(timer, 500_000)
        heap.cancel(timer)
    assert len(heap) < 5_000
    assert heap.next_deadline_ms() == 1_000_000
