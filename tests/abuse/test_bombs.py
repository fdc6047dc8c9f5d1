"""Small batches that grow large when unpacked: their memory goes back to the system."""

from __future__ import annotations

from pathlib import Path

from pybroker_kafka.protocol.apis.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.records.batch import Compression, SimpleRecord
from pybroker_kafka.protocol.records.builder import build_batch
from tests.abuse.storms import MEGABYTE, SLACK_MB, resident_mb, settled_mb
from tests.support.processes import running_broker
from tests.support.wire import WireClient

UNPACKED_MB = 40
CODECS = (Compression.GZIP, Compression.LZ4, Compression.ZSTD)


def test_the_memory_of_bombs_goes_back(tmp_path: Path) -> None:
    value = bytes(UNPACKED_MB * MEGABYTE)
    with running_broker(tmp_path) as broker:
        with WireClient(broker.bootstrap) as client:
            topic = client.create_topic().name
            before = resident_mb(broker.pid)
            for codec in CODECS:
                bomb = build_batch([SimpleRecord(1000, b"k", value)], compression=codec)
                data = PartitionProduceData(index=0, records=bytes(bomb))
                asked = TopicProduceData(name=topic, partition_data=[data])
                answer = client.call(ProduceRequest(acks=1, timeout_ms=60_000, topic_data=[asked]))
                code = answer.responses[0].partition_responses[0].error_code
                assert code == ErrorCode.NONE
        assert settled_mb(broker.pid, before + SLACK_MB) <= before + SLACK_MB
