"""A group coordinator on a virtual clock, with an offsets topic in memory.

`Harness` performs the machine's effects as the broker does: appends get offsets in their own
partition's log and are acknowledged at once, or held until the test says so.
"""

from typing import Any

from pybroker_kafka.coordinator.group.commit_attempt import client_error
from pybroker_kafka.coordinator.group.commit_attempt import partition_errors as answer_of
from pybroker_kafka.coordinator.group.commit_plan import FIRST_VERSION, plan_of
from pybroker_kafka.coordinator.group.commits import RepeatedCommit
from pybroker_kafka.coordinator.group.core import (
    ACKS_NONE,
    Append,
    GroupConfig,
    InitializeStates,
    Reply,
)
from pybroker_kafka.coordinator.group.group import Group
from pybroker_kafka.coordinator.group.group_coordinator import GroupCoordinator
from pybroker_kafka.coordinator.group.stable_fetch import Wanted
from pybroker_kafka.protocol.apis.heartbeat import HeartbeatRequest
from pybroker_kafka.protocol.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pybroker_kafka.protocol.apis.leave_group import LeaveGroupRequest, MemberIdentity
from pybroker_kafka.protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pybroker_kafka.protocol.apis.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from pybroker_kafka.protocol.apis.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from pybroker_kafka.protocol.codec import encode, encode_versioned
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from pybroker_kafka.protocol.records.batch import assign_offset_and_epoch, read_batch_header
from pybroker_kafka.protocol.wall_clock import WallClock
from tests.support import coordinators

GROUP = "group-1"
HOST = "/127.0.0.1"
START_MS = 1_700_000_000_000


def subscription(*topics: str) -> bytes:
    """Metadata of a consumer that subscribes to these topics."""
    return encode_versioned(ConsumerProtocolSubscription(topics=list(topics)), 0)


class Call(coordinators.Call):
    """One request and its response."""

    @property
    def response(self) -> Any:
        return self.result

    @property
    def error(self) -> ErrorCode:
        return ErrorCode(self.response.error_code)


