"""Some histories of share groups beside Apache Kafka 4.3; more of them by
`python -m tests.mixed.share_histories`."""

from tests.mixed.share_histories import both, differences

SEEDS = range(6)


def test_share_groups_are_as_at_kafka_4() -> None:
    with both(SEEDS) as (brokers, topics):
        found = [differences(seed, brokers, topics) for seed in SEEDS]
    assert not any(found), "\n".join(filter(None, found))
