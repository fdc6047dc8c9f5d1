"""Topic configs with values that nobody should set."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.protocol.errors import ErrorCode, KafkaError
from pybroker_kafka.storage.config_def import format_value
from pybroker_kafka.storage.log_config import TOPIC_CONFIGS, LogConfig, validate_topic_configs
from tests.support.odd_values import ALL


def check(name: str, text: str) -> None:
    """It is refused as an invalid config, or a log can be configured with it and shows it."""
    refusal = None
    try:
        validate_topic_configs({name: text}, {})
    except KafkaError as error:
        refusal = error
    if refusal is not None:
        assert refusal.code is ErrorCode.INVALID_CONFIG, (name, text[:50])
        # Kafka's text for remote.storage.enable does not name it.
        assert name in refusal.message or name == "remote.storage.enable"
        assert len(refusal.message.encode()) < 32_000
        return
    config = LogConfig.from_overrides({name: text}, {})
    for definition in TOPIC_CONFIGS.values():
        assert format_value(definition.type, config.value(definition.name)) is not None


@pytest.mark.parametrize("name", TOPIC_CONFIGS)
def test_odd_values_are_refused_or_usable(name: str) -> None:
    for text in ALL:
        check(name, text)


@given(name=st.sampled_from(sorted(TOPIC_CONFIGS)), text=st.text(max_size=40))
def test_any_text_is_refused_or_usable(name: str, text: str) -> None:
    check(name, text)


@given(name=st.sampled_from(sorted(TOPIC_CONFIGS)), number=st.floats() | st.integers())
def test_any_number_is_refused_or_usable(name: str, number: float) -> None:
    check(name, str(number))
