"""Clean up a partition's directory after a crash during a compaction or a deletion.

A cleaner writes `.cleaned` files, renames them to `.swap` when they are complete, and then takes
their place among the segments. So `.cleaned` files are deleted, and a swap that has begun is
completed. Files with names that no file of a log has are left alone and reported.

Mirrors: LogLoader.removeTempFilesAndCollectSwapFiles.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from .batch_scan import scan_batches
from .files import Files
from .offset_index import offset_in_name
from .recovery_notes import KEPT_FILES
from .segment import CLEANED_SUFFIX, DELETED_SUFFIX, SNAPSHOT_SUFFIX, SWAP_SUFFIX
from .segment_reader import FILE_SUFFIXES, LOG_SUFFIX

_KINDS = frozenset(
    suffix + half_made
    for suffix in (*FILE_SUFFIXES, SNAPSHOT_SUFFIX)
    for half_made in ("", CLEANED_SUFFIX, SWAP_SUFFIX)
)
Report = Callable[[str], None]


def segment_files(files: Files, directory: str) -> list[str]:
    """The names of the files of segments, half-made ones too."""
    return [
        name
        for name in files.list_directory(directory)
        if _kind_of(name) in _KINDS and offset_in_name(name.partition(".")[0]) is not None
    ]


def finish_interrupted_swap(files: Files, directory: str, report: Report) -> None:
    """Drop half-made files; complete a swap whose new segments are all there."""
    for name in files.list_directory(directory):
        path = os.path.join(directory, name)
        if name.endswith(DELETED_SUFFIX):
            if name not in KEPT_FILES:
                files.remove(path)
        elif _kind_of(name) in _KINDS and offset_in_name(name.partition(".")[0]) is None:
            report(f"{path!a} is ignored: a log has no file with such a name")
    names = segment_files(files, directory)
    cleaned = [name for name in names if name.endswith(CLEANED_SUFFIX)]
    lowest_cleaned = min((_offset_of(name) for name in cleaned), default=None)
    swaps = []
    for name in names:
        if name in cleaned:
            files.remove(os.path.join(directory, name))
        elif name.endswith(SWAP_SUFFIX):
            if lowest_cleaned is not None and _offset_of(name) >= lowest_cleaned:
                files.remove(os.path.join(directory, name))
            else:
                swaps.append(name)
    if swaps:
        _replace_swapped(files, directory, swaps, report)


def _replace_swapped(files: Files, directory: str, swaps: list[str], report: Report) -> None:
    low, high = None, -1
    for name in swaps:
        if name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
            base = _offset_of(name)
            low = base if low is None else min(low, base)
            high = max(high, _next_offset_of(files, os.path.join(directory, name), base))
    for name in segment_files(files, directory):
        if name in swaps or low is None:
            continue
        if low <= _offset_of(name) < high and not name.endswith(SNAPSHOT_SUFFIX):
            report(f"deleting {name}, which was compacted but not deleted yet")
            files.remove(os.path.join(directory, name))
    for name in swaps:
        source = os.path.join(directory, name)
        files.rename(source, source.removesuffix(SWAP_SUFFIX))


def _next_offset_of(files: Files, path: str, base: int) -> int:
    file = files.open(path)
    result = base
    for _, header, _batch in scan_batches(file, 0, file.size()):
        result = header.next_offset
    return result


def _kind_of(name: str) -> str:
    """The kind of a file: the part of its name from the first dot on."""
    _, dot, kind = name.partition(".")
    return dot + kind


def _offset_of(name: str) -> int:
    return int(name.split(".", 1)[0])
