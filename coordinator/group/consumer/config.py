"""The configuration of consumer groups: the broker's `group.consumer.*`, and that of single groups.

Mirrors GroupCoordinatorConfig and GroupConfig; defaults are those of Kafka 4.3.
"""

from typing import NamedTuple

from . import range_assignor, uniform_assignor


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
