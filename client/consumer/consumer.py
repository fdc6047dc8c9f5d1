"""A consumer for trio: `async with Consumer(bootstrap, group_id=...) as consumer: ...`

    async with Consumer("localhost:9092", group_id="billing") as consumer:
        await consumer.subscribe(["orders"])
        async for record in consumer:
            await bill(record.value)

Background work runs in the consumer's own nursery: fetches, heartbeats, rebalances. Leaving the
block commits (with auto_commit) and leaves the group, in this order, within close_timeout_seconds.

Invariants: a record counts as done once the next one is requested, or the block is left without an
error: only then is it committed automatically. A cancellation never moves a committed position
back. Partitions are added and removed, and callbacks are called, only when records are requested.

Mirrors: KafkaConsumer; the order of commits, callbacks and rebalances of ClassicKafkaConsumer and
AsyncKafkaConsumer.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from types import TracebackType
from typing import Final, NamedTuple, NoReturn

import trio

from ...protocol.topics import TopicPartition
from ..cluster import Cluster
from ..errors import ClientError
from ..producer.coordination import GroupMetadata
from ..running import refuse_plain_with, require_trio
from ..security.connector import Reach
from .background import Background
from .commits import Commits, Offsets
from .deliveries import Delivery, RetryPolicy
from .fetcher import Fetcher
from .group import Group
from .group_work import Callback, Callbacks, SubscriptionPattern
from .named_assignors import assignor_named
from .offset_keeper import OffsetKeeper
from .offset_requests import Committed, Found
from .options import EARLIEST, LATEST, ConsumerOptions
from .polling import Polling
from .positions import Position, Positions
from .progress import Progress
from .received import Received, ReceivedBatch
from .unpacking import unpack_columns


class ConsumerMetrics(NamedTuple):
    """Counts since the start; buffered batches and the largest lag of a partition (-1: unknown)
    now."""

    records: int
    fetches: int
    fetched_bytes: int
    rebalances: int
    buffered_batches: int
    max_lag: int


MAX_BATCH_RECORDS: Final = 2**31


class Consumer:
    """The first argument names brokers, or is an open `Cluster`, which stays open.

    Keywords are the fields of `ConsumerOptions`. `security` has the settings of Kafka's clients for
    TLS and logins; `report` and `network` see `Cluster`. A given `Cluster` brings its own of these
    three.
    """

    def __init__(
        self,
        bootstrap: str | Cluster,
        *,
        security: Mapping[str, str] | None = None,
        report: Callable[[str], None] | None = None,
        network: Reach | None = None,
        **options: object,
    ) -> None:
        self.options = ConsumerOptions(**options)  # type: ignore[arg-type]
        self._is_mine = isinstance(bootstrap, str)
        self._cluster = (
            Cluster(bootstrap, report, security=security, network=network)
            if isinstance(bootstrap, str)
            else bootstrap
        )
        self._positions = Positions()
        self._fetcher = Fetcher(
            self._cluster,
            self.options,
            self._positions,
            self._wanted_topics,
            unpack_columns(self.options.check_crcs),
        )
        self._group: Group | None = None
        if self.options.group_id is not None:
            assignors = [assignor_named(name) for name in self.options.assignors]
            self._group = Group(
                self._cluster,
                self.options,
                assignors,
                self._positions,
                self._fetcher,
            )
            self._fetcher.on_metadata = self._group.on_metadata
        self._offsets = OffsetKeeper(
            self._cluster, self._group, reads_committed=self.options.reads_committed
        )
        self.progress = Progress(self._positions)
        self._commits = Commits(self.options, self.progress, self._offsets, self._cluster.report)
        if self._group is not None:
            self._group.work.on_gone = self.progress.forget
            self._group.work.commit_before_rebalance = self._commits.before_rebalance
        self.polling = Polling(
            self.options, self._positions, self._fetcher, self._group, self._offsets,
            self._commits, self.progress,
        )  # fmt: skip
        self._assigned_topics: set[str] = set()  # without a subscription
        self._stack = AsyncExitStack()
        self._nursery: trio.Nursery | None = None

    def __enter__(self) -> NoReturn:
        refuse_plain_with("Consumer")

    def __exit__(self, *_: object) -> None:
        pass

    async def __aenter__(self) -> Consumer:
        require_trio("Consumer")
        if self._is_mine:
            await self._stack.enter_async_context(self._cluster)
        self._stack.callback(self._cluster.close_connections, self._fetcher.purpose)
        if self._group is not None:
            self._stack.callback(self._cluster.close_connections, self._group.work.purpose)
        nursery = self._nursery = await self._stack.enter_async_context(Background())
        self._commits.nursery = nursery
        nursery.start_soon(self._fetcher.run)
        if self._group is not None:
            nursery.start_soon(self._group.run)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            with trio.move_on_after(self.options.close_timeout_seconds, shield=True):
                await self._leave(is_done=error is None)
                assert self._nursery is not None
                self._nursery.cancel_scope.cancel()
                await self._fetcher.end_sessions()
        finally:
            await self._stack.__aexit__(None, None, None)

    async def _leave(self, *, is_done: bool) -> None:
        """Commit the records that are done, then leave the group."""
        group = self._group
        if group is None:
            return
        if not is_done:
            self.progress.interrupt()
        await self._commits.background()
        await self._commits.by_itself()
        if group.is_subscribed:
            with suppress(ClientError):
                await group.revoke_all()
            await group.leave("the consumer is closed")

    # Subscription and assignment

    async def subscribe(
        self,
        topics: Iterable[str] | re.Pattern[str] | SubscriptionPattern | str,
        *,
        on_assigned: Callback | None = None,
        on_revoked: Callback | None = None,
        on_lost: Callback | None = None,
    ) -> None:
        """Join the group for these topics: names, or a pattern that whole names match: of Python,
        or a `SubscriptionPattern`, which the coordinator evaluates.

        Callbacks receive partitions as (topic, number); they run when records are requested. Raises
        ClientError without a group_id, or after `assign`.
        """
        group = self._needs_group()
        if self._assigned_topics:
            raise ClientError("subscribe and assign exclude each other: call unsubscribe before")
        callbacks = Callbacks(on_assigned, on_revoked, on_lost)
        if isinstance(topics, re.Pattern | SubscriptionPattern):
            group.subscribe((), topics, callbacks)
        else:
            group.subscribe([topics] if isinstance(topics, str) else topics, None, callbacks)
        await trio.lowlevel.checkpoint()

    async def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, (topic, number), without the group's assignment.

        With a group_id reading begins at the group's committed offsets.
        """
        if self._group is not None and self._group.is_subscribed:
            raise ClientError("subscribe and assign exclude each other: call unsubscribe before")
        wanted = list(partitions)
        self._assigned_topics = {topic for topic, _ in wanted}
        self.progress.forget([tp for tp in self._positions if tp not in wanted])
        self._positions.assign(wanted)
        if self._group is None:
            self._positions.place({}, self.options.reset_to)
        self._fetcher.need_metadata()
        await trio.lowlevel.checkpoint()

    async def unsubscribe(self) -> None:
        """Leave the group, or drop the assigned partitions."""
        if self._group is not None and self._group.is_subscribed:
            await self._commits.by_itself()
            await self._group.unsubscribe()
        self.progress.end_batch()
        self.progress.forget(list(self._positions))
        self._assigned_topics = set()
        self._positions.assign(())

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self._positions)

    def _wanted_topics(self) -> set[str] | None:
        if self._group is not None and self._group.is_subscribed:
            return self._group.wanted_topics()
        return self._assigned_topics

    def _needs_group(self) -> Group:
        if self._group is None:
            raise ClientError("this takes a group: give the consumer a group_id")
        return self._group

    # Records

    async def __aiter__(self) -> AsyncIterator[Received]:
        """Records one by one, forever. Raises ClientError for errors that waiting cannot
        resolve."""
        progress = self.progress
        while True:
            batch = await self._next_batch(self.options.max_poll_records)
            assert batch is not None
            for record in batch:
                if progress.batch is not batch:  # the application sought elsewhere, or unsubscribed
                    break
                progress.last_offset = record.offset
                yield record

    async def batches(self) -> AsyncIterator[ReceivedBatch]:
        """Batches forever, each with all records of one partition from one fetch; as
        `__aiter__`."""
        while True:
            batch = await self._next_batch(MAX_BATCH_RECORDS)
            assert batch is not None
            self.progress.hold_all(batch)
            yield batch

    async def poll(
        self, timeout_seconds: float = 0.0, max_records: int | None = None
    ) -> list[Received]:
        """Records of one partition, as soon as there are some; [] after the timeout."""
        limit = self.options.max_poll_records if max_records is None else max_records
        batch = await self._next_batch(limit, timeout_seconds)
        if batch is None:
            return []
        self.progress.hold_all(batch)
        return list(batch)

    def deliveries(
        self, *, max_unacknowledged: int = 10_000, retry: RetryPolicy | None = None
    ) -> AsyncIterator[Delivery]:
        """Ack mode: the application acknowledges each record by `ack` or rejects it by `fail`, in
        any order.

        Several tasks may hold records at a time; a failed record is delivered again, by the policy
        `retry`. Commits, with auto_commit or by `commit()`, go up to the first record that is not
        acknowledged or given up. No new records are delivered while `max_unacknowledged` are open.
        The first call's arguments apply.
        """
        self._check_open()
        return self.polling.deliveries(max_unacknowledged, retry or RetryPolicy())

    async def _next_batch(
        self, max_records: int, timeout_seconds: float | None = None
    ) -> ReceivedBatch | None:
        """The next batch; None only with a timeout. Raises ClientError."""
        self._check_open()
        return await self.polling.next_batch(max_records, timeout_seconds)

    def _check_open(self) -> None:
        if self._nursery is None:
            raise ClientError("a consumer is used with `async with`")

    # Positions

    def position(self, partition: TopicPartition) -> int | None:
        """The offset of the next record to return; None until it is known.

        Raises ClientError if the partition is not assigned.
        """
        self._positions[partition]  # checks that it is assigned
        return self.progress.next_offset(partition)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue at an offset. Raises ClientError if the partition is not assigned."""
        if offset < 0:
            raise ClientError(f"there are no negative offsets: {offset}")
        self.progress.drop([partition])
        self._positions[partition].seek(Position(offset))
        self._fetcher.bell.ring()

    async def seek_to_timestamp(
        self, timestamp: int, partitions: Iterable[TopicPartition] | None = None
    ) -> None:
        """Continue at the first record at or after a time in ms, at the end if there is none.

        `partitions`: some of the assigned ones; None: all. Raises ClientError.
        """
        for partition in self._some(partitions):
            self.progress.drop([partition])
            self._positions[partition].request_reset(timestamp)
        self._fetcher.bell.ring()
        await trio.lowlevel.checkpoint()

    async def seek_to_beginning(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Continue at the first record of the log; as `seek_to_timestamp`."""
        await self.seek_to_timestamp(EARLIEST, partitions)

    async def seek_to_end(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Continue with records appended from now on; as `seek_to_timestamp`."""
        await self.seek_to_timestamp(LATEST, partitions)

    def _some(self, partitions: Iterable[TopicPartition] | None) -> list[TopicPartition]:
        return list(self._positions) if partitions is None else list(partitions)

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no more records of these partitions until `resume`; they stay assigned."""
        for partition in partitions:
            self._positions[partition].is_paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        """End `pause`."""
        for partition in partitions:
            self._positions[partition].is_paused = False
        self._fetcher.bell.ring()
        self._fetcher.arrived.ring()

    @property
    def paused(self) -> frozenset[TopicPartition]:
        return frozenset(tp for tp, state in self._positions.items() if state.is_paused)

    def lag(self, partition: TopicPartition) -> int | None:
        """Records between the position and the end, as of the last fetch; None before it."""
        state = self._positions[partition]
        end = state.end_offset(self.options.reads_committed)
        at = self.position(partition)
        return None if at is None or end < 0 else max(0, end - at)

    def metrics(self) -> ConsumerMetrics:
        """The metrics at this moment."""
        lags = [lag for partition in self._positions if (lag := self.lag(partition)) is not None]
        return ConsumerMetrics(
            records=self.polling.record_count,
            fetches=self._fetcher.fetches,
            fetched_bytes=self._fetcher.bytes_fetched,
            rebalances=self._group.rebalances if self._group is not None else 0,
            buffered_batches=len(self._fetcher.buffer),
            max_lag=max(lags, default=-1),
        )

    def group_metadata(self) -> GroupMetadata:
        """The member, for `Producer.send_offsets`: brokers refuse an older generation (KIP-447).

        Raises ClientError without a group, or while it rebalances.
        """
        member = self._needs_group().member()
        return GroupMetadata(
            member.group_id, member.generation, member.member_id, member.instance_id
        )

    # Offsets of logs

    async def offsets_at(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, Found]:
        """The first offset at or after a time in ms, per partition; -1 if there is none."""
        return await self._offsets.offsets_at(timestamps)

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """The first offset of each log. Raises ClientError."""
        found = await self._offsets.offsets_at(dict.fromkeys(partitions, EARLIEST))
        return {tp: each.offset for tp, each in found.items()}

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset of the next record, per partition; under read_committed the last stable
        offset."""
        found = await self._offsets.offsets_at(dict.fromkeys(partitions, LATEST))
        return {tp: each.offset for tp, each in found.items()}

    # Commits

    async def commit(self, offsets: Offsets | None = None) -> None:
        """Commit until the coordinator confirms; None: up to the last record returned.
        Commits of earlier calls of `commit_soon` end first.

        Each offset is that of the next record to read. Raises CommitFailed, ClientError.
        """
        await self._commits.now(offsets)

    def commit_soon(
        self,
        offsets: Offsets | None = None,
        on_done: Callable[[ClientError | None], None] | None = None,
    ) -> None:
        """Commit in the background; `on_done` is called with the error, or None. The consumer does
        not leave its group before the commit has ended."""
        self._commits.soon(offsets, on_done)

    async def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Committed]:
        """The group's committed offsets of those partitions that have one. Raises ClientError."""
        return await self._offsets.committed(list(partitions))
