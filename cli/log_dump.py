"""Prints segments, indexes and producer snapshots line for line as kafka.tools.DumpLogSegments.

Files are opened only to be read, so a running broker's may be dumped. Index entries are checked
against the log beside them; mismatches are reported at the end, on standard error.

Mirrors: kafka.tools.DumpLogSegments. Leaves out KRaft's files and decoder classes.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from ..protocol.errors import KafkaError, ProtocolError
from ..protocol.records.batch import (
    NO_TIMESTAMP,
    BatchHeader,
    ControlRecordType,
    EndTxnMarker,
    Record,
    crc_is_valid,
    iter_records,
    parse_control_record_type,
)
from ..protocol.records.message_set import inner_checksums
from ..storage import offset_index, time_index
from ..storage.batch_scan import scan_batches, scan_headers
from ..storage.files import DataFile, Files
from ..storage.producer_snapshot import CorruptSnapshot, decode_snapshot
from ..storage.transaction_index import TransactionIndex
from .options import UserError

MAX_INT = 2**31 - 1
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

Write = Callable[[str], object]
Pairs = list[tuple[int, int]]


class Decoder(Protocol):
    def text_of(self, record: Record) -> tuple[str | None, str | None]: ...


@dataclass(slots=True, frozen=True)
class DumpOptions:
    deep: bool = False
    contents: bool = False
    metadata: bool = True
    verify_only: bool = False
    sanity_only: bool = False
    max_bytes: int = MAX_INT
    max_message_bytes: int = 5 * 1024 * 1024


class Dump:
    """One run over some files; complaints are collected and printed last."""

    def __init__(self, options: DumpOptions, decoder: Decoder, out: Write, err: Write) -> None:
        self._options = options
        self._decoder = decoder
        self._out = out
        self._err = err
        self._files = Files()
        self._gaps: dict[str, Pairs] = {}
        self._offset_mismatches: dict[str, Pairs] = {}
        self._time_mismatches: dict[str, Pairs] = {}
        self._times_out_of_order: dict[str, Pairs] = {}
        self._offsets_not_found: dict[str, Pairs] = {}

    def run(self, names: list[str]) -> None:
        dumps = {
            ".log": self._dump_log,
            ".index": self._dump_offset_index,
            ".timeindex": self._dump_time_index,
            ".txnindex": self._dump_transaction_index,
            ".snapshot": self._dump_snapshot,
        }
        for name in names:
            self._out(f"Dumping {name}\n")
            dump = dumps.get(os.path.splitext(name)[1])
            if dump is None:
                self._err(f"Ignoring unknown file {name}\n")
                continue
            try:
                dump(name)
            except (KafkaError, ProtocolError) as error:
                raise UserError(f"{name}: {error}") from None
            except OSError as error:
                raise UserError(f"{error.filename}: {error.strerror}") from None
        self._tell_complaints()

    # Segments

    def _dump_log(self, name: str) -> None:
        options = self._options
        self._out(f"Log starting offset: {_base_offset(name)}\n")
        file = self._files.open_to_read(name)
        end = min(file.size(), options.max_bytes)
        valid = 0
        last_offset = -1
        for position, header, batch in scan_batches(file, 0, end):
            self._out(_batch_line(header, batch, position))
            if options.deep:
                last_offset = self._dump_records(name, header, batch, last_offset)
            valid = position + header.size_in_bytes
        if end > valid and options.max_bytes == MAX_INT:
            self._out(f"Found {end - valid} invalid bytes at the end of {os.path.basename(name)}\n")

    def _dump_records(
        self, name: str, header: BatchHeader, batch: memoryview, last_offset: int
    ) -> int:
        options = self._options
        checksums = inner_checksums(batch, 0) if header.magic < 2 else []
        for number, record in enumerate(iter_records(batch)):
            if last_offset not in (-1, record.offset - 1):
                self._gaps.setdefault(_absolute(name), []).insert(0, (last_offset, record.offset))
            last_offset = record.offset
            line, prefix = "", "| "
            if options.metadata:
                checksum = checksums[number] if checksums else None
                line, prefix = prefix + _record_text(header, record, checksum), " "
            if options.contents and not header.is_control:
                key, value = self._decoder.text_of(record)
                if key is not None:
                    line += f"{prefix}key: {key}"
                if value is not None:
                    line += f" payload: {value}"
            self._out(line + "\n")
        return last_offset

    # Indexes

    def _dump_offset_index(self, name: str) -> None:
        base, log = _base_offset(name), self._log_beside(name)
        data = self._files.read(name)
        entries = list(offset_index.decode_entries(data, base))
        if not entries:
            self._out(f"{name} is empty.\n")
            return
        if self._options.sanity_only:
            _check_sanity(name, data, offset_index.OffsetIndex.ENTRY_SIZE, entries[-1][0] >= base)
            self._out(f"{name} passed sanity check.\n")
            return
        for number, (offset, position) in enumerate(entries):
            if offset == base and number:
                return  # a file that was not cut to its entries
            end = min(log.size(), position + self._options.max_message_bytes)
            found = _first_header(scan_headers(log, position, end), name, position)
            if found.last_offset != offset:
                mismatches = self._offset_mismatches.setdefault(_absolute(name), [])
                mismatches.insert(0, (offset, found.last_offset))
            if not self._options.verify_only:
                self._out(f"offset: {offset} position: {position}\n")

    def _dump_time_index(self, name: str) -> None:
        base, log = _base_offset(name), self._log_beside(name)
        data = self._files.read(name)
        entries = list(time_index.decode_entries(data, base))
        if self._options.sanity_only:
            sane = not entries or (entries[-1][0] >= entries[0][0] and entries[-1][1] >= base)
            _check_sanity(name, data, time_index.TimeIndex.ENTRY_SIZE, sane)
            self._out(f"{name} passed sanity check.\n")
            return
        offsets = self._files.read(_sibling(name, ".index"))
        positions = list(offset_index.decode_entries(offsets, base))
        previous = NO_TIMESTAMP
        for number, (timestamp, offset) in enumerate(entries):
            if offset == base and number:
                return
            self._check_time(name, log, positions, (timestamp, offset), previous)
            if not self._options.verify_only:
                self._out(f"timestamp: {timestamp} offset: {offset}\n")
            previous = timestamp

    def _check_time(
        self, name: str, log: DataFile, positions: Pairs, entry: tuple[int, int], previous: int
    ) -> None:
        """The batch that ends at the entry's offset must have its timestamp as the largest."""
        timestamp, offset = entry
        number = bisect_right(positions, offset, key=lambda pair: pair[0])
        start = positions[number - 1][1] if number else 0
        for _, header, batch in scan_batches(log, start, log.size()):
            if header.last_offset < offset:
                continue
            if header.last_offset > offset:
                self._offsets_not_found.setdefault(name, []).append((offset, header.last_offset))
                return
            latest = max((r.timestamp for r in iter_records(batch)), default=NO_TIMESTAMP)
            if latest != timestamp:
                self._time_mismatches.setdefault(_absolute(name), []).append((timestamp, latest))
            if previous >= timestamp:
                self._times_out_of_order.setdefault(_absolute(name), []).append(
                    (timestamp, previous)
                )
            return
        self._offsets_not_found.setdefault(name, []).append((offset, -1))

    def _log_beside(self, name: str) -> DataFile:
        return self._files.open_to_read(_sibling(name, ".log"))

    # Transactions and producers

    def _dump_transaction_index(self, name: str) -> None:
        for entry in TransactionIndex(self._files, name).entries:
            self._out(
                f"version: 0 producerId: {entry.producer_id} firstOffset: {entry.first_offset} "
                f"lastOffset: {entry.last_offset} lastStableOffset: {entry.last_stable_offset}\n"
            )

    def _dump_snapshot(self, name: str) -> None:
        try:
            entries = decode_snapshot(self._files.read(name))
        except CorruptSnapshot as error:
            self._err(f"{name}: {error}\n")
            return
        for entry in entries:
            line = (
                f"producerId: {entry.producer_id} producerEpoch: {entry.epoch} "
                f"coordinatorEpoch: {entry.coordinator_epoch} currentTxnFirstOffset: "
                f"{_optional_long(entry.current_txn_first_offset)} "
                f"lastTimestamp: {entry.last_timestamp} "
            )
            for batch in entry.batches:
                line += (
                    f"firstSequence: {batch.first_sequence} lastSequence: {batch.last_sequence} "
                    f"lastOffset: {batch.last_offset} offsetDelta: {batch.offset_delta} "
                    f"timestamp: {batch.timestamp}"
                )
            self._out(line + "\n")

    # Complaints

    def _tell_complaints(self) -> None:
        for title, line, found in (
            ("Mismatches in :{}", "  Index offset: {}, log offset: {}", self._offset_mismatches),
            ("Found timestamp mismatch in :{}", "  Index timestamp: {}, log timestamp: {}",
             self._time_mismatches),
            ("Found out of order timestamp in :{}",
             "  Index timestamp: {}, Previously indexed timestamp: {}", self._times_out_of_order),
            ("The following indexed offsets are not found in the log.",
             "Indexed offset: {}, found log offset: {}", self._offsets_not_found),
            ("Non-consecutive offsets in {}", "  {} is followed by {}", self._gaps),
        ):  # fmt: skip
            for name, pairs in found.items():
                self._err(title.format(name) + "\n")
                for pair in pairs:
                    self._err(line.format(*pair) + "\n")


