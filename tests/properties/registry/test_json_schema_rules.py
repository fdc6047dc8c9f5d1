"""Verdicts on random JSON Schemas: a value that the older one accepts is accepted by the new one.

The judge of values is `jsonschema`, by draft 7, as `client.schemas` calls it.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, note, settings
from hypothesis import strategies as st

from pybroker_kafka.client.schemas import json_validator
from pybroker_kafka.registry.entities import JSON, Content
from pybroker_kafka.registry.formats import parse
from pybroker_kafka.registry.json_schema import JsonSchema

values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 12), st.text("ab", max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=5,
)


def some(**keywords: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries({}, optional=keywords)


def typed(kind: str, given: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return given.map(lambda one: {"type": kind, **one})


small = st.integers(0, 4)
leaves = st.one_of(
    st.booleans(),
    st.just({}),
    st.just({"type": "null"}),
    typed("integer", some(minimum=small, maximum=small, multipleOf=st.integers(1, 4))),
    typed("number", some(minimum=small, exclusiveMaximum=small)),
    typed("string", some(minLength=small, maxLength=small, pattern=st.sampled_from("ab"))),
    st.lists(st.sampled_from([1, 2, "a", None]), min_size=1, unique=True).map(
        lambda one: {"enum": one}
    ),
    st.sampled_from([1, "a"]).map(lambda one: {"const": one}),
    st.just({"type": ["integer", "null"]}),
)


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    properties = st.dictionaries(st.sampled_from("abc"), inner, max_size=2)
    return st.one_of(
        typed(
            "object",
            some(
                properties=properties,
                required=st.lists(st.sampled_from("abc"), max_size=2, unique=True),
                additionalProperties=inner,
                patternProperties=st.dictionaries(st.sampled_from("ab"), inner, max_size=1),
                minProperties=small,
            ),
        ),
        typed(
            "array",
            some(
                items=st.one_of(inner, st.lists(inner, min_size=1, max_size=2)),
                additionalItems=inner,
                maxItems=small,
                uniqueItems=st.booleans(),
            ),
        ),
        inner.map(lambda one: {"not": one}),
        st.sampled_from(["allOf", "anyOf"]).flatmap(
            lambda key: st.lists(inner, min_size=1, max_size=3).map(lambda some: {key: some})
        ),
    )


schemas = st.recursive(leaves, containers, max_leaves=4)


def ours(given: Any) -> JsonSchema:
    found = parse(Content(json.dumps(given), JSON), {}, strict=True)
    assert isinstance(found, JsonSchema)
    return found


@st.composite
def changed(draw: st.DrawFn) -> tuple[Any, Any]:
    """A schema, and one that is often like it but for a part."""
    old = draw(schemas)
    if not isinstance(old, dict) or draw(st.booleans()):
        return old, draw(schemas)
    new = json.loads(json.dumps(old))
    if new and draw(st.booleans()):
        del new[draw(st.sampled_from(sorted(new)))]
    if isinstance(new.get("properties"), dict):
        new["properties"][draw(st.sampled_from("abc"))] = draw(leaves)
    return old, new


@given(changed(), st.lists(values, min_size=5, max_size=20))
@settings(max_examples=500, deadline=None)
def test_what_was_valid_stays_valid(pair: tuple[Any, Any], some: list[Any]) -> None:
    old, new = pair
    problems = ours(new).problems_reading(ours(old))
    note(f"{old} then {new}: {problems}")
    if problems:
        return
    before, after = json_validator(old), json_validator(new)
    for value in some:
        if before.is_valid(value):
            assert after.is_valid(value), value


@given(schemas)
@settings(max_examples=200, deadline=None)
def test_a_schema_is_compatible_with_itself(given: Any) -> None:
    assert ours(given).problems_reading(ours(given)) == []
