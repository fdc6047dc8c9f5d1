"""A follower and its leader, exchange by exchange: the KIPs' own stories, then trouble."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pybroker_kafka.protocol.apis.fetch import FetchRequest
from pybroker_kafka.protocol.apis.list_offsets import ListOffsetsRequest
from pybroker_kafka.protocol.apis.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.replication.follower import FollowerPartition, FollowerState
from pybroker_kafka.replication.follower_steps import Exchange, FetcherConfig, Wait
from tests.support.followers import Nodes, content, history
from tests.support.log_checkpoints import checkpoint_recovery_points
from tests.support.replication import KEY

BY_EPOCH_REQUEST = FetcherConfig(truncates_on_fetch=False)


@pytest.fixture(params=[True, False], ids=["on fetch", "by epoch request"])
def config(request: pytest.FixtureRequest) -> FetcherConfig:
    return FetcherConfig(truncates_on_fetch=request.param)


def agree(nodes: Nodes, *broker_ids: int) -> bool:
    return len({content(nodes[broker_id].log) for broker_id in broker_ids}) == 1


def state_of(nodes: Nodes, broker_id: int) -> FollowerPartition:
    fetcher = nodes[broker_id].fetchers.of_partition(KEY)
    assert fetcher is not None
    (state,) = fetcher.table.states.values()
    return state


# Replication as it should be


def test_records_and_the_high_watermark_reach_the_followers(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path)
    nodes.elect(1)
    assert not nodes.produce(b"a", b"b", acks=-1)
    nodes.produce(b"c")
    assert nodes[1].log.high_watermark == 0
    nodes.catch_up(2)
    assert nodes[1].log.high_watermark == 0  # 3 is in the ISR, too
    nodes.catch_up(3)
    assert nodes[1].log.high_watermark == 3
    nodes.catch_up(2)
    assert [nodes[i].log.high_watermark for i in (2, 3)] == [3, 3]
    assert agree(nodes, 1, 2, 3)
    assert state_of(nodes, 2).is_in_sync


def test_an_append_answers_the_poll_and_the_next_fetch_acknowledges(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, (1, 2))
    nodes.elect(1)
    nodes.catch_up(2)
    step = nodes.step(2)
    assert isinstance(step, Exchange)
    assert step.is_long_poll
    nodes.produce(acks=-1)
    first, second = nodes.step(2), nodes.step(2)
    assert isinstance(first, Exchange)
    assert isinstance(second, Exchange)
    assert nodes.leader.log.high_watermark == 1
    # Only what has changed is named: nothing, then the new offset.
    assert isinstance(first.request, FetchRequest)
    assert not first.request.topics
    assert isinstance(second.request, FetchRequest)
    (topic,) = second.request.topics
    assert topic.partitions[0].fetch_offset == 1


def test_a_partition_alone_is_asked_for_more_than_one_of_many(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, (1, 2))
    nodes.elect(1)
    step = nodes.step(2)
    assert isinstance(step, Exchange)
    assert isinstance(step.request, FetchRequest)
    (topic,) = step.request.topics
    assert topic.partitions[0].partition_max_bytes == 4 * 1024 * 1024


def test_a_follower_that_was_out_comes_back_into_the_isr(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, (1, 2))
    nodes.elect(1, isr=[1])
    for _ in range(3):
        nodes.produce()
    assert nodes.leader.manager.partitions[KEY].isr.committed == {1}
    nodes.catch_up(2)
    manager = nodes.leader.manager
    assert manager.partitions[KEY].isr.committed == {1, 2}
    nodes.produce()
    nodes.pass_time(30_001)
    manager.isr_changes.maybe_shrink(nodes.now_ms)
    nodes.leader.settle()
    nodes.answer_proposals()
    assert manager.partitions[KEY].isr.committed == {1}
    assert manager.partitions[KEY].log.high_watermark == 4
    nodes.catch_up(2)
    changes = manager.isr_changes
    assert (changes.expands, changes.shrinks, changes.failed) == (2, 1, 0)


def test_deleted_records_are_deleted_on_followers(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, (1, 2))
    nodes.elect(1)
    for _ in range(4):
        nodes.produce()
    nodes.catch_up(2)
    manager = nodes.leader.manager
    manager.offsets.delete_records("d", {KEY: 3}, 1000, nodes.now_ms)
    assert not nodes.leader.settle()
    nodes.step(2)
    assert nodes[2].log.log_start_offset == 3
    nodes.step(2)  # which tells the leader
    assert manager.partitions[KEY].low_watermark() == 3


# KIP-101, KIP-279, KIP-320


def test_kip_101_no_loss_when_a_follower_restarts_and_then_leads(
    tmp_path: Path, config: FetcherConfig
) -> None:
    """Scenario 1: the follower has m2, but only the HW of m1; truncating to the HW loses m2."""
    nodes = Nodes(tmp_path, (1, 2), fetcher=config)
    nodes.elect(2)
    nodes.produce(b"m1")
    nodes.catch_up(1)
    nodes.produce(b"m2", acks=-1)
    nodes.step(1)
    nodes.step(1)  # m2 is committed on 2; 1 does not know the new HW
    assert nodes[2].log.high_watermark == 2
    nodes.crash(1)
    nodes.start(1)
    nodes.elect(2, isr=[2])
    nodes.step(1)
    nodes.crash(2)
    nodes.elect(1, isr=[1])
    assert nodes[1].log.log_end_offset == 2
    assert nodes[1].log.high_watermark == 2


def test_kip_101_logs_that_diverged_at_one_offset_agree_again(
    tmp_path: Path, config: FetcherConfig
) -> None:
    """Scenario 2: both crash; the one that comes back first takes another m2 at offset 1."""
    nodes = Nodes(tmp_path, (1, 2), fetcher=config)
    nodes.elect(1)
    nodes.produce(b"m1")
    nodes.catch_up(2)
    nodes.produce(b"m2")  # only on 1
    nodes.crash(1)
    nodes.crash(2)
    nodes.start(2)
    nodes.elect(2, isr=[2])
    nodes.produce(b"m3")  # at the offset of m2
    nodes.start(1)
    nodes.tell(1)
    nodes.catch_up(1)
    assert agree(nodes, 1, 2)
    assert history(nodes[1].log) == [(0, 1), (1, 2)]


def test_kip_279_fast_leader_changes(tmp_path: Path, config: FetcherConfig) -> None:
    """Epochs that the other side has never seen, on both sides: cut epoch by epoch."""
    nodes = Nodes(tmp_path, (1, 2), fetcher=config)
    nodes.elect(1)
    nodes.produce(b"a")
    nodes.catch_up(2)
    for leader in (2, 1, 2, 1):  # each alone, none hears of the other's records
        nodes.elect(leader, isr=[leader], told=[leader])
        for _ in range(leader + 1):
            nodes.produce(b"leader %d" % leader)
    nodes.elect(2, isr=[2])
    nodes.catch_up(1)
    assert agree(nodes, 1, 2)
    nodes.produce()
    nodes.catch_up(1)
    assert agree(nodes, 1, 2)


def test_an_epoch_that_goes_on_where_it_ended_for_the_follower(
    tmp_path: Path, config: FetcherConfig
) -> None:
    """Both know the epoch, but the follower's part of it is shorter, and then it was leader."""
    nodes = Nodes(tmp_path, (1, 2), fetcher=config)
    nodes.elect(1)
    nodes.produce(b"a")
    nodes.catch_up(2)
    for _ in range(5):
        nodes.produce(b"only on 1")
    nodes.elect(2, isr=[2], told=[2])
    for _ in range(3):
        nodes.produce(b"only on 2")
    nodes.elect(1, isr=[1])
    nodes.catch_up(2)
    assert agree(nodes, 1, 2)
    assert history(nodes[2].log) == [(offset, 1) for offset in range(6)]


