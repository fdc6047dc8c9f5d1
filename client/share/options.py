"""The settings of a share consumer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..errors import SettingsError

MODES: Final = ("implicit", "explicit")


@dataclass(frozen=True, kw_only=True)
class ShareOptions:
    """Names and defaults are those of Kafka's share consumer; times are in seconds."""

    group_id: str
    acknowledgement: str = "implicit"
    rack: str | None = None
    max_poll_records: int = 500
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 50 * 1024 * 1024
    fetch_max_wait_seconds: float = 0.5
    metadata_max_age_seconds: float = 300.0
    close_timeout_seconds: float = 10.0

    def __post_init__(self) -> None:
        if not self.group_id:
            raise SettingsError("a share consumer needs a group_id")
        if self.acknowledgement not in MODES:
            raise SettingsError(f"acknowledgement is one of {', '.join(MODES)}")
        if self.max_poll_records < 1:
            raise SettingsError("max_poll_records is at least 1")
