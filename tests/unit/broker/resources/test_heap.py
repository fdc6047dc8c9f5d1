"""When the collector looks at old objects, and that it finds the garbage among them."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest
import trio
import trio.testing

from pybroker_kafka.broker.resources import heap
from pybroker_kafka.broker.resources.heap import FREEZE_SECONDS, OLD


class Knot:
    """Garbage that only the collector finds."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def old_garbage() -> weakref.ref[Knot]:
    """It has been found alive by the passes over young objects."""
    knot = Knot()
    gc.collect(OLD - 1)
    gc.collect(OLD - 1)
    assert any(one is knot for one in gc.get_objects(generation=OLD))
    return weakref.ref(knot)


async def test_old_objects_are_looked_at_again_when_they_have_doubled(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    passes = []
    collect = gc.collect

    def noted(*generation: int) -> int:
        passes.append(trio.current_time())
        return collect(*generation)

    gc.collect()
    heap.freeze_startup()
    as_many = gc.get_freeze_count()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(heap.freeze_now_and_then, [])
        await trio.testing.wait_all_tasks_blocked()
        garbage = old_garbage()
        monkeypatch.setattr(gc, "collect", noted)
        await trio.sleep(3.5 * FREEZE_SECONDS)
        assert passes == []
        assert garbage() is not None
        assert gc.get_freeze_count() >= as_many - 100, "old objects are not looked at"
        kept = [[number] for number in range(as_many + 1000)]
        collect(OLD - 1)
        collect(OLD - 1)
        await trio.sleep(FREEZE_SECONDS)
        assert len(passes) == 1
        assert garbage() is None
        await trio.sleep(3 * FREEZE_SECONDS)
        assert len(passes) == 1, "there are not twice as many again"
        assert kept
        nursery.cancel_scope.cancel()


async def test_no_pass_begins_while_a_large_request_is_under_way(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    frozen_at: list[float] = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen_at.append(trio.current_time()))
    turns = [object()]
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(heap.freeze_now_and_then, turns)
        await trio.sleep(FREEZE_SECONDS + 5.5)
        assert frozen_at == []
        turns.clear()
        await trio.sleep(1)
        assert [at - began for at in frozen_at[:1]] == [FREEZE_SECONDS + 6]
        nursery.cancel_scope.cancel()
