"""All 328 broker keys of 3.9, those of groups that came later and of the share coordinator, the
authorizer's, our own, and the three that exist only as dynamic configs, in one mapping.

Also which keys stand for one setting (`log.retention.hours`, `log.retention.ms`), and which keys
may be prefixed with `listener.name.<listener>.`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ...storage.config_def import ConfigDef, DynamicMode
from .tables import (
    authorizer,
    cleaner,
    extensions,
    groups,
    groups4,
    kraft,
    log,
    monitoring,
    network,
    quotas,
    replication,
    security,
    server,
    share_coordinator,
    tiered,
    tokens,
    transactions,
    zookeeper,
)

_TABLES = (
    zookeeper, server, network, replication, log, cleaner, groups, transactions, quotas,
    monitoring, security, tokens, tiered, kraft, groups4, share_coordinator, authorizer, extensions,
)  # fmt: skip

BROKER_CONFIGS: Mapping[str, ConfigDef] = MappingProxyType(
    {definition.name: definition for table in _TABLES for definition in table.DEFINITIONS}
)
DYNAMIC_ONLY_CONFIGS: Mapping[str, ConfigDef] = MappingProxyType(
    {definition.name: definition for definition in quotas.DYNAMIC_ONLY}
)

# Keys that stand for one setting: the first one that is set gives the value.
_SYNONYM_GROUPS = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
SYNONYMS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        # The scheduler's interval is the default of the flush interval, not the other way round.
        "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
        **{name: group for group in _SYNONYM_GROUPS for name in group},
    }
)

LISTENER_PREFIX = "listener.name."
# Further keys, beside all that begin with ssl. or sasl.
LISTENER_KEYS = frozenset(
    {
        "max.connections", "max.connection.creation.rate", "num.network.threads",
        "connections.max.reauth.ms", "principal.builder.class",
    }
)  # fmt: skip
# Keys that may name a mechanism after the listener, beside sasl.oauthbearer.*.
MECHANISM_KEYS = frozenset(
    {
        "sasl.jaas.config", "sasl.server.callback.handler.class",
        "sasl.login.callback.handler.class", "sasl.login.class", "connections.max.reauth.ms",
    }
)  # fmt: skip


def base_key(name: str) -> ConfigDef | None:
    """The definition in `BROKER_CONFIGS` of a key, also of one with a listener prefix."""
    found = BROKER_CONFIGS.get(name)
    if found is None and name.startswith(LISTENER_PREFIX):
        found = BROKER_CONFIGS.get(listener_key(name) or "")
    return found


def definition_of(name: str) -> ConfigDef | None:
    """The definition of a key, also of one with a listener prefix or only in ZooKeeper."""
    return base_key(name) or DYNAMIC_ONLY_CONFIGS.get(name)


def listener_key(name: str) -> str | None:
    """`ssl.keystore.location` of `listener.name.internal.ssl.keystore.location`."""
    listener, _, rest = name[len(LISTENER_PREFIX) :].partition(".")
    if not listener or not rest:
        return None
    if rest in BROKER_CONFIGS and (rest in LISTENER_KEYS or rest.startswith(("ssl.", "sasl."))):
        return rest
    # listener.name.<listener>.<mechanism>.<key>
    _, _, behind_mechanism = rest.partition(".")
    if behind_mechanism in MECHANISM_KEYS or (
        behind_mechanism.startswith("sasl.oauthbearer.") and behind_mechanism in BROKER_CONFIGS
    ):
        return behind_mechanism
    return None


def is_dynamic(definition: ConfigDef) -> bool:
    return definition.dynamic_mode is not DynamicMode.READ_ONLY
