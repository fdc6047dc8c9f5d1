"""Some histories of consumer groups beside Apache Kafka 4.3; more of them by
`python -m tests.mixed.group_histories`."""

from tests.mixed.group_histories import both, differences

SEEDS = 12


def test_groups_are_as_at_kafka_4() -> None:
    with both() as (ours, theirs, topics):
        found = [differences(seed, ours, theirs, topics) for seed in range(SEEDS)]
    assert not any(found), "\n".join(filter(None, found))