def _base_offset(name: str) -> int:
    text = os.path.basename(name).split(".")[0]
    if not text.isdigit():
        raise UserError(f"{name} is not named by the offset that it begins at")
    return int(text)


def _sibling(name: str, suffix: str) -> str:
    return os.path.join(os.path.dirname(name), os.path.basename(name).split(".")[0] + suffix)


def _absolute(name: str) -> str:
    return os.path.abspath(name)


def _check_sanity(name: str, data: bytes, entry_size: int, last_is_sane: bool) -> None:
    if len(data) % entry_size:
        raise UserError(f"{name}: {len(data)} bytes are no whole number of entries")
    if not last_is_sane:
        raise UserError(f"{name}: the last entry lies before the first")


def _first_header(
    headers: Iterator[tuple[int, BatchHeader]], name: str, position: int
) -> BatchHeader:
    for _, header in headers:
        return header
    raise UserError(f"{name}: there is no batch at position {position} of the log")


def _optional_long(value: int | None) -> str:
    return "OptionalLong.empty" if value is None or value < 0 else f"OptionalLong[{value}]"


def _true_or_false(value: bool) -> str:
    return "true" if value else "false"


def _time_type(header: BatchHeader) -> str:
    if header.magic == 0:
        return "NoTimestampType"
    return "LogAppendTime" if header.timestamp_type else "CreateTime"