def test_kip_320_a_fenced_follower_waits_for_the_controller(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, (1, 2))
    nodes.elect(1)
    nodes.produce()
    nodes.elect(1, told=[1])  # 2 has not heard of epoch 2
    nodes.step(2)
    fetcher = nodes[2].fetcher(1)
    assert fetcher is not None
    assert fetcher.table.failed_keys == {KEY}
    assert isinstance(nodes.step(2), Wait)
    nodes.tell(2)
    assert not fetcher.table.failed_keys
    nodes.catch_up(2)
    assert agree(nodes, 1, 2)


def test_kip_320_a_leader_that_is_behind_is_asked_again(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, (1, 2))
    nodes.elect(1)
    nodes.elect(1, told=[2])  # 1 will hear of it a moment later
    began_ms = nodes.now_ms
    nodes.step(2)
    nodes.step(2)  # the leader need not look at it meanwhile
    step = nodes.step(2)
    assert isinstance(step, Wait)
    assert step.until_ms == began_ms + 10
    nodes.tell(1)
    nodes.produce()
    nodes.catch_up(2)
    assert agree(nodes, 1, 2)


def test_unclean_election_cuts_below_the_high_watermark(
    tmp_path: Path, config: FetcherConfig, caplog: pytest.LogCaptureFixture
) -> None:
    nodes = Nodes(tmp_path, (1, 2), fetcher=config)
    nodes.elect(1, isr=[1])
    nodes.produce(b"a")
    nodes.catch_up(2)
    nodes.elect(1, isr=[1])
    nodes.produce(b"committed by 1 alone")
    assert nodes[1].log.high_watermark == 2
    nodes.elect(2, isr=[2])
    nodes.produce(b"other")
    nodes.catch_up(1)
    assert agree(nodes, 1, 2)
    assert "below its high watermark 2" in caplog.text


