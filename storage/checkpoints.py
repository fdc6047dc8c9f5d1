"""The small text files of a log directory and of a partition directory.

- Offset checkpoints (recovery point, log start, high watermark, cleaner): version, count, then
  `topic partition offset` lines. `leader-epoch-checkpoint`: the same with `epoch offset` lines.
- `meta.properties` (ZooKeeper mode, version 0), `partition.metadata`, `.kafka_cleanshutdown`.

All are replaced whole (write aside, fsync, rename). A file that does not parse raises
`CheckpointError`; the caller knows whether that means "absent" or "this directory is offline".

Mirrors: OffsetCheckpointFile, CheckpointFile, LeaderEpochCheckpointFile, MetaProperties,
PartitionMetadataFile, CleanShutdownFileHandler.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from protocol.uuids import uuid_from_text, uuid_to_text
from storage.files import Files

RECOVERY_POINT_FILE = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_FILE = "log-start-offset-checkpoint"
HIGH_WATERMARK_FILE = "replication-offset-checkpoint"
CLEANER_FILE = "cleaner-offset-checkpoint"
LEADER_EPOCH_FILE = "leader-epoch-checkpoint"
META_PROPERTIES_FILE = "meta.properties"
PARTITION_METADATA_FILE = "partition.metadata"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
LOCK_FILE = ".lock"

_CHECKPOINT_VERSION = "0"

TopicPartition = tuple[str, int]


class CheckpointError(OSError):
    """A checkpoint or metadata file is malformed (Kafka throws IOException there)."""


def read_checkpoint_lines(files: Files, path: str, columns: int) -> list[list[str]]:
    """The entries of a text checkpoint, each split into `columns` words; [] if there is none."""
    try:
        data = files.read(path)
    except FileNotFoundError:
        return []
    lines = data.decode("utf-8", "replace").splitlines()
    if not lines:
        return []
    if lines[0].strip() != _CHECKPOINT_VERSION:
        raise CheckpointError(f"Unrecognized version of the checkpoint file {path}: {lines[0]!r}")
    if len(lines) < 2 or not lines[1].strip().isdigit():
        raise CheckpointError(f"No entry count in the checkpoint file {path}")
    entries = [line.split() for line in lines[2:]]
    expected = int(lines[1])
    if len(entries) != expected:
        raise CheckpointError(
            f"Expected {expected} entries in checkpoint file {path}, found {len(entries)}"
        )
    for entry in entries:
        if len(entry) != columns:
            raise CheckpointError(f"Malformed line in checkpoint file {path}: {entry}")
    return entries


def write_checkpoint_lines(
    files: Files, path: str, lines: Iterable[str], *, sync: bool = True
) -> None:
    body = list(lines)
    text = "\n".join([_CHECKPOINT_VERSION, str(len(body)), *body]) + "\n"
    files.write_atomically(path, text.encode(), sync=sync)


def read_offsets(files: Files, path: str) -> dict[TopicPartition, int]:
    result: dict[TopicPartition, int] = {}
    for topic, partition, offset in read_checkpoint_lines(files, path, 3):
        try:
            result[topic, int(partition)] = int(offset)
        except ValueError:
            raise CheckpointError(
                f"Malformed line in checkpoint file {path}: {topic} {partition} {offset}"
            ) from None
    return result


def write_offsets(files: Files, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    lines = (f"{topic} {part} {offset}" for (topic, part), offset in sorted(offsets.items()))
    write_checkpoint_lines(files, path, lines)


def read_epochs(files: Files, path: str) -> list[tuple[int, int]]:
    """The (epoch, start offset) entries of a leader epoch checkpoint."""
    try:
        return [(int(e), int(o)) for e, o in read_checkpoint_lines(files, path, 2)]
    except ValueError:
        raise CheckpointError(f"Malformed line in checkpoint file {path}") from None


def write_epochs(
    files: Files, path: str, entries: Iterable[tuple[int, int]], *, sync: bool = True
) -> None:
    write_checkpoint_lines(files, path, (f"{e} {o}" for e, o in entries), sync=sync)


@dataclass(slots=True, frozen=True)
class MetaProperties:
    """Whose directory this is."""

    broker_id: int | None
    cluster_id: str | None
    version: int = 0


def read_meta_properties(files: Files, directory: str) -> MetaProperties | None:
    path = os.path.join(directory, META_PROPERTIES_FILE)
    try:
        text = files.read(path).decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    values = parse_properties(text)
    try:
        version = int(values.get("version", "0"))
        id_text = values.get("broker.id" if version == 0 else "node.id")
        broker_id = None if id_text is None else int(id_text)
    except ValueError:
        raise CheckpointError(f"Malformed numbers in {path}") from None
    return MetaProperties(broker_id, values.get("cluster.id"), version)


def write_meta_properties(files: Files, directory: str, meta: MetaProperties, now_ms: int) -> None:
    stamp = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%a %b %d %H:%M:%S UTC %Y")
    lines = ["#", f"#{stamp}"]
    if meta.broker_id is not None:
        lines.append(f"broker.id={meta.broker_id}")
    lines.append(f"version={meta.version}")
    if meta.cluster_id is not None:
        lines.append(f"cluster.id={meta.cluster_id}")
    text = "\n".join(lines) + "\n"
    files.write_atomically(os.path.join(directory, META_PROPERTIES_FILE), text.encode())


def parse_properties(text: str) -> dict[str, str]:
    """The subset of Java properties that Kafka's own files use: one `key=value` a line."""
    values: dict[str, str] = {}
    for raw in text.splitlines():
        line = raw.strip()
        if not line or line[0] in "#!":
            continue
        key, separator, value = line.partition("=")
        if not separator:
            key, _, value = line.partition(":")
        values[key.strip()] = value.strip().replace("\\", "")
    return values


def read_partition_topic_id(files: Files, directory: str) -> bytes | None:
    """The topic id in `partition.metadata`, None if the file is absent."""
    path = os.path.join(directory, PARTITION_METADATA_FILE)
    try:
        text = files.read(path).decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    values = parse_properties(text)
    if values.get("version") != "0" or "topic_id" not in values:
        raise CheckpointError(f"Malformed {path}")
    try:
        return uuid_from_text(values["topic_id"])
    except ValueError:
        raise CheckpointError(f"Invalid topic id in {path}: {values['topic_id']}") from None


def write_partition_topic_id(
    files: Files, directory: str, topic_id: bytes, *, sync: bool = True
) -> None:
    text = f"version: 0\ntopic_id: {uuid_to_text(topic_id)}"
    path = os.path.join(directory, PARTITION_METADATA_FILE)
    files.write_atomically(path, text.encode(), sync=sync)


def write_clean_shutdown(files: Files, directory: str, broker_epoch: int = -1) -> None:
    text = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    files.write_atomically(os.path.join(directory, CLEAN_SHUTDOWN_FILE), text.encode())


def take_clean_shutdown(files: Files, directory: str) -> bool:
    """Whether the last run stopped cleanly; the mark is removed, as loading may be cut short."""
    path = os.path.join(directory, CLEAN_SHUTDOWN_FILE)
    if not files.exists(path):
        return False
    files.remove(path)
    return True
