"""A storage manager whose copies are made by a process of their own (`copy_worker`); all else is
done here, by the manager itself.

It is used for object stores. Copies to folders are made by the kernel, and cost nothing elsewhere;
a store in memory is of one process, and so may be a class of somebody else.

Invariants: each copy has one outcome; those of a process that has ended have failed. The process
begins with the first copy after the end of the one before. Secrets reach it through its standard
input alone.
"""

from __future__ import annotations

import base64
import json
import logging
import subprocess
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import asdict
from typing import IO, Any, Final

from ...protocol.primitives import Buffer
from ...storage.remote.metadata_records import record_value
from ...storage.remote.object_store import ObjectStore
from ...storage.remote.segments import RemoteLogSegmentMetadata
from ...storage.remote.storage_manager import (
    IndexType,
    LogSegmentData,
    RemoteStorageError,
    RemoteStorageManager,
)
from ..resources.worker_process import command_of, environment

logger = logging.getLogger("pybroker.broker.remote.copy_process")

MODULE: Final = "pybroker_kafka.broker.remote.copy_worker"


def with_copies_elsewhere(
    store: RemoteStorageManager, class_name: str, configs: Mapping[str, str]
) -> RemoteStorageManager:
    """The manager that a broker with this store uses."""
    if isinstance(store, ObjectStore) and not store.url.startswith("memory:"):
        return CopyProcess(store, class_name, configs)
    return store


class CopyProcess:
    """Any thread may call."""

    def __init__(
        self, store: RemoteStorageManager, class_name: str, configs: Mapping[str, str]
    ) -> None:
        self._store = store
        self._first = {"class": class_name, "configs": dict(configs)}
        self._lock = threading.Lock()
        self._process: _Process | None = None
        self._is_closed = False

    def copy_log_segment_data(
        self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData
    ) -> bytes | None:
        message = {
            "metadata": base64.b64encode(record_value(metadata)).decode(),
            "data": {
                **asdict(data),
                "leader_epochs": base64.b64encode(data.leader_epochs).decode(),
            },
        }
        try:
            with self._lock:
                future = self._running().begin(message)
        except OSError as error:
            raise RemoteStorageError(f"no process copies to the store: {error}") from error
        return future.result()

    def _running(self) -> _Process:
        if self._is_closed:
            raise RemoteStorageError("the broker stops")
        if self._process is None or self._process.has_ended:
            self._process = _Process(self._first)
        return self._process

    def fetch_log_segment(self, metadata: RemoteLogSegmentMetadata, start: int, end: int) -> Buffer:
        return self._store.fetch_log_segment(metadata, start, end)

    def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> Buffer:
        return self._store.fetch_index(metadata, index_type)

    def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        self._store.delete_log_segment_data(metadata)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            process, self._process = self._process, None
        if process is not None:
            process.kill()
        self._store.close()


class _Process:
    """One run of the worker."""

    def __init__(self, first: Mapping[str, Any]) -> None:
        self._process = subprocess.Popen(
            command_of(MODULE), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._sink, source = self._process.stdin, self._process.stdout
        self._lock = threading.Lock()  # of the next three
        self._copies: dict[int, Future[bytes | None]] = {}
        self._count = 0
        self.has_ended = False
        threading.Thread(target=self._receive, args=(source,), daemon=True).start()
        self._send(first)

    def begin(self, message: Mapping[str, Any]) -> Future[bytes | None]:
        """Raises OSError."""
        future: Future[bytes | None] = Future()
        with self._lock:
            if self.has_ended:
                raise BrokenPipeError("it has ended")
            number = self._count
            self._count += 1
            self._copies[number] = future
        try:
            self._send({"copy": number, **message})
        except OSError:
            with self._lock:
                self._copies.pop(number, None)
            raise
        return future

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _send(self, message: Mapping[str, Any]) -> None:
        self._sink.write(json.dumps(message).encode() + b"\n")
        self._sink.flush()

    def _receive(self, source: IO[bytes]) -> None:
        """In a thread of its own, until the process ends, or writes what is no answer."""
        try:
            for line in source:
                self._complete(json.loads(line))
        except (ValueError, KeyError, TypeError):
            logger.exception("The process that copies to the store wrote what is no answer")
        finally:
            self._process.kill()
            status = self._process.wait()
            with self._lock:
                self.has_ended = True
                left = list(self._copies.values())
                self._copies.clear()
            source.close()
            if left:
                logger.warning("The process that copies to the store has ended: status %d", status)
            for future in left:
                future.set_exception(RemoteStorageError("the process that copies has ended"))

    def _complete(self, answer: Mapping[str, Any]) -> None:
        with self._lock:
            future = self._copies.pop(answer["copy"])
        if "failed" in answer:
            future.set_exception(RemoteStorageError(answer["failed"]))
        else:
            custom = answer["custom"]
            future.set_result(None if custom is None else base64.b64decode(custom))
