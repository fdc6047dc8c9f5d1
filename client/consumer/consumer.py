"""A consumer for trio: `async with Consumer(bootstrap, group_id=...) as consumer: ...`

    async with Consumer("localhost:9092", group_id="billing") as consumer:
        await consumer.subscribe(["orders"])
        async for record in consumer:
            await bill(record.value)

Background work lives in the consumer's own nursery: fetches, heartbeats, rebalances. Leaving the
block commits (with auto_commit) and leaves the group, in this order, within close_timeout_seconds.

Invariants: a record counts as done once the next one is asked for, or the block is left without an
error: only then is it committed by itself. A position that was committed does not go back by a
cancellation. Partitions come and go, and callbacks are called, only when records are asked for.

Mirrors: KafkaConsumer; ClassicKafkaConsumer's order of commits, callbacks and rebalances.
Leaves out: the new group protocol (KIP-848), which brokers in ZooKeeper mode do not serve.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from types import TracebackType
from typing import Final, NamedTuple

import trio

from ...protocol.topics import TopicPartition
from ..cluster import Cluster
from ..errors import ClientError
from ..producer.coordination import GroupMetadata
from ..security.connector import Reach
from .background import Background, Bell
from .deliveries import Delivery, Ledger, RetryPolicy
from .fetcher import Fetcher, now_ms
from .group import Callback, Callbacks, Group
from .named_assignors import assignor_named
from .offset_keeper import OffsetKeeper
from .offset_requests import Committed, Found
from .options import EARLIEST, LATEST, ConsumerOptions
from .positions import Position, Positions
from .received import Received, ReceivedBatch
from .unpacking import unpack_columns


class ConsumerMetrics(NamedTuple):
    """Since the start; what is buffered, and the largest lag of a partition (-1), at the moment."""

    records: int
    fetches: int
    fetched_bytes: int
    rebalances: int
    buffered_batches: int
    max_lag: int


WAIT_SECONDS: Final = 1.0  # for records, before the group is looked at again
MAX_BATCH_RECORDS: Final = 2**31

Offsets = Mapping[TopicPartition, "int | Committed"]


class Consumer:
    """The first argument names brokers, or is a `Cluster` that is open, and stays so.

    Keywords are the fields of `ConsumerOptions`; `security` those of Kafka's clients for TLS and
    logins; `tell` is given a line for whoever wonders why nothing happens; `network` see `Cluster`.
    These three are the cluster's, where one is given.
    """

    def __init__(
        self,
        bootstrap: str | Cluster,
        *,
        security: Mapping[str, str] | None = None,
        tell: Callable[[str], None] | None = None,
        network: Reach | None = None,
        **options: object,
    ) -> None:
        self.options = ConsumerOptions(**options)  # type: ignore[arg-type]
        self._is_mine = isinstance(bootstrap, str)
        self._cluster = (
            Cluster(bootstrap, tell, security=security, network=network)
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
                self._commit_before_rebalance,
            )
            self._fetcher.on_metadata = self._group.on_metadata
            self._group.on_gone = self._forget
        self._offsets = OffsetKeeper(
            self._cluster, self._group, reads_committed=self.options.reads_committed
        )
        self._assigned_topics: set[str] = set()  # without a subscription
        self._stack = AsyncExitStack()
        self._nursery: trio.Nursery | None = None
        self._commit_due_ms = 0
        # What the application has: a batch, and the last record of it that was handed out.
        self._hand: ReceivedBatch | None = None
        self._hand_attempt = 0
        self._last_offset: int | None = None
        self._holds_all = False  # it was given the batch as a whole
        self._ledger: Ledger | None = None  # in ack mode
        self._record_count = 0  # handed out, batch by batch
        self._settled = Bell()

    async def __aenter__(self) -> Consumer:
        if self._is_mine:
            await self._stack.enter_async_context(self._cluster)
        for part in (self._fetcher, self._group):
            if part is not None:
                self._stack.callback(self._cluster.close_connections, part.purpose)
        nursery = self._nursery = await self._stack.enter_async_context(Background())
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
        """Commit what is done, then leave the group."""
        group = self._group
        if group is None:
            return
        offsets = self._committable() if is_done else self._committable(self._finished())
        self._hand = None
        if self.options.auto_commit:
            await self._commit_quietly(offsets)
        if group.is_subscribed:
            with suppress(ClientError):
                await group.revoke_all()
            await group.leave("the consumer is closed")

    # What to read

    async def subscribe(
        self,
        topics: Iterable[str] | re.Pattern[str] | str,
        *,
        on_assigned: Callback | None = None,
        on_revoked: Callback | None = None,
        on_lost: Callback | None = None,
    ) -> None:
        """Be a member of the group, for these topics: names, or a pattern for all of a name.

        Callbacks are given partitions as (topic, number); they run when records are asked for.
        Raises ClientError without a group_id, or after `assign`.
        """
        group = self._needs_group()
        if self._assigned_topics:
            raise ClientError("subscribe and assign exclude each other: call unsubscribe before")
        callbacks = Callbacks(on_assigned, on_revoked, on_lost)
        if isinstance(topics, re.Pattern):
            group.subscribe((), topics, callbacks)
        else:
            group.subscribe([topics] if isinstance(topics, str) else topics, None, callbacks)
        await trio.lowlevel.checkpoint()

    async def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, (topic, number), without the group dividing them.

        With a group_id reading begins at what it has committed.
        """
        if self._group is not None and self._group.is_subscribed:
            raise ClientError("subscribe and assign exclude each other: call unsubscribe before")
        wanted = list(partitions)
        self._assigned_topics = {topic for topic, _ in wanted}
        self._forget([tp for tp in self._positions if tp not in wanted])
        self._positions.assign(wanted)
        if self._group is None:
            self._positions.place({}, self.options.reset_to)
        self._fetcher.need_metadata()
        await trio.lowlevel.checkpoint()

    async def unsubscribe(self) -> None:
        """Leave the group, or drop what was assigned."""
        if self._group is not None and self._group.is_subscribed:
            if self.options.auto_commit:
                await self._commit_quietly(self._committable())
            await self._group.unsubscribe()
        self._hand = None
        self._forget(list(self._positions))
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
        """Records one by one, for ever. Raises ClientError for what waiting does not heal."""
        while True:
            batch = await self._next_batch(self.options.max_poll_records)
            assert batch is not None
            for record in batch:
                if self._hand is not batch:  # sought elsewhere, or unsubscribed
                    break
                self._last_offset = record.offset
                yield record

    async def batches(self) -> AsyncIterator[ReceivedBatch]:
        """All that one fetch brought of a partition at a time, for ever; as `__aiter__`."""
        while True:
            batch = await self._next_batch(MAX_BATCH_RECORDS)
            assert batch is not None
            self._hold_all(batch)
            yield batch

    async def poll(
        self, timeout_seconds: float = 0.0, max_records: int | None = None
    ) -> list[Received]:
        """Records of one partition, as soon as there are some; [] if none came in time."""
        limit = self.options.max_poll_records if max_records is None else max_records
        batch = await self._next_batch(limit, timeout_seconds)
        if batch is None:
            return []
        self._hold_all(batch)
        return list(batch)

    async def deliveries(
        self, *, max_unsettled: int = 10_000, retry: RetryPolicy | None = None
    ) -> AsyncIterator[Delivery]:
        """Ack mode: each record is to be settled, in any order, by its `ack` or `fail`.

        Several may be held at a time, by as many tasks; what failed comes again, by `retry`. With
        auto_commit, and by `commit()`, only that is committed before which all is settled. No new
        ones come while `max_unsettled` are not settled. The first call's arguments count.
        """
        if self._ledger is None:
            self._ledger = Ledger(retry or RetryPolicy(), max_unsettled, self._settled.ring)
        ledger = self._ledger
        in_a_row = 0
        while True:
            delivery = ledger.next(now_ms())
            if delivery is not None and in_a_row < self.options.max_poll_records:
                in_a_row += 1
                yield delivery
                continue
            in_a_row = 0
            if delivery is not None:
                ledger.put_back(delivery)
                await self._before_poll()
                await trio.lowlevel.checkpoint()
                continue
            due_ms = ledger.wait_ms(now_ms())
            wait = WAIT_SECONDS if due_ms is None else min(WAIT_SECONDS, due_ms / 1000)
            if ledger.room:
                limit = min(ledger.room, self.options.max_poll_records)
                batch = await self._next_batch(limit, wait)
                self._hand = None
                if batch is not None:
                    ledger.add(batch, batch.next_offset)
            else:
                await self._before_poll()
                await self._settled.wait(wait)

    def _forget(self, partitions: Collection[TopicPartition]) -> None:
        """They have gone, or are read from elsewhere."""
        if self._ledger is not None:
            self._ledger.drop(partitions)

    def _hold_all(self, batch: ReceivedBatch) -> None:
        self._last_offset = batch.offsets[-1]
        self._holds_all = True

    async def _next_batch(
        self, max_records: int, timeout_seconds: float | None = None
    ) -> ReceivedBatch | None:
        """What was in hand is done; None only with a timeout."""
        if self._nursery is None:
            raise ClientError("a consumer is used with `async with`")
        deadline = trio.current_time() + (timeout_seconds or 0.0)
        rest = self._rest_of_hand()
        if rest is not None:
            self._start_auto_commit()
            await trio.lowlevel.checkpoint()
            self._record_count -= len(rest)
            return self._hold(rest)
        while True:
            await self._before_poll()
            await trio.lowlevel.checkpoint()  # behind it nothing is cancelled, or it would be lost
            batch = self._fetcher.take(max_records)
            if batch is not None:
                return self._hold(batch)
            left = deadline - trio.current_time()
            if timeout_seconds is not None and left <= 0:
                return None
            wait = WAIT_SECONDS if timeout_seconds is None else min(left, WAIT_SECONDS)
            await self._fetcher.arrived.wait(wait)

    def _hold(self, batch: ReceivedBatch) -> ReceivedBatch:
        self._hand = batch
        self._record_count += len(batch)
        self._hand_attempt = self._positions[batch.topic, batch.partition].attempt
        self._last_offset = None
        self._holds_all = False
        return batch

    def _rest_of_hand(self) -> ReceivedBatch | None:
        """What an `async for` that was left had not handed out."""
        hand = self._hand
        if hand is None:
            return None
        state = self._positions.get((hand.topic, hand.partition))
        if state is None or state.attempt != self._hand_attempt:
            return None
        return hand if self._last_offset is None else hand.behind(self._last_offset)

    async def _before_poll(self) -> None:
        """The application has done what it had in hand: commit, rebalance, find positions."""
        self._fetcher.take_failure()
        self._start_auto_commit()
        group = self._group
        if group is not None:
            if group.is_subscribed:
                await group.before_poll()
            waiting = self._positions.awaiting_committed()
            if waiting:
                found = await self._offsets.committed(waiting)
                places = {tp: Position(c.offset, c.epoch) for tp, c in found.items()}
                self._positions.place(places, self.options.reset_to)
                self._fetcher.bell.ring()
        self._hand = None

    # Positions

    def _through(self) -> dict[TopicPartition, Position]:
        """Positions behind all that was handed out."""
        found = self._positions.current()
        hand = self._hand
        if hand is not None and (place := (hand.topic, hand.partition)) in found:
            if self._last_offset is None:
                found[place] = Position(hand.offsets[0], hand.leader_epoch)
            elif self._last_offset < hand.offsets[-1]:
                found[place] = Position(self._last_offset + 1, hand.leader_epoch)
        return found

    def _finished(self) -> dict[TopicPartition, Position]:
        """The same without what the application is still working on."""
        found = self._through()
        hand = self._hand
        if hand is not None and self._last_offset is not None:
            place = (hand.topic, hand.partition)
            begun = hand.offsets[0] if self._holds_all else self._last_offset
            if place in found:
                found[place] = Position(begun, hand.leader_epoch)
        return found

    def _committable(
        self, positions: Mapping[TopicPartition, Position] | None = None
    ) -> Mapping[TopicPartition, Position]:
        """`positions`, or all that was handed out; in ack mode what is settled."""
        if self._ledger is None:
            return self._through() if positions is None else positions
        settled = self._ledger.committable().items()
        return {tp: Position(o) for tp, o in settled if self._positions.get(tp) is not None}

    def position(self, partition: TopicPartition) -> int | None:
        """The offset that is handed out next; None until it is known.

        Raises ClientError if the partition is not assigned.
        """
        state = self._positions[partition]
        at = self._through().get(partition)
        return None if at is None or state.position is None else at.offset

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on at an offset. Raises ClientError if the partition is not assigned."""
        if offset < 0:
            raise ClientError(f"there are no negative offsets: {offset}")
        self._drop_from_hand([partition])
        self._positions[partition].seek(Position(offset))
        self._fetcher.bell.ring()

    async def seek_to_timestamp(
        self, timestamp: int, partitions: Iterable[TopicPartition] | None = None
    ) -> None:
        """Go on at the first record at or after a time in ms, at the end if there is none.

        `partitions`: some of those that are assigned; None: all. Raises ClientError.
        """
        for partition in self._some(partitions):
            self._drop_from_hand([partition])
            self._positions[partition].request_reset(timestamp)
        self._fetcher.bell.ring()
        await trio.lowlevel.checkpoint()

    async def seek_to_beginning(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Go on at the first record there is; as `seek_to_timestamp`."""
        await self.seek_to_timestamp(EARLIEST, partitions)

    async def seek_to_end(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Go on with what comes from now on; as `seek_to_timestamp`."""
        await self.seek_to_timestamp(LATEST, partitions)

    def _some(self, partitions: Iterable[TopicPartition] | None) -> list[TopicPartition]:
        return list(self._positions) if partitions is None else list(partitions)

    def _drop_from_hand(self, partitions: Collection[TopicPartition]) -> None:
        self._forget(partitions)
        if self._hand is not None and (self._hand.topic, self._hand.partition) in partitions:
            self._hand = None

    def pause(self, *partitions: TopicPartition) -> None:
        """Hand out nothing more of these until `resume`; they stay assigned."""
        for partition in partitions:
            self._positions[partition].is_paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        """The end of `pause`."""
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
        """As of now."""
        lags = [lag for partition in self._positions if (lag := self.lag(partition)) is not None]
        return ConsumerMetrics(
            records=self._record_count,
            fetches=self._fetcher.fetches,
            fetched_bytes=self._fetcher.bytes_fetched,
            rebalances=self._group.membership.rebalances if self._group is not None else 0,
            buffered_batches=len(self._fetcher.buffer),
            max_lag=max(lags, default=-1),
        )

    def group_metadata(self) -> GroupMetadata:
        """For `Producer.send_offsets`: a member of an older generation is refused (KIP-447).

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
        """The first offset at or after a time in ms, of each; -1 where there is none."""
        return await self._offsets.offsets_at(timestamps)

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """The first offset that is there, of each. Raises ClientError."""
        found = await self._offsets.offsets_at(dict.fromkeys(partitions, EARLIEST))
        return {tp: each.offset for tp, each in found.items()}

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset of the next record, of each; under read_committed the last stable one."""
        found = await self._offsets.offsets_at(dict.fromkeys(partitions, LATEST))
        return {tp: each.offset for tp, each in found.items()}

    # Commits

    async def commit(self, offsets: Offsets | None = None) -> None:
        """Until the coordinator has them; None: behind all that was handed out, in hand included.

        Offsets are those of the next record. Raises CommitFailed, ClientError.
        """
        await self._offsets.commit(_commits(offsets, self._committable()))

    def commit_soon(
        self,
        offsets: Offsets | None = None,
        on_done: Callable[[ClientError | None], None] | None = None,
    ) -> None:
        """The same in the background; `on_done` is told what went wrong, or None."""
        if self._nursery is None:
            raise ClientError("a consumer is used with `async with`")
        commits = _commits(offsets, self._committable())

        async def run() -> None:
            failure = None
            try:
                await self._offsets.commit(commits)
            except ClientError as error:
                failure = error
            if on_done is not None:
                on_done(failure)
            elif failure is not None:
                self._cluster.tell(str(failure))

        self._nursery.start_soon(run)

    async def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Committed]:
        """What the group has committed of those where it has. Raises ClientError."""
        return await self._offsets.committed(list(partitions))

    def _start_auto_commit(self) -> None:
        now = now_ms()
        if self._group is None or not self.options.auto_commit or now < self._commit_due_ms:
            return
        self._commit_due_ms = now + int(self.options.auto_commit_interval_seconds * 1000)
        if self._committable():
            self.commit_soon()

    async def _commit_before_rebalance(self) -> None:
        if self.options.auto_commit:
            with trio.move_on_after(self.options.close_timeout_seconds):
                await self._commit_quietly(self._committable())

    async def _commit_quietly(self, offsets: Mapping[TopicPartition, Position]) -> None:
        """What cannot be committed is read again: told, and no error."""
        if not offsets:
            return
        try:
            await self._offsets.commit(_commits(None, offsets))
        except ClientError as error:
            self._cluster.tell(str(error))


def _commits(
    offsets: Offsets | None, positions: Mapping[TopicPartition, Position]
) -> dict[TopicPartition, Committed]:
    if offsets is None:
        return {tp: Committed(at.offset, "", at.epoch) for tp, at in positions.items()}
    return {
        tp: each if isinstance(each, Committed) else Committed(each) for tp, each in offsets.items()
    }
