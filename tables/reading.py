"""The rows of a topic's table, for those who only read: nothing is created, and nothing changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .place import Place

if TYPE_CHECKING:
    import pyarrow as pa


def rows_of(kind: str, place: Place, topic: str) -> pa.Table:
    """Raises ImportError, and what the format's library raises if there is no table."""
    if kind == "delta":
        from deltalake import DeltaTable

        return DeltaTable(
            place.delta_url(topic), storage_options=place.delta_options
        ).to_pyarrow_table()
    from .iceberg import open_catalog

    table = open_catalog(place).load_table((place.namespace, place.table_name(topic)))
    return table.scan().to_arrow()
