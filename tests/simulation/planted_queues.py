"""Faults put into share groups and into our share consumer, to see that the simulation finds them;
as `planted`."""

from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

from pybroker_kafka.broker.share.share_leader import Served, ShareLeader, Stored
from pybroker_kafka.broker.share.stored_states import StoredState, StoredStates
from pybroker_kafka.client.share.fetching import ShareFetching
from pybroker_kafka.client.share.session import Acknowledge, ShareSession
from pybroker_kafka.coordinator.share.share_coordinator import ShareCoordinator
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.replication.share.in_flight import RecordState, Run, StateWrite
from pybroker_kafka.replication.share.share_partition import SharePartition
from tests.simulation import client_cluster
from tests.simulation.client_apps import Sender
from tests.simulation.client_cluster import simulate_client_2
from tests.simulation.client_queues import QueueMember
from tests.simulation.cluster import Result
from tests.simulation.planted_client import among
from tests.simulation.planted_transactions import together

MAX_SEEDS = 100


def _in_queues(planted: Any) -> Any:
    return among(planted, Sender, Sender, QueueMember, QueueMember, QueueMember)


def _answered_before_it_is_written() -> Any:
    """Acknowledgements are answered while their state is on its way to the coordinator."""
    store = ShareLeader._store

    def hasty(self: ShareLeader, served: Served, write: StateWrite, stored: Stored | None) -> None:
        if stored is not None:
            stored(ErrorCode.NONE, None)
        store(self, served, write, None)

    return _in_queues(patch.object(ShareLeader, "_store", hasty))


def _locks_never_end() -> Any:
    """The timer of locks never fires."""
    return _in_queues(patch.object(ShareLeader, "_schedule", lambda _self, _served: None))


def _state_is_lost() -> Any:
    """The next leader knows the start offset, and not what is in flight."""
    read = StoredStates.read

    async def forget(self: StoredStates, key: Any, leader_epoch: int) -> StoredState:
        return (await read(self, key, leader_epoch))._replace(batches=[])

    return _in_queues(patch.object(StoredStates, "read", forget))


def _begins_anew() -> Any:
    """The next leader begins behind what was in flight."""
    read = StoredStates.read

    async def skip(self: StoredStates, key: Any, leader_epoch: int) -> StoredState:
        state = await read(self, key, leader_epoch)
        last = max((batch.last_offset + 1 for batch in state.batches), default=state.start_offset)
        return state._replace(start_offset=last, batches=[])

    return _in_queues(patch.object(StoredStates, "read", skip))


def _old_leaders_may_write() -> Any:
    """Leaders that were replaced are not fenced by the coordinator."""
    write = ShareCoordinator.write

    def believe(self: ShareCoordinator, token: object, request: Any, now_ms: int) -> None:
        for topic in request.topics:
            for partition in topic.partitions:
                partition.leader_epoch = -1
        write(self, token, request, now_ms)

    return _in_queues(
        together(
            patch.object(ShareCoordinator, "write", believe),
            # Or too few seeds meet it: leaders that do not hear of the next one.
            patch.object(client_cluster, "ISOLATED_LEADERS_WEIGHT", 100),
        )
    )


def _released_is_done() -> Any:
    """A record that a member has released is archived."""
    start = SharePartition.start

    def archive(
        self: SharePartition, run: Run, state: RecordState, limit: int, write: StateWrite
    ) -> None:
        done = RecordState.ARCHIVED if state is RecordState.AVAILABLE else state
        start(self, run, done, limit, write)

    return _in_queues(patch.object(SharePartition, "start", archive))


def _deliveries_are_not_counted() -> Any:
    """What is stored of a record does not say how often it was delivered."""
    write = StoredStates.write

    async def forget(
        self: StoredStates, key: Any, machine: SharePartition, writes: Sequence[StateWrite]
    ) -> Any:
        for each in writes:
            each.batches = [batch._replace(delivery_count=0) for batch in each.batches]
        return await write(self, key, machine, writes)

    return _in_queues(patch.object(StoredStates, "write", forget))


def _accepted_before_it_is_done() -> Any:
    """The consumer accepts what it has in its buffer."""
    put = ShareFetching._put

    def hasty(self: ShareFetching, place: Any, part: Any, lock: Any) -> None:
        put(self, place, part, lock)
        for held in self._state.buffer:
            self._state.note(held, Acknowledge.ACCEPT)

    return _in_queues(patch.object(ShareFetching, "_put", hasty))


def _handed_out_too_late() -> Any:
    """The consumer hands out records whose locks have ended."""
    put = ShareFetching._put

    def keep(self: ShareFetching, place: Any, part: Any, lock: tuple[int, int, int]) -> None:
        put(self, place, part, (lock[0], lock[1], lock[2] + 60_000))

    return _in_queues(patch.object(ShareFetching, "_put", keep))


def _lost_results_are_committed() -> Any:
    """Results of a lost session count as committed."""
    return _in_queues(patch.object(ShareSession, "take_void", lambda _self: []))


PLANTED: dict[str, Callable[[], Any]] = {
    "acknowledgements are answered before they are written": _answered_before_it_is_written,
    "locks of records never end": _locks_never_end,
    "states of records are lost with their leader": _state_is_lost,
    "the next leader skips what is in flight": _begins_anew,
    "replaced leaders of a queue may write": _old_leaders_may_write,
    "released records are archived": _released_is_done,
    "deliveries are not counted": _deliveries_are_not_counted,
    "records are accepted before they are done": _accepted_before_it_is_done,
    "records are handed out after their locks": _handed_out_too_late,
    "results of lost sessions count as committed": _lost_results_are_committed,
}


def find(name: str, seeds: range = range(MAX_SEEDS)) -> Result | None:
    """The first seed that notices the fault; None if none does."""
    for seed in seeds:
        with PLANTED[name]():
            result = simulate_client_2(seed)
        if result.error is not None:
            return result
    return None
