"""The partitions whose segments in the tier must be deleted, since their topics are; in one file.

Job: a deletion that a broker has taken over goes on after a restart. The topic is in no other place
then: ZooKeeper has forgotten it, and the log's directory has gone.

The file is a list of lines, `+ topic partition id` at the beginning and `- topic partition id` at
the end of a deletion; it is removed when nothing is under way. A line that was cut off has no whole
id, and does not count.

Invariants:
- `begin` returns before the partition's directory is renamed: a process that is killed has either
  noted the deletion, or still has the log, and the controller asks again. Nothing is forced to
  disk, as the renaming is not: a file system keeps the order of the two.
- What cannot be written is logged, and the deletion goes on without.

Mirrors: nothing of Apache Kafka's, which forgets the segments if the broker ends before it has
deleted them.
"""

from __future__ import annotations

import logging

from ...protocol.uuids import uuid_from_text, uuid_to_text
from ..files import Files
from .segments import TopicIdPartition

logger = logging.getLogger("pybroker.storage.remote.deletions")


class TierDeletions:
    __slots__ = ("_files", "_path", "under_way")

    def __init__(self, path: str, files: Files | None = None) -> None:
        """Read the file. OSError if that cannot be."""
        self._path = path
        self._files = files or Files()
        self.under_way: dict[TopicIdPartition, None] = {}  # in the order of their beginnings
        if self._files.exists(path):
            for line in self._files.read(path).decode(errors="replace").split("\n"):
                self._read(line)

    def _read(self, line: str) -> None:
        try:
            sign, topic, number, topic_id = line.split(" ")
            partition = TopicIdPartition(uuid_from_text(topic_id), topic, int(number))
        except ValueError:
            return
        if sign == "+":
            self.under_way[partition] = None
        else:
            self.under_way.pop(partition, None)

    def begin(self, partition: TopicIdPartition) -> None:
        self.under_way[partition] = None
        self._write("+", partition)

    def end(self, partition: TopicIdPartition) -> None:
        del self.under_way[partition]
        if self.under_way:
            self._write("-", partition)
            return
        try:
            self._files.remove(self._path)
        except OSError as error:
            logger.warning("%s cannot be removed: %s", self._path, error)

    def _write(self, sign: str, partition: TopicIdPartition) -> None:
        # The newline in front ends a line that was cut off.
        text = f"\n{sign} {partition.topic} {partition.partition} "
        text += f"{uuid_to_text(partition.topic_id)}\n"
        try:
            file = self._files.open(self._path, create=True)
            file.write_at(text.encode(), file.size())
        except OSError as error:
            logger.warning(
                "%s cannot be written (%s): a restart may leave segments of %s in the tier",
                self._path, error, partition,
            )  # fmt: skip
