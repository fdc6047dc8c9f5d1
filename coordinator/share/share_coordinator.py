"""The share coordinator of one broker, as a pure state machine.

The runtime passes in requests with an opaque token, outcomes of appends, loads and ticks, and
performs the effects from `take_effects` after each call, in order: `Reply(token, response)`,
`Append(append_id, partition, batch)` with acks=all, `Prune(partition, before_offset)`.

It is built in layers: `Owned` is one leadership of a partition of the topic, `ShareRequests` judges
a request by the entry of a share partition, `ShareWriter` has the changes that go to the log and
the answers that wait for them. Here are the life cycle, the loads, the periodic jobs, and the way
of a request to its partitions.

A partition of the topic is pruned up to the oldest of the last snapshots; share partitions at rest
get a snapshot from time to time, so that the oldest is not too old.

Invariants: every token is replied to exactly once, if every Append gets its `appended`. A partition
is loading, owned or neither.

Mirrors ShareCoordinatorService.
"""

from collections.abc import Callable, Iterator
from typing import Any

from ...protocol.apis.delete_share_group_state import DeleteShareGroupStateRequest
from ...protocol.apis.initialize_share_group_state import InitializeShareGroupStateRequest
from ...protocol.apis.read_share_group_state import ReadShareGroupStateRequest
from ...protocol.apis.read_share_group_state_summary import ReadShareGroupStateSummaryRequest
from ...protocol.apis.write_share_group_state import WriteShareGroupStateRequest
from ...protocol.errors import ErrorCode
from ...protocol.wall_clock import WallClock
from ..group.consumer.topics import NoTopics, TopicImage
from ..group.placement import partition_for_key
from .answers import DELETE, INITIALIZE, READ, SUMMARY, WRITE, Answer, Kind
from .config import ShareCoordinatorConfig
from .effects import Effect, Prune
from .loader import PartitionLoad
from .owned import Owned
from .requests import Outcome, ShareRequests
from .state import UNKNOWN, Entry, Key
from .writing import Batch, ShareWriter


