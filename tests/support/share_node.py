"""A share coordinator beside its log, for tests: appends end at once, or when the test says so."""

from __future__ import annotations

from typing import Any

from pybroker_kafka.coordinator.group.consumer.topics import NoTopics
from pybroker_kafka.coordinator.share.answers import DELETE, INITIALIZE, READ, SUMMARY, WRITE
from pybroker_kafka.coordinator.share.config import ShareCoordinatorConfig
from pybroker_kafka.coordinator.share.effects import Append, Prune, Reply
from pybroker_kafka.coordinator.share.loader import PartitionLoad
from pybroker_kafka.coordinator.share.share_coordinator import ShareCoordinator
from pybroker_kafka.coordinator.share.state import Entry, Key
from pybroker_kafka.protocol.apis import (
    delete_share_group_state as delete,
)
from pybroker_kafka.protocol.apis import (
    initialize_share_group_state as initialize,
)
from pybroker_kafka.protocol.apis import (
    read_share_group_state as read,
)
from pybroker_kafka.protocol.apis import (
    read_share_group_state_summary as summary,
)
from pybroker_kafka.protocol.apis import (
    write_share_group_state as write,
)
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.records.batch import iter_batch_headers
from tests.support.coordinators import Call

TOPIC = bytes(range(16))
OTHER = bytes(range(16, 32))
PARTITIONS = 3
KINDS = {
    "initialize": INITIALIZE, "read": READ, "write": WRITE, "delete": DELETE,
    "read_summary": SUMMARY,
}  # fmt: skip
Batch = tuple[int, int, int, int]  # first and last offset, state, count


class Topics(NoTopics):
    """Topics of three partitions."""

    def __init__(self) -> None:
        self.ids = {TOPIC, OTHER}

    def topic_name(self, topic_id: bytes) -> str | None:
        return topic_id.hex() if topic_id in self.ids else None

    def partition_count(self, topic_id: bytes) -> int | None:
        return PARTITIONS if topic_id in self.ids else None


class ShareNode:
    """One partition of the topic, so that all share partitions are here."""

    def __init__(self, limit: int = 500, log: list[bytes] | None = None) -> None:
        self.config = ShareCoordinatorConfig(snapshot_update_records_per_snapshot=limit)
        self.now_ms = 1_000_000
        self.topics = Topics()
        self.machine = ShareCoordinator(self.config, image=self.topics)
        self.log: list[bytes] = log or []  # batches with their offsets
        self.pruned: list[int] = []
        self.error = ErrorCode.NONE  # of the appends to come
        self.holds = False  # whether appends wait for `release`
        self.held: list[Append] = []
        self.machine.start(1, self.now_ms)
        self.load(0)

    @property
    def end_offset(self) -> int:
        return sum(h.last_offset_delta + 1 for b in self.log for _, h in iter_batch_headers(b))

    def load(self, epoch: int) -> None:
        load = self.machine.begin_load(0, epoch)
        if load is not None:
            for batch in self.log:
                load.add(batch)
            self.machine.finish_load(load, self.now_ms)

    def replayed(self) -> dict[Key, Entry]:
        """What a coordinator would load."""
        load = PartitionLoad(0, 0, self.config.snapshot_update_records_per_snapshot)
        for batch in self.log:
            load.add(batch)
        return load.entries

    @property
    def entries(self) -> dict[Key, Entry]:
        return dict(self.machine.states())

    def perform(self) -> None:
        while effects := self.machine.take_effects():
            for effect in effects:
                if isinstance(effect, Reply):
                    effect.token.answer(effect.response)
                elif isinstance(effect, Prune):
                    self.pruned.append(effect.before_offset)
                elif self.holds:
                    self.held.append(effect)
                else:
                    self._append(effect)

    def release(self) -> None:
        held, self.held = self.held, []
        for append in held:
            self._append(append)
        self.perform()

    def _append(self, append: Append) -> None:
        offset = -1
        if self.error is ErrorCode.NONE:
            offset = self.end_offset
            batch = bytes(append.batch)
            self.log.append(offset.to_bytes(8, "big") + batch[8:])
        self.machine.appended(append.append_id, self.error, offset)

    def ask(self, name: str, *asked: Any, topic_id: bytes = TOPIC) -> Call:
        """`asked`: of each partition."""
        kind = KINDS[name]
        topics = [kind.asked(topic_id=topic_id, partitions=list(asked))]
        call = Call(name)
        request = kind.request(group_id="g", topics=topics)
        getattr(self.machine, name)(call, request, self.now_ms)
        self.perform()
        return call

    def initialize(self, offset: int = 0, epoch: int = 1, partition: int = 0) -> Any:
        asked = initialize.PartitionData(
            partition=partition, state_epoch=epoch, start_offset=offset
        )
        return result_of(self.ask("initialize", asked))

    def write(self, *batches: Batch, **fields: Any) -> Any:
        return result_of(self.ask("write", written(*batches, **fields)))

    def read(self, leader: int = -1, partition: int = 0) -> Any:
        asked = read.PartitionData(partition=partition, leader_epoch=leader)
        return result_of(self.ask("read", asked))

    def delete(self, partition: int = 0) -> Any:
        return result_of(self.ask("delete", delete.PartitionData(partition=partition)))

    def summary(self, partition: int = 0) -> Any:
        return result_of(self.ask("read_summary", summary.PartitionData(partition=partition)))


def written(
    *batches: Batch, start: int = -1, leader: int = 0, epoch: int = 1, count: int = 0,
    partition: int = 0,
) -> write.PartitionData:  # fmt: skip
    """A partition of a write."""
    return write.PartitionData(
        partition=partition,
        state_epoch=epoch,
        leader_epoch=leader,
        start_offset=start,
        delivery_complete_count=count,
        state_batches=[
            write.StateBatch(
                first_offset=first, last_offset=last, delivery_state=state, delivery_count=times
            )
            for first, last, state, times in batches
        ],
    )


def result_of(call: Call) -> Any:
    """The result of the only partition; None while it waits."""
    if call.is_waiting:
        return None
    (topic,) = call.result.results
    (result,) = topic.partitions
    return result
