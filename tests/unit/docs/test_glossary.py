"""docs/GLOSSARY.md: each of its words is used, and found where the alphabet says."""

from __future__ import annotations

import re
from functools import cache

import pytest

from tests.support.page_blocks import pages
from tests.support.processes import ROOT

GLOSSARY = ROOT / "docs" / "GLOSSARY.md"
ROWS = re.compile(r"^\| \*\*(.+?)\*\* \|", re.MULTILINE)
WORDS = ROWS.findall(GLOSSARY.read_text())
ROOMS = ("broker", "client", "coordinator", "local", "replication", "storage", "testkit")


@cache
def other_text() -> str:
    files = [page for page in pages() if page != GLOSSARY]
    for room in (*ROOMS, "tests/simulation", "tests/support"):
        files += (ROOT / room).rglob("*.py")
    return "\n".join(file.read_text() for file in files).lower()


@pytest.mark.parametrize("word", WORDS)
def test_each_word_is_used(word: str) -> None:
    plain = r"[\s_-]+".join(re.escape(part) for part in re.split(r"[ -]", word.lower()))
    is_used = re.search(rf"\b{plain}(e?s)?\b", other_text()) is not None
    assert is_used


def test_words_are_in_order_and_stand_once() -> None:
    assert len(set(WORDS)) == len(WORDS) > 70
    for section in GLOSSARY.read_text().split("\n## ")[1:]:
        found = [word.lower() for word in ROWS.findall(section)]
        assert found == sorted(found)
