"""The configuration of share groups: the broker's `group.share.*`, and that of single groups.

Mirrors ShareGroupConfig and GroupConfig; defaults are those of Kafka 4.3, but for the most members,
which is a key of 3.9 already.
"""

from collections.abc import Mapping
from typing import Any

from ..consumer.config import ConsumerGroupConfig


class ShareGroupConfig(ConsumerGroupConfig):
    """The same values; the one assignor is known."""

    __slots__ = ()

    def of_group(self, values: Mapping[str, Any]) -> "ShareGroupConfig":
        own = {field: values[key] for key, field in _FIELDS.items() if key in values}
        return self._replace(**own) if own else self


# By the key of a group's config.
_FIELDS = {
    "share.session.timeout.ms": "session_timeout_ms",
    "share.heartbeat.interval.ms": "heartbeat_interval_ms",
    "share.assignment.interval.ms": "assignment_interval_ms",
}
