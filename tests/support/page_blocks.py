"""The fenced blocks of our pages, and what is done with each.

A block's language says what it is. `python`, `sh` and `console` are pasted and run, as a reader
would (`tests/compat/test_page_blocks.py`); `text` and `mermaid` are output and pictures; blocks in
the languages of files (`CONFIGURATION`) are read by a test of their own. A comment in the line
before a fence says more:

    <!-- not run: REASON -->            few, each with its reason
    <!-- run by tests/FILE.py::NAME --> another test takes this block from the page
    <!-- until: TEXT -->                it runs until it has printed this, then comes Ctrl-C
    <!-- continues -->                  pasted into the session of Python of the block before it

`<!-- blocks run by tests/FILE.py -->` anywhere in a page says that of all its blocks.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from tests.support.processes import ROOT

RUN = frozenset({"python", "sh", "console"})
CONFIGURATION = frozenset({"properties", "ini", "dockerfile", "yaml", "toml", "json"})
ILLUSTRATIONS = frozenset({"text", "mermaid"})
# A block that starts a cluster: its page needs a machine of its own.
STARTS = re.compile(r"\bpybroker (start|broker|zookeeper)\b")
NOTES = ("not run: ", "run by ", "until: ", "continues")

_FENCE = re.compile(r"^( *)(```+)([^`\n]*)$")
_NOTE = re.compile(r"^ *<!-- (.*) -->$")
_PAGE_NOTE = re.compile(r"^<!-- blocks run by (\S+) -->$", re.MULTILINE)


class Block(NamedTuple):
    page: Path
    line: int
    language: str
    text: str
    note: str

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    def noted(self, kind: str) -> str | None:
        """What the note says behind these words; None if there is no such note."""
        return self.note.removeprefix(kind) if self.note.startswith(kind) else None


def pages() -> list[Path]:
    """All that readers are shown, those of decisions included."""
    found = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    return sorted(found)


def blocks(page: Path) -> list[Block]:
    found = []
    lines = page.read_text().splitlines()
    number = 0
    while number < len(lines):
        opened = _FENCE.match(lines[number])
        if opened is None:
            number += 1
            continue
        indent, fence, language = opened.groups()
        end = next(i for i in range(number + 1, len(lines)) if lines[i].strip() == fence)
        inner = [line.removeprefix(indent) for line in lines[number + 1 : end]]
        note = _NOTE.match(lines[number - 1]) if number else None
        text = "\n".join(inner) + "\n"
        found.append(Block(page, number + 1, language.strip(), text, note[1] if note else ""))
        number = end + 1
    return found


def other_test(page: Path) -> str | None:
    """The test that runs all blocks of a page, where that is another one."""
    found = _PAGE_NOTE.search(page.read_text())
    return found[1] if found else None


def to_run(page: Path) -> list[Block]:
    """Those that this page's reader pastes, and that no other test runs."""
    if other_test(page):
        return []
    return [
        block
        for block in blocks(page)
        if block.language in RUN
        and block.noted("not run: ") is None
        and block.noted("run by ") is None
    ]


def programs(found: list[Block]) -> list[Block]:
    """The same blocks, each that continues joined to the one before it."""
    joined: list[Block] = []
    for block in found:
        if block.note == "continues":
            joined[-1] = joined[-1]._replace(text=f"{joined[-1].text}\n{block.text}")
        else:
            joined.append(block)
    return joined
