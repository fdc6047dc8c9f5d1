"""The settings of a producer, with their defaults and limits.

Names and defaults of Java's producer, except for batches of 64 KiB instead of 16: a request costs
more here, a byte does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from ...protocol.records.compression import Compression
from ..errors import SettingsError

ALL_IN_SYNC = -1
MAX_IDEMPOTENT_IN_FLIGHT = 5  # the number of batches of a producer that brokers remember


class Options(TypedDict, total=False):
    """The settings that are passed to a producer unchanged; see `Producer`."""

    compression_level: int | None
    linger_ms: int
    batch_size: int
    buffer_memory: int
    max_request_size: int
    max_block_ms: int
    request_timeout_ms: int
    delivery_timeout_ms: int
    max_in_flight: int
    idempotence: bool | None
    transactional_id: str | None
    transaction_timeout_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """Times in ms, sizes in bytes. Raises SettingsError if they contradict each other."""

    acks: int = ALL_IN_SYNC
    compression: Compression = Compression.NONE
    compression_level: int | None = None
    linger_ms: int = 5
    batch_size: int = 64 * 1024
    buffer_memory: int = 32 * 1024 * 1024
    max_request_size: int = 1024 * 1024
    max_block_ms: int = 60_000
    request_timeout_ms: int = 30_000
    delivery_timeout_ms: int = 120_000
    max_in_flight: int = MAX_IDEMPOTENT_IN_FLIGHT
    idempotence: bool | None = None  # None: if the brokers support it, from 0.11 on
    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000

    def __post_init__(self) -> None:
        if self.acks not in (ALL_IN_SYNC, 0, 1):
            raise SettingsError(f"acks={self.acks} is neither 'all' nor 0 or 1")
        if self.wants_idempotence and self.acks != ALL_IN_SYNC:
            raise SettingsError(f"acks={self.acks} needs idempotence=False")
        if self.wants_idempotence and not 1 <= self.max_in_flight <= MAX_IDEMPOTENT_IN_FLIGHT:
            raise SettingsError(
                f"max_in_flight={self.max_in_flight} is not 1 to {MAX_IDEMPOTENT_IN_FLIGHT}, "
                "as idempotence needs it"
            )
        if self.transactional_id is not None and not self.wants_idempotence:
            raise SettingsError("transactional_id needs idempotence")
        for name in ("batch_size", "linger_ms", "max_block_ms"):
            if getattr(self, name) < 0:
                raise SettingsError(f"{name} is less than 0")
        for name in ("buffer_memory", "max_request_size", "request_timeout_ms", "max_in_flight"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} is less than 1")
        if self.delivery_timeout_ms < self.linger_ms:
            raise SettingsError("delivery_timeout_ms is less than linger_ms")

    @property
    def wants_idempotence(self) -> bool:
        return self.idempotence is not False


def acks_of(acks: str | int) -> int:
    """`acks` as on the wire. Raises SettingsError."""
    if acks in ("all", "-1"):
        return ALL_IN_SYNC
    if isinstance(acks, str) and not acks.isdigit():
        raise SettingsError(f"acks={acks} is neither 'all' nor 0 or 1")
    return int(acks)


def compression_of(compression: str | Compression) -> Compression:
    """A codec by its name, or itself. Raises SettingsError."""
    if isinstance(compression, Compression):
        return compression
    try:
        return Compression[compression.upper()]
    except KeyError:
        codecs = ", ".join(codec.name.lower() for codec in Compression)
        raise SettingsError(f"compression={compression} is none of {codecs}") from None
