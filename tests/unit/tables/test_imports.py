"""A broker without tables pays nothing for them, and one with tables imports no format."""

from __future__ import annotations

import subprocess
import sys

from tests.support.processes import ROOT

FORMATS = ("pyarrow", "pyiceberg", "deltalake", "fastavro", "sqlalchemy")


def imported_by(module: str) -> set[str]:
    script = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_a_broker_imports_nothing_of_tables() -> None:
    found = imported_by("pybroker_kafka.broker.server")
    assert not [
        name
        for name in found
        if name.startswith(("pybroker_kafka.tables", "pybroker_kafka.broker.tables"))
    ]
    assert not found & set(FORMATS)


def test_a_broker_with_tables_imports_no_format() -> None:
    found = imported_by("pybroker_kafka.broker.tables.parts")
    assert not [name for name in found if name.startswith("pybroker_kafka.tables")]
    assert not found & set(FORMATS)
