"""Tests that share a cluster do not meet: what one makes is gone before the next."""

from __future__ import annotations

from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer

from pybroker_kafka.local.secured import SecurityFiles
from pybroker_kafka.testing import ClusterError, KafkaCluster
from tests.compat.test_testing import run_pytest
from tests.support.commands import Commands
from tests.support.lacking import refusal
from tests.support.nightly import chosen

WAIT_SECONDS = 60.0


def leave_traces(kafka: KafkaCluster) -> None:
    """A group with a member, an open transaction: their clients go on."""
    kafka.topic("orders", exact=True, partitions=2)
    settings = kafka.client_settings()
    producer = KafkaProducer(transactional_id="teller", **settings)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("orders", b"open").get(WAIT_SECONDS)
    kafka.produce("orders", "x", key="k")
    consumer = KafkaConsumer("orders", group_id="shop", auto_offset_reset="earliest", **settings)
    assert next(consumer).topic == "orders"
    consumer.commit()
    consumer.close(autocommit=False)
    producer.close(0)


@pytest.mark.parametrize("brokers", chosen([1, 3], [1]))
def test_nothing_stays_of_what_a_test_has_made(brokers: int) -> None:
    with KafkaCluster(brokers=brokers) as kafka:
        shared = kafka.topic("shared")
        kafka.produce(shared, "old")
        before = kafka.snapshot()
        for _ in range(2):  # with the same names
            leave_traces(kafka)
            left = kafka.snapshot()
            assert left.topics >= {"orders", shared}
            assert (left.groups, left.transactional_ids) == ({"shop"}, {"teller"})
            kafka.clean(before)
            after = kafka.snapshot()
            assert {one for one in after.topics if not one.startswith("__")} == {shared}
            assert (after.groups, after.transactional_ids) == (set(), set())
            kafka.clean(before)  # nothing is left to do
        assert [one.value for one in kafka.records(shared)] == [b"old"]
        leave_traces(kafka)
        kafka.clean(before, keep=["ord*", "shop"])
        after = kafka.snapshot()
        assert "orders" in after.topics
        assert (after.groups, after.transactional_ids) == ({"shop"}, set())
        with pytest.raises(ClusterError, match="topic 'orders' exists already"):
            kafka.topic("orders", exact=True)
        kafka.delete_topics("orders", "missing")
        assert kafka.records(kafka.topic("orders", exact=True)) == []
        assert refusal(kafka, "orders", at_least=1) == "0 of 1 records in orders"
        assert refusal(kafka, "nowhere") == "there is no topic nowhere"


def test_configs_quotas_users_and_acls_are_as_before(tmp_path: Path) -> None:
    with KafkaCluster(secure=True) as kafka:
        shared = kafka.topic("shared", config={"retention.ms": 1000})
        before = kafka.snapshot()
        properties = SecurityFiles(kafka.data_dir).client_settings("admin")
        settings = tmp_path / "admin.properties"
        settings.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        commands = Commands(kafka.bootstrap)
        for words in (
            ("acls", "add", "--allow", "alice", "--consumer", "--topic", "orders", "--group", "g"),
            ("users", "add", "alice", "--generate"),
            ("quotas", "set", "producer_byte_rate=1000", "--user", "alice"),
            ("quotas", "set", "producer_byte_rate=2000", "--user", "alice", "--client-id", "shop"),
            ("configs", "alter", "--topic", shared, "--set", "retention.ms=5"),
            ("configs", "alter", "--broker", "1", "--set", "log.cleaner.threads=2"),
            ("tokens", "create"),
        ):
            commands.text(*words, "--command-config", str(settings))
        left = kafka.snapshot()
        assert left.configs["topics/shared"] == {"retention.ms": "5"}
        assert left.configs["users/alice"]["producer_byte_rate"] == "1000"
        assert left.configs["users/alice/clients/shop"] == {"producer_byte_rate": "2000"}
        assert (len(left.tokens), len(left.acls) - len(before.acls)) == (1, 2)
        kafka.clean(before)
        after = kafka.snapshot()
        assert after._replace(topics=before.topics) == before
        for words in (
            ("acls", "list"),
            ("users", "list"),
            ("tokens", "list"),
            ("quotas", "describe"),
        ):
            assert "alice" not in commands.text(*words, "--command-config", str(settings))


@pytest.mark.nightly
def test_two_tests_with_one_name(tmp_path: Path) -> None:
    text = """
        import pytest
        from kafka import KafkaConsumer, KafkaProducer

        @pytest.fixture(scope="session")
        def prices(kafka_cluster):
            return kafka_cluster.topic("prices", exact=True)

        @pytest.mark.parametrize("number", range(3))
        def test_orders(kafka, prices, number):
            assert kafka.topic("orders", exact=True) == "orders"
            assert kafka.records("orders") == []
            kafka.produce("orders", "x")
            kafka.produce(prices, "1")
            settings = kafka.client_settings()
            consumer = KafkaConsumer(
                "orders", group_id="g", auto_offset_reset="earliest", **settings
            )
            assert next(consumer).offset == 0
            consumer.close()
            assert len(kafka.records(prices)) == number + 1

        @pytest.mark.kafka(keep=["kept-*"])
        def test_keeps(kafka):
            kafka.topic("kept-1", exact=True)
            kafka.topic("by-ini", exact=True)
            kafka.topic("orders", exact=True)

        @pytest.mark.kafka(keep=True)
        def test_keeps_all(kafka):
            assert {"kept-1", "by-ini"} <= kafka.snapshot().topics
            kafka.topic("orders", exact=True)

        def test_finds(kafka):
            assert {"kept-1", "by-ini", "orders"} <= kafka.snapshot().topics
    """
    (tmp_path / "pytest.ini").write_text("[pytest]\nkafka_keep = by-ini\n")
    done = run_pytest(tmp_path, text, "--strict-markers")
    assert done.returncode == 0, done.stdout
    assert "6 passed" in done.stdout
