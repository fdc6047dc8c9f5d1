"""Three moments of trouble for the bank; `python -m tests.faults.bank` plays fifty."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.bank import play
from tests.support.bank import Bank
from tests.support.bank_books import Books, Reader
from tests.support.bank_terms import LEDGER, leg_value

SEED = 1
MOMENTS = ("zombie", "transaction coordinator killed", "leader paused")


@pytest.mark.timeout(300)
def test_transactions_keep_their_promises(tmp_path: Path) -> None:
    result = play(tmp_path, SEED, MOMENTS, ("confluent", "pybroker"), ("pybroker",))
    assert not result.broken, "\n".join([*result.broken, "the story:", *result.story])
    assert result.committed > 0
    assert result.receipts > 0
    assert result.fenced == 1
    print(result.summary())


def test_a_leg_that_is_read_twice_is_told_and_leaves_nothing_open() -> None:
    books = Books("reader")
    for number, amount in enumerate((-5, 5)):
        books.see((LEDGER, 0, number, leg_value("t", number, 2, number, amount)))
    assert (books.whole, books.open, books.violations) == ({"t"}, {}, [])
    books.see((LEDGER, 0, 0, leg_value("t", 0, 2, 0, -5)))
    assert books.open == {}
    (told,) = books.violations
    assert "is there twice" in told


@pytest.mark.parametrize("crash", [KeyError("t"), ConnectionResetError(), ValueError()])
def test_a_reader_that_has_crashed_ends_a_wait(crash: Exception) -> None:
    """What a wait takes for a broker that does not answer yet would be waited for in vain."""
    bank = Bank.__new__(Bank)
    reader = Reader("", "a reader")
    reader.crash = crash
    bank.readers = [reader]
    with pytest.raises(AssertionError, match=f"a reader: {type(crash).__name__}"):
        bank.raise_crashes()
