"""The configuration of streams groups: the broker's `group.streams.*`, and that of single groups.

Mirrors GroupCoordinatorConfig and GroupConfig; defaults are those of Kafka 4.3.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple


class StreamsGroupConfig(NamedTuple):
    """The broker's keys group.streams.*."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    max_size: int = 2**31 - 1
    num_standby_replicas: int = 0
    # How long the first target of an empty group waits for more members.
    initial_rebalance_delay_ms: int = 3_000
    # The least time between two targets of a group.
    assignment_interval_ms: int = 1_000

    def of_group(self, values: Mapping[str, Any]) -> "StreamsGroupConfig":
        """That of a group which sets these keys itself."""
        own = {field: values[key] for key, field in _FIELDS.items() if key in values}
        return self._replace(**own) if own else self


# By the key of a group's config.
_FIELDS = {
    "streams.session.timeout.ms": "session_timeout_ms",
    "streams.heartbeat.interval.ms": "heartbeat_interval_ms",
    "streams.num.standby.replicas": "num_standby_replicas",
    "streams.initial.rebalance.delay.ms": "initial_rebalance_delay_ms",
    "streams.assignment.interval.ms": "assignment_interval_ms",
}
