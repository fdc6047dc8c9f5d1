"""The choice of the replica that a consumer reads from (KIP-392).

Job: for a consumer's fetch at the leader, name a better replica, or None for the leader itself.
Candidates are the leader and the in-sync followers that hold the fetch offset and have an endpoint
on the client's listener; a read replica may be a moment behind, but always holds the requested
offset.

Mirrors ReplicaSelector and RackAwareReplicaSelector of Kafka.
"""

from typing import Protocol

from .metadata_cache import MetadataCache
from .partition import Partition
from .types import ClientMetadata, FetchEntry


class ReplicaSelector(Protocol):
    def select(
        self, partition: Partition, entry: FetchEntry, client: ClientMetadata, now_ms: int
    ) -> int | None: ...


class RackAwareReplicaSelector:
    """A replica in the client's rack: the leader if it is there, else the most caught-up one."""

    __slots__ = ("_metadata",)

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata

    def select(
        self, partition: Partition, entry: FetchEntry, client: ClientMetadata, now_ms: int
    ) -> int | None:
        if not client.rack_id or not partition.is_leader:
            return None
        if self._rack_of(partition.broker_id) == client.rack_id:
            return None
        best: tuple[int, int, int] | None = None
        for broker_id, replica in partition.remotes.items():
            if (
                broker_id in partition.isr.committed
                and replica.log_start_offset <= entry.fetch_offset <= replica.log_end_offset
                and self._rack_of(broker_id) == client.rack_id
                and self._metadata.broker_endpoint(broker_id, client.listener) is not None
            ):
                lag_ms = now_ms - replica.last_caught_up_ms
                rank = (replica.log_end_offset, -lag_ms, broker_id)
                if best is None or rank > best:
                    best = rank
        return None if best is None else best[2]

    def _rack_of(self, broker_id: int) -> str | None:
        broker = self._metadata.broker(broker_id)
        return None if broker is None else broker.rack
