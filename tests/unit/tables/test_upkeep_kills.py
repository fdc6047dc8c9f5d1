"""A writer that is killed in the middle of a commit, a merge of files or an expiry: each record
stays once in the table."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from pybroker_kafka.tables.place import Place
from tests.support.processes import ROOT

from .test_formats import files_in, files_of, keys_of, opened, rows_of

KILLS = (("compact", 0.01), ("expire", 0.005))  # seconds after its start


def work(directory: str) -> None:
    """Append, merge and expire until killed; a line before each step."""
    place = Place(directory)
    table = opened("iceberg", place)
    at = table.offsets().get(0, 0)
    while True:
        print("append", flush=True)
        table.append(rows_of(at, at + 1), {0: at + 1})
        at += 1
        if at % 8 == 0:
            print("compact", flush=True)
            table.compact(1 << 20)
            assert table.offsets() == {0: at}
            print("expire", flush=True)
            table.expire(0)


def test_a_killed_writer_loses_and_repeats_nothing(tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    code = f"from tests.unit.tables.test_upkeep_kills import work; work({str(tmp_path)!r})"
    for step, moment in KILLS:
        with subprocess.Popen(
            [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            while writer.stdout.readline().strip() != step:
                pass
            time.sleep(moment)
            writer.kill()
        count = opened("iceberg", place).offsets()[0]
        assert keys_of("iceberg", place) == sorted(b"k%d" % number for number in range(count))
    table = opened("iceberg", place)
    while table.compact(1 << 20):
        pass
    table.expire(0)
    count = table.offsets()[0]
    assert keys_of("iceberg", place) == sorted(b"k%d" % number for number in range(count))
    assert files_of("iceberg", place) < 8
    assert len(files_in(tmp_path)) < count, "files of merged and expired states are gone"
