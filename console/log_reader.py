"""Reads a topic's partitions from some positions on, markers of transactions included.

Over one connection a broker, which is kept: a browser that follows a topic reads again and again.
Limits: FETCH_BYTES a request, READ_SECONDS and SCANNED_MAX records a scan.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import trio

from ..client.cluster import Cluster
from ..client.consumer.unpacking import is_for_a_thread
from ..client.errors import ClientError
from ..protocol.api import ApiKey
from ..protocol.apis.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchResponsePartitionData,
    FetchTopic,
)
from ..protocol.errors import ErrorCode, ProtocolError
from ..protocol.records.columns import decode_columns
from ..protocol.topics import TopicPartition
from .rows import Fetched, OpenRows, Row

SCANNED_MAX: Final = 200_000
READ_SECONDS: Final = 5.0
FETCH_BYTES: Final = 4 * 1024 * 1024
PARTITION_BYTES: Final = 512 * 1024
LAST_WITH_NAMES: Final = 12  # versions of Fetch: then topics have ids
IDLE_SECONDS: Final = 0.1
IDLE_ROUNDS_MAX: Final = 3
BREATH_ROWS: Final = 500  # then others have their turn
PURPOSE: Final = "console reads"


@dataclass
class Scan:
    """The bounds and the result of reading: `wanted` filters every row; `found` keeps `limit`.

    `ends`: the offsets where reading ends. `open_from`: the last stable offsets, from which on
    transactions are open. `leaders`: the brokers to read from. `prepare` gets rows before `wanted`.
    """

    positions: dict[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    open_from: Mapping[TopicPartition, int]
    leaders: Mapping[TopicPartition, int]
    limit: int
    wanted: Callable[[Row], bool]
    prepare: Callable[[list[Row]], Awaitable[None]]
    seconds: float = READ_SECONDS
    found: list[Row] = field(default_factory=list)
    scanned: int = 0
    unread: set[TopicPartition] = field(default_factory=set)
    _open: OpenRows = field(default_factory=OpenRows)

    def __post_init__(self) -> None:
        self.unread = {place for place, at in self.positions.items() if at < self.ends[place]}

    @property
    def is_over(self) -> bool:
        return not self.unread or len(self.found) >= self.limit or self.scanned >= SCANNED_MAX

    async def run(self, cluster: Cluster) -> None:
        """Read until enough is found, the ends are reached, or `seconds` have passed.

        Raises ClientError.
        """
        idle_rounds = 0
        with trio.move_on_after(self.seconds):
            while not self.is_over and idle_rounds < IDLE_ROUNDS_MAX:
                before = dict(self.positions)
                for leader, is_stable in self._rounds():
                    await self._fetch(cluster, leader, is_stable=is_stable)
                if self.positions != before:
                    idle_rounds = 0
                else:
                    idle_rounds += 1
                    await trio.sleep(IDLE_SECONDS)

    def _rounds(self) -> list[tuple[int, bool]]:
        """The brokers to ask, and whether to read only below the last stable offsets."""
        return sorted({(self.leaders[place], self._is_stable(place)) for place in self.unread})

    def _is_stable(self, place: TopicPartition) -> bool:
        return self.positions[place] < self.open_from.get(place, 0)

    async def _fetch(self, cluster: Cluster, leader: int, *, is_stable: bool) -> None:
        topics: defaultdict[str, list[FetchPartition]] = defaultdict(list)
        for place in sorted(self.unread):
            if self.leaders[place] == leader and self._is_stable(place) == is_stable:
                wanted = FetchPartition(
                    partition=place[1],
                    fetch_offset=self.positions[place],
                    partition_max_bytes=PARTITION_BYTES,
                )
                topics[place[0]].append(wanted)
        if not topics or self.is_over:
            return
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=FETCH_BYTES,
            isolation_level=int(is_stable),
            topics=[FetchTopic(topic=name, partitions=parts) for name, parts in topics.items()],
        )
        connection = await cluster.connection(leader, PURPOSE)
        answer = await connection.request(
            ApiKey.FETCH, request, FetchResponse, newest=LAST_WITH_NAMES
        )
        for topic in answer.responses:
            for part in topic.partitions:
                if not self.is_over:
                    place = (topic.topic, part.partition_index)
                    await self._take(cluster, place, part, is_stable=is_stable)

    async def _take(
        self,
        cluster: Cluster,
        place: TopicPartition,
        part: FetchResponsePartitionData,
        *,
        is_stable: bool,
    ) -> None:
        code = ErrorCode(part.error_code)
        if code == ErrorCode.OFFSET_OUT_OF_RANGE or code.retriable:
            self.unread.discard(place)  # deleted meanwhile, or led by another: the next scan sees
            return
        cluster.asks("read", place[0]).check(code, None, f"cannot read {place[0]}-{place[1]}")
        records = part.records or b""
        assert isinstance(records, (bytes, memoryview))
        try:
            decode = partial(decode_columns, records, check_crcs=False)
            in_thread = is_for_a_thread(records)
            columns = await trio.to_thread.run_sync(decode) if in_thread else decode()
        except ProtocolError as error:
            raise ClientError(f"{place[0]}-{place[1]} cannot be read: {error}") from None
        if not columns.batches:
            return
        aborted = (part.aborted_transactions or ()) if is_stable else None
        fetched = Fetched(place, columns, self.positions[place], aborted)
        rows = [row for row in fetched.rows() if row.record.offset < self.ends[place]]
        await self.prepare(rows)
        for number, row in enumerate(rows):
            if len(self.found) >= self.limit:
                return
            if number % BREATH_ROWS == 0:
                await trio.lowlevel.checkpoint()
            self.scanned += 1
            self.positions[place] = row.record.offset + 1
            self._open.take(row)
            if self.wanted(row):
                self.found.append(row)
        behind = columns.batches[-1].header.next_offset
        self.positions[place] = min(max(self.positions[place], behind), self.ends[place])
        if self.positions[place] >= self.ends[place]:
            self.unread.discard(place)
