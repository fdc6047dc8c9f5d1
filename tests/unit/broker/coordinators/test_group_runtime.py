"""The group runtime and its handlers over a real replica manager and real logs.

Requests go through encoding and decoding in every version. Time is virtual (trio's MockClock),
except where a worker thread reads a log.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import trio
from trio.testing import MockClock

from pybroker_kafka.broker.config import KafkaConfig
from pybroker_kafka.broker.coordinators.group_runtime import (
    GroupRuntime,
    consumer_group_config,
    group_config,
)
from pybroker_kafka.broker.handlers.consumer_groups import ConsumerGroupHandlers
from pybroker_kafka.broker.handlers.find_coordinator import FindCoordinatorHandler
from pybroker_kafka.broker.handlers.group_offsets import GroupOffsetHandlers
from pybroker_kafka.broker.handlers.groups import GroupHandlers
from pybroker_kafka.broker.network.repeated_request_template import RepeatedRequestTemplate
from pybroker_kafka.broker.network.request import Route
from pybroker_kafka.broker.network.turns import Turns
from pybroker_kafka.broker.observability.request_metrics import RequestMetrics
from pybroker_kafka.coordinator.group.commit_plan import FIRST_VERSION
from pybroker_kafka.coordinator.group.consumer.config import ConsumerGroupConfig
from pybroker_kafka.coordinator.group.core import GroupConfig
from pybroker_kafka.coordinator.group.group_coordinator import GroupCoordinator
from pybroker_kafka.protocol.api import API_TABLE, ApiKey, request_class
from pybroker_kafka.protocol.apis.join_group import JoinGroupRequestProtocol
from pybroker_kafka.protocol.apis.leave_group import MemberIdentity
from pybroker_kafka.protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pybroker_kafka.protocol.apis.offset_delete import (
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from pybroker_kafka.protocol.apis.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from pybroker_kafka.protocol.apis.sync_group import SyncGroupRequestAssignment
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.features import NOTHING_FINALIZED
from pybroker_kafka.protocol.topics import OFFSETS_TOPIC
from tests.support.coordinator_node import CoordinatorNode
from tests.support.handlers import Call
from tests.support.patience import eventually
from tests.support.replication import ME, TOPIC
from tests.support.sources import needs_sources
from tests.unit.coordinator.group.harness import GROUP, subscription

COMMIT_TIMEOUT_MS = 5_000
SESSION_MS = 10_000


@pytest.fixture(autouse=True, params=[False, True], ids=["once", "again"])
def repeats_commits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits are read by their likeness to the last ones, or not: nobody sees a difference."""
    monkeypatch.setattr(Node, "repeats_commits", request.param)


class OffsetsInMemory:
    """Where version 0 keeps offsets, as a dictionary."""

    def __init__(self) -> None:
        self.offsets: dict[tuple[str, str, int], int] = {}
        self.is_broken = False

    async def get_offset(self, group: str, topic: str, partition: int) -> int | None:
        await trio.lowlevel.checkpoint()
        if self.is_broken:
            raise OSError("no connection")
        return self.offsets.get((group, topic, partition))

    async def set_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        await trio.lowlevel.checkpoint()
        if self.is_broken:
            raise OSError("no connection")
        self.offsets[group, topic, partition] = offset


