"""The generated pages are what the code says now, and what they say of keys is true."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

import pytest

from pybroker_kafka.broker.config import ConfigError, KafkaConfig
from pybroker_kafka.broker.config.checks import check_config
from pybroker_kafka.broker.config.definitions import BROKER_CONFIGS
from pybroker_kafka.broker.config.kraft import DROPPED
from pybroker_kafka.protocol.api import API_TABLE
from pybroker_kafka.protocol.errors import KafkaError
from pybroker_kafka.storage.config_def import ConfigDef, ConfigType
from pybroker_kafka.storage.topic_configs import TOPIC_CONFIGS
from tests import pages
from tests.support.apis_page import apis_page
from tests.support.authorization_page import authorization_page
from tests.support.capacity_page import PAGE, capacity_page
from tests.support.processes import ROOT

GOOD = {"zookeeper.connect": "localhost:2181", "listeners": "PLAINTEXT://localhost:9092"}
HINT = f"it is stale: run {pages.COMMAND}"
# Tables of keys, and rules about what may be altered, which are not yet what somebody does.
NO_READERS = ("definitions.py", "ineffective.py", "dynamic.py", "topic_configs.py", "checks.py")


def test_the_page_of_keys_is_up_to_date() -> None:
    assert pages.CONFIG.read_text() == pages.config_page(), HINT


def test_the_keys_of_security_are_up_to_date() -> None:
    page = pages.SECURITY.read_text()
    assert page == pages.security_page(page), HINT


async def test_the_page_of_metrics_is_up_to_date() -> None:
    assert pages.METRICS.read_text() == await pages.metrics_page(), HINT


def test_the_page_of_apis_is_up_to_date() -> None:
    assert pages.APIS.read_text() == apis_page(), HINT


def test_the_page_of_permissions_is_what_the_table_says() -> None:
    page = pages.AUTHORIZATION.read_text()
    assert page == authorization_page(), HINT
    assert all(f"| {spec.name} ({int(key)}) |" in page for key, spec in API_TABLE.items())


def test_the_figures_of_capacity_are_those_of_the_results() -> None:
    page = PAGE.read_text()
    assert page == capacity_page(page), HINT


@cache
def words_of_the_code() -> frozenset[str]:
    """Every text that the rooms below the command line hold, tables of keys left out."""
    return frozenset(
        word
        for room in (
            "broker",
            "client",
            "storage",
            "replication",
            "coordinator",
            "cli",
            "console",
            "local",
            "testkit",
            "tls",
            "zookeeper",
        )
        for path in (ROOT / room).rglob("*.py")
        if path.parent.parts[-2:] != ("config", "tables") and path.name not in NO_READERS
        for word in texts_of(ast.parse(path.read_text()))
    )


def texts_of(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_keys_that_do_something_are_read_and_no_others() -> None:
    """By name, or as the broker's key of a topic config."""
    of_topics = {
        synonym for definition in TOPIC_CONFIGS.values() for synonym in definition.synonyms
    }
    read = {name for name in BROKER_CONFIGS if name in words_of_the_code() or name in of_topics}
    says = {d.name for d in BROKER_CONFIGS.values() if pages.effect_of(d) in ("works", "of Java")}
    # What it does is a check: whether a broker may start without an id.
    checked = {"broker.id.generation.enable"}
    assert says - read - checked == set()
    # And what others do is to be taken out.
    assert read - says - pages.OURS - DROPPED == set()


def another_value(definition: ConfigDef) -> str | None:
    """One that is not the default, None if there is none at hand."""
    text = {ConfigType.BOOLEAN: "false" if definition.default == "true" else "true"}.get(
        definition.type, "broker"
    )
    if definition.type in (ConfigType.INT, ConfigType.LONG, ConfigType.SHORT):
        text = str(int(definition.default or 0) + 1)
    try:
        definition.parse(text)
    except KafkaError:
        return None
    return text


@pytest.mark.parametrize("name", sorted(pages.REFUSED))
def test_keys_for_kraft_stop_the_start(name: str) -> None:
    text = another_value(BROKER_CONFIGS[name])
    assert text is not None
    with pytest.raises(ConfigError):
        check_config(KafkaConfig({**GOOD, name: text}))


def test_keys_without_effect_do_not_stop_the_start() -> None:
    tried = 0
    for definition in BROKER_CONFIGS.values():
        text = another_value(definition)
        if pages.effect_of(definition) == "no effect" and text is not None:
            check_config(KafkaConfig({**GOOD, definition.name: text}))
            tried += 1
    assert tried >= 60
