"""A consumer's options, checked: names and defaults are those of Kafka's consumer configs.

Times are in seconds, and their names say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ..errors import SettingsError

EARLIEST: Final = -2
LATEST: Final = -1
NEWEST: Final = -3  # the record with the largest timestamp (KIP-734)

RESETS: Final = ("earliest", "latest", "none")
ISOLATIONS: Final = ("read_uncommitted", "read_committed")

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"  # KIP-848
PROTOCOLS: Final = (CLASSIC, CONSUMER)
# The classic protocol has these options; by the consumer protocol the coordinator decides.
_CLASSIC_OPTIONS: Final = ("assignors", "session_timeout_seconds", "heartbeat_interval_seconds")


@dataclass(frozen=True, kw_only=True)
class ConsumerOptions:
    """See `pybroker_kafka.Consumer`. Raises SettingsError for invalid values."""

    group_id: str | None = None
    group_protocol: str | None = None  # classic or consumer; None: see `consumer.group`
    group_remote_assignor: str | None = None  # of the coordinator, by the consumer protocol
    group_instance_id: str | None = None  # a static member (KIP-345)
    rack: str | None = None  # fetch from a replica in this rack (KIP-392)
    auto_offset_reset: str = "latest"  # or earliest; or none: an error
    auto_commit: bool = True
    auto_commit_interval_seconds: float = 5.0
    isolation_level: str = "read_uncommitted"
    assignors: Sequence[str] = ("range", "cooperative-sticky")
    session_timeout_seconds: float = 45.0
    heartbeat_interval_seconds: float = 3.0
    max_poll_interval_seconds: float = 300.0
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 50 * 1024 * 1024
    fetch_max_wait_seconds: float = 0.5
    max_partition_fetch_bytes: int = 1024 * 1024
    max_poll_records: int = 500
    metadata_max_age_seconds: float = 300.0
    allow_auto_create_topics: bool = True
    check_crcs: bool = True
    close_timeout_seconds: float = 10.0

    def __post_init__(self) -> None:
        if self.auto_offset_reset not in RESETS:
            raise SettingsError(f"auto_offset_reset is one of {', '.join(RESETS)}")
        if self.isolation_level not in ISOLATIONS:
            raise SettingsError(f"isolation_level is one of {', '.join(ISOLATIONS)}")
        if self.group_id == "":
            raise SettingsError("group_id is a name, or None for a consumer without a group")
        if self.group_instance_id is not None and self.group_id is None:
            raise SettingsError("group_instance_id needs a group_id")
        if not 0 < self.heartbeat_interval_seconds < self.session_timeout_seconds:
            raise SettingsError("heartbeat_interval_seconds is less than session_timeout_seconds")
        self._check_protocol()
        for name in ("fetch_max_bytes", "max_partition_fetch_bytes", "max_poll_records"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} is at least 1")

    def _check_protocol(self) -> None:
        if self.group_protocol not in (None, *PROTOCOLS):
            raise SettingsError(f"group_protocol is one of {', '.join(PROTOCOLS)}")
        changed = self._changed_classic_options
        if self.group_protocol == CONSUMER and changed:
            raise SettingsError(f"{changed[0]} is of group_protocol='classic' only")
        if self.group_remote_assignor is not None and self.group_protocol != CONSUMER:
            raise SettingsError("group_remote_assignor needs group_protocol='consumer'")

    @property
    def _changed_classic_options(self) -> list[str]:
        defaults = type(self).__dataclass_fields__
        return [name for name in _CLASSIC_OPTIONS if getattr(self, name) != defaults[name].default]

    @property
    def has_classic_options(self) -> bool:
        """Whether an option that only the classic protocol has differs from its default."""
        return bool(self._changed_classic_options)

    @property
    def reads_committed(self) -> bool:
        return self.isolation_level == "read_committed"

    @property
    def reset_to(self) -> int | None:
        """A timestamp for ListOffsets; None: a missing position is an error."""
        return {"earliest": EARLIEST, "latest": LATEST, "none": None}[self.auto_offset_reset]
