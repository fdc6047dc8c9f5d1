"""Reads `mirror.properties`: the flows between clusters, and their settings; pure.

A value for one flow (`A->B.topics`) overrides one for all flows (`topics`), which overrides the
default. A value for a client (`A.consumer.isolation.level`) overrides one for its cluster
(`A.ssl.truststore.location`), which overrides one for all clusters (`ssl.truststore.location`).
`SettingsError` names the key and the problem; keys without effect are in `notes`.
Mirrors: MirrorMakerConfig.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ..errors import SettingsError
from .filters import NameFilter
from .keys import (
    ALIASES,
    CLIENT_PREFIXES,
    CONSUMER_KEYS,
    FLOW_DEFAULTS,
    NOT_NEEDED,
    NOT_NEEDED_PREFIXES,
    PRODUCER_KEYS,
    REFUSED,
    SECURITY_PREFIXES,
)
from .policies import IdentityPolicy, ReplicationPolicy

ARROW: Final = "->"
NEVER: Final = float("inf")
_POLICIES: Final = ("DefaultReplicationPolicy", "IdentityReplicationPolicy")
_LEVELS: Final = ("disabled", "preparing", "enabled")

Properties = Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class ClusterSettings:
    """The addresses of a cluster, and `login`: its security settings as producer, consumer or
    admin."""

    alias: str
    bootstrap: str
    login: Mapping[str, Properties]


@dataclass(frozen=True, kw_only=True)
class FlowSettings:
    """One flow. Intervals are in seconds, NEVER for a disabled function."""

    source: ClusterSettings
    target: ClusterSettings
    policy: ReplicationPolicy
    copies: bool = True  # False: heartbeats only
    topics: NameFilter
    groups: NameFilter
    configs: NameFilter  # the configs copied to the target
    uses_source_defaults: bool = False
    replication_factor: int = 2
    refresh_topics: float = 600.0
    refresh_groups: float = 600.0
    sync_configs: float = 600.0
    sync_acls: float = 600.0
    sync_groups: float = NEVER
    heartbeats: float = 1.0
    heartbeats_factor: int = 3
    checkpoints: float = 60.0
    checkpoints_factor: int = 3
    emits_syncs: bool = True
    syncs_at_source: bool = True
    syncs_factor: int = 3
    max_offset_lag: int = 100
    is_exactly_once: bool = False
    positions_topic: str = ""
    positions_partitions: int = 25
    positions_factor: int = 3
    flush_seconds: float = 5.0
    consumer: Mapping[str, str] = field(default_factory=lambda: dict(CONSUMER_KEYS))
    producer: Mapping[str, str] = field(default_factory=lambda: dict(PRODUCER_KEYS))

    @property
    def name(self) -> str:
        return f"{self.source.alias}{ARROW}{self.target.alias}"

    @property
    def transactional_id(self) -> str:
        """Another mirror of the same flow has the same id, and the newer one fences the older."""
        return f"{self.source.alias}-mm2-{self.target.alias}"

    @property
    def syncs_topic(self) -> str:
        """The topic of offset pairs; its name has the alias of the other cluster."""
        other = self.target if self.syncs_at_source else self.source
        return self.policy.offset_syncs_topic(other.alias)

    @property
    def reads_committed(self) -> bool:
        """As configured; by default False as in MirrorMaker 2, but True with exactly once."""
        told = self.consumer["isolation.level"]
        return told == "read_committed" if told else self.is_exactly_once

    def wants(self, topic: str) -> bool:
        """Whether a topic of the source is copied."""
        policy = self.policy
        return (
            (self.topics(topic) or policy.is_heartbeats(topic))
            and not policy.is_internal(topic)
            and not policy.is_cycle(topic, self.target.alias)
        )

    def remote(self, topic: str) -> str:
        """The topic's name at the target."""
        return self.policy.remote_topic(self.source.alias, topic)


@dataclass(frozen=True)
class MirrorSettings:
    """All flows, and one line for each key that has no effect."""

    flows: tuple[FlowSettings, ...]
    notes: tuple[str, ...] = ()


def read_settings(properties: Properties, *, targets: Sequence[str] = ()) -> MirrorSettings:
    """`targets`: only flows to these clusters. Raises SettingsError."""
    aliases = _listed(properties.get("clusters", ""))
    if not aliases:
        raise SettingsError("clusters: name the clusters, as in `clusters = A, B`")
    for target in targets:
        if target not in aliases:
            raise SettingsError(f"{target!r} is not one of the clusters {', '.join(aliases)}")
    notes = _Checked(properties, aliases).notes
    clusters = {alias: _cluster(properties, alias) for alias in aliases}
    flows = []
    for source in aliases:
        for target in aliases:
            if source == target or (targets and target not in targets):
                continue
            reader = _FlowReader(properties, source, target)
            is_enabled = reader.flag("enabled")
            if is_enabled or reader.flag("emit.heartbeats.enabled"):
                flows.append(reader.flow(clusters[source], clusters[target], copies=is_enabled))
    if not any(flow.copies for flow in flows):
        example = f"{aliases[0]}{ARROW}{aliases[-1]}.enabled = true"
        raise SettingsError(f"no flow is enabled: as in `{example}`")
    return MirrorSettings(tuple(flows), tuple(notes))


