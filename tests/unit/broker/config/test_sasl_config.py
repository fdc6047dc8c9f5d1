"""The `sasl.*` keys of listeners: what a broker does not start with, told without secrets."""

from __future__ import annotations

import pytest

from pybroker_kafka.broker.config import ConfigError, KafkaConfig
from pybroker_kafka.broker.config.checks import check_config
from pybroker_kafka.broker.config.sasl_config import mechanism_configs
from pybroker_kafka.broker.security.sasl.signed_tokens import TokenRules
from pybroker_kafka.broker.security.sasl.unsecured_tokens import UnsecuredTokens

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
    assert "gssapi.sasl.jaas.config is not set" in refusal()
    assert "names none" in refusal(sasl_enabled_mechanisms="")
    assert "CRAM-MD5 is not known" in refusal(sasl_enabled_mechanisms="CRAM-MD5")
    assert f"{PLAIN_JAAS} is not set" in refusal(sasl_enabled_mechanisms="PLAIN")
    plain = {"sasl.enabled.mechanisms": "PLAIN", PLAIN_JAAS: f"{MODULE};"}
    line = refusal(**plain, **{HANDLER: "com.example.Ldap"})
    assert line.startswith(f"{HANDLER}=com.example.Ldap is a Java class, which cannot run here: ")
    assert "user_<name>" in line


OAUTH = "listener.name.sasl.oauthbearer.sasl."
OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
SIGNED = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"


def test_tokens_that_are_not_signed_have_options() -> None:
    options = 'unsecuredValidatorRequiredScope="a b" unsecuredValidatorPrincipalClaimName=who'
    config = KafkaConfig(
        LISTENERS
        | {
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            f"{OAUTH}jaas.config": f"{OAUTH_MODULE} {options};",
        }
    )
    check_config(config)
    (found,) = mechanism_configs(config, "SASL").values()
    assert found.tokens == UnsecuredTokens("who", required_scopes=("a", "b"))


def test_tokens_that_are_signed_have_keys() -> None:
    config = KafkaConfig(
        LISTENERS
        | {
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            f"{OAUTH}jaas.config": f"{OAUTH_MODULE};",
            f"{OAUTH}server.callback.handler.class": SIGNED,
            f"{OAUTH}oauthbearer.jwks.endpoint.url": "https://h/keys",
            "listener.name.sasl.sasl.oauthbearer.expected.audience": "a,b",
            "sasl.oauthbearer.clock.skew.seconds": "5",
        }
    )
    check_config(config)
    (found,) = mechanism_configs(config, "SASL").values()
    assert isinstance(found.tokens, TokenRules)
    assert found.tokens.url == "https://h/keys"
    assert (found.tokens.audiences, found.tokens.clock_skew_ms) == (("a", "b"), 5000)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, f"{OAUTH}jaas.config is not set"),
        ({"jaas.config": f"{OAUTH_MODULE} unsecuredValidatorAllowableClockSkewMs=x;"}, "number"),
        (
            {"jaas.config": f"{OAUTH_MODULE};", "oauthbearer.jwks.endpoint.url": "https://h/keys"},
            "tokens need no signature without",
        ),
        (
            {"jaas.config": f"{OAUTH_MODULE};", "server.callback.handler.class": SIGNED},
            "jwks.endpoint.url must be",
        ),
        (
            {"jaas.config": f"{OAUTH_MODULE};", "server.callback.handler.class": "com.example.Jwt"},
            f"for signed tokens use {SIGNED}",
        ),
    ],
)
def test_what_tokens_cannot_be(values: dict[str, str], message: str) -> None:
    named = {f"{OAUTH}{name}": text for name, text in values.items()}
    assert message in refusal(sasl_enabled_mechanisms="OAUTHBEARER", **named)
