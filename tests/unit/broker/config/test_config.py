"""Keys, values, loading and start-up checks of the broker's configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker_kafka.broker.config import ConfigError, KafkaConfig, load_config
from pybroker_kafka.broker.config.checks import check_config
from pybroker_kafka.broker.config.definitions import (
    BROKER_CONFIGS,
    DYNAMIC_ONLY_CONFIGS,
    definition_of,
)
from pybroker_kafka.broker.config.dynamic import take_over
from pybroker_kafka.broker.config.ineffective import NO_PROTECTION, PROTECTIONS
from pybroker_kafka.broker.config.kafka_config import ConfigSource
from pybroker_kafka.broker.config.kraft import DROPPED
from pybroker_kafka.broker.config.loading import environment_key
from pybroker_kafka.broker.config.tables import authorizer, extensions, groups4, share_coordinator
from pybroker_kafka.broker.replicas.parts import fetcher_config
from pybroker_kafka.broker.settings import log_manager_config
from pybroker_kafka.storage.config_def import ConfigType, DynamicMode

GOOD = {"zookeeper.connect": "localhost:2181", "listeners": "PLAINTEXT://localhost:9092"}


def config_of(**more: str) -> KafkaConfig:
    return KafkaConfig({**GOOD, **{name.replace("_", "."): text for name, text in more.items()}})


def with_keys(values: dict[str, str]) -> KafkaConfig:
    return KafkaConfig({**GOOD, **values})


def test_what_is_described_is_what_changes_something() -> None:
    """A key without a description is read nowhere, and the other way round."""
    sources = [
        path.read_text()
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
        for path in (Path(__file__).parents[4] / room).rglob("*.py")
        if path.parent.parts[-2:] != ("config", "tables")
    ]
    code = "\n".join(sources)
    read = {name for name in BROKER_CONFIGS if f'"{name}"' in code}
    described = {name for name, known in BROKER_CONFIGS.items() if known.documentation}
    assert described - read == set()
    # Their names stand there because they belong to a list or are looked out for.
    of_lists = {
        "connections.max.reauth.ms",
        "metric.reporters", *PROTECTIONS, *NO_PROTECTION, *DROPPED,
    }  # fmt: skip
    assert read - described <= of_lists


def test_keys_that_change_nothing_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines = (
        "remote.log.storage.manager.class.path=/x",
        "ssl.protocol=TLSv1.3",  # its default
        "num.partitions=3",
    )
    (tmp_path / "server.properties").write_text("\n".join(lines))
    load_config(
        tmp_path / "server.properties", overrides={"remote.log.metadata.manager.class.path": "7"}
    )
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        "remote.log.storage.manager.class.path is a key of Kafka's that changes nothing here",
        "remote.log.metadata.manager.class.path is a key of Kafka's that changes nothing here",
    ]


def test_there_are_all_keys_of_kafka_and_our_own() -> None:
    ours = {definition.name for definition in extensions.DEFINITIONS}
    assert ours == {
        "record.validation",
        "pybroker.coordinator.proof",
        "pybroker.producer.ids.per.partition",
        "pybroker.producer.ids",
        "pybroker.allow.ineffective.security",
        "pybroker.remote.prefetch.max.bytes",
        "pybroker.features",
        "pybroker.table.warehouse",
        "pybroker.table.catalog",
        "pybroker.table.namespace",
        "pybroker.table.registry",
        "pybroker.jaas.file",
        "pybroker.kerberos.config.file",
        "pybroker.zookeeper.credentials.file",
        "pybroker.zookeeper.follow.members",
    }
    for table in (authorizer, groups4, share_coordinator):
        ours.update(definition.name for definition in table.DEFINITIONS)
    kafkas = [definition for name, definition in BROKER_CONFIGS.items() if name not in ours]
    assert len(kafkas) == 328
    assert len(DYNAMIC_ONLY_CONFIGS) == 3
    modes = [definition.dynamic_mode for definition in kafkas]
    assert {mode: modes.count(mode) for mode in set(modes)} == {
        DynamicMode.READ_ONLY: 239,
        DynamicMode.CLUSTER_WIDE: 52,
        DynamicMode.PER_BROKER: 37,
    }


def test_every_default_is_a_valid_value() -> None:
    for definition in BROKER_CONFIGS.values():
        value = definition.default_value()
        assert value is not None or definition.default is None


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("num.network.threads", "0", "at least 1"),
        ("num.network.threads", "three", "Not a number of type INT"),
        ("num.network.threads", "3000000000", "Not a number of type INT"),
        ("log.cleaner.min.cleanable.ratio", "1.5", "no more than 1"),
        ("compression.type", "brotli", "must be one of"),
        ("log.cleanup.policy", "burn", "must be one of"),
        ("delete.topic.enable", "yes", "true or false"),
        ("inter.broker.protocol.version", "4.0", "not a version"),
        ("compression.gzip.level", "10", "between 1 and 9"),
        ("security.inter.broker.protocol", "TLS", "must be one of"),
        ("controller.quorum.voters", "localhost:9093", "id@host:port"),
    ],
)
def test_bad_values_are_named(name: str, text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint) as raised:
        with_keys({name: text})
    assert name in str(raised.value)
    assert text in str(raised.value)


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"zookeeper.connect": ""}, "zookeeper.connect is not set"),
        ({"process.roles": "broker"}, "KRaft"),
        ({"controller.listener.names": "C"}, "KRaft"),
        ({"broker.id": "1001"}, "between -1 and"),
        ({"broker.id": "1", "node.id": "2"}, "must be the same"),
        ({"broker.id.generation.enable": "false"}, "0 or more"),
        ({"log.roll.ms": "0"}, "log.roll.ms"),
        ({"log.retention.ms": "0"}, "at least 1"),
        ({"log.retention.hours": "0"}, "at least 1"),
        ({"log.dirs": " , "}, "at least one directory"),
        ({"log.dirs": "/a,/b,/a"}, "twice"),
        ({"log.cleaner.dedupe.buffer.size": "1048576"}, "more than 1 MiB"),
        ({"replica.fetch.wait.max.ms": "40000"}, "replica.socket.timeout.ms"),
        ({"offsets.topic.compression.codec": "9"}, "0 to 4"),
        ({"offsets.commit.required.acks": "2"}, "-1, 0 or 1"),
        ({"listeners": ""}, "at least one listener"),
        ({"listeners": "localhost:9092"}, "NAME://host:port"),
        ({"listeners": "PLAINTEXT://h:70000"}, "NAME://host:port"),
        ({"listeners": "FOO://h:1"}, "no security protocol is known for listener FOO"),
        ({"listeners": "PLAINTEXT://h:1,PLAINTEXT://h:2"}, "different name"),
        (
            {
                "listeners": "A://h:1,B://h:1",
                "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT",
                "inter.broker.listener.name": "A",
            },
            "different port",
        ),
        ({"listener.security.protocol.map": "A:B"}, "not NAME:PROTOCOL"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "no address that a client"),
        ({"advertised.listeners": "SSL://h:9092"}, "listeners does not have"),
        ({"inter.broker.listener.name": "X"}, "must be one of advertised.listeners"),
        (
            {
                "inter.broker.listener.name": "PLAINTEXT",
                "security.inter.broker.protocol": "PLAINTEXT",
            },
            "not both",
        ),
        ({"control.plane.listener.name": "PLAINTEXT"}, "control.plane.listener.name"),
        ({"queued.max.request.bytes": "1000"}, "socket.request.max.bytes"),
        ({"max.connections.per.ip": "0"}, "refuses every"),
        ({"max.connections.per.ip.overrides": "host"}, "not host:count"),
        ({"inter.broker.protocol.version": "0.10.2"}, "needs a newer format"),
        (
            {
                "inter.broker.protocol.version": "0.10.2",
                "log.message.format.version": "0.9.0",
                "offsets.topic.compression.codec": "4",
            },
            "zstd",
        ),
    ],
)
def test_start_up_checks(values: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        check_config(with_keys(values))


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"listeners": "PLAINTEXT://:9092"},
        {"listeners": "PLAINTEXT://[::1]:9092", "advertised.listeners": "PLAINTEXT://me:1"},
        {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:5"},
        {"log.retention.ms": "-1"},
        {"inter.broker.protocol.version": "2.8", "log.message.format.version": "0.9.0"},
        {"queued.max.request.bytes": "104857600"},
        {
            "listeners": "IN://h:1,OUT://h:2",
            "listener.security.protocol.map": "IN:PLAINTEXT,OUT:PLAINTEXT",
            "inter.broker.listener.name": "in",
        },
    ],
)
def test_good_configurations(values: dict[str, str]) -> None:
    check_config(with_keys(values))


def test_an_old_format_that_does_not_count_is_told(caplog: pytest.LogCaptureFixture) -> None:
    check_config(with_keys({"log.message.format.version": "0.9.0"}))
    assert "0.9.0 is ignored" in caplog.text


def test_advertised_listeners_take_the_bound_port() -> None:
    config = with_keys({"listeners": "PLAINTEXT://127.0.0.1:0"})
    (listener,) = config.advertised_listeners({"PLAINTEXT": 4711})
    assert (listener.host, listener.port) == ("127.0.0.1", 4711)


def test_the_order_of_sources() -> None:
    config = config_of(log_retention_ms="1000")
    assert config.text_and_source("log.retention.ms")[1] is ConfigSource.STATIC_BROKER_CONFIG
    changed = take_over(config, default={"log.retention.ms": "2000"})
    assert changed == {"log.retention.ms"}
    assert config.retention_ms == 2000
    take_over(config, broker={"log.retention.ms": "3000", "no.such.key": "1"})
    assert config.retention_ms == 3000
    sources = [source for _, _, source in config.synonyms("log.retention.ms")]
    assert sources == [
        ConfigSource.DYNAMIC_BROKER_CONFIG,
        ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
        ConfigSource.STATIC_BROKER_CONFIG,
        ConfigSource.DEFAULT_CONFIG,
    ]
    changed = take_over(config, broker={"log.retention.ms": "nonsense"})
    assert changed == {"log.retention.ms", "no.such.key"}
    assert config.retention_ms == 2000


def test_time_keys_fall_back_to_coarser_ones() -> None:
    assert config_of().retention_ms == 168 * 3_600_000
    assert config_of(log_retention_minutes="5").retention_ms == 300_000
    assert config_of(log_retention_hours="-1").retention_ms == -1
    assert config_of(log_roll_hours="1").roll_ms == 3_600_000
    assert config_of().zookeeper_connection_timeout_ms == 18_000


def test_listener_prefix() -> None:
    name = "listener.name.internal.max.connections"
    config = with_keys({name: "7"})
    assert config.of_listener("INTERNAL", "max.connections") == 7
    assert config.of_listener("EXTERNAL", "max.connections") == 2_147_483_647
    assert definition_of("listener.name.internal.ssl.keystore.location") is not None
    assert definition_of("listener.name.x.plain.sasl.jaas.config") is not None
    assert definition_of("listener.name.x.num.partitions") is None


@pytest.mark.parametrize(
    ("variable", "key"),
    [
        ("KAFKA_LOG_RETENTION_MS", "log.retention.ms"),
        ("KAFKA_BROKER_ID", "broker.id"),
        ("KAFKA_LISTENER_NAME_MY__NAME_SSL_KEY_PASSWORD", "listener.name.my_name.ssl.key.password"),
        ("KAFKA_A___B", "a-b"),
    ],
)
def test_environment_names(variable: str, key: str) -> None:
    assert environment_key(variable) == key


def test_file_environment_and_options_in_this_order(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(
        "# a comment\nzookeeper.connect = localhost:2181 \nnum.partitions:3\n"
        "log.dirs=/data/a,\\\n  /data/b\nbroker.rack=r\\u00e4ck\nunknown.key=1\n"
    )
    config = load_config(
        path,
        environment={"KAFKA_NUM_PARTITIONS": "4", "KAFKA_HEAP_OPTS": "-Xmx1G", "HOME": "/"},
        overrides={"default.replication.factor": "2"},
    )
    assert config.zookeeper_connect == "localhost:2181"
    assert config.get_int("num.partitions") == 4
    assert config.get_int("default.replication.factor") == 2
    assert config.log_dirs == ["/data/a", "/data/b"]
    assert config.get_string("broker.rack") == "räck"


def test_unknown_keys_warn_in_a_file_and_fail_as_options(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "server.properties"
    path.write_text("num.partition=3\n")
    load_config(path)
    assert "num.partition is not known and is ignored; did you mean num.partitions?" in caplog.text
    with pytest.raises(ConfigError, match=r"unknown config key num\.partition; did you mean"):
        load_config(overrides={"num.partition": "3"})
    with pytest.raises(ConfigError, match="unknown config key"):
        load_config(path, strict=True)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        load_config(tmp_path / "none")


def test_passwords_are_sensitive() -> None:
    passwords = [d for d in BROKER_CONFIGS.values() if d.type is ConfigType.PASSWORD]
    assert len(passwords) == 13
    assert all(definition.sensitive for definition in passwords)


@pytest.mark.parametrize(("text", "fully"), [("batch", False), ("full", True)])
def test_record_validation_reaches_the_logs(text: str, fully: bool) -> None:
    assert log_manager_config(config_of(record_validation=text)).validate_fully is fully
    assert log_manager_config(config_of()).validate_fully
    with pytest.raises(ConfigError, match=r"record\.validation"):
        config_of(record_validation="none")


def test_a_followers_partitions_share_the_room_of_a_response_unless_theirs_is_set() -> None:
    megabyte = 1 << 20
    config = fetcher_config(with_keys({}))
    assert config.room_for_each_of(1) == 4 * megabyte  # one go of the loop
    assert config.room_for_each_of(5) == 2 * megabyte
    assert config.room_for_each_of(100) == megabyte
    config = fetcher_config(with_keys({"replica.fetch.max.bytes": str(megabyte)}))
    assert config.room_for_each_of(1) == megabyte
