"""The counts and the progress of a flow, for tables and metrics; pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...protocol.topics import TopicPartition

NEVER_MS = -1


@dataclass(slots=True)
class PartitionStats:
    """Counts of a partition, under its name at the target, since the start of the process."""

    records: int = 0
    bytes: int = 0
    age_ms: int = 0  # of the last record, between its timestamp and its arrival


@dataclass(slots=True)
class FlowStats:
    """Counts since the start of the process; `lag` is in records, as of the last fetches."""

    source: str  # aliases
    target: str
    copies: bool = True
    state: str = "starting"
    records: int = 0
    bytes: int = 0
    passed_batches: int = 0  # copied without unpacking
    batches: int = 0
    topics: int = 0
    partition_count: int = 0
    lag: int = 0
    offset_syncs: int = 0
    checkpoints: int = 0
    heartbeats: int = 0
    transactions: int = 0
    restarts: int = 0
    trouble: str = ""  # the last one
    checkpoint_ms: int = NEVER_MS  # duration of the last round of checkpoints
    partitions: dict[TopicPartition, PartitionStats] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.source}->{self.target}"

    def add(self, partition: TopicPartition, records: int, size: int, age_ms: int) -> None:
        """Count records that are written and acknowledged."""
        of_partition = self.partitions.get(partition)
        if of_partition is None:
            of_partition = self.partitions[partition] = PartitionStats()
        of_partition.records += records
        of_partition.bytes += size
        of_partition.age_ms = age_ms
        self.records += records
        self.bytes += size
        self.batches += 1