# Out of range


def test_a_leader_that_has_deleted_what_the_follower_lacks(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, (1, 2))
    nodes.elect(1, isr=[1])
    nodes.produce()
    nodes.catch_up(2)
    nodes.elect(1, isr=[1])
    for _ in range(4):
        nodes.produce()
    nodes.leader.log.maybe_increment_log_start_offset(3)
    nodes.tell(2)
    asked = []
    while nodes[2].log.log_end_offset != nodes.leader.log.log_end_offset:
        step = nodes.step(2)
        assert isinstance(step, Exchange)
        asked.append(type(step.request).__name__)
    assert asked == ["FetchRequest"] + ["ListOffsetsRequest"] * 2 + ["FetchRequest"] * 1
    assert nodes[2].log.log_start_offset == 3
    assert nodes[2].log.log_end_offset == 5


def test_a_log_start_inside_of_a_batch(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, (1, 2))
    nodes.elect(1, isr=[1])
    nodes.produce(b"a", b"b", b"c", b"d")
    nodes.leader.log.maybe_increment_log_start_offset(2)
    nodes.catch_up(2)
    assert nodes[2].log.log_start_offset == 2
    assert nodes[2].log.log_end_offset == 4
    assert agree(nodes, 1, 2)


def test_a_log_start_inside_of_a_batch_over_other_records(tmp_path: Path) -> None:
    """Kafka gives the follower up here; but all that it has is deleted on the leader."""
    nodes = Nodes(tmp_path, (1, 2))
    nodes.elect(2, isr=[2])
    nodes.produce(b"other")
    nodes.elect(1, isr=[1], told=[1])
    nodes.produce(b"a", b"b", b"c")
    nodes.leader.log.maybe_increment_log_start_offset(1)
    nodes.tell(2)
    nodes.catch_up(2)
    assert nodes[2].log.log_start_offset == 1
    assert agree(nodes, 1, 2)


def test_a_leader_whose_log_ends_before_the_followers(tmp_path: Path) -> None:
    """Without a common epoch (the leader's disk was lost), the offsets alone are compared."""
    nodes = Nodes(tmp_path, (1, 2))
    nodes.elect(1)
    for _ in range(5):
        nodes.produce()
    nodes.catch_up(2)
    leader = nodes.leader.log
    leader.truncate_to(2, nodes.now_ms)
    nodes.step(2)
    nodes.catch_up(2)
    assert nodes[2].log.log_end_offset == 2
    assert agree(nodes, 1, 2)


