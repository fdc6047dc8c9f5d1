"""docs/FRAMEWORKS.md as projects: each section's blocks are files, named in their first lines."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.processes import ROOT

PAGE = ROOT / "docs" / "FRAMEWORKS.md"
_BLOCK = re.compile(r"^```python\n(# (\w+\.py)\n.*?)^```$", re.MULTILINE | re.DOTALL)
_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_INSTALLED = re.compile(r"`pip install ([^`]+)`")


def projects() -> dict[str, dict[str, str]]:
    """By section: the files, by name."""
    parts = _SECTION.split(PAGE.read_text())
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    return {
        title: {name: text for text, name in _BLOCK.findall(body)}
        for title, body in sections.items()
    }


def requirements() -> list[str]:
    """All that the sections install."""
    found = _INSTALLED.findall(PAGE.read_text().partition("\n## ")[2])
    return sorted({word.strip("'") for words in found for word in words.split()})


def write(files: dict[str, str], folder: Path) -> None:
    """Make the project."""
    for name, text in files.items():
        (folder / name).write_text(text)
