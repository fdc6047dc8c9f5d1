"""What was lost and doubled, word by word."""

from __future__ import annotations

from collections import Counter

from pybroker_kafka.spark_jobs.pipelines.word_count_exactly_once import (
    Outcome,
    outcome,
    text_lines,
    words_of,
)


def test_a_word_lost_and_another_doubled_do_not_cancel_out() -> None:
    expected = Counter({"a": 5, "b": 2})
    assert outcome(expected, Counter({"a": 4, "b": 4})) == Outcome(8, lost=1, doubled=2)
    assert outcome(expected, expected) == Outcome(7, lost=0, doubled=0)


def test_the_text_is_as_long_as_it_is_asked_for() -> None:
    assert len(text_lines(20_000)) == 20_000
    assert words_of(["The cat, the 2 cats"]) == Counter({"the": 2, "cat": 1, "cats": 1})
