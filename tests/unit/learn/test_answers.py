"""What a reader types, compared with what the cluster says."""

from __future__ import annotations

import pytest

from pybroker_kafka.learn.answers import Answer, Number, Numbers, Word

RIGHT: list[tuple[Answer, str]] = [
    (Number(3), "3"),
    (Number(3), " partition 3. "),
    (Number(3), "it is 3, I think"),
    (Number(-1), "-1"),
    (Number(78), "00000000000000000078"),
    (Number(104857600), "104,857,600"),
    (Number(104857600), "104 857 600"),
    (Number(104857600), "104_857_600"),
    (Numbers(frozenset({1, 2})), "1,2"),
    (Numbers(frozenset({1, 2})), "2 and 1"),
    (Numbers(frozenset({1, 2})), "{1, 2}"),
    (Numbers(frozenset({100, 200})), "100,200"),
    (Numbers(frozenset()), "none"),
    (Numbers(frozenset()), "No."),
    (Word("CompleteCommit"), " completecommit "),
    (Word("CompleteCommit"), '"Complete Commit".'),
]
WRONG: list[tuple[Answer, str]] = [
    (Number(3), ""),
    (Number(3), "three"),
    (Number(3), "3 or 4"),
    (Number(3), "13"),
    (Number(3), "3.5"),
    (Number(3), "v3"),
    (Number(3), "2-3"),
    (Number(1), "-1"),
    (Numbers(frozenset({1, 2})), "1"),
    (Numbers(frozenset({1, 2})), "1, 2, 3"),
    (Numbers(frozenset({1, 2})), "1, 2, 2"),
    (Numbers(frozenset({1, 2})), "none"),
    (Numbers(frozenset()), ""),
    (Numbers(frozenset()), "1"),
    (Word("Stable"), "Unstable"),
    (Word("Stable"), ""),
]


@pytest.mark.parametrize(("answer", "given"), RIGHT)
def test_right(answer: Answer, given: str) -> None:
    assert answer.matches(given)


@pytest.mark.parametrize(("answer", "given"), WRONG)
def test_wrong(answer: Answer, given: str) -> None:
    assert not answer.matches(given)


@pytest.mark.parametrize("answer", [answer for answer, _ in RIGHT])
def test_what_is_shown_is_right(answer: Answer) -> None:
    assert answer.matches(answer.text)
