"""The group coordinator of one broker, as a pure state machine.

Mirrors Kafka's GroupCoordinator with GroupMetadataManager (the classic protocol). The runtime
passes in requests with an opaque token, outcomes of appends, loads and ticks, and performs the
effects from `take_effects` after each call, in order: `Reply(token, response)`, `Append(append_id,
partition, batch, required_acks)`. Requests that only read are answered by a return value.

Invariants: every token of `join`, `sync`, `heartbeat`, `leave`, `commit_offsets`,
`commit_transactional_offsets`, `fetch_stable_offsets`, `delete_offsets` and `delete_groups` is
replied to exactly once, if every Append gets its `appended`. Groups are in `groups` only while
their partition is owned. A partition is loading, owned or neither.

The parts: `joining` (JoinGroup), `membership` (the other member requests), `rebalance` (phases and
timers), `commits` (offsets), `stable_fetch` (offsets to resume from), `transactions` (offsets
within transactions), this file (life cycle, loading, administration, timer dispatch). The handlers
authorize.
"""

import logging
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from typing import Any

from ...protocol.apis.consumer_group_describe import ConsumerGroupDescribeResponseDescribedGroup
from ...protocol.apis.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from ...protocol.apis.delete_share_group_state import DeleteShareGroupStateRequest
from ...protocol.apis.describe_groups import DescribeGroupsResponseDescribedGroup
from ...protocol.apis.heartbeat import HeartbeatRequest
from ...protocol.apis.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
)
from ...protocol.apis.join_group import JoinGroupRequest
from ...protocol.apis.leave_group import LeaveGroupRequest
from ...protocol.apis.list_groups import ListedGroup, ListGroupsResponse
from ...protocol.apis.offset_commit import OffsetCommitRequest
from ...protocol.apis.offset_delete import OffsetDeleteRequest
from ...protocol.apis.offset_fetch import OffsetFetchResponseGroup
from ...protocol.apis.share_group_describe import DescribedGroup
from ...protocol.apis.streams_group_describe import StreamsGroupDescribeResponseDescribedGroup
from ...protocol.apis.sync_group import SyncGroupRequest
from ...protocol.apis.txn_offset_commit import TxnOffsetCommitRequest
from ...protocol.errors import ErrorCode
from ...protocol.topics import TopicPartition
from ...protocol.wall_clock import WallClock
from .commit_plan import CommitPlan
from .commits import Commits, RepeatedCommit
from .consumer.classic_members import ClassicMembers
from .consumer.config import ConsumerGroupConfig
from .consumer.consumer_group import GROUP_TYPE as CONSUMER_GROUP_TYPE
from .consumer.describing import describe_consumer_group
from .consumer.heartbeats import ConsumerGroups
from .consumer.requests import Beat
from .consumer.topics import NoTopics, TopicImage
from .core import Core, Effect, GroupConfig, GroupStats
from .group import CONSUMER_PROTOCOL_TYPE, Group
from .join_attempt import JoinAttempt
from .joining import Joining
from .loader import PartitionLoad
from .members import JoinTicket
from .membership import Membership
from .rebalance import Rebalance
from .share.config import ShareGroupConfig
from .share.describing import describe_share_group
from .share.heartbeats import ShareBeat, delete_request
from .share.offsets import ShareGroupOffsets
from .share.share_group import GROUP_TYPE as SHARE_GROUP_TYPE
from .share.share_group import ShareGroup
from .stable_fetch import StableFetches, Wanted
from .states import GroupState
from .streams.config import StreamsGroupConfig
from .streams.describing import describe_streams_group
from .streams.heartbeats import StreamsGroups
from .streams.requests import Beat as StreamsBeat
from .streams.streams_group import GROUP_TYPE as STREAMS_GROUP_TYPE
from .streams.streams_group import PROTOCOL_TYPE as STREAMS_PROTOCOL_TYPE
from .timers import Timer, TimerKind
from .transactions import TransactionalCommits

logger = logging.getLogger("pybroker.coordinator.group.group_coordinator")

GROUP_TYPE = "classic"


