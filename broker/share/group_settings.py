"""The settings of share groups: the broker's keys, and the groups' own configs.

Job: what a leader needs to know of a group, found once and kept until a config of the group
changes.

Mirrors the share part of GroupConfig, and ShareGroupConfigProvider, of Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from ...protocol.durations import duration_ms
from ...replication.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from ...replication.share.limits import ShareLimits
from ...replication.types import Isolation
from ..config.group_configs import BY_DURATION, GroupConfigs

_READ_COMMITTED: Final = "read_committed"
_FIXED: Final = {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP}
# Groups whose settings are kept; clients choose their names.
MAX_KEPT: Final = 10_000


class ShareSettings(NamedTuple):
    limits: ShareLimits
    # share.auto.offset.reset: EARLIEST_TIMESTAMP or LATEST_TIMESTAMP; else so many ms before now.
    reset: int
    is_reset_by_duration: bool
    # share.isolation.level
    isolation: Isolation

    def reset_timestamp(self, now_ms: int) -> int:
        """For the look-up of the first offset, by the wall clock."""
        return max(now_ms - self.reset, 0) if self.is_reset_by_duration else self.reset


class GroupSettings:
    __slots__ = ("_configs", "_kept")

    def __init__(self, configs: GroupConfigs) -> None:
        self._configs = configs
        self._kept: dict[str, ShareSettings] = {}
        configs.on_change.append(self._changed)

    def of(self, group_id: str) -> ShareSettings:
        settings = self._kept.get(group_id)
        if settings is None:
            if len(self._kept) >= MAX_KEPT:
                self._kept.clear()
            settings = self._kept[group_id] = self._read(group_id)
        return settings

    def _changed(self, group_id: str, values: Mapping[str, Any]) -> None:
        self._kept.pop(group_id, None)

    def _read(self, group_id: str) -> ShareSettings:
        def value(name: str) -> Any:
            return self._configs.value(group_id, f"share.{name}")

        reset: str = value("auto.offset.reset")
        duration = None
        if reset.startswith(BY_DURATION):
            duration = duration_ms(reset[len(BY_DURATION) :])
        is_committed = value("isolation.level") == _READ_COMMITTED
        return ShareSettings(
            ShareLimits(
                value("record.lock.duration.ms"),
                value("delivery.count.limit"),
                value("partition.max.record.locks"),
                value("renew.acknowledge.enable"),
            ),
            _FIXED[reset] if duration is None else duration,
            duration is not None,
            Isolation.READ_COMMITTED if is_committed else Isolation.READ_UNCOMMITTED,
        )
