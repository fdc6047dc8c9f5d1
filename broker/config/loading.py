"""Sources of configuration: `server.properties`, `KAFKA_*` variables, `--config` options.

The environment maps as in Kafka's Docker images: the prefix is cut, one underscore is a dot, two
are an underscore, three a dash. KAFKA_OPTS, the JVM's options, gives the files of JAAS and of
Kerberos. An unknown key is an error with a suggestion where a person has just typed it (`strict`),
and a warning in `server.properties`, where Kafka only ignores it. A key of Kafka's that is set and
has no effect here is a warning too; if it should protect the broker, the broker does not start
(`ineffective`).
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Mapping
from pathlib import Path

from . import ineffective
from .definitions import BROKER_CONFIGS, LISTENER_PREFIX, definition_of
from .errors import ConfigError
from .kafka_config import KafkaConfig

logger = logging.getLogger("pybroker.broker.config")

ENVIRONMENT_PREFIX = "KAFKA_"
# Variables of Kafka's start scripts and images that are no broker keys.
_NOT_KEYS = frozenset(
    {
        "KAFKA_VERSION", "KAFKA_HEAP_OPTS", "KAFKA_LOG4J_OPTS", "KAFKA_OPTS", "KAFKA_JMX_OPTS",
        "KAFKA_JVM_PERFORMANCE_OPTS", "KAFKA_GC_LOG_OPTS", "KAFKA_LOG4J_ROOT_LOGLEVEL",
        "KAFKA_LOG4J_LOGGERS", "KAFKA_TOOLS_LOG4J_LOGLEVEL", "KAFKA_JMX_HOSTNAME",
        "KAFKA_JMX_PORT", "KAFKA_DEBUG", "KAFKA_HOME", "KAFKA_CLUSTER_ID", "KAFKA_JAAS_CONFIG",
    }
)  # fmt: skip

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
    keys = {
        environment_key(variable): text
        for variable, text in environment.items()
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
    name = variable[len(ENVIRONMENT_PREFIX) :].lower()
    name = name.replace("___", "-").replace("__", "\0").replace("_", ".")
    return name.replace("\0", "_")


def check_known(values: Mapping[str, str]) -> None:
    for name in values:
        if definition_of(name) is None:
            raise ConfigError(f"unknown config key {name}{_suggestion(name)}")


def warn_of_unknown(values: Mapping[str, str]) -> None:
    for name in values:
        if definition_of(name) is None:
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
