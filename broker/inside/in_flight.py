"""The records in flight of a share group, of the share partitions that this broker leads (KIP-932).

A row a share partition, with its runs: records that have state, deliveries, member and the end of
their lock in common. `__share_group_state` has the states of a queue as well, but neither members
nor locks: those are in the memory of the leader alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any

from ...replication.share.in_flight import NO_LOCK

if TYPE_CHECKING:
    from ...replication.share.in_flight import Run
    from ..share.share_leader import Served

MOST_PARTITIONS = 200
MOST_RUNS = 100  # of a share partition


def records_in_flight(
    everything: Iterable[Served], group_id: str, now_ms: int
) -> list[dict[str, Any]]:
    """`now_ms`: of the clock that locks are timed by."""
    mine = (one for one in everything if one.key[0] == group_id)
    return [_row(one, now_ms) for one in islice(mine, MOST_PARTITIONS)]


def _row(served: Served, now_ms: int) -> dict[str, Any]:
    machine = served.machine
    runs = [run for batch in machine.batches for run in batch.runs]
    counts: dict[str, int] = {}
    for run in runs:
        counts[run.state.name.lower()] = counts.get(run.state.name.lower(), 0) + len(run)
    return {
        "topic": served.topic,
        "partition": served.key[2],
        "phase": machine.phase.value,
        "start": machine.start_offset,
        "end": machine.end_offset,
        "max_locks": machine.limits.max_record_locks,
        "max_deliveries": machine.limits.delivery_count_limit,
        "lock_timeouts": served.lock_timeouts,
        "counts": counts,
        "run_count": len(runs),
        "runs": [_run(run, now_ms) for run in runs[:MOST_RUNS]],
    }


def _run(run: Run, now_ms: int) -> dict[str, Any]:
    return {
        "first": run.first,
        "last": run.last,
        "state": run.state.name.lower(),
        "deliveries": run.delivery_count,
        "member": run.member_id,
        "lock_ms": None if run.lock_ends_ms == NO_LOCK else max(0, run.lock_ends_ms - now_ms),
        "is_stored": run.write is None,
    }
