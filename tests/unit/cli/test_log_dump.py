"""`pybroker log dump` without Java: what it prints of small files, and how it ends on bad ones.

Beside Kafka's own tool it is tested in `tests/compat/test_log_dump.py`.
"""

from __future__ import annotations

import json
from pathlib import Path

import click.testing
import pytest

from pybroker_kafka.cli.log import log
from pybroker_kafka.cli.log_decoders import GroupRecords, ShareStateRecords
from pybroker_kafka.protocol.codec import encode_versioned
from pybroker_kafka.protocol.messages.transaction_data import TransactionLogKey, TransactionLogValue
from pybroker_kafka.protocol.records.batch import (
    Compression,
    ControlRecordType,
    EndTxnMarker,
    SimpleRecord,
    read_batch_header,
)
from pybroker_kafka.protocol.records.builder import build_batch, build_end_txn_marker
from pybroker_kafka.protocol.records.record import Record
from tests.support.all_formats import write_internal_topics
from tests.support.conversions import build_message_set

NAME = "00000000000000000000.log"
GOLDEN = Path(__file__).resolve().parents[2] / "golden"


def dump(*arguments: object) -> tuple[int, list[str], str]:
    done = click.testing.CliRunner().invoke(log, ["dump", *map(str, arguments)])
    return done.exit_code, done.stdout.splitlines(), done.stderr


def test_batches_and_records(tmp_path: Path) -> None:
    path = tmp_path / NAME
    batch = build_batch(
        [SimpleRecord(5, b"k", None, [("a", b"x"), ("b", None)]), SimpleRecord(7, None, b"v")],
        producer_id=9,
        producer_epoch=1,
        base_sequence=3,
        partition_leader_epoch=4,
        compression=Compression.LZ4,
    )
    marker = build_end_txn_marker(
        EndTxnMarker(ControlRecordType.ABORT, 8), timestamp=6, producer_id=9, producer_epoch=1,
        base_offset=2,
    )  # fmt: skip
    path.write_bytes(batch + marker + b"rest")
    crcs = [read_batch_header(batch).crc, read_batch_header(marker).crc]
    code, lines, complaints = dump("--print-data-log", path)
    assert (code, complaints) == (0, "")
    assert lines == [
        f"Dumping {path}",
        "Log starting offset: 0",
        "baseOffset: 0 lastOffset: 1 count: 2 baseSequence: 3 lastSequence: 4 producerId: 9 "
        "producerEpoch: 1 partitionLeaderEpoch: 4 isTransactional: false isControl: false "
        f"deleteHorizonMs: OptionalLong.empty position: 0 CreateTime: 7 size: {len(batch)} "
        f"magic: 2 compresscodec: lz4 crc: {crcs[0]} isvalid: true",
        "| offset: 0 CreateTime: 5 keySize: 1 valueSize: -1 sequence: 3 headerKeys: [a,b] key: k",
        "| offset: 1 CreateTime: 7 keySize: -1 valueSize: 1 sequence: 4 headerKeys: [] payload: v",
        "baseOffset: 2 lastOffset: 2 count: 1 baseSequence: -1 lastSequence: -1 producerId: 9 "
        "producerEpoch: 1 partitionLeaderEpoch: -1 isTransactional: true isControl: true "
        f"deleteHorizonMs: OptionalLong.empty position: {len(batch)} CreateTime: 6 "
        f"size: {len(marker)} magic: 2 compresscodec: none crc: {crcs[1]} isvalid: true",
        "| offset: 2 CreateTime: 6 keySize: 4 valueSize: 6 sequence: -1 headerKeys: [] "
        "endTxnMarker: ABORT coordinatorEpoch: 8",
        f"Found 4 invalid bytes at the end of {NAME}",
    ]


def test_old_formats(tmp_path: Path) -> None:
    path = tmp_path / NAME
    record = SimpleRecord(5, b"k", b"v")
    path.write_bytes(build_message_set([record], magic=0, compression=Compression.GZIP))
    code, lines, _ = dump("--deep-iteration", path)
    assert code == 0
    assert lines[2].startswith("offset: 0 position: 0 NoTimestampType: -1 size: ")
    assert lines[3].startswith("| offset: 0 NoTimestampType: -1 keySize: 1 valueSize: 1 isValid: ")


def test_group_records(tmp_path: Path) -> None:
    groups, transactions = write_internal_topics(tmp_path)
    text = "\n".join(dump("--offsets-decoder", *sorted(groups.glob("*.log")))[1])
    assert '{"type":"1","data":{"group":"gruppe \u00e4","topic":"t","partition":5}}' in text
    assert '{"version":"3","data":{"offset":42,"leaderEpoch":3,"metadata":"\\"x\\"",' in text
    assert '"subscription":{"topics":["t","u"],"userData":"ZGF0YQ==","ownedPartitions":' in text
    assert "payload: <DELETE>" in text
    assert "Unknown record type 99 at offset" in text
    text = "\n".join(dump("--transaction-log-decoder", transactions / NAME)[1])
    assert (
        "key: transaction_metadata::transactionalId=bank payload: producerId:9,producerEpoch:2,"
        "state=PrepareAbort,partitions=[t-4],txnLastUpdateTimestamp=1700000000000,txnTimeoutMs=60000"
    ) in text


