"""Followers' fetches that are collected: told once, of everything that came until then."""

from pathlib import Path

import pytest
import trio
import trio.testing

from pybroker_kafka.broker.replicas.follower_pace import (
    BUSY_SHARE,
    FULL_SHARE,
    MAX_PAUSE_SECONDS,
    MAX_SKIPS,
    WINDOW_SECONDS,
    FollowerPace,
)
from pybroker_kafka.broker.replicas.replica_runtime import ReplicaRuntime
from pybroker_kafka.replication.types import Done, FollowersWait, Parked
from tests.support.replication import ME, ReplicaCluster


@pytest.fixture
def leader(cluster: ReplicaCluster) -> ReplicaCluster:
    cluster.role(replicas=[ME, 2, 3])
    cluster.manager.waiting.collected.urgent_bytes = 1000
    return cluster


def waiting_follower(leader: ReplicaCluster, broker_id: int, offset: int = 0) -> None:
    token = f"follower {broker_id}"
    answer = leader.fetch(token, offset, replica_id=broker_id, log_start_offset=0)
    assert isinstance(answer, Parked)


def told(leader: ReplicaCluster) -> dict[object, int]:
    """The tokens of the fetches that were answered, with the bytes of records each got."""
    leader.manager.waiting.answer_followers()
    return {token: len(results[0].records) for token, results in leader.completed()}


def test_a_follower_is_told_of_all_that_came(leader: ReplicaCluster) -> None:
    waiting_follower(leader, 2)
    waiting_follower(leader, 3)
    for value in (b"one", b"two", b"three"):
        leader.produce("produce", value)
    assert leader.completed() == []
    assert leader.manager.take_effects() == [FollowersWait(is_urgent=False)]
    size = leader.partition.log.size_bytes
    assert told(leader) == {"follower 2": size, "follower 3": size}
    assert told(leader) == {}


def test_one_that_comes_while_there_are_records_is_collected_by_who_is_busy(
    leader: ReplicaCluster,
) -> None:
    leader.produce("produce", b"one")
    assert isinstance(leader.fetch("f", 0, replica_id=2, log_start_offset=0), Done)
    leader.manager.waiting.collected.paces = True
    waiting_follower(leader, 2)
    assert leader.manager.take_effects() == [FollowersWait(is_urgent=False)]
    leader.produce("produce", b"two")
    before = leader.partition.stats.replication_bytes_out
    assert told(leader) == {"follower 2": leader.partition.log.size_bytes}
    # What was read when it came is not counted twice.
    assert leader.partition.stats.replication_bytes_out - before == (
        leader.partition.log.size_bytes // 2
    )
    # Not a consumer, nor one that does not wait, nor one that has enough to carry.
    assert isinstance(leader.follow(2, 0), Done)
    leader.produce("produce", b"x" * 1000)
    assert isinstance(leader.fetch("f", 0, replica_id=3, log_start_offset=0), Done)
    for broker_id in (2, 3):
        leader.follow(broker_id, leader.partition.log.log_end_offset)
    assert isinstance(leader.fetch("consumer", 0), Done)


def test_many_bytes_are_urgent(leader: ReplicaCluster) -> None:
    waiting_follower(leader, 2)
    leader.produce("produce", b"x" * 500)
    leader.produce("produce", b"x" * 500)
    leader.produce("produce", b"x" * 500)
    effects = leader.manager.take_effects()
    urgent = [effect.is_urgent for effect in effects if isinstance(effect, FollowersWait)]
    assert len(urgent) == len(effects)
    assert urgent[0] is False
    assert True in urgent


def test_a_consumer_is_not_collected(leader: ReplicaCluster) -> None:
    leader.role(replicas=[ME], leader_epoch=1)
    assert isinstance(leader.fetch("consumer", 0), Parked)
    leader.produce("produce", b"one", acks=1)
    assert [completion.token for completion in leader.completed()] == ["consumer"]


def test_one_that_times_out_meanwhile_is_answered_once(leader: ReplicaCluster) -> None:
    waiting_follower(leader, 2)
    leader.produce("produce", b"one", timeout_ms=10_000)
    leader.now_ms += 600
    leader.manager.waiting.tick(leader.now_ms)
    assert [completion.token for completion in leader.completed()] == ["follower 2"]
    assert told(leader) == {}


def test_a_leader_that_is_none_any_more_tells_them_so(leader: ReplicaCluster) -> None:
    waiting_follower(leader, 2)
    leader.produce("produce", b"one")
    leader.role(leader=2, replicas=[ME, 2, 3], leader_epoch=1)
    leader.completed()
    leader.manager.waiting.answer_followers()
    ((token, results),) = leader.completed()
    assert token == "follower 2"
    assert results[0].error_code


class Token:
    def __init__(self) -> None:
        self.answered = trio.Event()

    def complete(self, _result: object) -> None:
        self.answered.set()


async def test_the_shell_tells_them_after_the_round(tmp_path: Path) -> None:
    leader = ReplicaCluster(tmp_path)
    leader.role(replicas=[ME, 2, 3])
    runtime = ReplicaRuntime(leader.manager, lambda: leader.now_ms)
    async with trio.open_nursery() as nursery:
        await nursery.start(runtime.run)
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(3):
            token = Token()
            end_offset = leader.partition.log.log_end_offset
            assert isinstance(
                leader.fetch(token, end_offset, replica_id=2, log_start_offset=0), Parked
            )
            leader.produce(Token(), b"one")
            runtime.apply_effects()
            assert not token.answered.is_set()
            with trio.fail_after(120):
                await token.answered.wait()
        nursery.cancel_scope.cancel()


def test_who_has_time_tells_at_once() -> None:
    pace = FollowerPace()
    for step in range(100):
        now = step * 0.02
        assert pace.wait_seconds(now, now * BUSY_SHARE * 0.9) == 0
        pace.answered(now)


def test_who_is_busy_waits_up_to_the_longest_pause() -> None:
    pace = FollowerPace()
    now = WINDOW_SECONDS
    pace.wait_seconds(now, now * FULL_SHARE)
    pace.answered(now)
    assert pace.pause_seconds == pytest.approx(MAX_PAUSE_SECONDS)
    assert pace.wait_seconds(now + 0.001, 1.0) == pytest.approx(MAX_PAUSE_SECONDS - 0.001)
    assert pace.wait_seconds(now + MAX_PAUSE_SECONDS, 1.0) == 0


def test_half_busy_is_half_the_pause() -> None:
    pace = FollowerPace()
    pace.wait_seconds(1.0, (BUSY_SHARE + FULL_SHARE) / 2)
    assert pace.pause_seconds == pytest.approx(MAX_PAUSE_SECONDS / 2)


def test_a_pause_in_vain_is_followed_by_more_and_more_answers_without_one() -> None:
    pace = FollowerPace()
    now = WINDOW_SECONDS
    pace.wait_seconds(now, now * FULL_SHARE)

    def answers_until_a_pause() -> int:
        for count in range(MAX_SKIPS + 1):
            pace.answered(now)
            if pace.wait_seconds(now, now * FULL_SHARE):
                return count
        raise AssertionError("no pause at all")

    assert answers_until_a_pause() == 0
    for expected in (1, 2, 4, 8, 16, 32, 64, 128, 256, 256):
        pace.paused(0)
        assert not pace.is_on
        assert answers_until_a_pause() == expected
    pace.paused(1)
    assert pace.is_on
    assert answers_until_a_pause() == 0
