"""Groups of the consumer protocol (KIP-848), case by case."""

from __future__ import annotations

import pytest

from pybroker_kafka.coordinator.group.consumer.changes import SetMember, SetProgress
from pybroker_kafka.coordinator.group.consumer.config import ConsumerGroupConfig
from pybroker_kafka.coordinator.group.consumer.consumer_group import ConsumerGroup
from pybroker_kafka.coordinator.group.consumer.heartbeats import REGEX_MIN_INTERVAL_MS
from pybroker_kafka.coordinator.group.consumer.member import MemberMetadata, Progress
from pybroker_kafka.protocol.errors import ErrorCode
from tests.unit.coordinator.group.consumer_harness import Consumer, ConsumerHarness, Topics
from tests.unit.coordinator.group.harness import GROUP, partition_errors
from tests.unit.coordinator.group.test_transactional_offsets import commit as commit_in_transaction

TIMEOUT_MS = ConsumerGroupConfig().session_timeout_ms
INTERVAL_MS = ConsumerGroupConfig().assignment_interval_ms


@pytest.fixture
def h() -> ConsumerHarness:
    return ConsumerHarness(Topics(t=4, u=2))


def settle(h: ConsumerHarness, *consumers: Consumer) -> None:
    """Heartbeats until nothing changes."""
    for _ in range(20):
        before = [(consumer.epoch, consumer.owned) for consumer in consumers]
        h.advance(INTERVAL_MS)
        for consumer in consumers:
            assert consumer.beat().error is ErrorCode.NONE
        if before == [(consumer.epoch, consumer.owned) for consumer in consumers]:
            return
    pytest.fail("the group does not settle")


def commit(
    h: ConsumerHarness, offsets: dict[tuple[str, int], int], member: str, epoch: int
) -> dict[tuple[str, int], ErrorCode]:
    answer = h.commit(offsets, member_id=member, generation_id=epoch).response
    return {
        (topic.name, entry.partition_index): ErrorCode(entry.error_code)
        for topic in answer.topics
        for entry in topic.partitions
    }


def state(h: ConsumerHarness) -> str:
    return str(h.machine.describe_consumer_group(GROUP).group_state)


def test_the_first_member_gets_all_partitions(h: ConsumerHarness) -> None:
    call = h.join_consumer("a", "t")
    assert (call.response.member_id, call.response.member_epoch) == ("a", 2)
    assert call.response.heartbeat_interval_ms == 5_000
    assert h.assigned(call) == {"t": [0, 1, 2, 3]}
    assert state(h) == "Stable"
    again = h.beat("a", 2)
    assert (again.response.member_epoch, again.response.assignment) == (2, None)


def test_partitions_move_when_their_owner_gives_them_up(h: ConsumerHarness) -> None:
    h.join_consumer("a", "t")
    h.advance(INTERVAL_MS)
    second = h.join_consumer("b", "t")
    assert (second.response.member_epoch, h.assigned(second)) == (3, {})
    assert state(h) == "Reconciling"
    first = h.beat("a", 2)
    assert (first.response.member_epoch, h.assigned(first)) == (2, {"t": [0, 1]})
    assert h.beat("b", 3).response.assignment is None
    assert h.beat("a", 2, owned={"t": [0, 1]}).response.member_epoch == 3
    assert h.assigned(h.beat("b", 3)) == {"t": [2, 3]}
    assert state(h) == "Stable"


def test_a_target_is_not_computed_again_within_its_interval(h: ConsumerHarness) -> None:
    h.join_consumer("a", "t")
    call = h.join_consumer("b", "t")
    assert (call.response.member_epoch, h.assigned(call)) == (2, {})
    assert state(h) == "Assigning"
    h.advance(INTERVAL_MS)
    assert h.beat("b", 2).response.member_epoch == 3


