"""The table of one topic, whatever its format: what the writer asks of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from .place import Place
from .state import TableFacts

if TYPE_CHECKING:
    import pyarrow as pa

    from ..storage.table_configs import PartitionField


class TopicTable(Protocol):
    def open(
        self, schema: pa.Schema, partition_by: Sequence[PartitionField], generation: int = 0
    ) -> None:
        """Load the newest state; create the table if there is none. A table of an older generation
        keeps its columns: it is rebuilt. Raises Conflict, TableError."""

    @property
    def schema(self) -> pa.Schema: ...

    def offsets(self) -> dict[int, int]:
        """By partition, the first offset that the loaded state does not have."""

    def facts(self) -> TableFacts:
        """Of the loaded state."""

    def rows(self) -> pa.Table:
        """All rows of the loaded state."""

    def append(self, rows: pa.Table, offsets: Mapping[int, int]) -> None:
        """Add rows to the loaded state, which has the records before `offsets` then. Raises
        Conflict if the table has changed since; other errors leave open whether it has them."""

    def upsert(
        self, rows: pa.Table, deleted: pa.Array, key: str, offsets: Mapping[int, int]
    ) -> None:
        """As `append`; rows replace those of the same key, and keys of `deleted` are removed."""

    def compact(self, target_bytes: int, *, whole: bool = False) -> bool:
        """Merge some small files; false: too few are there, `whole`: no two. The rows stay the
        same. Raises Conflict. The loaded state may have later commits by others then, as after
        `expire`."""

    def expire(self, retention_ms: int) -> None:
        """Remove snapshots that are older, and files that no other has. Raises Conflict."""

    def remove_orphans(self, min_age_ms: int, retention_ms: int) -> int:
        """Remove files of commits that were not finished, of this age; returns how many. The loaded
        state stays. `retention_ms`: how long snapshots stay, -1 for ever."""

    def begin_rebuild(self, schema: pa.Schema, partition_by: Sequence[PartitionField]) -> None:
        """What is added from now on is a table of its own with this schema, of which readers see
        nothing; nor do `offsets` and `facts`. `open` ends it. Raises TableError."""

    def abandon_rebuild(self) -> None:
        """Delete what a rebuild has written, if one is not finished."""

    def finish_rebuild(self, generation: int) -> None:
        """It takes the place of the loaded state at once. Raises Conflict."""

    def note_compaction(self, number: int) -> None:
        """All small files were merged upon request: `facts` has the number."""

    def drop(self) -> None:
        """Remove the table, which need not be open, with its files, if it is this topic's. May be
        repeated after any end of a process."""


def table_of(kind: str, place: Place, topic: str, topic_id: str) -> TopicTable:
    """The topic's table, not open yet. Raises ImportError, ValueError."""
    if kind == "delta":
        from .delta import DeltaTopicTable

        return DeltaTopicTable(place, topic, topic_id)
    from .iceberg import IcebergTable, open_catalog

    return IcebergTable(open_catalog(place), place, topic, topic_id)
