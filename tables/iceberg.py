"""A topic's table in Iceberg, through pyiceberg.

Offsets stand in the summary of each snapshot that has them, and, for snapshots that were expired,
in the table's properties. The newest snapshot of ours among the ancestors of the current one
counts: a table that is rolled back gets the later records again.

Invariants: a commit carries rows and offsets, and the catalogue takes it only if the current
snapshot is the one that the offsets were read with. pyiceberg would repeat a refused commit upon
the newer snapshot, and so add rows twice: the table's property `commit.retry.num-retries` is 0.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchTableError,
    ResolveError,
    TableAlreadyExistsError,
    ValidationError,
)
from pyiceberg.expressions import BooleanExpression, In, Reference
from pyiceberg.table import Table, Transaction
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update.spec import UpdateSpec
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)

from ..client.admin.tables import SNAPSHOTS_TOLD, TableSnapshot
from . import iceberg_drop, iceberg_orphans, iceberg_rebuild, iceberg_upkeep
from .errors import Conflict, TableError
from .offsets import TOPIC_ID, Offsets, from_properties, to_properties
from .place import CATALOG_NAME, Place
from .state import SnapshotFacts, TableFacts, now_ms

if TYPE_CHECKING:
    from ..storage.table_configs import PartitionField

RETRIES: Final = "commit.retry.num-retries"
OURS: Final = {
    RETRIES: "0",
    # Old files of metadata; the newest hundred stay.
    "write.metadata.delete-after-commit.enabled": "true",
}
TOPIC: Final = "pybroker.topic"
# How often the table was rebuilt and compacted upon request.
GENERATION: Final = "pybroker.generation"
COMPACTION: Final = "pybroker.compaction"
OLDER: Final = "pybroker.older-topic"  # whether it also has records of an older topic of this name
SINCE: Final = "pybroker.since-ms"  # when the table became this topic's
_PERIODS: Final[Mapping[str, type[Transform[Any, Any]]]] = {
    "year": YearTransform,
    "month": MonthTransform,
    "day": DayTransform,
    "hour": HourTransform,
}


def open_catalog(place: Place) -> Catalog:
    """The catalogue; a warehouse that is a directory is created. Raises OSError, ValueError."""
    if place.is_local:
        os.makedirs(place.warehouse, exist_ok=True)
    return load_catalog(CATALOG_NAME, **place.catalog_properties)


class IcebergTable:
    def __init__(self, catalog: Catalog, place: Place, topic: str, topic_id: str) -> None:
        self._catalog = catalog
        self._name = (place.namespace, place.table_name(topic))
        self._topic = topic
        self._topic_id = topic_id
        self._table: Table | None = None
        self._rebuild: Transaction | None = None

    def open(
        self, schema: pa.Schema, partition_by: Sequence[PartitionField], generation: int = 0
    ) -> None:
        """Load the table; create it if there is none."""
        self._rebuild = None
        try:
            self._table = self._catalog.load_table(self._name)
        except NoSuchTableError:
            self._create(schema, partition_by)
        self._set_properties()
        if self._count(GENERATION) >= generation:
            self._evolve(schema)

    def _evolve(self, schema: pa.Schema) -> None:
        """Add the columns that the table lacks, and widen those of numbers."""
        known = set(self.table.schema().column_names)
        if all(
            name in known and _fits(schema.field(name).type, self.schema.field(name).type)
            for name in schema.names
        ):
            return
        try:
            with self.table.update_schema() as update:
                update.union_by_name(schema)
        except CommitFailedException as error:
            raise Conflict(str(error)) from None
        except (ValidationError, ResolveError, ValueError) as error:
            raise TableError(
                f"the table's columns cannot become those of the schema: {error}",
                f"write it anew: pybroker tables rebuild {self._topic}; or change the schema",
            ) from None

    def _create(self, schema: pa.Schema, partition_by: Sequence[PartitionField]) -> None:
        try:
            self._catalog.create_namespace_if_not_exists(self._name[:1])
        except Exception:  # a database's own error if another writer creates it at this moment
            if not self._catalog.namespace_exists(self._name[:1]):
                raise
        properties = {**OURS, TOPIC: self._topic, "format-version": "2", **self._no_offsets()}
        _check_partition_fields(schema, partition_by)
        try:
            creation = self._catalog.create_table_transaction(
                self._name, schema=schema, properties=properties
            )
            with creation as transaction:
                if partition_by:
                    with transaction.update_spec() as spec:
                        _add_partition_fields(spec, partition_by)
        except (TableAlreadyExistsError, CommitFailedException):
            raise Conflict from None
        self._table = self._catalog.load_table(self._name)

    def _no_offsets(self) -> dict[str, str]:
        return {
            **to_properties(self._topic_id, {}),
            GENERATION: "0",
            COMPACTION: "0",
            SINCE: str(now_ms()),
        }

    def _set_properties(self) -> None:
        """A table of an older topic of the same name becomes this topic's."""
        table = self.table
        wanted = dict(OURS)
        if table.properties.get(TOPIC_ID) != self._topic_id:
            wanted |= self._no_offsets()
            if table.current_snapshot() is not None:
                wanted[OLDER] = "true"
        elif SINCE not in table.properties:
            wanted[SINCE] = str(now_ms())
        if any(table.properties.get(name) != text for name, text in wanted.items()):
            with table.transaction() as transaction:
                transaction.set_properties(wanted)

    def drop(self) -> None:
        iceberg_drop.drop(self._catalog, *self._name, self._topic_id)

    @property
    def table(self) -> Table:
        assert self._table is not None, "open() comes first"
        return self._table

    @property
    def schema(self) -> pa.Schema:
        return self.table.schema().as_arrow()

    def offsets(self) -> Offsets:
        """Those of the state that was loaded, upon which the next commit is made."""
        return offsets_of(self.table, self._topic_id)

    def _told(self, snapshot: Snapshot) -> SnapshotFacts:
        summary = _summary(snapshot)
        operation = "" if snapshot.summary is None else snapshot.summary.operation.value
        told = TableSnapshot(
            str(snapshot.snapshot_id),
            snapshot.timestamp_ms,
            operation,
            _number(summary, "total-records"),
            _number(summary, "total-data-files"),
        )
        return SnapshotFacts(told, from_properties(self._topic_id, summary) or {})

    def facts(self) -> TableFacts:
        snapshot = self.table.current_snapshot()
        generation, compaction = self._count(GENERATION), self._count(COMPACTION)
        if snapshot is None:
            return TableFacts(
                rows=0, files=0, size_bytes=0, generation=generation, compaction=compaction
            )
        summary = _summary(snapshot)
        return TableFacts(
            snapshot=str(snapshot.snapshot_id),
            committed_ms=snapshot.timestamp_ms,
            rows=_number(summary, "total-records"),
            files=_number(summary, "total-data-files"),
            size_bytes=_number(summary, "total-files-size"),
            generation=generation,
            compaction=compaction,
            snapshots=tuple(map(self._told, islice(_line(self.table), SNAPSHOTS_TOLD))),
        )

    def _count(self, name: str) -> int:
        return int(self.table.properties.get(name, "0"))

    def note_compaction(self, number: int) -> None:
        with self.table.transaction() as transaction:
            transaction.set_properties({COMPACTION: str(number)})

    def rows(self) -> pa.Table:
        return self.table.scan().to_arrow()

    def append(self, rows: pa.Table, offsets: Mapping[int, int]) -> None:
        """Raises Conflict."""
        self._commit(rows, offsets, None)

    def upsert(
        self, rows: pa.Table, deleted: pa.Array, key: str, offsets: Mapping[int, int]
    ) -> None:
        """Rows replace those of their keys, and rows of `deleted` keys are removed. Raises
        Conflict."""
        keys = pa.concat_arrays([rows[key].combine_chunks(), deleted.cast(rows[key].type)])
        self._commit(rows, offsets, _one_of(key, keys) if len(keys) else None)

    def compact(self, target_bytes: int, *, whole: bool = False) -> bool:
        """Raises Conflict."""
        properties = to_properties(self._topic_id, self.offsets())
        return iceberg_upkeep.compact(self.table, target_bytes, properties, whole=whole)

    def begin_rebuild(self, schema: pa.Schema, partition_by: Sequence[PartitionField]) -> None:
        _check_partition_fields(schema, partition_by)
        try:
            self._rebuild = iceberg_rebuild.begin(
                self.table,
                schema,
                lambda spec: _add_partition_fields(spec, partition_by),
                to_properties(self._topic_id, {}),
            )
        except (ValidationError, ResolveError, ValueError) as error:
            raise TableError(
                f"the table cannot be rebuilt with this schema: {error}",
                "drop the table in its catalogue: the writer makes another one",
            ) from None

    def abandon_rebuild(self) -> None:
        rebuild, self._rebuild = self._rebuild, None
        if rebuild is not None:
            iceberg_rebuild.abandon(self.table, rebuild)

    def finish_rebuild(self, generation: int) -> None:
        """Raises Conflict."""
        rebuild, self._rebuild = self._rebuild, None
        assert rebuild is not None
        rebuild.set_properties({GENERATION: str(generation), OLDER: "false"})
        try:
            rebuild.commit_transaction()
        except CommitFailedException as error:
            raise Conflict(str(error)) from None

    def expire(self, retention_ms: int) -> None:
        """Raises Conflict."""
        iceberg_upkeep.expire(self.table, now_ms() - retention_ms)

    def remove_orphans(self, min_age_ms: int, retention_ms: int) -> int:
        return iceberg_orphans.remove(
            self.table,
            lambda: self._catalog.load_table(self._name),
            self._count(SINCE),
            now_ms() - min_age_ms,
        )

    def _commit(
        self, rows: pa.Table, offsets: Mapping[int, int], replaced: BooleanExpression | None
    ) -> None:
        properties = to_properties(self._topic_id, offsets)
        assert self.table.properties.get(RETRIES) == "0"
        if self._rebuild is not None:
            _stage(self._rebuild, rows, properties, replaced)
            return
        try:
            with self.table.transaction() as transaction:
                _stage(transaction, rows, properties, replaced)
        except CommitFailedException as error:
            raise Conflict(str(error)) from None


