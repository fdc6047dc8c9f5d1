"""ssl.principal.mapping.rules: what Kafka makes of them, and what a bad one says."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.broker.security.tls.principal_mapping import (
    MAX_NAME_CHARACTERS,
    BadRule,
    NoRuleApplies,
    map_name,
    parse_rules,
)

GOLDEN = Path(__file__).parents[4] / "golden" / "principal_mapping.json"


@pytest.mark.parametrize(("rules", "name", "expected"), json.loads(GOLDEN.read_text()))
def test_as_kafka(rules: str, name: str, expected: str) -> None:
    """What SslPrincipalMapper of 3.9.1 gives; where it throws, a rule is bad or none applies."""
    if expected.startswith("ERR "):
        with pytest.raises((BadRule, NoRuleApplies)):
            map_name(parse_rules(rules), name)
    else:
        assert map_name(parse_rules(rules), name) == expected


@pytest.mark.parametrize(
    "rule",
    ["RULE:a/b", "rule:a/b/", "RULE:[/b/", "RULE:a/$1/", "RULE:(a)/$/", "RULE:(a)/${n}/",
     "RULE:(a)/$x/", "RULE:a/b/Q/"],
)  # fmt: skip
def test_a_bad_rule_is_known_before_anyone_comes(rule: str) -> None:
    with pytest.raises(BadRule):
        parse_rules(rule)


@given(st.text(alphabet="RULE:DFAT/LU,$\\\\()[].*+?ab01{}<> ", max_size=40), st.text(max_size=40))
def test_any_text_is_a_rule_or_a_bad_one(rules: str, name: str) -> None:
    with contextlib.suppress(BadRule, NoRuleApplies):
        map_name(parse_rules(rules), name)


WORDS = st.text(alphabet="abcXYZ019", min_size=1, max_size=8)


@given(st.lists(st.tuples(WORDS, st.sampled_from(["", "L", "U"])), max_size=6), WORDS)
def test_the_first_that_matches_counts(rules: list[tuple[str, str]], name: str) -> None:
    """A dumb twin: rules for one name each."""
    text = ",".join([*(f"RULE:^CN={re.escape(each)}$/{each}-user/{case}" for each, case in rules)])
    expected = None
    for each, case in rules:
        if each == name and expected is None:
            found = f"{each}-user"
            expected = {"L": found.lower(), "U": found.upper()}.get(case, found)
    assert map_name(parse_rules(f"{text},DEFAULT"), f"CN={name}") == (expected or f"CN={name}")


def test_a_name_without_end_is_nobody() -> None:
    with pytest.raises(NoRuleApplies):
        map_name(parse_rules("DEFAULT"), "C" * (MAX_NAME_CHARACTERS + 1))
