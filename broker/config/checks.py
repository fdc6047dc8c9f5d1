"""The conditions between keys (SEMANTICS 10): one clear line each.

`check_config` runs before a broker starts. `check_changeable` is the part of it that dynamic
configs can break: it checks the configuration that they would result in, before they are written
(`dynamic`). Both reject every value with which a later step of a start would fail.

Mirrors `KafkaConfig.validateValues` for ZooKeeper mode, and the checks that LogManager makes of the
defaults of topics. Beyond Kafka, which starts with them: a cleaner that could never clean.
"""

from __future__ import annotations

import logging

from ...protocol.errors import KafkaError
from ...replication.inter_broker import FLOOR
from ...storage import message_format
from ...storage.cleaner.offset_map import BYTES_PER_SLOT
from ...storage.config_def import shortened
from ...storage.log_config import (
    TOPIC_CONFIGS,
    LogConfig,
    topic_config_from_broker,
    validate_local_retention,
    validate_together,
)
from ...storage.table_places import check_table_place
from . import group_configs, ineffective
from .errors import ConfigError
from .kafka_config import KafkaConfig
from .listeners import WILDCARD_HOSTS, check_unique
from .passwords import check_encoder
from .sasl_config import check_broker_login, check_jaas, mechanism_configs, uses_sasl
from .tls import tls_settings

logger = logging.getLogger("pybroker.broker.config.checks")

MIN_CLEANER_BUFFER_BYTES = 1024 * 1024
ZSTD_CODEC = 4
ACL_AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"


def check_config(config: KafkaConfig) -> None:
    """Raise ConfigError for the first rule that `config` breaks."""
    _check_mode(config)
    _check_security(config)
    check_jaas(config)
    _check_authorizer(config)
    _check_identity(config)
    _check_formats(config)
    check_changeable(config)
    _check_replication(config)
    _check_listeners(config)
    _check_tables(config)


def check_changeable(config: KafkaConfig) -> None:
    """Raise ConfigError for the first rule that dynamic configs may break and do."""
    _check_log(config)
    _check_topic_defaults(config)
    _check_cleaner(config)
    _check_limits(config)
    _check_tls(config)
    _check_logins(config)
    group_configs.check_brokers_keys(config)


def _check_tables(config: KafkaConfig) -> None:
    try:
        check_table_place(config.explicit())
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _check_tls(config: KafkaConfig) -> None:
    for listener in config.listeners:
        tls_settings(config, listener)
    check_encoder(config)


def _check_logins(config: KafkaConfig) -> None:
    for listener in config.listeners:
        if uses_sasl(listener.security_protocol):
            mechanism_configs(config, listener.name)
    check_broker_login(config)


def _check_security(config: KafkaConfig) -> None:
    missing = ineffective.asked_for(config.static)
    if missing and not config.get_boolean(ineffective.ALLOW):
        raise ConfigError(
            f"{ineffective.explained(missing)}. Take the key out, or start all the same with "
            f"{ineffective.ALLOW}=true"
        )


def _check_authorizer(config: KafkaConfig) -> None:
    name = config.get_optional_string("authorizer.class.name")
    if name is None:
        return
    if name != ACL_AUTHORIZER:
        raise ConfigError(
            f"authorizer.class.name={shortened(name)}: classes of Java cannot be loaded here; use "
            f"{ACL_AUTHORIZER}"
        )
    elsewhere = sorted(key for key in config.static if key.startswith("authorizer.zookeeper."))
    if elsewhere:
        raise ConfigError(
            f"{', '.join(elsewhere)}: ACLs are only read from the ZooKeeper of zookeeper.connect"
        )