@pytest.mark.parametrize("lost", [FollowerState.FINDING_END, FollowerState.FINDING_START])
def test_a_question_that_fails_is_asked_again(tmp_path: Path, lost: FollowerState) -> None:
    nodes = Nodes(tmp_path, (1, 2))
    nodes.elect(1, isr=[1])
    for _ in range(4):
        nodes.produce()
    nodes.leader.log.maybe_increment_log_start_offset(3)
    fetcher = nodes[2].fetcher(1)
    assert fetcher is not None
    while state_of(nodes, 2).state is not lost:
        nodes.step(2)
    step = fetcher.next_step(nodes.now_ms)
    assert isinstance(step, Exchange)
    assert isinstance(step.request, ListOffsetsRequest)
    fetcher.failed(step, nodes.now_ms)
    assert isinstance(fetcher.next_step(nodes.now_ms), Wait)
    nodes.catch_up(2)
    assert nodes[2].log.log_start_offset == 3


def test_epochs_are_asked_for_until_they_are_answered(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, (1, 2), fetcher=BY_EPOCH_REQUEST)
    nodes.elect(1)
    nodes.produce()
    nodes.catch_up(2)
    nodes.elect(1, told=[2])
    step = nodes.step(2)
    assert isinstance(step, Exchange)
    assert isinstance(step.request, OffsetForLeaderEpochRequest)
    assert state_of(nodes, 2).state is FollowerState.TRUNCATING  # UNKNOWN_LEADER_EPOCH
    assert state_of(nodes, 2).delayed_until_ms > nodes.now_ms
    nodes.tell(1)
    nodes.catch_up(2)
    assert state_of(nodes, 2).state is FollowerState.FETCHING


# Trouble


def test_back_off_doubles_up_to_its_limit_and_starts_anew_after_success(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, (1, 2))
    nodes.elect(1)
    nodes.catch_up(2)
    leader = nodes.nodes.pop(1)
    nodes.nodes[2].cluster.now_ms = leader.cluster.now_ms
    waits: list[int] = []
    while len(waits) < 9:
        step = nodes.step(2)
        if isinstance(step, Wait):
            assert step.until_ms is not None
            waits.append(step.until_ms - nodes.now_ms)
            nodes.pass_time(waits[-1])
    assert waits == [10, 20, 40, 80, 160, 320, 640, 1000, 1000]
    leader.cluster.now_ms = nodes.now_ms
    nodes.nodes[1] = leader
    nodes.produce()
    nodes.catch_up(2)
    assert state_of(nodes, 2).backoff_ms == 0
    assert agree(nodes, 1, 2)


