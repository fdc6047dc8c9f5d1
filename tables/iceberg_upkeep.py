"""Upkeep of a table in Iceberg: small files are merged, old snapshots removed with their files.

Invariants: a merge replaces files by others with the same rows, in one commit upon the loaded
snapshot. A file is deleted only after the commit that removes the last snapshot with it; a process
that is killed between them leaves unused files. Snapshots expire only while the table's
history is one line: a table with branches or tags keeps all.

pyiceberg has no operation `replace`, so a merge is an `overwrite` of the same rows.
`iceberg_orphans` removes the files of commits that were not finished.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan, _dataframe_to_data_files
from pyiceberg.manifest import ManifestFile
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.snapshots import Snapshot

from .errors import Conflict
from .upkeep import MAX_SNAPSHOTS, SmallFile, files_to_merge

MAX_EXPIRED: Final = 200  # snapshots at once


def compact(table: Table, target_bytes: int, properties: Mapping[str, str], *, whole: bool) -> bool:
    """Merge some small files; whether there were any. Raises Conflict."""
    spec = table.spec().spec_id
    tasks = [
        task
        for task in table.scan().plan_files()
        if isinstance(task, FileScanTask) and not task.delete_files and task.file.spec_id == spec
    ]
    files = [SmallFile(str(task.file.partition), task.file.file_size_in_bytes) for task in tasks]
    chosen = [tasks[place] for place in files_to_merge(files, target_bytes, whole=whole)]
    if not chosen:
        return False
    rows = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue()).to_table(chosen)
    try:
        with (
            table.transaction() as transaction,
            transaction.update_snapshot(snapshot_properties=dict(properties)).overwrite() as change,
        ):
            for task in chosen:
                change.delete_data_file(task.file)
            for file in _dataframe_to_data_files(
                transaction.table_metadata, rows, table.io, uuid.uuid4()
            ):
                change.append_data_file(file)
    except CommitFailedException as error:
        raise Conflict(str(error)) from None
    return True


def expire(table: Table, before_ms: int) -> None:
    """Remove snapshots from before this time, and the files that only they have. Raises
    Conflict."""
    line = _line(table)
    if line is None or table.properties.get("gc.enabled") == "false":
        return
    count = sum(one.timestamp_ms < before_ms for one in line[:-1])
    count = min(max(count, len(line) - MAX_SNAPSHOTS), MAX_EXPIRED)
    if count <= 0:
        return
    useless = _useless_files(table, line[:count], line[count])
    try:
        table.maintenance.expire_snapshots().by_ids(
            [one.snapshot_id for one in line[:count]]
        ).commit()
    except CommitFailedException as error:
        raise Conflict(str(error)) from None
    for path in useless:
        with contextlib.suppress(OSError):
            table.io.delete(path)


def _line(table: Table) -> list[Snapshot] | None:
    """All snapshots, the oldest first; None if they are not one line."""
    by_id = {one.snapshot_id: one for one in table.metadata.snapshots}
    found: list[Snapshot] = []
    at = table.current_snapshot()
    while at is not None:
        found.append(at)
        at = None if at.parent_snapshot_id is None else by_id.get(at.parent_snapshot_id)
    if not found or len(found) != len(by_id) or len(table.metadata.refs) != 1:
        return None
    return found[::-1]


def _useless_files(table: Table, expired: Sequence[Snapshot], kept: Snapshot) -> list[str]:
    """The files of expired snapshots that the next one lacks: in one line, no later one has
    them."""
    there = {one.manifest_path: one for one in kept.manifests(table.io)}
    gone = {
        one.manifest_path: one
        for snapshot in expired
        for one in snapshot.manifests(table.io)
        if one.manifest_path not in there
    }
    files = _data_files(table, gone.values())
    if files:
        files -= _data_files(table, there.values())
    lists = [one.manifest_list for one in expired if one.manifest_list]
    return [*files, *gone, *lists]


def _data_files(table: Table, manifests: Iterable[ManifestFile]) -> set[str]:
    return {
        entry.data_file.file_path
        for manifest in manifests
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
    }