class GroupCoordinator:
    """All groups whose partition of `__consumer_offsets` this broker leads."""

    __slots__ = (
        "_commits", "_consumer_config", "_consumers", "_core", "_image", "_joining", "_membership",
        "_rebalance", "_stable_fetches", "_streams", "_transactions", "shares",
    )  # fmt: skip

    def __init__(
        self,
        config: GroupConfig,
        new_uuid: Callable[[], str],
        wall: WallClock | None = None,
        consumer_config: ConsumerGroupConfig | None = None,
        image: TopicImage | None = None,
        share_config: ShareGroupConfig | None = None,
        streams_config: StreamsGroupConfig | None = None,
    ) -> None:
        """`new_uuid` gives the random part of member ids. `wall` beside the `now_ms` of all calls;
        without one they are the same. `image`: the topics, for groups that are not classic."""
        self._core = Core(config, new_uuid, wall)
        self._consumer_config = consumer_config or ConsumerGroupConfig()
        self._image: TopicImage = image or NoTopics()
        core, rebalance = self._core, Rebalance(self._core)
        self._rebalance = rebalance
        self._consumers = ConsumerGroups(core, self._consumer_config, self._image, rebalance)
        self.shares = ShareGroupOffsets(
            core, share_config or ShareGroupConfig(), self._image, rebalance
        )
        classic_members = ClassicMembers(core, self._consumers, rebalance, self._image)
        self._joining = Joining(core, rebalance, classic_members)
        self._membership = Membership(core, rebalance, classic_members)
        streams_config = streams_config or StreamsGroupConfig()
        self._streams = StreamsGroups(core, streams_config, self._image, rebalance)
        self._commits = Commits(self._core, self._rebalance, self._image.topic_id)
        self._stable_fetches = StableFetches(self._core, self._commits)
        self._transactions = TransactionalCommits(self._core, self._image.topic_id)

    def take_effects(self) -> list[Effect]:
        """Remove and return the effects of the calls since the last time, in order."""
        return self._core.take_effects()

    # Life cycle

    def start(self, partition_count: int, now_ms: int) -> None:
        """Begin to serve; `partition_count` is that of the offsets topic, made or to be made."""
        assert partition_count > 0
        self._core.partition_count = partition_count
        self._core.is_active = True
        self._core.timers.advance(now_ms, 0)
        self._core.timers.reschedule(self._core.expiry_timer, now_ms)

    def stop(self) -> None:
        """Stop serving; waiting requests stay unanswered, since their connections are closed."""
        self._core.is_active = False

    def partition_for(self, group_id: str) -> int:
        """The partition of the offsets topic that owns the group."""
        return self._core.partition_for(group_id)

    def next_deadline_ms(self) -> int | None:
        """When `tick` is needed next."""
        return self._core.timers.next_deadline_ms()

    def is_due_before(self, at_ms: float) -> bool:
        """Whether `tick` is needed before `at_ms`."""
        return self._core.timers.is_due_before(at_ms)

    def tick(self, now_ms: int) -> None:
        """Fire the timers that are due."""
        while due := self._core.timers.advance(now_ms, 1):  # one may cancel the next
            self._fire(due[0], now_ms)

    def _fire(self, timer: Timer, now_ms: int) -> None:
        if timer.kind is TimerKind.OFFSET_EXPIRY:
            if self._core.is_active:
                self._commits.expire(now_ms)
                interval_ms = self._core.config.offsets_retention_check_interval_ms
                self._core.timers.reschedule(timer, now_ms + interval_ms)
            return
        if timer.kind is TimerKind.CONSUMER_SESSION:
            of_kind = self.shares if isinstance(timer.owner, ShareGroup) else self._consumers
            of_kind.session_expired(timer.owner, timer.member_id, now_ms)
            return
        if timer.kind is TimerKind.CONSUMER_REBALANCE:
            self._consumers.rebalance_timed_out(timer.owner, timer.member_id, now_ms)
            return
        if timer.kind is TimerKind.STREAMS_SESSION:
            self._streams.session_expired(timer.owner, timer.member_id, now_ms)
            return
        if timer.kind is TimerKind.STREAMS_REBALANCE:
            self._streams.rebalance_timed_out(timer.owner, timer.member_id, now_ms)
            return
        if timer.kind is TimerKind.STREAMS_INITIAL_DELAY:
            self._streams.initial_delay_over(timer.owner, now_ms)
            return
        if timer.kind in (TimerKind.CONSUMER_JOIN, TimerKind.CONSUMER_SYNC):
            self._consumers.classic_timed_out(timer.owner, timer.member_id, timer.kind, now_ms)
            return
        group: Group = timer.owner
        if timer.kind is TimerKind.SESSION:
            self._rebalance.session_expired(group, timer.member_id, now_ms)
        elif timer.kind is TimerKind.PENDING_MEMBER:
            self._rebalance.pending_member_expired(group, timer.member_id, now_ms)
        elif timer.kind is TimerKind.JOIN:
            self._rebalance.join_timed_out(group, now_ms)
        else:
            self._rebalance.sync_timed_out(group, now_ms)

    def all_groups(self) -> Collection[Group]:
        """All groups, for reading only."""
        return self._core.groups.values()

    def rebalance(self, group_id: str, now_ms: int) -> bool:
        """Begin a rebalance that no member has requested. False: no such group has members here."""
        group = self._core.groups.get(group_id)
        if group is None or not group.describe_members():
            return False
        self._rebalance.maybe_prepare(group, "asked for from outside", now_ms)
        return True

    def remove_groups(self, group_ids: Iterable[str], now_ms: int) -> None:
        """Remove groups with their members and offsets, which no client has requested."""
        for group_id in group_ids:
            group = self._core.groups.get(group_id)
            if group is None:
                continue
            for member in group.members.values():
                unknown = ErrorCode.UNKNOWN_MEMBER_ID
                self._rebalance.take_join(group, member, unknown, member.member_id)
                self._rebalance.take_sync(group, member, unknown)
            self._commits.delete_group(group, now_ms)

    def appended(self, append_id: int, error: ErrorCode, base_offset: int, now_ms: int) -> None:
        """The outcome of an Append with acks; `base_offset` is -1 on errors."""
        completion = self._core.take_completion(append_id)
        completion(append_id, error, base_offset, now_ms)

    # Loading and unloading

    def begin_load(self, partition: int, epoch: int) -> PartitionLoad | None:
        """This broker leads the partition in `epoch`: fill the returned load, then `finish_load`.

        None: nothing to load (an older epoch, or the partition is owned or being loaded).
        """
        if not self._advance_epoch(partition, epoch):
            return None
        if partition in self._core.owned or partition in self._core.loading:
            return None
        load = PartitionLoad(partition, epoch)
        self._core.loading[partition] = load
        return load

    def is_loading(self, load: PartitionLoad) -> bool:
        """Whether the load is still needed."""
        return self._core.loading.get(load.partition) is load

    def finish_load(self, load: PartitionLoad, now_ms: int) -> None:
        """Take over the groups and offsets read. If the partition was unloaded meanwhile, nothing
        happens."""
        if not self.is_loading(load):
            return
        del self._core.loading[load.partition]
        self._core.owned.add(load.partition)
        for group in load.groups(now_ms):
            self._take_over(group, now_ms)
        for producer_id, committed in load.markers:
            self._transactions.complete(producer_id, (load.partition,), committed=committed)

    def abandon_load(self, load: PartitionLoad) -> None:
        """The partition could not be read: it is not served here (Kafka serves it as if empty)."""
        if self.is_loading(load):
            del self._core.loading[load.partition]

    def unload(self, partition: int, epoch: int | None, now_ms: int) -> None:
        """This broker does not lead the partition any more (since `epoch`, if it is known)."""
        if epoch is not None and not self._advance_epoch(partition, epoch):
            return
        self._core.loading.pop(partition, None)
        self._core.owned.discard(partition)
        for group in [g for g in self._core.groups.values() if g.partition == partition]:
            group.transition_to(GroupState.DEAD, now_ms)
            for member in group.members.values():
                not_coordinator = ErrorCode.NOT_COORDINATOR
                self._rebalance.take_join(group, member, not_coordinator, member.member_id)
                self._rebalance.take_sync(group, member, not_coordinator)
            self._core.forget_group(group)

    def _advance_epoch(self, partition: int, epoch: int) -> bool:
        """Note the coordinator epoch; False if a later one is known."""
        if epoch < self._core.partition_epochs.get(partition, epoch):
            return False
        self._core.partition_epochs[partition] = epoch
        return True

    def _take_over(self, group: Group, now_ms: int) -> None:
        self._core.groups[group.group_id] = group
        for producer_id in group.offsets.open_producers():
            self._core.groups_by_producer.setdefault(producer_id, set()).add(group.group_id)
        if len(group.members) > self._core.config.max_size:
            self._rebalance.prepare(group, "the loaded group is over group.max.size", now_ms)
        for member in group.members.values():
            self._rebalance.restart_session(member, now_ms)
        if group.consumer is not None:
            of_kind = self.shares if group.is_share else self._consumers
            of_kind.loaded(group.consumer, now_ms)
        elif group.streams is not None:
            self._streams.loaded(group.streams, now_ms)

    # Requests of members

    def join(
        self,
        token: object,
        request: JoinGroupRequest,
        *,
        api_version: int,
        client_id: str | None,
        client_host: str,
        now_ms: int,
    ) -> None:
        """JoinGroup; `client_host` in Java's form ("/127.0.0.1")."""
        ticket = JoinTicket(token, api_version)
        self._joining.join(JoinAttempt(ticket, request, client_id or "", client_host), now_ms)

    def sync(
        self, token: object, request: SyncGroupRequest, *, api_version: int, now_ms: int
    ) -> None:
        self._membership.sync(token, request, api_version, now_ms)

    def heartbeat(self, token: object, request: HeartbeatRequest, now_ms: int) -> None:
        self._membership.heartbeat(token, request, now_ms)

    def leave(
        self, token: object, request: LeaveGroupRequest, *, api_version: int, now_ms: int
    ) -> None:
        self._membership.leave(token, request, api_version, now_ms)

    def consumer_heartbeat(self, beat: Beat, now_ms: int) -> None:
        """ConsumerGroupHeartbeat."""
        self._consumers.heartbeat(beat, now_ms)

    def share_heartbeat(self, beat: ShareBeat, now_ms: int) -> None:
        """ShareGroupHeartbeat."""
        self.shares.share_heartbeat(beat, now_ms)

    def states_initialized(
        self,
        request: InitializeShareGroupStateRequest,
        response: InitializeShareGroupStateResponse,
        now_ms: int,
    ) -> None:
        """The outcome of an InitializeStates."""
        self.shares.states_initialized(request, response, now_ms)

    def streams_heartbeat(self, beat: StreamsBeat, now_ms: int) -> None:
        """StreamsGroupHeartbeat, answered with a HeartbeatResult."""
        self._streams.heartbeat(beat, now_ms)

    def topics_changed(self, names: Collection[str]) -> None:
        """Topics were made or deleted, or have other partitions."""
        self._consumers.topics_changed(names)
        self.shares.topics_changed(names)
        self._streams.topics_changed(names)

    def group_config_changed(self, group_id: str, values: Mapping[str, Any]) -> None:
        """A group sets these configs itself from now on, whether it exists or not."""
        self._consumers.group_config_changed(group_id, values)
        self._streams.group_config_changed(group_id, values)
        self.shares.group_config_changed(group_id, values)

    def consumer_config_changed(self, config: ConsumerGroupConfig) -> None:
        """The broker's configuration of consumer groups, where they do not set their own."""
        self._consumers.config_changed(config)

    def streams_config_changed(self, config: StreamsGroupConfig) -> None:
        """The broker's configs for streams groups have changed."""
        self._streams.config_changed(config)

    def streams_heartbeat_interval_ms(self, group_id: str) -> int:
        return self._streams.config_of(group_id).heartbeat_interval_ms

    # Offsets

    def commit_offsets(
        self,
        token: object,
        request: OffsetCommitRequest,
        now_ms: int,
        unknown: Container[TopicPartition] = (),
        *,
        is_old: bool = False,
    ) -> None:
        """OffsetCommit v1+; partitions in `unknown` are answered UNKNOWN_TOPIC_OR_PARTITION.
        `is_old`: before version 9, which members of the consumer protocol must use."""
        self._commits.commit(token, request, unknown, now_ms, is_old=is_old)

    def begin_repeated_commit(self, plan: CommitPlan, now_ms: int) -> RepeatedCommit | None:
        """Repeat an OffsetCommit with the current offsets of the plan's request. None: it must go
        through `commit_offsets`. Otherwise, the caller must append its batch at once."""
        return self._commits.begin_again(plan, now_ms)

    def repeated_commit_waits(self, commit: RepeatedCommit) -> int:
        """Note that its append waits for replicas; returns the id for the report of the outcome."""
        return self._commits.wait_again(commit)

    def repeated_commit_appended(
        self, commit: RepeatedCommit, append_id: int | None, error: ErrorCode, base_offset: int
    ) -> None:
        """The outcome of its append, `base_offset` of no meaning on errors; `append_id` None if it
        had not to wait."""
        self._commits.end_again(commit, append_id, error, base_offset)

    def check_transactional_group(self, group_id: str) -> ErrorCode:
        """Whether this coordinator may accept offsets of a transaction for the group."""
        return self._core.check_group(group_id)

    def commit_transactional_offsets(
        self,
        token: object,
        request: TxnOffsetCommitRequest,
        now_ms: int,
        unknown: Container[TopicPartition] = (),
        verification: object = None,
        connection: int = 0,
    ) -> None:
        """TxnOffsetCommit; `verification` comes back in the Append. `connection` is larger for a
        connection that was accepted later."""
        self._transactions.commit(token, request, unknown, verification, now_ms, connection)

    def fetch_offsets(
        self,
        group_id: str,
        topics: Iterable[tuple[str, Iterable[int]]] | None,
        member_id: str | None = None,
        member_epoch: int = -1,
    ) -> OffsetFetchResponseGroup:
        """OffsetFetch of one group; `topics` None means all partitions with an offset."""
        return self._commits.fetch(group_id, topics, member_id, member_epoch, require_stable=False)

    def fetch_stable_offsets(self, token: object, wanted: Sequence[Wanted], now_ms: int) -> None:
        """OffsetFetch with `require_stable`, answered with a list of OffsetFetchResponseGroup."""
        self._stable_fetches.fetch(token, wanted, now_ms)

    def delete_offsets(
        self,
        token: object,
        request: OffsetDeleteRequest,
        now_ms: int,
        unknown: Container[TopicPartition] = (),
    ) -> None:
        self._commits.delete(token, request, unknown, now_ms)

    def partitions_deleted(self, partitions: Collection[TopicPartition], now_ms: int) -> None:
        """Partitions were deleted with their topics: so are their offsets."""
        self._commits.partitions_deleted(partitions, now_ms)

    def complete_transaction(
        self, producer_id: int, partitions: Container[int], *, committed: bool
    ) -> None:
        """A transaction's COMMIT or ABORT marker is in these partitions of the offsets topic."""
        self._transactions.complete(producer_id, partitions, committed=committed)

    # Administration

    def list_groups(
        self, states: Collection[str] = (), types: Collection[str] = ()
    ) -> ListGroupsResponse:
        """Groups in one of the states and of one of the types (empty: any), in either case."""
        if not self._core.is_active:
            return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if self._core.loading else ErrorCode.NONE
        wanted_states = {state.lower() for state in states}
        wanted_types = {group_type.lower() for group_type in types}
        listed = map(_listed, self._core.groups.values())
        return ListGroupsResponse(
            error_code=error,
            groups=[
                group
                for group in listed
                if (not wanted_states or group.group_state.lower() in wanted_states)
                and (not wanted_types or group.group_type in wanted_types)
            ],
        )

    def describe_consumer_group(self, group_id: str) -> ConsumerGroupDescribeResponseDescribedGroup:
        """One group of the consumer protocol."""
        error = self._core.check_group(group_id, allow_empty_id=True)
        if error is not ErrorCode.NONE:
            return ConsumerGroupDescribeResponseDescribedGroup(group_id=group_id, error_code=error)
        holder = self._core.groups.get(group_id)
        if holder is not None and holder.consumer is not None and not holder.is_share:
            return describe_consumer_group(
                holder.consumer, self._image, self._consumer_config.assignors[0]
            )
        what = "not found" if holder is None else "is not a consumer group"
        return ConsumerGroupDescribeResponseDescribedGroup(
            group_id=group_id,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"Group {group_id} {what}.",
        )

    def describe_share_group(self, group_id: str) -> DescribedGroup:
        """One share group."""
        error = self._core.check_group(group_id, allow_empty_id=True)
        if error is not ErrorCode.NONE:
            return DescribedGroup(group_id=group_id, error_code=error)
        holder = self._core.groups.get(group_id)
        if holder is not None and isinstance(holder.consumer, ShareGroup):
            return describe_share_group(holder.consumer, self._image)
        what = "not found" if holder is None else "is not a share group"
        return DescribedGroup(
            group_id=group_id,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"Group {group_id} {what}.",
        )

    def describe_streams_group(self, group_id: str) -> StreamsGroupDescribeResponseDescribedGroup:
        """The group of a Streams application."""
        error = self._core.check_group(group_id, allow_empty_id=True)
        if error is not ErrorCode.NONE:
            return StreamsGroupDescribeResponseDescribedGroup(group_id=group_id, error_code=error)
        holder = self._core.groups.get(group_id)
        if holder is not None and holder.streams is not None:
            return describe_streams_group(holder.streams)
        what = "not found" if holder is None else "is not a streams group"
        return StreamsGroupDescribeResponseDescribedGroup(
            group_id=group_id,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"Group {group_id} {what}.",
        )

    def states_to_delete(self, group_ids: Iterable[str]) -> list[DeleteShareGroupStateRequest]:
        """The states of the share groups among these that may be deleted: they go first."""
        found = []
        for group_id in group_ids:
            holder = self._core.groups.get(group_id)
            if holder is not None and isinstance(holder.consumer, ShareGroup):
                request = delete_request(holder.consumer)
                if request.topics and not holder.has_members:
                    found.append(request)
        return found

    def describe_group(self, group_id: str) -> DescribeGroupsResponseDescribedGroup:
        """One group; one that does not exist is described as Dead."""
        error = self._core.check_group(group_id, allow_empty_id=True)
        view = DescribeGroupsResponseDescribedGroup(error_code=error, group_id=group_id)
        if error is not ErrorCode.NONE:
            return view
        group = self._core.groups.get(group_id)
        if group is None or group.modern is not None:
            view.group_state = GroupState.DEAD.value
            return view
        view.group_state = group.state.value
        view.protocol_type = group.protocol_type or ""
        if group.state is GroupState.STABLE:
            view.protocol_data = group.protocol_name or ""
        view.members = group.describe_members()
        return view

    def delete_groups(self, token: object, group_ids: Iterable[str], now_ms: int) -> None:
        """Delete groups without members, with their offsets."""
        results = [
            DeletableGroupResult(group_id=group_id, error_code=self._delete_group(group_id, now_ms))
            for group_id in dict.fromkeys(group_ids)
        ]
        self._core.reply(token, DeleteGroupsResponse(results=results))

    def _delete_group(self, group_id: str, now_ms: int) -> ErrorCode:
        error = self._core.check_group(group_id, allow_empty_id=True)
        if error is not ErrorCode.NONE:
            return error
        group = self._core.groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group.has_members:
            return ErrorCode.NON_EMPTY_GROUP
        self._commits.delete_group(group, now_ms)
        return ErrorCode.NONE

    # For metrics and tests

    @property
    def groups(self) -> Collection[Group]:
        return self._core.groups.values()

    @property
    def stats(self) -> GroupStats:
        return self._core.stats

    @property
    def appends_in_flight(self) -> int:
        return self._core.appends_in_flight


def _listed(group: Group) -> ListedGroup:
    if isinstance(group.consumer, ShareGroup):
        return ListedGroup(
            group_id=group.group_id,
            protocol_type=SHARE_GROUP_TYPE,
            group_state=group.consumer.state.value,
            group_type=SHARE_GROUP_TYPE,
        )
    if group.consumer is not None:
        return ListedGroup(
            group_id=group.group_id,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            group_state=group.consumer.state.value,
            group_type=CONSUMER_GROUP_TYPE,
        )
    if group.streams is not None:
        return ListedGroup(
            group_id=group.group_id,
            protocol_type=STREAMS_PROTOCOL_TYPE,
            group_state=group.streams.state.value,
            group_type=STREAMS_GROUP_TYPE,
        )
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=group.protocol_type or "",
        group_state=group.state.value,
        group_type=GROUP_TYPE,
    )
