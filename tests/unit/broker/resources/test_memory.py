"""When memory is given back to the system."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
import trio.testing

from pybroker_kafka.broker.resources import machine, memory
from pybroker_kafka.broker.resources.memory import (
    CHECK_SECONDS,
    GROWTH_BYTES,
    KEPT_FREE_BYTES,
    LARGE_KEPT_FREE_BYTES,
    LARGE_MAPPED_BYTES,
    MAPPED_BYTES,
    configure_allocator,
    give_back_memory,
    keep_large_blocks,
)


@pytest.mark.skipif(machine.PROC is None, reason="only /proc tells how large a process is")
async def test_memory_is_given_back_after_growth_only(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    size = start = 50_000_000
    trimmed_at: list[float] = []

    def trim(_pad: int) -> int:
        nonlocal size
        trimmed_at.append(trio.current_time())
        size -= 10_000_000
        return 1

    async def run_here(function: Callable[[int], int], pad: int) -> int:
        return function(pad)  # virtual time does not wait for threads

    monkeypatch.setattr(trio.to_thread, "run_sync", run_here)
    monkeypatch.setattr(memory, "resident_bytes", lambda _statm: size)
    monkeypatch.setattr(memory, "_function", lambda _name: trim)
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(give_back_memory)
        await trio.sleep(10.5 * CHECK_SECONDS)
        assert trimmed_at == []
        size = start + GROWTH_BYTES
        await trio.sleep(10 * CHECK_SECONDS)
        assert [at - began for at in trimmed_at] == [11 * CHECK_SECONDS]
        size += GROWTH_BYTES // 2
        await trio.sleep(10 * CHECK_SECONDS)
        assert len(trimmed_at) == 1, "it has not grown by so much since the last time"
        size += GROWTH_BYTES // 2
        await trio.sleep(10 * CHECK_SECONDS)
        assert len(trimmed_at) == 2
        nursery.cancel_scope.cancel()


async def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_function", lambda _name: None)
    configure_allocator()
    with trio.fail_after(120):
        await give_back_memory()


def test_large_blocks_are_kept_in_processes_with_a_configured_allocator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []

    def mallopt(_parameter: int, value: int) -> int:
        asked.append(value)
        return 1

    monkeypatch.setattr(memory, "_function", lambda _name: mallopt)
    monkeypatch.setattr(memory, "_allocator", memory._Allocator())
    keep_large_blocks(is_on=True)
    keep_large_blocks(is_on=False)
    assert asked == [], "the process belongs to somebody else"
    configure_allocator()
    keep_large_blocks(is_on=True)
    keep_large_blocks(is_on=False)
    small, large = [MAPPED_BYTES, KEPT_FREE_BYTES], [LARGE_MAPPED_BYTES, LARGE_KEPT_FREE_BYTES]
    assert asked == [*small, *large, *small]


def test_this_process_has_a_size() -> None:
    with memory.own_size() as statm:
        assert 5_000_000 < memory.resident_bytes(statm) < 10_000_000_000
