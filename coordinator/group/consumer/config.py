"""The configuration of consumer groups: the broker's `group.consumer.*`, and that of single groups.

Mirrors GroupCoordinatorConfig and GroupConfig; defaults are those of Kafka 4.3.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple

from . import range_assignor, uniform_assignor


class MigrationPolicy(Enum):
    """Which groups with members may change their protocol; the value is that of the broker's key
    `group.consumer.migration.policy`."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"


class ConsumerGroupConfig(NamedTuple):
    """The broker's keys group.consumer.*."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    max_size: int = 2**31 - 1
    # The first one is the default.
    assignors: tuple[str, ...] = (uniform_assignor.NAME, range_assignor.NAME)
    # The least time between two targets of a group.
    assignment_interval_ms: int = 1_000
    regex_refresh_interval_ms: int = 600_000
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL

    def of_group(self, values: Mapping[str, Any]) -> "ConsumerGroupConfig":
        """That of a group which sets these keys itself."""
        own = {field: values[key] for key, field in _FIELDS.items() if key in values}
        return self._replace(**own) if own else self


# By the key of a group's config.
_FIELDS = {
    "consumer.session.timeout.ms": "session_timeout_ms",
    "consumer.heartbeat.interval.ms": "heartbeat_interval_ms",
    "consumer.assignment.interval.ms": "assignment_interval_ms",
}