class Node(CoordinatorNode[GroupRuntime]):
    """One broker's group coordinator with what it stands on."""

    repeats_commits = False

    def __init__(
        self, directory: Path, *, replicas: tuple[int, ...], load_buffer_bytes: int
    ) -> None:
        super().__init__(directory, replicas)
        self.runtime = GroupRuntime(
            self.replica_runtime,
            GroupConfig(initial_rebalance_delay_ms=100),
            clock=self.clock,
            commit_timeout_ms=COMMIT_TIMEOUT_MS,
            load_buffer_bytes=load_buffer_bytes,
        )
        self.created: list[str] = []
        self.zookeeper = OffsetsInMemory()
        self.groups = GroupHandlers(self.runtime)
        self.consumer_groups = ConsumerGroupHandlers(self.runtime, lambda: NOTHING_FINALIZED)
        self.offsets = GroupOffsetHandlers(
            self.runtime,
            self.cluster.metadata,
            zookeeper=self.zookeeper,
            offset_metadata_max_bytes=4096,
        )
        self.find_coordinator = FindCoordinatorHandler(
            self.cluster.metadata,
            auto_create_topic=self.created.append,
            group_partition_for=self.runtime.machine.partition_for,
            transaction_partition_for=lambda _: 0,
            share_partition_for=lambda _key: None,
        )

    def call(self, key: ApiKey, version: int, /, **fields: Any) -> Call:
        area: Any
        for area in (self.groups, self.consumer_groups, self.offsets, self.find_coordinator):
            if key in area.handlers():
                break
        options: Any = {}
        if key is ApiKey.OFFSET_COMMIT and version >= FIRST_VERSION and self.repeats_commits:
            options["template_of"] = template_of
        return Call(area, key, version, request_class(key)(**fields), **options)

    def commit(self, version: int, offset: int, *, group: str = GROUP, topic: str = TOPIC) -> Call:
        entry = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topics = [OffsetCommitRequestTopic(name=topic, partitions=[entry])]
        return self.call(ApiKey.OFFSET_COMMIT, version, group_id=group, topics=topics)

    def join(self) -> Call:
        """The simplest member that there is; with version 0 it need not come twice."""
        return self.call(
            ApiKey.JOIN_GROUP,
            0,
            group_id=GROUP,
            session_timeout_ms=SESSION_MS,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )

    def fetch(self, version: int, *, group: str = GROUP, topic: str = TOPIC) -> Call:
        if version >= 8:
            topics = [OffsetFetchRequestTopics(name=topic, partition_indexes=[0])]
            groups = [OffsetFetchRequestGroup(group_id=group, topics=topics)]
            return self.call(ApiKey.OFFSET_FETCH, version, groups=groups)
        old = [OffsetFetchRequestTopic(name=topic, partition_indexes=[0])]
        return self.call(ApiKey.OFFSET_FETCH, version, group_id=group, topics=old)

    def committed(self, version: int = 9, **options: Any) -> tuple[int, int]:
        """(error, offset) of an OffsetFetch, wherever the version puts them."""
        answer = self.fetch(version, **options).answer
        if version >= 8:
            group = answer.groups[0]
            if group.error_code:
                return group.error_code, -1
            entry = group.topics[0].partitions[0]
        else:
            if answer.error_code:
                return answer.error_code, -1
            entry = answer.topics[0].partitions[0]
        return entry.error_code, entry.committed_offset


@asynccontextmanager
async def a_node(
    directory: Path, *, replicas: tuple[int, ...] = (ME,), load_buffer_bytes: int = 1 << 20
) -> AsyncIterator[Node]:
    node = Node(directory, replicas=replicas, load_buffer_bytes=load_buffer_bytes)
    node.cluster.publish(ME)
    async with trio.open_nursery() as nursery:
        await nursery.start(node.replica_runtime.run)
        await nursery.start(node.runtime.run, 1)
        try:
            yield node
        finally:
            nursery.cancel_scope.cancel()
    node.cluster.log_manager.clean_shutdown()


def versions(key: ApiKey) -> range:
    """Those of 3.9: the wire tests have the later ones, in which topics have ids."""
    spec = API_TABLE[key]
    return range(spec.min_version, spec.highest() + 1)


def commit_error(call: Call) -> ErrorCode:
    return ErrorCode(call.answer.topics[0].partitions[0].error_code)


