"""Logs with a remote tier, for tests."""

from __future__ import annotations

from pathlib import Path

from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.log_config import LogConfig
from tests.support.faulty_files import FaultyFiles
from tests.unit.storage.helpers import TOPIC_ID, manager_of

SYSTEM = {"remote.log.storage.system.enable": "true"}


def tiered_config(**overrides: object) -> LogConfig:
    """The config of a tiered topic; `segment_bytes=100` is `segment.bytes=100`."""
    texts = {name.replace("_", "."): str(value) for name, value in overrides.items()}
    return LogConfig.from_overrides({"remote.storage.enable": "true", **texts}, SYSTEM)


def tiered_log(
    directory: Path | str, files: FaultyFiles | None = None, topic: str = "t", **overrides: object
) -> Log:
    manager = manager_of(directory, files=files, config=tiered_config(**overrides))
    return manager.get_or_create_log(topic, 0, TOPIC_ID, None, 0)
