"""Very many producer ids in one partition, all invented, and a new segment with each batch: each of
them had its snapshot of all producers written before anybody else had a turn. A good client beside
it goes on, and so does whoever already writes to that partition."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker_kafka.protocol.apis.describe_producers import DescribeProducersRequest, TopicRequest
from pybroker_kafka.protocol.apis.incremental_alter_configs import IncrementalAlterConfigsRequest
from pybroker_kafka.protocol.apis.incremental_alter_configs import (
    IncrementalAlterConfigsRequestAlterableConfig as AlterableConfig,
)
from pybroker_kafka.protocol.apis.incremental_alter_configs import (
    IncrementalAlterConfigsRequestAlterConfigsResource as AlterConfigsResource,
)
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.records.batch import update_crc
from pybroker_kafka.protocol.records.builder import build_batch
from pybroker_kafka.protocol.records.record import SimpleRecord
from tests.abuse.beside import assert_unharmed, bystander
from tests.support.patience import until
from tests.support.wire import WireClient, produce_request

MANY = 99_999  # and one that is no invention: as many as a partition knows
SENT_AT_ONCE = 500
SENT_BETWEEN_ANSWERS = 20_000
ROLLS = 150
WRITTEN_SECONDS = 60.0
TOPIC = 2  # as the kind of a resource
SET = 0
ID_AT = 43  # the producer's id in a batch
FIRST_ID = 1 << 40


def batch_of(producer_id: int, sequence: int) -> bytearray:
    return build_batch(
        [SimpleRecord(int(time.time() * 1000), None, b"x" * 100)],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
    )


def frames(client: WireClient, topic: str, first: int, count: int) -> Iterator[bytes]:
    """Produces with acks=0, of one producer each."""
    batch = batch_of(FIRST_ID, 0)
    request = client.frame(produce_request(topic, bytes(batch), acks=0), 9)
    at = request.index(bytes(batch))
    before, after = request[:at], request[at + len(batch) :]
    for number in range(first, first + count):
        batch[ID_AT : ID_AT + 8] = (FIRST_ID + number).to_bytes(8, "big")
        update_crc(batch, 0)
        yield before + batch + after


def known_producers(client: WireClient, topic: str) -> int:
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[0])])
    (partition,) = client.call(request, 0).topics[0].partitions
    assert partition.error_code == 0
    return len(partition.active_producers)


def produced(client: WireClient, topic: str, producer_id: int, sequence: int) -> int:
    answer = client.call(produce_request(topic, bytes(batch_of(producer_id, sequence))), 9)
    return int(answer.responses[0].partition_responses[0].error_code)


def produced_at(client: WireClient, topic: str, producer_id: int, sequence: int) -> int:
    """The offset that a batch got, or had."""
    answer = client.call(produce_request(topic, bytes(batch_of(producer_id, sequence))), 9)
    (partition,) = answer.responses[0].partition_responses
    assert partition.error_code == 0
    return int(partition.base_offset)


def small_segments(client: WireClient, topic: str) -> None:
    change = AlterableConfig(name="segment.bytes", config_operation=SET, value="200")
    resource = AlterConfigsResource(resource_type=TOPIC, resource_name=topic, configs=[change])
    answer = client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert [one.error_code for one in answer.responses] == [0]


@pytest.mark.nightly
def test_a_snapshot_of_very_many_producers_with_each_batch(tmp_path: Path) -> None:
    with bystander(tmp_path) as good, WireClient(good.bootstrap) as client:
        topic = client.create_topic(name="many-ids").name
        assert produced(client, topic, 7, 0) == 0
        sent = 0

        def invent() -> None:
            nonlocal sent
            until = min(MANY, sent + SENT_BETWEEN_ANSWERS)
            while sent < until:
                count = min(SENT_AT_ONCE, until - sent)
                client.socket.sendall(b"".join(frames(client, topic, sent, count)))
                sent += count
            with client.timeout(60.0):
                assert produced(client, topic, -1, -1) == 0

        while sent < MANY:
            invent()
        with client.timeout(60.0):
            assert_unharmed(
                good, f"DescribeProducers of {MANY}", lambda: known_producers(client, topic)
            )
            assert known_producers(client, topic) == MANY + 1
        # No more of them; who was there before goes on.
        assert produced(client, topic, FIRST_ID + MANY + 1, 0) == ErrorCode.NOT_ENOUGH_REPLICAS
        sequence = 0
        small_segments(client, topic)
        time.sleep(0.5)

        def roll() -> None:
            nonlocal sequence
            for _ in range(ROLLS):
                sequence += 1
                assert produced(client, topic, 7, sequence) == 0
                time.sleep(0.01)

        assert_unharmed(good, f"{ROLLS} segments beside {MANY} producers", roll)
        until(
            lambda: list(tmp_path.glob(f"**/{topic}-0/*.snapshot")),
            "no snapshot was written",
            seconds=WRITTEN_SECONDS,
        )