async def test_find_coordinator(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_node(tmp_path) as node:
        for version in versions(ApiKey.FIND_COORDINATOR):
            keys: dict[str, Any] = {"key": GROUP} if version < 4 else {"coordinator_keys": [GROUP]}

            def find(key_type: int = 0, v: int = version, k: Any = keys) -> Any:
                fields = dict(k) if v < 1 else dict(k, key_type=key_type)
                answer = node.call(ApiKey.FIND_COORDINATOR, v, **fields).answer
                return answer if v < 4 else answer.coordinators[0]

            node.created.clear()
            missing = find()
            assert missing.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert (missing.node_id, missing.host, missing.port) == (-1, "", -1)
            assert node.created == [OFFSETS_TOPIC]
            if version >= 1:
                assert find(key_type=1).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
                assert node.created == [OFFSETS_TOPIC, "__transaction_state"]
                assert find(key_type=9).error_code == ErrorCode.INVALID_REQUEST
        node.lead()
        for version in versions(ApiKey.FIND_COORDINATOR):
            keys = {"key": GROUP} if version < 4 else {"coordinator_keys": [GROUP, "other"]}
            answer = node.call(ApiKey.FIND_COORDINATOR, version, **keys).answer
            for found in [answer] if version < 4 else answer.coordinators:
                assert found.error_code == ErrorCode.NONE
                assert (found.node_id, found.host, found.port) == (ME, f"host{ME}", 9000 + ME)
        assert len(answer.coordinators) == 2
        node.cluster.publish(99, topic=OFFSETS_TOPIC, leader_epoch=1)
        lost = node.call(ApiKey.FIND_COORDINATOR, 0, key=GROUP).answer
        assert lost.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("version", versions(ApiKey.JOIN_GROUP))
async def test_a_members_life_in_every_version(
    tmp_path: Path, autojump_clock: MockClock, version: int
) -> None:
    def at(key: ApiKey) -> int:
        return min(version, API_TABLE[key].highest())

    async with a_node(tmp_path) as node:
        node.lead()
        join: dict[str, Any] = {
            "group_id": GROUP,
            "session_timeout_ms": SESSION_MS,
            "protocol_type": "consumer",
            "protocols": [
                JoinGroupRequestProtocol(name="range", metadata=subscription(TOPIC)),
            ],
        }
        if version >= 1:
            join["rebalance_timeout_ms"] = 60_000
        if version >= 4:
            first = node.call(ApiKey.JOIN_GROUP, version, **join).answer
            assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
            join["member_id"] = first.member_id
        joining = node.call(ApiKey.JOIN_GROUP, version, **join)
        assert joining.waits
        await trio.sleep(0.2)
        joined = joining.answer
        assert joined.error_code == ErrorCode.NONE
        assert joined.leader == joined.member_id
        assert joined.members[0].metadata == subscription(TOPIC)
        member = {"group_id": GROUP, "generation_id": 1, "member_id": joined.member_id}
        assignment = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")
        sync: dict[str, Any] = {**member, "assignments": [assignment]}
        if at(ApiKey.SYNC_GROUP) >= 5:
            sync.update(protocol_type="consumer", protocol_name="range")
        synced = node.call(ApiKey.SYNC_GROUP, at(ApiKey.SYNC_GROUP), **sync).answer
        assert (synced.error_code, bytes(synced.assignment)) == (ErrorCode.NONE, b"mine")
        beat = node.call(ApiKey.HEARTBEAT, at(ApiKey.HEARTBEAT), **member).answer
        assert beat.error_code == ErrorCode.NONE
        check_descriptions(node, at, joined.member_id)
        leave: dict[str, Any] = {"group_id": GROUP}
        if at(ApiKey.LEAVE_GROUP) >= 3:
            leave["members"] = [MemberIdentity(member_id=joined.member_id)]
        else:
            leave["member_id"] = joined.member_id
        left = node.call(ApiKey.LEAVE_GROUP, at(ApiKey.LEAVE_GROUP), **leave).answer
        assert left.error_code == ErrorCode.NONE
        gone = node.call(ApiKey.HEARTBEAT, at(ApiKey.HEARTBEAT), **member).answer
        assert gone.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        deleted = node.call(
            ApiKey.DELETE_GROUPS, at(ApiKey.DELETE_GROUPS), groups_names=[GROUP, "nobody"]
        ).answer
        assert {r.group_id: r.error_code for r in deleted.results} == {
            GROUP: ErrorCode.NONE,
            "nobody": ErrorCode.GROUP_ID_NOT_FOUND,
        }


def check_descriptions(node: Node, at: Any, member_id: str) -> None:
    version = at(ApiKey.DESCRIBE_GROUPS)
    options = {"include_authorized_operations": True} if version >= 3 else {}
    answer = node.call(ApiKey.DESCRIBE_GROUPS, version, groups=[GROUP, "nobody"], **options).answer
    stable, dead = answer.groups
    assert (stable.group_state, stable.protocol_data) == ("Stable", "range")
    assert stable.members[0].member_id == member_id
    assert stable.members[0].client_host == "/127.0.0.1"
    assert stable.members[0].client_id == "client"
    missing = ErrorCode.NONE if version < 6 else ErrorCode.GROUP_ID_NOT_FOUND
    assert (dead.error_code, dead.group_state) == (missing, "Dead")
    if version >= 3:
        assert stable.authorized_operations == 1 << 3 | 1 << 6 | 1 << 8
    version = at(ApiKey.LIST_GROUPS)
    filters = {"states_filter": ["stable"]} if version >= 4 else {}
    listed = node.call(ApiKey.LIST_GROUPS, version, **filters).answer
    assert [g.group_id for g in listed.groups] == [GROUP]


async def test_offsets_in_every_version(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_node(tmp_path) as node:
        for version in versions(ApiKey.OFFSET_FETCH):
            expected = (
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if version == 0
                else (ErrorCode.NOT_COORDINATOR)
            )
            if version == 0:
                call = node.fetch(0)
                await trio.testing.wait_all_tasks_blocked()
                assert call.answer.topics[0].partitions[0].error_code == expected
            else:
                assert node.committed(version) == (expected, -1)
        node.lead()
        for version in versions(ApiKey.OFFSET_COMMIT):
            call = node.commit(version, 100 + version)
            await trio.testing.wait_all_tasks_blocked()
            assert commit_error(call) is ErrorCode.NONE
            missing = node.commit(version, 1, topic="no-such-topic")
            await trio.testing.wait_all_tasks_blocked()
            assert commit_error(missing) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            for fetch_version in versions(ApiKey.OFFSET_FETCH):
                if version == 0 or fetch_version == 0:
                    continue
                assert node.committed(fetch_version) == (ErrorCode.NONE, 100 + version)
                assert node.committed(fetch_version, group="nobody") == (ErrorCode.NONE, -1)
        assert node.zookeeper.offsets == {(GROUP, TOPIC, 0): 100}
        for version in range(2, 8):
            everything = node.call(ApiKey.OFFSET_FETCH, version, group_id=GROUP, topics=None)
            assert everything.answer.topics[0].partitions[0].committed_offset == 109
        delete = [
            OffsetDeleteRequestTopic(
                name=name, partitions=[OffsetDeleteRequestPartition(partition_index=0)]
            )
            for name in (TOPIC, "no-such-topic")
        ]
        answer = node.call(ApiKey.OFFSET_DELETE, 0, group_id=GROUP, topics=delete).answer
        assert [t.partitions[0].error_code for t in answer.topics] == [
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]


async def test_version_0_keeps_offsets_in_zookeeper(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async def ask(call: Call) -> Any:
        await trio.testing.wait_all_tasks_blocked()
        return call.answer.topics[0].partitions[0]

    async with a_node(tmp_path) as node:
        assert (await ask(node.fetch(0))).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert (await ask(node.commit(0, 7))).error_code == ErrorCode.NONE
        found = await ask(node.fetch(0))
        assert (found.error_code, found.committed_offset) == (ErrorCode.NONE, 7)
        node.zookeeper.is_broken = True
        assert (await ask(node.commit(0, 8))).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert (await ask(node.fetch(0))).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


async def test_a_commit_waits_for_the_other_replicas(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with a_node(tmp_path, replicas=(ME, 2)) as node:
        node.lead()
        call = node.commit(9, 5)
        assert call.answer is None
        assert node.committed() == (ErrorCode.NONE, -1)
        node.follower_catches_up()
        assert commit_error(call) is ErrorCode.NONE
        assert node.committed() == (ErrorCode.NONE, 5)
        late = node.commit(9, 6)
        await trio.sleep(COMMIT_TIMEOUT_MS / 1000 - 0.1)
        assert late.answer is None
        await trio.sleep(0.2)
        assert commit_error(late) is ErrorCode.REQUEST_TIMED_OUT
        assert node.committed() == (ErrorCode.NONE, 5)


async def test_losing_the_leadership_answers_those_who_wait(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with a_node(tmp_path, replicas=(ME, 2)) as node:
        node.lead()
        committing = node.commit(9, 5)
        joining = node.join()
        assert committing.waits
        assert joining.waits
        node.lead(2, epoch=1)
        assert commit_error(committing) is ErrorCode.NOT_COORDINATOR
        assert joining.answer.error_code == ErrorCode.NOT_COORDINATOR
        assert node.committed() == (ErrorCode.NOT_COORDINATOR, -1)


async def test_sessions_end_without_any_request(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_node(tmp_path) as node:
        node.lead()
        call = node.join()
        await trio.sleep(0.2)
        assert call.answer.generation_id == 1
        await trio.sleep(SESSION_MS / 1000)
        assert node.runtime.machine.describe_group(GROUP).group_state == "Empty"


async def test_deleted_topics_lose_their_offsets(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_node(tmp_path) as node:
        node.lead()
        node.commit(9, 5)
        node.runtime.on_partitions_deleted([(TOPIC, 0)], node.clock())
        assert node.committed() == (ErrorCode.NONE, -1)


@pytest.mark.parametrize("load_buffer_bytes", [1, 500, 1 << 20])
async def test_a_restarted_broker_reads_everything_back(
    tmp_path: Path, load_buffer_bytes: int
) -> None:
    async with a_node(tmp_path) as node:
        node.lead()
        for offset in range(50):
            node.commit(9, offset)
            node.commit(9, offset, group=f"group-{offset}")
        node.call(ApiKey.DELETE_GROUPS, 2, groups_names=["group-7"])
    async with a_node(tmp_path, load_buffer_bytes=load_buffer_bytes) as node:
        node.lead(epoch=1)
        assert node.committed()[0] == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        for _ in range(30_000):
            await trio.sleep(0.001)
            if node.committed()[0] != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                break
        assert node.committed() == (ErrorCode.NONE, 49)
        assert node.committed(group="group-33") == (ErrorCode.NONE, 33)
        assert node.committed(group="group-7") == (ErrorCode.NONE, -1)


@needs_sources
async def test_a_partition_that_cannot_be_read_is_not_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_node(tmp_path) as node:
        node.lead()
        node.commit(9, 5)
    async with a_node(tmp_path) as node:

        def broken(*_: Any, **__: Any) -> Any:
            raise OSError("bad sector")

        log_class = type(node.cluster.log_manager.get_log(OFFSETS_TOPIC, 0))
        with monkeypatch.context() as patch:
            patch.setattr(log_class, "read", broken)
            node.lead(epoch=1)
            await trio.testing.wait_all_tasks_blocked()
        assert node.committed() == (ErrorCode.NOT_COORDINATOR, -1)


async def test_a_load_ends_when_its_partition_goes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its log may be deleted, and other partitions wait for their turn to be read."""
    async with a_node(tmp_path) as node:
        node.lead()
        for offset in range(50):
            node.commit(9, offset)
    async with a_node(tmp_path, load_buffer_bytes=1) as node:
        node.lead(epoch=1)
        await trio.sleep(0.001)
        node.stop_replica(epoch=2)
        async with node.runtime._load_limit:
            assert not node.runtime.load_times_ms
        assert node.committed() == (ErrorCode.NOT_COORDINATOR, -1)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_the_new_group_protocol_is_refused(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with a_node(tmp_path) as node:
        beat = node.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, group_id=GROUP).answer
        assert beat.error_code == ErrorCode.UNSUPPORTED_VERSION
        described = node.call(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, group_ids=["a", "b"]).answer
        assert [(g.group_id, g.error_code) for g in described.groups] == [
            ("a", ErrorCode.UNSUPPORTED_VERSION),
            ("b", ErrorCode.UNSUPPORTED_VERSION),
        ]


def test_the_configuration_has_kafkas_defaults() -> None:
    assert group_config(KafkaConfig({})) == GroupConfig()
    assert consumer_group_config(KafkaConfig({})) == ConsumerGroupConfig()


def template_of(message: Any) -> RepeatedRequestTemplate:
    """The template of a connection by which this was read."""
    metrics = RequestMetrics(ApiKey.OFFSET_COMMIT.name, 0)
    route = Route(ApiKey.OFFSET_COMMIT, 0, lambda _: None, metrics, Turns())
    template = RepeatedRequestTemplate(route, 0, 0)
    template.body = message
    return template


async def test_a_plan_is_used_again_and_looks_again_at_what_may_change(tmp_path: Path) -> None:
    """By the real clock: a worker thread reads the log, and virtual time would fly past it."""
    async with a_node(tmp_path) as node:
        node.lead()
        assert commit_error(node.commit(7, 1)) is ErrorCode.NONE
        templates: list[RepeatedRequestTemplate] = []

        def the_same(message: Any) -> OffsetCommitRequest:
            if not templates:
                templates.append(template_of(message))
            body: OffsetCommitRequest = templates[0].body
            entry = message.topics[0].partitions[0]
            body.topics[0].partitions[0].committed_offset = entry.committed_offset
            return body

        def again(offset: int) -> ErrorCode:
            entry = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
            topics = [OffsetCommitRequestTopic(name=TOPIC, partitions=[entry])]
            message = OffsetCommitRequest(group_id=GROUP, topics=topics)
            key = ApiKey.OFFSET_COMMIT
            call = Call(
                node.offsets, key, 7, message, as_body=the_same,
                template_of=lambda _: templates[0],
            )  # fmt: skip
            return commit_error(call)

        with patch.object(GroupCoordinator, "commit_offsets", side_effect=AssertionError):
            for offset in (5, 9, 7):
                assert again(offset) is ErrorCode.NONE
                assert node.committed() == (ErrorCode.NONE, offset)
        node.cluster.publish(-2)  # it is being deleted
        assert again(8) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        node.cluster.publish(ME, leader_epoch=1)
        assert again(8) is ErrorCode.NONE
        node.lead(2, epoch=1)
        assert again(9) is ErrorCode.NOT_COORDINATOR
        node.lead(ME, epoch=2)
        await eventually(lambda: again(10) is ErrorCode.NONE)
        assert node.committed() == (ErrorCode.NONE, 10)
        assert node.runtime.machine.stats.offsets_committed == 6