class ShareCoordinator:
    """All share partitions whose partition of `__share_group_state` this broker leads."""

    __slots__ = (
        "_cold_check_ms", "_config", "_epochs", "_image", "_is_active", "_loading", "_owned",
        "_partition_count", "_prune_ms", "_requests", "_wall", "_writer",
    )  # fmt: skip

    def __init__(
        self,
        config: ShareCoordinatorConfig,
        wall: WallClock | None = None,
        image: TopicImage | None = None,
    ) -> None:
        """`wall` beside the `now_ms` of all calls; without one they are the same."""
        self._config = config
        self._wall = wall or WallClock()
        self._image: TopicImage = image or NoTopics()
        self._requests = ShareRequests(config, self._wall, self._image)
        self._writer = ShareWriter(config, self._wall)
        self._is_active = False
        self._partition_count = 0
        self._owned: dict[int, Owned] = {}
        self._loading: dict[int, PartitionLoad] = {}
        self._epochs: dict[int, int] = {}
        self._prune_ms: int | None = None
        self._cold_check_ms: int | None = None

    @property
    def writes(self) -> int:
        """Share partitions that were to be written since the start; refused ones count."""
        return self._requests.writes

    def pruned(self) -> list[tuple[int, int]]:
        """Partitions that were pruned, and before which offset the last time."""
        return [
            (owner.partition, owner.pruned_before)
            for owner in self._owned.values()
            if owner.pruned_before != UNKNOWN
        ]

    def take_effects(self) -> list[Effect]:
        """Remove and return the effects of the calls since the last time, in order."""
        return self._writer.take_effects()

    # Life cycle

    def start(self, partition_count: int, now_ms: int) -> None:
        """Begin to serve; `partition_count` is that of the topic, made or to be made."""
        assert partition_count > 0
        self._partition_count = partition_count
        self._is_active = True
        self._prune_ms = now_ms + self._config.prune_interval_ms
        self._cold_check_ms = now_ms + self._config.cold_partition_snapshot_interval_ms

    def stop(self) -> None:
        """Stop serving; waiting requests stay unanswered, since their connections are closed."""
        self._is_active = False
        self._prune_ms = self._cold_check_ms = None

    def partition_for(self, key_text: str) -> int:
        """The partition of the topic that owns a share partition, by `Key.text`."""
        return partition_for_key(key_text, self._partition_count)

    def next_deadline_ms(self) -> int | None:
        """When `tick` is needed next."""
        deadlines = (self._prune_ms, self._cold_check_ms)
        return min((at_ms for at_ms in deadlines if at_ms is not None), default=None)

    def is_due_before(self, at_ms: float) -> bool:
        """Whether `tick` is needed before `at_ms`."""
        deadline_ms = self.next_deadline_ms()
        return deadline_ms is not None and deadline_ms < at_ms

    def tick(self, now_ms: int) -> None:
        """The periodic jobs."""
        if self._prune_ms is not None and self._prune_ms <= now_ms:
            self._prune_ms = now_ms + self._config.prune_interval_ms
            for owner in self._owned.values():
                self._prune(owner)
        if self._cold_check_ms is not None and self._cold_check_ms <= now_ms:
            self._cold_check_ms = now_ms + self._config.cold_partition_snapshot_interval_ms
            for owner in self._owned.values():
                self._snapshot_cold(owner, now_ms)

    def _prune(self, owner: Owned) -> None:
        offset = owner.needed_offset()
        if offset > 0 and offset != owner.pruned_before:
            owner.pruned_before = offset
            self._writer.do(Prune(owner.partition, offset))

    def _snapshot_cold(self, owner: Owned, now_ms: int) -> None:
        states = {key: entry.state for key, entry in owner.entries.items()}
        if all(state.create_ms != state.write_ms for state in states.values()):
            return  # all have been at rest: nothing is written that would have to be pruned
        stamp_ms = self._wall.stamp_ms(now_ms)
        oldest_ms = stamp_ms - self._config.cold_partition_snapshot_interval_ms
        batch = Batch(owner)
        for key, state in states.items():
            if state.write_ms <= oldest_ms:
                epoch = state.snapshot_epoch + 1
                snapshot = state._replace(snapshot_epoch=epoch, write_ms=stamp_ms)
                self._writer.add(batch, key, snapshot, now_ms)
        self._writer.send(batch)

    def topics_deleted(self, now_ms: int) -> None:
        """Forget the share partitions of topics that there are no more."""
        for owner in self._owned.values():
            batch = Batch(owner)
            for key in list(owner.entries):
                if self._image.topic_name(key.topic_id) is None:
                    self._writer.add(batch, key, None, now_ms)
            self._writer.send(batch)

    # Loading and unloading

    def begin_load(self, partition: int, epoch: int) -> PartitionLoad | None:
        """This broker leads the partition in `epoch`: fill the returned load, then `finish_load`.

        None: nothing to load (an older epoch, or the partition is owned or being loaded).
        """
        if not self._advance_epoch(partition, epoch):
            return None
        if partition in self._owned or partition in self._loading:
            return None
        limit = self._config.snapshot_update_records_per_snapshot
        load = self._loading[partition] = PartitionLoad(partition, epoch, limit)
        return load

    def is_loading(self, load: PartitionLoad) -> bool:
        """Whether the load is still needed."""
        return self._loading.get(load.partition) is load

    def finish_load(self, load: PartitionLoad, now_ms: int) -> None:
        """Take over the states read. If the partition was unloaded meanwhile, nothing happens."""
        if self.is_loading(load):
            del self._loading[load.partition]
            self._owned[load.partition] = Owned(load)

    def abandon_load(self, load: PartitionLoad) -> None:
        """The partition could not be read: it is not served here."""
        if self.is_loading(load):
            del self._loading[load.partition]

    def unload(self, partition: int, epoch: int | None) -> None:
        """This broker does not lead the partition any more (since `epoch`, if it is known)."""
        if epoch is not None and not self._advance_epoch(partition, epoch):
            return
        self._loading.pop(partition, None)
        owner = self._owned.pop(partition, None)
        if owner is not None:
            owner.is_over = True

    def _advance_epoch(self, partition: int, epoch: int) -> bool:
        """Note the coordinator epoch; False if a later one is known."""
        if epoch < self._epochs.get(partition, epoch):
            return False
        self._epochs[partition] = epoch
        return True

    def states(self) -> Iterator[tuple[Key, Entry]]:
        """All states, for reading only."""
        for owner in self._owned.values():
            yield from owner.entries.items()

    # Requests

    def initialize(
        self, token: object, request: InitializeShareGroupStateRequest, now_ms: int
    ) -> None:
        self._serve(token, request, INITIALIZE, self._requests.initialize, now_ms)

    def read(self, token: object, request: ReadShareGroupStateRequest, now_ms: int) -> None:
        self._serve(token, request, READ, self._requests.read, now_ms)

    def write(self, token: object, request: WriteShareGroupStateRequest, now_ms: int) -> None:
        self._serve(token, request, WRITE, self._requests.write, now_ms)

    def delete(self, token: object, request: DeleteShareGroupStateRequest, now_ms: int) -> None:
        self._serve(token, request, DELETE, self._requests.delete, now_ms)

    def read_summary(
        self, token: object, request: ReadShareGroupStateSummaryRequest, now_ms: int
    ) -> None:
        self._serve(token, request, SUMMARY, self._requests.summary, now_ms)

    def _serve(
        self,
        token: object,
        request: Any,
        kind: Kind,
        serve: Callable[[Entry | None, Key, Any, int], Outcome],
        now_ms: int,
    ) -> None:
        answer = Answer(token, kind)
        if not request.group_id or any(not topic.partitions for topic in request.topics):
            self._writer.reply(answer)
            return
        batches: dict[Owned, Batch] = {}
        for topic in request.topics:
            for asked in topic.partitions:
                key = Key(request.group_id, topic.topic_id, asked.partition)
                owner = self._owner_of(key)
                if isinstance(owner, ErrorCode):
                    answer.fail(key, owner)
                    continue
                batch = batches.setdefault(owner, Batch(owner, answer))
                result, changes = serve(owner.entries.get(key), key, asked, now_ms)
                answer.set(key, result)
                for change in changes:
                    self._writer.add(batch, key, change, now_ms)
                batch.keys.append(key)
        for batch in batches.values():
            self._writer.send(batch)
        self._writer.reply(answer)

    def _owner_of(self, key: Key) -> Owned | ErrorCode:
        if not self._is_active:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        partition = self.partition_for(key.text)
        if partition in self._loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return self._owned.get(partition, ErrorCode.NOT_COORDINATOR)

    def appended(self, append_id: int, error: ErrorCode, base_offset: int) -> None:
        """The outcome of an Append; `base_offset` is -1 on errors."""
        self._writer.appended(append_id, error, base_offset)
