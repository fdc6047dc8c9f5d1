"""A whole cleaning in this process: what the broker's loop and its cleaner process do together."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pybroker_kafka.protocol.records.batch import (
    BatchHeader,
    Record,
    iter_batch_headers,
    iter_records,
)
from pybroker_kafka.storage.cleaner.cleaner import Cleaner
from pybroker_kafka.storage.cleaner.manager import CleanerManager, CleanerSettings, Cleaning
from pybroker_kafka.storage.cleaner.plan import CleaningPlan, CleaningStats
from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.log_manager import LogManager

SETTINGS = CleanerSettings(buffer_bytes=1 << 20, load_factor=0.9, io_buffer_bytes=1 << 16)


def no_pace(_: int) -> None:
    return


def clean(
    manager: LogManager,
    now_ms: int = 0,
    settings: CleanerSettings = SETTINGS,
    cleaners: CleanerManager | None = None,
) -> CleaningStats | None:
    """Clean the dirtiest log once; None if no log is due."""
    cleaners = cleaners or CleanerManager(manager, now_ms)
    cleaning = cleaners.choose(now_ms, settings)
    return None if cleaning is None else run_cleaning(manager, cleaners, cleaning, now_ms)


def run_cleaning(
    manager: LogManager,
    cleaners: CleanerManager,
    cleaning: Cleaning,
    now_ms: int,
    pace: Callable[[int], None] = no_pace,
) -> CleaningStats:
    # As it comes out of the pipe.
    plan = CleaningPlan.from_json(cleaning.plan.to_json(), list(cleaning.plan.producers))
    cleaner = Cleaner(manager.files, plan, pace)
    end = cleaner.build_map()
    for group in cleaner.clean_groups(end):
        cleaners.swap(cleaning, group, now_ms)
    cleaners.finished(cleaning, end)
    return cleaner.stats


class Surviving(NamedTuple):
    """One record, with what its batch says of it."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    producer_id: int
    attributes: int


def batches_of(log: Log) -> list[tuple[BatchHeader, list[Record]]]:
    found = []
    for segment in log.segments:
        data = segment.log_file.read_at(segment.size, 0)
        for position, header in iter_batch_headers(data, allow_partial_tail=False):
            found.append((header, list(iter_records(data, position))))
    return found


def surviving(log: Log) -> list[Surviving]:
    return [
        Surviving(r.offset, r.key, r.value, r.timestamp, h.producer_id, h.attributes)
        for h, records in batches_of(log)
        for r in records
    ]
