"""An idempotent producer: batches in, acknowledged offsets out.

A batch is one record batch for one partition, sent with acks=all under a producer id and sequence,
so that a retry after a lost answer is not written twice. Batches of one partition are sent one
after the other.
Mirrors: Sender and TransactionManager of the Java client, for the idempotent case (KIP-98).
Leaves out: transactions, more than one batch in flight a partition.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from client.cluster import Cluster, retrying
from client.connection import ClientError
from client.partitioner import partition_for
from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from protocol.records.builder import build_batch
from protocol.records.compression import Compression
from protocol.records.record import SimpleRecord, increment_sequence

ACKS_ALL = -1
PRODUCE_TIMEOUT_MS = 30_000


class Producer:
    """Writes to one topic, which is created if it is missing and the cluster allows that."""

    def __init__(
        self, cluster: Cluster, topic: str, *, compression: Compression = Compression.NONE
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._compression = compression
        self._leaders: dict[int, int] = {}
        self._producer_id = -1
        self._producer_epoch = -1
        self._sequences: dict[int, int] = defaultdict(int)
        self._next_keyless = 0

    async def start(self) -> None:
        """Learn the topic's leaders and get a producer id. Raises ClientError."""
        await self._refresh()
        async for _ in retrying():
            connection = await self._cluster.any_connection()
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
            answer = await connection.request(
                ApiKey.INIT_PRODUCER_ID, request, InitProducerIdResponse
            )
            if answer.error_code == ErrorCode.NONE:
                self._producer_id = answer.producer_id
                self._producer_epoch = answer.producer_epoch
                return
            if not ErrorCode(answer.error_code).retriable:
                break
        raise ClientError(f"no producer id: {ErrorCode(answer.error_code).description}")

    async def _refresh(self) -> None:
        topic = await self._cluster.topic(self._topic, create_missing=True)
        self._leaders = {part.partition_index: part.leader_id for part in topic.partitions}

    async def send(self, records: Sequence[SimpleRecord]) -> None:
        """Write `records`, keyed ones to their partition, the others together to the next one."""
        count = len(self._leaders)
        keyless = self._next_keyless % count
        self._next_keyless += 1
        shares: dict[int, list[SimpleRecord]] = defaultdict(list)
        for record in records:
            key = record.key
            shares[keyless if key is None else partition_for(bytes(key), count)].append(record)
        for partition, share in shares.items():
            await self._send_batch(partition, share)

    async def _send_batch(self, partition: int, records: list[SimpleRecord]) -> int:
        """The base offset of the written batch. Raises ClientError."""
        sequence = self._sequences[partition]
        batch = build_batch(
            records,
            compression=self._compression,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=sequence,
        )
        data = PartitionProduceData(index=partition, records=batch)
        request = ProduceRequest(
            acks=ACKS_ALL,
            timeout_ms=PRODUCE_TIMEOUT_MS,
            topic_data=[TopicProduceData(name=self._topic, partition_data=[data])],
        )
        problem = ""
        async for _ in retrying():
            try:
                connection = await self._cluster.connection(self._leaders[partition])
                answer = await connection.request(ApiKey.PRODUCE, request, ProduceResponse)
            except ClientError as error:
                problem = str(error)
            else:
                result = answer.responses[0].partition_responses[0]
                code = ErrorCode(result.error_code)
                if code == ErrorCode.NONE:
                    self._sequences[partition] = increment_sequence(sequence, len(records))
                    return result.base_offset
                problem = result.error_message or code.description
                if not code.retriable:
                    break
            await self._refresh()
        raise ClientError(f"{self._topic}-{partition} does not take the records: {problem}")
