"""The tables that are to be dropped, since their topics are deleted; in one file.

Job: a drop goes on after the broker or the process that writes tables was killed. The topic is in
no other place then: ZooKeeper has forgotten it, and its configs.

Invariants: `begin` returns before the directory of the topic's log is renamed, and the file is on
disk then: a broker that is killed has either noted the drop, or still has the log, and the
controller asks again. What cannot be written is logged, and the drop goes on without.

Mirrors: nothing of Apache Kafka's. `storage.remote.deletions` does the same for segments of a tier.
"""

from __future__ import annotations

import json
import logging
from typing import NamedTuple

from ...storage.files import Files

logger = logging.getLogger("pybroker.broker.tables")


class Drop(NamedTuple):
    topic: str
    topic_id: str
    format: str


class TableDrops:
    __slots__ = ("_files", "_path", "waiting")

    def __init__(self, path: str, files: Files | None = None) -> None:
        """Read the file. Raises OSError if that cannot be."""
        self._path = path
        self._files = files or Files()
        self.waiting: dict[str, Drop] = {}  # by topic id
        if self._files.exists(path):
            try:
                found = [Drop(*row) for row in json.loads(self._files.read(path))]
            except (ValueError, TypeError) as error:
                logger.error("%s is not read, and its tables stay: %s", path, error)
                found = []
            self.waiting = {one.topic_id: one for one in found}

    def begin(self, drop: Drop) -> None:
        self.waiting[drop.topic_id] = drop
        self._write()

    def end(self, topic_id: str) -> None:
        if self.waiting.pop(topic_id, None) is not None:
            self._write()

    def _write(self) -> None:
        try:
            if self.waiting:
                data = json.dumps(list(self.waiting.values())).encode()
                self._files.write_atomically(self._path, data)
            elif self._files.exists(self._path):
                self._files.remove(self._path)
        except OSError as error:
            logger.warning(
                "%s cannot be written (%s): a restart may leave tables of deleted topics",
                self._path, error,
            )  # fmt: skip
