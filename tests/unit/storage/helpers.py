"""Short ways to logs and batches."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pybroker_kafka.protocol.records.batch import Compression, SimpleRecord
from pybroker_kafka.protocol.records.builder import build_batch
from pybroker_kafka.protocol.wall_clock import WallClock
from pybroker_kafka.storage.files import Files
from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.log_config import LogConfig
from pybroker_kafka.storage.log_manager import LogManager, LogManagerConfig
from tests.support.faulty_files import FaultyFiles

TOPIC_ID = bytes(range(16))


def config_of(**overrides: object) -> LogConfig:
    """LogConfig with some keys set; `segment_bytes=100` is `segment.bytes=100`."""
    return LogConfig.from_overrides(
        {name.replace("_", "."): str(value) for name, value in overrides.items()}, {}
    )


def manager_of(
    *directories: Path | str,
    files: Files | None = None,
    config: LogConfig | None = None,
    settings: LogManagerConfig | None = None,
    now_ms: int = 0,
    wall: WallClock | None = None,
) -> LogManager:
    manager = LogManager(
        [str(d) for d in directories],
        files or FaultyFiles(),
        config or config_of(),
        broker_id=1,
        cluster_id="cluster",
        config=settings,
        wall=wall,
    )
    manager.load(now_ms)
    return manager


def log_of(directory: Path | str, files: Files | None = None, **overrides: Any) -> Log:
    manager = manager_of(directory, files=files, config=config_of(**overrides))
    return manager.get_or_create_log("t", 0, TOPIC_ID, None, 0)


def batch_of(
    *values: bytes | None,
    timestamp: int = 1000,
    timestamps: Sequence[int] | None = None,
    key: bytes | None = b"k",
    codec: Compression = Compression.NONE,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
) -> bytearray:
    times = timestamps or [timestamp] * len(values)
    return build_batch(
        [SimpleRecord(t, key, v) for t, v in zip(times, values, strict=True)],
        compression=codec,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=transactional,
    )
