"""The configuration of the share coordinator: the broker's `share.coordinator.*`.

Mirrors ShareCoordinatorConfig; defaults are those of Kafka 4.3.
"""

from typing import NamedTuple

from ...protocol.records.compression import Compression


class ShareCoordinatorConfig(NamedTuple):
    snapshot_update_records_per_snapshot: int = 500
    write_timeout_ms: int = 5_000
    compression: Compression = Compression.NONE
    prune_interval_ms: int = 300_000
    cold_partition_snapshot_interval_ms: int = 300_000
