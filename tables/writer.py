"""Keeps the table of one topic: reads the offsets that the table has, then all later records.

Order: records are fetched (committed ones only), columns made of them in a thread, and rows and
offsets committed together once the target lag is over. After any error the table is opened anew,
and its own offsets say where to continue: so a commit whose outcome is unknown is neither repeated
nor lost, and a second writer changes nothing.

A topic with more partitions than before is opened anew as well.

A rebuild reads from the topic's earliest record, and what it writes takes the table's place once it
is as far as the table was, or has all records. Until then the table stays as it is. A rebuild that
is ended by anything begins anew. Records that do not fit are dead letters once more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import trio

from ..client.cluster import Cluster
from ..client.consumer.consumer import MAX_BATCH_RECORDS, Consumer
from ..client.consumer.received import ReceivedBatch
from ..protocol.topics import TopicPartition
from ..protocol.uuids import uuid_to_text
from ..storage.table_configs import MAX_TARGET_LAG_MS, TableSettings
from .dead_letters import send_dead_letters
from .errors import Conflict, TableError, problem_of
from .intake import Intake
from .place import Place
from .raw import raw_columns
from .shaping import NewColumns, Shaper, shaper_of
from .state import TableState
from .state import now_ms as wall_ms
from .topic_table import TopicTable, table_of
from .upkeep import MIN_AGE_OF_ORPHANS_MS, Upkeep
from .upserts import last_by_key
from .values import Bad

POLL_SECONDS: Final = 0.5
PARTITIONS_SECONDS: Final = 5.0  # between two looks whether the topic has more of them
FIRST_BACKOFF_SECONDS: Final = 0.1
MAX_BACKOFF_SECONDS: Final = 30.0


class _OpenAnew(Exception):
    """The topic has more partitions, or the table was rebuilt."""


class TopicWriter:
    def __init__(
        self,
        cluster: Cluster,
        place: Place,
        topic: str,
        settings: TableSettings,
        report: Callable[[TableState], None],
    ) -> None:
        self._cluster = cluster
        self._place = place
        self._topic = topic
        self._settings = settings
        self._report = report
        self._shaper: Shaper | None = None
        self._pieces: list[pa.Table] = []
        self._lives: list[pa.Array] = []  # upserts: whether the records of the pieces have a value
        self._dead: list[tuple[ReceivedBatch, Bad]] = []
        self._upkeep = Upkeep()
        self._rebuilt_to: dict[int, int] | None = None  # what the table had; None: no rebuild
        self.state = TableState(topic, settings.format)

    async def run(self) -> None:
        """Until cancelled."""
        backoff = FIRST_BACKOFF_SECONDS
        while True:
            commits = self.state.commits
            try:
                await self._keep()
            except (_OpenAnew, NewColumns):
                continue
            except Exception as error:  # the formats' libraries raise all kinds
                self._fail(error)
            if self.state.commits > commits:
                backoff = FIRST_BACKOFF_SECONDS
            self._report(self.state)
            await trio.sleep(backoff)
            backoff = min(2 * backoff, MAX_BACKOFF_SECONDS)

    def _fail(self, error: Exception) -> None:
        problem, advice = problem_of(error)
        self.state.fail((self._place.without_secrets(problem), advice))

    async def _keep(self) -> None:
        """Open the table and follow the topic until something is wrong."""
        found = await self._cluster.topic(self._topic)
        partitions = [(self._topic, part.partition_index) for part in found.partitions]
        table = await trio.to_thread.run_sync(
            table_of,
            self._settings.format,
            self._place,
            self._topic,
            uuid_to_text(found.topic_id),
        )
        if self._shaper is None:
            self._shaper = shaper_of(self._settings.schema, self._place.registry)
        shaper = self._shaper
        await trio.to_thread.run_sync(shaper.load)
        settings = self._settings
        await trio.to_thread.run_sync(
            table.open, shaper.columns, settings.partition_by, settings.generation
        )
        await trio.to_thread.run_sync(self._compact_whole, table)
        offsets = await trio.to_thread.run_sync(table.offsets)
        self.state.offsets = {part: offsets.get(part, 0) for _, part in partitions}
        self.state.facts = await trio.to_thread.run_sync(table.facts)
        self._report(self.state)
        self._rebuilt_to = None
        lag_ms = settings.target_lag_ms
        if settings.generation > self.state.facts.generation:
            await trio.to_thread.run_sync(
                table.begin_rebuild, shaper.columns, settings.partition_by
            )
            self._rebuilt_to, offsets, lag_ms = offsets, {}, MAX_TARGET_LAG_MS
        try:
            await self._read(table, partitions, offsets, lag_ms)
        except Exception:
            await trio.to_thread.run_sync(table.abandon_rebuild)
            raise

    async def _read(
        self,
        table: TopicTable,
        partitions: list[TopicPartition],
        offsets: dict[int, int],
        lag_ms: int,
    ) -> None:
        """Follow the topic from these offsets on."""
        self._pieces, self._lives, self._dead = [], [], []
        async with Consumer(
            self._cluster,
            auto_offset_reset="earliest",  # rows that the table has are cut off by the intake
            auto_commit=False,
            isolation_level="read_committed",
            max_partition_fetch_bytes=4 * 1024 * 1024,
        ) as consumer:
            await consumer.assign(partitions)
            starts = await consumer.beginning_offsets(partitions)
            for partition in partitions:
                wanted = offsets.get(partition[1], 0)
                consumer.seek(partition, max(wanted, starts[partition]))
                if wanted < starts[partition] and partition[1] in offsets:
                    self._lost(partition, wanted, starts[partition])
            intake = Intake(offsets, lag_ms)
            await self._follow(consumer, intake, table, len(partitions))

    def _lost(self, partition: TopicPartition, wanted: int, start: int) -> None:
        self.state.fail(
            (
                f"records {wanted} to {start - 1} of partition {partition[1]} were deleted before "
                "they were in the table",
                "they are lost to the table, which goes on; set retention.ms of the topic well "
                "above the target lag",
            )
        )
        self._report(self.state)

    async def _follow(
        self, consumer: Consumer, intake: Intake, table: TopicTable, partition_count: int
    ) -> None:
        look_at = trio.current_time() + PARTITIONS_SECONDS
        while True:
            wait_ms = intake.wait_ms(_now_ms())
            wait = POLL_SECONDS if wait_ms is None else min(POLL_SECONDS, wait_ms / 1000)
            batch = await consumer.polling.next_batch(MAX_BATCH_RECORDS, wait)
            if batch is not None:
                consumer.progress.hold_all(batch)
                await self._accept(intake, batch)
            if intake.is_due(_now_ms()):
                await self._commit(table, intake)
                self._note_ends(consumer, intake)
            if self._is_rebuilt(consumer):
                await self._finish_rebuild(table, intake)
            if trio.current_time() >= look_at:
                look_at = trio.current_time() + PARTITIONS_SECONDS
                self._note_ends(consumer, intake)
                found = await self._cluster.topic(self._topic)
                if len(found.partitions) != partition_count:
                    raise _OpenAnew

    def _note_ends(self, consumer: Consumer, intake: Intake) -> None:
        """If nothing waits, the table has all before the consumer's positions, which also pass the
        ends of transactions."""
        is_idle, is_whole = intake.wait_ms(_now_ms()) is None, True
        for partition in consumer.assignment:
            at, lag = consumer.position(partition), consumer.lag(partition)
            if at is not None and is_idle and self._rebuilt_to is None:
                self.state.offsets[partition[1]] = at
            if at is not None and lag is not None:
                self.state.ends[partition[1]] = at + lag
            is_whole = is_whole and is_idle and lag == 0
        if is_whole and self._rebuilt_to is None:
            self.state.whole_ms = wall_ms()
            self.state.recover()
        self._report(self.state)

    async def _accept(self, intake: Intake, batch: ReceivedBatch) -> None:
        if not len(batch):
            return
        size = len(batch.columns.data) * len(batch) // max(1, len(batch.columns))
        first = batch.offsets[0]
        begin = intake.accept(batch.partition, first, batch.next_offset, size, _now_ms())
        rest = batch if begin == first else batch.behind(begin - 1)
        if rest is not None and begin < batch.next_offset:
            await trio.to_thread.run_sync(self._shape, rest)

    def _shape(self, batch: ReceivedBatch) -> None:
        """In a thread."""
        assert self._shaper is not None
        raw = raw_columns(batch)
        rows, bad = self._shaper.shape(raw)
        self._pieces.append(rows)
        if self._settings.upserts:
            left_out = {one.row for one in bad}
            fitting = [row for row in range(len(batch)) if row not in left_out]
            self._lives.append(pc.is_valid(raw["value"]).take(pa.array(fitting, pa.int64())))
        if bad and not self._settings.dead_letter_topic:
            raise TableError(
                f"offset {batch.offsets[bad[0].row]} of partition {batch.partition} does not fit "
                f"the schema: {bad[0].reason}; the topic has no pybroker.table.dead.letter.topic",
                "name a topic for such records: pybroker topics alter "
                f"{batch.topic} --set pybroker.table.dead.letter.topic=TOPIC; or change the schema",
            )
        self._dead += [(batch, one) for one in bad]

    async def _commit(self, table: TopicTable, intake: Intake) -> None:
        assert self._shaper is not None
        rows = pa.concat_tables([self._shaper.columns.empty_table(), *self._pieces])
        lives = pa.chunked_array(self._lives, pa.bool_())
        dead, self._pieces, self._lives, self._dead = self._dead, [], [], []
        if dead:
            topic = self._settings.dead_letter_topic
            await send_dead_letters(self._cluster, topic, dead)
            self.state.dead_letters += len(dead)
        offsets = dict(intake.offsets)
        await trio.to_thread.run_sync(self._write, table, rows, lives, offsets)
        intake.committed()
        if self._rebuilt_to is not None:
            return
        self._upkeep.committed()
        self.state.offsets |= offsets
        self.state.recover()
        self.state.rows += rows.num_rows
        self.state.commits += 1
        await trio.to_thread.run_sync(self._keep_up, table, offsets)
        self.state.facts = await trio.to_thread.run_sync(table.facts)

    def _is_rebuilt(self, consumer: Consumer) -> bool:
        """Whether the rows of a rebuild are as far as those that they replace, or are all."""
        wanted = self._rebuilt_to
        if wanted is None:
            return False
        positions = {place[1]: consumer.position(place) for place in consumer.assignment}
        lags = {place[1]: consumer.lag(place) for place in consumer.assignment}
        return all(
            at is not None and (at >= wanted.get(part, 0) or lags[part] == 0)
            for part, at in positions.items()
        )

    async def _finish_rebuild(self, table: TopicTable, intake: Intake) -> None:
        if intake.wait_ms(_now_ms()) is not None:
            await self._commit(table, intake)
        await trio.to_thread.run_sync(table.finish_rebuild, self._settings.generation)
        self.state.recover()
        self.state.commits += 1
        raise _OpenAnew

    def _compact_whole(self, table: TopicTable) -> None:
        """In a thread: merge all small files, if that was asked for since it was last done."""
        settings = self._settings
        if settings.compaction > table.facts().compaction:
            while table.compact(settings.file_bytes, whole=True):
                pass
            table.note_compaction(settings.compaction)

    def _keep_up(self, table: TopicTable, offsets: dict[int, int]) -> None:
        """In a thread: one piece of upkeep, if one is due. Raises Conflict if the table has other
        offsets then: the state is one that another writer has made."""
        settings, upkeep = self._settings, self._upkeep
        if settings.file_bytes and upkeep.takes_compaction():
            table.compact(settings.file_bytes)
        elif settings.snapshot_retention_ms >= 0 and upkeep.takes_expiry():
            table.expire(settings.snapshot_retention_ms)
        else:
            if upkeep.takes_orphans():
                table.remove_orphans(MIN_AGE_OF_ORPHANS_MS, settings.snapshot_retention_ms)
            return
        there = table.offsets()
        if any(there.get(part, 0) != offsets.get(part, 0) for part in there.keys() | offsets):
            raise Conflict("another writer has committed")

    def _write(
        self, table: TopicTable, rows: pa.Table, lives: pa.ChunkedArray, offsets: dict[int, int]
    ) -> None:
        """In a thread."""
        if self._settings.upserts:
            assert self._shaper is not None
            key = self._shaper.key
            kept, deleted = last_by_key(rows, key, lives)
            table.upsert(kept, deleted, key, offsets)
        else:
            table.append(rows, offsets)


def _now_ms() -> int:
    return int(trio.current_time() * 1000)
