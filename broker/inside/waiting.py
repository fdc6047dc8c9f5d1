"""The waiting operations of this broker by kind: their number, and the oldest with their causes.

Mirrors: the purgatories of Kafka's ReplicaManager (Produce, Fetch, DeleteRecords) and those of its
GroupCoordinator (Rebalance, Heartbeat), which are timers of the group machine here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from ...replication.delayed_operations import DelayedDeleteRecords, DelayedFetch, DelayedProduce
from ...replication.purgatory import Operation, Purgatory

if TYPE_CHECKING:
    from ...coordinator.group.group import Group
    from ...protocol.topics import TopicPartition
    from ...replication.partition import Partition
    from ...replication.waiting import WaitingOperations

MOST_SHOWN = 25
MOST_LOOKED_AT = 1000
MOST_NAMED = 3

Row = dict[str, Any]
Partitions = Mapping["TopicPartition", "Partition"]


def what_waits(
    waiting: WaitingOperations,
    partitions: Partitions,
    groups: Iterable[Group],
    now_ms: int,
    now_seconds: float,
) -> list[Row]:
    """A row a kind. ``now_seconds``: of the clock that requests are timed by (`perf_counter`)."""

    def shown(purgatory: Purgatory[Any], describe: Callable[[Any, Partitions], str]) -> Row:
        oldest = sorted(_some(purgatory), key=_received_at)
        return {
            "kind": purgatory.name,
            "count": len(purgatory),
            "oldest": [
                {
                    **_asker(one, now_seconds),
                    "left_ms": one.deadline_ms - now_ms if one.is_scheduled else None,
                    "for": describe(one, partitions),
                }
                for one in oldest[:MOST_SHOWN]
            ],
        }

    return [
        shown(waiting.produces, _of_produce),
        shown(waiting.fetches, _of_fetch),
        shown(waiting.deletes, _of_delete),
        *_of_groups(list(groups), now_ms),
    ]


def _some(purgatory: Purgatory[Any]) -> list[Operation]:
    """Operations with a known request, each once."""
    found = dict.fromkeys(islice(purgatory.waiting(), MOST_LOOKED_AT))
    return [one for one in found if hasattr(one.token, "request")]


def _received_at(operation: Operation) -> float:
    seconds: float = operation.token.request.received_at  # type: ignore[attr-defined]
    return seconds


def _asker(operation: Operation, now_seconds: float) -> Row:
    request = operation.token.request  # type: ignore[attr-defined]
    peer = request.connection.peer
    return {
        "client_id": request.client_id,
        "host": f"{peer.host}:{peer.port}",
        "waited_ms": round((now_seconds - request.received_at) * 1000),
    }


def _of_produce(operation: DelayedProduce, partitions: Partitions) -> str:
    def told() -> Iterator[str]:
        for key in islice(operation.open_keys, MOST_NAMED):
            partition = partitions.get(key)
            high_watermark = None if partition is None else partition.log.high_watermark
            wanted = operation.results[key].required_offset
            yield f"{_name(key)}: high watermark {wanted}, it is {high_watermark}"

    return _joined(told(), len(operation.open_keys))


def _of_fetch(operation: DelayedFetch, _partitions: Partitions) -> str:
    params = operation.params
    first = ", ".join(
        f"{one.topic}-{one.partition} from {one.fetch_offset}"
        for one in operation.entries[:MOST_NAMED]
    )
    more = len(operation.entries) - MOST_NAMED
    who = f"follower {params.replica_id}: " if params.is_from_follower else ""
    return (
        f"{who}{params.min_bytes} bytes, has {operation.total_bytes}; {first}"
        + (f" and {more} more" if more > 0 else "")
    )  # fmt: skip


def _of_delete(operation: DelayedDeleteRecords, partitions: Partitions) -> str:
    def told() -> Iterator[str]:
        for key, wanted in islice(operation.open_offsets.items(), MOST_NAMED):
            partition = partitions.get(key)
            low = None if partition is None else partition.low_watermark()
            yield f"{_name(key)}: low watermark {wanted}, it is {low}"

    return _joined(told(), len(operation.open_offsets))


def _of_groups(groups: list[Group], now_ms: int) -> list[Row]:
    rebalances = [
        _of_timer(group, deadline_ms, joined, "joined", now_ms)
        for group in groups
        if (deadline_ms := group.join_timer.deadline_ms) is not None
        for joined in [group.awaiting_join_count]
    ]
    syncs = [
        _of_timer(group, deadline_ms, len(group.members) - missing, "synced", now_ms)
        for group in groups
        if (deadline_ms := group.sync_timer.deadline_ms) is not None
        for missing in [len(group.pending_sync_members)]
    ]
    waiting = rebalances + syncs
    return [
        {"kind": "Rebalance", "count": len(waiting), "oldest": waiting[:MOST_SHOWN]},
        {"kind": "Heartbeat", "count": sum(len(one.members) for one in groups), "oldest": []},
    ]


def _of_timer(group: Group, deadline_ms: int, there: int, what: str, now_ms: int) -> Row:
    since = group.state_since_ms
    return {
        "client_id": f"group {group.group_id}",
        "host": "",
        "waited_ms": None if since is None else now_ms - since,
        "left_ms": deadline_ms - now_ms,
        "for": f"{there} of {len(group.members)} members have {what}",
    }


def _name(key: TopicPartition) -> str:
    return f"{key[0]}-{key[1]}"


def _joined(told: Iterable[str], count: int) -> str:
    more = f" and {count - MOST_NAMED} more" if count > MOST_NAMED else ""
    return "; ".join(told) + more
