"""The last record of each key; pure.

Records come in the order of their partition, and a key is of one partition, as a compacted topic
needs it: so the last row of a key is its last record. A record without a value deletes its key.
Rows without a key are left out: a compacted topic has none.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def last_by_key(rows: pa.Table, key: str, lives: pa.ChunkedArray) -> tuple[pa.Table, pa.Array]:
    """The rows to keep, and the keys to delete. `lives` is false
    for a row whose record has no value."""
    numbered = pa.table({"key": rows[key], "row": pa.array(range(rows.num_rows), pa.int64())})
    numbered = numbered.filter(pc.is_valid(numbered["key"]))
    last = numbered.group_by("key").aggregate([("row", "max")])["row_max"].combine_chunks()
    last = last.take(pc.array_sort_indices(last))
    is_kept = lives.take(last).combine_chunks()
    kept = rows.take(last.filter(is_kept))
    deleted = rows[key].take(last.filter(pc.invert(is_kept))).combine_chunks()
    return kept, deleted
