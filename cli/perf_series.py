"""The measurements of a run of `pybroker perf`: the whole, and each second of it for a plot."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import NamedTuple

from .latencies import Latencies
from .meter import Meter
from .options import UserError

MEGABYTE = 1024 * 1024
SAMPLE_SECONDS = 1.0
MAX_SAMPLES = 24 * 3600


class Sample(NamedTuple):
    """A second or so of the run."""

    at_seconds: float
    records_per_s: float
    p50_ms: float
    p99_ms: float


class Series:
    """`now` is in seconds, of a clock that does not go back."""

    def __init__(self, now: float, total: int, *, is_shown: bool) -> None:
        self.meter = Meter(now, total=total, is_shown=is_shown)
        self.latencies = Latencies()
        self._began = self._last = now
        self._samples: list[Sample] = []
        self._sampled_at, self._sampled_records = now, 0
        self._sampled = self.latencies.copy()

    def start(self, now: float) -> None:
        """Start to measure: the time before, for connecting and the like, does not count."""
        self._began = self._last = self._sampled_at = now

    def add(self, records: int, size: int, now: float) -> None:
        """Count so many more records, with so many bytes in all."""
        self.meter.add(records, size, now)
        self._last = now
        elapsed = now - self._sampled_at
        if elapsed >= SAMPLE_SECONDS and len(self._samples) < MAX_SAMPLES:
            recent = self.latencies.since(self._sampled)
            self._samples.append(
                Sample(
                    now - self._began,
                    (self.meter.records - self._sampled_records) / elapsed,
                    recent.percentile(0.5) * 1000,
                    recent.percentile(0.99) * 1000,
                )
            )
            self._sampled_at, self._sampled_records = now, self.meter.records
            self._sampled = self.latencies.copy()

    @property
    def elapsed(self) -> float:
        """Seconds from the start to the last record."""
        return max(self._last - self._began, 1e-9)

    def byte_rate(self) -> float:
        """A second."""
        return self.meter.bytes / self.elapsed

    def row(self) -> dict[str, float]:
        """The results for programs."""
        found: dict[str, float] = {
            "records": self.meter.records,
            "seconds": round(self.elapsed, 3),
            "records_per_s": round(self.meter.records / self.elapsed, 1),
            "mb_per_s": round(self.byte_rate() / MEGABYTE, 3),
        }
        return found | (self.latencies.row_ms() if self.latencies.count else {})

    def plot(self, file: Path) -> None:
        """Rate and latency over time. Raises UserError if it cannot be written."""
        from matplotlib.figure import Figure

        samples = self._samples or [
            Sample(
                self.elapsed,
                self.meter.records / self.elapsed,
                self.latencies.percentile(0.5) * 1000,
                self.latencies.percentile(0.99) * 1000,
            )
        ]
        times = [one.at_seconds for one in samples]
        figure = Figure(figsize=(9, 6), layout="constrained")
        rates, latencies = figure.subplots(2, 1, sharex=True)
        rates.plot(times, [one.records_per_s for one in samples], marker=".")
        rates.set_ylabel("records/s")
        rates.set_ylim(bottom=0)
        latencies.plot(times, [one.p50_ms for one in samples], marker=".", label="p50")
        latencies.plot(times, [one.p99_ms for one in samples], marker=".", label="p99")
        latencies.set_ylabel("latency, ms")
        latencies.set_xlabel("seconds")
        latencies.set_ylim(bottom=0)
        latencies.legend()
        try:
            figure.savefig(file)
        except (OSError, ValueError) as error:
            raise UserError(f"cannot draw {file}: {error}") from None


def check_plot(file: Path | None) -> None:
    """Before anything is measured. Raises UserError."""
    if file is not None and importlib.util.find_spec("matplotlib") is None:
        raise UserError("--plot takes matplotlib: pip install 'pybroker-kafka[plot]'")
