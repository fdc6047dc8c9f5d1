"""Topics of one request in groups without collisions: as if they were created one by one."""

from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.broker.cluster.topic_creation import WantedTopic, groups_without_collisions
from pybroker_kafka.replication.controller.topic_admin import metric_name

names = st.lists(st.text("a._", min_size=1, max_size=4), max_size=30, unique=True)


@given(names)
def test_of_topics_that_collide_the_first_is_created(wanted: list[str]) -> None:
    one_by_one: dict[str, str] = {}
    for name in wanted:
        one_by_one.setdefault(metric_name(name), name)

    groups = groups_without_collisions([WantedTopic(name, {}) for name in wanted])

    created: dict[str, str] = {}
    for group in groups:
        metrics = [metric_name(topic.name) for topic in group]
        assert len(set(metrics)) == len(metrics)
        for topic in group:
            created.setdefault(metric_name(topic.name), topic.name)
    assert created == one_by_one
    assert sorted(topic.name for group in groups for topic in group) == sorted(wanted)


@given(names)
def test_there_are_as_many_groups_as_topics_that_collide_with_each_other(wanted: list[str]) -> None:
    metrics = [metric_name(name) for name in wanted]
    groups = groups_without_collisions([WantedTopic(name, {}) for name in wanted])
    assert len(groups) == max(map(metrics.count, metrics), default=0)
