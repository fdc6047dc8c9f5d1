"""Regular expressions of clients match whole texts, and bad ones are an error code."""

from __future__ import annotations

import pytest

from pybroker_kafka.protocol.errors import ErrorCode, KafkaError
from pybroker_kafka.protocol.regular_expressions import RegularExpression


def test_an_expression_matches_a_text_as_a_whole() -> None:
    expression = RegularExpression("ord(er)?s-[0-9]+|größe")
    assert [text for text in ("orders-1", "ords-22", "größe") if not expression.matches(text)] == []
    assert not any(map(expression.matches, ("my-orders-1", "orders-1x", "orders-", "")))


def test_time_is_proportional_to_the_text() -> None:
    assert not RegularExpression("(a*)*b").matches("a" * 100_000)


@pytest.mark.parametrize("text", ["(", "[z-a]", "a**", r"(a)\1", "(?=a)"])
def test_no_expression(text: str) -> None:
    with pytest.raises(KafkaError) as raised:
        RegularExpression(text)
    assert raised.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert raised.value.message
