"""A writer that is killed in the middle of a commit, a merge of files or an expiry: each record
stays once in the table."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from pybroker_kafka.tables.place import Place
from tests.support.nightly import nightly
from tests.support.processes import ROOT

from .test_formats import files_in, files_of, keys_of, opened, rows_of

MOMENTS = {"compact": 0.01, "expire": 0.005}  # seconds after its start


def work(kind: str, directory: str) -> None:
    """Append, merge and expire until killed; a line before each step."""
    place = Place(directory)
    table = opened(kind, place)
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


@pytest.mark.parametrize(
    ("kind", "step"),
    [
        ("iceberg", "compact"),
        nightly("iceberg", "expire"),
        nightly("delta", "compact"),
        ("delta", "expire"),
    ],
)
def test_a_killed_writer_loses_and_repeats_nothing(kind: str, step: str, tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    code = f"from tests.unit.tables.test_upkeep_kills import work; work{(kind, str(tmp_path))}"
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        while writer.stdout.readline().strip() != step:
            pass
        time.sleep(MOMENTS[step])
        writer.kill()
    count = opened(kind, place).offsets()[0]
    assert keys_of(kind, place) == sorted(b"k%d" % number for number in range(count))
    table = opened(kind, place)
    while table.compact(1 << 20):
        pass
    table.expire(0)
    count = table.offsets()[0]
    assert keys_of(kind, place) == sorted(b"k%d" % number for number in range(count))
    assert files_of(kind, place) < 8
    assert len(files_in(tmp_path)) < count, "files of merged and expired states are gone"
    table.remove_orphans(0, 0)
    assert len(files_in(tmp_path)) == files_of(kind, place)


def die_in_commit(directory: str) -> None:
    """Write the files of a commit, and be killed before the catalogue has it."""
    SqlCatalog.commit_table = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[method-assign, assignment]
    opened("iceberg", Place(directory)).append(rows_of(9, 10), {0: 10})


def test_files_of_a_killed_commit_are_removed_and_no_others(tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    table = opened("iceberg", place)
    for number in range(3):
        table.append(rows_of(number, number + 1), {0: number + 1})
    table.upsert(rows_of(0, 1), pa.array([b"k1"], pa.binary()), "key", {0: 4})
    whole = every_file(tmp_path)
    code = (
        f"from tests.unit.tables.test_upkeep_kills import die_in_commit as d; d({str(tmp_path)!r})"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == -9
    orphans = every_file(tmp_path) - whole
    assert {one.suffix for one in orphans} >= {".parquet", ".avro"}
    foreign = tmp_path / "kafka" / "some_topic" / "data" / "00000-0-theirs.parquet"
    foreign.touch()

    stale = opened("iceberg", place)
    table.append(rows_of(5, 6), {0: 6})
    assert stale.remove_orphans(3_600_000, 0) == 0, "nothing is so old"
    later = every_file(tmp_path)
    assert stale.remove_orphans(0, 0) == len(orphans)
    assert every_file(tmp_path) == later - orphans
    assert foreign.exists()
    assert keys_of("iceberg", place) == [b"k0", b"k2", b"k5"]


def test_older_files_of_the_directory_stay(tmp_path: Path) -> None:
    """Another table may have them: this one became the topic's after they were written."""
    table = opened("iceberg", Place(str(tmp_path)))
    table.append(rows_of(0, 1), {0: 1})
    old = tmp_path / "kafka" / "some_topic" / "data" / f"00000-0-{uuid.uuid4()}.parquet"
    old.touch()
    os.utime(old, (0, 0))
    assert table.remove_orphans(0, 0) == 0
    os.utime(old)
    assert table.remove_orphans(0, 0) == 1
    assert not old.exists()


def test_files_of_a_killed_commit_in_delta(tmp_path: Path) -> None:
    """Those of a day; a state that is not the newest one takes no later files for useless."""
    table, directory = opened("delta", Place(str(tmp_path))), tmp_path / "kafka" / "some_topic"
    table.append(rows_of(0, 1), {0: 1})
    fresh, old, foreign = (
        directory / name
        for name in (
            f"part-00000-{uuid.uuid4()}-c000.snappy.parquet",
            f"part-00001-{uuid.uuid4()}-c000.zstd.parquet",
            "theirs.parquet",
        )
    )
    for one in (fresh, old, foreign):
        one.touch()
    for one in (old, foreign):
        os.utime(one, (time.time() - 90_000,) * 2)
    stale = opened("delta", Place(str(tmp_path)))
    table.append(rows_of(1, 2), {0: 2})
    later = every_file(tmp_path)
    assert stale.remove_orphans(3_600_000, -1) == 0, "all versions stay"
    assert stale.remove_orphans(3_600_000, 26 * 3_600_000) == 0, "nothing is so old"
    assert stale.remove_orphans(3_600_000, 0) == 1
    assert every_file(tmp_path) == later - {old}
    assert stale.remove_orphans(0, 0) == 1
    assert every_file(tmp_path) == later - {old, fresh}
    table.append(rows_of(2, 3), {0: 3})
    assert keys_of("delta", Place(str(tmp_path))) == [b"k0", b"k1", b"k2"]


def every_file(directory: Path) -> set[Path]:
    return {one for one in directory.rglob("*") if one.is_file() and "catalog.db" not in one.name}
