"""A log of very many producers is planned for in pieces."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pybroker_kafka.storage.cleaner.manager import (
    PRODUCERS_AT_ONCE,
    CleanerManager,
    CleanerSettings,
)
from pybroker_kafka.storage.cleaner.plan import CleaningPlan
from tests.support.appends import append_as_leader
from tests.unit.storage.helpers import batch_of
from tests.unit.storage.test_producer_snapshots import (
    MANY,
    assert_moments,
    brokers_collector,
    held_ms,
    log_with,
)

__all__ = ["brokers_collector"]


@pytest.mark.usefixtures("brokers_collector")
def test_no_piece_of_a_plan_holds_the_loop(tmp_path: Path) -> None:
    def take(directory: Path) -> list[float]:
        manager, log = log_with(directory, MANY, cleanup_policy="compact")
        cleaners = CleanerManager(manager, 0)
        log.roll(0)
        append_as_leader(log, batch_of(b"v"), leader_epoch=0, now_ms=0)
        log.update_high_watermark(log.log_end_offset)
        cleaners.want(("t", 0))
        chosen = []
        took = [
            held_ms(lambda: chosen.append(cleaners.choose(0, CleanerSettings(1 << 20, 0.9, 256))))
        ]
        (cleaning,) = chosen
        assert cleaning is not None
        plan = cleaning.plan
        took.append(held_ms(lambda: json.dumps(plan.to_json())))
        pieces = iter(plan.producers)
        told = []

        def tell() -> None:
            told.append(json.dumps(next(pieces, None)))

        while not told or told[-1] != "null":
            took.append(held_ms(tell))
        assert len(told) == 1 + (MANY + PRODUCERS_AT_ONCE) // PRODUCERS_AT_ONCE
        values = json.loads(json.dumps(plan.to_json()))
        read = CleaningPlan.from_json(values, [json.loads(line) for line in told[:-1]])
        assert list(map(list, read.producers)) == list(plan.producers)
        read.producers = plan.producers
        assert read == plan
        return took

    assert_moments(tmp_path, take)
