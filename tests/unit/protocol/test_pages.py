"""The pages of the APIs are whole, and true to the messages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pybroker_kafka.protocol.access_rules import ANY_NAME, ITEM, Each, Hidden
from pybroker_kafka.protocol.acls import ResourceType
from pybroker_kafka.protocol.api import ApiKey, page
from pybroker_kafka.protocol.api_page import Api, elements
from pybroker_kafka.protocol.apis.stop_replica import API as STOP_REPLICA
from pybroker_kafka.protocol.schema import Struct

every_page = pytest.mark.parametrize("key", list(ApiKey), ids=lambda key: key.name)


def element_of(message: type[Struct], name: str) -> object:
    (field,) = (field for field in message._fields if field.name == name)
    assert field.kind == "array"
    return field.element


def has(message: object, name: str) -> bool:
    assert isinstance(message, type)
    return any(field.name == name for field in message._fields)  # type: ignore[attr-defined]


@every_page
def test_a_page_asks_something_or_says_why_not(key: ApiKey) -> None:
    rules = page(key).access
    assert rules.whole or rules.each or rules.hidden or rules.by_handler or rules.note


@pytest.mark.parametrize(
    "key",
    [
        ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN, ApiKey.ALTER_PARTITION, ApiKey.ALLOCATE_PRODUCER_IDS,
    ],
)  # fmt: skip
def test_brokers_apis_ask_for_cluster_action(key: ApiKey) -> None:
    (whole,) = page(key).access.whole
    assert [q.operation.name for q in whole.any_of] == ["CLUSTER_ACTION"]


@every_page
def test_fields_of_questions_are_those_of_the_messages(key: ApiKey) -> None:
    rules, request = page(key).access, page(key).request
    for whole in rules.whole:
        for question in whole.any_of:
            if question.kind is ResourceType.CLUSTER:
                assert question.field == ITEM
            else:
                assert question.field == ANY_NAME or has(request, question.field)
    if rules.each is not None:
        each: Each = rules.each
        element = element_of(request, each.elements)
        if each.question.field == ITEM:
            assert element == "string"
        else:
            assert has(element, each.question.field)
    for hidden in rules.hidden:
        shown: Hidden = hidden
        element = page(key).response
        for name in shown.path:
            assert isinstance(element, type)
            element = element_of(element, name)
        assert has(element, shown.question.field)


def structs_of(cls: type[Struct]) -> Iterator[type[Struct]]:
    yield cls
    for field in cls._fields:
        if isinstance(field.element, type):
            yield from structs_of(field.element)


@every_page
def test_elements_are_lists_of_the_messages(key: ApiKey) -> None:
    row: Api = page(key)
    for place in row.elements:
        ends: list[object] = []
        for cls, path in ((row.request, place.asked), (row.response, place.answered)):
            end: object = cls
            for name in path:
                assert isinstance(end, type)
                end = element_of(end, name)
            ends.append(end)
        if place.answered:
            assert isinstance(ends[1], type)
        asked, answered = list(structs_of(row.request)), list(structs_of(row.response))
        for name, to in place.renamed.items():
            assert any(has(cls, name) for cls in asked)
            assert any(has(cls, to) for cls in answered)


@every_page
def test_fields_of_failures_are_those_of_the_answer(key: ApiKey) -> None:
    answered = list(structs_of(page(key).response))
    for name in page(key).failure.values:
        assert any(has(cls, name) for cls in answered)


def test_elements_are_those_of_the_version() -> None:
    used = [[each.asked[0] for each in STOP_REPLICA.elements_in(version)] for version in range(5)]
    topics, states = ["topics"], ["topic_states"]
    assert used == [["ungrouped_partitions"], topics, topics, states, states]
    assert elements("a.b").answered == ()
