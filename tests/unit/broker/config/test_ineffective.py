"""A setting that was meant to keep someone out, and does nothing here, stops the start."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker_kafka.broker.config import ConfigError, KafkaConfig, load_config
from pybroker_kafka.broker.config.checks import check_config
from pybroker_kafka.broker.config.definitions import BROKER_CONFIGS, DYNAMIC_ONLY_CONFIGS
from pybroker_kafka.broker.config.ineffective import (
    ALLOW,
    NO_PROTECTION,
    PROTECTIONS,
    protection_of,
)
from pybroker_kafka.broker.config.tables import authorizer, security, tokens
from pybroker_kafka.local.cluster_spec import ClusterSpec
from pybroker_kafka.local.cluster_state import ClusterError
from pybroker_kafka.storage.config_def import ConfigDef, ConfigType, OneOf

GOOD = {"zookeeper.connect": "localhost:2181", "listeners": "PLAINTEXT://localhost:9092"}
AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"
POLICY = "org.example.Policy"


def refusal(values: dict[str, str]) -> str:
    with pytest.raises(ConfigError) as raised:
        check_config(KafkaConfig({**GOOD, **values}))
    (line,) = str(raised.value).splitlines()
    return line


def a_value_that_asks(definition: ConfigDef) -> str:
    if isinstance(definition.validator, OneOf):
        return next(v for v in definition.validator.values if v != definition.default)
    return {ConfigType.BOOLEAN: "true", ConfigType.LONG: "3600000"}.get(
        definition.type, "some.Value"
    )


def test_every_security_key_is_decided_once() -> None:
    """Those of the tables of security and tokens, and what looks like one elsewhere.

    What is served says what it does.
    """
    words = (
        "ssl.", "sasl.", "authorizer", "policy.class", "acl", "principal", "password", "secret",
        "delegation", "authentication", "quota.callback", "security.providers", "clientCnxnSocket",
    )  # fmt: skip
    of_tables = {definition.name for definition in (*security.DEFINITIONS, *tokens.DEFINITIONS)}
    of_words = {name for name in BROKER_CONFIGS if any(word in name for word in words)}
    decided = set(PROTECTIONS) | set(NO_PROTECTION)
    assert set(PROTECTIONS) & set(NO_PROTECTION) == set()
    assert decided - set(BROKER_CONFIGS) == set()
    # Listeners of other protocols are refused by themselves.
    others = {definition.name for definition in authorizer.DEFINITIONS}
    others |= {
        "authorizer.class.name",
        "listener.security.protocol.map",
        "security.inter.broker.protocol",
        ALLOW,
    }
    served = {name for name, definition in BROKER_CONFIGS.items() if definition.documentation}
    assert (of_tables | of_words) - others - served - decided == set()


def test_what_keeps_nobody_out_has_no_description_either() -> None:
    assert [
        name for name in (*PROTECTIONS, *NO_PROTECTION) if BROKER_CONFIGS[name].documentation
    ] == []


@pytest.mark.parametrize("name", PROTECTIONS)
def test_a_protection_that_is_not_there_stops_the_start(name: str) -> None:
    definition = BROKER_CONFIGS[name]
    text = a_value_that_asks(definition)
    line = refusal({name: text})
    assert line.startswith(f"without effect here: {name}: {PROTECTIONS[name]}")
    assert f"{ALLOW}=true" in line
    assert "some.Value" not in line, "it may be a password"
    check_config(KafkaConfig({**GOOD, name: text, ALLOW: "true"}))
    if definition.default is not None:
        check_config(KafkaConfig({**GOOD, name: definition.default}))


@pytest.mark.parametrize("name", NO_PROTECTION)
def test_what_keeps_nobody_out_by_itself_does_not(name: str) -> None:
    definition = BROKER_CONFIGS[name]
    numbers = (ConfigType.INT, ConfigType.LONG, ConfigType.SHORT, ConfigType.DOUBLE)
    by_type = {ConfigType.BOOLEAN: "true", **dict.fromkeys(numbers, definition.default or "5000")}
    check_config(KafkaConfig({**GOOD, name: by_type.get(definition.type, "some.Value")}))


@pytest.mark.parametrize(
    "name",
    [
        "listener.name.outside.principal.builder.class",
    ],
)
def test_keys_of_one_listener_count_too(name: str) -> None:
    text = {"ms": "100"}.get(name.rpartition(".")[2], "x")
    assert f"without effect here: {name}: " in refusal({name: text})
    assert protection_of(name) is not None


def test_all_of_them_are_named_in_one_line() -> None:
    values = {
        "create.topic.policy.class.name": POLICY,
        "zookeeper.ssl.crl.enable": "TRUE",
        "principal.builder.class": "some.Builder",
    }
    line = refusal(values)
    assert all(name in line for name in values)


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        (
            {
                "listeners": "IN://h:1,OUT://h:2",
                "listener.security.protocol.map": "IN:PLAINTEXT,OUT:SASL_PLAINTEXT",
                "inter.broker.listener.name": "IN",
            },
            "sasl.jaas.config is not set",
        ),
        (
            {"security.inter.broker.protocol": "SSL"},
            "the inter-broker listener SSL must be one of advertised.listeners",
        ),
    ],
)
def test_a_listener_of_another_protocol_says_what_is_missing(
    values: dict[str, str], complaint: str
) -> None:
    assert complaint in refusal(values)
    assert complaint in refusal({**values, ALLOW: "true"})


def test_wherever_it_is_set(tmp_path: Path) -> None:
    """In server.properties, in a KAFKA_ variable, with --config of `pybroker start`."""
    properties = tmp_path / "server.properties"
    good = "".join(f"{name}={text}\n" for name, text in GOOD.items())
    properties.write_text(f"{good}create.topic.policy.class.name={POLICY}\n")
    with pytest.raises(
        ConfigError, match=r"here: create\.topic\.policy\.class\.name: this broker calls no policy"
    ):
        check_config(load_config(properties))
    properties.write_text(good)
    variables = {"KAFKA_CREATE_TOPIC_POLICY_CLASS_NAME": POLICY}
    with pytest.raises(
        ConfigError, match=r"here: create\.topic\.policy\.class\.name: this broker calls no policy"
    ):
        check_config(load_config(properties, environment=variables))
    variables["KAFKA_PYBROKER_ALLOW_INEFFECTIVE_SECURITY"] = "true"
    check_config(load_config(properties, environment=variables))
    overrides = {"create.topic.policy.class.name": POLICY}
    with pytest.raises(
        ClusterError, match=r"here: create\.topic\.policy\.class\.name: this broker calls no policy"
    ):
        ClusterSpec(tmp_path, overrides=overrides).check()
    ClusterSpec(tmp_path, overrides={**overrides, ALLOW: "true"}).check()
    with pytest.raises(ClusterError, match=r"listeners=SSL://localhost:9093: it needs a certific"):
        ClusterSpec(tmp_path, overrides={"listeners": "SSL://localhost:9093"}).check()


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"authorizer.class.name": "org.example.Mine"}, "org.example.Mine: classes of Java cannot"),
        (
            {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"},
            "use kafka.security.authorizer.AclAuthorizer",
        ),
        (
            {"authorizer.class.name": AUTHORIZER, "authorizer.zookeeper.url": "other:2181"},
            "authorizer.zookeeper.url: ACLs are only read from the ZooKeeper of zookeeper.connect",
        ),
        ({"super.users": "User:a;alice"}, "super.users"),
        ({"super.users": "User:a;;User:b"}, "super.users"),
        ({"allow.everyone.if.no.acl.found": "yes"}, "allow.everyone.if.no.acl.found"),
    ],
)
def test_an_authorizer_that_cannot_be(values: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError) as raised:
        check_config(KafkaConfig({**GOOD, **values}))
    assert complaint in str(raised.value)


def test_an_authorizer_that_can_be() -> None:
    users = {"super.users": " User:CN=a,O=b ; User:c; "}
    check_config(KafkaConfig({**GOOD, **users, "authorizer.class.name": AUTHORIZER}))


def test_when_allowed_a_warning_names_them(caplog: pytest.LogCaptureFixture) -> None:
    load_config(
        overrides={
            "zookeeper.ssl.crl.enable": "true",
            "create.topic.policy.class.name": "some.Policy",
            ALLOW: "true",
        }
    )
    (told,) = [record.getMessage() for record in caplog.records]
    assert "zookeeper.ssl.crl.enable: this broker does not check" in told
    assert "create.topic.policy.class.name: this broker calls no policy" in told


def test_no_dynamic_only_key_is_about_security() -> None:
    """Were there one, it would need a decision as well."""
    assert set(DYNAMIC_ONLY_CONFIGS) == {
        "leader.replication.throttled.rate", "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }  # fmt: skip
