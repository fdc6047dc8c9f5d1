"""The `sasl.*` keys of listeners: what a broker does not start with, told without secrets."""

from __future__ import annotations

import pytest

from pybroker.broker.config import ConfigError, KafkaConfig
from pybroker.broker.config.checks import check_config
from pybroker.broker.config.sasl_config import mechanism_configs

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
    static = {"zookeeper.connect": "localhost:2181", PLAIN_JAAS: text}
    with pytest.raises(ConfigError) as caught:
        check_config(KafkaConfig(static))
    assert str(caught.value).startswith(f"{PLAIN_JAAS}: ")
    assert message in str(caught.value)
    assert "hidden" not in str(caught.value)


LISTENERS = {
    "zookeeper.connect": "localhost:2181",
    "listeners": "PLAINTEXT://h:1,SASL://h:2",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
}
HANDLER = "listener.name.sasl.plain.sasl.server.callback.handler.class"


def refusal(**values: str) -> str:
    with pytest.raises(ConfigError) as caught:
        check_config(
            KafkaConfig(LISTENERS | {name.replace("_", "."): values[name] for name in values})
        )
    return str(caught.value)


def test_a_listener_with_passwords_and_users() -> None:
    good = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        PLAIN_JAAS: f'{MODULE} user_a="x";',
        "connections.max.reauth.ms": "5000",
        "listener.name.sasl.plain.connections.max.reauth.ms": "9000",
    }
    config = KafkaConfig(LISTENERS | good)
    check_config(config)
    configs = mechanism_configs(config, "SASL")
    assert {name: one.max_session_ms for name, one in configs.items()} == {
        "PLAIN": 9000, "SCRAM-SHA-512": 5000,
    }  # fmt: skip
    assert configs["PLAIN"].options == {"user_a": "x"}
    assert "user_a" not in repr(configs)


def test_what_a_listener_cannot_do_is_told() -> None:
    assert "Kerberos is not there yet" in refusal()
    assert "names none" in refusal(sasl_enabled_mechanisms="")
    assert "CRAM-MD5 is not known" in refusal(sasl_enabled_mechanisms="CRAM-MD5")
    assert f"{PLAIN_JAAS} is not set" in refusal(sasl_enabled_mechanisms="PLAIN")
    plain = {"sasl.enabled.mechanisms": "PLAIN", PLAIN_JAAS: f"{MODULE};"}
    line = refusal(**plain, **{HANDLER: "com.example.Ldap"})
    assert line.startswith(f"{HANDLER}=com.example.Ldap is a Java class, which cannot run here: ")
    assert "user_<name>" in line
