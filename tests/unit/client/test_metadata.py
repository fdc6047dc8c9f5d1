"""The metadata cache: epochs that never go back, topics made again, what is stale; pauses."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.client.metadata import MAX_AGE_MS, Leader, MetadataCache, backoff_ms
from pybroker_kafka.protocol.apis.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from pybroker_kafka.protocol.errors import ErrorCode


def told(
    leaders: list[tuple[int, int]], topic_id: int = 1, code: int = 0, name: str = "t"
) -> MetadataResponse:
    partitions = [
        MetadataResponsePartition(partition_index=index, leader_id=leader, leader_epoch=epoch)
        for index, (leader, epoch) in enumerate(leaders)
    ]
    topic = MetadataResponseTopic(
        name=name, topic_id=bytes([topic_id]) * 16, error_code=code, partitions=partitions
    )
    return MetadataResponse(topics=[topic])


@given(
    st.lists(
        st.tuples(
            st.integers(1, 3),  # the topic's id, which goes up when it is made again
            st.lists(st.tuples(st.integers(-1, 3), st.integers(0, 5)), min_size=1, max_size=3),
        ),
        max_size=20,
    )
)
def test_a_leader_is_the_newest_that_was_told(
    answers: list[tuple[int, list[tuple[int, int]]]],
) -> None:
    cache = MetadataCache()
    newest: dict[int, tuple[int, int]] = {}  # the twin: by partition, leader and epoch
    last_id = 0
    for topic_id, leaders in answers:
        if topic_id != last_id:
            newest, last_id = {}, topic_id
        newest = {
            index: newest[index]
            if index in newest and epoch < newest[index][1]
            else (leader, epoch)
            for index, (leader, epoch) in enumerate(leaders)
        }
        cache.update(told(leaders, topic_id), 0)
        for index, (leader, epoch) in newest.items():
            expected = Leader(leader, epoch) if leader >= 0 else None
            assert cache.leader("t", index) == expected
        assert cache.leader("t", len(leaders)) is None
        known = cache.topic("t")
        assert known is not None
        assert known.available == [i for i, (leader, _) in newest.items() if leader >= 0]


def test_without_epochs_the_last_answer_holds() -> None:
    """Brokers before 2.1 tell none."""
    cache = MetadataCache()
    for leader in (1, 2, 1):
        cache.update(told([(leader, -1)]), 0)
        assert cache.leader("t", 0) == Leader(leader, -1)


def test_what_is_to_be_asked() -> None:
    cache = MetadataCache()
    assert cache.to_ask(["t", "u"], 0) == ["t", "u"]
    cache.update(told([(1, 5)]), 10)
    assert cache.to_ask(["t", "u"], 10) == ["u"]
    assert cache.to_ask(["t"], 10 + MAX_AGE_MS) == ["t"]
    cache.mark_stale("t")
    assert cache.to_ask(["t"], 10) == ["t"]
    cache.update(told([(2, 4)]), 20)  # of a broker that is behind: it may be asked once more
    assert (cache.leader("t", 0), cache.to_ask(["t"], 20)) == (Leader(1, 5), ["t"])
    cache.update(told([], code=ErrorCode.LEADER_NOT_AVAILABLE), 20)
    assert cache.leader("t", 0) == Leader(1, 5)
    cache.update(told([(2, 6)]), 20)
    assert (cache.leader("t", 0), cache.to_ask(["t"], 20)) == (Leader(2, 6), [])


def test_a_leader_that_another_broker_names() -> None:
    cache = MetadataCache()
    assert not cache.learn_leader("t", 0, Leader(1, 1))
    cache.update(told([(1, 5)]), 0)
    assert not cache.learn_leader("t", 0, Leader(2, 5))
    assert not cache.learn_leader("t", 0, Leader(-1, 6))
    assert not cache.learn_leader("t", 1, Leader(2, 6))
    assert cache.learn_leader("t", 0, Leader(2, 6))
    assert cache.leader("t", 0) == Leader(2, 6)


@given(st.integers(1, 1000), st.floats(0, 1, exclude_max=True))
def test_pauses_double_up_to_a_limit(attempts: int, roll: float) -> None:
    pause = backoff_ms(attempts, roll)
    middle = min(100 * 2 ** (attempts - 1), 1_000)
    assert middle * 0.8 - 1 <= pause <= middle * 1.2
