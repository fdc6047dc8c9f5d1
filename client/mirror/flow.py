"""One flow from its start to its end: clusters, own topics, positions, and the tasks over them.

A temporary failure (a connection, a missing leader) ends the attempt; after a pause the flow begins
anew at the stored positions. A permanent refusal (a login, an ACL, a record too large) ends the
flow; other flows continue.
Mirrors: MirrorMaker's herder of one pair of clusters, with its connectors.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack

import trio

from ...protocol.topics import TopicPartition
from ..cluster import Cluster
from ..consumer.options import ConsumerOptions
from ..errors import ClientError, LoginError, Refused, SettingsError
from ..producer import Producer
from .assigning import Assigning
from .compacted_topics import topic_tail
from .copying import Copying
from .formats import Heartbeat
from .groups import GroupKeeper
from .offset_syncs import OffsetSyncs
from .policies import HEARTBEATS
from .positions import read_positions, write_positions
from .reader import SourceReader
from .settings import NEVER, ClusterSettings, FlowSettings
from .stats import FlowStats
from .topic_plan import OwnTopic, own_topics
from .topics import TopicKeeper, create_own, partition_count

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
BUFFER_BYTES = 4 * 1024 * 1024  # fetched, and not given to the producer yet
FOREVER_MS = 2**31 - 1
LAG_SECONDS = 1.0
END_SECONDS = 30.0
SYNC_SECONDS = 0.25  # between checks for pairs of offsets that are due

Job = Callable[[], Awaitable[object]]


class Flow:
    """Call `run`; `stats` has the progress. `on_new_heartbeats` is called when the heartbeats topic
    at the target is new: flows from there must copy it."""

    def __init__(
        self,
        settings: FlowSettings,
        report: Callable[[str], None],
        on_new_heartbeats: Callable[[], None] = lambda: None,
    ) -> None:
        self.settings = settings
        self.stats = FlowStats(settings.source.alias, settings.target.alias, settings.copies)
        self._report_anyone = report
        self._on_new_heartbeats = on_new_heartbeats
        self._look = trio.Event()  # check topics now, before the interval ends

    def look(self) -> None:
        """Check the source's topics now: there are new ones."""
        self._look.set()

    def _report(self, line: str) -> None:
        self.stats.trouble = line
        self._report_anyone(f"{self.settings.name}: {line}")

    async def run(self, stop: trio.Event) -> None:
        """Run until `stop`, then to a clean end. Raises ClientError for a permanent refusal."""
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
                self._report(f"{found}; starting again in {pause:.0f} s")
                if trio.current_time() - began > LONGEST_PAUSE_SECONDS:
                    pause = FIRST_PAUSE_SECONDS
                with trio.move_on_after(pause):
                    await stop.wait()
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        self.stats.state = "stopped"

    async def _end_in_time(self, stop: trio.Event, attempt: trio.CancelScope) -> None:
        """After `stop`: cancel at once if nothing is copied yet; otherwise records in flight have
        END_SECONDS to arrive."""
        await stop.wait()
        if self.stats.state == "running":
            await trio.sleep(END_SECONDS)
            self._report(f"not all that was on its way has arrived in {END_SECONDS:.0f} s")
        attempt.cancel()

    async def _attempt(self, stop: trio.Event) -> None:
        flow = self.settings
        async with AsyncExitStack() as stack:
            source = await self._cluster(stack, flow.source, "admin")
            target = await self._cluster(stack, flow.target, "admin")
            writer = await self._cluster(stack, flow.target, "producer")
            side = await stack.enter_async_context(Producer(writer))
            keeper = TopicKeeper(flow, source, target, self._report)
            assigning = Assigning(flow, writer, self.stats)
            async with trio.open_nursery() as nursery:
                start = nursery.start_soon
                if flow.copies:  # the other preparations run side by side with the topics
                    start(self._keep_topics, keeper, assigning)
                new = await self._create_own()
                if HEARTBEATS in new:
                    self._on_new_heartbeats()
                if flow.heartbeats != NEVER:
                    beat = functools.partial(write_heartbeat, flow, side, self.stats)
                    start(_repeat, flow.heartbeats, beat)
                if flow.copies:
                    is_new = flow.positions_topic in new
                    await self._copy(stop, keeper, assigning, writer, side, is_new=is_new)
                else:
                    self.stats.state = "running"
                    await stop.wait()
                nursery.cancel_scope.cancel()

    async def _keep_topics(self, keeper: TopicKeeper, assigning: Assigning) -> None:
        while True:
            self._look = trio.Event()
            await keeper.refresh(assigning.take)
            with trio.move_on_after(self.settings.refresh_topics):
                await self._look.wait()

    async def _create_own(self) -> set[str]:
        """Create the mirror's own topics; the names of those that were missing."""
        flow = self.settings
        new: set[str] = set()

        async def create(of: ClusterSettings, topics: Sequence[OwnTopic]) -> None:
            async with AsyncExitStack() as stack:
                new.update(await create_own(await self._cluster(stack, of, "admin"), topics))

        async with trio.open_nursery() as nursery:
            for of, topics in zip((flow.source, flow.target), own_topics(flow), strict=True):
                if topics:
                    nursery.start_soon(create, of, topics)
        return new

    async def _cluster(self, stack: AsyncExitStack, of: ClusterSettings, role: str) -> Cluster:
        cluster = Cluster(of.bootstrap, self._report, security=of.login[role])
        return await stack.enter_async_context(cluster)

    async def _copy(
        self,
        stop: trio.Event,
        keeper: TopicKeeper,
        assigning: Assigning,
        writer: Cluster,
        side: Producer,
        *,
        is_new: bool,
    ) -> None:
        """`is_new`: no positions were stored before."""
        flow = self.settings
        syncs = OffsetSyncs(flow.max_offset_lag)
        async with AsyncExitStack() as stack:
            # Before positions are read: it ends the open transaction of another mirror.
            producer = await stack.enter_async_context(_producer(flow, writer))
            positions: dict[TopicPartition, int] = {}
            if flow.is_exactly_once or not is_new:
                count = await partition_count(keeper.target, flow.positions_topic)
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
                assigning.begin(reader, positions)
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
        """Write pairs of offsets and checkpoints, and commit offsets of groups. Raises
        ClientError."""
        flow = self.settings
        async with trio.open_nursery() as nursery:
            start = nursery.start_soon
            start(_repeat, SYNC_SECONDS, write)
            start(_repeat, flow.flush_seconds, _promoting(syncs))
            if flow.checkpoints == NEVER:
                return
            where = flow.source if flow.syncs_at_source else flow.target
            async with topic_tail(where, flow.syncs_topic, 1) as tail:
                groups = GroupKeeper(
                    flow, keeper.source, keeper.target, side, tail, self.stats, self._report
                )
                await groups.load()
                start(_repeat, flow.refresh_groups, groups.refresh)
                start(_repeat, flow.checkpoints, groups.write_checkpoints)
                await _repeat(flow.sync_groups, groups.sync_offsets)
                await trio.sleep_forever()

    async def _measure(
        self, reader: SourceReader, copying: Copying, positions: dict[TopicPartition, int]
    ) -> None:
        at = positions | copying.positions
        ends = reader.end_offsets()
        self.stats.lag = sum(max(0, end - at.get(place, 0)) for place, end in ends.items())
        await trio.lowlevel.checkpoint()


async def _repeat(seconds: float, work: Job) -> None:
    """Run `work` again and again, each time after a pause; never if the pause is NEVER."""
    while seconds != NEVER:
        await trio.sleep(seconds)
        await work()


async def _now_and_then(seconds: float, work: Job) -> None:
    """Run `work` at once, and then again and again."""
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
    """A producer without time limits: no record is left out because a broker was down."""
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


async def write_heartbeat(flow: FlowSettings, producer: Producer, stats: FlowStats) -> None:
    """Write one heartbeat. Raises ClientError."""
    now_ms = int(time.time() * 1000)
    beat = Heartbeat(flow.source.alias, flow.target.alias, now_ms)
    await producer.enqueue(
        HEARTBEATS, beat.value(), key=beat.key(), partition=0, timestamp_ms=now_ms
    )
    stats.heartbeats += 1


async def write_syncs(
    flow: FlowSettings, producer: Producer, syncs: OffsetSyncs, stats: FlowStats
) -> None:
    """Write the pairs that are due. Raises ClientError."""
    for sync in syncs.take_due():
        await producer.enqueue(flow.syncs_topic, sync.value(), key=sync.key(), partition=0)
        stats.offset_syncs += 1
