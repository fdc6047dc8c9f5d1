"""The small text files of a log directory and of a partition directory.

- Offset checkpoints (recovery point, log start, high watermark, cleaner): version, count, then
  `topic partition offset` lines. `leader-epoch-checkpoint`: the same with `epoch offset` lines.
- `meta.properties` (ZooKeeper mode, version 0), `partition.metadata`, `.kafka_cleanshutdown`.

All are replaced whole (write aside, fsync, rename). A file that does not parse raises
`CheckpointError`; the caller knows what it costs. `salvage_offsets` also returns the good lines of
a damaged offset checkpoint: a bad line affects its own partition only.

Mirrors: OffsetCheckpointFile, CheckpointFile, LeaderEpochCheckpointFile, MetaProperties,
PartitionMetadataFile, CleanShutdownFileHandler.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

from ..protocol.topics import TopicPartition
from ..protocol.uuids import uuid_from_text, uuid_to_text
from .files import Files

RECOVERY_POINT_FILE = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_FILE = "log-start-offset-checkpoint"
HIGH_WATERMARK_FILE = "replication-offset-checkpoint"
CLEANER_FILE = "cleaner-offset-checkpoint"
OFFSET_FILES = (RECOVERY_POINT_FILE, LOG_START_OFFSET_FILE, HIGH_WATERMARK_FILE, CLEANER_FILE)
LEADER_EPOCH_FILE = "leader-epoch-checkpoint"
META_PROPERTIES_FILE = "meta.properties"
PARTITION_METADATA_FILE = "partition.metadata"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
WALL_CLOCK_FILE = ".wall-clock"  # ours
LOCK_FILE = ".lock"

MAX_FILE_BYTES = 256 * 1024 * 1024

_CHECKPOINT_VERSION = "0"
_MAX_NUMBER = 2**63 - 1
_MAX_EPOCH = 2**31 - 1
_MAX_DIGITS = 20
_SHOWN = 60  # characters of damaged text in a message


class CheckpointError(OSError):
    """A checkpoint or metadata file is malformed (Kafka throws IOException there)."""


def _read_text(files: Files, path: str) -> str | None:
    """The text of a small file; None if the file does not exist."""
    try:
        size = files.size(path)
        data = files.read(path) if size <= MAX_FILE_BYTES else b""
    except FileNotFoundError:
        return None
    if size > MAX_FILE_BYTES:
        raise CheckpointError(f"{path} is damaged: {size} bytes are too many")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path} is damaged: {error}") from None


def _lines_of(text: str, path: str) -> tuple[list[str], int]:
    """The entries of a text checkpoint, and how many there are to be."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    if not lines:
        return [], 0
    if lines[0].strip() != _CHECKPOINT_VERSION:
        raise CheckpointError(f"{path} is damaged: unrecognized version {lines[0][:_SHOWN]!r}")
    count = None if len(lines) < 2 else parse_number(lines[1].strip())
    if count is None:
        raise CheckpointError(f"{path} is damaged: it has no entry count")
    return lines[2:], count


def parse_number(text: str) -> int | None:
    """A number from 0 to 2^63 - 1 in plain decimal digits; None for anything else."""
    if not (text.isascii() and text.isdigit()) or len(text) > _MAX_DIGITS:
        return None
    number = int(text)
    return number if number <= _MAX_NUMBER else None


def read_checkpoint_numbers(files: Files, path: str, columns: int) -> list[tuple[int, ...]]:
    """The entries of a text checkpoint of numbers; [] if there is none."""
    return _numbers_in(_read_text(files, path) or "", path, columns)


def _numbers_in(text: str, path: str, columns: int) -> list[tuple[int, ...]]:
    lines, expected = _lines_of(text, path)
    if len(lines) != expected:
        raise CheckpointError(f"{path} is damaged: {len(lines)} entries instead of {expected}")
    entries = []
    for line in lines:
        numbers = [parse_number(word) for word in line.split()]
        entry = tuple(number for number in numbers if number is not None)
        if len(numbers) != columns or len(entry) != columns:
            raise CheckpointError(f"{path} is damaged: the entry {line[:_SHOWN]!r}")
        entries.append(entry)
    return entries


def write_checkpoint_lines(
    files: Files, path: str, lines: Iterable[str], *, sync: bool = True
) -> None:
    body = list(lines)
    text = "\n".join([_CHECKPOINT_VERSION, str(len(body)), *body]) + "\n"
    files.write_atomically(path, text.encode(), sync=sync)


def read_offsets(files: Files, path: str) -> dict[TopicPartition, int]:
    offsets, problem = salvage_offsets(files, path)
    if problem is not None:
        raise problem
    return offsets


