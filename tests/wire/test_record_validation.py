"""With record.validation=full a broker answers as Apache Kafka; without, it takes the batch."""

from __future__ import annotations

from pathlib import Path

from pybroker.protocol.errors import ErrorCode
from pybroker.protocol.records.batch import update_crc
from tests.support.processes import running_broker
from tests.support.wire import WireClient, batch

RECORD_LENGTH = 61


def broken() -> bytes:
    """A batch whose first record claims a byte more than it has, under a right CRC."""
    data = bytearray(batch(b"value", b"other"))
    data[RECORD_LENGTH] += 2
    update_crc(data, 0)
    return bytes(data)


def test_full_validation_over_the_wire(tmp_path: Path) -> None:
    with (
        running_broker(tmp_path, {"record.validation": "full"}) as broker,
        WireClient(broker.bootstrap) as client,
    ):
        topic = client.create_topic().name
        refused = client.produce(topic, broken())
        assert refused.error_code == ErrorCode.INVALID_RECORD
        assert client.produce(topic, batch(b"value")).base_offset == 0


def test_the_default_looks_at_the_batch_only(kafka: WireClient) -> None:
    taken = kafka.produce(kafka.create_topic().name, broken())
    assert taken.error_code == ErrorCode.NONE
