"""The `sasl.*` keys of listeners: what a broker does not start with, told without secrets."""

from __future__ import annotations

import pytest

from pybroker.broker.config import ConfigError, KafkaConfig, ineffective
from pybroker.broker.config.checks import check_config

PLAIN_JAAS = "listener.name.sasl.plain.sasl.jaas.config"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f'{MODULE} user_a="hidden"', "JAAS config entry not terminated by semi-colon (line 1)"),
        (f"{MODULE}; {MODULE};", "contains 2 login modules, should be 1 module"),
        ('a.B required user_a="hidden";', "the login module of PLAIN is org.apache.kafka"),
    ],
)
def test_a_jaas_text_that_is_none(text: str, message: str) -> None:
    static = {"zookeeper.connect": "localhost:2181", ineffective.ALLOW: "true", PLAIN_JAAS: text}
    with pytest.raises(ConfigError) as caught:
        check_config(KafkaConfig(static))
    assert str(caught.value).startswith(f"{PLAIN_JAAS}: ")
    assert message in str(caught.value)
    assert "hidden" not in str(caught.value)
