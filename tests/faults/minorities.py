"""Too few replicas: what min.insync.replicas and unclean elections promise."""

from __future__ import annotations

from confluent_kafka import KafkaError, Producer

from tests.faults.scenario import TOPIC, Scenario, case
from tests.support.ledger import librdkafka


def error_of_a_produce(scenario: Scenario, partition: int) -> KafkaError | None:
    """What acks=all without retries answers."""
    answers: list[KafkaError | None] = []
    producer = Producer(
        librdkafka(scenario.cluster.bootstrap, acks="all", retries=0, message_timeout_ms=20_000)
    )
    producer.produce(
        "probes", b"x", partition=partition, on_delivery=lambda error, _: answers.append(error)
    )
    producer.flush(30)
    return answers[0]


@case(quick=True)
def one_gone_of_min_insync_two(scenario: Scenario) -> None:
    """One gone: all goes on. Two gone: NOT_ENOUGH_REPLICAS; one back: all goes on."""
    cluster = scenario.cluster
    cluster.create_topic("probes", partitions=1)
    last, first, second = (
        scenario.leader(),
        *(node for node in cluster.nodes if node != scenario.leader()),
    )
    cluster.kill(first)
    cluster.wait_for_isr("probes", {last, second})
    assert error_of_a_produce(scenario, 0) is None
    scenario.make_progress()
    cluster.kill(second)
    cluster.wait_for_isr("probes", {last})
    error = error_of_a_produce(scenario, 0)
    assert error is not None
    assert error.code() in (
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ), error
    before = scenario.ledger.acknowledged
    cluster.start(first)
    scenario.make_progress()
    assert scenario.ledger.acknowledged > before
    cluster.start(second)
    cluster.wait_for_isr("probes")
    assert error_of_a_produce(scenario, 0) is None


def leave_only_a_stale_replica(scenario: Scenario) -> tuple[int, int, int]:
    """(the last in sync, stopped last; the two that missed records, one of which runs)."""
    cluster = scenario.cluster
    last = scenario.leader()
    stale, other = (node for node in cluster.nodes if node != last)
    cluster.kill(stale, other)
    cluster.wait_for_isr(TOPIC, {last})
    scenario.make_progress()  # min.insync.replicas=1: the last one acknowledges alone
    cluster.kill(last)
    cluster.start(stale)
    return last, stale, other


@case(topic_config={"min.insync.replicas": "1", "unclean.leader.election.enable": "false"})
def unclean_election_off(scenario: Scenario) -> None:
    """Nobody leads until the last one in sync is back, and nothing is lost."""
    cluster = scenario.cluster
    last, stale, other = leave_only_a_stale_replica(scenario)
    cluster.wait_for(
        lambda: all(view.leader == -1 for view in cluster.partitions(TOPIC).values()),
        "nobody leads",
    )
    before = scenario.ledger.acknowledged
    cluster.start(other)
    cluster.wait_for(lambda: cluster.brokers() == {stale, other}, "both are registered")
    assert all(view.leader == -1 for view in cluster.partitions(TOPIC).values())
    assert scenario.ledger.acknowledged == before
    cluster.start(last)
    scenario.in_sync()
    scenario.make_progress()


@case(
    topic_config={"min.insync.replicas": "1", "unclean.leader.election.enable": "true"},
    may_lose=True,
)
def unclean_election_on(scenario: Scenario) -> None:
    """A stale replica leads; the old leader gives up what only it had."""
    last, stale, other = leave_only_a_stale_replica(scenario)
    scenario.cluster.wait_for(
        lambda: all(view.leader == stale for view in scenario.cluster.partitions(TOPIC).values()),
        f"{stale} leads",
    )
    # kafka-python knows no broker but the last one any more, and waits for it.
    scenario.make_progress(15, "confluent", "pybroker")
    scenario.cluster.start(last, other)
    scenario.in_sync()
    scenario.make_progress()
