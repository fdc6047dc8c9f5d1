"""What a task reads of a topic's table, and its rows as those of the source.

A plan is made of `HistoryTable`, of which there is one for each format; a task gets `HistoryFiles`,
pickled, and needs nothing else. What a format has for its files is a `FileGroup`.

Invariant: no file is in two groups, and a group has more than one file only while all of them have
at most TASK_BYTES.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from .arrow import MAX_ROWS

if TYPE_CHECKING:
    import pyarrow as pa

TASK_BYTES: Final = 64 * 1024 * 1024  # of files that one task reads, as long as there are several
COLUMNS: Final = frozenset(("key", "value", "headers", "timestamp", "partition", "offset"))
# By partition: the first offset, and the one behind the last.
Bounds = Mapping[int, tuple[int, int]]
File = TypeVar("File")


class FileGroup(Protocol):
    """Some files of a table, as it was when they were planned. Can be pickled; has no repr of what
    gives access to the files."""

    def rows(self, columns: Sequence[str], bounds: Bounds | None) -> Iterator[pa.RecordBatch]:
        """The table's columns of these names, of the rows within the bounds; None: of all."""
        ...


class HistoryTable(Protocol):
    """A topic's table as it is now."""

    anew: str  # what to do to have it written anew

    @property
    def columns(self) -> Sequence[str]: ...

    def offsets(self) -> dict[int, int]:
        """By partition, the first offset that the table lacks. Raises OptionError if it also has
        the records of an older topic of this name."""
        ...

    def first_offsets(self) -> dict[int, int]:
        """An offset for each partition, before which the table has no record, by the files' own
        bounds; {}: they have none."""
        ...

    def files(self, bounds: Bounds | None) -> Iterable[FileGroup]:
        """Those that may have rows within the bounds; None: all."""
        ...


@dataclass(frozen=True, slots=True)
class HistoryFiles:
    """What a task reads: some files of a table, and of their rows those within `bounds`."""

    topic: str
    group: FileGroup
    bounds: Bounds | None  # None: all rows
    timestamp_type: int


def grouped(files: Iterable[File], size_of: Callable[[File], int]) -> Iterator[tuple[File, ...]]:
    """The files in order, in groups for a task each; `size_of` in bytes."""
    group: list[File] = []
    size = 0
    for file in files:
        if group and size + size_of(file) > TASK_BYTES:
            yield tuple(group)
            group, size = [], 0
        group.append(file)
        size += size_of(file)
    if group:
        yield tuple(group)


def read(wanted: HistoryFiles, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """In a task: the rows of these files, with the source's columns of these names."""
    columns = COLUMNS & set(names)
    if "timestampType" in names:
        columns |= {"timestamp"}
    # A row that has none of them is there all the same.
    for batch in wanted.group.rows(sorted(columns or {"partition"}), wanted.bounds):
        for start in range(0, len(batch), MAX_ROWS):
            yield _row_batch(wanted, batch.slice(start, MAX_ROWS), names)


def _row_batch(wanted: HistoryFiles, rows: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    import pyarrow as pa
    import pyarrow.compute as pc

    from .arrow import HEADERS, TIMESTAMP

    def column(name: str) -> Any:
        if name == "topic":
            return pa.repeat(pa.scalar(wanted.topic), len(rows))
        if name == "timestampType":
            is_known = pc.is_valid(rows["timestamp"])
            return pc.if_else(is_known, wanted.timestamp_type, -1).cast(pa.int32())
        if name == "timestamp":  # of a record without one: -1 ms
            return pc.fill_null(rows[name].cast(TIMESTAMP), pa.scalar(-1000, TIMESTAMP))
        if name == "headers":
            has_some = pc.greater(pc.list_value_length(rows[name]), 0)
            return pc.if_else(has_some, rows[name].cast(HEADERS), pa.scalar(None, HEADERS))
        kinds = {"key": pa.binary(), "value": pa.binary(), "partition": pa.int32()}
        return rows[name].cast(kinds.get(name, pa.int64()))

    return pa.RecordBatch.from_arrays([column(name) for name in names], names=list(names))
