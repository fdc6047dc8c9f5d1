"""Reports of tables as the metadata of offsets, and the states that they make."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pybroker_kafka.client.admin.tables import (
    SILENT_MS,
    TablePlace,
    TableReport,
    TableView,
    report_of,
    report_text,
)

NOW_MS = 1_800_000_000_000
REPORT = TableReport("iceberg", "kafka.flights", "/warehouse", NOW_MS - 1000, snapshot="7", files=3)


def view(report: TableReport | None, *places: TablePlace, leader: int = 1) -> TableView:
    configs = {"pybroker.table": "iceberg", "pybroker.table.target.lag.ms": "60000"}
    return TableView("flights", configs, leader, report, dict(enumerate(places)), NOW_MS)


def test_a_report_is_read_as_it_was_written_and_fits_into_an_offset() -> None:
    assert report_of(report_text(REPORT)) == REPORT
    failed = replace(REPORT, error="\u00e9" * 10_000, advice="\u00e9" * 10_000)
    assert len(report_text(failed).encode()) < 4096


@pytest.mark.parametrize("text", ["", "no JSON", "7", "[]", "{}", '{"format": "iceberg"}'])
def test_other_metadata_is_no_report(text: str) -> None:
    assert report_of(text) is None


def test_a_report_of_a_later_version_is_read() -> None:
    assert report_of(report_text(REPORT)[:-1] + ', "later": 1}') == REPORT


def test_the_state_says_who_has_to_act() -> None:
    whole, waits = TablePlace(5, 5, 0), TablePlace(5, 9, 4, NOW_MS - 70_000)
    assert view(REPORT, whole).state == "current"
    behind = view(REPORT, whole, waits)
    assert (behind.state, behind.lag, behind.lag_ms) == ("behind", 4, 70_000)
    assert view(replace(REPORT, error="no")).state == "failed"
    assert view(replace(REPORT, reported_ms=NOW_MS - SILENT_MS - 1), whole).state == "silent"
    missing = view(None, whole, leader=-1)
    assert missing.state == "missing"
    assert "no broker leads partition 0" in (missing.advice or "")


def test_old_timestamps_do_not_make_a_table_late() -> None:
    """Records of last year that were written just now."""
    waits = TablePlace(0, 9, 9, NOW_MS - 365 * 86_400_000)
    assert view(replace(REPORT, whole_ms=NOW_MS - 5000), waits).lag_ms == 5000
