"""The fast paths of compaction against slow, obvious ones: the key map, what stays of a batch."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.protocol.records.batch import (
    Compression,
    SimpleRecord,
    TimestampType,
    crc_is_valid,
    iter_records,
    read_batch_header,
)
from pybroker_kafka.protocol.records.builder import build_batch, build_empty_batch
from pybroker_kafka.storage.cleaner.batches import BatchFilter
from pybroker_kafka.storage.cleaner.offset_map import OffsetMap
from tests.support.conversions import rebuild

NOW_MS, RETENTION_MS = 10_000, 500

keys = st.one_of(st.none(), st.binary(max_size=3), st.binary(min_size=60, max_size=80))
records = st.lists(
    st.builds(
        SimpleRecord,
        st.one_of(st.integers(0, 100), st.integers(-1, 2**41)),
        keys,
        st.one_of(st.none(), st.binary(max_size=5), st.binary(min_size=120, max_size=140)),
        st.lists(st.tuples(st.text(max_size=3), st.one_of(st.none(), st.binary(max_size=3)))),
    ),
    min_size=1,
    max_size=12,
)


@given(
    content=records,
    codec=st.sampled_from(list(Compression)),
    log_append_time=st.one_of(st.none(), st.integers(0, 2**41)),
    horizon_ms=st.sampled_from([None, NOW_MS - 1, NOW_MS, NOW_MS + 1]),
    base_offset=st.integers(0, 2**40),
    latest=st.integers(0, 12),
    later=st.sets(st.integers(0, 11)),
    keep_empty=st.booleans(),
)
def test_what_stays_of_a_batch(
    content: list[SimpleRecord],
    codec: Compression,
    log_append_time: int | None,
    horizon_ms: int | None,
    base_offset: int,
    latest: int,
    later: set[int],
    keep_empty: bool,
) -> None:
    batch = build_batch(
        content,
        base_offset=base_offset,
        compression=codec,
        log_append_time=log_append_time,
        producer_id=5,
        producer_epoch=1,
        base_sequence=3,
        partition_leader_epoch=2,
    )
    if horizon_ms is not None:
        batch = rebuild(read_batch_header(batch), iter_records(batch), delete_horizon_ms=horizon_ms)
    header = read_batch_header(batch)
    offset_map = OffsetMap(1 << 16, 0.9)
    for number, record in enumerate(content):
        if record.key is not None:
            offset_map.put_all([record.key], [base_offset + number + 100 * (number in later)])
    offset_map.latest_offset = base_offset + latest

    found = BatchFilter(offset_map, NOW_MS, RETENTION_MS).keep_data(
        batch, header, keep_empty=keep_empty
    )

    last = {r.key: base_offset + n + 100 * (n in later) for n, r in enumerate(content)}
    is_past = horizon_ms is not None and horizon_ms <= NOW_MS
    wanted = [
        record
        for record in iter_records(batch)
        if record.offset > base_offset + latest
        or (
            record.key is not None
            and record.offset >= last[record.key]
            and not (record.value is None and is_past)
        )
    ]
    if not wanted:
        assert found.batch == (build_empty_batch(header) if keep_empty else None)
        return
    new_horizon_ms = header.delete_horizon_ms
    if new_horizon_ms is None and any(record.value is None for record in wanted):
        new_horizon_ms = NOW_MS + RETENTION_MS
    if len(wanted) == len(content) and new_horizon_ms == header.delete_horizon_ms:
        assert found.batch is batch
    else:
        assert found.batch == rebuild(header, wanted, delete_horizon_ms=new_horizon_ms)
    assert found.batch is not None
    kept = read_batch_header(found.batch)
    assert found.header._replace(crc=0) == kept._replace(crc=0)
    assert crc_is_valid(found.batch, 0, kept)
    assert kept.timestamp_type is (
        TimestampType.CREATE_TIME if log_append_time is None else TimestampType.LOG_APPEND_TIME
    )
    assert (found.read, found.kept) == (len(content), len(wanted))


@given(
    puts=st.lists(st.lists(st.binary(max_size=2), max_size=30), max_size=20),
    slots=st.integers(2, 400),
    load_factor=st.sampled_from([0.6, 0.9, 1.0]),
)
def test_the_map_and_a_dictionary(puts: list[list[bytes]], slots: int, load_factor: float) -> None:
    offset_map = OffsetMap(slots * 24, load_factor)
    twin: dict[bytes, int] = {}
    limit = int(slots * load_factor)
    offset = 0
    for group in puts:
        offsets = list(range(offset, offset + len(group)))
        offset += len(group)
        fitted = offset_map.put_all(group, offsets)
        for key, at in zip(group, offsets, strict=True):
            if len(twin) >= limit:
                assert not fitted
                break
            twin[key] = at
        else:
            assert fitted
        assert len(offset_map) == len(twin)
        assert {key: offset_map.look_up(key) for key in twin} == twin
        assert offset_map.look_up(b"not there") in (None, -1)
        if not fitted:
            break
    assert offset_map.latest_offset == max(twin.values(), default=-1)
    assert offset_map.utilization == len(twin) / slots


def test_many_keys_go_into_the_table_and_are_found_there() -> None:
    """The dictionary takes a quarter of the memory, the table the whole of it."""
    memory = 24 * 5000
    offset_map = OffsetMap(memory, 0.9)
    keys = [b"key-%d" % number for number in range(4600)]
    assert not offset_map.put_all(keys, list(range(len(keys))))
    assert len(offset_map) == offset_map.limit == 4500
    assert offset_map.latest_offset == 4499
    assert [offset_map.look_up(key) for key in keys[:4500]] == list(range(4500))
    assert offset_map.look_up(keys[4500]) == -1