def _batch_line(header: BatchHeader, batch: memoryview, position: int) -> str:
    if header.magic < 2:
        head = f"offset: {header.last_offset}"
    else:
        horizon = _optional_long(header.delete_horizon_ms)
        head = (
            f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} "
            f"count: {header.record_count} baseSequence: {header.base_sequence} "
            f"lastSequence: {header.last_sequence} producerId: {header.producer_id} "
            f"producerEpoch: {header.producer_epoch} "
            f"partitionLeaderEpoch: {header.partition_leader_epoch} "
            f"isTransactional: {_true_or_false(header.is_transactional)} "
            f"isControl: {_true_or_false(header.is_control)} deleteHorizonMs: {horizon}"
        )
    return (
        f"{head} position: {position} {_time_type(header)}: {header.max_timestamp} "
        f"size: {header.size_in_bytes} magic: {header.magic} "
        f"compresscodec: {_CODECS[header.compression]} crc: {header.crc} "
        f"isvalid: {_true_or_false(crc_is_valid(batch, 0, header))}\n"
    )


def _record_text(header: BatchHeader, record: Record, checksum: tuple[int, bool] | None) -> str:
    key_size = -1 if record.key is None else len(record.key)
    value_size = -1 if record.value is None else len(record.value)
    text = (
        f"offset: {record.offset} {_time_type(header)}: {record.timestamp} "
        f"keySize: {key_size} valueSize: {value_size}"
    )
    if header.magic >= 2:
        names = ",".join(name for name, _ in record.headers)
        text += f" sequence: {record.sequence} headerKeys: [{names}]"
    if checksum is not None:
        crc, valid = checksum
        text += f" isValid: {_true_or_false(valid)} crc: {crc}}}"
    if header.is_control:
        text += _control_text(record)
    return text


def _control_text(record: Record) -> str:
    kind = parse_control_record_type(record.key)
    if kind in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        marker = EndTxnMarker.parse(record.key, record.value)
        return f" endTxnMarker: {kind.name} coordinatorEpoch: {marker.coordinator_epoch}"
    return f" controlType: {kind.name}({kind})"
