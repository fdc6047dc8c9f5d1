"""One compacted log, with short ways to fill it, clean it and see what stays."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pybroker_kafka.protocol.records.batch import (
    Compression,
    ControlRecordType,
    EndTxnMarker,
    SimpleRecord,
    crc_is_valid,
    iter_batch_headers,
)
from pybroker_kafka.protocol.records.builder import build_batch, build_end_txn_marker
from pybroker_kafka.storage.append_info import AppendOrigin
from pybroker_kafka.storage.cleaner.manager import CleanerSettings
from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.log_manager import LogManager
from tests.support.appends import append_as_leader
from tests.support.cleaning import (
    SETTINGS,
    clean,
    surviving,
)
from tests.support.conversions import build_message_set
from tests.unit.storage.helpers import TOPIC_ID, config_of, manager_of

Pairs = Sequence[tuple[str | None, str | None]]


class Compacted:
    """One compacted log."""

    def __init__(self, directory: Path, **overrides: object) -> None:
        values = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.0"} | overrides
        self.directory = directory
        self.config = config_of(**values)
        self.epoch = 0
        self.open()

    def open(self, now_ms: int = 0) -> None:
        self.manager: LogManager = manager_of(self.directory, config=self.config, now_ms=now_ms)
        self.log: Log = self.manager.get_or_create_log("t", 0, TOPIC_ID, None, now_ms)

    def reopen(self, *, cleanly: bool = True, now_ms: int = 0) -> None:
        if cleanly:
            self.manager.clean_shutdown()
        else:
            self.manager.release()
        self.open(now_ms)
        self.settle()

    def put(
        self,
        pairs: Pairs,
        *,
        timestamp: int = 1000,
        codec: Compression = Compression.NONE,
        producer: tuple[int, int, int] = (-1, -1, -1),
        transactional: bool = False,
    ) -> int:
        """One batch; returns its first offset."""
        records = [
            SimpleRecord(
                timestamp + i,
                None if key is None else key.encode(),
                None if value is None else value.encode(),
                (("header", b"h"),) if i % 2 else (),
            )
            for i, (key, value) in enumerate(pairs)
        ]
        batch = build_batch(
            records,
            compression=codec,
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=producer[2],
            is_transactional=transactional,
        )
        return self.append(batch)

    def append(self, batch: bytearray, origin: AppendOrigin = AppendOrigin.CLIENT) -> int:
        info = append_as_leader(self.log, batch, leader_epoch=self.epoch, now_ms=0, origin=origin)
        self.settle()
        return info.first_offset

    def marker(self, producer_id: int, kind: ControlRecordType, timestamp: int = 1000) -> int:
        batch = build_end_txn_marker(
            EndTxnMarker(kind, 0), timestamp=timestamp, producer_id=producer_id, producer_epoch=0
        )
        return self.append(batch, AppendOrigin.COORDINATOR)

    def append_old(self, pairs: Pairs, magic: int, codec: Compression, base: int) -> None:
        """As a replica of an old leader."""
        data = build_message_set(
            [
                SimpleRecord(1000, (k or "").encode(), None if v is None else v.encode())
                for k, v in pairs
            ],
            magic=magic,
            base_offset=base,
            compression=codec,
        )
        self.log.append_as_follower(data, now_ms=0)
        self.settle()

    def settle(self) -> None:
        self.log.update_high_watermark(self.log.log_end_offset)

    def roll(self) -> None:
        self.log.roll(0)

    def clean(self, now_ms: int = 2000, settings: CleanerSettings = SETTINGS) -> bool:
        return clean(self.manager, now_ms, settings) is not None

    @property
    def pairs(self) -> list[tuple[int, str | None, str | None]]:
        return [
            (r.offset, _text(r.key), _text(r.value))
            for r in surviving(self.log)
            if not r.attributes & 0x20
        ]

    @property
    def offsets(self) -> list[int]:
        return [record.offset for record in surviving(self.log)]


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


def crc_of_all(log: Log) -> bool:
    for segment in log.segments:
        data = segment.log_file.read_at(segment.size, 0)
        for position, header in iter_batch_headers(data):
            if not crc_is_valid(data, position, header):
                return False
    return True
