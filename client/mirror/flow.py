"""One flow from its start to its end: clusters, own topics, positions, and the tasks over them.

What breaks (a connection, a leader that stays away) ends the attempt; the flow begins anew at the
positions that are written down, after a pause. What is refused for good (a login, an ACL, a record
too large) ends the flow, and others go on.
Mirrors: MirrorMaker's herder of one pair of clusters, with its connectors.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack

import trio

from ...protocol.topics import TopicPartition
from ..cluster import Cluster
from ..consumer.options import ConsumerOptions
from ..errors import ClientError, LoginError, Refused, SettingsError
from ..producer import Producer
from .compacted_topics import topic_tail
from .copying import Copying
from .emitting import write_heartbeat, write_syncs
from .groups import GroupKeeper
from .offset_syncs import OffsetSyncs
from .policies import HEARTBEATS
from .positions import read_positions, write_positions
from .reader import SourceReader
from .settings import NEVER, ClusterSettings, FlowSettings
from .stats import FlowStats
from .topics import TopicKeeper, partition_count

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
BUFFER_BYTES = 4 * 1024 * 1024  # fetched, and not given to the producer
FOREVER_MS = 2**31 - 1
LAG_SECONDS = 1.0
END_SECONDS = 30.0
SYNC_SECONDS = 0.25  # between looks for pairs of offsets that are due

Job = Callable[[], Awaitable[object]]


class Flow:
    """`run` it; `stats` says how it goes."""

    def __init__(self, settings: FlowSettings, tell: Callable[[str], None]) -> None:
        self.settings = settings
        self.stats = FlowStats(settings.source.alias, settings.target.alias, settings.copies)
        self._tell_anyone = tell

    def _tell(self, line: str) -> None:
        self.stats.trouble = line
        self._tell_anyone(f"{self.settings.name}: {line}")

    async def run(self, stop: trio.Event) -> None:
        """Until `stop`, then to a clean end. Raises ClientError for what is refused for good."""
        pause = FIRST_PAUSE_SECONDS
        while not stop.is_set():
            began = trio.current_time()
            self.stats.state = "starting"
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._end_in_time, stop, nursery.cancel_scope)
                    await self._attempt(stop)
                    nursery.cancel_scope.cancel()
            except (ClientError, ExceptionGroup) as error:
                found = _first(error)
                if not isinstance(found, ClientError) or _is_final(found):
                    self.stats.state = "failed"
                    self.stats.trouble = str(found)
                    raise found from None
                self.stats.state = "waiting"
                self.stats.restarts += 1
                self._tell(f"{found}; beginning anew in {pause:.0f} s")
                if trio.current_time() - began > LONGEST_PAUSE_SECONDS:
                    pause = FIRST_PAUSE_SECONDS
                with trio.move_on_after(pause):
                    await stop.wait()
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        self.stats.state = "stopped"

    async def _end_in_time(self, stop: trio.Event, attempt: trio.CancelScope) -> None:
        """Once it is to stop: at once if nothing is copied yet, else what is on its way has
        END_SECONDS to arrive."""
        await stop.wait()
        if self.stats.state == "running":
            await trio.sleep(END_SECONDS)
            self._tell(f"not all that was on its way has arrived in {END_SECONDS:.0f} s")
        attempt.cancel()

    async def _attempt(self, stop: trio.Event) -> None:
        flow = self.settings
        async with AsyncExitStack() as stack:
            source = await self._cluster(stack, flow.source, "admin")
            target = await self._cluster(stack, flow.target, "admin")
            writer = await self._cluster(stack, flow.target, "producer")
            side = await stack.enter_async_context(Producer(writer))
            keeper = TopicKeeper(flow, source, target, self._tell)
            async with trio.open_nursery() as nursery:
                if flow.heartbeats != NEVER:
                    nursery.start_soon(self._beat, keeper, side)
                if flow.copies:
                    await self._copy(stop, keeper, writer, side)
                else:
                    self.stats.state = "running"
                    await stop.wait()
                nursery.cancel_scope.cancel()

    async def _beat(self, keeper: TopicKeeper, side: Producer) -> None:
        flow = self.settings
        await keeper.create_own(keeper.target, HEARTBEATS, flow.heartbeats_factor)
        await _repeat(flow.heartbeats, functools.partial(write_heartbeat, flow, side, self.stats))

    async def _cluster(self, stack: AsyncExitStack, of: ClusterSettings, role: str) -> Cluster:
        cluster = Cluster(of.bootstrap, self._tell, security=of.login[role])
        return await stack.enter_async_context(cluster)

    async def _copy(
        self, stop: trio.Event, keeper: TopicKeeper, writer: Cluster, side: Producer
    ) -> None:
        flow = self.settings
        target = keeper.target
        syncs = OffsetSyncs(flow.max_offset_lag)
        async with AsyncExitStack() as stack:
            async with trio.open_nursery() as nursery:
                if flow.emits_syncs:
                    place = keeper.source if flow.syncs_at_source else target
                    create = functools.partial(keeper.create_own, place, flow.syncs_topic)
                    nursery.start_soon(create, flow.syncs_factor)
                await keeper.create_own(
                    target, flow.positions_topic, flow.positions_factor, flow.positions_partitions
                )
            # Before positions are read: it ends what another one has left open.
            producer = await stack.enter_async_context(_producer(flow, writer))
            count = await partition_count(target, flow.positions_topic)
            positions = await read_positions(flow, count)
            reader = SourceReader(
                await self._cluster(stack, flow.source, "consumer"),
                _consumer_options(flow),
                is_transactional=flow.is_exactly_once,
                limit_bytes=BUFFER_BYTES,
            )
            emitter = side
            if flow.syncs_at_source:
                back = await self._cluster(stack, flow.source, "producer")
                emitter = await stack.enter_async_context(Producer(back))
            writes = functools.partial(write_positions, flow)
            copying = Copying(flow, reader, producer, syncs, self.stats, writes)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(reader.run)
                self.stats.state = "running"
                start = nursery.start_soon
                assign = functools.partial(self._assign, reader, positions)
                refresh = functools.partial(keeper.refresh, assign)
                start(_now_and_then, flow.refresh_topics, refresh)
                measure = functools.partial(self._measure, reader, copying, positions)
                start(_repeat, LAG_SECONDS, measure)
                if flow.sync_configs != NEVER:
                    start(_now_and_then, flow.sync_configs, keeper.sync_configs)
                if flow.sync_acls != NEVER:
                    start(_now_and_then, flow.sync_acls, keeper.sync_acls)
                write = functools.partial(write_syncs, flow, emitter, syncs, self.stats)
                if flow.emits_syncs:
                    start(self._tell_of_groups, keeper, side, syncs, write)
                if flow.is_exactly_once:
                    await copying.copy_exactly_once(stop)
                else:
                    await copying.copy_at_least_once(stop)
                nursery.cancel_scope.cancel()
            if flow.emits_syncs:
                syncs.promote()
                await write()

    async def _tell_of_groups(
        self, keeper: TopicKeeper, side: Producer, syncs: OffsetSyncs, write: Job
    ) -> None:
        """Pairs of offsets, checkpoints, and offsets of groups. Raises ClientError."""
        flow = self.settings
        async with trio.open_nursery() as nursery:
            start = nursery.start_soon
            start(_repeat, SYNC_SECONDS, write)
            start(_repeat, flow.flush_seconds, _promoting(syncs))
            if flow.checkpoints == NEVER:
                return
            topic = flow.policy.checkpoints_topic(flow.source.alias)
            await keeper.create_own(keeper.target, topic, flow.checkpoints_factor)
            where = flow.source if flow.syncs_at_source else flow.target
            async with topic_tail(where, flow.syncs_topic, 1) as tail:
                groups = GroupKeeper(
                    flow, keeper.source, keeper.target, side, tail, self.stats, self._tell
                )
                await groups.load()
                start(_repeat, flow.refresh_groups, groups.refresh)
                start(_repeat, flow.checkpoints, groups.write_checkpoints)
                await _repeat(flow.sync_groups, groups.sync_offsets)
                await trio.sleep_forever()

    def _assign(
        self,
        reader: SourceReader,
        positions: Mapping[TopicPartition, int],
        copied: Sequence[TopicPartition],
    ) -> None:
        """Topics and partitions that are new; those that are gone are not read any more."""
        self.stats.topics = len({topic for topic, _ in copied})
        self.stats.partition_count = len(copied)
        if set(copied) != set(reader.assigned):
            reader.assign({place: positions.get(place, -1) for place in copied})

    async def _measure(
        self, reader: SourceReader, copying: Copying, positions: dict[TopicPartition, int]
    ) -> None:
        at = positions | copying.positions
        ends = reader.end_offsets()
        self.stats.lag = sum(max(0, end - at.get(place, 0)) for place, end in ends.items())
        await trio.lowlevel.checkpoint()


async def _repeat(seconds: float, work: Job) -> None:
    """After a pause, again and again; never if that is NEVER."""
    while seconds != NEVER:
        await trio.sleep(seconds)
        await work()


async def _now_and_then(seconds: float, work: Job) -> None:
    """At once, and then again and again."""
    await work()
    await _repeat(seconds, work)


def _promoting(syncs: OffsetSyncs) -> Job:
    async def promote() -> None:
        syncs.promote()
        await trio.lowlevel.checkpoint()

    return promote


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _is_final(error: ClientError) -> bool:
    return isinstance(error, LoginError | SettingsError) or (
        isinstance(error, Refused) and not error.code.retriable
    )


def _consumer_options(flow: FlowSettings) -> ConsumerOptions:
    given = flow.consumer
    return ConsumerOptions(
        auto_offset_reset=given["auto.offset.reset"],
        isolation_level="read_committed" if flow.reads_committed else "read_uncommitted",
        fetch_min_bytes=int(given["fetch.min.bytes"]),
        fetch_max_bytes=int(given["fetch.max.bytes"]),
        fetch_max_wait_seconds=int(given["fetch.max.wait.ms"]) / 1000,
        max_partition_fetch_bytes=int(given["max.partition.fetch.bytes"]),
        metadata_max_age_seconds=int(given["metadata.max.age.ms"]) / 1000,
        check_crcs=given["check.crcs"] == "true",
        rack=given["client.rack"] or None,
        allow_auto_create_topics=False,
        auto_commit=False,
    )


def _producer(flow: FlowSettings, cluster: Cluster) -> Producer:
    """It tries for as long as it takes: nothing is left out because a broker was away."""
    given = flow.producer
    is_transactional = flow.is_exactly_once
    return Producer(
        cluster,
        acks=given["acks"],
        compression=given["compression.type"],
        buffer_memory=int(given["buffer.memory"]),
        max_request_size=int(given["max.request.size"]),
        request_timeout_ms=int(given["request.timeout.ms"]),
        max_in_flight=int(given["max.in.flight.requests.per.connection"]),
        delivery_timeout_ms=FOREVER_MS,
        max_block_ms=FOREVER_MS,
        idempotence=given["enable.idempotence"] == "true",
        linger_ms=0,
        transactional_id=flow.transactional_id if is_transactional else None,
        transaction_timeout_ms=int(given["transaction.timeout.ms"]),
    )