def salvage_offsets(
    files: Files, path: str
) -> tuple[dict[TopicPartition, int], CheckpointError | None]:
    """The offsets in all good lines, and the problem of the others."""
    found: dict[TopicPartition, int] = {}
    try:
        text = _read_text(files, path)
        if text is None:
            return found, None
        lines, expected = _lines_of(text, path)
    except CheckpointError as error:
        return found, error
    problem = None if text else CheckpointError(f"{path} is damaged: it is empty")
    if lines and not text.endswith("\n"):
        problem = CheckpointError(f"{path} is damaged: it is cut inside of {lines[-1][:_SHOWN]!r}")
        lines.pop()  # cut off: the number that is left may not be the one written
    for line in lines:
        words = line.split()
        numbers = [parse_number(word) for word in words[1:]]
        partition, offset = numbers if len(numbers) == 2 else (None, None)
        if partition is None or offset is None:
            problem = CheckpointError(f"{path} is damaged: the entry {line[:_SHOWN]!r}")
            continue
        key = words[0], partition
        if key in found:
            problem = CheckpointError(f"{path} is damaged: two entries of {words[0]}-{partition}")
        # The lower one is the safe one, of all offsets that are kept like this.
        found[key] = min(offset, found.get(key, offset))
    if problem is None and len(lines) != expected:
        problem = CheckpointError(f"{path} is damaged: {len(lines)} entries instead of {expected}")
    return found, problem


def write_offsets(files: Files, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    lines = (f"{topic} {part} {offset}" for (topic, part), offset in sorted(offsets.items()))
    write_checkpoint_lines(files, path, lines)


def read_epochs(files: Files, path: str) -> list[tuple[int, int]]:
    """The (epoch, start offset) entries of a leader epoch checkpoint; both grow."""
    return epochs_in(_read_text(files, path) or "", path)


def epochs_in(text: str, path: str) -> list[tuple[int, int]]:
    """`read_epochs` of a text; `path` is for errors."""
    entries = [(epoch, start) for epoch, start in _numbers_in(text, path, 2)]
    if entries and entries[-1][0] > _MAX_EPOCH:
        raise CheckpointError(f"{path} is damaged: epoch {entries[-1][0]} is too large")
    for (epoch, start), (next_epoch, next_start) in pairwise(entries):
        if epoch >= next_epoch or start >= next_start:
            raise CheckpointError(f"{path} is damaged: epoch {next_epoch} follows {epoch}")
    return entries


def write_epochs(
    files: Files, path: str, entries: Iterable[tuple[int, int]], *, sync: bool = True
) -> None:
    write_checkpoint_lines(files, path, (f"{e} {o}" for e, o in entries), sync=sync)


@dataclass(slots=True, frozen=True)
class MetaProperties:
    """The broker id and cluster id that a log directory belongs to."""

    broker_id: int | None
    cluster_id: str | None
    version: int = 0


def read_meta_properties(files: Files, directory: str) -> MetaProperties | None:
    """None if the file is missing. Raises CheckpointError if it cannot be read as one."""
    path = os.path.join(directory, META_PROPERTIES_FILE)
    text = _read_text(files, path)
    if text is None:
        return None
    values = parse_properties(text)
    version = parse_number(values.get("version", "0"))
    id_text = values.get("broker.id" if version == 0 else "node.id")
    broker_id = None if id_text is None else parse_number(id_text)
    if version is None or (broker_id is None) != (id_text is None):
        raise CheckpointError(f"{path} is damaged: malformed numbers")
    if not values.keys() & {"version", "broker.id", "cluster.id"}:
        raise CheckpointError(f"{path} is damaged: it names no broker and no cluster")
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
    text = _read_text(files, path)
    if text is None:
        return None
    values = parse_properties(text)
    if values.get("version") != "0" or "topic_id" not in values:
        raise CheckpointError(f"{path} is damaged: it names no topic id")
    try:
        return uuid_from_text(values["topic_id"])
    except ValueError:
        shown = values["topic_id"][:_SHOWN]
        raise CheckpointError(f"{path} is damaged: the topic id {shown!r}") from None


def write_partition_topic_id(
    files: Files, directory: str, topic_id: bytes, *, sync: bool = True
) -> None:
    text = f"version: 0\ntopic_id: {uuid_to_text(topic_id)}"
    path = os.path.join(directory, PARTITION_METADATA_FILE)
    files.write_atomically(path, text.encode(), sync=sync)


def write_clean_shutdown(files: Files, directory: str, broker_epoch: int = -1) -> None:
    text = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    files.write_atomically(os.path.join(directory, CLEAN_SHUTDOWN_FILE), text.encode())


def write_wall_clock(files: Files, directory: str, wall_ms: int, *, sync: bool) -> None:
    """Store the wall clock's time, so that the next start can detect a jump."""
    path = os.path.join(directory, WALL_CLOCK_FILE)
    files.write_atomically(path, b"%d\n" % wall_ms, sync=sync)


def read_wall_clock(files: Files, directory: str) -> int | None:
    """None if it was never noted; 0 if the note is damaged, so that no clock fits it."""
    try:
        return max(int(files.read(os.path.join(directory, WALL_CLOCK_FILE))), 0)
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        return 0


def take_clean_shutdown(files: Files, directory: str) -> bool:
    """Whether the last run stopped cleanly; the mark is removed, as loading may be cut short.

    Blocks: a power cut must not bring it back, or nothing would be recovered after that.
    """
    path = os.path.join(directory, CLEAN_SHUTDOWN_FILE)
    if not files.exists(path) or files.is_directory(path):
        return False
    files.remove(path)
    files.sync_directory(directory)
    return True
