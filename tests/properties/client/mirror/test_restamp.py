"""What passes a mirror, compared with a twin that reads record after record."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.client.mirror import restamp as restamping
from pybroker_kafka.client.mirror.restamp import Portion, restamp
from pybroker_kafka.client.producer.batch import Identity, ReadyBatch
from pybroker_kafka.protocol.apis.fetch import AbortedTransaction
from pybroker_kafka.protocol.records.batch import (
    BatchHeader,
    ControlRecordType,
    EndTxnMarker,
    SimpleRecord,
    crc_is_valid,
    iter_batch_headers,
    iter_records,
    read_batch_header,
)
from pybroker_kafka.protocol.records.builder import assemble, build_batch, build_end_txn_marker
from tests.support.dumb_records import dumb_decode
from tests.support.record_strategies import codecs, contents, record_lists
from tests.support.slow_records import encode_record

NOW_MS = 2**62 + 1  # no record's time
PRODUCERS = st.sampled_from([7, 8])
Log = list[tuple[bytes, bool]]  # a batch, and whether it is of an aborted transaction


def with_gaps(records: list[SimpleRecord], kept: list[bool], base: int) -> bytes:
    """What compaction leaves of a batch."""
    stamp = records[0].timestamp
    chosen = [(n, one) for n, one in enumerate(records) if kept[n % len(kept)]]
    block = b"".join(
        encode_record(n, one.timestamp - stamp, one.key, one.value, one.headers)
        for n, one in chosen
    )
    whole = read_batch_header(build_batch(records, base_offset=base))
    return bytes(assemble(whole._replace(record_count=len(chosen)), block))


@st.composite
def logs(draw: st.DrawFn) -> tuple[bytes, list[AbortedTransaction], set[int]]:
    """Batches of all kinds, and the aborted transactions among them with their offsets."""
    offset = draw(st.integers(0, 5))
    log = b""
    begun: dict[int, int] = {}
    offsets_of: dict[int, set[int]] = {}
    aborted: list[AbortedTransaction] = []
    aborted_offsets: set[int] = set()
    for _ in range(draw(st.integers(0, 8))):
        kind = draw(st.sampled_from(["plain", "plain", "gaps", "appended", "in", "end"]))
        producer = draw(PRODUCERS)
        if kind == "end":
            if producer not in begun:
                continue
            is_commit = draw(st.booleans())
            marker = ControlRecordType.COMMIT if is_commit else ControlRecordType.ABORT
            log += build_end_txn_marker(
                EndTxnMarker(marker, 0), timestamp=0, producer_id=producer, producer_epoch=0,
                base_offset=offset,
            )  # fmt: skip
            if not is_commit:
                aborted.append(
                    AbortedTransaction(producer_id=producer, first_offset=begun[producer])
                )
                aborted_offsets |= offsets_of[producer]
            del begun[producer], offsets_of[producer]
            offset += 1
            continue
        records = draw(record_lists)
        if kind == "gaps":
            log += with_gaps(records, draw(st.lists(st.booleans(), min_size=1, max_size=4)), offset)
        else:
            is_in = kind == "in"
            log += build_batch(
                records,
                base_offset=offset,
                compression=draw(codecs),
                producer_id=producer if is_in else -1,
                producer_epoch=0 if is_in else -1,
                base_sequence=0 if is_in else -1,
                is_transactional=is_in,
                partition_leader_epoch=3,
                log_append_time=99 if kind == "appended" else None,
            )
            if is_in:
                begun.setdefault(producer, offset)
                offsets_of.setdefault(producer, set()).update(range(offset, offset + len(records)))
        offset += len(records)
    for producer, first in begun.items():  # they are aborted beyond the fetch
        aborted.append(AbortedTransaction(producer_id=producer, first_offset=first))
        aborted_offsets |= offsets_of[producer]
    return log, aborted, aborted_offsets


def timeless(record: tuple[Any, ...]) -> tuple[Any, ...]:
    """With -1 for the time of one that has none: it may have been given that of the mirror."""
    offset, stamp, *rest = record
    return (offset, -1 if stamp < 0 or stamp == NOW_MS else stamp, *rest)


@given(logs(), st.integers(0, 30), st.booleans(), st.booleans(), st.sampled_from([1, 200, 8192]))
def test_every_record_passes_once_with_its_offset_and_nothing_of_it_changed(
    drawn: tuple[bytes, list[AbortedTransaction], set[int]],
    position: int,
    reads_committed: bool,
    is_transactional: bool,
    small_bytes: int,
) -> None:
    log, aborted, aborted_offsets = drawn
    small, restamping.SMALL_BYTES = restamping.SMALL_BYTES, small_bytes  # type: ignore[misc]
    try:
        made = restamp(
            log,
            position,
            aborted=aborted if reads_committed else None,
            is_transactional=is_transactional,
            now_ms=NOW_MS,
        )
    finally:
        restamping.SMALL_BYTES = small  # type: ignore[misc]
    wanted = []
    next_offset = position
    for (at, header), batch in zip(iter_batch_headers(log), dumb_decode(log), strict=True):
        assert at >= 0
        if header.last_offset < position:
            continue
        next_offset = header.next_offset
        for record in batch.records if not header.is_control else ():
            if record.offset >= position and not (
                reads_committed and record.offset in aborted_offsets
            ):
                appended = bool(header.attributes & 8)
                stamp = header.max_timestamp if appended else record.timestamp
                stamp = stamp if stamp >= 0 else -1
                wanted.append((record.offset, stamp, record.key, record.value, record.headers))
    found = [
        (offset, record.timestamp, record.key, record.value, list(record.headers))
        for portion in made.portions
        for offset, record in zip(portion.offsets, iter_records(portion.data), strict=True)
    ]
    assert [timeless(one) for one in found] == [timeless(one) for one in wanted]
    assert made.next_offset == next_offset
    for portion in made.portions:
        check_for_a_leader(portion, is_transactional)


def check_for_a_leader(portion: Portion, is_transactional: bool) -> None:
    """What a leader asks of a producer's batch."""
    batch = ReadyBatch("t", 0, 0, portion.data, len(portion.offsets))
    batch.assign(Identity(5, 1), 17)
    data = bytes(portion.data)
    [(at, header)] = list(iter_batch_headers(data))
    assert crc_is_valid(data, at, header)
    assert header == BatchHeader(
        base_offset=0,
        batch_length=len(data) - 12,
        partition_leader_epoch=-1,
        magic=2,
        crc=header.crc,
        attributes=header.attributes & 7 | (0x10 if is_transactional else 0),
        last_offset_delta=len(portion.offsets) - 1,
        base_timestamp=header.base_timestamp,
        max_timestamp=portion.newest_ms,
        producer_id=5,
        producer_epoch=1,
        base_sequence=17,
        record_count=len(portion.offsets),
    )


@given(record_lists, codecs)
def test_a_batch_that_a_broker_finds_too_large_is_cut_in_two(
    records: list[SimpleRecord], codec: int
) -> None:
    data = build_batch(records, compression=codec)  # type: ignore[arg-type]
    batch = ReadyBatch("t", 0, 0, data, len(records))
    if len(records) > 1:
        parts = batch.split()
        both = [fields for part in parts for fields in part.records]
        assert contents([SimpleRecord(*fields) for fields in both]) == contents(records)
