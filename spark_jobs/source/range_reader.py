"""Fetches one range of offsets of one partition: chunk after chunk, ahead of the decoder.

Invariants: chunks come in the order of their offsets and end once the range's end is passed, also
when the last offsets hold no record (compaction, markers of transactions). When leadership moves,
the new leader is looked up; a wait without progress ends with an error after `poll_timeout_ms`.
Records deleted before they were read are an error, unless `failOnDataLoss` is false: then the range
continues at the first record left.

Mirrors: KafkaDataConsumer of Spark's connector, and Fetcher. Leaves out: fetch sessions, which
serve many partitions.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import NamedTuple

import trio

from ...client.cluster import RETRY_BACKOFF_SECONDS, Cluster
from ...client.consumer.offset_requests import Found, list_offsets
from ...client.consumer.topics_view import Leader
from ...client.errors import ClientError
from ...client.refusals import NotAllowed
from ...protocol.api import ApiKey
from ...protocol.apis.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchResponsePartitionData,
    FetchTopic,
)
from ...protocol.errors import ErrorCode
from ...protocol.records.batch import iter_batch_headers
from .catalogue import ANY_EPOCH
from .limits import EARLIEST, LATEST
from .options import SourceOptions
from .planning import OffsetRange

FETCH_BYTES = 4 * 1024 * 1024
FETCH_WAIT_MS = 500


class DataLossError(Exception):
    """Records of the range are gone."""


class Chunk(NamedTuple):
    """The data of one fetch: whole batches, and the aborted transactions among them.

    The first batch may begin before `start`, the requested offset.
    """

    start: int
    records: bytes | memoryview
    aborted: list[AbortedTransaction]


async def fetch_range(options: SourceOptions, wanted: OffsetRange) -> AsyncGenerator[Chunk, None]:
    """The chunks of a range, in order. Raises ClientError, DataLossError."""
    async with Cluster(options.bootstrap_servers, security=options.kafka) as cluster:
        reader = _RangeReader(cluster, options, wanted)
        while reader.position < wanted.end:
            chunk = await reader.next_chunk()
            if chunk is not None:
                yield chunk


class _RangeReader:
    def __init__(self, cluster: Cluster, options: SourceOptions, wanted: OffsetRange) -> None:
        self.position = wanted.start
        self._cluster = cluster
        self._options = options
        self._wanted = wanted
        self._name = f"{wanted.topic}-{wanted.partition}"
        self._leader = -1
        self._topic_id = bytes(16)
        self._give_up_at = 0.0
        self._fetch_bytes = int(options.kafka.get("max.partition.fetch.bytes", FETCH_BYTES))
        self._made_progress()

    def _made_progress(self) -> None:
        self._give_up_at = trio.current_time() + self._options.poll_timeout_ms / 1000

    async def next_chunk(self) -> Chunk | None:
        """The next chunk; None if nothing came this time, or only offsets without records."""
        try:
            part = await self._fetch()
            code = ErrorCode(part.error_code)
            if code == ErrorCode.OFFSET_OUT_OF_RANGE:
                await self._find_what_is_left()
                return None
        except NotAllowed:
            raise
        except ClientError as error:
            await self._look_for_leader(str(error))
            return None
        if code != ErrorCode.NONE:
            if not code.retriable:
                self._cluster.asks("read", self._wanted.topic).check(code, None, self._name)
            await self._look_for_leader(code.description)
            return None
        records = part.records or b""
        assert isinstance(records, (bytes, memoryview))
        start = self.position
        for _, header in iter_batch_headers(records):
            self.position = max(self.position, header.next_offset)
        if self.position == start:
            self._check_time("nothing comes")
            return None
        self._made_progress()
        return Chunk(start, records, part.aborted_transactions or [])

    async def _fetch(self) -> FetchResponsePartitionData:
        if self._leader < 0:
            found = await self._cluster.topic(self._wanted.topic)
            self._topic_id = found.topic_id
            for part in found.partitions:
                if part.partition_index == self._wanted.partition:
                    self._leader = part.leader_id
            if self._leader < 0:
                raise ClientError(f"{self._name} has no leader")
        partition = FetchPartition(
            partition=self._wanted.partition,
            fetch_offset=self.position,
            partition_max_bytes=self._fetch_bytes,
        )
        topic = FetchTopic(
            topic=self._wanted.topic, topic_id=self._topic_id, partitions=[partition]
        )
        request = FetchRequest(
            max_wait_ms=FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=self._fetch_bytes,
            isolation_level=int(self._options.is_read_committed),
            topics=[topic],
        )
        connection = await self._cluster.connection(self._leader)
        answer = await connection.request(ApiKey.FETCH, request, FetchResponse)
        if answer.error_code:
            raise ClientError(ErrorCode(answer.error_code).description)
        (found_topic,) = answer.responses
        (found_part,) = found_topic.partitions
        return found_part

    async def _look_for_leader(self, problem: str) -> None:
        """Look up the leader at the next fetch, after a pause. Raises ClientError after the
        timeout."""
        self._check_time(problem)
        self._leader = -1
        await trio.sleep(RETRY_BACKOFF_SECONDS)

    def _check_time(self, problem: str) -> None:
        if trio.current_time() >= self._give_up_at:
            raise ClientError(
                f"{self._name}: no record came for {self._options.poll_timeout_ms} ms at offset "
                f"{self.position} of {self._wanted.end}: {problem}"
            )

    async def _find_what_is_left(self) -> None:
        """The log begins later or ends sooner: it was truncated, or the topic created again."""
        log_start_offset, end_offset = [await self._ask_offset(at) for at in (EARLIEST, LATEST)]
        if self.position < log_start_offset:
            self._lost(log_start_offset)
        elif self.position > end_offset:
            self._lost(end_offset)

    async def _ask_offset(self, timestamp: int) -> int:
        """The offset at EARLIEST or LATEST. Raises ClientError."""
        place = self._wanted.topic, self._wanted.partition
        connection = await self._cluster.connection(self._leader)
        asked = {place: (timestamp, Leader(self._leader, ANY_EPOCH))}
        found = (await list_offsets(connection, asked))[place]
        if not isinstance(found, Found):
            self._cluster.asks("read", self._wanted.topic).check(found, None, self._name)
        assert isinstance(found, Found)  # else `check` has raised
        return found.offset

    def _lost(self, next_offset: int) -> None:
        """Raise, or skip the loss. `next_offset` is the log's start, or its end if that lies below
        the position."""
        is_below = next_offset > self.position
        if self._options.fail_on_data_loss:
            raise DataLossError(
                f"{self._name}: offset {self.position} is "
                + (f"deleted; the log begins at {next_offset} now" if is_below else "not there")
                + "; set failOnDataLoss to false to continue without the lost records"
            )
        self.position = min(next_offset, self._wanted.end) if is_below else self._wanted.end
