"""When the network waits in the kernel, and looks before: after enough short waits in a row."""

from __future__ import annotations

from pybroker_kafka.broker.network.short_waits import (
    CLOSE_SECONDS,
    ENOUGH,
    LOOK_SECONDS,
    VERY_CLOSE_SECONDS,
    WAIT_SECONDS,
    ShortWaits,
)


def close(waits: ShortWaits, count: int) -> None:
    for _ in range(count):
        waits.waited(CLOSE_SECONDS / 2)


def test_it_begins_after_enough_in_a_row() -> None:
    waits = ShortWaits(can_look=True)
    close(waits, ENOUGH - 1)
    waits.waited(CLOSE_SECONDS)
    close(waits, ENOUGH - 1)
    assert waits.seconds == 0.0
    close(waits, 1)
    assert waits.seconds == WAIT_SECONDS


def test_it_ends_with_a_wait_in_vain() -> None:
    waits = ShortWaits(can_look=True)
    close(waits, ENOUGH)
    waits.in_vain()
    assert waits.seconds == 0.0
    waits.waited(CLOSE_SECONDS / 2)
    assert waits.seconds == 0.0


def test_not_where_others_wait() -> None:
    waits = ShortWaits(can_look=True)
    fetchers = [object()]
    waits.others_wait = lambda: bool(fetchers)
    close(waits, ENOUGH)
    assert waits.seconds == 0.0
    fetchers.clear()
    assert waits.seconds == WAIT_SECONDS


def very_close(waits: ShortWaits, count: int) -> None:
    for _ in range(count):
        waits.waited_in_kernel(VERY_CLOSE_SECONDS / 2)


def test_it_looks_after_enough_very_short_waits() -> None:
    waits = ShortWaits(can_look=True)
    very_close(waits, ENOUGH - 1)
    waits.waited_in_kernel(VERY_CLOSE_SECONDS)
    very_close(waits, ENOUGH - 1)
    assert waits.look_seconds == 0.0
    very_close(waits, 1)
    assert waits.look_seconds == LOOK_SECONDS


def test_it_looks_no_more_after_one_in_vain() -> None:
    waits = ShortWaits(can_look=True)
    for end in (waits.looked_in_vain, waits.in_vain):
        very_close(waits, ENOUGH)
        end()
        assert waits.look_seconds == 0.0
        very_close(waits, ENOUGH - 1)
        assert waits.look_seconds == 0.0


def test_it_never_looks_on_one_core() -> None:
    waits = ShortWaits(can_look=False)
    very_close(waits, 2 * ENOUGH)
    assert waits.look_seconds == 0.0
