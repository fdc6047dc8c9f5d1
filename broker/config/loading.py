"""Sources of configuration: `server.properties`, `KAFKA_*` variables, `--config` options.

The environment maps as in Kafka's Docker images: the prefix (Bitnami's is KAFKA_CFG_) is cut, one
underscore is a dot, two are an underscore, three a dash. A node without a ZooKeeper may run with an
embedded one (`load_node`), its settings for KRaft translated (`kraft`). KAFKA_OPTS, the JVM's
options, gives the files of JAAS and of Kerberos. An unknown key is an error with a suggestion where
a person has just typed it (`strict`), and a warning in `server.properties`, where Kafka only
ignores it. A key of Kafka's that is set and has no effect here is a warning too; if it should
protect the broker, the broker does not start (`ineffective`).
"""

from __future__ import annotations

import logging
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ...storage.table_configs import CLIENT_PREFIX as TABLE_CLIENT_PREFIX
from ...storage.table_places import is_place_key
from . import ineffective, kraft
from .definitions import BROKER_CONFIGS, LISTENER_PREFIX, definition_of
from .errors import ConfigError
from .kafka_config import KafkaConfig

logger = logging.getLogger("pybroker.broker.config")

ENVIRONMENT_PREFIX = "KAFKA_"
BITNAMI_PREFIX = "KAFKA_CFG_"
# Variables of Kafka's start scripts and images that are no broker keys.
_NOT_KEYS = frozenset(
    {
        "KAFKA_VERSION", "KAFKA_HEAP_OPTS", "KAFKA_LOG4J_OPTS", "KAFKA_OPTS", "KAFKA_JMX_OPTS",
        "KAFKA_JVM_PERFORMANCE_OPTS", "KAFKA_GC_LOG_OPTS", "KAFKA_LOG4J_ROOT_LOGLEVEL",
        "KAFKA_LOG4J_LOGGERS", "KAFKA_TOOLS_LOG4J_LOGLEVEL", "KAFKA_JMX_HOSTNAME",
        "KAFKA_JMX_PORT", "KAFKA_DEBUG", "KAFKA_HOME", "KAFKA_CLUSTER_ID", "KAFKA_JAAS_CONFIG",
        "KAFKA_KRAFT_CLUSTER_ID", "KAFKA_ENABLE_KRAFT", "KAFKA_SKIP_KRAFT_STORAGE_INIT",
    }
)  # fmt: skip
# Variables of Bitnami's image from which it writes logins and keys: they are not translated, and
# must not be passed over.
_REFUSED = frozenset(
    {
        "KAFKA_CLIENT_USERS", "KAFKA_CLIENT_PASSWORDS", "KAFKA_INTER_BROKER_USER",
        "KAFKA_INTER_BROKER_PASSWORD", "KAFKA_CONTROLLER_USER", "KAFKA_CONTROLLER_PASSWORD",
        "KAFKA_CERTIFICATE_PASSWORD", "KAFKA_TLS_TYPE", "KAFKA_TLS_CLIENT_AUTH",
        "KAFKA_KRAFT_BOOTSTRAP_SCRAM_USERS",
    }
)  # fmt: skip
# Where volumes are mounted for Kafka's images.
_VOLUMES = ("/var/lib/kafka/data", "/bitnami/kafka")
DATA_DIR_VARIABLE = "PYBROKER_DATA_DIR"

_PREFIXES_OF_PLUGINS = (
    "remote.log.storage.manager.impl.prefix",
    "remote.log.metadata.manager.impl.prefix",
)
_LOGIN_CONFIG = "-Djava.security.auth.login.config="
_KERBEROS_CONFIG = "-Djava.security.krb5.conf="
_LOGIN_SECTION = "-Dzookeeper.sasl.clientconfig="


def load_config(
    properties: Path | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    overrides: Mapping[str, str] | None = None,
    strict: bool = False,
) -> KafkaConfig:
    """Read the file, then the environment, then the overrides; the last one wins."""
    values: dict[str, str] = {}
    if properties is not None:
        values.update(read_properties(properties))
    values.update(from_environment(environment or {}))
    return _checked(values, overrides or {}, strict=strict)


class NodeConfig(NamedTuple):
    """The config of one node. `told`: the line about what was translated, or ""."""

    config: KafkaConfig
    needs_zookeeper: bool
    told: str


def load_node(
    properties: Path | None,
    environment: Mapping[str, str],
    overrides: Mapping[str, str],
    *,
    standalone: bool,
) -> NodeConfig:
    """The config of a node that may need an embedded ZooKeeper: because its settings are KRaft's,
    or, if it is `standalone`, because none is named. Raises ConfigError."""
    values = {} if properties is None else read_properties(properties)
    variables = from_environment(environment)
    together = {**values, **variables, **overrides}
    if not (kraft.is_kraft(together) or (standalone and not together.get("zookeeper.connect"))):
        return NodeConfig(_checked({**values, **variables}, overrides), False, "")
    are_derived = kraft.ADVERTISED in variables and kraft.LISTENERS not in variables
    if are_derived and (standalone or kraft.LISTENERS not in values):
        variables[kraft.LISTENERS] = kraft.listeners_of(variables[kraft.ADVERTISED])
    translated, told = kraft.translate({**values, **variables, **overrides})
    if not (translated.get("log.dirs") or translated.get("log.dir")):
        translated.update(_data_directory(environment))
    typed = {key: text for key, text in translated.items() if key in overrides}
    config = _checked(kraft.for_one_broker(translated), typed)
    return NodeConfig(config, True, told)


