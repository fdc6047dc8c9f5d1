"""`pybroker log dump` beside Kafka's DumpLogSegments: the same lines for the same files.

The files hold everything that a log can hold and were written by our storage: so this also shows
that Kafka's tool has no complaint about them, their indexes least of all.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import click.testing
import pytest

from pybroker_kafka.cli.log import log
from tests.support.all_formats import write_everything, write_internal_topics
from tests.support.kafka_tools import KafkaTools

SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")

Lines = tuple[list[str], list[str]]  # printed, and complained of
Dump = Callable[..., Lines]


@pytest.fixture(scope="module")
def kafkas() -> Iterator[Dump]:
    """Kafka's tool, in a JVM of its own: nobody else complains there."""

    def dump(files: list[Path], *options: str) -> Lines:
        where = ["--files", ",".join(map(str, files))]
        printed, complaints = tools.run("kafka.tools.DumpLogSegments", *where, *options)
        return printed.splitlines(), complaints.splitlines()

    with closing(KafkaTools()) as tools:
        yield dump


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_everything(tmp_path_factory.mktemp("everything"))


def files_of(directory: Path) -> list[Path]:
    return sorted(path for path in directory.iterdir() if path.suffix in SUFFIXES)


def ours(files: list[Path], *options: str) -> Lines:
    done = click.testing.CliRunner().invoke(log, ["dump", *options, *map(str, files)])
    assert done.exception is None, done.exception
    return done.stdout.splitlines(), done.stderr.splitlines()


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--deep-iteration"],
        ["--print-data-log"],
        ["--print-data-log", "--skip-record-metadata"],
        ["--index-sanity-check"],
        ["--verify-index-only"],
        ["--max-bytes", "1000"],
    ],
    ids=" ".join,
)
def test_the_same_lines(kafkas: Dump, everything: Path, options: list[str]) -> None:
    files = files_of(everything)
    assert {path.suffix for path in files} == set(SUFFIXES)
    assert len(files) > 20
    printed, complaints = kafkas(files, *options)
    assert ours(files, *options) == (printed, complaints)
    # The gaps of compaction are told; nothing else is wrong.
    assert all("followed by" in line or "Non-consecutive" in line for line in complaints)
    assert "isvalid: false" not in "\n".join(printed)


def test_the_same_lines_for_internal_topics(kafkas: Dump, tmp_path: Path) -> None:
    groups, transactions = write_internal_topics(tmp_path)
    for directory, option in (
        (groups, "--offsets-decoder"),
        (transactions, "--transaction-log-decoder"),
    ):
        files = files_of(directory)
        assert ours(files, option) == kafkas(files, option)


def test_the_same_complaints(kafkas: Dump, everything: Path, tmp_path: Path) -> None:
    directory = tmp_path / everything.name
    shutil.copytree(everything, directory)
    logs = sorted(directory.glob("*.log"))
    first, second, third = logs[:3]
    flipped = bytearray(first.read_bytes())
    flipped[23] ^= 1  # in a key: the CRC is wrong
    first.write_bytes(flipped)
    second.write_bytes(second.read_bytes() + b"\0" * 7)
    offsets = third.with_suffix(".index")
    index = bytearray(offsets.read_bytes())
    index[3] += 1
    offsets.write_bytes(index)
    times = second.with_suffix(".timeindex")
    index = bytearray(times.read_bytes())
    index[7] ^= 1
    times.write_bytes(index)
    shutil.copy(times, third.with_suffix(".timeindex"))
    (directory / "00000000000000000001.strange").touch()
    (directory / "00000000000000000002.snapshot").write_bytes(b"\0\1abcd")
    files = [p for p in files_of(directory) if p.suffix != ".snapshot"]
    files.append(directory / "00000000000000000001.strange")
    printed, complaints = kafkas(files, "--deep-iteration")
    assert ours(files, "--deep-iteration") == (printed, complaints)
    told = "\n".join(printed + complaints)
    for part in ("isvalid: false", "Mismatches in", "timestamp mismatch", "invalid bytes",
                 "Ignoring unknown file", "not found in the log"):  # fmt: skip
        assert part in told
