"""The process that copies segments to an object store: `copy_process` runs
`python -m pybroker_kafka.broker.remote.copy_worker`.

A copy reads, signs and sends each byte of a segment, which would take processor and interpreter
from the broker's loop. The worker reads JSON lines from its standard input and writes JSON lines to
its standard output. It yields to every other process, and ends at once when its input ends: with
its broker, also after a crash.

In, first: `{"class": name, "configs": {...}}` of the storage manager. Then, for each copy:
`{"copy": number, "metadata": its record of the metadata topic, "data": LogSegmentData}`, bytes in
base64. Out: `{"copy": number, "custom": bytes or null}` or `{"copy": number, "failed": why}`.

The copies are made side by side; the broker bounds their number.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import sys
import threading
import traceback
from typing import Any

from ...storage.remote.loading import load
from ...storage.remote.metadata_records import read
from ...storage.remote.segments import RemoteLogSegmentMetadata
from ...storage.remote.storage_manager import (
    LogSegmentData,
    RemoteStorageError,
    RemoteStorageManager,
)
from ..resources.priority import give_way

Message = dict[str, Any]


class Worker:
    def __init__(self, store: RemoteStorageManager, sink: int) -> None:
        self._store = store
        self._sink = sink
        self._lock = threading.Lock()  # one answer at a time

    def begin(self, message: Message) -> None:
        threading.Thread(target=self._copy, args=(message,), daemon=True).start()

    def _copy(self, message: Message) -> None:
        answer: Message = {"copy": message["copy"]}
        try:
            metadata = read(base64.b64decode(message["metadata"]))
            assert isinstance(metadata, RemoteLogSegmentMetadata)
            data: Message = message["data"]
            data["leader_epochs"] = base64.b64decode(data["leader_epochs"])
            custom = self._store.copy_log_segment_data(metadata, LogSegmentData(**data))
            answer["custom"] = None if custom is None else base64.b64encode(custom).decode()
        except RemoteStorageError as error:
            answer["failed"] = str(error)
        except Exception as error:
            traceback.print_exc()
            answer["failed"] = f"{type(error).__name__}: {error}"
        self._send(answer)

    def _send(self, answer: Message) -> None:
        data = memoryview(json.dumps(answer).encode() + b"\n")
        with self._lock, contextlib.suppress(BrokenPipeError):  # the broker has ended
            while data:
                data = data[os.write(self._sink, data) :]


def main() -> None:
    give_way()
    with contextlib.suppress(KeyboardInterrupt):
        source = sys.stdin.buffer
        if first := source.readline():
            asked = json.loads(first)
            worker = Worker(load(asked["class"], asked["configs"]), sys.stdout.fileno())
            for line in source:
                worker.begin(json.loads(line))
    os._exit(0)  # without an end of the copies under way: their broker has ended


if __name__ == "__main__":
    main()
