"""A topic's table in Delta, through deltalake.

Offsets are Delta's own application transactions: one for each partition, whose version is the
offset of the next record. They stay in checkpoints, however old they are.

Invariants: a commit has rows and offsets, and is made only upon the version that the offsets were
read with. deltalake would commit an append upon any later version too, so it makes one attempt, and
it refuses a commit if another has written the same application's transaction since.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake import Schema as DeltaSchema
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from ..client.admin.tables import SNAPSHOTS_TOLD, TableSnapshot
from . import delta_upkeep
from .delta_upkeep import MS_PER_HOUR
from .errors import Conflict, TableError
from .offsets import OFFSETS, TOPIC_ID, Offsets, from_properties, to_properties
from .place import Place
from .state import SnapshotFacts, TableFacts

if TYPE_CHECKING:
    from ..storage.table_configs import PartitionField

MAX_PARTITIONS: Final = 100_000
DROPPED: Final = "-dropped-"
COMPACTION: Final = "pybroker/compaction"  # how often all files were merged upon request
NO_COUNTS: Final[Mapping[str, int]] = {}


class DeltaTopicTable:
    def __init__(self, place: Place, topic: str, topic_id: str) -> None:
        self._url = place.delta_url(topic)
        self._options = place.delta_options
        self._is_local = place.is_local
        self._topic_id = topic_id
        self._table: DeltaTable | None = None
        self._partition_by: list[str] = []

    def open(
        self, schema: pa.Schema, partition_by: Sequence[PartitionField], generation: int = 0
    ) -> None:
        """Load the table; create it if there is none."""
        self._partition_by = [field.column for field in partition_by]
        for column in self._partition_by:
            if column not in schema.names:
                raise TableError(
                    f"pybroker.table.partition.by: there is no column {column}; there are "
                    f"{', '.join(schema.names)}"
                )
            if pa.types.is_binary(schema.field(column).type):
                raise TableError(
                    f"pybroker.table.partition.by: {column} has bytes, by which tables of Delta "
                    "are not partitioned"
                )
        if self._is_local:
            os.makedirs(self._url, exist_ok=True)
        self._table = self._loaded()
        if self._table is None:
            try:
                DeltaTable.create(
                    self._url,
                    schema,
                    mode="error",
                    partition_by=self._partition_by,
                    configuration={TOPIC_ID: self._topic_id},
                    raise_if_key_not_exists=False,
                    commit_properties=self._properties({}),
                    storage_options=self._options,
                )
            except DeltaError as error:
                raise Conflict(str(error)) from None
            self._table = DeltaTable(self._url, storage_options=self._options)
        known = set(self.schema.names)
        missing = [field.with_nullable(True) for field in schema if field.name not in known]
        if missing:
            fields = DeltaSchema.from_arrow(pa.schema(missing)).fields
            try:
                self.table.alter.add_columns(fields)
            except DeltaError as error:
                raise Conflict(str(error)) from None

    def _loaded(self) -> DeltaTable | None:
        """None: there is none. `is_deltatable` would hold Python's lock while a store answers."""
        try:
            return DeltaTable(self._url, storage_options=self._options)
        except TableNotFoundError:
            return None

    @property
    def table(self) -> DeltaTable:
        assert self._table is not None, "open() comes first"
        return self._table

    @property
    def schema(self) -> pa.Schema:
        return pa.schema(self.table.schema().to_arrow())

    def offsets(self) -> Offsets:
        """Those of the loaded version."""
        return offsets_of(self.table, self._topic_id)

    def facts(self) -> TableFacts:
        files = pa.table(self.table.get_add_actions(flatten=True))
        counts = files["num_records"]
        history = tuple(map(self._told, self.table.history(SNAPSHOTS_TOLD)))
        return TableFacts(
            snapshot=str(self.table.version()),
            committed_ms=history[0].told.committed_ms if history else None,
            rows=None if counts.null_count else pc.sum(counts).as_py() or 0,
            files=files.num_rows,
            size_bytes=pc.sum(files["size_bytes"]).as_py() or 0,
            compaction=self.table.transaction_version(COMPACTION) or 0,
            snapshots=history,
        )

    def _told(self, commit: Mapping[str, Any]) -> SnapshotFacts:
        """Delta counts rows and files of the present version alone."""
        operation = str(commit.get("operation", "")).lower()
        told = TableSnapshot(str(commit["version"]), commit.get("timestamp"), operation, None, None)
        found = {name: commit.get(name) for name in (TOPIC_ID, OFFSETS)}
        return SnapshotFacts(told, from_properties(self._topic_id, found) or {})

    def rows(self) -> pa.Table:
        return self.table.to_pyarrow_table()

    def append(self, rows: pa.Table, offsets: Mapping[int, int]) -> None:
        """Raises Conflict."""
        self._append(rows, self._properties(offsets))

    def _append(self, rows: pa.Table, properties: CommitProperties) -> None:
        try:
            write_deltalake(
                self.table,
                rows,
                mode="append",
                partition_by=self._partition_by or None,
                commit_properties=properties,
            )
        except CommitFailedError as error:
            raise Conflict(str(error)) from None

    def upsert(
        self, rows: pa.Table, deleted: pa.Array, key: str, offsets: Mapping[int, int]
    ) -> None:
        """Raises Conflict."""
        gone = pa.table(
            [
                deleted.cast(field.type)
                if field.name == key
                else pa.nulls(len(deleted), field.type)
                for field in rows.schema
            ],
            schema=pa.schema([field.with_nullable(True) for field in rows.schema]),
        )
        source = pa.concat_tables([rows.cast(gone.schema), gone])
        flags = pa.array([False] * rows.num_rows + [True] * len(deleted), pa.bool_())
        source = source.append_column("__deleted", flags)
        columns = {name: f"source.`{name}`" for name in rows.schema.names}
        version = self.table.version()
        try:
            (
                self.table.merge(
                    source,
                    f"target.`{key}` = source.`{key}`",
                    source_alias="source",
                    target_alias="target",
                    commit_properties=self._properties(offsets),
                )
                .when_matched_delete("source.__deleted")
                .when_matched_update(columns)
                .when_not_matched_insert(columns, "not source.__deleted")
                .execute()
            )
            if self.table.version() == version:  # nothing to change, and so no commit
                self.append(rows.slice(0, 0), offsets)
        except CommitFailedError as error:
            raise Conflict(str(error)) from None

    def compact(self, target_bytes: int, *, whole: bool = False) -> bool:
        properties = self._properties(self.offsets())
        is_merged = delta_upkeep.compact(
            self.table, target_bytes, properties, self._options, whole=whole
        )
        if is_merged:
            self._table = DeltaTable(self._url, storage_options=self._options)
        return is_merged

    def remove_orphans(self, min_age_ms: int, retention_ms: int) -> int:
        return delta_upkeep.remove_orphans(self._url, min_age_ms, retention_ms, self._options)

    def note_compaction(self, number: int) -> None:
        """In a commit without rows. Raises Conflict."""
        self._append(
            self.schema.empty_table(), self._properties(self.offsets(), {COMPACTION: number})
        )

    # The configs refuse a rebuild: deltalake makes no commit of several writes, as it needs.

    def begin_rebuild(self, schema: pa.Schema, partition_by: Sequence[PartitionField]) -> None:
        raise TableError("a table of Delta is not rebuilt")

    def abandon_rebuild(self) -> None:
        pass

    def finish_rebuild(self, generation: int) -> None:
        raise TableError("a table of Delta is not rebuilt")

    def drop(self) -> None:
        """Remove the table, of a directory, if it is still this topic's. Repeatable: the directory
        gets another name first, under which a process that was killed finds it again."""
        assert self._is_local
        parent, name = os.path.split(self._url)
        dropped = os.path.join(parent, f".{name}{DROPPED}{self._topic_id}")
        if (
            not os.path.exists(dropped)
            and (table := self._loaded()) is not None
            and _topic_of(table) == self._topic_id
        ):
            os.rename(self._url, dropped)
        if os.path.exists(dropped):
            shutil.rmtree(dropped)

    def expire(self, retention_ms: int) -> None:
        """Removes files that no version of this time has, in whole hours. Delta itself removes
        old parts of its log. Raises Conflict."""
        try:
            self.table.vacuum(
                retention_hours=math.ceil(retention_ms / MS_PER_HOUR),
                dry_run=False,
                enforce_retention_duration=False,
                commit_properties=self._properties(self.offsets()),
            )
        except (CommitFailedError, DeltaError) as error:
            raise Conflict(str(error)) from None
        self._table = DeltaTable(self._url, storage_options=self._options)

    def _properties(
        self, offsets: Mapping[int, int], counts: Mapping[str, int] = NO_COUNTS
    ) -> CommitProperties:
        """All partitions have an application transaction, those without a record of offset 0."""
        versions = {
            _application(self._topic_id, partition): offsets.get(partition, 0)
            for partition in range(max(offsets, default=-1) + 1)
        }
        versions |= counts
        return CommitProperties(
            custom_metadata=to_properties(self._topic_id, offsets),
            max_commit_retries=0,
            app_transactions=[Transaction(name, number) for name, number in versions.items()],
        )


def offsets_of(table: DeltaTable, topic_id: str) -> Offsets:
    """By partition, the first offset that the table lacks. Partitions count up from 0 without a
    gap, as in Kafka."""
    found: Offsets = {}
    for partition in range(MAX_PARTITIONS):
        offset = table.transaction_version(_application(topic_id, partition))
        if offset is None:
            break
        found[partition] = offset
    return found


def is_of_several_topics(table: DeltaTable, topic_id: str) -> bool:
    """Whether the table may also have records of an older topic of the same name."""
    first = table.metadata().configuration.get(TOPIC_ID)
    if first is not None:
        return first != topic_id
    # Older versions of this program did not note who has made it.
    return any(commit.get(TOPIC_ID, topic_id) != topic_id for commit in table.history())


def _application(topic_id: str, partition: int) -> str:
    return f"pybroker/{topic_id}/{partition}"


def _topic_of(table: DeltaTable) -> str | None:
    """The id of the topic that wrote last; others may have written since."""
    for commit in table.history():
        if TOPIC_ID in commit:
            return str(commit[TOPIC_ID])
    return None
