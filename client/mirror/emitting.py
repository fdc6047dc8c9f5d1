"""Writes a mirror's own records: heartbeats, and pairs of offsets.

Mirrors: MirrorHeartbeatTask; OffsetSyncWriter's producer.
"""

from __future__ import annotations

import time

from ..producer import Producer
from .formats import Heartbeat
from .offset_syncs import OffsetSyncs
from .policies import HEARTBEATS
from .settings import FlowSettings
from .stats import FlowStats


async def write_heartbeat(flow: FlowSettings, producer: Producer, stats: FlowStats) -> None:
    """Write one heartbeat. Raises ClientError."""
    now_ms = int(time.time() * 1000)
    beat = Heartbeat(flow.source.alias, flow.target.alias, now_ms)
    await producer.enqueue(
        HEARTBEATS, beat.value(), key=beat.key(), partition=0, timestamp_ms=now_ms
    )
    stats.heartbeats += 1


async def write_syncs(
    flow: FlowSettings, producer: Producer, syncs: OffsetSyncs, stats: FlowStats
) -> None:
    """Write the pairs that are due. Raises ClientError."""
    for sync in syncs.take_due():
        await producer.enqueue(flow.syncs_topic, sync.value(), key=sync.key(), partition=0)
        stats.offset_syncs += 1
