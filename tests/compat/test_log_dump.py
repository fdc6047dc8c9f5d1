"""`pybroker log dump` beside Kafka's DumpLogSegments: the same lines for the same files.

The files hold everything that a log can hold and were written by our storage: so this also shows
that Kafka's tool has no complaint about them, their indexes least of all.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click.testing
import pytest

from pybroker_kafka.cli.log import log
from tests.support.all_formats import write_everything, write_internal_topics
from tests.support.apache_kafka import kafka_jars
from tests.support.maven import compiled
from tests.support.short_lived_java import JVM_OPTIONS

SOURCE = Path(__file__).parent / "java" / "DumpLogs.java"
SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
JAVA = ["java", "-Xmx256m", *JVM_OPTIONS, "-Dfile.encoding=UTF-8"]

Lines = tuple[list[str], list[str]]  # printed, and complained of


class KafkasTool:
    def __init__(self) -> None:
        jars = kafka_jars()
        logging = f"-Dlog4j.configuration=file:{jars / 'log4j.properties'}"
        self._process = subprocess.Popen(
            [*JAVA, logging, "-cp", compiled(SOURCE, jars), "DumpLogs"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        )

    def dump(self, files: list[Path], *options: str) -> Lines:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        arguments = ["--files", ",".join(map(str, files)), *options]
        self._process.stdin.write(" ".join(arguments) + "\n")
        self._process.stdin.flush()
        printed: list[str] = []
        complaints: list[str] = []
        for line in self._process.stdout:
            text = line.rstrip("\n")
            if text == ".":
                return printed, complaints
            if text.startswith("E "):
                complaints.append(text[2:])
            else:
                printed.append(text)
        raise AssertionError(f"{arguments}: {printed}")

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture(scope="module")
def kafkas() -> Iterator[KafkasTool]:
    tool = KafkasTool()
    try:
        yield tool
    finally:
        tool.close()


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
def test_the_same_lines(kafkas: KafkasTool, everything: Path, options: list[str]) -> None:
    files = files_of(everything)
    assert {path.suffix for path in files} == set(SUFFIXES)
    assert len(files) > 20
    printed, complaints = kafkas.dump(files, *options)
    assert ours(files, *options) == (printed, complaints)
    # The gaps of compaction are told; nothing else is wrong.
    assert all("followed by" in line or "Non-consecutive" in line for line in complaints)
    assert "isvalid: false" not in "\n".join(printed)


def test_the_same_lines_for_internal_topics(kafkas: KafkasTool, tmp_path: Path) -> None:
    groups, transactions = write_internal_topics(tmp_path)
    for directory, option in (
        (groups, "--offsets-decoder"),
        (transactions, "--transaction-log-decoder"),
    ):
        files = files_of(directory)
        assert ours(files, option) == kafkas.dump(files, option)


def test_the_same_complaints(kafkas: KafkasTool, everything: Path, tmp_path: Path) -> None:
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
    printed, complaints = kafkas.dump(files, "--deep-iteration")
    assert ours(files, "--deep-iteration") == (printed, complaints)
    told = "\n".join(printed + complaints)
    for part in ("isvalid: false", "Mismatches in", "timestamp mismatch", "invalid bytes",
                 "Ignoring unknown file", "not found in the log"):  # fmt: skip
        assert part in told