def test_a_member_that_leaves_begins_an_epoch(h: ConsumerHarness) -> None:
    a, b = Consumer(h, "a", "t"), Consumer(h, "b", "t")
    settle(h, a, b)
    call = h.beat("b", -1)
    assert (call.response.member_id, call.response.member_epoch) == ("b", -1)
    settle(h, a)
    assert a.owned == {"t": [0, 1, 2, 3]}
    assert h.beat("b", 3).error is ErrorCode.UNKNOWN_MEMBER_ID
    h.beat("a", -1)
    assert state(h) == "Empty"


def test_a_session_ends(h: ConsumerHarness) -> None:
    a, b = Consumer(h, "a", "t"), Consumer(h, "b", "t")
    settle(h, a, b)
    h.advance(TIMEOUT_MS - 1)
    a.beat()
    h.advance(1)
    assert list(h.consumer_group().members) == ["a"]
    settle(h, a)
    assert a.owned == {"t": [0, 1, 2, 3]}


def test_a_member_that_gives_up_nothing_is_removed(h: ConsumerHarness) -> None:
    h.join_consumer("a", "t", timeout_ms=10_000)
    h.advance(INTERVAL_MS)
    h.join_consumer("b", "t")
    h.beat("a", 2)
    h.advance(9_999)
    h.beat("a", 2)
    h.beat("b", 3)
    assert len(h.consumer_group().members) == 2
    h.advance(1)
    assert list(h.consumer_group().members) == ["b"]


def test_epochs_are_fenced(h: ConsumerHarness) -> None:
    a = Consumer(h, "a", "t")
    settle(h, a, Consumer(h, "b", "t"))
    assert h.beat("a", a.epoch + 1).error is ErrorCode.FENCED_MEMBER_EPOCH
    assert h.beat("a", a.epoch - 1).error is ErrorCode.FENCED_MEMBER_EPOCH
    assert h.beat("a", a.epoch - 1, owned={"t": [3]}).error is ErrorCode.FENCED_MEMBER_EPOCH
    # It has not seen the answer with its epoch.
    assert h.beat("a", a.epoch - 1, owned={"t": [0]}).error is ErrorCode.NONE
    assert h.beat("a", 0, names=["t"], owned={}, timeout_ms=1).error is ErrorCode.NONE
    assert h.beat("nobody", 1).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert h.beat("a", 1, group="none").error is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(
    ("epoch", "values"),
    [
        (0, {"owned": {}, "names": ["t"]}),
        (0, {"names": ["t"], "timeout_ms": 1}),
        (0, {"names": ["t"], "timeout_ms": 1, "owned": {"t": [0]}}),
        (0, {"timeout_ms": 1, "owned": {}}),
        (-2, {}),
        (-3, {}),
        (1, {"instance_id": " "}),
        (1, {"rack_id": ""}),
    ],
)
def test_requests_that_make_no_sense(
    h: ConsumerHarness, epoch: int, values: dict[str, object]
) -> None:
    call = h.beat("a", epoch, **values)  # type: ignore[arg-type]
    assert call.error is ErrorCode.INVALID_REQUEST
    assert call.response.error_message


def test_a_member_chooses_its_id_from_version_1_on(h: ConsumerHarness) -> None:
    assert h.join_consumer("", "t").error is ErrorCode.INVALID_REQUEST
    assert h.join_consumer("", "t", version=0).response.member_id == "uuid1"


def test_assignors(h: ConsumerHarness) -> None:
    refused = h.join_consumer("a", "t", server_assignor="sticky")
    assert refused.error is ErrorCode.UNSUPPORTED_ASSIGNOR
    h.join_consumer("a", "t", "u", server_assignor="range")
    assert h.machine.describe_consumer_group(GROUP).assignor_name == "range"


def test_a_group_is_full(h: ConsumerHarness) -> None:
    h = ConsumerHarness(Topics(t=1), consumer_config=ConsumerGroupConfig(max_size=1))
    h.join_consumer("a", "t")
    assert h.join_consumer("b", "t").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert h.join_consumer("a", "t").error is ErrorCode.NONE


