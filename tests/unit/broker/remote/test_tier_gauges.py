"""The lags and sizes of the tier, by topic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pybroker_kafka.broker.remote.tier_gauges import TierNumbers, rows
from pybroker_kafka.replication.remote.expiry import Expiry
from tests.support.appends import append_as_leader
from tests.unit.storage.helpers import batch_of
from tests.unit.storage.remote.tiers import started
from tests.unit.storage.tiered import tiered_log

BATCH = batch_of(b"v")


class Hosted:
    """A partition, as far as gauges know it: three rolled segments of a batch, and an active one;
    the first is in the tier."""

    def __init__(self, directory: Path, topic: str) -> None:
        self.topic = topic
        self.log = tiered_log(directory, segment_bytes=len(BATCH), topic=topic)
        for _ in range(4):
            append_as_leader(self.log, bytearray(BATCH), leader_epoch=0, now_ms=1000)
        self.log.update_highest_offset_in_remote_storage(1)


def test_sums_of_topics_and_of_all(tmp_path: Path) -> None:
    one, other = (Hosted(tmp_path / topic, topic) for topic in ("one", "other"))
    ones, others = TierNumbers(), TierNumbers()
    sizes = [started(number, number, number, size_bytes=100 * number) for number in (1, 2, 3)]
    ones.looked(Expiry(None, sizes[:2], 3, 600), 7)
    others.metadata_count = 5
    led: Any = [(one, ones), (one, ones), (other, others)]
    (_, total), *topics = rows(led)
    by_topic = dict(topics)
    assert by_topic["one",] == TierNumbers(4 * len(BATCH), 4, 600, 4, 6, 1200, 14)
    assert by_topic["other",] == TierNumbers(2 * len(BATCH), 2, metadata_count=5)
    assert total == TierNumbers(6 * len(BATCH), 6, 600, 4, 11, 1200, 14)


def test_a_deletion_is_counted_down() -> None:
    numbers = TierNumbers()
    segments = [started(number, number, number, size_bytes=100 * number) for number in (1, 2)]
    numbers.looked(Expiry(None, segments, 3, 600), 0)
    for metadata in segments:
        numbers.deleted(metadata)
    assert numbers == TierNumbers(metadata_count=1, size_bytes=300)


def test_the_active_segment_is_no_lag(tmp_path: Path) -> None:
    hosted: Any = Hosted(tmp_path, "t")
    hosted.log.update_highest_offset_in_remote_storage(3)
    numbers = TierNumbers()
    numbers.measure_copies(hosted)
    assert numbers == TierNumbers()
