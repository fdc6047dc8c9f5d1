"""Orphans of a table in Iceberg: files that no snapshot has, since the writer was killed before its
commit, or the commit was refused.

Invariants: a file is removed only if pyiceberg gives such names, it is older than `before_ms`, it
was written since the table became this topic's, and no snapshot of any branch has its name, in a
state that is loaded after the files were listed. So neither a commit that is under way loses a
file, nor another table that has older files of this directory. A process that is killed here has
removed some of them; the next one finds the others.

Leaves out: files of other programs, which name theirs otherwise, and Delta, whose `vacuum` would
not know of commits under way.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Final

from pyarrow.fs import FileInfo, FileSelector
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table

MAX_REMOVED: Final = 10_000  # at once
_UUID: Final = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_NAME: Final = re.compile(
    rf"\d{{5}}-\d+-{_UUID}\.parquet|{_UUID}-m\d+\.avro|snap-\d+-\d+-{_UUID}\.avro"
    rf"|\d{{5}}-{_UUID}\.metadata\.json"
)
_NS_PER_MS: Final = 1_000_000


def remove(table: Table, load: Callable[[], Table], since_ms: int, before_ms: int) -> int:
    """How many were removed. `load` is asked for the table's newest state."""
    io = table.io
    if not isinstance(io, PyArrowFileIO) or table.properties.get("gc.enabled") == "false":
        return 0
    scheme, netloc, root = PyArrowFileIO.parse_location(table.location(), io.properties)
    files = io.fs_by_scheme(scheme, netloc)
    old = [
        info
        for info in files.get_file_info(FileSelector(root, allow_not_found=True, recursive=True))
        if _is_ours(info) and since_ms <= info.mtime_ns // _NS_PER_MS < before_ms
    ]
    if not old:
        return 0
    try:
        known = {path.rpartition("/")[2] for path in _paths(load())}
    except FileNotFoundError:  # another process removes snapshots
        return 0
    orphans = [info.path for info in old if info.base_name not in known][:MAX_REMOVED]
    for path in orphans:
        with contextlib.suppress(FileNotFoundError):
            files.delete_file(path)
    return len(orphans)


def _is_ours(info: FileInfo) -> bool:
    return bool(info.is_file and _NAME.fullmatch(info.base_name))


def _paths(table: Table) -> Iterator[str]:
    """All files that the table has, in any of its snapshots."""
    yield table.metadata_location
    yield from (entry.metadata_file for entry in table.metadata.metadata_log)
    manifests: dict[str, ManifestFile] = {}
    for snapshot in table.metadata.snapshots:
        yield snapshot.manifest_list
        manifests |= {one.manifest_path: one for one in snapshot.manifests(table.io)}
    for path, manifest in manifests.items():
        yield path
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
            yield entry.data_file.file_path
