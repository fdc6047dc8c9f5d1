"""Segments in an object store: S3 and its like, Google's, Azure's; memory, for tests.

Configs:
- `url`, required: `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX`, `az://CONTAINER/PREFIX`,
  `file:///DIRECTORY`, `memory:///NAME` (one store for each name in this process).
- `client.*`: options of the HTTP client, such as `client.allow_http` or `client.timeout`.
- `retry.timeout.seconds` (30), after which a call gives up, and `retry.max` (3).
- Any other key is one of the store's: `region`, `endpoint`, `access_key_id` ... Without credentials
  those of the environment are used. An unknown key is an error.

Names of objects are those of LocalTieredStorage's files (`folders`), one object a file. `.log` is
written last and deleted first: a segment with it is a complete copy. An upload is seen whole or not
at all; one that was cut off may leave hidden parts, which a lifecycle rule of the bucket removes.

Needs obstore: `pip install pybroker-kafka[tier]`. Mirrors: nothing of Apache Kafka's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ...protocol.primitives import Buffer
from .folders import ALL_SUFFIXES, LOG_SUFFIX, SUFFIXES, file_name, folder_name
from .secret_configs import without_secrets
from .segments import RemoteLogSegmentMetadata
from .storage_manager import (
    IndexType,
    LogSegmentData,
    RemoteResourceNotFoundError,
    RemoteStorageError,
)

if TYPE_CHECKING:
    from obstore.store import MemoryStore
    from obstore.store import ObjectStore as Store

PART_BYTES: Final = 8 * 1024 * 1024
MOST_PARTS_AT_ONCE: Final = 4
RETRY_TIMEOUT_SECONDS: Final = 30.0
MOST_RETRIES: Final = 3
CLIENT_PREFIX: Final = "client."
_OWN_KEYS: Final = ("broker.id", "retry.max", "retry.timeout.seconds", "url")
# Stores in memory by URL, for all managers of this process.
_memory: dict[str, MemoryStore] = {}


class ObjectStore:
    __slots__ = ("_configs", "_store", "url")

    def __init__(self, configs: Mapping[str, str]) -> None:
        self._configs = configs
        self.url = configs.get("url", "")
        if not self.url:
            raise ValueError("`url` is missing: s3://BUCKET/PREFIX, for example")
        try:
            self._store = _open(self.url, configs)
        except ImportError:
            raise ValueError(
                "object stores need obstore: pip install 'pybroker-kafka[tier]'"
            ) from None

    def copy_log_segment_data(
        self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData
    ) -> bytes | None:
        import obstore

        files: dict[str, str | bytes | None] = {
            SUFFIXES[IndexType.PRODUCER_SNAPSHOT]: data.producer_snapshot,
            SUFFIXES[IndexType.LEADER_EPOCH]: data.leader_epochs,
            SUFFIXES[IndexType.TRANSACTION]: data.transaction_index,
            SUFFIXES[IndexType.TIMESTAMP]: data.time_index,
            SUFFIXES[IndexType.OFFSET]: data.offset_index,
            LOG_SUFFIX: data.log_segment,
        }
        with self._errors(f"copying {metadata.segment_id}", not_found=RemoteStorageError):
            size = os.stat(data.log_segment).st_size
            if size != metadata.segment_size_bytes:
                raise RemoteStorageError(
                    f"{metadata.segment_id} has {size} bytes instead of "
                    f"{metadata.segment_size_bytes}"
                )
            for suffix, file in files.items():
                if file is not None:
                    obstore.put(
                        self._store,
                        _path(metadata, suffix),
                        file if isinstance(file, bytes) else Path(file),
                        chunk_size=PART_BYTES,
                        max_concurrency=MOST_PARTS_AT_ONCE,
                    )
        return None

    def fetch_log_segment(self, metadata: RemoteLogSegmentMetadata, start: int, end: int) -> Buffer:
        import obstore

        end = min(end, metadata.segment_size_bytes)
        if start >= end:
            return b""
        path = _path(metadata, LOG_SUFFIX)
        with self._errors(f"reading {path}"):
            data = obstore.get_range(self._store, path, start=start, end=end)
        if len(data) != end - start:
            raise RemoteStorageError(f"{path} ends at {start + len(data)}, before {end}")
        return memoryview(data)

    def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> Buffer:
        import obstore

        path = _path(metadata, SUFFIXES[index_type])
        with self._errors(f"reading {path}"):
            return memoryview(obstore.get(self._store, path).bytes())

    def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        import obstore

        for suffix in ALL_SUFFIXES:
            path = _path(metadata, suffix)
            try:
                with self._errors(f"deleting {path}"):
                    obstore.delete(self._store, path)
            except RemoteResourceNotFoundError:
                continue

    def close(self) -> None:
        """Nothing is kept open that would have to be closed."""

    @contextmanager
    def _errors(
        self, action: str, not_found: type[RemoteStorageError] = RemoteResourceNotFoundError
    ) -> Iterator[None]:
        """Errors of the store as those of the contract, in one line without secrets."""
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, OSError, ValueError) as error:
            kind = not_found if isinstance(error, FileNotFoundError) else RemoteStorageError
            reason = str(error).partition("\n")[0].strip() or type(error).__name__
            raise kind(without_secrets(f"{action}: {reason}", self._configs)) from None


def _path(metadata: RemoteLogSegmentMetadata, suffix: str) -> str:
    return f"{folder_name(metadata.topic_id_partition)}/{file_name(metadata)}{suffix}"


T = TypeVar("T")


def _number(configs: Mapping[str, str], key: str, kind: Callable[[str], T], default: T) -> T:
    text = configs.get(key)
    try:
        return default if text is None else kind(text)
    except ValueError:
        raise ValueError(f"`{key}` is no number") from None


def _open(url: str, configs: Mapping[str, str]) -> Store:
    """Raises ValueError, or an error of obstore."""
    from obstore.store import MemoryStore, from_url

    client = {
        key.removeprefix(CLIENT_PREFIX): value
        for key, value in configs.items()
        if key.startswith(CLIENT_PREFIX)
    }
    store: dict[str, Any] = {
        key: value
        for key, value in configs.items()
        if key not in _OWN_KEYS and not key.startswith(CLIENT_PREFIX)
    }
    retry: dict[str, Any] = {
        "max_retries": _number(configs, "retry.max", int, MOST_RETRIES),
        "retry_timeout": timedelta(
            seconds=_number(configs, "retry.timeout.seconds", float, RETRY_TIMEOUT_SECONDS)
        ),
    }
    if url.startswith("memory:"):
        return _memory.setdefault(url, MemoryStore())
    if url.startswith("file:"):
        Path(url.removeprefix("file://")).mkdir(parents=True, exist_ok=True)
        return from_url(url)
    arguments: dict[str, Any] = {"config": store, "retry_config": retry, "client_options": client}
    return from_url(url, **arguments)
