"""Archives of sources, unpacked."""

from __future__ import annotations

import tarfile
from pathlib import Path


def unpack(archive: Path, directory: Path) -> None:
    """Without what an archive of data cannot have, where Python has the filter (3.11.4)."""
    with tarfile.open(archive) as opened:
        if hasattr(tarfile, "data_filter"):
            opened.extraction_filter = tarfile.data_filter
        opened.extractall(directory)
