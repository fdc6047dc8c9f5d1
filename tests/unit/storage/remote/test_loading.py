"""`remote.log.storage.manager.class.name`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from pybroker_kafka.storage.remote.folders import LocalTieredStorage
from pybroker_kafka.storage.remote.loading import (
    LOCAL_TIERED_STORAGE,
    InvalidStorageManager,
    load,
)


class Mine(LocalTieredStorage):
    pass


class Refusing:
    def __init__(self, configs: Mapping[str, str]) -> None:
        raise OSError(f"no access to {configs['bucket']} with {configs['secret_access_key']}")


class NoManager:
    def __init__(self, configs: Mapping[str, str]) -> None:
        pass

    def fetch_index(self) -> None:
        pass


HERE = f"python:{__name__}."


def test_kafkas_name_and_names_of_classes_are_loaded(tmp_path: Path) -> None:
    configs = {"dir": str(tmp_path), "broker.id": "1"}
    assert isinstance(load(LOCAL_TIERED_STORAGE, configs), LocalTieredStorage)
    assert isinstance(load(HERE + "Mine", configs), Mine)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("io.aiven.kafka.tieredstorage.RemoteStorageManager", "a class of Java.*object stores"),
        ("python:no.such.module.Class", r"there is no class no\.such\.module\.Class"),
        ("python:Class", "there is no class Class"),
        (HERE + "Nobody", "there is no class"),
        (HERE + "NoManager", "lacks copy_log_segment_data, fetch_log_segment"),
        (LOCAL_TIERED_STORAGE, "`dir` is missing"),
    ],
)
def test_others_are_refused_with_a_hint(name: str, text: str) -> None:
    with pytest.raises(InvalidStorageManager, match=text):
        load(name, {"broker.id": "1"})


def test_secrets_are_not_shown() -> None:
    configs = {"bucket": "history", "secret_access_key": "hunter2"}
    with pytest.raises(InvalidStorageManager) as caught:
        load(HERE + "Refusing", configs)
    assert "OSError: no access to history with [hidden]" in str(caught.value)
    assert caught.value.__cause__ is None