def test_corrupt_records_stop_their_partition_only_for_a_while(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    nodes = Nodes(tmp_path, (1, 2))
    nodes.elect(1)
    nodes.produce(b"good")
    nodes.catch_up(2)
    nodes.produce(b"to be damaged")
    leader = nodes.leader.log
    file = leader.segments.active.log_file
    position = leader.segments.active.size - 1
    good = file.read_at(1, position)
    file.write_at(bytes([good[0] ^ 1]), position)
    nodes.step(2)
    assert nodes[2].log.log_end_offset == 1
    assert "Found invalid records from broker 1 for topic-0 at offset 1" in caplog.text
    step = nodes.step(2)
    assert isinstance(step, Exchange)
    assert isinstance(step.request, FetchRequest)
    assert step.request.forgotten_topics_data  # the leader need not look at it
    assert isinstance(nodes.step(2), Wait)
    file.write_at(good, position)
    nodes.catch_up(2)
    assert agree(nodes, 1, 2)


def test_an_offline_directory_ends_the_fetching_of_its_partitions(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, (1, 2))
    nodes.elect(1)
    nodes.catch_up(2)
    nodes.produce()
    nodes[2].log.health.fail(OSError("no disk"))
    nodes.step(2)
    assert KEY in nodes[2].manager.hosted.offline
    fetcher = nodes[2].fetcher(1)
    assert fetcher is not None
    assert not fetcher.table.states


def test_a_lost_session_is_opened_anew(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, (1, 2))
    nodes.elect(1)
    nodes.catch_up(2)
    nodes.leader.sessions._sessions.clear()
    nodes.produce()
    nodes.step(2)
    step = nodes.step(2)
    assert isinstance(step, Exchange)
    assert isinstance(step.request, FetchRequest)
    assert step.request.session_epoch == 0
    nodes.catch_up(2)
    assert agree(nodes, 1, 2)


def answer_late(nodes: Nodes, meanwhile: Callable[[], None]) -> None:
    """Node 2 asks node 1, and hears its answer when something else has happened."""
    fetcher = nodes[2].fetcher(1)
    assert fetcher is not None
    step = fetcher.next_step(nodes.now_ms)
    assert isinstance(step, Exchange)
    answer = nodes.ask(nodes[1], step)
    meanwhile()
    fetcher.answered(step, answer, nodes.now_ms)


def test_an_answer_for_an_earlier_epoch_changes_nothing(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, (1, 2, 3))
    nodes.elect(1)
    nodes.produce()
    answer_late(nodes, lambda: nodes.elect(3))
    assert nodes[2].log.log_end_offset == 0


def test_an_answer_from_before_the_same_leaders_next_epoch_changes_nothing(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, (1, 2))
    nodes.elect(1)
    nodes.catch_up(2)
    nodes.produce()
    answer_late(nodes, lambda: nodes.elect(1))
    assert nodes[2].log.log_end_offset == 0
    nodes.catch_up(2)
    assert agree(nodes, 1, 2)


def test_what_must_be_flushed_is_acknowledged_after_the_flush(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, (1, 2), topic_config={"flush.messages": "1"})
    nodes.elect(1)
    nodes.catch_up(2)
    nodes.produce(acks=-1)
    nodes.leader.flush()
    nodes.step(2)
    assert nodes[2].log.log_end_offset == 1
    assert isinstance(nodes.step(2), Wait)  # the disk is slow
    assert nodes.leader.log.high_watermark == 0
    nodes[2].flush()
    nodes.step(2)
    assert nodes.leader.log.high_watermark == 1


@pytest.mark.parametrize("truncates_on_fetch", [True, False])
def test_a_cut_that_must_be_noted_waits_for_the_disk(
    tmp_path: Path, truncates_on_fetch: bool
) -> None:
    """Below the recovery point in the checkpoint: the loop does not wait, the partition does."""
    nodes = Nodes(tmp_path, (1, 2), fetcher=FetcherConfig(truncates_on_fetch=truncates_on_fetch))
    nodes.elect(1)
    nodes.produce()
    nodes.catch_up(2)
    nodes.elect(2)
    nodes.produce()
    nodes[2].log.flush()
    checkpoint_recovery_points(nodes[2].cluster.log_manager)
    nodes.elect(1)
    nodes.produce()
    for _ in range(5):
        nodes.step(2)
        nodes.pass_time(100)
    assert nodes[2].log.log_end_offset == 2
    assert not agree(nodes, 1, 2)
    nodes[2].flush()
    nodes.catch_up(2)
    assert agree(nodes, 1, 2)
    assert nodes[2].log.recovery_point == 1


def test_error_codes_that_are_no_ones_fault_delay(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, (1, 2))
    nodes.elect(1)
    nodes.catch_up(2)
    fetcher = nodes[2].fetcher(1)
    assert fetcher is not None
    state = state_of(nodes, 2)
    for code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_ID):
        fetcher.table.leader_refuses(state, code, nodes.now_ms)
        assert state.delayed_until_ms > nodes.now_ms
    assert state.state is FollowerState.FETCHING
