"""Upkeep of a table in Delta: small files are merged, files that no commit has are removed.

deltalake's `optimize` cannot be used: it merges files that a commit has merged since, and so adds
their rows twice. A merge here is one commit that adds a file and removes others, with the
application transactions of its writer, which deltalake refuses upon a later version.

Invariants: a merge has the rows of the files that it replaces, and says that no data changed, so
that a stream from the table passes over it. A file is removed only if the newest version does not
have it, nor any version of the retention time, and if it is older than commits take.

Mirrors: OptimizeTableCommand and VacuumCommand of Delta Lake. Leaves out: tables with deletion
vectors or renamed columns, which other writers may have made of ours.
"""

from __future__ import annotations

import contextlib
import json
import math
import posixpath
import re
import uuid
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction, RemoveAction
from pyarrow import fs as pa_fs

from .errors import Conflict
from .state import now_ms
from .upkeep import SmallFile, files_to_merge

MS_PER_HOUR: Final = 3_600_000
READABLE: Final = frozenset(("timestampNtz",))  # features that a reader of files needs not know
# deltalake's names, and those of merged files
_NAME: Final = re.compile(r"part-\d{5}-[0-9a-f-]{36}-c\d{3}(\.\w+)?\.parquet")

Stats = dict[str, Any]


def compact(
    table: DeltaTable,
    target_bytes: int,
    properties: CommitProperties,
    options: dict[str, str] | None = None,
    *,
    whole: bool,
) -> bool:
    """Merge some small files; whether there were any. Raises Conflict."""
    if not READABLE.issuperset(table.protocol().reader_features or ()):
        return False
    found = pa.table(table.get_add_actions()).to_pylist()
    files = [SmallFile(str(_partition(one)), one["size_bytes"]) for one in found]
    chosen = [found[place] for place in files_to_merge(files, target_bytes, whole=whole)]
    if not chosen:
        return False
    rows = _rows(table, chosen)
    at_ms = now_ms()
    values = {name: _partition_text(value) for name, value in _partition(chosen[0]).items()}
    path = f"part-00000-{uuid.uuid4()}-c000.zstd.parquet"
    files_of = pa_fs.PyFileSystem(DeltaStorageHandler(table.table_uri, options))
    pq.write_table(rows, path, filesystem=files_of, compression="zstd")
    size = files_of.get_file_info(path).size
    stats = json.dumps(_merged_stats(chosen, rows.num_rows))
    try:
        table.create_write_transaction(
            [
                AddAction(path, size, values, at_ms, False, stats),
                *(
                    RemoveAction(_file(one), False, at_ms, one["size_bytes"], values)
                    for one in chosen
                ),
            ],
            mode="append",
            schema=table.schema(),
            partition_by=list(values),
            commit_properties=properties,
        )
    except CommitFailedError as error:
        raise Conflict(str(error)) from None
    return True


def _rows(table: DeltaTable, chosen: Sequence[Mapping[str, Any]]) -> pa.Table:
    """The columns that files have: all but those of the partition."""
    dataset = table.to_pyarrow_dataset()
    fragments = {one.path.lstrip("/"): one for one in dataset.get_fragments()}
    schema = dataset.schema
    for name in _partition(chosen[0]):
        schema = schema.remove(schema.get_field_index(name))
    return pa.concat_tables(
        fragments[_file(one).lstrip("/")].to_table(schema=schema) for one in chosen
    )


def _file(found: Mapping[str, Any]) -> str:
    """Its name; the log has it in percent-encoding, which a `RemoveAction` adds itself."""
    return unquote(found["path"])


def _partition(file: Mapping[str, Any]) -> Mapping[str, Any]:
    return file.get("partition") or file.get("partition_values") or {}


def _partition_text(value: Any) -> str | None:
    """As Delta's protocol has values of partitions."""
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S.%f")
    return str(value)


def _merged_stats(files: Sequence[Mapping[str, Any]], row_count: int) -> Stats:
    """Bounds that hold for all of the files; a column of which one file knows nothing has none."""
    return {
        "numRecords": row_count,
        "minValues": _merged([one.get("min") for one in files], min),
        "maxValues": _merged([one.get("max") for one in files], max),
        "nullCount": _merged([one.get("null_count") for one in files], lambda counts: sum(counts)),
    }


def _merged(found: Sequence[Mapping[str, Any] | None], of_all: Any) -> Stats:
    stats: Stats = {}
    for name in found[0] or ():
        values = [(one or {}).get(name) for one in found]
        if isinstance(values[0], dict):
            inner = _merged(values, of_all)
            if inner:
                stats[name] = inner
        elif all(isinstance(value, (int, float, str, date)) for value in values):
            stats[name] = _stats_value(of_all(values))
    return stats


def _stats_value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return value.isoformat() if isinstance(value, date) else value


def remove_orphans(
    url: str, min_age_ms: int, retention_ms: int, options: dict[str, str] | None = None
) -> int:
    """Remove files of ours that no version of the retention time has; returns how many.

    The newest version decides, for one that is loaded may lack files of later ones.
    """
    if retention_ms < 0:  # all versions stay, and deltalake lists their files as well
        return 0
    hours = math.ceil(max(min_age_ms, retention_ms) / MS_PER_HOUR)
    table = DeltaTable(url, storage_options=options)
    try:
        useless = table.vacuum(
            retention_hours=hours, dry_run=True, enforce_retention_duration=False, full=True
        )
    except DeltaError as error:
        raise Conflict(str(error)) from None
    files = DeltaStorageHandler(url, options)
    removed = 0
    for path in {one for one in useless if _NAME.fullmatch(posixpath.basename(one))}:
        if posixpath.isabs(path) or "://" in path:  # the same file is there as a relative path
            continue
        with contextlib.suppress(OSError):
            files.delete_file(path)
            removed += 1
    return removed