def offsets_of(table: Table, topic_id: str) -> Offsets:
    """By partition, the first offset that the table lacks."""
    for snapshot in _line(table):
        found = from_properties(topic_id, _summary(snapshot))
        if found is not None:
            return found
    return from_properties(topic_id, table.properties) or {}


def is_of_several_topics(table: Table) -> bool:
    """Whether the table may also have records of an older topic of the same name."""
    return table.properties.get(OLDER) == "true"


def _line(table: Table) -> Iterator[Snapshot]:
    """The current snapshot and its ancestors, as far as they are there."""
    snapshot = table.current_snapshot()
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else table.snapshot_by_id(parent)


def _stage(
    transaction: Transaction,
    rows: pa.Table,
    properties: dict[str, str],
    replaced: BooleanExpression | None,
) -> None:
    if replaced is not None and transaction.table_metadata.current_snapshot() is not None:
        transaction.delete(replaced, snapshot_properties=properties)
    # Without rows as well: the snapshot has the offsets.
    transaction.append(rows, snapshot_properties=properties)
    transaction.set_properties(properties)


def _check_partition_fields(schema: pa.Schema, partition_by: Sequence[PartitionField]) -> None:
    for field in partition_by:
        if field.column not in schema.names:
            raise TableError(
                f"pybroker.table.partition.by: there is no column {field.column}; there are "
                f"{', '.join(schema.names)}"
            )


