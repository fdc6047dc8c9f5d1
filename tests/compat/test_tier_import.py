"""A cluster is lost with its disks: `pybroker tier import` brings its topics back from the store.

kafka-python writes to one cluster and reads, from the first record on, from another one, which has
nothing but the store: folders, and an object store on moto's S3.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from click.testing import CliRunner
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from pybroker_kafka.cli.main import main
from pybroker_kafka.client.admin.admin import Admin
from pybroker_kafka.client.cluster import Cluster
from pybroker_kafka.console.shared import Shared
from pybroker_kafka.console.tiers import topic_tier
from pybroker_kafka.local.tier import tier_keys
from tests.support.kafka_python_values import read_values
from tests.support.moto_s3 import BUCKET, MotoS3
from tests.support.nightly import chosen
from tests.support.patience import until
from tests.support.processes import BrokerProcess, zookeeper_process
from tests.support.wire import WireClient
from tests.wire.test_offsets import list_offsets

TOPIC = "history"
ROUNDS, COUNT = 3, 400
EARLIEST, LATEST, LATEST_TIERED = -2, -1, -5
CONFIGS = {
    "remote.storage.enable": "true",
    "segment.bytes": "10000",
    "local.retention.bytes": "1",
}


class Store:
    def __init__(self, place: str, configs: Mapping[str, str]) -> None:
        self._place = place
        self._configs = configs

    def broker_keys(self, replicas: int) -> dict[str, str]:
        return {
            **tier_keys(self._place, replicas, {}),
            **{f"rsm.config.{name}": text for name, text in self._configs.items()},
            "rlmm.config.remote.log.metadata.topic.num.partitions": "2",
            "remote.log.manager.task.interval.ms": "100",
            "log.retention.check.interval.ms": "100",
            "log.initial.task.delay.ms": "0",
        }

    def options(self) -> list[str]:
        words = ["--tier", self._place]
        for name, text in self._configs.items():
            words += ["--tier-config", f"{name}={text}"]
        return words


@pytest.fixture(params=chosen(["folders", "s3"], ["s3"]))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "folders":
        yield Store(str(tmp_path / "tier"), {})
        return
    with MotoS3().running() as s3:
        yield Store(f"s3://{BUCKET}/tier", s3.configs())


@contextmanager
def cluster(directory: Path, store: Store, count: int) -> Iterator[list[BrokerProcess]]:
    with ExitStack() as stack:
        connect = stack.enter_context(zookeeper_process(directory))
        keys = store.broker_keys(count)
        brokers = [
            BrokerProcess(directory / f"broker-{one}", connect, keys, broker_id=one)
            for one in range(1, count + 1)
        ]
        for broker in brokers:
            stack.callback(broker.kill)
            broker.start()
        yield brokers


def command(broker: BrokerProcess, *words: str, status: int | None = 0) -> Any:
    done = CliRunner().invoke(main, ["tier", *words, "--bootstrap-server", broker.bootstrap])
    assert status is None or done.exit_code == status, done.output
    return None if status else json.loads(done.stdout)


def value(number: int) -> bytes:
    return b"value %d " % number * 4


def write(broker: BrokerProcess, first: int, count: int) -> None:
    with closing(KafkaProducer(bootstrap_servers=broker.bootstrap, batch_size=2000)) as producer:
        numbers = range(first, first + count)
        for future in [producer.send(TOPIC, value(number), partition=0) for number in numbers]:
            future.get(timeout=60)


def offset(broker: BrokerProcess, which: int) -> int:
    with WireClient(broker.bootstrap) as kafka:
        found: int = list_offsets(kafka, 9, TOPIC, which).offset
    return found


def lose_a_cluster(directory: Path, store: Store) -> int:
    """Write, with a new leader epoch in each round; the last offset that was copied."""
    with cluster(directory, store, 1) as (broker,):
        with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
            admin.create_topics([NewTopic(TOPIC, 2, 1, topic_configs=CONFIGS)])
        for number in range(ROUNDS):
            if number:
                broker.stop()
                broker.start()
            write(broker, number * COUNT, COUNT)
        until(lambda: offset(broker, LATEST_TIERED) > (ROUNDS - 1) * COUNT + COUNT // 2)
        copied = offset(broker, LATEST_TIERED)
        broker.kill()  # nothing of it is used again
        return copied


def settled_faults(broker: BrokerProcess, *options: str) -> list[str]:
    """The fault of each segment that `tier verify` shows, at a moment without a copy under way."""
    faults: list[str] = []

    def are_settled() -> bool:
        rows = command(broker, "verify", *options, TOPIC, status=None)
        faults[:] = [row["fault"] for row in rows]
        return "unfinished" not in faults

    until(are_settled, lambda: faults)
    return faults


def check_views(broker: BrokerProcess) -> None:
    """The command and the console say what `tier list` says."""
    (listed,) = command(broker, "list", TOPIC, "--json")
    done = CliRunner().invoke(
        main, ["topics", "describe", TOPIC, "--json", "--bootstrap-server", broker.bootstrap]
    )
    (described,) = json.loads(done.stdout)
    (part,) = described["tier"]["partitions"]
    console = trio.run(console_tier, broker.bootstrap)
    for shown in (part, console["partitions"][0]):
        for key, name in [("segments", "segments"), ("first", "first_offset"), ("bytes", "bytes")]:
            assert shown[key] >= listed[name]
        assert 0 < shown["local_first"] <= shown["last"] + 1
    assert part["writes"] >= 5 * part["segments"]
    assert console["a_month"] == "less than $0.01"
    done = CliRunner().invoke(
        main, ["topics", "describe", TOPIC, "--bootstrap-server", broker.bootstrap]
    )
    assert "the tier costs less than $0.01 a month" in done.stdout


async def console_tier(bootstrap: str) -> dict[str, Any]:
    async with Cluster(bootstrap) as cluster:
        collector: Any = SimpleNamespace(cluster=cluster, admin=Admin(cluster), shared=Shared())
        return await topic_tier(collector, TOPIC)


def test_a_lost_topic_is_read_from_its_first_record_on(tmp_path: Path, store: Store) -> None:
    copied = lose_a_cluster(tmp_path / "lost", store)
    # Followers begin behind the tier, too.
    with cluster(tmp_path / "new", store, 2) as (broker, other):
        options = [*store.options(), "--json"]
        (row,) = command(broker, "import", *options, "--dry-run")
        assert row["first_offset"] == 0
        assert row["last_offset"] >= copied
        command(broker, "import", "other", *options, status=2)

        more = ["--partitions", "2", "--replication-factor", "2", "--config", "segment.bytes=10000"]
        assert command(broker, "import", TOPIC, *options, *more) == [row]
        end = row["last_offset"] + 1
        servers = [broker.bootstrap, other.bootstrap]
        found = read_values(TOPIC, end, bootstrap_servers=servers)
        assert found == [value(number) for number in range(end)]

        # It is a topic like any other: it grows, its tier is whole, its followers keep up.
        write(broker, end, COUNT)
        found = read_values(TOPIC, end + COUNT, bootstrap_servers=servers)
        assert found == [value(number) for number in range(end + COUNT)]
        with closing(KafkaAdminClient(bootstrap_servers=servers)) as admin:

            def are_in_sync() -> bool:
                (topic,) = admin.describe_topics([TOPIC])
                return all(len(one["isr_nodes"]) == 2 for one in topic["partitions"])

            until(are_in_sync)
        # Copies that were cut off are left in the store, each by a stop of the first broker; what
        # was written last is still being copied.
        faults = settled_faults(broker, *options)
        assert set(faults) <= {"orphan"}
        assert len(faults) <= ROUNDS
        command(broker, "import", *options, status=2)  # it is there
        check_views(broker)


def test_a_transaction_without_an_end_waits_for_its_abort(tmp_path: Path) -> None:
    """Its records are copied, its marker is lost with the brokers."""
    store = Store(str(tmp_path / "tier"), {})
    with cluster(tmp_path / "lost", store, 1) as (broker,):
        with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
            admin.create_topics([NewTopic(TOPIC, 1, 1, topic_configs=CONFIGS)])
        write(broker, 0, 10)
        with closing(
            KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id="t", batch_size=2000)
        ) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            for number in range(10, COUNT):
                producer.send(TOPIC, value(number), partition=0)
            producer.commit_transaction()
        until(lambda: offset(broker, LATEST_TIERED) > 10)
        broker.kill()
    with cluster(tmp_path / "new", store, 1) as (broker,):
        (row,) = command(broker, "import", *store.options(), "--json")
        assert row["open_transactions"] == [10]
        committed = {"bootstrap_servers": broker.bootstrap, "isolation_level": "read_committed"}
        assert read_values(TOPIC, 10, **committed) == [value(number) for number in range(10)]
        words = ["transactions", "abort", f"{TOPIC}:0", "--first-offset", "10"]
        done = CliRunner().invoke(main, [*words, "--bootstrap-server", broker.bootstrap])
        assert done.exit_code == 0, done.output
        write(broker, COUNT, 10)
        expected = [value(number) for number in [*range(10), *range(COUNT, COUNT + 10)]]
        assert read_values(TOPIC, 20, **committed) == expected