class Harness:
    """See the module."""

    # Commits go by a plan wherever the machine lets them, as those of a client that repeats them.
    repeats_commits = False

    def __init__(
        self, config: GroupConfig | None = None, *, partition_count: int = 3, load: bool = True
    ) -> None:
        self.config = config or GroupConfig()
        self.partition_count = partition_count
        self.now_ms = START_MS
        self.wall = WallClock()
        self.epoch = 1
        self.calls: list[Call] = []
        self.log: dict[int, list[bytearray]] = {p: [] for p in range(partition_count)}
        self.end_offset: dict[int, int] = dict.fromkeys(range(partition_count), 0)
        self.is_holding = False
        self.held: list[tuple[Append, int]] = []
        self.initializing: list[InitializeStates] = []  # of share groups
        self.repeated: dict[int, tuple[Call, OffsetCommitRequest, RepeatedCommit]] = {}
        self._uuids = 0
        self.machine = self._new_machine()
        if load:
            self.load_all()

    def _new_machine(self) -> GroupCoordinator:
        machine = GroupCoordinator(self.config, self._new_uuid, self.wall)
        machine.start(self.partition_count, self.now_ms)
        machine.tick(self.now_ms)  # the first look for expired offsets
        assert not machine.take_effects()
        return machine

    def _new_uuid(self) -> str:
        self._uuids += 1
        return f"uuid{self._uuids}"

    # The broker around the machine

    def perform(self) -> None:
        for effect in self.machine.take_effects():
            if isinstance(effect, Reply):
                effect.token.answer(effect.response)
                continue
            if not isinstance(effect, Append):
                self.initializing.append(effect)
                continue
            base_offset = self._append(effect)
            if effect.required_acks == ACKS_NONE:
                continue
            if self.is_holding:
                self.held.append((effect, base_offset))
            else:
                self._appended(effect, ErrorCode.NONE, base_offset)

    def _appended(self, append: Append, error: ErrorCode, base_offset: int) -> None:
        repeated = self.repeated.pop(append.append_id, None)
        if repeated is None:
            self.machine.appended(append.append_id, error, base_offset, self.now_ms)
            self.perform()
            return
        self._committed_again(*repeated, append.append_id, error, base_offset)

    def _append(self, effect: Append) -> int:
        base_offset = self.end_offset[effect.partition]
        batch = bytearray(effect.batch)
        assign_offset_and_epoch(batch, 0, base_offset, self.epoch)
        self.log[effect.partition].append(batch)
        self.end_offset[effect.partition] = read_batch_header(batch).next_offset
        return base_offset

    def release(self, error: ErrorCode = ErrorCode.NONE) -> None:
        """Finish the held appends."""
        held, self.held = self.held, []
        for effect, base_offset in held:
            self._appended(effect, error, base_offset if error is ErrorCode.NONE else -1)

    def advance(self, milliseconds: int) -> None:
        coordinators.pass_time(self, milliseconds)

    def load_all(self) -> None:
        for partition in range(self.partition_count):
            load = self.machine.begin_load(partition, self.epoch)
            assert load is not None
            for batch in self.log[partition]:
                load.add(batch)
            assert load.skipped_count == 0
            self.machine.finish_load(load, self.now_ms)
            self.perform()

    def restart(self) -> None:
        """A new machine that knows only what is in the log."""
        self.epoch += 1
        self.machine = self._new_machine()
        self.load_all()

    # Requests

    def _call(self, name: str) -> Call:
        call = Call(name)
        self.calls.append(call)
        return call

    def join(
        self,
        member_id: str = "",
        *,
        group: str = GROUP,
        instance: str | None = None,
        protocols: dict[str, bytes] | None = None,
        protocol_type: str = "consumer",
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        version: int = 9,
        client_id: str = "client",
    ) -> Call:
        call = self._call(f"join {member_id or instance or 'new'}")
        chosen = {"range": subscription("topic-1")} if protocols is None else protocols
        request = JoinGroupRequest(
            group_id=group,
            member_id=member_id,
            group_instance_id=instance,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms if version else -1,
            protocol_type=protocol_type,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=memoryview(data))
                for name, data in chosen.items()
            ],
        )
        self.machine.join(
            call,
            request,
            api_version=version,
            client_id=client_id,
            client_host=HOST,
            now_ms=self.now_ms,
        )
        self.perform()
        return call

    def join_new(self, **options: Any) -> tuple[str, Call]:
        """Join as a dynamic member: get an id first, then join with it."""
        first = self.join(**options)
        assert first.error is ErrorCode.MEMBER_ID_REQUIRED
        member_id = first.response.member_id
        return member_id, self.join(member_id, **options)

    def sync(
        self,
        member_id: str,
        generation_id: int,
        assignments: dict[str, bytes] | None = None,
        *,
        group: str = GROUP,
        instance: str | None = None,
        protocol: tuple[str | None, str | None] = ("consumer", "range"),
        version: int = 5,
    ) -> Call:
        call = self._call(f"sync {member_id}")
        request = SyncGroupRequest(
            group_id=group,
            generation_id=generation_id,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol[0],
            protocol_name=protocol[1],
            assignments=[
                SyncGroupRequestAssignment(member_id=key, assignment=memoryview(data))
                for key, data in (assignments or {}).items()
            ],
        )
        self.machine.sync(call, request, api_version=version, now_ms=self.now_ms)
        self.perform()
        return call

    def heartbeat(
        self,
        member_id: str,
        generation_id: int,
        *,
        group: str = GROUP,
        instance: str | None = None,
    ) -> ErrorCode:
        call = self._call(f"heartbeat {member_id}")
        request = HeartbeatRequest(
            group_id=group,
            generation_id=generation_id,
            member_id=member_id,
            group_instance_id=instance,
        )
        self.machine.heartbeat(call, request, self.now_ms)
        self.perform()
        return call.error

    def leave(self, *members: tuple[str, str | None], group: str = GROUP, version: int = 5) -> Any:
        call = self._call(f"leave {members}")
        request = LeaveGroupRequest(group_id=group)
        if version >= 3:
            request.members = [
                MemberIdentity(member_id=member_id, group_instance_id=instance)
                for member_id, instance in members
            ]
        else:
            request.member_id = members[0][0]
        self.machine.leave(call, request, api_version=version, now_ms=self.now_ms)
        self.perform()
        return call.response

    def commit(
        self,
        offsets: dict[tuple[str, int], int],
        *,
        group: str = GROUP,
        generation_id: int = -1,
        member_id: str = "",
        instance: str | None = None,
        metadata: str | None = "",
        retention_ms: int = -1,
        timestamp_ms: int = -1,
        leader_epoch: int = -1,
        unknown: frozenset[tuple[str, int]] = frozenset(),
    ) -> Call:
        call = self._call(f"commit {offsets}")
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation_id,
            member_id=member_id,
            group_instance_id=instance,
            retention_time_ms=retention_ms,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition,
                            committed_offset=offset,
                            committed_leader_epoch=leader_epoch,
                            commit_timestamp=timestamp_ms,
                            committed_metadata=metadata,
                        )
                    ],
                )
                for (topic, partition), offset in offsets.items()
            ],
        )
        has_times = retention_ms != -1 or timestamp_ms != -1
        may_repeat = self.repeats_commits and not unknown and not has_times
        if may_repeat and self._commit_again(call, request):
            return call
        self.machine.commit_offsets(call, request, self.now_ms, unknown)
        self.perform()
        return call

    def _commit_again(self, call: Call, request: OffsetCommitRequest) -> bool:
        plan = plan_of(request, FIRST_VERSION, self.config.offset_metadata_max_bytes)
        commit = None if plan is None else self.machine.begin_repeated_commit(plan, self.now_ms)
        if commit is None:
            return False
        append_id = self.machine.repeated_commit_waits(commit) if self.is_holding else None
        append = Append(append_id or -1, commit.group.partition, commit.batch, -1)
        base_offset = self._append(append)
        if append_id is None:
            self._committed_again(call, request, commit, None, ErrorCode.NONE, base_offset)
        else:
            self.repeated[append_id] = (call, request, commit)
            self.held.append((append, base_offset))
        return True

    def _committed_again(
        self,
        call: Call,
        request: OffsetCommitRequest,
        commit: RepeatedCommit,
        append_id: int | None,
        error: ErrorCode,
        base_offset: int,
    ) -> None:
        self.machine.repeated_commit_appended(commit, append_id, error, base_offset)
        errors = dict.fromkeys(commit.values, client_error(error))
        call.answer(answer_of(request, errors))

    def delete_offsets(self, *partitions: tuple[str, int], group: str = GROUP) -> Call:
        call = self._call(f"delete offsets {partitions}")
        request = OffsetDeleteRequest(
            group_id=group,
            topics=[
                OffsetDeleteRequestTopic(
                    name=topic,
                    partitions=[OffsetDeleteRequestPartition(partition_index=partition)],
                )
                for topic, partition in partitions
            ],
        )
        self.machine.delete_offsets(call, request, self.now_ms)
        self.perform()
        return call

    def delete_group(self, group: str = GROUP) -> ErrorCode:
        call = self._call(f"delete group {group}")
        self.machine.delete_groups(call, [group], self.now_ms)
        self.perform()
        return ErrorCode(call.response.results[0].error_code)

    # Views

    def group(self, group_id: str = GROUP) -> Group:
        return next(g for g in self.machine.groups if g.group_id == group_id)

    def state(self, group_id: str = GROUP) -> str:
        return str(self.machine.describe_group(group_id).group_state)

    def offset(self, topic: str, partition: int, *, group: str = GROUP) -> int:
        """The committed offset, -1 without one."""
        answer = self.machine.fetch_offsets(group, [(topic, [partition])])
        assert answer.error_code == ErrorCode.NONE
        return int(answer.topics[0].partitions[0].committed_offset)

    def fetch_stable(self, *partitions: tuple[str, int], group: str = GROUP) -> Call:
        """OffsetFetch of one group with `require_stable`; answered with a list of one."""
        call = self._call(f"fetch stable offsets of {group}")
        wanted = Wanted(group, [(topic, [index]) for topic, index in partitions])
        self.machine.fetch_stable_offsets(call, [wanted], self.now_ms)
        self.perform()
        return call

    def stable_group(self, *, members: int = 1, **options: Any) -> list[str]:
        """Bring a group of dynamic members to Stable; the first one leads."""
        ids, joins = [], []
        for _ in range(members):
            member_id, call = self.join_new(**options)
            ids.append(member_id)
            joins.append(call)
        self.advance(self.config.initial_rebalance_delay_ms * (members + 1))
        generation_id = joins[0].response.generation_id
        group = options.get("group", GROUP)
        for member_id, call in reversed(list(zip(ids, joins, strict=True))):
            is_leader = call.response.leader == member_id
            given = {m: f"assigned to {m}".encode() for m in ids} if is_leader else {}
            self.sync(
                member_id,
                generation_id,
                given,
                group=group,
                protocol=(call.response.protocol_type, call.response.protocol_name),
            )
        return ids


def partition_errors(call: Call) -> dict[tuple[str, int], ErrorCode]:
    """Error codes of an OffsetCommit or OffsetDelete by partition."""
    return {
        (topic.name, entry.partition_index): ErrorCode(entry.error_code)
        for topic in call.response.topics
        for entry in topic.partitions
    }


def encoded_size(message: Any, version: int) -> int:
    """The message can be put on the wire in this version."""
    return len(encode(message, version))
