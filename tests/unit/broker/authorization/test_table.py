"""The table of what APIs ask is whole, and true to the messages."""

from __future__ import annotations

import pytest

from pybroker.broker.authorization.table import ANY_NAME, ITEM, TABLE, Each, Hidden, Row
from pybroker.broker.handlers import HANDLED_IN
from pybroker.broker.security.authorizer import ResourceType
from pybroker.protocol.api import API_TABLE, ApiKey, request_class, response_class
from pybroker.protocol.schema import Struct


def element_of(message: type[Struct], name: str) -> object:
    (field,) = (field for field in message._fields if field.name == name)
    assert field.kind == "array"
    return field.element


def has(message: object, name: str) -> bool:
    assert isinstance(message, type)
    return any(field.name == name for field in message._fields)  # type: ignore[attr-defined]


def test_every_api_has_a_row() -> None:
    assert set(TABLE) == set(API_TABLE) == set(ApiKey)
    assert set(HANDLED_IN) <= set(TABLE)


@pytest.mark.parametrize("key", sorted(TABLE), ids=lambda key: key.name)
def test_a_row_asks_something_or_says_why_not(key: ApiKey) -> None:
    row = TABLE[key]
    assert row.whole or row.each or row.hidden or row.by_handler or row.note


@pytest.mark.parametrize("key", sorted(TABLE), ids=lambda key: key.name)
def test_brokers_apis_ask_for_cluster_action(key: ApiKey) -> None:
    if API_TABLE[key].inter_broker and key is not ApiKey.ENVELOPE:  # which is closed unasked
        (whole,) = TABLE[key].whole
        assert [q.operation.name for q in whole.any_of] == ["CLUSTER_ACTION"]


@pytest.mark.parametrize("key", sorted(TABLE), ids=lambda key: key.name)
def test_fields_are_those_of_the_messages(key: ApiKey) -> None:
    row: Row = TABLE[key]
    request = request_class(key)
    for whole in row.whole:
        for question in whole.any_of:
            if question.kind is ResourceType.CLUSTER:
                assert question.field == ITEM
            else:
                assert question.field == ANY_NAME or has(request, question.field)
    if row.each is not None:
        each: Each = row.each
        element = element_of(request, each.elements)
        if each.question.field == ITEM:
            assert element == "string"
        else:
            assert has(element, each.question.field)
    for hidden in row.hidden:
        shown: Hidden = hidden
        element = response_class(key)
        for name in shown.path:
            assert isinstance(element, type)
            element = element_of(element, name)
        assert has(element, shown.question.field)
