"""A topic's table in Delta as the history of a query, through deltalake and pyarrow.

The files are those of the version that was the newest when they were planned. pyarrow knows from
Delta's statistics which of them have rows within the bounds, and reads of these the row groups that
do.

Invariant: a table that needs more of a reader than pyarrow does (deletion vectors, columns under
other names) is refused; a topic's writer makes none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaProtocolError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from pyarrow.dataset import (
    Expression,
    FileSystemDataset,
    ParquetFileFormat,
    ParquetFragmentScanOptions,
)
from pyarrow.fs import PyFileSystem

from ...tables.delta import is_of_several_topics, offsets_of
from .arrow import MAX_ROWS
from .history_files import Bounds, grouped
from .limits import OptionError

if TYPE_CHECKING:
    from ...tables.place import Place


class DeltaFile(NamedTuple):
    path: str  # in the table
    size_bytes: int
    values: Expression  # what is known of its rows: columns by which it is partitioned, bounds


@dataclass(frozen=True, slots=True)
class DeltaFiles:
    """Files of one version of a table, for a task."""

    url: str
    options: Mapping[str, str] | None = field(repr=False)  # access to the store
    schema: pa.Schema = field(repr=False)
    files: tuple[DeltaFile, ...]

    def rows(self, columns: Sequence[str], bounds: Bounds | None) -> Iterator[pa.RecordBatch]:
        sizes = {file.path: file.size_bytes for file in self.files}
        options = None if self.options is None else dict(self.options)
        system = PyFileSystem(DeltaStorageHandler(self.url, options, sizes))
        files = ParquetFileFormat(
            default_fragment_scan_options=ParquetFragmentScanOptions(pre_buffer=True)
        )
        fragments = [files.make_fragment(one.path, system, one.values) for one in self.files]
        dataset = FileSystemDataset(fragments, self.schema, files, system)
        # A file at a time: a task has the memory for that.
        yield from dataset.to_batches(
            columns=list(columns),
            filter=_filter(bounds),
            batch_size=MAX_ROWS,
            batch_readahead=2,
            fragment_readahead=1,
        )


class DeltaHistory:
    """The newest version of a topic's table. Raises OptionError if there is none."""

    def __init__(self, place: Place, topic: str, topic_id: str) -> None:
        self._url = place.delta_url(topic)
        self._options = place.delta_options
        self._topic = topic
        self._topic_id = topic_id
        self.anew = (
            "tables of Delta are not written anew: leave the option out, or read the table itself "
            "with pybroker_kafka.spark_jobs.tables"
        )
        try:
            self._table = DeltaTable(self._url, storage_options=self._options)
        except TableNotFoundError:
            raise OptionError(
                f"history=table: there is no table of Delta at {self._url}; if the warehouse has "
                "another name here, historyWarehouse has to say it"
            ) from None
        self._schema = pa.schema(self._table.schema().to_arrow())

    @property
    def columns(self) -> Sequence[str]:
        return list(self._schema.names)

    def offsets(self) -> dict[int, int]:
        if is_of_several_topics(self._table, self._topic_id):
            raise OptionError(
                f"history=table: the table of {self._topic} also has the records of an older topic "
                f"of this name; {self.anew}"
            )
        return offsets_of(self._table, self._topic_id)

    def first_offsets(self) -> dict[int, int]:
        actions = pa.table(self._table.get_add_actions(flatten=True))
        # Of a column by which the table is partitioned: each file has one value.
        ranges = [
            [f"partition.{name}"] * 2
            if f"partition.{name}" in actions.column_names
            else [f"min.{name}", f"max.{name}"]
            for name in ("partition", "offset")
        ]
        if not {name for pair in ranges for name in pair} <= set(actions.column_names):
            return {}
        (lows, highs), (firsts, _) = (
            [actions[name].to_pylist() for name in pair] for pair in ranges
        )
        found: dict[int, int] = {}
        for low, high, first in zip(lows, highs, firsts, strict=True):
            if low is None or high is None or first is None:
                return {}
            for partition in range(low, high + 1):
                found[partition] = min(first, found.get(partition, first))
        return found

    def files(self, bounds: Bounds | None) -> Iterator[DeltaFiles]:
        actions = pa.table(self._table.get_add_actions(flatten=True))
        paths, sizes = (actions[name].to_pylist() for name in ("path", "size_bytes"))
        size_of = dict(zip(map(unquote, paths), sizes, strict=True))  # a log has them as URLs
        try:
            dataset = self._table.to_pyarrow_dataset()
        except DeltaProtocolError as error:
            raise OptionError(
                f"history=table: the table of {self._topic} has been changed by other programs: "
                f"{error}; {self.anew}"
            ) from None
        files = [
            DeltaFile(one.path, size_of[one.path], one.partition_expression)
            for one in dataset.get_fragments(_filter(bounds))
        ]
        for group in grouped(files, lambda file: file.size_bytes):
            yield DeltaFiles(self._url, self._options, self._schema, group)


def _filter(bounds: Bounds | None) -> Expression | None:
    if bounds is None:
        return None
    partition, offset = pc.field("partition"), pc.field("offset")
    return reduce(
        or_,
        (
            (partition == one) & (offset >= first) & (offset < behind)
            for one, (first, behind) in bounds.items()
        ),
    )
