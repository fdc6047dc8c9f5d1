"""Segments as objects, in memory and in a directory; S3 is in tests/compat/."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from pybroker_kafka.storage.remote.folders import LocalTieredStorage
from pybroker_kafka.storage.remote.loading import OBJECT_STORE, InvalidStorageManager, load
from pybroker_kafka.storage.remote.object_store import ObjectStore
from pybroker_kafka.storage.remote.storage_manager import RemoteStorageError
from pybroker_kafka.testkit.tiered import Copied, RemoteStorageManagerTests


class TestMemory(RemoteStorageManagerTests):
    def make_manager(self, directory: Path) -> ObjectStore:
        return ObjectStore({"url": f"memory:///{directory}", "broker.id": "1"})


class TestDirectory(RemoteStorageManagerTests):
    def make_manager(self, directory: Path) -> ObjectStore:
        return ObjectStore({"url": f"file://{directory}", "broker.id": "1"})


def test_a_directory_of_objects_is_that_of_local_tiered_storage(tmp_path: Path) -> None:
    objects = ObjectStore({"url": f"file://{tmp_path}/kafka-tiered-storage"})
    segment = Copied(tmp_path / "one")
    segment.copy_to(objects)
    segment.check_in(LocalTieredStorage({"dir": str(tmp_path)}))


@pytest.mark.parametrize(
    ("configs", "text"),
    [
        ({}, "`url` is missing"),
        ({"url": "ftp://somewhere"}, "ftp"),
        ({"url": "s3://bucket", "secret_access_key": "hunter2", "bogus": "hunter2"}, "bogus"),
        ({"url": "s3://bucket", "retry.max": "often"}, r"`retry\.max` is no number"),
        ({"url": "s3://bucket", "client.bogus": "1"}, "bogus"),
    ],
)
def test_wrong_configs_are_named_without_secrets(configs: Mapping[str, str], text: str) -> None:
    with pytest.raises(InvalidStorageManager, match=text) as caught:
        load(OBJECT_STORE, configs)
    assert "hunter2" not in str(caught.value)


def test_without_obstore_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(InvalidStorageManager, match=r"pip install 'pybroker-kafka\[tier\]'"):
        load(OBJECT_STORE, {"url": "s3://bucket"})


def test_a_segment_of_another_size_is_refused(tmp_path: Path) -> None:
    segment = Copied(tmp_path / "one")
    Path(segment.data.log_segment).write_bytes(b"shorter")
    with pytest.raises(RemoteStorageError, match="7 bytes instead of 3000"):
        segment.copy_to(ObjectStore({"url": "memory:///sizes"}))


def test_a_truncated_object_is_an_error_of_the_store(tmp_path: Path) -> None:
    store = ObjectStore({"url": f"file://{tmp_path}/store"})
    segment = Copied(tmp_path / "one")
    segment.copy_to(store)
    (log,) = (tmp_path / "store").rglob("*.log")
    log.write_bytes(segment.log[:1000])
    for start, end in ((500, 1500), (2000, 2500)):
        with pytest.raises(RemoteStorageError, match=r"\.log"):
            store.fetch_log_segment(segment.metadata, start, end)


def test_errors_are_one_line_without_secrets(tmp_path: Path) -> None:
    store = ObjectStore(
        {
            "url": "s3://bucket/prefix",
            "endpoint": "http://127.0.0.1:1/hunter2",
            "client.allow_http": "true",
            "access_key_id": "someone",
            "secret_access_key": "hunter2",
            "region": "nowhere",
            "retry.max": "0",
        }
    )
    segment = Copied(tmp_path / "one")
    with pytest.raises(RemoteStorageError) as caught:
        store.fetch_log_segment(segment.metadata, 0, 10)
    text = str(caught.value)
    assert "hunter2" not in text
    assert "[hidden]" in text
    assert "\n" not in text
    assert caught.value.__cause__ is None