def for_local_cluster(
    environment: Mapping[str, str], overrides: Mapping[str, str]
) -> kraft.Translation:
    """The overrides of a local cluster, whose brokers have their ids and an embedded ZooKeeper
    anyway; with KRaft's settings of the environment, or in the overrides, translated."""
    is_meant = any(
        environment_key(name) in kraft.SIGNS
        for name in environment
        if name.startswith(ENVIRONMENT_PREFIX)
    )
    together = {**(from_environment(environment) if is_meant else {}), **overrides}
    if not kraft.is_kraft(together):
        return kraft.Translation(dict(overrides), "")
    values, told = kraft.translate(together)
    for key in ("node.id", "broker.id"):
        values.pop(key, None)
    return kraft.Translation(values, told)


def _data_directory(environment: Mapping[str, str]) -> dict[str, str]:
    """A mounted volume, or ours; Kafka's default without both."""
    for path in _VOLUMES:
        if os.path.ismount(path):
            return {"log.dirs": f"{path}/data"}
    ours = environment.get(DATA_DIR_VARIABLE)
    return {"log.dirs": f"{ours}/logs"} if ours else {}


def _checked(
    values: dict[str, str], overrides: Mapping[str, str], *, strict: bool = False
) -> KafkaConfig:
    if strict:
        check_known(values)
    else:
        warn_of_unknown(values)
    if overrides:
        check_known(overrides)
        values.update(overrides)
    config = KafkaConfig(values)
    warn_of_idle(config)
    return config


def read_properties(path: Path) -> dict[str, str]:
    import javaproperties

    try:
        with path.open("rb") as file:
            loaded: dict[str, str] = javaproperties.load(file)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{path} is no properties file: {error}") from None
    return {name: text.strip() for name, text in loaded.items()}


def from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The keys that variables set. Raises ConfigError for those that must not be passed over."""
    refused = sorted(_REFUSED & environment.keys())
    if refused:
        raise ConfigError(
            f"{refused[0]}: logins and certificates that Bitnami's image makes are not made here; "
            "set Kafka's own keys (docs/SECURITY.md), or use pybroker start --secure"
        )
    # Bitnami's names come last, and win.
    variables = sorted(environment, key=lambda name: name.startswith(BITNAMI_PREFIX))
    keys = {
        environment_key(variable): environment[variable]
        for variable in variables
        if variable.startswith(ENVIRONMENT_PREFIX) and variable not in _NOT_KEYS
    }
    return {**from_jvm_options(environment.get("KAFKA_OPTS", "")), **keys}


def from_jvm_options(text: str) -> dict[str, str]:
    """The keys that the JVM's options set."""
    keys = {}
    try:
        options = shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"KAFKA_OPTS cannot be read: {error}") from None
    for option in options:
        if option.startswith(_LOGIN_CONFIG):
            # One more = in front makes the JVM read no other file, as here.
            keys["pybroker.jaas.file"] = option.removeprefix(_LOGIN_CONFIG).removeprefix("=")
        elif option.startswith(_KERBEROS_CONFIG):
            keys["pybroker.kerberos.config.file"] = option.removeprefix(_KERBEROS_CONFIG)
        elif option.startswith(_LOGIN_SECTION) and option != _LOGIN_SECTION + "Client":
            raise ConfigError(f"KAFKA_OPTS: {option}: the section must be called Client here")
    return keys


def environment_key(variable: str) -> str:
    """`KAFKA_LOG_RETENTION_MS` is `log.retention.ms`."""
    name = variable.removeprefix(BITNAMI_PREFIX).removeprefix(ENVIRONMENT_PREFIX).lower()
    name = name.replace("___", "-").replace("__", "\0").replace("_", ".")
    return name.replace("\0", "_")


def _is_known(name: str, values: Mapping[str, str]) -> bool:
    """Or it is meant for a plugin of tiered storage, which alone knows its keys, or for the clients
    that write tables."""
    if definition_of(name) is not None or name.startswith(TABLE_CLIENT_PREFIX):
        return True
    if is_place_key(name):  # checked with its value (`checks`)
        return True
    return any(
        name.startswith(values.get(key) or BROKER_CONFIGS[key].default or "")
        for key in _PREFIXES_OF_PLUGINS
    )


def check_known(values: Mapping[str, str]) -> None:
    for name in values:
        if not _is_known(name, values):
            raise ConfigError(f"unknown config key {name}{_suggestion(name)}")


def warn_of_unknown(values: Mapping[str, str]) -> None:
    for name in values:
        if not _is_known(name, values):
            logger.warning(
                "The config key %s is not known and is ignored%s", name, _suggestion(name)
            )


def warn_of_idle(config: KafkaConfig) -> None:
    """Warn of set keys without effect: only keys with an effect here have a description."""
    missing = ineffective.asked_for(config.static)
    if missing and config.get_boolean(ineffective.ALLOW):
        logger.warning("%s", ineffective.explained(missing))
    for name, text in config.static.items():
        definition = definition_of(name)
        if definition is None or definition.documentation or text == (definition.default or ""):
            continue
        if name not in missing:
            logger.warning("%s is a key of Kafka's that changes nothing here", name)


def _suggestion(name: str) -> str:
    bare = name
    if name.startswith(LISTENER_PREFIX):
        bare = name[len(LISTENER_PREFIX) :].partition(".")[2]
    from difflib import get_close_matches

    close = get_close_matches(bare, BROKER_CONFIGS, n=1, cutoff=0.7)
    return f"; did you mean {close[0]}?" if close else ""
