"""Segments in folders: Apache Kafka's LocalTieredStorage and ours read and delete each other's."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pybroker_kafka.protocol.uuids import uuid_to_text
from pybroker_kafka.storage.remote.folders import LocalTieredStorage
from pybroker_kafka.storage.remote.storage_manager import IndexType
from pybroker_kafka.testkit.tiered import Copied
from tests.support.maven import compiled, maven_jars
from tests.support.short_lived_java import JVM_OPTIONS

pytestmark = pytest.mark.nightly

VERSION = "3.9.1"
SOURCE = Path(__file__).parents[1] / "support" / "java" / "TieredFolders.java"
JAVA_TIMEOUT_SECONDS = 120


@pytest.fixture(scope="module")
def class_path() -> str:
    jars = maven_jars(
        f"kafka-tiered-folders-{VERSION}",
        {
            "org.apache.kafka:kafka-storage": VERSION,
            "org.apache.kafka:kafka-storage:test": VERSION,
            "org.slf4j:slf4j-nop": "1.7.36",
        },
    )
    return compiled(SOURCE, jars)


def kafka(class_path: str, directory: Path, *commands: str) -> list[str]:
    """The answers of Kafka's class to each command."""
    done = subprocess.run(
        ["java", *JVM_OPTIONS, "-cp", class_path, SOURCE.stem, str(directory)],
        input="".join(command + "\n" for command in commands),
        capture_output=True,
        encoding="utf-8",
        timeout=JAVA_TIMEOUT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def command(name: str, segment: Copied, folder: Path | None = None) -> str:
    metadata = segment.metadata
    partition = metadata.topic_id_partition
    words = [
        name, partition.topic, str(partition.partition), uuid_to_text(partition.topic_id),
        uuid_to_text(metadata.segment_id.id), str(metadata.start_offset),
        str(metadata.segment_size_bytes),
    ]  # fmt: skip
    return " ".join(words if folder is None else [*words, str(folder)])


@pytest.mark.parametrize("aborted", [True, False])
def test_each_reads_and_deletes_what_the_other_wrote(
    tmp_path: Path, class_path: str, aborted: bool
) -> None:
    store = tmp_path / "store"
    ours = LocalTieredStorage({"dir": str(store), "broker.id": "2"})
    one = Copied(tmp_path / "one", aborted=aborted)
    two = Copied(tmp_path / "two", aborted=aborted)
    one.copy_to(ours)
    copied, fetched = kafka(
        class_path, store, command("copy", two, tmp_path / "two"), command("fetch", one)
    )
    assert copied == "done"
    order = ("OFFSET", "TIMESTAMP", "PRODUCER_SNAPSHOT", "TRANSACTION", "LEADER_EPOCH")
    indexes = [one.indexes.get(IndexType[name]) for name in order]
    assert fetched.split() == [
        one.log.hex(), *("-" if data is None else data.hex() for data in indexes)
    ]  # fmt: skip
    two.check_in(ours)
    ours.delete_log_segment_data(two.metadata)
    assert kafka(class_path, store, command("delete", one), command("delete", two)) == ["done"] * 2
    one.check_gone_from(ours)
    two.check_gone_from(ours)
    assert list(ours.stored_files()) == []
