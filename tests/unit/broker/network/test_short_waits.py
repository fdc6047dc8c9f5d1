"""When the network waits in the kernel: after enough short waits, until one was in vain."""

from __future__ import annotations

from pybroker.broker.network.short_waits import (
    CLOSE_SECONDS,
    ENOUGH,
    WAIT_SECONDS,
    ShortWaits,
)


def close(waits: ShortWaits, count: int) -> None:
    for _ in range(count):
        waits.waited(CLOSE_SECONDS / 2)


def test_it_begins_after_enough_in_a_row() -> None:
    waits = ShortWaits()
    close(waits, ENOUGH - 1)
    waits.waited(CLOSE_SECONDS)
    close(waits, ENOUGH - 1)
    assert waits.seconds == 0.0
    close(waits, 1)
    assert waits.seconds == WAIT_SECONDS


def test_it_ends_with_a_wait_in_vain() -> None:
    waits = ShortWaits()
    close(waits, ENOUGH)
    waits.in_vain()
    assert waits.seconds == 0.0
    waits.waited(CLOSE_SECONDS / 2)
    assert waits.seconds == 0.0


def test_not_where_others_wait() -> None:
    waits = ShortWaits()
    fetchers = [object()]
    waits.others_wait = lambda: bool(fetchers)
    close(waits, ENOUGH)
    assert waits.seconds == 0.0
    fetchers.clear()
    assert waits.seconds == WAIT_SECONDS