def _check_mode(config: KafkaConfig) -> None:
    if config.get_list("process.roles"):
        raise ConfigError(
            "process.roles is for KRaft; this broker runs with ZooKeeper: remove it, or "
            "zookeeper.connect, for an embedded one"
        )
    if config.get_optional_string("zookeeper.connect") is None:
        raise ConfigError(
            "zookeeper.connect is not set; give the ensemble, for example localhost:2181, or run "
            "the broker with --standalone, for an embedded one"
        )
    if config.get_optional_string("controller.listener.names") is not None:
        raise ConfigError("controller.listener.names is for KRaft: remove it")
    if config.get_boolean("zookeeper.metadata.migration.enable"):
        raise ConfigError(
            "zookeeper.metadata.migration.enable: migration to KRaft is not supported"
        )


def _check_identity(config: KafkaConfig) -> None:
    broker_id, node_id = config.get_int("broker.id"), config.get_int("node.id")
    if broker_id >= 0 <= node_id and broker_id != node_id:
        raise ConfigError(f"broker.id={broker_id} and node.id={node_id} must be the same")
    if config.get_boolean("broker.id.generation.enable"):
        highest = config.get_int("reserved.broker.max.id")
        if not -1 <= config.broker_id <= highest:
            raise ConfigError(
                f"broker.id={config.broker_id} must be between -1 and "
                f"reserved.broker.max.id={highest}"
            )
    elif config.broker_id < 0:
        raise ConfigError("broker.id must be 0 or more when broker.id.generation.enable=false")


def _check_log(config: KafkaConfig) -> None:
    if config.roll_ms < 1:
        raise ConfigError("log.roll.ms must be at least 1")
    jitter_ms = config.value("log.roll.jitter.ms")
    if jitter_ms is not None and jitter_ms < 0:
        raise ConfigError("log.roll.jitter.ms must be at least 0")
    if config.retention_ms == 0 or config.retention_ms < -1:
        raise ConfigError("log.retention.ms must be -1 (no limit) or at least 1")
    if not config.log_dirs:
        raise ConfigError("log.dirs must name at least one directory")
    if len(set(config.log_dirs)) < len(config.log_dirs):
        raise ConfigError("log.dirs names a directory twice")


def _check_topic_defaults(config: KafkaConfig) -> None:
    """Each broker key that is the default of a topic key must be a value of that key."""
    explicit = config.explicit()
    for definition in TOPIC_CONFIGS.values():
        text = topic_config_from_broker(definition.name, explicit)
        if text is None:
            continue
        try:
            definition.parse(text)
        except KafkaError as error:
            key = next(name for name in definition.synonyms if name in explicit)
            raise ConfigError(
                f"{key}={explicit[key]} cannot be the default of topics: {error.message}"
            ) from None
    try:
        defaults = LogConfig.from_overrides({}, explicit)
        validate_together(defaults)
        if config.get_boolean("remote.log.storage.system.enable"):
            validate_local_retention(defaults)
    except KafkaError as error:
        raise ConfigError(f"the defaults of topics: {error.message}") from None


def _check_cleaner(config: KafkaConfig) -> None:
    threads = max(config.get_int("log.cleaner.threads"), 1)
    buffer_bytes = config.get_int("log.cleaner.dedupe.buffer.size") // threads
    if buffer_bytes <= MIN_CLEANER_BUFFER_BYTES:
        raise ConfigError(
            "log.cleaner.dedupe.buffer.size must be more than 1 MiB per cleaner thread"
        )
    load_factor = config.get_float("log.cleaner.io.buffer.load.factor")
    if not 0 < load_factor <= 1 or buffer_bytes // BYTES_PER_SLOT * load_factor < 1:
        raise ConfigError(
            f"log.cleaner.io.buffer.load.factor={load_factor} must be more than 0 and at most 1, "
            "and leave room for a key"
        )
    if config.get_float("log.cleaner.io.max.bytes.per.second") == 0:
        raise ConfigError(
            "log.cleaner.io.max.bytes.per.second must not be 0: the cleaner would never get on"
        )