class _Checked:
    """Checks that every key is known; the error for an unknown one names the nearest known key."""

    def __init__(self, properties: Properties, aliases: Sequence[str]) -> None:
        self.notes: list[str] = []
        self._aliases = aliases
        for key, value in properties.items():
            if key != "clusters":
                self._check(key, value)

    def _check(self, key: str, value: str) -> None:
        flow, arrow, rest = key.partition(ARROW)
        if arrow:
            target = next((a for a in self._longest_first() if rest.startswith(f"{a}.")), None)
            if flow not in self._aliases or target is None:
                raise SettingsError(
                    f"{key}: that is no flow between the clusters {', '.join(self._aliases)}"
                )
            self._check_of_flow(key, rest[len(target) + 1 :], value)
            return
        for alias in self._longest_first():
            if key.startswith(f"{alias}."):
                self._check_of_cluster(key, key[len(alias) + 1 :], value)
                return
        if key.startswith(CLIENT_PREFIXES) and key not in NOT_NEEDED:
            raise SettingsError(
                f"{key}: say of which cluster, as in `{self._aliases[0]}.{key} = {value}`"
            )
        if not key.startswith(SECURITY_PREFIXES):
            self._check_of_flow(key, key, value)

    def _longest_first(self) -> list[str]:
        return sorted(self._aliases, key=len, reverse=True)

    def _check_of_flow(self, key: str, name: str, value: str) -> None:
        name = name.removeprefix("source.").removeprefix("target.")
        if name in REFUSED:
            if not value or value.rpartition(".")[2] != REFUSED[name]:
                raise SettingsError(f"{key}={value}: Java classes cannot be used here")
        elif name.startswith(CLIENT_PREFIXES) and name not in NOT_NEEDED:
            self._check_of_client(key, name)
        elif name in NOT_NEEDED or name.startswith(NOT_NEEDED_PREFIXES):
            self.notes.append(f"{key} has no effect here")
        elif name not in FLOW_DEFAULTS and name not in ALIASES:
            raise SettingsError(f"{key}: no such key{_nearest(name, FLOW_DEFAULTS)}")

    def _check_of_cluster(self, key: str, name: str, value: str) -> None:
        if name == "bootstrap.servers" or name.startswith(SECURITY_PREFIXES):
            return
        if name.startswith(CLIENT_PREFIXES) and name not in NOT_NEEDED:
            self._check_of_client(key, name)
        else:
            self._check_of_flow(key, name, value)

    def _check_of_client(self, key: str, name: str) -> None:
        kind, _, option = name.partition(".")
        known = {"consumer": CONSUMER_KEYS, "producer": PRODUCER_KEYS}.get(kind, {})
        if option not in known and not option.startswith(SECURITY_PREFIXES):
            self.notes.append(f"{key} has no effect here{_nearest(option, known)}")


def _nearest(name: str, known: Mapping[str, str]) -> str:
    close = difflib.get_close_matches(name, known, 1)
    return f"; is it {close[0]}?" if close else ""


def _cluster(properties: Properties, alias: str) -> ClusterSettings:
    bootstrap = properties.get(f"{alias}.bootstrap.servers", "").strip()
    if not bootstrap:
        raise SettingsError(f"{alias}.bootstrap.servers: say where cluster {alias} is")
    login = {}
    for kind in ("producer", "consumer", "admin"):
        found = {}
        for prefix in ("", f"{alias}.", f"{alias}.{kind}."):
            for key, value in properties.items():
                name = key.removeprefix(prefix)
                if key.startswith(prefix) and name.startswith(SECURITY_PREFIXES):
                    found[name] = value
        login[kind] = found
    return ClusterSettings(alias=alias, bootstrap=bootstrap, login=login)


