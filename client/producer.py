"""An idempotent producer: batches in, acknowledged offsets out.

A batch is one record batch for one partition, sent with acks=all under a producer id and sequence,
so that a retry after a lost answer is not written twice. Batches of one partition are sent one
after the other.
Mirrors: Sender and TransactionManager of the Java client, for the idempotent case (KIP-98).
Leaves out: transactions, more than one batch in flight a partition.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence

from ..protocol.api import ApiKey
from ..protocol.errors import ErrorCode
from ..protocol.messages.metadata import MetadataResponseTopic
from ..protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ..protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from ..protocol.records.builder import build_batch
from ..protocol.records.compression import Compression
from ..protocol.records.record import SimpleRecord, increment_sequence
from .cluster import Cluster, LeaderlessWait, retrying, why_leaderless
from .errors import ClientError
from .partitioner import partition_for
from .refusals import NotAllowed

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
        self._found = MetadataResponseTopic()
        self._leaders: dict[int, int] = {}
        self._producer_id = -1
        self._producer_epoch = -1
        self._sequences: dict[int, int] = defaultdict(int)
        # Not always the first: many programs send one batch and end.
        self._next_keyless = random.randrange(1 << 16)

    async def start(self) -> None:
        """Learn the topic's leaders and get a producer id. Raises ClientError."""
        self._take(
            await self._cluster.led_topic(self._topic, create_missing=True, any_partition=True)
        )
        async for _ in retrying():
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
            answer = await self._cluster.ask_anyone(
                ApiKey.INIT_PRODUCER_ID, request, InitProducerIdResponse
            )
            if answer.error_code == ErrorCode.NONE:
                self._producer_id = answer.producer_id
                self._producer_epoch = answer.producer_epoch
                return
            if not ErrorCode(answer.error_code).retriable:
                break
        code = ErrorCode(answer.error_code)
        if code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:  # no topic that it may write to, either
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        self._cluster.asks("write", self._topic).check(code, None, "no producer id")

    def _take(self, topic: MetadataResponseTopic) -> None:
        self._found = topic
        self._leaders = {
            part.partition_index: part.leader_id for part in topic.partitions if part.leader_id >= 0
        }

    async def send(self, records: Sequence[SimpleRecord]) -> None:
        """Write `records`, keyed ones to their partition, the others together to the next one.

        The next one that has a leader, that is. Raises ClientError.
        """
        count = len(self._found.partitions)
        choice = sorted(self._leaders) or range(count)
        keyless = choice[self._next_keyless % len(choice)]
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
        wait = LeaderlessWait(self._cluster.tell)
        async for _ in retrying():
            leader = self._leaders.get(partition)
            if leader is None:
                problem = why_leaderless(self._found, [partition])
                wait.go_on(self._found, [partition])
            else:
                wait = LeaderlessWait(self._cluster.tell)
                try:
                    connection = await self._cluster.connection(leader)
                    answer = await connection.request(ApiKey.PRODUCE, request, ProduceResponse)
                except ClientError as error:
                    problem = str(error)
                else:
                    result = answer.responses[0].partition_responses[0]
                    code = ErrorCode(result.error_code)
                    if code == ErrorCode.NONE:
                        self._sequences[partition] = increment_sequence(sequence, len(records))
                        return result.base_offset
                    refusal = self._cluster.asks("write", self._topic).refusal(code)
                    if refusal is not None:
                        raise NotAllowed(refusal, code)
                    problem = result.error_message or code.description
                    if not code.retriable:
                        break
            self._take(await self._cluster.topic(self._topic))
        raise ClientError(f"{self._topic}-{partition} does not take the records: {problem}")