def test_what_cannot_be_dumped(tmp_path: Path) -> None:
    def ends(name: str, data: bytes, *options: str) -> str:
        path = tmp_path / name
        path.write_bytes(data)
        code, _, complaint = dump(*options, path)
        assert code == 2
        return complaint

    assert "name at least one file" in dump()[2]
    assert "does not exist" in dump(tmp_path / "missing.log")[2]
    assert "not named by the offset" in ends("first.log", b"")
    assert "smaller than minimum" in ends(NAME, bytes(100))
    assert "unknown magic 9" in ends(
        NAME, bytes(build_batch([SimpleRecord(1, None, b"v")])[:16]) + b"\x09" + bytes(80)
    )
    assert "No such file" in ends("00000000000000000009.index", bytes(8))
    (tmp_path / NAME).write_bytes(b"")
    assert "no batch at position" in ends("00000000000000000000.index", bytes(8))
    sanity = "--index-sanity-check"
    assert "no whole number" in ends("00000000000000000000.index", bytes(9), sanity)
    upside_down = (5).to_bytes(8, "big") + bytes(4) + bytes(12)
    assert "lies before the first" in ends("00000000000000000000.timeindex", upside_down, sanity)
    assert "000.snapshot: " in dump(_written(tmp_path / "00000000000000000000.snapshot"))[2]
    assert "Ignoring unknown file" in dump(_written(tmp_path / "leader-epoch-checkpoint"))[2]


def test_an_unknown_state_of_a_transaction(tmp_path: Path) -> None:
    key = encode_versioned(TransactionLogKey(transactional_id="t"), 0)
    value = encode_versioned(TransactionLogValue(transaction_status=99), 0)
    path = tmp_path / NAME
    path.write_bytes(build_batch([SimpleRecord(1, key, value)]))
    code, _, complaint = dump("--transaction-log-decoder", path)
    assert (code, "unknown transaction state 99" in complaint) == (2, True)


def _written(path: Path) -> Path:
    path.write_bytes(b"\0")
    return path


@pytest.mark.parametrize("kind", ["Snapshot", "Update"])
def test_records_of_share_states_are_kafkas_json(kind: str) -> None:
    """As Kafka 4.3.1's own classes write them."""
    lines = (GOLDEN / "kafka-classes-4.json").read_text(encoding="utf-8")
    found = {
        part: json.loads(line.rstrip().rstrip(","))
        for part in ("Key", "Value")
        for line in lines.splitlines()
        if f'"Share{kind}{part}"' in line
    }
    number = ["Snapshot", "Update"].index(kind)
    key = number.to_bytes(2, "big") + bytes.fromhex(found["Key"]["bytes"])
    value = bytes(2) + bytes.fromhex(found["Value"]["bytes"])
    shown = ShareStateRecords().text_of(Record(0, 0, key, value, [], 0))
    assert json.loads(shown[0] or "") == {"type": str(number), "data": found["Key"]["fields"]}
    assert json.loads(shown[1] or "") == {"version": "0", "data": found["Value"]["fields"]}
    assert ShareStateRecords().text_of(Record(0, 0, key, None, [], 0))[1] == "<DELETE>"
    unknown = ShareStateRecords().text_of(Record(7, 0, bytes([0, 9]), b"", [], 0))
    assert unknown == ("Unknown record type 9 at offset 7, skipping.", None)


@pytest.mark.parametrize("kind_of_group", ["consumer", "streams"])
def test_records_of_groups_are_kafkas_json(kind_of_group: str) -> None:
    """As Kafka 4.3.1's converters show them; of Kafka 4.0's records of topics only the number."""
    answers = json.loads((GOLDEN / f"{kind_of_group}-groups.json").read_text(encoding="utf-8"))[
        "records"
    ]
    for name, (key, value, key_fields, value_fields) in answers.items():
        payload = None if value is None else bytes.fromhex(value)
        ours = GroupRecords().text_of(Record(0, 0, bytes.fromhex(key), payload, [], 0))
        kind = int(key[:4], 16)
        if kind == 4:
            assert ours == ("Unknown record type 4 at offset 0, skipping.", None)
            continue
        assert ours[0] is not None, name
        assert json.loads(ours[0]) == {"type": str(kind), "data": key_fields}
        if payload is None:
            assert ours[1] == "<DELETE>"
        else:
            assert json.loads(ours[1] or "") == {"version": "0", "data": value_fields}
