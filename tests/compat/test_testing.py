"""`pybroker_kafka.testing` as its users have it: the plugin, other loops, threads, and the end.

The module's own clusters are of one broker where that will do, and shared.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import confluent_kafka
import psutil
import pytest
import trio
from kafka import KafkaProducer

from pybroker_kafka.testing import ClusterError, Command, KafkaCluster
from tests.support.lacking import refusal
from tests.support.nightly import nightly
from tests.support.patience import until

PYTEST_SECONDS = 100.0
GONE_SECONDS = 120.0
COMMAND_SECONDS = 120.0
POLL_SECONDS = 0.05


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster() as kafka:
        yield kafka


def send(kafka: KafkaCluster, topic: str, *values: bytes) -> None:
    producer = KafkaProducer(bootstrap_servers=kafka.get_bootstrap_server())
    for value in values:
        producer.send(topic, value, partition=0).get(30)
    producer.close()


def run_pytest(folder: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    """In a project of its own, that knows nothing but what is installed."""
    (folder / "test_it.py").write_text(textwrap.dedent(text))
    return subprocess.run(
        pytest_command(folder, *options),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PYTEST_SECONDS,
        check=False,
    )


def pytest_command(folder: Path, *options: str) -> list[str]:
    """pytest in a folder that has a configuration: else pytest takes that of a folder above."""
    (folder / "pytest.ini").touch()
    plain = ["-p", "no:cacheprovider", "-p", "no:randomly"]
    return [sys.executable, "-P", "-m", "pytest", "-q", *plain, *options]


def processes_that_have(text: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if any(text in file.path for file in process.open_files()):
                found.append(process)
    return found


def wait_until_gone(directory: str) -> None:
    until(
        lambda: not (processes_that_have(directory) or Path(directory).exists()),
        lambda: (processes_that_have(directory), directory),
    )


def test_records_of_a_topic(cluster: KafkaCluster) -> None:
    topic = cluster.topic("orders", partitions=2)
    assert cluster.records(topic) == []
    send(cluster, topic, b"one", b"two")
    records = cluster.records(topic)
    assert [(one.partition, one.offset, one.value) for one in records] == [
        (0, 0, b"one"), (0, 1, b"two"),
    ]  # fmt: skip
    assert cluster.records(topic, partition=1) == []
    assert cluster.topic("orders") == "orders-2"
    assert refusal(cluster, topic, at_least=3) == "2 of 3 records in orders"


def test_in_a_loop_that_runs_already(cluster: KafkaCluster) -> None:
    """As in a notebook, whose cells run in asyncio's loop: without `await` all works, too."""

    async def cells() -> list[bytes | None]:
        with KafkaCluster() as own:
            assert own.bootstrap != cluster.bootstrap
        topic = cluster.topic("cells")
        send(cluster, topic, b"x")
        return [record.value for record in cluster.records(topic, at_least=1)]

    assert asyncio.run(cells()) == [b"x"]


def test_from_asyncio_trio_and_threads(cluster: KafkaCluster) -> None:
    async def within_a_loop() -> int:
        async with KafkaCluster() as own:
            assert own.bootstrap != cluster.bootstrap
            return len(own.records(own.topic()))

    assert asyncio.run(within_a_loop()) == 0
    with ThreadPoolExecutor(3) as threads:
        assert list(threads.map(lambda _: trio.run(within_a_loop), range(3))) == [0, 0, 0]


def test_a_secured_cluster_and_its_settings(cluster: KafkaCluster) -> None:
    with KafkaCluster(secure=True) as kafka:
        topic = kafka.topic("orders")
        with KafkaProducer(**kafka.client_settings(user="user")) as producer:
            producer.send(topic, b"x").get(30)
        producer = confluent_kafka.Producer(kafka.client_settings("confluent-kafka", "user"))
        producer.produce(topic, b"y")
        assert producer.flush(30) == 0
        with kafka.requests.fail(
            "Metadata", "TOPIC_AUTHORIZATION_FAILED", client_id="chosen"
        ) as fault:
            KafkaProducer(**kafka.client_settings(), client_id="chosen").close()
        assert fault.hits == 1
        assert [one.value for one in kafka.records(topic)] == [b"x", b"y"]
        assert kafka.client_settings("java")["security.protocol"] == "SASL_SSL"
        assert kafka.client_settings("aiokafka")["ssl_context"]
    with pytest.raises(ClusterError, match="confluent-kafka"):
        cluster.client_settings("librdkafka")


def test_what_does_not_run_says_so() -> None:
    kafka = KafkaCluster(config={"log.retention.ms": "soon"})
    with pytest.raises(ClusterError, match=r"log.retention.ms"):
        kafka.start()
    with pytest.raises(ClusterError, match="does not run"):
        _ = kafka.bootstrap
    kafka.stop()


def test_nodes_die_and_come_back() -> None:
    with KafkaCluster(brokers=3, config={"min.insync.replicas": 2}) as kafka:
        topic = kafka.topic("orders")
        kafka.wait_for_isr(topic, 3)
        with kafka.kill(kafka.leader(topic)):
            kafka.wait_for_isr(topic, 2)
            send(kafka, topic, b"x")
        kafka.wait_for_isr(topic, 3)
        kafka.pause("zookeeper")
        kafka.heal()
        assert kafka.is_whole
        directory = str(kafka.data_dir)
        assert [one.value for one in kafka.records(topic)] == [b"x"]
    wait_until_gone(directory)


