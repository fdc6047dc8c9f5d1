"""OffsetCommit, OffsetFetch, OffsetDelete and the expiry of offsets, case by case."""

import pytest

from pybroker_kafka.coordinator.group.core import GroupConfig
from pybroker_kafka.coordinator.group.offsets import CommittedOffset, OffsetAndMetadata, OffsetStore
from pybroker_kafka.coordinator.group.stable_fetch import Wanted
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.wall_clock import WallClock
from tests.unit.coordinator.group.harness import GROUP, HOST, Harness, partition_errors

T0, T1 = ("topic-1", 0), ("topic-1", 1)
OTHER = ("topic-2", 0)
MINUTE_MS = 60_000
RETENTION_MS = GroupConfig().offsets_retention_ms
CHECK_MS = GroupConfig().offsets_retention_check_interval_ms


@pytest.fixture
def h() -> Harness:
    return Harness()


@pytest.fixture(autouse=True, params=[False, True], ids=["once", "again"])
def repeats_commits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of this holds for commits that a client repeats as well."""
    monkeypatch.setattr(Harness, "repeats_commits", request.param)


class TestCommit:
    def test_a_member_commits(self, h: Harness) -> None:
        (leader,) = h.stable_group()
        call = h.commit({T0: 5, T1: 7}, generation_id=1, member_id=leader)
        assert partition_errors(call) == {T0: ErrorCode.NONE, T1: ErrorCode.NONE}
        assert (h.offset(*T0), h.offset(*T1)) == (5, 7)

    def test_a_simple_consumer_creates_an_empty_group(self, h: Harness) -> None:
        h.commit({T0: 5})
        assert h.state() == "Empty"
        assert h.offset(*T0) == 5
        h.restart()
        assert h.state() == "Empty"
        assert h.offset(*T0) == 5

    def test_the_empty_group_id_may_commit(self, h: Harness) -> None:
        h.commit({T0: 5}, group="")
        assert h.offset(*T0, group="") == 5

    def test_a_commit_is_visible_only_when_it_is_stored(self, h: Harness) -> None:
        h.commit({T0: 5})
        h.is_holding = True
        call = h.commit({T0: 6, T1: 1})
        assert call.is_waiting
        assert (h.offset(*T0), h.offset(*T1)) == (5, -1)
        (unstable,) = h.fetch_stable(T0, T1).response
        for topic in unstable.topics:
            (entry,) = topic.partitions
            assert entry.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
            assert entry.committed_offset == -1
        h.release()
        assert (h.offset(*T0), h.offset(*T1)) == (6, 1)

    def test_an_older_commit_that_completes_later_changes_nothing(self, h: Harness) -> None:
        h.is_holding = True
        h.commit({T0: 1})
        h.commit({T0: 2})
        h.held.reverse()
        h.release()
        assert h.offset(*T0) == 2
        h.is_holding = False
        (stable,) = h.fetch_stable(T0).response
        assert stable.topics[0].partitions[0].committed_offset == 2

    @pytest.mark.parametrize(
        ("append_error", "client_error"),
        [
            (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE),
            (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
            (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
            (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
            (ErrorCode.NETWORK_EXCEPTION, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
            (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT),
        ],
    )
    def test_a_commit_that_cannot_be_stored(
        self, h: Harness, append_error: ErrorCode, client_error: ErrorCode
    ) -> None:
        h.commit({T0: 5})
        h.is_holding = True
        call = h.commit({T0: 6})
        h.release(append_error)
        assert partition_errors(call) == {T0: client_error}
        assert h.offset(*T0) == 5
        h.is_holding = False
        (stable,) = h.fetch_stable(T0).response
        assert stable.topics[0].partitions[0].error_code == ErrorCode.NONE

    @pytest.mark.parametrize(
        ("append_error", "error"),
        [
            (ErrorCode.NONE, ErrorCode.NONE),
            (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NONE),
            (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.NONE),
            (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
            (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_COORDINATOR),
            (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        ],
    )
    def test_stable_offsets_are_told_when_the_isr_has_heard_of_them(
        self, h: Harness, append_error: ErrorCode, error: ErrorCode
    ) -> None:
        h.commit({T0: 5})
        h.advance(1_000)
        h.is_holding = True
        known, unknown = h.fetch_stable(T0), h.fetch_stable(T1, group="nobody")
        assert known.is_waiting
        assert unknown.is_waiting
        h.release(append_error)
        for call, offset in ((known, 5), (unknown, -1)):
            (answer,) = call.response
            assert answer.error_code == error
            told = [entry.committed_offset for t in answer.topics for entry in t.partitions]
            assert told == ([] if error else [offset])
        h.restart()
        assert (h.offset(*T0), h.offset(*T1, group="nobody")) == (5, -1)
        assert [group.group_id for group in h.machine.groups] == [GROUP]

    def test_without_proof_stable_offsets_come_from_memory(self) -> None:
        """pybroker.coordinator.proof=false: as Apache Kafka 3.9."""
        h = Harness(GroupConfig(proves=False))
        h.commit({T0: 5})
        h.is_holding = True
        (answer,) = h.fetch_stable(T0).response
        assert answer.topics[0].partitions[0].committed_offset == 5
        assert not h.held

    def test_several_groups_are_proved_by_their_partitions(self, h: Harness) -> None:
        groups = [f"group-{n}" for n in range(8)]
        for group in groups:
            h.commit({T0: 1}, group=group)
        h.is_holding = True
        call = h._call("fetch of all")
        wanted = [Wanted(group, [("topic-1", [0])]) for group in groups]
        h.machine.fetch_stable_offsets(call, wanted, h.now_ms)
        h.perform()
        partitions = {h.machine.partition_for(group) for group in groups}
        assert sorted(append.partition for append, _ in h.held) == sorted(partitions)
        failing = h.held.pop()
        h.release()
        assert call.is_waiting
        h.held = [failing]
        h.release(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        for answer in call.response:
            is_lost = h.machine.partition_for(answer.group_id) == failing[0].partition
            expected = ErrorCode.NOT_COORDINATOR if is_lost else ErrorCode.NONE
            assert answer.error_code == expected
        assert [answer.group_id for answer in call.response] == groups

    def test_checks(self, h: Harness) -> None:
        def error(**options: object) -> ErrorCode:
            return partition_errors(h.commit({T0: 1}, **options))[T0]  # type: ignore[arg-type]

        assert error(generation_id=1, group="new") is ErrorCode.ILLEGAL_GENERATION
        (leader,) = h.stable_group()
        assert error() is ErrorCode.UNKNOWN_MEMBER_ID
        assert error(generation_id=1, member_id="stranger") is ErrorCode.UNKNOWN_MEMBER_ID
        assert error(generation_id=2, member_id=leader) is ErrorCode.ILLEGAL_GENERATION
        assert error(generation_id=-1, member_id=leader) is ErrorCode.ILLEGAL_GENERATION
        assert error(generation_id=1, member_id=leader, instance="i") is (
            ErrorCode.UNKNOWN_MEMBER_ID
        )
        assert error(generation_id=1, member_id=leader) is ErrorCode.NONE
        h.join_new()
        assert error(generation_id=1, member_id=leader) is ErrorCode.NONE  # PreparingRebalance
        h.join(leader)
        assert error(generation_id=2, member_id=leader) is ErrorCode.REBALANCE_IN_PROGRESS

    def test_a_commit_keeps_the_session_alive(self, h: Harness) -> None:
        (leader,) = h.stable_group(session_ms=10_000)
        for _ in range(3):
            h.advance(9_000)
            h.commit({T0: 1}, generation_id=1, member_id=leader)
        assert h.state() == "Stable"

    def test_partitions_that_do_not_exist(self, h: Harness) -> None:
        call = h.commit({T0: 1, OTHER: 2}, unknown=frozenset({OTHER}))
        assert partition_errors(call) == {
            T0: ErrorCode.NONE,
            OTHER: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert h.offset(*OTHER) == -1
        nothing = h.commit({OTHER: 2}, group="unseen", unknown=frozenset({OTHER}))
        assert partition_errors(nothing) == {OTHER: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert h.state("unseen") == "Dead"

    @pytest.mark.parametrize(
        ("metadata", "error"),
        [
            ("x" * 4096, ErrorCode.NONE),
            ("x" * 4097, ErrorCode.OFFSET_METADATA_TOO_LARGE),
            ("é" * 4096, ErrorCode.NONE),
            ("\U0001f600" * 2048, ErrorCode.NONE),
            ("\U0001f600" * 2048 + "x", ErrorCode.OFFSET_METADATA_TOO_LARGE),
            (None, ErrorCode.NONE),
        ],
    )
    def test_metadata_is_measured_in_utf16(
        self, h: Harness, metadata: str | None, error: ErrorCode
    ) -> None:
        assert partition_errors(h.commit({T0: 1}, metadata=metadata)) == {T0: error}

    def test_all_that_was_committed_comes_back(self, h: Harness) -> None:
        h.commit({T0: 5}, metadata="note", leader_epoch=3)
        for _ in range(2):
            entry = h.machine.fetch_offsets(GROUP, [("topic-1", [0])]).topics[0].partitions[0]
            assert (entry.committed_offset, entry.committed_leader_epoch, entry.metadata) == (
                5,
                3,
                "note",
            )
            h.restart()


class TestFetch:
    def test_what_was_never_committed(self, h: Harness) -> None:
        answer = h.machine.fetch_offsets("nobody", [("topic-1", [0, 1])])
        assert answer.error_code == ErrorCode.NONE
        entries = answer.topics[0].partitions
        assert [(e.committed_offset, e.committed_leader_epoch, e.metadata) for e in entries] == [
            (-1, -1, ""),
            (-1, -1, ""),
        ]

    def test_all_offsets(self, h: Harness) -> None:
        assert h.machine.fetch_offsets(GROUP, None).topics == []
        h.commit({T0: 1, T1: 2, OTHER: 3})
        topics = h.machine.fetch_offsets(GROUP, None).topics
        found = {
            (t.name, e.partition_index): e.committed_offset for t in topics for e in t.partitions
        }
        assert found == {T0: 1, T1: 2, OTHER: 3}


class TestDelete:
    def test_of_an_empty_group(self, h: Harness) -> None:
        h.commit({T0: 1, T1: 2})
        call = h.delete_offsets(T0, OTHER)
        assert partition_errors(call) == {T0: ErrorCode.NONE, OTHER: ErrorCode.NONE}
        assert (h.offset(*T0), h.offset(*T1)) == (-1, 2)
        h.restart()
        assert (h.offset(*T0), h.offset(*T1)) == (-1, 2)

    def test_topics_that_are_consumed_are_kept(self, h: Harness) -> None:
        (leader,) = h.stable_group()
        h.commit({T0: 1, OTHER: 2}, generation_id=1, member_id=leader)
        call = h.delete_offsets(T0, OTHER)
        assert partition_errors(call) == {
            T0: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
            OTHER: ErrorCode.NONE,
        }
        assert (h.offset(*T0), h.offset(*OTHER)) == (1, -1)

    def test_an_unreadable_subscription_counts_as_subscribed(self, h: Harness) -> None:
        h.stable_group(protocols={"range": b"\x00\x00\x00\x00\x00\x09"})
        call = h.delete_offsets(OTHER)
        assert partition_errors(call) == {OTHER: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}

    def test_errors_of_the_whole(self, h: Harness) -> None:
        assert h.delete_offsets(T0).error is ErrorCode.GROUP_ID_NOT_FOUND
        assert h.delete_offsets(T0, group="").error is ErrorCode.INVALID_GROUP_ID
        h.stable_group(protocol_type="connect")
        refused = h.delete_offsets(T0)
        assert refused.error is ErrorCode.NON_EMPTY_GROUP
        assert refused.response.topics == []

    def test_the_last_offset_of_an_empty_group_takes_the_group_along(self, h: Harness) -> None:
        h.commit({T0: 1})
        h.delete_offsets(T0)
        assert h.state() == "Dead"

    def test_a_deleted_topic_loses_its_offsets_in_all_groups(self, h: Harness) -> None:
        (leader,) = h.stable_group()
        h.commit({T0: 1, OTHER: 2}, generation_id=1, member_id=leader)
        h.commit({T0: 3}, group="simple")
        h.machine.partitions_deleted([T0, T1], h.now_ms)
        h.perform()
        for _ in range(2):
            assert (h.offset(*T0), h.offset(*OTHER)) == (-1, 2)
            assert h.state("simple") == "Dead"
            h.restart()

    def test_a_commit_on_its_way_is_deleted_too(self, h: Harness) -> None:
        h.is_holding = True
        h.commit({T0: 1})
        h.machine.partitions_deleted([T0], h.now_ms)
        h.perform()
        h.release()
        for _ in range(2):
            assert h.offset(*T0) == -1
            h.restart()

    def test_a_commit_from_before_the_deletion_stays_void_when_another_follows(
        self, h: Harness
    ) -> None:
        h.is_holding = True
        h.commit({T0: 1})
        h.machine.partitions_deleted([T0], h.now_ms)
        h.perform()
        first, h.held = h.held, []
        h.commit({T0: 2})
        second, h.held = h.held, first
        h.release()
        assert h.offset(*T0) == -1
        h.held = second
        h.release()
        assert h.offset(*T0) == 2


class TestDeleteGroup:
    def test_an_empty_group_goes_with_its_offsets(self, h: Harness) -> None:
        (leader,) = h.stable_group()
        h.commit({T0: 1}, generation_id=1, member_id=leader)
        assert h.delete_group() is ErrorCode.NON_EMPTY_GROUP
        h.leave((leader, None))
        assert h.delete_group() is ErrorCode.NONE
        for _ in range(2):
            assert h.state() == "Dead"
            assert h.offset(*T0) == -1
            assert h.delete_group() is ErrorCode.GROUP_ID_NOT_FOUND
            h.restart()

    def test_a_commit_on_its_way_does_not_bring_it_back(self, h: Harness) -> None:
        h.is_holding = True
        commit = h.commit({T0: 1})
        assert h.delete_group() is ErrorCode.NONE
        h.release()
        assert partition_errors(commit) == {T0: ErrorCode.NONE}
        h.restart()
        assert h.state() == "Dead"


class TestExpiry:
    def test_of_an_empty_group_counts_from_when_it_became_empty(self, h: Harness) -> None:
        (leader,) = h.stable_group(session_ms=1_800_000)
        h.commit({T0: 1}, generation_id=1, member_id=leader)
        for _ in range(RETENTION_MS // CHECK_MS + 1):
            h.advance(CHECK_MS)
            assert h.heartbeat(leader, 1) is ErrorCode.NONE
        h.leave((leader, None))
        h.advance(RETENTION_MS - CHECK_MS)
        assert h.offset(*T0) == 1
        h.advance(2 * CHECK_MS)
        for _ in range(2):
            assert h.state() == "Dead"
            assert h.offset(*T0) == -1
            h.restart()

    def test_of_a_stable_group_only_topics_without_subscription(self, h: Harness) -> None:
        (leader,) = h.stable_group(session_ms=1_800_000)
        h.commit({T0: 1, OTHER: 2}, generation_id=1, member_id=leader)
        for _ in range(RETENTION_MS // CHECK_MS + 1):
            h.advance(CHECK_MS)
            assert h.heartbeat(leader, 1) is ErrorCode.NONE
        assert (h.offset(*T0), h.offset(*OTHER)) == (1, -1)

    def test_of_a_simple_consumer_counts_from_the_commit(self, h: Harness) -> None:
        h.commit({T0: 1})
        h.advance(RETENTION_MS // 2)
        h.commit({T1: 1})
        h.advance(RETENTION_MS // 2 + CHECK_MS)
        assert (h.offset(*T0), h.offset(*T1)) == (-1, 1)
        h.advance(RETENTION_MS // 2)
        assert h.state() == "Dead"

    def test_an_explicit_expire_timestamp(self, h: Harness) -> None:
        h.commit({T0: 1}, retention_ms=5 * MINUTE_MS)
        h.commit({T1: 1})
        h.restart()
        h.advance(CHECK_MS)
        assert (h.offset(*T0), h.offset(*T1)) == (-1, 1)

    def test_a_commit_timestamp_of_version_1(self, h: Harness) -> None:
        h.commit({T0: 1}, timestamp_ms=h.now_ms - RETENTION_MS)
        h.advance(CHECK_MS)
        assert h.state() == "Dead"

    def test_a_commit_on_its_way_is_not_expired(self, h: Harness) -> None:
        h.commit({T0: 1}, retention_ms=1)
        h.is_holding = True
        h.commit({T0: 2}, retention_ms=1)
        h.advance(CHECK_MS)
        assert h.offset(*T0) == 1

    @pytest.mark.parametrize("step_ms", [2 * RETENTION_MS, -2 * RETENTION_MS])
    def test_what_was_committed_here_does_not_notice_a_jump(self, h: Harness, step_ms: int) -> None:
        (leader,) = h.stable_group()
        h.commit({T0: 1}, generation_id=1, member_id=leader)
        h.leave((leader, None))
        h.commit({T0: 2}, group="simple")
        h.commit({T0: 3}, group="old", retention_ms=RETENTION_MS)
        jump(h, step_ms)
        h.advance(RETENTION_MS - CHECK_MS)
        assert [h.offset(*T0, group=g) for g in (GROUP, "simple", "old")] == [1, 2, 3]
        h.advance(2 * CHECK_MS)
        assert [h.offset(*T0, group=g) for g in (GROUP, "simple", "old")] == [-1, -1, -1]

    def test_what_was_loaded_rests_after_a_jump(self, h: Harness) -> None:
        (leader,) = h.stable_group()
        h.commit({T0: 1}, generation_id=1, member_id=leader)
        h.leave((leader, None))
        h.commit({T0: 2}, group="simple")
        h.restart()
        h.advance(CHECK_MS - 1000)
        jump(h, 2 * RETENTION_MS)
        h.advance(2000)
        jump(h, -2 * RETENTION_MS)
        h.advance(3 * CHECK_MS)
        assert [h.offset(*T0, group=g) for g in (GROUP, "simple")] == [1, 2]
        jump(h, 2 * RETENTION_MS)
        h.advance(CHECK_MS - 1000)
        assert [h.offset(*T0, group=g) for g in (GROUP, "simple")] == [1, 2]
        h.advance(CHECK_MS + 1000)  # it has jumped and stays
        assert [h.offset(*T0, group=g) for g in (GROUP, "simple")] == [-1, -1]

    def test_no_stamp_of_a_clock_that_has_just_jumped_back(self, h: Harness) -> None:
        jump(h, -2 * RETENTION_MS)
        (leader,) = h.stable_group()
        h.commit({T0: 1}, generation_id=1, member_id=leader)
        h.leave((leader, None))
        h.wall = WallClock()
        h.restart()
        h.advance(2 * CHECK_MS)
        assert h.offset(*T0) == 1


def jump(h: Harness, step_ms: int) -> None:
    h.wall.note(h.now_ms, h.wall.at_ms(h.now_ms) + step_ms)


def test_describe_and_list(h: Harness) -> None:
    leader, _ = h.stable_group(members=2)
    h.commit({T0: 1}, group="simple")
    view = h.machine.describe_group(GROUP)
    assert (view.group_state, view.protocol_type, view.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    assert view.members[0].member_assignment == f"assigned to {leader}".encode()
    assert view.members[0].client_host == HOST
    h.join_new()
    view = h.machine.describe_group(GROUP)
    assert (view.group_state, view.protocol_data) == ("PreparingRebalance", "")
    assert all(not m.member_metadata and not m.member_assignment for m in view.members)
    assert h.machine.describe_group("nobody").group_state == "Dead"

    def listed(*filters: tuple[str, ...]) -> set[str]:
        return {g.group_id for g in h.machine.list_groups(*filters).groups}

    assert listed() == {GROUP, "simple"}
    assert listed(("EMPTY", "Stable")) == {"simple"}
    assert listed(("preparingrebalance",)) == {GROUP}
    assert listed(("nonsense",)) == set()
    assert listed((), ("Classic",)) == {GROUP, "simple"}
    assert listed((), ("consumer",)) == set()


def test_offsets_of_transactions_wait_for_their_marker() -> None:
    def value(offset: int) -> OffsetAndMetadata:
        return OffsetAndMetadata(offset, -1, "", 0)

    store = OffsetStore()
    store.load(
        {T0: CommittedOffset(10, value(1)), T1: CommittedOffset(12, value(1))},
        {7: {T0: CommittedOffset(11, value(2)), T1: CommittedOffset(11, value(2))}},
    )
    assert store.has_pending(T0)
    store.complete_transaction(8, committed=True)
    assert store.has_pending(T0)
    store.complete_transaction(7, committed=True)
    assert not store.has_pending(T0)
    assert store.snapshot() == {T0: value(2), T1: value(1)}
