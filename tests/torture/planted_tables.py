"""Faults planted in the writer of tables, for the judge of `tests.torture.table_kills` to find.

A directory with a `sitecustomize` goes before the path of the brokers; the process that writes
tables inherits it, and plants the fault that its environment names before it begins.
"""

from __future__ import annotations

import functools
import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from tests.support.processes import ROOT

VARIABLE = "PYBROKER_PLANTED_FAULT"
WINDOW_SECONDS = 0.3  # in which a kill finds it
MODULE = "pybroker_kafka.tables.worker"
SITE = f"""\
import os, sys
if {VARIABLE!r} in os.environ and {MODULE!r} in sys.orig_argv:
    from tests.torture.planted_tables import plant
    plant(os.environ[{VARIABLE!r}])
"""


def environment(fault: str, directory: Path) -> dict[str, str]:
    """For a broker whose tables are written with this fault; the directory gets a file."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "sitecustomize.py").write_text(SITE)
    return {"PYTHONPATH": os.pathsep.join([str(directory), str(ROOT)]), VARIABLE: fault}


def plant(fault: str) -> None:
    """In the process that writes tables."""
    FAULTS[fault]()


def _offsets_apart(*, first: bool) -> None:
    """The offsets are in a file beside the table instead of in its commits."""
    from pybroker_kafka.tables.iceberg import IcebergTable

    patched: Any = IcebergTable
    commit, offsets_in_table = patched._commit, patched.offsets

    def place(table: Any) -> Path:
        return Path(urlparse(table.table.location()).path + ".offsets")

    def commit_apart(table: Any, rows: Any, offsets: Mapping[int, int], replaced: object) -> None:
        def keep() -> None:
            place(table).write_text(json.dumps(offsets))

        if first:
            keep()
            time.sleep(WINDOW_SECONDS)
        commit(table, rows, offsets, replaced)
        if not first:
            time.sleep(WINDOW_SECONDS)
            keep()

    def offsets_apart(table: Any) -> dict[int, int]:
        if not place(table).exists():
            return dict(offsets_in_table(table))
        return {int(part): at for part, at in json.loads(place(table).read_text()).items()}

    patched._commit, patched.offsets = commit_apart, offsets_apart


def _uncommitted() -> None:
    from pybroker_kafka.tables import writer

    consumer = vars(writer)["Consumer"]

    def uncommitted(*words: Any, **options: Any) -> Any:
        return consumer(*words, **{**options, "isolation_level": "read_uncommitted"})

    vars(writer)["Consumer"] = uncommitted


FAULTS: Mapping[str, Callable[[], None]] = {
    "offsets are kept before their rows": functools.partial(_offsets_apart, first=True),
    "offsets are kept after their rows": functools.partial(_offsets_apart, first=False),
    "records of aborted transactions are rows": _uncommitted,
}