def _add_partition_fields(spec: UpdateSpec, partition_by: Sequence[PartitionField]) -> None:
    for field in partition_by:
        spec.add_field(field.column, _transform(field), _field_name(field))


def _summary(snapshot: Snapshot) -> Mapping[str, str]:
    return {} if snapshot.summary is None else snapshot.summary.additional_properties


def _number(summary: Mapping[str, str], name: str) -> int | None:
    text = summary.get(name)
    return None if text is None else int(text)


def _fits(wanted: pa.DataType, there: pa.DataType) -> bool:
    """Whether a column need not be widened: other differences are the reader's."""
    widened = {pa.int64(): pa.int32(), pa.float64(): pa.float32()}
    if pa.types.is_struct(wanted):
        return False
    return bool(widened.get(wanted) != there)


def _one_of(column: str, values: pa.Array) -> BooleanExpression:
    return In(Reference(column), set(values.to_pylist()))  # type: ignore[call-arg, arg-type]


def _transform(field: PartitionField) -> Transform[Any, Any]:
    if field.function in _PERIODS:
        return _PERIODS[field.function]()  # type: ignore[call-arg]
    if field.function == "bucket":
        return BucketTransform(field.number)
    if field.function == "truncate":
        return TruncateTransform(field.number)
    return IdentityTransform()


def _field_name(field: PartitionField) -> str | None:
    return None if field.function == "identity" else f"{field.column}_{field.function}"