def _check_formats(config: KafkaConfig) -> None:
    protocol = config.get_string(message_format.INTER_BROKER_VERSION)
    text = config.get_string(message_format.BROKER_FORMAT_VERSION)
    newest = message_format.record_version_of(protocol)
    if message_format.formats_are_ignored(protocol):
        if message_format.record_version_of(text) < newest:
            logger.warning(
                "log.message.format.version %s is ignored: inter.broker.protocol.version is %s",
                text, protocol,
            )  # fmt: skip
    elif message_format.record_version_of(text) > newest:
        raise ConfigError(
            f"log.message.format.version={text} needs a newer format than "
            f"inter.broker.protocol.version={protocol} has: lower the first or raise the second"
        )
    if message_format.parse_version(protocol) < message_format.parse_version(FLOOR):
        logger.warning(
            "inter.broker.protocol.version=%s: no broker of a release before %s can be a member of "
            "this cluster; this broker sends the inter-broker requests of %s",
            protocol, FLOOR, FLOOR,
        )  # fmt: skip
    if config.get_int("offsets.topic.compression.codec") == ZSTD_CODEC and newest < 2:
        raise ConfigError(
            "offsets.topic.compression.codec=4 (zstd) needs inter.broker.protocol.version=2.1 or "
            "higher"
        )


def _check_replication(config: KafkaConfig) -> None:
    wait_ms = config.get_int("replica.fetch.wait.max.ms")
    for name in ("replica.socket.timeout.ms", "replica.lag.time.max.ms"):
        if wait_ms > config.get_int(name):
            raise ConfigError(
                f"replica.fetch.wait.max.ms={wait_ms} must not be more than "
                f"{name}={config.get_int(name)}"
            )
    codec = config.get_int("offsets.topic.compression.codec")
    if not 0 <= codec <= 4:
        raise ConfigError(f"offsets.topic.compression.codec={codec} must be 0 to 4")
    acks = config.get_int("offsets.commit.required.acks")
    if not -1 <= acks <= 1:
        raise ConfigError(f"offsets.commit.required.acks={acks} must be -1, 0 or 1")


def _check_listeners(config: KafkaConfig) -> None:
    listeners = config.listeners
    check_unique("listeners", listeners, ports=True)
    advertised = config.advertised_listeners()
    check_unique("advertised.listeners", advertised, ports=False)
    names = {listener.name for listener in listeners}
    for listener in advertised:
        if listener.name not in names:
            raise ConfigError(
                f"advertised.listeners names {listener.name}, which listeners does not have"
            )
        if listener.host in WILDCARD_HOSTS:
            raise ConfigError(
                f"advertised.listeners: {listener} is no address that a client can connect to; "
                "give a host name"
            )
    if config.get_optional_string("inter.broker.listener.name") is not None and config.is_set(
        "security.inter.broker.protocol"
    ):
        raise ConfigError(
            "set inter.broker.listener.name or security.inter.broker.protocol, not both"
        )
    inter_broker = config.inter_broker_listener
    if inter_broker not in {listener.name for listener in advertised}:
        raise ConfigError(
            f"the inter-broker listener {inter_broker} must be one of advertised.listeners"
        )
    control_plane = config.get_optional_string("control.plane.listener.name")
    if control_plane is not None and control_plane.upper() not in names - {inter_broker}:
        raise ConfigError(
            "control.plane.listener.name must be one of listeners and not the inter-broker listener"
        )


def _check_limits(config: KafkaConfig) -> None:
    if config.get_int("num.replica.fetchers") < 1:
        raise ConfigError("num.replica.fetchers must be at least 1")
    queued = config.get_int("queued.max.request.bytes")
    largest = config.get_int("socket.request.max.bytes")
    if 0 < queued < largest:
        raise ConfigError(
            f"queued.max.request.bytes={queued} must be -1 (no limit) or at least "
            f"socket.request.max.bytes={largest}"
        )
    overrides = config.max_connections_per_ip_overrides
    if config.get_int("max.connections.per.ip") == 0 and not overrides:
        raise ConfigError(
            "max.connections.per.ip=0 refuses every connect; "
            "set max.connections.per.ip.overrides as well"
        )
