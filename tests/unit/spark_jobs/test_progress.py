"""What a line of progress says, from the JSON that Spark gives; no Spark runs here."""

from __future__ import annotations

import json
from typing import Any

from prometheus_client import generate_latest

from pybroker_kafka.spark_jobs.progress import Metrics, Report, lag_of, report_of

PROGRESS: dict[str, Any] = {
    "name": "windows",
    "batchId": 3,
    "batchDuration": 2500,
    "numInputRows": 5000,
    "eventTime": {"watermark": "2013-01-01T10:00:00.000Z"},
    "stateOperators": [{"numRowsTotal": 7, "memoryUsedBytes": 900, "numRowsDroppedByWatermark": 2}],
    "sources": [{"endOffset": {"flights": {"0": 10, "1": 20}}}],
    "observedMetrics": {"malformed": {"records": 4}},
}


def test_a_report_of_all_that_spark_tells() -> None:
    report = report_of(PROGRESS)
    assert report.offsets == {("flights", 0): 10, ("flights", 1): 20}
    assert (report.rate, report.late, report.malformed) == (2000.0, 2, 4)
    assert report.watermark is not None
    assert report.line() == (
        "windows: batch 3  5,000 records  2,000 records/s  lag unknown  2.5 s  "
        "7 rows of state  2 late  4 malformed"
    )


def test_offsets_come_as_text_too_and_other_sources_have_others() -> None:
    sources = [{"endOffset": json.dumps({"t": {"0": 1}})}, {"endOffset": 17}, {"endOffset": None}]
    assert report_of(PROGRESS | {"sources": sources}).offsets == {("t", 0): 1}


def test_a_batch_of_nothing() -> None:
    report = report_of({"name": None, "batchId": 0, "numInputRows": 0, "sources": []})
    assert report.line() == "query: batch 0  0 records  0 records/s  lag unknown  0.0 s"


def test_the_lag_is_of_each_topic() -> None:
    ends = {("a", 0): 10, ("a", 1): 5, ("b", 0): 3}
    assert lag_of({("a", 0): 4, ("b", 0): 9}, ends) == {"a": 11, "b": 0}


def test_what_prometheus_sees() -> None:
    metrics = Metrics()
    report = report_of(PROGRESS)
    metrics.add(report)
    metrics.add(Report("windows", 4, 100, 1.0, {}, lag={"flights": 6}))
    page = generate_latest(metrics.registry).decode()
    assert 'pybroker_spark_records_total{query="windows"} 5100.0' in page
    assert 'pybroker_spark_late_records_total{query="windows"} 2.0' in page
    assert 'pybroker_spark_lag_records{query="windows",topic="flights"} 6.0' in page
