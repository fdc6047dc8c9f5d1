"""The offsets of a query: its start, its latest end, and the loss of data in between.

Job: turns the options' limits into offsets, which it asks of a `Catalogue`. Lost data (a topic
deleted or created again) goes to `_lost`, which raises unless `failOnDataLoss` is false and logs
otherwise.

Mirrors: KafkaOffsetReader.fetchSpecificOffsets and getOffsetRangesFromResolvedOffsets.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Protocol

from ...protocol.topics import TopicPartition
from .limits import (
    EARLIEST,
    LATEST,
    AtOffsets,
    Everywhere,
    NoMatch,
    OffsetLimit,
    Offsets,
    OptionError,
)
from .planning import OffsetRange
from .range_reader import DataLossError

log = logging.getLogger("pybroker.spark_jobs.source.ranges")


class Asks(Protocol):
    """The requests to a cluster: see `Catalogue`."""

    def partitions(self) -> set[TopicPartition]: ...

    def offsets(self, wanted: Mapping[TopicPartition, int]) -> Offsets: ...


class Ranges:
    def __init__(self, asks: Asks, *, fail_on_data_loss: bool) -> None:
        self._asks = asks
        self._fail_on_data_loss = fail_on_data_loss

    def at(self, limit: OffsetLimit, *, option: str) -> Offsets:
        """An offset for each partition that exists now. Raises OptionError, ClientError."""
        partitions = self._asks.partitions()
        if isinstance(limit, Everywhere):
            return self._asks.offsets(dict.fromkeys(partitions, limit.offset))
        if isinstance(limit, AtOffsets):
            _check_same(partitions, limit.offsets, option)
            found = dict(limit.offsets)
            asked = {key: o for key, o in found.items() if o in (EARLIEST, LATEST)}
            return found | self._asks.offsets(asked)
        times = limit.timestamps
        if isinstance(times, int):
            times = dict.fromkeys(partitions, times)
        _check_same(partitions, times, option)
        found = self._asks.offsets(times)
        unmatched = [key for key, offset in found.items() if offset < 0]
        if unmatched and limit.no_match == NoMatch.ERROR:
            topic, partition = min(unmatched)
            raise OptionError(
                f"{topic}-{partition} has no record at or after {times[topic, partition]}; "
                "startingOffsetsByTimestampStrategy=latest begins at its end"
            )
        return found | self._asks.offsets(dict.fromkeys(unmatched, LATEST))

    def latest(self) -> Offsets:
        return self._asks.offsets(dict.fromkeys(self._asks.partitions(), LATEST))

    def with_new_partitions(self, start: Offsets, latest: Offsets) -> Offsets:
        """`start`, and the first offsets of partitions that have been added since."""
        new = latest.keys() - start.keys()
        return start | self._asks.offsets(dict.fromkeys(new, EARLIEST)) if new else start

    def between(self, start: Offsets, end: Offsets) -> list[OffsetRange]:
        """The ranges between, in order of topic and partition. Raises DataLossError."""
        new = end.keys() - start.keys()
        begins = self._asks.offsets(dict.fromkeys(new, EARLIEST)) if new else {}
        for topic, partition in sorted(new - begins.keys()):
            self._lost(f"{topic}-{partition} has been deleted before it was read")
        for (topic, partition), offset in sorted(begins.items()):
            if offset > 0:
                self._lost(f"the new partition {topic}-{partition} begins at {offset}, not at 0")
        for topic, partition in sorted(start.keys() - end.keys()):
            self._lost(
                f"{topic}-{partition} was deleted; some of its records may not have been read"
            )
        ranges = []
        begins = start | begins
        for key in sorted(end.keys() & begins.keys()):
            first, last = begins[key], end[key]
            if last < first:
                self._lost(f"{key[0]}-{key[1]} ended at offset {first} and now ends at {last}")
            ranges.append(OffsetRange(*key, first, max(first, last)))
        return ranges

    def _lost(self, message: str) -> None:
        if self._fail_on_data_loss:
            raise DataLossError(
                f"{message}; set failOnDataLoss to false to continue with the records that are left"
            )
        log.warning("%s", message)


def _check_same(
    partitions: set[TopicPartition], named: Mapping[TopicPartition, int], option: str
) -> None:
    if named.keys() == partitions:
        return
    differing = sorted(named.keys() ^ partitions)
    topic, partition = differing[0]
    what = "is not there" if differing[0] in named else "is not among them"
    raise OptionError(
        f"{option} must name all partitions that are read, with -1 for latest and -2 for earliest: "
        f"{topic}-{partition} {what}"
    )
