"""What of dynamic configs may be altered, and what of ZooKeeper's is left out."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any

import pytest

from pybroker_kafka.broker import settings
from pybroker_kafka.broker.config import KafkaConfig
from pybroker_kafka.broker.config.checks import check_config
from pybroker_kafka.broker.config.dynamic import check_alteration, take_over, usable_for_alteration
from pybroker_kafka.broker.config.ineffective import ALLOW, NO_PROTECTION
from pybroker_kafka.broker.replicas.parts import fetcher_config
from pybroker_kafka.protocol.errors import ErrorCode, KafkaError
from pybroker_kafka.storage.log_config import LogConfig
from tests.support.odd_values import ALL, DYNAMIC_KEYS, WORDS

STATIC = {"zookeeper.connect": "localhost:2181", "listeners": "PLAINTEXT://localhost:9092"}


def config_with(**more: str) -> KafkaConfig:
    return KafkaConfig({**STATIC, **{name.replace("_", "."): text for name, text in more.items()}})


def refusal(
    wanted: Mapping[str, str],
    *,
    config: KafkaConfig | None = None,
    per_broker: bool = False,
    stored: Mapping[str, str] | None = None,
) -> str | None:
    """Why the configs may not be stored; None if they may."""
    try:
        check_alteration(config or config_with(), stored or {}, wanted, per_broker=per_broker)
    except KafkaError as error:
        return error.message if error.code is ErrorCode.INVALID_REQUEST else repr(error)
    return None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("log.roll.ms", "-1"),
        ("log.roll.ms", "0"),
        ("log.roll.jitter.ms", "-1"),
        ("log.retention.ms", "0"),
        ("log.flush.interval.ms", "-2147483648"),
        ("log.cleaner.min.cleanable.ratio", "NaN"),
        ("log.cleaner.io.buffer.load.factor", "NaN"),
        ("log.cleaner.io.buffer.load.factor", "-1"),
        ("log.cleaner.io.buffer.load.factor", "0"),
        ("log.cleaner.io.buffer.load.factor", "1e-9"),
        ("log.cleaner.io.max.bytes.per.second", "0"),
        ("log.cleaner.dedupe.buffer.size", "-1"),
        ("log.cleaner.dedupe.buffer.size", "1048576"),
        ("log.cleaner.threads", "0"),
        ("log.cleaner.threads", "3"),
        ("log.cleaner.max.compaction.lag.ms", "0"),
        ("num.io.threads", "3"),
        ("num.io.threads", "17"),
        ("num.replica.fetchers", "0"),
        ("max.connections", "0"),
        ("max.connection.creation.rate", "0"),
        ("max.connections.per.ip", "0"),
        ("max.connections.per.ip.overrides", "host"),
        ("metric.reporters", "no.such.Reporter"),
        ("log.local.retention.ms", "-1"),
        ("broker.id", "7"),
        ("log.roll.hours", "1"),
        ("message.max.bytes", "1" * 5000),
        ("advertised.listeners", "PLAINTEXT://elsewhere:9092"),
        ("listener.name.plaintext.no.such.key", "1"),
    ],
)
@pytest.mark.parametrize("per_broker", [False, True])
def test_what_would_break_a_broker_is_refused(name: str, text: str, per_broker: bool) -> None:
    complaint = refusal({name: text}, per_broker=per_broker)
    assert complaint is not None
    assert len(complaint) < 1000


@pytest.mark.parametrize(
    "wanted",
    [
        {"log.retention.ms": "-2147483648"},  # as any negative value: no limit
        {"log.roll.ms": "1"},
        {"num.io.threads": "4"},
        {"num.io.threads": "16"},
        {"num.replica.fetchers": "2"},
        {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:5"},
        {"log.cleaner.io.max.bytes.per.second": "Infinity"},
        {"log.cleaner.io.max.bytes.per.second": "-1"},  # as in Kafka: no limit
        {"log.cleaner.io.max.bytes.per.second": "NaN"},
        {"metric.reporters": "org.apache.kafka.common.metrics.JmxReporter"},
        {"listener.name.plaintext.max.connections": "5"},
        {"listener.name.other.max.connections": "5"},
        {"a.key.of.some.plugin": "anything"},
        {},
    ],
)
@pytest.mark.parametrize("per_broker", [False, True])
def test_what_a_broker_can_do_with_is_taken(wanted: dict[str, str], per_broker: bool) -> None:
    assert refusal(wanted, per_broker=per_broker) is None


def test_the_whole_configuration_is_checked() -> None:
    """A value is judged with all that is set in other places."""
    few = config_with(log_cleaner_dedupe_buffer_size="2000000")
    assert "1 MiB per cleaner thread" in (refusal({"log.cleaner.threads": "2"}, config=few) or "")
    lag = {"log.cleaner.min.compaction.lag.ms": "100"}
    short = config_with(log_cleaner_max_compaction_lag_ms="50")
    assert "min.compaction.lag.ms (100)" in (refusal(lag, config=short) or "")
    config = config_with()
    take_over(config, broker={"log.cleaner.max.compaction.lag.ms": "50"})
    assert refusal(lag, config=config) is not None
    assert refusal(lag, config=config, per_broker=True) is None, "it replaces the other"
    take_over(config, default={"log.cleaner.max.compaction.lag.ms": "50"}, broker={})
    assert refusal(lag, config=config, per_broker=True) is not None
    local = {"log.local.retention.ms": "5000"}
    assert refusal(local, config=config_with(log_retention_ms="1000")) is not None
    assert refusal(local, config=config_with(log_retention_ms="5000")) is None


def test_threads_of_one_listener_change_by_a_factor_of_two() -> None:
    name = "listener.name.plaintext.num.network.threads"
    assert refusal({name: "7"}, per_broker=True) is not None
    assert refusal({name: "6"}, per_broker=True) is None
    assert refusal({"num.network.threads": "1"}) is None, "half of three"
    with_own = config_with()
    take_over(with_own, broker={name: "6"})
    assert refusal({name: "12"}, config=with_own, per_broker=True) is None


@pytest.mark.parametrize("allowed", ["false", "true"])
def test_a_protection_that_is_not_there_cannot_be_asked_for(allowed: str) -> None:
    config = KafkaConfig({**STATIC, ALLOW: allowed})
    for per_broker in (False, True):
        wanted = {"principal.builder.class": "some.Builder"}
        complaint = refusal(wanted, config=config, per_broker=per_broker)
        assert complaint is not None
        assert "some.Builder" not in complaint


def test_what_another_kind_of_broker_has_stored_stays() -> None:
    """It was not altered here, and a broker that is to take over again needs it."""
    config, name = config_with(), "principal.builder.class"
    stored = {name: "some.Builder", "log.retention.ms": "soon"}
    kept = usable_for_alteration(config, stored, per_broker=True)
    assert kept == {name: "some.Builder"}
    assert refusal({**kept, "log.retention.ms": "5"}, stored=stored, per_broker=True) is None
    assert refusal({name: "x"}, stored=stored, per_broker=True) is not None


PLAIN = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="b" password="b" '
    'user_b="b";'
)
SASL = {
    **STATIC,
    "listeners": "SASL_PLAINTEXT://localhost:9092",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": PLAIN,
}


@pytest.mark.parametrize("static", [STATIC, SASL])
def test_mechanisms_are_altered_for_one_broker(static: Mapping[str, str]) -> None:
    wanted = {"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512"}
    assert refusal(wanted, config=KafkaConfig(static), per_broker=True) is None
    complaint = refusal(wanted, config=KafkaConfig(static))
    assert complaint is not None
    assert "broker id must be specified" in complaint


@pytest.mark.parametrize(
    ("mechanisms", "why"),
    [
        ("PLAIN,OAUTHBEARER", "sasl.jaas.config is not set"),
        ("PLAIN,MAGIC", "MAGIC is not known"),
        ("SCRAM-SHA-512", "sasl.mechanism.inter.broker.protocol=PLAIN must be one of"),
        ("", "names none"),
    ],
)
def test_logins_that_cannot_be_are_refused(mechanisms: str, why: str) -> None:
    """Apache Kafka takes most of them, and does not start again."""
    wanted = {"sasl.enabled.mechanisms": mechanisms}
    complaint = refusal(wanted, config=KafkaConfig(SASL), per_broker=True)
    assert complaint is not None
    assert why in complaint
    if mechanisms:
        assert refusal(wanted, per_broker=True) is None, "without a SASL listener"


@pytest.mark.parametrize("listener", ["sasl_plaintext", "elsewhere"])
@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("plain.sasl.jaas.config", PLAIN.replace('user_b="b"', 'user_b="b" user_c="c"')),
        ("sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-256"),
        ("sasl.server.max.receive.size", "1000"),
        ("plain.connections.max.reauth.ms", "1000"),
    ],
)
def test_keys_of_a_listener_are_altered_for_one_broker(listener: str, key: str, text: str) -> None:
    """So have the keys that can only be changed with the prefix of a listener."""
    wanted, config = {f"listener.name.{listener}.{key}": text}, KafkaConfig(SASL)
    assert refusal(wanted, config=config, per_broker=True) is None
    assert refusal(wanted, config=config) is not None


def test_a_jaas_text_that_is_none_is_refused_without_its_text() -> None:
    wanted = {"listener.name.sasl_plaintext.plain.sasl.jaas.config": "hunter2"}
    complaint = refusal(wanted, config=KafkaConfig(SASL), per_broker=True)
    assert complaint is not None
    assert "hunter2" not in complaint


def left_out(caplog: pytest.LogCaptureFixture) -> str:
    (line,) = [record.getMessage() for record in caplog.records]
    caplog.clear()
    assert "\n" not in line
    return line


def test_what_cannot_be_used_is_left_out_with_one_line(caplog: pytest.LogCaptureFixture) -> None:
    config = config_with()
    changed = take_over(
        config,
        default={
            "log.roll.ms": "-1",
            "log.retention.ms": "soon",
            "log.retention.bytes": "1000",
            "broker.rack": "r",
            "no.such.key": "1",
            "ssl.client.auth": "required",
            "listeners": "SSL://:1",
        },
        broker={"log.flush.interval.ms": "-5", "num.io.threads": "16", "max.connections": "0"},
    )
    assert changed == {"log.retention.bytes", "num.io.threads", "no.such.key"}
    line = left_out(caplog)
    for name in (
        "log.roll.ms", "log.retention.ms", "broker.rack", "ssl.client.auth", "listeners",
        "log.flush.interval.ms", "max.connections",
    ):  # fmt: skip
        assert f"{name} (" in line
    check_config(config)


def test_passwords_are_not_told(caplog: pytest.LogCaptureFixture) -> None:
    name = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
    config = KafkaConfig(SASL)
    assert take_over(config, broker={name: "hunter2"}) == set()
    line = left_out(caplog)
    assert "sasl.jaas.config (a password)" in line
    assert "hunter2" not in line


def test_values_that_need_each_other_are_both_taken(caplog: pytest.LogCaptureFixture) -> None:
    """Though something else among them is wrong."""
    config = config_with()
    pair = {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:5"}
    assert take_over(config, default={**pair, "log.roll.ms": "-1"}) == set(pair)
    assert "left out: log.roll.ms (log.roll.ms must be at least 1)" in left_out(caplog)


def test_a_value_is_left_out_only_where_it_is_wrong(caplog: pytest.LogCaptureFixture) -> None:
    config = config_with()
    take_over(config, default={"log.roll.ms": "5000"}, broker={"log.roll.ms": "-1"})
    assert config.roll_ms == 5000
    left_out(caplog)
    take_over(config, broker={"log.roll.ms": "-1", "log.retention.ms": "7"})
    assert (config.roll_ms, config.retention_ms) == (5000, 7)


def test_thousands_of_keys_cost_little(caplog: pytest.LogCaptureFixture) -> None:
    config = config_with()
    many = {f"listener.name.l{number}.max.connections": "5" for number in range(5000)}
    wrong = {f"listener.name.l{number}.no.such.key": "5" for number in range(5000)}
    unknown = {f"no.such.key.{number}": "5" for number in range(5000)}
    changed = take_over(config, default={**many, **wrong, **unknown, "log.roll.ms": "-1"})
    assert changed == {*many, *unknown}
    assert len(left_out(caplog)) < 5000


@pytest.fixture
def no_dns(monkeypatch: pytest.MonkeyPatch) -> None:
    ask = socket.getaddrinfo

    def numbers_only(host: str, port: None) -> list[Any]:
        return ask(host, port, flags=socket.AI_NUMERICHOST)

    monkeypatch.setattr(socket, "getaddrinfo", numbers_only)


def test_overrides_count_for_the_addresses_of_a_host(caplog: pytest.LogCaptureFixture) -> None:
    limits = settings.connections_by_address(
        config_with(max_connections_per_ip_overrides="localhost:7,10.0.0.1:-1,a.invalid:5")
    )
    assert limits.pop("10.0.0.1") == -1
    assert "127.0.0.1" in limits
    assert set(limits.values()) == {7}
    assert "the host a.invalid is not known" in left_out(caplog)


@pytest.mark.usefixtures("no_dns")
@pytest.mark.parametrize("name", DYNAMIC_KEYS)
def test_odd_values_are_refused_or_harmless(name: str) -> None:
    """What is accepted is taken over whole by a restart, and every part can be made of it."""
    config = config_with()
    for per_broker in (False, True):
        # What is read nowhere is only parsed, and both levels have the same checks.
        for text in WORDS if name in NO_PROTECTION else ALL[:: 5 if per_broker else 1]:
            complaint = refusal({name: text}, config=config, per_broker=per_broker)
            if complaint is not None:
                assert not complaint.startswith("KafkaError")
                assert len(complaint.encode()) < 32_000
                continue
            restarted = config_with()
            take_over(restarted, **{"broker" if per_broker else "default": {name: text}})
            taken = restarted.dynamic_broker if per_broker else restarted.dynamic_default
            assert taken == {name: text}
            settings.connection_quotas(restarted)
            settings.socket_settings(restarted)
            settings.log_manager_config(restarted)
            fetcher_config(restarted)
            LogConfig.from_overrides({}, restarted.explicit())