def test_a_static_member_leaves_for_a_while(h: ConsumerHarness) -> None:
    a = Consumer(h, "a", "t", instance_id="i")
    b = Consumer(h, "b", "t")
    settle(h, a, b)
    epoch, owned = h.consumer_group().epoch, a.owned
    assert h.join_consumer("c", "t", instance_id="i").error is ErrorCode.UNRELEASED_INSTANCE_ID
    left = h.beat("a", -2, instance_id="i")
    assert left.response.member_epoch == -2
    again = h.join_consumer("c", "t", instance_id="i")
    assert h.assigned(again) == owned
    assert h.consumer_group().epoch == epoch
    assert h.beat("a", a.epoch, instance_id="i").error is ErrorCode.FENCED_INSTANCE_ID
    assert h.beat("a", a.epoch, instance_id="j").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert set(h.consumer_group().members) == {"b", "c"}


def test_a_static_member_that_does_not_come_back(h: ConsumerHarness) -> None:
    a, b = Consumer(h, "a", "t", instance_id="i"), Consumer(h, "b", "t")
    settle(h, a, b)
    h.beat("a", -2, instance_id="i")
    settle(h, b)
    assert len(b.owned["t"]) == 2
    h.advance(TIMEOUT_MS - 2 * INTERVAL_MS)
    b.beat()
    h.advance(2 * INTERVAL_MS)
    settle(h, b)
    assert b.owned == {"t": [0, 1, 2, 3]}


def test_topics_change(h: ConsumerHarness) -> None:
    a = Consumer(h, "a", "t", "new")
    settle(h, a)
    h.topics.make("t", 6)
    h.topics.make("new", 1)
    assert a.beat().response.assignment is None
    h.machine.topics_changed({"t", "new"})
    settle(h, a)
    assert a.owned == {"t": [0, 1, 2, 3, 4, 5], "new": [0]}
    epoch = h.consumer_group().epoch
    h.machine.topics_changed({"t", "other"})
    settle(h, a)
    assert h.consumer_group().epoch == epoch
    h.topics.delete("new")
    h.machine.topics_changed({"new"})
    settle(h, a)
    assert list(a.owned) == ["t"]


def test_subscriptions_change(h: ConsumerHarness) -> None:
    h.join_consumer("a", "t")
    call = h.beat("a", 2, names=["u"])
    # Taken away at once, whenever the target comes.
    assert (call.response.member_epoch, h.assigned(call)) == (2, {})
    h.advance(INTERVAL_MS)
    call = h.beat("a", 2, owned={})
    assert (call.response.member_epoch, h.assigned(call)) == (3, {"u": [0, 1]})


def test_regular_expressions(h: ConsumerHarness) -> None:
    pytest.importorskip("re2")
    h.topics.make("tx", 1)
    h.hidden.add("tx")
    first = h.join_consumer("a", subscribed_topic_regex="t.?")
    assert first.error is ErrorCode.NONE
    h.advance(INTERVAL_MS)
    call = h.beat("a", first.response.member_epoch)
    assert h.assigned(call) == {"t": [0, 1, 2, 3]}
    assert h.consumer_group().regexes["t.?"].topics == {"t"}
    bad = h.beat("a", call.response.member_epoch, subscribed_topic_regex="(")
    assert bad.error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert bad.response.error_message.startswith("SubscribedTopicRegex `(` is not a valid")
    h.topics.make("ty", 1)
    h.machine.topics_changed({"ty"})
    h.advance(REGEX_MIN_INTERVAL_MS + 1)
    h.beat("a", call.response.member_epoch)
    later = h.beat("a", call.response.member_epoch)
    assert h.assigned(later) == {"t": [0, 1, 2, 3], "ty": [0]}
    h.advance(INTERVAL_MS)
    last = h.beat("a", later.response.member_epoch, subscribed_topic_regex="")
    assert h.assigned(last) == {}
    assert not h.consumer_group().regexes


