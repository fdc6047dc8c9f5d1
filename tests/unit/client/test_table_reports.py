"""Reports of tables as the metadata of offsets, and the states that they make."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pybroker_kafka.client.admin.tables import (
    SILENT_MS,
    TablePlace,
    TableReport,
    TableSnapshot,
    TableView,
    history_of,
    history_text,
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
    snapshots = tuple(TableSnapshot("7" * 19, NOW_MS, "append", 10**12, 10**6) for _ in range(10))
    whole = replace(REPORT, snapshots=snapshots, offsets=(None, *range(9)))
    assert report_of(report_text(whole)) == whole
    for letter in "\u00e9\u4e00\n":
        told = replace(whole, error=letter * 10_000, advice=letter * 10_000)
        text = report_text(told)
        assert len(text.encode()) < 4096
        assert (report_of(text) or REPORT).error


def test_each_snapshot_has_its_offsets() -> None:
    newest, older = (TableSnapshot(name, NOW_MS, "append", 1, 1) for name in "21")
    report = replace(REPORT, snapshots=(newest, older), offsets=(5, 3))
    history = {0: report.offsets, 1: history_of(history_text([4, None])), 2: history_of("")}
    shown = replace(view(report), history=history)
    assert shown.snapshots == [(newest, {0: 5, 1: 4}), (older, {0: 3})]
    assert view(None).snapshots == []


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
