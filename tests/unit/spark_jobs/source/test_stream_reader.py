"""How far a stream goes, with a catalogue that is a table; pyspark's classes are real."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")  # it is not in the environments of `make pythons`

from pybroker_kafka.spark_jobs.source import catalogue, data_source
from pybroker_kafka.spark_jobs.source.data_source import StreamReader
from pybroker_kafka.spark_jobs.source.limits import OptionError
from pybroker_kafka.spark_jobs.source.options import SourceOptions
from pybroker_kafka.spark_jobs.source.planning import OffsetRange
from tests.unit.spark_jobs.source.test_ranges import Table

OPTIONS = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", "startingOffsets": "earliest"}
NAMES = ["value"]


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Table:
    found = Table(p0=(2, 10), p1=(0, 100))
    monkeypatch.setattr(catalogue, "Catalogue", lambda options: found)
    return found


def reader(monkeypatch: pytest.MonkeyPatch, **options: str) -> StreamReader:
    """As under Spark 4.2, which knows limits."""
    monkeypatch.setattr(data_source, "HAS_LIMITS", True)
    return StreamReader(SourceOptions.parse(OPTIONS | options, streaming=True), NAMES)


def test_without_limits_all_is_read(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = reader(monkeypatch)
    assert stream.initialOffset() == {"t": {"0": 2, "1": 0}}
    assert stream.reportLatestOffset() is None
    assert stream.latestOffset() == {"t": {"0": 10, "1": 100}} == stream.reportLatestOffset()
    assert stream.getDefaultReadLimit() == data_source.ReadAllAvailable()
    tasks = stream.partitions({"t": {"0": 2, "1": 0}}, {"t": {"0": 10, "1": 100}})
    assert tasks == [
        data_source.RangePartition(OffsetRange("t", 0, 2, 10)),
        data_source.RangePartition(OffsetRange("t", 1, 0, 100)),
    ]


def test_a_limit_is_shared(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = reader(monkeypatch, maxOffsetsPerTrigger="27")
    start = {"t": {"0": 2, "1": 0}}
    assert stream.latestOffset(start, object()) == {"t": {"0": 4, "1": 25}}  # type: ignore[arg-type]


def test_a_trigger_waits_for_enough(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = reader(monkeypatch, minOffsetsPerTrigger="20", maxTriggerDelay="1h")
    some, limit = {"t": {"0": 10, "1": 50}}, object()
    ended = {"t": {"0": 10, "1": 100}}
    assert stream.latestOffset(some, limit) == ended  # type: ignore[arg-type]
    table.logs["t", 0] = (2, 29)
    assert stream.latestOffset(ended, limit) == ended  # type: ignore[arg-type]
    table.logs["t", 0] = (2, 30)
    assert stream.latestOffset(ended, limit) == {"t": {"0": 30, "1": 100}}  # type: ignore[arg-type]


def test_available_now_ends_where_it_was_asked_for(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = reader(monkeypatch)
    stream.prepareForTriggerAvailableNow()
    table.logs["t", 1] = (0, 500)
    assert stream.latestOffset({"t": {"0": 2, "1": 0}}, None) == {"t": {"0": 10, "1": 100}}


def test_limits_need_spark_4_2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_source, "HAS_LIMITS", False)
    options = SourceOptions.parse(OPTIONS | {"maxOffsetsPerTrigger": "5"}, streaming=True)
    with pytest.raises(OptionError, match=r"need Spark 4\.2"):
        StreamReader(options, NAMES)
