"""Stalls of the loop, collections, and the longest of a minute beside a plain list."""

from __future__ import annotations

import gc
import time

import trio
from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.broker.observability.loop_watch import SLOTS, Longest, LoopWatch
from pybroker_kafka.broker.observability.metrics import BrokerMetrics


@given(st.lists(st.tuples(st.floats(0, 40), st.floats(0, 9))), st.floats(0, 90))
def test_the_longest_of_the_last_minute(steps: list[tuple[float, float]], later: float) -> None:
    longest, seen, now = Longest(), [], 1000.0
    for pause, duration in steps:
        now += pause
        longest.add(duration, now)
        seen.append((int(now), duration))
    now += later
    recent = [duration for second, duration in seen if second > int(now) - SLOTS]
    assert longest.of_last_minute(now) == max(recent, default=0.0)
    assert longest.count == len(steps)


async def test_a_stall_and_a_collection() -> None:
    metrics = BrokerMetrics()
    watch = LoopWatch(metrics)
    callbacks = len(gc.callbacks)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch.run)
        await trio.sleep(0.05)
        time.sleep(0.2)  # noqa: ASYNC251 - this is the stall
        gc.collect()
        await trio.sleep(0.05)
        nursery.cancel_scope.cancel()
    assert len(gc.callbacks) == callbacks
    shown = {s.name: s.value for family in metrics.collect() for s in family.samples}
    assert shown["pybroker_loop_stalls_total"] >= 1
    assert shown["pybroker_loop_stall_longest_seconds"] > 0.15
    assert shown["pybroker_loop_stall_seconds_total"] > 0.15
    assert shown["pybroker_gc_pauses_total"] >= 1
    assert 0 < shown["pybroker_gc_pause_longest_seconds"] < 10
