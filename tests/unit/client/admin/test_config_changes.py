"""Alterations as brokers before 2.3 are told of them: all that a resource has afterwards."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.client.admin.config_changes import replaced
from pybroker_kafka.client.admin.config_types import (
    Alteration,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    ResourceKind,
)
from pybroker_kafka.client.errors import Unsupported

TOPIC = ConfigResource(ResourceKind.TOPIC, "t")
KEYS = ("a", "b", "c")
ITEMS = ("x", "y", "z")


def entry(
    name: str, value: str | None, source: ConfigSource, *, is_sensitive: bool = False
) -> ConfigEntry:
    return ConfigEntry(name, value, source, is_sensitive, False, (), None)


lists = st.lists(st.sampled_from(ITEMS), unique=True, max_size=3)
states = st.dictionaries(
    st.sampled_from(KEYS),
    st.tuples(lists, st.sampled_from([ConfigSource.TOPIC, ConfigSource.DEFAULT])),
)
changes = st.lists(
    st.tuples(st.sampled_from(KEYS), st.sampled_from(ConfigOperation), lists), max_size=6
)


@given(states, changes)
def test_as_if_done_one_by_one(
    state: dict[str, tuple[list[str], ConfigSource]],
    wanted: list[tuple[str, ConfigOperation, list[str]]],
) -> None:
    own = {key: items for key, (items, source) in state.items() if source is ConfigSource.TOPIC}
    defaults = {key: items for key, (items, _) in state.items()}
    for key, operation, items in wanted:
        before = own.get(key) or defaults.get(key, [])
        if operation is ConfigOperation.DELETE:
            own.pop(key, None)
        elif operation is ConfigOperation.SET:
            own[key] = items
        elif operation is ConfigOperation.APPEND:
            own[key] = before + [one for one in items if one not in before]
        else:
            own[key] = [one for one in before if one not in items]
    entries = [entry(key, ",".join(items), source) for key, (items, source) in state.items()]
    alterations = [
        Alteration(key, operation, None if operation is ConfigOperation.DELETE else ",".join(items))
        for key, operation, items in wanted
    ]
    expected = {key: ",".join(items) for key, items in own.items()}
    assert replaced(TOPIC, entries, alterations) == expected


def test_of_a_broker_its_own_values_only() -> None:
    broker = ConfigResource(ResourceKind.BROKER, "1")
    entries = [
        entry("own", "1", ConfigSource.DYNAMIC_BROKER),
        entry("of all", "2", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        entry("file", "3", ConfigSource.STATIC_BROKER),
    ]
    assert replaced(broker, entries, []) == {"own": "1"}
    assert replaced(ConfigResource(ResourceKind.BROKER, ""), entries[1:], []) == {"of all": "2"}


def test_a_secret_that_would_be_forgotten() -> None:
    secret = entry("password", None, ConfigSource.TOPIC, is_sensitive=True)
    with pytest.raises(Unsupported, match="password"):
        replaced(TOPIC, [secret], [Alteration("a", ConfigOperation.SET, "1")])
    change = Alteration("password", ConfigOperation.SET, "1")
    assert replaced(TOPIC, [secret], [change]) == {"password": "1"}