class _FlowReader:
    """The values of one flow. Raises SettingsError."""

    def __init__(self, properties: Properties, source: str, target: str) -> None:
        self._properties = properties
        self._source, self._target = source, target
        self._prefix = f"{source}{ARROW}{target}."

    def text(self, name: str) -> str:
        """The value of a key of this flow. Connect's own keys may be set for the target cluster."""
        names = [name, *(old for old, new in ALIASES.items() if new == name)]
        for prefix in (self._prefix, f"{self._target}.", ""):
            for each in names:
                if (found := self._properties.get(prefix + each)) is not None:
                    return found.strip()
        return FLOW_DEFAULTS[name]

    def flag(self, name: str) -> bool:
        text = self.text(name).lower()
        if text not in ("true", "false"):
            raise SettingsError(f"{name}={text} is neither true nor false")
        return text == "true"

    def number(self, name: str, least: int = 0) -> int:
        text = self.text(name)
        try:
            found = int(text)
        except ValueError:
            raise SettingsError(f"{name}={text} is no number") from None
        if found < least:
            raise SettingsError(f"{name}={text} is less than {least}")
        return found

    def names(self, name: str) -> list[str]:
        return _listed(self.text(name))

    def seconds(self, name: str) -> float:
        """The interval; NEVER if the function is not enabled."""
        if not self.flag(f"{name}.enabled"):
            return NEVER
        return float(self.number(f"{name}.interval.seconds"))

    def one_of(self, name: str, known: Sequence[str]) -> str:
        text = self.text(name)
        if text not in known:
            raise SettingsError(f"{name}={text} is not one of {', '.join(known)}")
        return text

    def policy(self) -> ReplicationPolicy:
        name = self.text("replication.policy.class").rpartition(".")[2]
        if name not in _POLICIES:
            raise SettingsError(
                f"replication.policy.class={name}: known are {' and '.join(_POLICIES)}"
            )
        separator = self.text("replication.policy.separator")
        internal = self.flag("replication.policy.internal.topic.separator.enabled")
        if name == "IdentityReplicationPolicy":
            return IdentityPolicy(self._source, separator, internal_separator=internal)
        return ReplicationPolicy(separator, internal_separator=internal)

    def client(self, kind: str, alias: str, defaults: Properties) -> dict[str, str]:
        """Options of the source's consumer or of the target's producer."""
        side = "source" if alias == self._source else "target"
        found = dict(defaults)
        for prefix in (
            f"{alias}.{kind}.",
            f"{self._prefix}{kind}.",
            f"{self._prefix}{side}.{kind}.",
        ):
            for name in defaults:
                if (value := self._properties.get(prefix + name)) is not None:
                    found[name] = value.strip()
        return found

    def flow(
        self, source: ClusterSettings, target: ClusterSettings, *, copies: bool
    ) -> FlowSettings:
        emits_syncs = self.flag("emit.offset-syncs.enabled")
        has_groups = copies and emits_syncs
        is_at_source = self.one_of("offset-syncs.topic.location", ("source", "target")) == "source"
        return FlowSettings(
            source=source,
            target=target,
            policy=self.policy(),
            copies=copies,
            topics=NameFilter(self.names("topics"), self.names("topics.exclude")),
            groups=NameFilter(self.names("groups"), self.names("groups.exclude")),
            configs=NameFilter([".*"], self.names("config.properties.exclude")),
            uses_source_defaults=self.one_of("use.defaults.from", ("source", "target")) == "source",
            replication_factor=self.number("replication.factor", -1),
            refresh_topics=self.seconds("refresh.topics"),
            refresh_groups=self.seconds("refresh.groups"),
            sync_configs=self.seconds("sync.topic.configs"),
            sync_acls=self.seconds("sync.topic.acls"),
            sync_groups=self.seconds("sync.group.offsets") if has_groups else NEVER,
            heartbeats=self.seconds("emit.heartbeats"),
            heartbeats_factor=self.number("heartbeats.topic.replication.factor", -1),
            checkpoints=self.seconds("emit.checkpoints") if has_groups else NEVER,
            checkpoints_factor=self.number("checkpoints.topic.replication.factor", -1),
            emits_syncs=emits_syncs,
            syncs_at_source=is_at_source,
            syncs_factor=self.number("offset-syncs.topic.replication.factor", -1),
            max_offset_lag=self.number("offset.lag.max"),
            is_exactly_once=self.one_of("exactly.once.source.support", _LEVELS) == "enabled",
            positions_topic=self.text("offset.storage.topic")
            or f"mm2-offsets.{source.alias}.internal",
            positions_partitions=self.number("offset.storage.partitions", 1),
            positions_factor=self.number("offset.storage.replication.factor", -1),
            flush_seconds=self.number("offset.flush.interval.ms", 1) / 1000,
            consumer=self.client("consumer", source.alias, CONSUMER_KEYS),
            producer=self.client("producer", target.alias, PRODUCER_KEYS),
        )


def _listed(text: str) -> list[str]:
    return [part for part in (each.strip() for each in text.split(",")) if part]
