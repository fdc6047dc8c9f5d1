"""A table in Iceberg that is written anew: one transaction, which readers see as a whole or not at
all.

The columns become those of the schema, the fields by which the table is partitioned those of the
config. All rows are removed, and the topic's added piece by piece: each piece is a snapshot of its
own with its offsets, all of them are committed together upon the snapshot that was loaded. The old
state stays as a snapshot until that expires. Files of a rebuild that fails are deleted; those of a
process that is killed are orphans, which `iceberg_orphans` removes.

A column whose type the format cannot change is removed and added: old snapshots keep the old one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids, schema_to_pyarrow
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import Table, Transaction
from pyiceberg.table.update.spec import UpdateSpec
from pyiceberg.types import NestedField


def begin(
    table: Table,
    schema: pa.Schema,
    add_partition_fields: Callable[[UpdateSpec], None],
    properties: Mapping[str, str],
) -> Transaction:
    """The open transaction, in which the table is empty. Raises what pyiceberg raises."""
    transaction = table.transaction()
    if table.current_snapshot() is not None:
        transaction.delete(AlwaysTrue(), snapshot_properties=dict(properties))
    with transaction.update_spec() as spec:
        for field in table.spec().fields:
            spec.remove_field(field.name)
    wanted = assign_fresh_schema_ids(_pyarrow_to_schema_without_ids(schema))
    _set_columns(transaction, table.schema(), wanted)
    with transaction.update_spec() as spec:
        add_partition_fields(spec)
    return transaction


def abandon(table: Table, transaction: Transaction) -> None:
    """Delete the files of its snapshots, which no reader has seen."""
    known = {one.snapshot_id for one in table.metadata.snapshots}
    for snapshot in transaction.table_metadata.snapshots:
        if snapshot.snapshot_id in known:
            continue
        for manifest in snapshot.manifests(table.io):
            if manifest.added_snapshot_id != snapshot.snapshot_id:
                continue
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
                if entry.status is ManifestEntryStatus.ADDED:
                    table.io.delete(entry.data_file.file_path)
            table.io.delete(manifest.manifest_path)
        table.io.delete(snapshot.manifest_list)


def _set_columns(transaction: Transaction, there: Schema, wanted: Schema) -> None:
    types = {field.name: _arrow(field) for field in there.fields}
    same = {field.name for field in wanted.fields if types.get(field.name) == _arrow(field)}
    with transaction.update_schema(allow_incompatible_changes=True) as update:
        for name in types:
            if name not in same:
                update.delete_column(name)
        for field in wanted.fields:
            if field.name not in same:
                update.add_column(field.name, field.field_type)
    with transaction.update_schema() as update:
        for field in reversed(wanted.fields):
            update.move_first(field.name)


def _arrow(field: NestedField) -> pa.DataType:
    """The type without the ids of fields."""
    return schema_to_pyarrow(field.field_type, include_field_ids=False)
