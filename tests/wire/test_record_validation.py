"""What `record.validation` makes a broker say to a batch that is broken inside."""

from __future__ import annotations

from pathlib import Path

from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.records.batch import update_crc
from tests.support.processes import running_broker
from tests.support.wire import WireClient, batch

RECORD_LENGTH = 61


def broken() -> bytes:
    """A batch whose first record claims a byte more than it has, under a right CRC."""
    data = bytearray(batch(b"value", b"other"))
    data[RECORD_LENGTH] += 2
    update_crc(data, 0)
    return bytes(data)


def test_records_are_looked_at(kafka: WireClient) -> None:
    topic = kafka.create_topic().name
    refused = kafka.produce(topic, broken())
    assert refused.error_code == ErrorCode.INVALID_RECORD
    assert kafka.produce(topic, batch(b"value")).base_offset == 0


def test_only_batches_are_looked_at(tmp_path: Path) -> None:
    with (
        running_broker(tmp_path, {"record.validation": "batch"}) as broker,
        WireClient(broker.bootstrap) as client,
    ):
        taken = client.produce(client.create_topic().name, broken())
        assert taken.error_code == ErrorCode.NONE
