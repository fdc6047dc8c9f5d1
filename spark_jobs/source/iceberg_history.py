"""A topic's table in Iceberg as the history of a query, through pyiceberg.

A file of metadata is of no use to a task: a writer keeps the newest hundred of them, which may be
those of two minutes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThanOrEqual,
    LessThan,
    Or,
)
from pyiceberg.io import load_file_io
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.table import FileScanTask
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.types import IntegerType, LongType

from ...tables.iceberg import is_of_several_topics, offsets_of, open_catalog
from .history_files import Bounds, grouped
from .limits import OptionError

if TYPE_CHECKING:
    import pyarrow as pa

    from ...tables.place import Place


@dataclass(frozen=True, slots=True)
class IcebergFiles:
    """Files of one snapshot of a table, for a task."""

    metadata: str = field(repr=False)  # of the table: its columns
    properties: Mapping[str, str] = field(repr=False)  # of the catalogue: access to the files
    tasks: tuple[FileScanTask, ...]

    def rows(self, columns: Sequence[str], bounds: Bounds | None) -> Iterator[pa.RecordBatch]:
        metadata = TableMetadataUtil.parse_raw(self.metadata)
        io = load_file_io(dict(self.properties), metadata.location)
        scan = ArrowScan(metadata, io, metadata.schema().select(*columns), _filter(bounds))
        for task in self.tasks:
            yield from scan.to_record_batches([task])


class IcebergHistory:
    """The newest snapshot of a topic's table. Raises pyiceberg's error if there is none."""

    def __init__(self, place: Place, topic: str, topic_id: str) -> None:
        catalog = open_catalog(place)
        self._table = catalog.load_table((place.namespace, place.table_name(topic)))
        self._topic = topic
        self._topic_id = topic_id
        self.anew = f"write it anew with: pybroker tables rebuild {topic}"

    @property
    def columns(self) -> Sequence[str]:
        return self._table.schema().column_names

    def offsets(self) -> dict[int, int]:
        if is_of_several_topics(self._table):
            raise OptionError(
                f"history=table: the table of {self._topic} also has the records of an older topic "
                f"of this name; {self.anew}"
            )
        return offsets_of(self._table, self._topic_id)

    def first_offsets(self) -> dict[int, int]:
        schema = self._table.schema()
        partition, offset = (schema.find_field(name) for name in ("partition", "offset"))
        found: dict[int, int] = {}
        for task in self._table.scan().plan_files():
            lows, highs = task.file.lower_bounds or {}, task.file.upper_bounds or {}
            if not (
                {partition.field_id, offset.field_id} <= lows.keys() and partition.field_id in highs
            ):
                return {}
            first = int(from_bytes(LongType(), lows[offset.field_id]))
            low, high = (
                int(from_bytes(IntegerType(), bounds[partition.field_id]))
                for bounds in (lows, highs)
            )
            for one in range(low, high + 1):
                found[one] = min(first, found.get(one, first))
        return found

    def files(self, bounds: Bounds | None) -> Iterator[IcebergFiles]:
        tasks = list(self._table.scan(row_filter=_filter(bounds)).plan_files())
        columns = _columns_alone(self._table.metadata)
        # With those that a REST catalogue gives for the table.
        properties = dict(self._table.io.properties)
        for group in grouped(tasks, lambda task: task.file.file_size_in_bytes):
            yield IcebergFiles(columns, properties, group)


def _columns_alone(metadata: TableMetadata) -> str:
    """The metadata without snapshots, as JSON."""
    nothing: dict[str, Any] = {"current_snapshot_id": None, "refs": {}, "statistics": []}
    nothing |= {"snapshots": [], "snapshot_log": [], "metadata_log": []}
    return metadata.model_copy(update=nothing).model_dump_json()


def _filter(bounds: Bounds | None) -> BooleanExpression:
    if bounds is None:
        return AlwaysTrue()
    parts = [
        And(
            EqualTo("partition", partition),  # type: ignore[call-arg, arg-type]
            GreaterThanOrEqual("offset", first),  # type: ignore[call-arg, arg-type]
            LessThan("offset", behind),  # type: ignore[call-arg, arg-type]
        )
        for partition, (first, behind) in bounds.items()
    ]
    return parts[0] if len(parts) == 1 else Or(*parts)
