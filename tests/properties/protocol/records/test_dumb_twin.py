"""protocol.records against its dumb twin, both ways, for every magic and codec."""

from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.protocol.records.batch import (
    Record,
    SimpleRecord,
    crc_is_valid,
    iter_batch_headers,
    iter_records,
    read_batch_header,
    read_records,
)
from pybroker_kafka.protocol.records.builder import build_batch
from pybroker_kafka.protocol.records.compression import Compression
from pybroker_kafka.protocol.records.loops.varint import encode_varlong, read_varint, read_varlong
from pybroker_kafka.protocol.records.message_set import encode_message_set
from tests.support.conversions import build_message_set, down_convert_all, recompress, up_convert
from tests.support.dumb_records import Cursor, DumbRecord, dumb_decode, dumb_encode, dumb_varint
from tests.support.record_strategies import (
    codecs,
    contents,
    legacy_codecs,
    offsets,
    record_lists,
    timestamps,
)

sequences = st.one_of(st.just(-1), st.integers(0, 10), st.integers(2**31 - 5, 2**31 - 1))


def as_dumb(records: list[Record]) -> list[DumbRecord]:
    return [
        DumbRecord(r.offset, r.timestamp, r.key, r.value, list(r.headers), r.sequence)
        for r in records
    ]


@given(st.integers(-(2**63), 2**63 - 1))
def test_varlongs(number: int) -> None:
    encoded = encode_varlong(number)
    assert encoded == dumb_varint(number)
    assert Cursor(encoded).varint() == number
    assert read_varlong(encoded, 0) == (number, len(encoded))
    if -(2**31) <= number < 2**31:
        assert read_varint(encoded, 0) == (number, len(encoded))


@given(record_lists, codecs, offsets, sequences, st.booleans(), st.none() | timestamps)
def test_built_batches_read_the_same(
    records: list[SimpleRecord],
    codec: Compression,
    base_offset: int,
    sequence: int,
    transactional: bool,
    append_time: int | None,
) -> None:
    batch = build_batch(
        records,
        base_offset=base_offset,
        compression=codec,
        producer_id=-1 if sequence < 0 else 77,
        producer_epoch=-1 if sequence < 0 else 3,
        base_sequence=sequence,
        is_transactional=transactional,
        partition_leader_epoch=9,
        log_append_time=append_time,
    )
    [twin] = dumb_decode(bytes(batch))
    header = read_batch_header(batch)
    assert header._asdict() == twin.fields
    assert crc_is_valid(batch, 0, header)
    read = list(iter_records(batch))
    assert as_dumb(read) == twin.records
    assert [r.offset for r in read] == list(range(base_offset, base_offset + len(records)))
    assert header.next_offset == base_offset + len(records)
    assert header.last_sequence == read[-1].sequence
    if append_time is None:
        assert contents(read) == contents(records)
        assert header.max_timestamp == max(r.timestamp for r in records)
    else:
        assert {r.timestamp for r in read} == {append_time}


@given(record_lists, offsets, sequences, timestamps, st.data())
def test_batches_with_gaps_read_the_same(
    records: list[SimpleRecord],
    base_offset: int,
    sequence: int,
    base_timestamp: int,
    data: st.DataObject,
) -> None:
    deltas = data.draw(
        st.lists(
            st.integers(0, 2**20), min_size=len(records), max_size=len(records), unique=True
        ).map(sorted)
    )
    encoded = dumb_encode(
        {
            "base_offset": base_offset,
            "partition_leader_epoch": -1,
            "attributes": 0x50,
            "last_offset_delta": 2**20,
            "base_timestamp": base_timestamp,
            "max_timestamp": base_timestamp,
            "producer_id": 1,
            "producer_epoch": 0,
            "base_sequence": sequence,
        },
        [
            DumbRecord(base_offset + d, r.timestamp, r.key, r.value, list(r.headers))
            for d, r in zip(deltas, records, strict=True)
        ],
    )
    header = read_batch_header(encoded)
    assert crc_is_valid(encoded, 0, header)
    assert header.delete_horizon_ms == base_timestamp
    read = list(iter_records(encoded))
    assert as_dumb(read) == dumb_decode(encoded)[0].records


