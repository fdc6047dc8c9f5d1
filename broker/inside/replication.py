"""One partition as this broker has it: as its leader with the state of its followers, or as a
follower.

Mirrors: Partition and Replica of Kafka, seen from outside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...replication.partition import Partition


def replica(partition: Partition, now_ms: int) -> dict[str, Any]:
    """``behind_ms``: the time since a follower had all records."""
    log = partition.log
    leads = partition.is_leader
    return {
        "is_leader": leads,
        "leader_epoch": partition.leader_epoch,
        "log_start_offset": log.log_start_offset,
        "log_end_offset": log.log_end_offset,
        "high_watermark": log.high_watermark,
        "isr": sorted(partition.isr.committed) if leads else [],
        "isr_in_flight": sorted(partition.isr.maximal) if leads else [],
        "followers": [
            {
                "broker": broker_id,
                "log_end_offset": remote.log_end_offset,
                "behind_ms": max(now_ms - remote.last_caught_up_ms, 0),
                "fetched_ms": max(now_ms - remote.last_fetch_ms, 0),
            }
            for broker_id, remote in sorted(partition.remotes.items())
            if remote.last_fetch_ms
        ],
    }
