"""What `perf` and `verify` count with."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.cli.latencies import GROWTH, Latencies
from pybroker_kafka.cli.perf_series import Series
from pybroker_kafka.cli.verify import Ledger


@given(
    st.lists(st.floats(1e-5, 100), min_size=1, max_size=60), st.sampled_from([0.5, 0.95, 0.99, 1])
)
def test_percentiles_are_those_of_a_sorted_list(seconds: list[float], share: float) -> None:
    latencies = Latencies()
    for one in seconds:
        latencies.add(one)
    exact = sorted(seconds)[math.ceil(share * len(seconds)) - 1]
    assert exact / (1 + 1e-9) <= latencies.percentile(share) <= exact * GROWTH * (1 + 1e-9)
    assert latencies.mean == pytest.approx(sum(seconds) / len(seconds))
    assert latencies.row_ms()["max_ms"] == pytest.approx(max(seconds) * 1000, abs=0.001)


def test_odd_latencies() -> None:
    latencies = Latencies()
    assert (latencies.percentile(0.5), latencies.mean) == (0.0, 0.0)
    for one in (0.0, 1e9):
        latencies.add(one)
    assert latencies.percentile(1) > 3600
    before = latencies.copy()
    latencies.add(1.0, times=3)
    assert latencies.since(before).count == 3
    assert latencies.since(before).percentile(0.5) == pytest.approx(1.0, rel=0.02)


def test_a_series_is_counted_from_its_start(tmp_path: Path) -> None:
    series = Series(0.0, 100, is_shown=False)
    series.start(10.0)
    for second in range(1, 5):
        series.latencies.add(0.002, 25)
        series.add(25, 25 * 1024 * 1024, 10.0 + second)
    row = series.row()
    assert (row["records"], row["seconds"], row["records_per_s"]) == (100, 4.0, 25.0)
    assert row["mb_per_s"] == 25.0
    assert row["p99_ms"] == pytest.approx(2, rel=0.02)
    pytest.importorskip("matplotlib")
    series.plot(tmp_path / "plot.svg")
    assert "records/s" in (tmp_path / "plot.svg").read_text()


@given(st.lists(st.integers(0, 20), unique=True), st.integers(0, 200), st.data())
def test_what_comes_back_once_is_right(numbers: list[int], size: int, data: st.DataObject) -> None:
    ledger = Ledger(b"run")
    ledger.acknowledged = set(numbers)
    values = [ledger.value(number, size) for number in sorted(numbers)]
    assert all(len(value) >= size for value in values)
    for offset, value in enumerate(values):
        ledger.take(0, offset, value)
    assert (ledger.missing(), ledger.faults) == ([], [])
    if not values:
        return
    at = data.draw(st.integers(0, len(values) - 1))
    place = data.draw(st.integers(len(b"run:"), len(values[at]) - 1))
    damaged = bytearray(values[at])
    damaged[place] ^= 1
    ledger.take(0, 99, bytes(damaged))
    assert ledger.faults == ["damaged: partition 0, offset 99"]


def test_what_is_wrong_is_said() -> None:
    ledger = Ledger(b"run")
    ledger.acknowledged = {1, 2, 3}
    ledger.take(0, 0, ledger.value(2, 10))
    ledger.take(0, 1, ledger.value(1, 10))
    ledger.take(0, 2, ledger.value(2, 10))
    ledger.take(1, 0, None)
    ledger.take(1, 1, Ledger(b"other").value(3, 10))
    assert ledger.missing() == [3]
    assert ledger.faults == [
        "out of order: record 1, partition 0, offset 1",
        "twice: record 2, partition 0, offset 2",
    ]
    assert ledger.strangers == 2
