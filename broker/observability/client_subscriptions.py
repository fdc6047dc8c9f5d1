"""Which metrics clients push to this broker, and when (KIP-714).

Job: the subscriptions of administrators (`client-metrics` configs: names, interval, clients) and
`ClientInstances`, the clients that have asked for theirs. A client's subscription id changes with
its metrics and its interval, so that it asks again; it is the same at each broker.

Invariants: a client waits for its push interval between two requests, except that a push follows
its question at once, that a push is its last one, and that a question follows an unknown
subscription; a client that ends pushes nothing more. At most MAX_INSTANCES are known, those longest
without a request are forgotten first, and each EXPIRY_MS, or three intervals, after its last one.

Mirrors ClientMetricsConfigs, ClientMetricsManager and ClientMetricsInstance of Kafka 4.3.
Different: the metrics of a subscription id are in their order, where Kafka has that of a hash set;
patterns are RE2's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from crc32c import crc32c

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.uuids import ZERO_UUID, uuid_to_text
from ...storage.config_def import ConfigDef, ConfigType, InvalidConfig

METRICS: Final = "metrics"
INTERVAL_MS: Final = "interval.ms"
MATCH: Final = "match"
ALL_METRICS: Final = "*"

DEFAULT_INTERVAL_MS: Final = 5 * 60 * 1000
_MIN_INTERVAL_MS: Final = 100
_MAX_INTERVAL_MS: Final = 60 * 60 * 1000

DEFINITIONS: Final[Mapping[str, ConfigDef]] = MappingProxyType(
    {
        definition.name: definition
        for definition in (
            ConfigDef(METRICS, ConfigType.LIST, "", "Prefixes of the names of metrics; * is all."),
            ConfigDef(
                INTERVAL_MS,
                ConfigType.INT,
                str(DEFAULT_INTERVAL_MS),
                "The time between two pushes of a client, in milliseconds.",
            ),
            ConfigDef(
                MATCH,
                ConfigType.LIST,
                "",
                "Clients, as name=pattern: client_id, client_instance_id, client_software_name, "
                "client_software_version, client_source_address, client_source_port.",
            ),
        )
    }
)

MAX_INSTANCES: Final = 16_384
EXPIRY_MS: Final = 60_000
# zstd, lz4, gzip, snappy: the ones to use first.
ACCEPTED_COMPRESSION: Final = (4, 3, 1, 2)
_MOST_COMPRESSION: Final = 4
_RESERVED_IDS: Final = (ZERO_UUID, bytes(15) + b"\x01")
_NEVER: Final = -(1 << 62)
# After these errors of a push the client asks again at once.
_ASKS_AGAIN: Final = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


class ClientFacts(NamedTuple):
    """A client, as its requests and its connection describe it; the names are those of patterns."""

    client_id: str | None
    client_software_name: str
    client_software_version: str
    client_source_address: str
    client_source_port: str


_ATTRIBUTES: Final = ("client_instance_id", *ClientFacts._fields)


class Subscription(NamedTuple):
    metrics: tuple[str, ...]
    interval_ms: int
    patterns: Mapping[str, Any]  # by attribute


def subscription_of(name: str, config: Mapping[str, str]) -> Subscription:
    """The subscription of a config; KafkaError if it is none."""
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    for key in config:
        if key not in DEFINITIONS:
            text = f"Unknown client metrics configuration: {key}"
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
    values = {
        key: definition.parse(config.get(key, definition.default))
        for key, definition in DEFINITIONS.items()
    }
    for key in (METRICS, MATCH):
        if len(set(values[key])) < len(values[key]):
            raise InvalidConfig(f"Configuration '{key}' values must not be duplicated.")
    interval_ms: int = values[INTERVAL_MS]
    if not _MIN_INTERVAL_MS <= interval_ms <= _MAX_INTERVAL_MS:
        text = (
            f"Invalid value {interval_ms} for {INTERVAL_MS}, "
            f"interval must be between {_MIN_INTERVAL_MS} and {_MAX_INTERVAL_MS} (1 hour)"
        )
        raise KafkaError(ErrorCode.INVALID_REQUEST, text)
    return Subscription(tuple(values[METRICS]), interval_ms, _patterns(values[MATCH]))


def _patterns(texts: Iterable[str]) -> dict[str, Any]:
    from ...protocol.regular_expressions import RegularExpression

    patterns = {}
    for text in texts:
        parts = text.split("=")
        problem = InvalidConfig(f"Illegal client matching pattern: {text}")
        if len(parts) != 2 or parts[0].strip() not in _ATTRIBUTES:
            raise problem
        try:
            patterns[parts[0].strip()] = RegularExpression(parts[1].strip())
        except KafkaError:
            raise problem from None
    return patterns


class Assigned(NamedTuple):
    """The subscription of one client."""

    instance_id: bytes
    subscription_id: int
    interval_ms: int
    metrics: tuple[str, ...]


class _Instance:
    __slots__ = (
        "asked_ms",
        "assigned",
        "connection",
        "expires_ms",
        "facts",
        "is_terminating",
        "last_error",
        "pushed_ms",
        "throttles",
        "version",
    )  # fmt: skip

    def __init__(self, facts: ClientFacts, assigned: Assigned, version: int) -> None:
        self.facts = facts
        self.assigned = assigned
        self.version = version  # of the subscriptions when it was assigned
        self.connection = -1
        self.asked_ms = _NEVER
        self.pushed_ms = _NEVER
        self.expires_ms = 0
        self.is_terminating = False
        self.last_error = ErrorCode.NONE
        self.throttles = 0

    def may_ask(self, now_ms: int) -> bool:
        if now_ms - max(self.asked_ms, self.pushed_ms) < self.assigned.interval_ms:
            return False
        self.asked_ms = now_ms
        return True

    def may_push(self, now_ms: int) -> bool:
        if self.asked_ms <= self.pushed_ms and now_ms - self.pushed_ms < self.assigned.interval_ms:
            return False
        self.pushed_ms = now_ms
        return True


class ClientInstances:
    """The subscriptions, and the clients that have one."""

    def __init__(
        self,
        max_bytes: int,
        new_id: Callable[[], bytes],
        forgotten: Callable[[bytes], None] = lambda _: None,
    ) -> None:
        """`max_bytes` of a push; `forgotten` is called with the id of each client that is not
        known any more."""
        self.max_bytes = max_bytes
        self._new_id = new_id
        self._forgotten = forgotten
        self._subscriptions: dict[str, Subscription] = {}
        self._version = 0
        self._instances: dict[bytes, _Instance] = {}  # the longest without a request first
        self.unknown_subscriptions = 0

    # Subscriptions

    def changed(self, name: str, config: Mapping[str, str]) -> None:
        """The config of a subscription; an empty one removes it. KafkaError if it is none."""
        if config:
            self._subscriptions[name] = subscription_of(name, config)
        elif self._subscriptions.pop(name, None) is None:
            return
        self._version += 1

    def names(self) -> list[str]:
        return list(self._subscriptions)

    # Requests of clients

    def ask(
        self, instance_id: bytes, facts: ClientFacts, connection: int, now_ms: int
    ) -> Assigned | ErrorCode:
        """GetTelemetrySubscriptions; an id of zero asks for a new one."""
        if instance_id == ZERO_UUID:
            instance_id = self._new_id()
        instance = self._instance(instance_id, facts, connection, now_ms)
        if not instance.may_ask(now_ms) and instance.last_error not in _ASKS_AGAIN:
            instance.throttles += 1
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        instance.last_error = ErrorCode.NONE
        return instance.assigned

    def push(
        self,
        instance_id: bytes,
        facts: ClientFacts,
        connection: int,
        now_ms: int,
        *,
        subscription_id: int,
        compression: int,
        size: int,
        is_last: bool,
    ) -> ErrorCode:
        """PushTelemetry, before its metrics are read: whether it may come now. `ended` follows."""
        if instance_id in _RESERVED_IDS:
            return ErrorCode.INVALID_REQUEST
        instance = self._instance(instance_id, facts, connection, now_ms)
        code = ErrorCode.NONE
        if instance.is_terminating:
            code = ErrorCode.INVALID_REQUEST
        elif not instance.may_push(now_ms) and not is_last:
            instance.throttles += 1
            code = ErrorCode.THROTTLING_QUOTA_EXCEEDED
        elif subscription_id != instance.assigned.subscription_id:
            self.unknown_subscriptions += 1
            code = ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        elif not 0 <= compression <= _MOST_COMPRESSION:
            code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        elif size > self.max_bytes:
            code = ErrorCode.TELEMETRY_TOO_LARGE
        instance.last_error = code
        instance.is_terminating = is_last
        return code

    def ended(self, instance_id: bytes, code: ErrorCode) -> None:
        """The outcome of reading the metrics of a push."""
        instance = self._instances.get(instance_id)
        if instance is not None:
            instance.last_error = code

    def disconnected(self, connection: int, instance_id: bytes) -> None:
        """A client is forgotten with the connection on which it has asked."""
        instance = self._instances.get(instance_id)
        if instance is not None and instance.connection == connection:
            self._forget(instance_id)

    def expire(self, now_ms: int) -> None:
        for instance_id in [
            one for one, instance in self._instances.items() if now_ms >= instance.expires_ms
        ]:
            self._forget(instance_id)

    def _instance(
        self, instance_id: bytes, facts: ClientFacts, connection: int, now_ms: int
    ) -> _Instance:
        instance = self._instances.pop(instance_id, None)
        if instance is not None and now_ms >= instance.expires_ms:
            self._forgotten(instance_id)
            instance = None
        if instance is None or instance.version < self._version:
            facts = facts if instance is None else instance.facts
            instance = _Instance(facts, self._assigned(instance_id, facts), self._version)
            instance.connection = connection
        self._instances[instance_id] = instance
        if len(self._instances) > MAX_INSTANCES:
            self._forget(next(iter(self._instances)))
        instance.expires_ms = now_ms + max(EXPIRY_MS, 3 * instance.assigned.interval_ms)
        return instance

    def _assigned(self, instance_id: bytes, facts: ClientFacts) -> Assigned:
        interval_ms = DEFAULT_INTERVAL_MS
        metrics: set[str] = set()
        attributes = {"client_instance_id": uuid_to_text(instance_id), **facts._asdict()}
        for subscription in self._subscriptions.values():
            if _matches(subscription.patterns, attributes):
                metrics.update(subscription.metrics)
                interval_ms = min(interval_ms, subscription.interval_ms)
        if ALL_METRICS in metrics:
            metrics = {ALL_METRICS}
        ordered = tuple(sorted(metrics))
        return Assigned(
            instance_id, subscription_id(ordered, interval_ms, instance_id), interval_ms, ordered
        )

    def _forget(self, instance_id: bytes) -> None:
        del self._instances[instance_id]
        self._forgotten(instance_id)

    # For metrics

    def __len__(self) -> int:
        return len(self._instances)

    def throttles(self) -> Iterable[tuple[bytes, int]]:
        return [(one, instance.throttles) for one, instance in self._instances.items()]


def _matches(patterns: Mapping[str, Any], attributes: Mapping[str, str | None]) -> bool:
    for name, pattern in patterns.items():
        text = attributes[name]
        if text is None or not pattern.matches(text):
            return False
    return True


def subscription_id(metrics: tuple[str, ...], interval_ms: int, instance_id: bytes) -> int:
    """The CRC-32C of metrics and interval, with the hash of the client's id."""
    text = f"[{', '.join(metrics)}]{interval_ms}"
    high, low = (int.from_bytes(instance_id[at : at + 8], "big") for at in (0, 8))
    mixed = high ^ low
    number = crc32c(text.encode()) ^ (mixed >> 32) ^ (mixed & 0xFFFF_FFFF)
    return number - (1 << 32) if number >= 1 << 31 else number
