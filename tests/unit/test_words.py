"""The check of words finds each planted fault at its place, and takes no name for a word."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.words import check

pytestmark = pytest.mark.nightly  # It loads the rules of a whole grammar.
PRODUCT, TEST = Path("storage/log.py"), Path("tests/unit/storage/test_log.py")


@pytest.mark.parametrize(
    ("text", "rule", "words"),
    [
        ("The broker apends a batch.", "SpellCheck", "apends"),
        ("The broker sends an request.", "AnA", "an"),
        ("The leader of the the partition.", "RepeatedWords", "the the"),
        ("This is one of the replica.", "OneOfTheSingular", "replica"),
        ("The leader will sending records.", "WillNonLemma", "will sending"),
        ("The broker obeys a new quota.", "HomelyVerbs", "obeys"),
        ("Nobody reads this key.", "NobodyAndWhoever", "Nobody"),
    ],
)
def test_planted_faults(text: str, rule: str, words: str) -> None:
    found = check.check([check.Piece(PRODUCT, 7, f"A log.\n\n{text}\n")])
    assert [(fault.path, fault.line, fault.rule, fault.words) for fault in found] == [
        (PRODUCT, 9, rule, words)
    ]


def test_names_are_no_words() -> None:
    text = """Mirrors kafka.log.UnifiedLog; `apend` and appendAsLeader, HW, KIP-101, MAX_WAITING_MS.

    pybroker log dmup --files x.log

    See storage/log_mngr.py, retention.ms=100, the znode's zxid, and 0.5 ms a request.
    """
    assert check.check([check.Piece(PRODUCT, 1, text)]) == []


def test_our_own_rules_leave_tests_alone() -> None:
    told = "Nobody is told of it."
    assert check.check([check.Piece(TEST, 1, told)]) == []
    assert len(check.check([check.Piece(PRODUCT, 1, told)])) == 2


def test_docstrings_and_comments_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = '''"""A module."""

NAME = "# no comment"  # one comment

# two lines
# of another


def f() -> None:
    """What f does."""
'''
    (tmp_path / "module.py").write_text(source)
    monkeypatch.setattr(check, "ROOT", tmp_path)
    path = Path("module.py")
    assert sorted(check.pieces(path)) == [
        check.Piece(path, 1, "A module."),
        check.Piece(path, 3, "one comment"),
        check.Piece(path, 5, "two lines\nof another"),
        check.Piece(path, 10, "What f does."),
    ]