def test_a_restart_changes_nothing(h: ConsumerHarness) -> None:
    a, b = Consumer(h, "a", "t", instance_id="i"), Consumer(h, "b", "t", "u")
    settle(h, a, b)
    before = h.machine.describe_consumer_group(GROUP)
    h.restart()
    after = h.machine.describe_consumer_group(GROUP)
    assert {m.member_id: m for m in after.members} == {m.member_id: m for m in before.members}
    assert (after.group_state, after.group_epoch) == (before.group_state, before.group_epoch)
    settle(h, a, b)
    assert h.consumer_group().epoch == before.group_epoch
    h.advance(TIMEOUT_MS)
    assert not h.consumer_group().members


def test_what_was_not_written_did_not_happen(h: ConsumerHarness) -> None:
    h.is_holding = True
    first = h.join_consumer("a", "t")
    assert first.is_waiting
    h.release(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert first.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not list(h.machine.groups)
    h.is_holding = False
    h.join_consumer("a", "t")
    before = h.consumer_group().members
    h.is_holding = True
    h.advance(INTERVAL_MS)
    second = h.join_consumer("b", "t")
    quiet = h.beat("a", 2)
    assert second.is_waiting
    assert quiet.is_waiting
    h.release(ErrorCode.MESSAGE_TOO_LARGE)
    assert second.error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert h.consumer_group().members.keys() == before.keys()


def test_what_was_written_late_stands(h: ConsumerHarness) -> None:
    h.is_holding = True
    first = h.join_consumer("a", "t")
    h.release(ErrorCode.REQUEST_TIMED_OUT)
    assert first.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    h.is_holding = False
    assert h.assigned(h.join_consumer("a", "t")) == {"t": [0, 1, 2, 3]}


def test_a_member_that_could_not_be_removed_is_removed_later(h: ConsumerHarness) -> None:
    h.join_consumer("a", "t")
    h.is_holding = True
    h.advance(TIMEOUT_MS)
    assert not h.consumer_group().members
    h.release(ErrorCode.NOT_ENOUGH_REPLICAS)
    h.is_holding = False
    assert h.consumer_group().members.keys() == {"a"}
    h.advance(TIMEOUT_MS)
    assert not h.consumer_group().members


def test_owners_after_two_lost_appends() -> None:
    """Two members have a partition for a moment, and lose it in the other order."""
    group, topic_id = ConsumerGroup("g"), bytes(16)
    metadata = MemberMetadata()
    for member_id in ("a", "b"):
        group.apply(SetMember(member_id, metadata))
    owned = Progress(1, 1, assigned={topic_id: {0: 1}})
    group.apply(SetProgress("a", owned))
    undo = group.apply(SetProgress("b", owned._replace(epoch=2)))
    group.sent(1, [], [undo])
    assert group.owner_epoch(topic_id, 0) == 2
    group.lost(1)
    assert group.owner_epoch(topic_id, 0) == 1


def test_transactional_offsets_and_epochs(h: ConsumerHarness) -> None:
    a, b = Consumer(h, "a", "t"), Consumer(h, "b", "t")
    settle(h, a)
    settle(h, a, b)
    assert a.epoch == 3
    late = ErrorCode.ILLEGAL_GENERATION

    def committed(member: str, epoch: int, *partitions: int, topic: str = "t") -> set[ErrorCode]:
        offsets = {(topic, n): 5 for n in partitions}
        call = commit_in_transaction(h, offsets, member_id=member, generation_id=epoch)
        return set(partition_errors(call).values())

    assert committed("a", 3, 0, 3) == {ErrorCode.NONE}
    assert committed("a", 2, 0) == {ErrorCode.NONE}
    # What it has given up refuses the whole request, as what nobody knows.
    assert committed("a", 2, 0, 3) == {late}
    assert committed("a", 2, 0, topic="unknown") == {late}
    assert committed("a", 4, 0) == {late}
    assert committed("c", 3, 0) == {ErrorCode.UNKNOWN_MEMBER_ID}
    assert committed("", -1, 0) == {ErrorCode.NONE}


def test_offsets_and_epochs(h: ConsumerHarness) -> None:
    a, b = Consumer(h, "a", "t"), Consumer(h, "b", "t")
    settle(h, a)
    assert commit(h, {("t", 3): 5}, "a", a.epoch) == {("t", 3): ErrorCode.NONE}
    settle(h, a, b)
    assert a.epoch == 3
    commits = commit(h, {("t", 0): 5, ("t", 3): 6}, "a", 2)
    assert commits == {("t", 0): ErrorCode.NONE, ("t", 3): ErrorCode.STALE_MEMBER_EPOCH}
    for member, epoch, error in (
        ("a", 4, ErrorCode.STALE_MEMBER_EPOCH),
        ("c", 3, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        assert commit(h, {("t", 0): 6}, member, epoch) == {("t", 0): error}
    fetch = h.machine.fetch_offsets
    assert fetch(GROUP, None, "a", 3).error_code == ErrorCode.NONE
    assert fetch(GROUP, None).error_code == ErrorCode.NONE
    assert fetch(GROUP, None, "a", 2).error_code == ErrorCode.STALE_MEMBER_EPOCH
    assert fetch(GROUP, None, "c", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_is_deleted(h: ConsumerHarness) -> None:
    a = Consumer(h, "a", "t")
    settle(h, a)
    h.commit({("t", 3): 5}, member_id="a", generation_id=a.epoch)
    assert h.delete_group() is ErrorCode.NON_EMPTY_GROUP
    h.beat("a", -1)
    assert h.delete_group() is ErrorCode.NONE
    assert h.machine.describe_consumer_group(GROUP).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    h.restart()
    assert not list(h.machine.groups)


def test_lists_and_descriptions(h: ConsumerHarness) -> None:
    h.join_consumer("a", "t")
    (listed,) = h.machine.list_groups().groups
    assert (listed.group_type, listed.group_state) == ("consumer", "Stable")
    assert listed.protocol_type == "consumer"
    assert not h.machine.list_groups(types=["classic"]).groups
    assert h.machine.list_groups(["stable"], ["Consumer"]).groups
    assert h.state() == "Dead"
    view = h.machine.describe_consumer_group(GROUP)
    (member,) = view.members
    assert (view.group_epoch, view.assignment_epoch, view.assignor_name) == (2, 2, "uniform")
    assert member.target_assignment.topic_partitions == member.assignment.topic_partitions
    assert (member.subscribed_topic_names, member.member_type) == (["t"], 1)


def test_an_empty_group_changes_its_protocol(h: ConsumerHarness) -> None:
    ids = h.stable_group()
    assert h.join_consumer("a", "t").error is ErrorCode.GROUP_ID_NOT_FOUND
    h.leave((ids[0], None))
    assert h.join_consumer("a", "t").error is ErrorCode.NONE
    h.restart()
    assert state(h) == "Stable"
    connect = h.join(protocol_type="connect")
    assert connect.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    h.beat("a", -1)
    h.stable_group()
    assert h.state() == "Stable"
    h.restart()
    assert h.state() == "Stable"


def test_changes_that_may_be_lost_are_not_answered_from(h: ConsumerHarness) -> None:
    """They are in the log, and were not replicated in time; a later record shows that they are."""
    h.is_holding = True
    first = h.join_consumer("a", "t")
    h.release(ErrorCode.REQUEST_TIMED_OUT)
    assert first.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    again = h.join_consumer("a", "t")
    assert again.is_waiting
    h.release(ErrorCode.REQUEST_TIMED_OUT)
    assert again.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    third = h.beat("a", 2)
    h.release()
    assert third.error is ErrorCode.NONE
    assert not h.beat("a", 2).is_waiting
    h.is_holding = False
    h.restart()
    assert h.beat("a", 2).error is ErrorCode.NONE
