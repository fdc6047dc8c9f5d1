"""Dynamic configs: which alterations are allowed, and which stored values this broker can use.

An alteration is checked as a whole before it is written: a broker must be able to start with the
resulting configuration. Bad values get INVALID_REQUEST, as in Kafka (KAFKA-13609).
Values found in ZooKeeper never stop a broker: unusable ones are left out, with one log line that
names them.

Mirrors `kafka.server.DynamicBrokerConfig` with the checks of its reconfigurables (thread pools,
cleaner, listeners' connection limits, local retention).
Passwords are decrypted before (`passwords`), key stores are read after (`tls_listeners`), and the
logins of SASL listeners are rebuilt from the result (`logins`).
Leaves out: changing listeners while running, which is refused, as is a security setting without
effect here (`ineffective`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.scala_texts import hash_ordered, mutable_set_text, set_text
from ...storage.config_def import ConfigDef, DynamicMode, shortened
from . import ineffective
from .checks import check_changeable
from .definitions import LISTENER_PREFIX, base_key, definition_of, is_dynamic
from .errors import ConfigError
from .kafka_config import KafkaConfig

logger = logging.getLogger("pybroker.broker.config")

MAX_TOLD_KEYS = 20  # in the log line about unusable ones

# Of a running broker; they come from server.properties.
_LISTENERS = frozenset({"listeners", "advertised.listeners", "listener.security.protocol.map"})
# Kafka reloads these for single listeners only.
_ONLY_WITH_PREFIX = frozenset(
    {
        "ssl.keystore.type", "ssl.keystore.location", "ssl.keystore.password", "ssl.key.password",
        "ssl.truststore.type", "ssl.truststore.location", "ssl.truststore.password",
        "ssl.keystore.certificate.chain", "ssl.keystore.key", "ssl.truststore.certificates",
    }
)  # fmt: skip
_PREFIX_NEEDED = (
    "These security configs can be dynamically updated only per-listener using the listener prefix"
)
# Of a listener, but allowed as the default of all brokers too.
_CONNECTION_LIMITS = frozenset({"max.connections", "max.connection.creation.rate"})
_OF_ALL_LISTENERS = _CONNECTION_LIMITS | {"num.network.threads"}
# May not be changed by more than a factor of two at once.
_THREAD_COUNTS = (
    "num.io.threads", "num.replica.fetchers", "num.recovery.threads.per.data.dir",
    "background.threads", "log.cleaner.threads",
)  # fmt: skip
_REPORTER_CLASSES = frozenset({"org.apache.kafka.common.metrics.JmxReporter"})


class _Entry(NamedTuple):
    """A dynamic config, and whether it is set for this broker or for all."""

    name: str
    text: str
    per_broker: bool


# Altering


def check_alteration(
    config: KafkaConfig,
    stored: Mapping[str, str],
    wanted: Mapping[str, str],
    *,
    per_broker: bool,
) -> KafkaConfig:
    """Raise KafkaError unless `wanted` may replace `stored` as the configs of this broker, or as
    the default of all; returns the resulting configuration.

    A stored value that only has no effect here may stay: a broker of another kind may use it.
    """
    effective = {}
    changed = {
        name: text
        for name, text in wanted.items()
        if not (stored.get(name) == text and _is_foreign(name))
    }
    _check_keys(changed)
    for name, text in changed.items():
        problem = _problem(config, _Entry(name, text, per_broker))
        if problem is not None:
            raise _invalid(problem)
        effective[name] = text
    after = config.with_dynamic(
        default=config.dynamic_default if per_broker else effective,
        broker=effective if per_broker else config.dynamic_broker,
    )
    try:
        check_changeable(after)
    except ConfigError as error:
        raise _invalid(str(error)) from None
    _check_steps(config, after)
    return after


def _check_keys(wanted: Iterable[str]) -> None:
    """Kafka names all keys at once that cannot be altered at all, or only for one listener."""
    names = hash_ordered(wanted)
    static = [name for name in names if _is_static(name)]
    if static:
        raise _invalid(f"Cannot update these configs dynamically: {set_text(static)}")
    without = [name for name in names if name in _ONLY_WITH_PREFIX]
    if without:
        raise _invalid(f"{_PREFIX_NEEDED}: {mutable_set_text(without)}")


def _is_static(name: str) -> bool:
    definition = definition_of(name)
    return (
        definition is not None
        and not is_dynamic(definition)
        and not name.startswith(LISTENER_PREFIX)
    )


def usable_for_alteration(
    config: KafkaConfig, stored: Mapping[str, str], *, per_broker: bool
) -> dict[str, str]:
    """The stored values without unacceptable ones, which must not block alterations of others."""
    return {
        name: text
        for name, text in stored.items()
        if _is_foreign(name) or _problem(config, _Entry(name, text, per_broker)) is None
    }


def _is_foreign(name: str) -> bool:
    """Kafka can change it while it runs."""
    return name in _LISTENERS or ineffective.protection_of(name) is not None


def _problem(config: KafkaConfig, entry: _Entry) -> str | None:
    """Why a single config cannot be set; None if it can. Kafka keeps unknown keys."""
    name = entry.name
    definition = definition_of(name)
    if definition is None:
        if name.startswith(LISTENER_PREFIX):
            return f"Cannot update the config {shortened(name)}: it is not known"
        return None
    if _is_static(name):
        return "it cannot be changed while a broker runs"
    if name in _ONLY_WITH_PREFIX:
        return _PREFIX_NEEDED
    if name in _LISTENERS:
        return (
            f"{shortened(name)} cannot be changed while a broker runs: set it in server.properties"
        )
    missing = ineffective.protection_of(name)
    if missing is not None:
        return f"{shortened(name)} has no effect here: {missing}"
    if not entry.per_broker and _is_of_one_broker(name, definition):
        return (
            "Cannot update these configs at default cluster level, broker id must be specified: "
            f"{shortened(name)}"
        )
    try:
        value = definition.parse(entry.text)
    except KafkaError as error:
        return error.message
    if definition.name in _CONNECTION_LIMITS and value <= 0:
        return f"Invalid {shortened(name)} {value}"
    if definition.name == "ssl.engine.factory.class":
        return f"{shortened(name)}: it names a Java class; use the ssl.* keys instead"
    if name == "metric.reporters" and not _REPORTER_CLASSES.issuperset(value):
        return f"{name}={shortened(entry.text)}: there is no such class"
    return None


def _is_of_one_broker(name: str, definition: ConfigDef) -> bool:
    if name.startswith(LISTENER_PREFIX):
        return definition.name not in _OF_ALL_LISTENERS
    return definition.dynamic_mode is DynamicMode.PER_BROKER


def _check_steps(before: KafkaConfig, after: KafkaConfig) -> None:
    """Check the changes whose limits depend on the present values of a running broker."""
    for name in _THREAD_COUNTS:
        _check_thread_count(name, before.get_int(name), after.get_int(name))
    key = "num.network.threads"
    for listener in before.listeners:
        old, new = (int(config.of_listener(listener.name, key)) for config in (before, after))
        _check_thread_count(key, old, new)
    if before.explicit() != after.explicit():
        _check_local_retention(after)


def _check_thread_count(name: str, old: int, new: int) -> None:
    if new == old:
        return
    problem = f"Dynamic thread count update validation failed for {name}={new}"
    if new <= 0:
        raise _invalid(f"{problem}, value should be at least 1")
    if new < old // 2:
        raise _invalid(f"{problem}, value should be at least half the current value {old}")
    if new > old * 2:
        raise _invalid(
            f"{problem}, value should not be greater than double the current value {old}"
        )


def _check_local_retention(config: KafkaConfig) -> None:
    for local, of_all, limit in (
        ("log.local.retention.ms", "log.retention.ms", config.retention_ms),
        ("log.local.retention.bytes", "log.retention.bytes", config.get_int("log.retention.bytes")),
    ):
        value = config.get_int(local)
        if limit > -1 and value != -2 and not -1 < value <= limit:
            raise _invalid(f"{local}={value} must be from 0 to {of_all}={limit}, or -2")


def _invalid(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, text)


# Taking over


def take_over(
    config: KafkaConfig,
    *,
    default: Mapping[str, str] | None = None,
    broker: Mapping[str, str] | None = None,
) -> set[str]:
    """Apply the dynamic configs of ZooKeeper as far as they are valid; None leaves them unchanged.

    Returns the keys whose value changed.
    """
    wanted = [
        *_entries(config.dynamic_default if default is None else default, per_broker=False),
        *_entries(config.dynamic_broker if broker is None else broker, per_broker=True),
    ]
    left_out: dict[str, str] = {}
    entries = []
    for entry in wanted:
        problem = _problem(config, entry)
        if problem is None:
            entries.append(entry)
        else:
            left_out[entry.name] = problem
    taken, refused = _those_that_fit(config, entries)
    left_out.update(refused)
    if left_out:
        logger.error("Dynamic configs that cannot be used are left out: %s", _told(left_out))
    return config.update_dynamic(
        default={entry.name: entry.text for entry in taken if not entry.per_broker},
        broker={entry.name: entry.text for entry in taken if entry.per_broker},
    )


def _entries(values: Mapping[str, str], *, per_broker: bool) -> list[_Entry]:
    return [_Entry(name, text, per_broker) for name, text in sorted(values.items())]


def _those_that_fit(
    config: KafkaConfig, entries: list[_Entry]
) -> tuple[list[_Entry], dict[str, str]]:
    """The entries that the broker can run with, and the complaints about the others by name.

    If the entries fail together, each is tried after the other, and failed ones once more, since
    later entries may have made them possible.
    """
    own = tuple(f"{LISTENER_PREFIX}{listener.name.lower()}." for listener in config.listeners)

    def matters(entry: _Entry) -> bool:
        """Whether others depend on it: not on unknown keys, nor on keys of other listeners."""
        if entry.name.startswith(LISTENER_PREFIX):
            return entry.name.startswith(own)
        return definition_of(entry.name) is not None

    checked = [entry for entry in entries if matters(entry)]
    others = [entry for entry in entries if not matters(entry)]
    if _complaint(config, checked) is None:
        return entries, {}
    taken: list[_Entry] = []
    waiting = checked
    complaints: dict[str, str] = {}
    for _ in range(2):
        still_waiting = []
        for entry in waiting:
            complaint = _complaint(config, [*taken, entry])
            if complaint is None:
                taken.append(entry)
            else:
                complaints[entry.name] = complaint
                still_waiting.append(entry)
        waiting = still_waiting
    return [*taken, *others], {entry.name: complaints[entry.name] for entry in waiting}


def _complaint(config: KafkaConfig, entries: list[_Entry]) -> str | None:
    together = config.with_dynamic(
        default={entry.name: entry.text for entry in entries if not entry.per_broker},
        broker={entry.name: entry.text for entry in entries if entry.per_broker},
    )
    try:
        check_changeable(together)
    except ConfigError as error:
        return str(error)
    return None


def _told(left_out: Mapping[str, str]) -> str:
    """Names and reasons, but no values: one may be a password."""
    told = [f"{shortened(name)} ({_reason(name, why)})" for name, why in left_out.items()]
    more = f" and {len(told) - MAX_TOLD_KEYS} more" if len(told) > MAX_TOLD_KEYS else ""
    return ", ".join(told[:MAX_TOLD_KEYS]) + more


def _reason(name: str, why: str) -> str:
    definition = base_key(name)
    return "a password" if definition is not None and definition.sensitive else why
