"""What has happened between two looks at a cluster."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.console.cluster_view import (
    NOTHING_YET,
    Address,
    ClusterView,
    Happening,
    Placed,
    changed_topics,
    happenings,
    view_of,
)
from pybroker_kafka.protocol.apis.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

BROKERS = {number: Address("127.0.0.1", 9091 + number, None) for number in (1, 2, 3)}
PLACED = Placed(1, 4, (1, 2, 3), (1, 2, 3), ())

_ids = st.lists(st.integers(1, 3), unique=True, max_size=3).map(tuple)
_placed = st.none() | st.builds(Placed, st.integers(-1, 3), st.integers(0, 5), _ids, _ids, _ids)
_topics = st.dictionaries(st.sampled_from("abcd"), st.lists(_placed, max_size=3).map(tuple))
_views = st.builds(
    ClusterView,
    st.just("id"),
    st.integers(-1, 3),
    st.dictionaries(st.integers(1, 3), st.sampled_from(list(BROKERS.values()))),
    _topics,
)


def _view(*placed: Placed, controller: int = 1) -> ClusterView:
    return ClusterView("id", controller, BROKERS, {"orders": placed})


@given(_views, _views)
def test_the_changes_make_the_newer_view_of_the_older(old: ClusterView, new: ClusterView) -> None:
    topics = dict(old.topics)
    for name, placed in changed_topics(old, new).items():
        if placed is None:
            del topics[name]
        else:
            topics[name] = placed
    assert topics == new.topics
    assert happenings(old, old) == []
    if old.topics == new.topics and old.brokers == new.brokers and old != NOTHING_YET:
        assert bool(happenings(old, new)) == (old.controller != new.controller)


def test_a_failover_is_told_in_a_few_lines() -> None:
    lost = PLACED._replace(leader=2, epoch=5, isr=(2, 3), offline=(1,))
    old = _view(*[PLACED] * 9)
    new = _view(*[lost] * 9, controller=3)._replace(brokers={2: BROKERS[2], 3: BROKERS[3]})
    names = "orders-0, orders-1, orders-2, orders-3, orders-4"
    assert happenings(old, new) == [
        Happening("broker", "broker 1 has left"),
        Happening("controller", "broker 3 is the controller, it was 1"),
        Happening("leader", f"leader is 2, it was 1: 9 partitions ({names}, ...)"),
        Happening("shrink", f"broker 1 out of the ISR: 9 partitions ({names}, ...)"),
    ]
    assert happenings(new, old)[-1].text.startswith("broker 1 into the ISR")
    gone = _view(PLACED._replace(leader=-1))
    assert happenings(_view(PLACED), gone) == [
        Happening("offline", "no leader, it was 1: orders-0")
    ]


def test_the_first_look_is_no_event() -> None:
    assert happenings(NOTHING_YET, _view(PLACED)) == []


def test_topics_that_come_go_and_grow() -> None:
    old = ClusterView("id", 1, BROKERS, {"a": (PLACED,), "b": (PLACED,)})
    new = ClusterView("id", 1, BROKERS, {"b": (PLACED, PLACED), "c": ()})
    assert [one.text for one in happenings(old, new)] == [
        "created: c",
        "deleted: a",
        "b has 2 partitions, it had 1",
    ]


def test_a_view_is_made_of_metadata() -> None:
    part = MetadataResponsePartition(
        partition_index=1, leader_id=2, leader_epoch=7, replica_nodes=[2, 1], isr_nodes=[2],
        offline_replicas=[1],
    )  # fmt: skip
    topic = MetadataResponseTopic(name="orders", partitions=[part])
    answer = MetadataResponse(
        cluster_id="id",
        controller_id=2,
        brokers=[MetadataResponseBroker(node_id=2, host="h", port=9, rack="r")],
        topics=[topic, MetadataResponseTopic(name="half", error_code=5)],
    )
    expected = (None, Placed(2, 7, (2, 1), (2,), (1,)))
    assert view_of(answer) == ClusterView("id", 2, {2: Address("h", 9, "r")}, {"orders": expected})
