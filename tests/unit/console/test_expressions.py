"""Filters of records: what is meant, and what cannot be asked."""

from __future__ import annotations

import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.console.expressions import LENGTH_MAX, BadExpression, compiled

RECORD = {
    "key": "k1",
    "value": {"user": "ada", "n": 7, "tags": ["new", "big"], "inner": {"deep": None}},
    "headers": {"trace": "1"},
    "offset": 12,
    "partition": 0,
    "timestamp": 1_700_000_000_000,
}
COMPARISONS = {"==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
               ">": operator.gt, ">=": operator.ge}  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "value.user == 'ada'",
        'value["user"] == "ada" and offset > 5',
        "not value.n < 7 and 5 < value.n <= 7",
        "'big' in value.tags or nothing_there",
        "value.tags[1] == 'big'",
        "value.inner.deep == null and value.no.such.field == None",
        "headers.trace == '1'",
        "key in 'k1k2'",
        "value.n != -7",
        "  offset == 12 ",
    ],
)
def test_what_holds(text: str) -> None:
    if "nothing_there" in text:
        with pytest.raises(BadExpression):
            compiled(text)
        return
    assert compiled(text)(RECORD)


@pytest.mark.parametrize(
    "text", ["value.user > 5", "value.tags[9]", "offset.real", "value.user.upper", "'x' in offset"]
)
def test_what_cannot_be_compared_or_is_not_there_is_false(text: str) -> None:
    assert not compiled(text)(RECORD)


@pytest.mark.parametrize(
    "text",
    [
        "", "offset >", "__import__('os')", "value()", "[x for x in value]", "lambda: 1", "a := 1",
        "().__class__", "offset ** 9**9**9", "f'{value}'", "value is None", "-value", "x" * 2000,
        "(" * 500 + ")" * 500, "offset\x00",
    ],
)  # fmt: skip
def test_nothing_else_can_be_asked(text: str) -> None:
    with pytest.raises(BadExpression):
        compiled(text)


@given(st.sampled_from(sorted(COMPARISONS)), st.integers(0, 99), st.integers(0, 99))
def test_comparisons_are_pythons(sign: str, one: int, other: int) -> None:
    holds = compiled(f"value.n {sign} {other}")({"value": {"n": one}})
    assert holds is COMPARISONS[sign](one, other)


@given(st.text(max_size=LENGTH_MAX))
def test_any_text_is_a_filter_or_refused(text: str) -> None:
    try:
        holds = compiled(text)
    except BadExpression:
        return
    assert holds(RECORD) in (True, False)
