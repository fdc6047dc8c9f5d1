"""The table of a deleted topic in Iceberg: removed from the catalogue, with its files.

Order: the table gets another name first, so readers lose it at once and a new topic of the old name
may have a table. Then its files go, those that name others last, and the name at the end. A process
that is killed anywhere in between finds the other name again, and continues.

A table with `gc.enabled=false` shares files with others: it loses its name alone. Leaves out:
orphans, the files of commits that were not finished.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from typing import Final

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from .offsets import TOPIC_ID

SUFFIX: Final = "__dropped_"
_LOCAL: Final = "file://"


def drop(catalog: Catalog, namespace: str, name: str, topic_id: str) -> None:
    """Remove the table, if it is still this topic's. Repeatable."""
    dropped = (namespace, f"{name}{SUFFIX}{topic_id}")
    with contextlib.suppress(NoSuchTableError):
        table = catalog.load_table((namespace, name))
        if table.properties.get(TOPIC_ID) == topic_id:
            catalog.rename_table((namespace, name), dropped)
    try:
        table = catalog.load_table(dropped)
    except NoSuchTableError:
        return
    except FileNotFoundError:  # killed before its name went
        catalog.drop_table(dropped)
        return
    if table.properties.get("gc.enabled") != "false":
        _delete_files(table)
    catalog.drop_table(dropped)


def _delete_files(table: Table) -> None:
    for snapshot in table.metadata.snapshots:
        with contextlib.suppress(FileNotFoundError):  # deleted before
            for manifest in snapshot.manifests(table.io):
                with contextlib.suppress(FileNotFoundError):
                    entries = manifest.fetch_manifest_entry(table.io, discard_deleted=False)
                    _delete(table, (entry.data_file.file_path for entry in entries))
                _delete(table, [manifest.manifest_path])
        _delete(table, [snapshot.manifest_list])
    _delete(table, (entry.metadata_file for entry in table.metadata.metadata_log))
    _delete(table, [table.metadata_location])
    _remove_empty_directories(table.location())


def _delete(table: Table, paths: Iterable[str]) -> None:
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            table.io.delete(path)


def _remove_empty_directories(location: str) -> None:
    if location.startswith(_LOCAL):
        for directory, _, _ in os.walk(location.removeprefix(_LOCAL), topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(directory)