@given(record_lists, st.sampled_from([0, 1]), legacy_codecs, offsets, st.none() | timestamps)
def test_message_sets_read_the_same(
    records: list[SimpleRecord],
    magic: int,
    codec: Compression,
    base_offset: int,
    append_time: int | None,
) -> None:
    encoded = build_message_set(
        records,
        magic=magic,
        base_offset=base_offset,
        compression=codec,
        log_append_time=append_time,
    )
    twins = dumb_decode(bytes(encoded))
    read = list(read_records(encoded))
    assert as_dumb(read) == [record for twin in twins for record in twin.records]
    assert [(r.offset, r.key, r.value) for r in read] == [
        (base_offset + i, r.key, r.value) for i, r in enumerate(records)
    ]
    if magic == 0:
        assert {r.timestamp for r in read} == {-1}
    elif append_time is None:
        assert [r.timestamp for r in read] == [r.timestamp for r in records]
    else:
        assert {r.timestamp for r in read} == {append_time}
    headers = list(iter_batch_headers(encoded, allow_partial_tail=False))
    assert len(headers) == len(twins)
    for (position, header), twin in zip(headers, twins, strict=True):
        assert crc_is_valid(encoded, position, header)
        assert header.last_offset == twin.records[-1].offset
        if magic == 1 and codec is not Compression.NONE:
            assert header.max_timestamp == max(r.timestamp for r in read)


@given(record_lists, st.sampled_from([0, 1]), legacy_codecs, offsets, st.none() | codecs)
def test_up_conversion_keeps_what_v2_can_hold(
    records: list[SimpleRecord],
    magic: int,
    codec: Compression,
    base_offset: int,
    target: Compression | None,
) -> None:
    message_set = build_message_set(records, magic=magic, base_offset=5, compression=codec)
    batch = up_convert(message_set, base_offset=base_offset, compression=target)
    [twin] = dumb_decode(bytes(batch))
    assert twin.fields["attributes"] == (codec if target is None else target)
    assert [(r.offset, r.timestamp, r.key, r.value) for r in twin.records] == [
        (base_offset + i, r.timestamp if magic else -1, r.key, r.value)
        for i, r in enumerate(records)
    ]


@given(
    record_lists,
    st.sampled_from([0, 1]),
    legacy_codecs,
    offsets,
    st.none() | timestamps,
    st.integers(0, 13),
)
def test_down_conversion_keeps_what_old_formats_can_hold(
    records: list[SimpleRecord],
    magic: int,
    codec: Compression,
    base_offset: int,
    append_time: int | None,
    skipped: int,
) -> None:
    batch = build_batch(
        records, base_offset=base_offset, compression=codec, log_append_time=append_time
    )
    converted = down_convert_all(batch, magic, base_offset + skipped)
    kept = list(iter_records(batch))
    if codec is Compression.NONE:
        kept = kept[skipped:]
    twins = dumb_decode(bytes(converted))
    assert {twin.magic for twin in twins} <= {magic}
    assert [record for twin in twins for record in twin.records] == [
        DumbRecord(r.offset, r.timestamp if magic else -1, r.key, r.value) for r in kept
    ]
    # A v1 set is left alone by a conversion to v1, and loses its timestamps on the way to v0.
    again = down_convert_all(converted, magic, 0)
    assert again == converted
    to_v0 = [
        r for twin in dumb_decode(bytes(down_convert_all(converted, 0, 0))) for r in twin.records
    ]
    assert to_v0 == [DumbRecord(r.offset, -1, r.key, r.value) for r in kept]


@given(record_lists, codecs, codecs, offsets, st.none() | timestamps)
def test_recompression_changes_only_the_codec(
    records: list[SimpleRecord],
    source: Compression,
    target: Compression,
    base_offset: int,
    append_time: int | None,
) -> None:
    batch = build_batch(
        records,
        base_offset=base_offset,
        compression=source,
        producer_id=4,
        producer_epoch=1,
        base_sequence=8,
        is_transactional=True,
        partition_leader_epoch=2,
        log_append_time=append_time,
    )
    other = recompress(batch, target)
    [before], [after] = dumb_decode(bytes(batch)), dumb_decode(bytes(other))
    assert after.records == before.records
    changing = {"crc", "batch_length", "attributes"}
    assert {k: v for k, v in after.fields.items() if k not in changing} == {
        k: v for k, v in before.fields.items() if k not in changing
    }
    assert after.fields["attributes"] & 7 == target
    assert after.fields["attributes"] & ~7 == before.fields["attributes"] & ~7


@given(record_lists, legacy_codecs, st.lists(st.integers(0, 2**40), min_size=12, max_size=12))
def test_v1_sets_keep_gaps_between_offsets(
    records: list[SimpleRecord], codec: Compression, gaps: list[int]
) -> None:
    offset = 3
    sparse = []
    for record, gap in zip(records, gaps, strict=False):
        offset += 1 + gap
        sparse.append(Record(offset, record.timestamp, record.key, record.value))
    for magic in (0, 1):
        encoded = encode_message_set(sparse, magic=magic, compression=codec)
        assert [r.offset for r in read_records(encoded)] == [r.offset for r in sparse]
