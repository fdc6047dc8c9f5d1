"""The fetcher beside a played cluster of a leader and a follower: resets, truncation, racks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from pybroker_kafka.client.connection import REQUEST_TIMEOUT_SECONDS
from pybroker_kafka.client.consumer.background import Background
from pybroker_kafka.client.consumer.fetch_session import LAST_EPOCH
from pybroker_kafka.client.consumer.fetcher import Fetcher
from pybroker_kafka.client.consumer.options import EARLIEST, ConsumerOptions
from pybroker_kafka.client.consumer.positions import MAX_BUFFERED_FETCHES, Position, Positions
from pybroker_kafka.client.consumer.received import ReceivedBatch
from pybroker_kafka.client.consumer.unpacking import unpack_columns
from pybroker_kafka.client.errors import ClientError, ConnectionFailed
from pybroker_kafka.client.refusals import Asked
from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    FetchResponsePartitionData,
)
from pybroker_kafka.protocol.apis.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from pybroker_kafka.protocol.apis.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from pybroker_kafka.protocol.apis.offset_for_leader_epoch import (
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponseEpochEndOffset,
    OffsetForLeaderTopicResult,
)
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.records.batch import read_batch_header
from pybroker_kafka.protocol.records.builder import build_batch, build_empty_batch
from pybroker_kafka.protocol.records.record import SimpleRecord
from tests.support.patience import eventually

LEADER, FOLLOWER = 1, 2
SESSION_ID = 7
PLACE = ("t", 0)
IDLE_SECONDS = 0.01  # of a fetch without records


class Played:
    """One partition, `log`; a cluster and the connections to its brokers in one."""

    def __init__(self, *log: bytearray, epoch: int = 3, start: int = 0) -> None:
        self.log = list(log)
        self.epoch = epoch
        self.start = start
        self.preferred = -1
        self.ends: dict[int, int] = {}  # of epochs
        self.asked: list[tuple[int, int]] = []  # broker and offset of each fetch
        self.fails = 0  # so many fetches
        self.told: list[str] = []
        self.has_bad_name = False
        self.session_id = 0
        self.ended: list[int] = []  # fetch sessions
        self.leader = LEADER
        self.silent: set[int] = set()  # brokers that are paused

    def tell(self, line: str) -> None:
        self.told.append(line)

    def new_purpose(self, name: str) -> str:
        return name

    def asks(self, operation: str, name: str = "") -> Asked:
        return Asked(None, operation, name)

    async def metadata(self, names: object, *, create_missing: bool = False) -> MetadataResponse:
        await trio.lowlevel.checkpoint()
        if self.has_bad_name:
            code = ErrorCode.INVALID_TOPIC_EXCEPTION
            return MetadataResponse(topics=[MetadataResponseTopic(name="t", error_code=code)])
        part = MetadataResponsePartition(
            partition_index=0, leader_id=self.leader, leader_epoch=self.epoch
        )
        return MetadataResponse(topics=[MetadataResponseTopic(name="t", partitions=[part])])

    async def connection(self, node: int, purpose: str = "") -> Connection:
        await trio.lowlevel.checkpoint()
        return Connection(self, node)

    @property
    def end(self) -> int:
        return read_batch_header(self.log[-1]).next_offset if self.log else self.start

    def answer(self, node: int, key: ApiKey, request: Any) -> Any:
        part: Any = request.topics[0].partitions[0] if request.topics else None
        if key is ApiKey.LIST_OFFSETS:
            offset = self.start if part.timestamp == EARLIEST else self.end
            found = ListOffsetsPartitionResponse(offset=offset, leader_epoch=self.epoch)
            return ListOffsetsResponse(
                topics=[ListOffsetsTopicResponse(name="t", partitions=[found])]
            )
        if key is ApiKey.OFFSET_FOR_LEADER_EPOCH:
            epoch = max((e for e in self.ends if e <= part.leader_epoch), default=-1)
            end = OffsetForLeaderEpochResponseEpochEndOffset(
                leader_epoch=epoch, end_offset=self.ends.get(epoch, -1)
            )
            return OffsetForLeaderEpochResponse(
                topics=[OffsetForLeaderTopicResult(topic="t", partitions=[end])]
            )
        assert key is ApiKey.FETCH
        if self.fails:
            self.fails -= 1
            raise ConnectionFailed("it was cut")
        if request.session_epoch == LAST_EPOCH:
            self.ended.append(request.session_id)
            return FetchResponse()
        if part is None:  # all as before
            return FetchResponse(session_id=self.session_id)
        self.asked.append((node, part.fetch_offset))
        found_part = FetchResponsePartitionData(high_watermark=self.end, records=b"")
        if node == LEADER and self.preferred >= 0:
            found_part.preferred_read_replica = self.preferred
        elif not self.start <= part.fetch_offset <= self.end:
            found_part.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        else:
            behind = (b for b in self.log if read_batch_header(b).next_offset > part.fetch_offset)
            found_part.records = bytes(next(behind, b""))
        topic = FetchableTopicResponse(topic="t", partitions=[found_part])
        return FetchResponse(session_id=self.session_id, responses=[topic])


class Connection:
    def __init__(self, played: Played, node: int) -> None:
        self._played, self._node = played, node

    async def request(
        self, key: ApiKey, request: Any, _answer: object, *, timeout_seconds: float = 0
    ) -> Any:
        if self._node in self._played.silent:
            await trio.sleep(timeout_seconds or REQUEST_TIMEOUT_SECONDS)
            raise ConnectionFailed("no answer in time")
        await trio.sleep(IDLE_SECONDS if key is ApiKey.FETCH else 0)
        return self._played.answer(self._node, key, request)


def batch(base_offset: int, count: int, epoch: int = 3) -> bytearray:
    records = [SimpleRecord(0, None, b"%d" % (base_offset + n)) for n in range(count)]
    return build_batch(records, base_offset=base_offset, partition_leader_epoch=epoch)


@asynccontextmanager
async def fetching(
    played: Played, position: Position | None = None, **options: Any
) -> AsyncIterator[tuple[Fetcher[ReceivedBatch], Positions]]:
    positions = Positions()
    made = ConsumerOptions(**options)
    fetcher = Fetcher(played, made, positions, lambda: {"t"}, unpack_columns(True))  # type: ignore[arg-type]
    positions.assign([PLACE])
    if position is None:
        positions.place({}, made.reset_to)
    else:
        positions[PLACE].seek(position)
    async with Background() as nursery:
        nursery.start_soon(fetcher.run)
        yield fetcher, positions


async def take(fetcher: Fetcher[ReceivedBatch]) -> ReceivedBatch:
    with trio.fail_after(120):
        while True:
            fetcher.take_failure()
            found = fetcher.take(1000)
            if found is not None:
                return found
            await fetcher.arrived.wait(1)


async def offsets(fetcher: Fetcher[ReceivedBatch], count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count:
        found += list((await take(fetcher)).offsets)
    return found


@pytest.mark.parametrize(("reset", "first"), [("earliest", 5), ("latest", 9)])
async def test_without_a_position_the_policy_says_where_to_begin(reset: str, first: int) -> None:
    played = Played(batch(5, 4), start=5)
    async with fetching(played, auto_offset_reset=reset) as (fetcher, _):
        if reset == "latest":
            await eventually(lambda: played.asked)
            played.log.append(batch(9, 2))
        assert (await offsets(fetcher, 2))[0] == first


async def test_out_of_range_is_reset_or_told() -> None:
    played = Played(batch(5, 4), start=5)
    async with fetching(played, Position(2), auto_offset_reset="earliest") as (fetcher, _):
        assert await offsets(fetcher, 4) == [5, 6, 7, 8]
    async with fetching(played, Position(99), auto_offset_reset="none") as (fetcher, _):
        with pytest.raises(ClientError, match="t-0: there is no offset 99"):
            await take(fetcher)


async def test_what_compaction_emptied_and_what_is_before_the_position_is_passed_by() -> None:
    emptied = build_empty_batch(read_batch_header(batch(3, 3)))
    last = build_empty_batch(read_batch_header(batch(8, 2)))
    played = Played(batch(0, 3), emptied, batch(6, 2), last)
    async with fetching(played, Position(1)) as (fetcher, positions):
        assert await offsets(fetcher, 4) == [1, 2, 6, 7]
        await eventually(lambda: positions[PLACE].fetch_position == Position(10, 3))
        assert fetcher.take(1000) is None  # there is nothing in it
        assert positions[PLACE].position == Position(10, 3)


async def test_no_more_is_buffered_than_the_limit() -> None:
    played = Played(*(batch(2 * n, 2) for n in range(10)))
    async with fetching(played, Position(0)) as (fetcher, positions):
        await eventually(lambda: positions[PLACE].buffered_count >= MAX_BUFFERED_FETCHES)
        await trio.testing.wait_all_tasks_blocked()
        assert [offset for _, offset in played.asked] == [0, 2]
        assert await offsets(fetcher, 20) == list(range(20))


async def test_connections_that_break_are_a_delay() -> None:
    played = Played(batch(0, 4))
    played.fails = 3
    async with fetching(played, Position(0)) as (fetcher, _):
        assert await offsets(fetcher, 4) == [0, 1, 2, 3]


async def test_while_a_leader_is_silent_others_are_asked_who_leads(
    autojump_clock: trio.testing.MockClock,
) -> None:
    played = Played(batch(0, 4))
    async with fetching(played, Position(0)) as (fetcher, _):
        assert await offsets(fetcher, 4) == [0, 1, 2, 3]
        played.silent.add(LEADER)
        await trio.sleep(1)
        played.log.append(batch(4, 2))
        played.ends = {3: 4}
        played.leader, played.epoch = FOLLOWER, 4
        begun = trio.current_time()
        assert await offsets(fetcher, 2) == [4, 5]
        assert trio.current_time() - begun < 2


async def test_a_broker_that_stays_silent_is_given_longer_each_time(
    autojump_clock: trio.testing.MockClock,
) -> None:
    played = Played(batch(0, 4))
    played.silent.add(LEADER)
    async with fetching(played, Position(0)) as (fetcher, _):
        await trio.sleep(12)  # the second attempt has until then, and some
        played.silent.clear()
        begun = trio.current_time()
        assert await offsets(fetcher, 4) == [0, 1, 2, 3]
        assert 3 < trio.current_time() - begun < 6


async def test_who_leaves_ends_its_sessions(autojump_clock: trio.testing.MockClock) -> None:
    played = Played(batch(0, 4))
    played.session_id = SESSION_ID
    async with fetching(played, Position(0)) as (fetcher, _):
        assert await offsets(fetcher, 4) == [0, 1, 2, 3]
    await fetcher.end_sessions()
    await fetcher.end_sessions()
    assert played.ended == [SESSION_ID]
    async with fetching(played, Position(0)) as (fetcher, _):
        await offsets(fetcher, 4)
    played.silent.add(LEADER)
    begun = trio.current_time()
    await fetcher.end_sessions()
    assert trio.current_time() - begun < 2


async def test_a_follower_in_the_rack_is_read_and_left_when_it_is_behind() -> None:
    played = Played(batch(0, 4))
    played.preferred = FOLLOWER
    async with fetching(played, Position(0), rack="here") as (fetcher, _):
        assert await offsets(fetcher, 4) == [0, 1, 2, 3]
        assert played.asked[:2] == [(LEADER, 0), (FOLLOWER, 0)]
        assert {node for node, _ in played.asked[2:]} <= {FOLLOWER}


@pytest.mark.parametrize("reset", ["earliest", "none"])
async def test_a_log_that_was_cut_is_noticed(reset: str) -> None:
    """Offsets 3 to 5 were lost in an unclean election, and others are there now (KIP-320)."""
    played = Played(batch(0, 6, epoch=1), epoch=1)
    async with fetching(played, Position(0), auto_offset_reset=reset) as (fetcher, positions):
        assert await offsets(fetcher, 6) == list(range(6))
        assert positions[PLACE].position == Position(6, 1)
        played.log = [batch(0, 3, epoch=1), batch(3, 5, epoch=2)]
        played.ends = {1: 3, 2: 8}
        played.epoch = 2
        fetcher.need_metadata()
        if reset == "none":
            with pytest.raises(ClientError, match="t-0 was truncated at offset 3"):
                await take(fetcher)
        else:
            assert await offsets(fetcher, 5) == [3, 4, 5, 6, 7]


async def test_a_log_that_was_not_cut_is_read_on() -> None:
    played = Played(batch(0, 6, epoch=1), epoch=1)
    async with fetching(played, Position(0), auto_offset_reset="none") as (fetcher, _):
        assert await offsets(fetcher, 6) == list(range(6))
        played.log.append(batch(6, 2, epoch=2))
        played.ends = {1: 6, 2: 8}
        played.epoch = 2
        fetcher.need_metadata()
        assert await offsets(fetcher, 2) == [6, 7]


async def test_damage_is_told_and_a_seek_passes_it() -> None:
    broken = batch(0, 3)
    broken[-1] ^= 1
    played = Played(broken, batch(3, 2))
    async with fetching(played, Position(0)) as (fetcher, positions):
        with pytest.raises(ClientError, match="t-0 cannot be read"):
            await take(fetcher)
        positions[PLACE].is_paused = False
        positions[PLACE].seek(Position(3))
        fetcher.bell.ring()
        assert await offsets(fetcher, 2) == [3, 4]


async def test_a_name_that_cannot_be_is_told() -> None:
    played = Played()
    played.has_bad_name = True
    async with fetching(played, Position(0)) as (fetcher, _):
        with pytest.raises(ClientError, match="'t' cannot be the name of a topic"):
            await take(fetcher)


async def test_the_same_records_from_two_brokers_are_taken_once() -> None:
    """A leader that was paused answers beside the one that took its place."""
    options, positions = ConsumerOptions(), Positions()
    positions.assign([PLACE])
    positions[PLACE].seek(Position(0))
    played: Any = Played()
    unpack = unpack_columns(check_crcs=True)
    fetcher: Fetcher[ReceivedBatch] = Fetcher(played, options, positions, lambda: {"t"}, unpack)
    records = bytes(build_batch([SimpleRecord(0, None, b"%d" % n) for n in range(3)]))
    part = FetchResponsePartitionData(partition_index=0, high_watermark=3, records=records)
    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(fetcher._take, PLACE, positions[PLACE], part)
    assert len(fetcher.buffer) == 1
    assert positions[PLACE].buffered_count == 1