def test_a_command_is_a_process_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its words, output, environment, directory, session and end."""
    output = tmp_path / "output"
    monkeypatch.setenv("PYBROKER_DATA_DIR", str(tmp_path / "nowhere"))
    for count in (1, 2):
        assert Command("status", output=output).wait(COMMAND_SECONDS) == 2
        assert output.read_text().count(f"{tmp_path}/nowhere") >= count
    monkeypatch.chdir(tmp_path)
    (tmp_path / "server.properties").write_text("broker.id = few")
    assert Command("broker", "server.properties", output=output).wait(COMMAND_SECONDS) == 2
    assert "broker.id" in output.read_text()
    with pytest.raises(FileNotFoundError):
        Command("status", output=tmp_path / "no-such-directory" / "output")
    with pytest.raises(ClusterError, match="no-such-network"):
        Command("status", output=output, network_namespace="no-such-network")

    words = ("zookeeper", "--port", "0", "--data-dir", str(tmp_path / "zookeeper"))
    server = Command(*words, output=output, new_session=True)
    assert os.getsid(server.pid) == server.pid
    with pytest.raises(subprocess.TimeoutExpired):
        server.wait(0.1)
    ready = server.wait_for("ZooKeeper is ready", COMMAND_SECONDS)
    server.terminate()
    assert server.wait(COMMAND_SECONDS) == 0
    server.kill()  # nobody's any more
    assert server.poll() == 0
    with Command(*words, output=output) as other:
        assert os.getsid(other.pid) != other.pid
        with pytest.raises(ClusterError, match=r"did not say .*is ready"):  # the first one did
            other.wait_for(ready, 0)
    assert other.returncode == -signal.SIGKILL


def test_a_failure_tells_the_story_of_its_cluster(tmp_path: Path) -> None:
    text = """
        from pybroker_kafka.testing import KafkaCluster

        def test_shared(kafka):
            topic = kafka.topic("orders")
            assert kafka.records(topic)

        def test_own():
            with KafkaCluster(brokers=2) as kafka:
                topic = kafka.topic("bills")
                kafka.wait_for_isr(topic, 2)
                with kafka.kill(2):
                    kafka.wait_for_isr(topic, 1)
                    raise ValueError
    """
    done = run_pytest(tmp_path, text)
    assert done.returncode == 1, done.stdout
    told = done.stdout
    assert told.count("- Kafka cluster -") == 2
    assert "orders-0: leader 1, in sync 1" in told
    # What became of replicas, with its time, between what the test had done.
    events = re.findall(r"\d s  (.*)", told)
    changes = [event for event in events if event.startswith("bills-0: leader ")]
    assert re.search(r"in sync 1, 2$", changes[0]), events
    assert re.search(r"in sync 1$", changes[1]), events
    killed = next(event for event in events if event.startswith("kill 2"))
    assert events.index(changes[0]) < events.index(killed), events
    for line in ("created topic bills", "kill 2: broker 2 is killed", "broker 2 is ready after",
                 "broker 2: running", "broker-2.log:", "Broker 1 is ready"):  # fmt: skip
        assert line in told, told


@pytest.mark.nightly
def test_workers_of_xdist_and_a_marker(tmp_path: Path) -> None:
    text = """
        import pytest

        @pytest.mark.kafka(brokers=2)
        @pytest.mark.parametrize("number", range(2))
        def test_two(kafka, number):
            assert kafka.brokers == [1, 2]
            assert kafka.topic("a").startswith("a")

        def test_ini(kafka):
            assert "x" in kafka.topic("x")
    """
    done = run_pytest(tmp_path, text, "-n", "2")
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout


def test_who_does_not_use_it_pays_nothing(tmp_path: Path) -> None:
    text = """
        import sys

        def test_nothing():
            ours = {name for name in sys.modules if name.startswith("pybroker")}
            plugin = "pybroker_kafka.testkit.plugin"
            parents = {"pybroker_kafka", "pybroker_kafka.broker", "pybroker_kafka.testkit"}
            finder = "pybroker_kafka.compiled"  # of what is compiled; it has opened nothing yet
            assert ours <= {plugin, *parents, finder}
    """
    done = run_pytest(tmp_path, text)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("number", [signal.SIGKILL, nightly(signal.SIGINT)])
def test_nothing_outlives_pytest(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "test_it.py").write_text(
        textwrap.dedent("""
            import pathlib, pytest, time
            from pybroker_kafka.testing import Command

            @pytest.mark.kafka(brokers=2)
            def test_forever(kafka):
                command = Command("zookeeper", "--port", "0", output="output")
                pathlib.Path("told").write_text(f"{kafka.data_dir} {command.pid}")
                while True:
                    time.sleep(0.05)  # a signal just before one long wait is seen after it
        """)
    )
    process = subprocess.Popen(
        pytest_command(tmp_path), cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    told = tmp_path / "told"
    deadline = time.monotonic() + GONE_SECONDS
    while not (told.exists() and told.read_text()):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(POLL_SECONDS)
    directory, command = told.read_text().split()
    nodes = json.loads((Path(directory) / "cluster.json").read_text())["nodes"]
    assert len(nodes) == 3
    os.kill(process.pid, number)
    process.wait(GONE_SECONDS)
    wait_until_gone(directory)
    assert not any(psutil.pid_exists(node["pid"]) for node in nodes)
    assert not psutil.pid_exists(int(command))
