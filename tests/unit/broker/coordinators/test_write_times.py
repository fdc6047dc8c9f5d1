"""How long writes of share states took, over the last two windows."""

from pybroker_kafka.broker.coordinators.share_runtime import WINDOW_MS, WriteTimes


def test_the_last_two_windows_count() -> None:
    times = WriteTimes()
    assert (times.average_ms(0), times.longest_ms(0)) == (0, 0)
    times.record(10, 5)
    times.record(20, 6)
    assert (times.average_ms(7), times.longest_ms(7)) == (15, 20)
    times.record(3, WINDOW_MS)
    assert (times.average_ms(WINDOW_MS), times.longest_ms(WINDOW_MS)) == (11, 20)
    assert (times.average_ms(2 * WINDOW_MS), times.longest_ms(2 * WINDOW_MS)) == (3, 3)
    assert (times.average_ms(4 * WINDOW_MS), times.longest_ms(4 * WINDOW_MS)) == (0, 0)


def test_the_rate_is_that_of_this_window_and_the_one_before() -> None:
    times = WriteTimes()
    start_ms = 10 * WINDOW_MS
    assert times.states_a_second(start_ms) == 0
    times.count(30, start_ms)
    assert times.states_a_second(start_ms) == 30_000 / WINDOW_MS
    times.count(60, start_ms + WINDOW_MS)
    assert times.states_a_second(start_ms + WINDOW_MS) == 90_000 / WINDOW_MS
    assert times.states_a_second(start_ms + WINDOW_MS + WINDOW_MS // 2) == 60_000 / WINDOW_MS
    # The first writes leave the window before.
    assert times.states_a_second(start_ms + 2 * WINDOW_MS) == 60_000 / WINDOW_MS
    assert times.states_a_second(start_ms + 4 * WINDOW_MS) == 0
