"""A line with the speed and the expected end of a command's work; on a terminal only."""

from __future__ import annotations

import sys
from typing import TextIO

TELL_SECONDS = 0.5
RECENT = 0.3  # how much the last moment counts


class Meter:
    """Counts records and bytes; `now` is in seconds, of a clock that does not go back."""

    def __init__(
        self,
        now: float,
        *,
        total: int | None = None,
        is_shown: bool = True,
        file: TextIO | None = None,
    ) -> None:
        self.records = 0
        self.bytes = 0
        self.total = total
        self._file = sys.stderr if file is None else file
        self._is_shown = is_shown and self._file.isatty()
        self._began = self._told = now
        self._told_records = self._told_bytes = 0
        self._rate = self._byte_rate = 0.0
        self._width = 0

    def add(self, records: int, size: int, now: float) -> None:
        """Count so many more; the line is written anew twice a second."""
        self.records += records
        self.bytes += size
        if self._is_shown and now - self._told >= TELL_SECONDS:
            line = self.line(now)
            self._file.write("\r" + line.ljust(self._width))
            self._file.flush()
            self._width = len(line)

    def line(self, now: float) -> str:
        """The progress and the speed, in less than 80 columns."""
        elapsed = max(now - self._told, 1e-9)
        rate = (self.records - self._told_records) / elapsed
        byte_rate = (self.bytes - self._told_bytes) / elapsed
        is_first = self._told == self._began
        self._rate = rate if is_first else RECENT * rate + (1 - RECENT) * self._rate
        self._byte_rate = (
            byte_rate if is_first else RECENT * byte_rate + (1 - RECENT) * self._byte_rate
        )
        self._told, self._told_records, self._told_bytes = now, self.records, self.bytes
        line = f"{count_text(self.records)}  {self._rate:,.0f}/s  {self._byte_rate / 1e6:,.2f} MB/s"
        if self.total:
            share = min(self.records / self.total, 1.0)
            line += f"  {share:.0%}"
            if self._rate > 0:
                line += f"  {duration((self.total - self.records) / self._rate)} left"
        return line

    def close(self) -> None:
        """The line is taken away."""
        if self._width:
            self._file.write("\r" + " " * self._width + "\r")
            self._file.flush()
            self._width = 0


def duration(seconds: float) -> str:
    """`4 s`, `2:05`, `1:02:05`."""
    whole = max(int(seconds), 0)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def count_text(records: int) -> str:
    """The number of records for the last line."""
    return f"{records:,} record{'s' if records != 1 else ''}"
