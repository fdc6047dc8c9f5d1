"""Our metrics beside those of an Apache Kafka 3.9 with the JMX exporter in it: the same names and
labels; what is missing has its reason in tests/support/missing_metrics.py, and so in METRICS."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path

from kafka import KafkaConsumer, KafkaProducer

from pybroker_kafka.broker.observability.catalogue import CATALOGUE
from tests.support.apache_kafka import ApacheKafkaProcess, java_command, kafka_jars
from tests.support.maven import maven_jars
from tests.support.missing_metrics import MISSING
from tests.support.processes import ROOT, free_port, zookeeper_process

EXPORTER = {"io.prometheus.jmx:jmx_prometheus_javaagent": "1.0.1"}
# Histograms and counters of ours that the rules show otherwise.
SUMMED = re.compile(r"_(count|sum)$")


def rules() -> list[dict[str, object]]:
    """What the example configuration for Kafka 2.0 and later does to MBeans, in its order."""
    found: list[dict[str, object]] = []

    def rule(pattern: str, name: str, kind: str, **labels: str) -> None:
        found.append({"pattern": pattern, "name": name, "type": kind, "labels": labels})

    def keyed(rest: str, name: str, kind: str, pairs: int, quantile: bool = False) -> None:
        more = ", (.+)=(.+)" * pairs
        labels = {f"${4 + 2 * n}": f"${5 + 2 * n}" for n in range(pairs)}
        if quantile:
            labels["quantile"] = f"0.${4 + 2 * pairs}"
        pattern, attribute = rest.split("><")
        rule(rf"kafka.(\w+)<type=(.+), name={pattern}{more}><{attribute}", name, kind, **labels)

    server = "kafka.server<type=(.+), "
    rule(
        server + "name=(.+), clientId=(.+), topic=(.+), partition=(.*)><>Value",
        "kafka_server_$1_$2", "GAUGE", clientId="$3", topic="$4", partition="$5",
    )  # fmt: skip
    coordinator = r"kafka.coordinator.(\w+)<type=(.+), name=(.+)><>Value"
    rule(coordinator, "kafka_coordinator_$1_$2_$3", "GAUGE")
    for pairs in (2, 1, 0):
        keyed(r"(.+)PerSec\w*><>Count", "kafka_$1_$2_$3_total", "COUNTER", pairs)
    quota = "kafka_server_quota_$"
    rule(
        server + "user=(.+), client-id=(.+)><>([a-z-]+)", quota + "4", "GAUGE",
        resource="$1", user="$2", clientId="$3",
    )  # fmt: skip
    for pairs in (2, 1, 0):
        keyed("(.+)><>Value", "kafka_$1_$2_$3", "GAUGE", pairs)
    for pairs in (2, 1, 0):
        keyed("(.+)><>Count", "kafka_$1_$2_$3_count", "COUNTER", pairs)
        keyed(r"(.+)><>(\d+)thPercentile", "kafka_$1_$2_$3", "GAUGE", pairs, quantile=True)
    idle = r"kafka.(\w+)<type=(.+), name=(.+)Percent\w*><>MeanRate"
    rule(idle, "kafka_$1_$2_$3_percent", "GAUGE")
    return found


@contextmanager
def watched_kafka(directory: Path) -> Iterator[tuple[str, int]]:
    """An Apache Kafka's bootstrap address and its exporter's port."""
    jars = maven_jars("jmx-exporter", EXPORTER)
    (agent,) = jars.glob("jmx_prometheus_javaagent*.jar")
    configuration = directory / "rules.json"
    configuration.write_text(json.dumps({"lowercaseOutputName": True, "rules": rules()}))
    port = free_port()
    java, *_ = java_command("kafka.Kafka")
    command = [java, "-Xmx384m", f"-javaagent:{agent}={port}:{configuration}"]
    with zookeeper_process(directory) as connect:
        kafka = ApacheKafkaProcess(
            directory,
            connect,
            {"offsets.topic.replication.factor": "1", "auto.create.topics.enable": "true"},
            java=[*command, "-cp", f"{kafka_jars()}/*"],
        )
        kafka.start()
        try:
            yield kafka.bootstrap, port
        finally:
            kafka.kill()


def test_names_and_labels(tmp_path: Path) -> None:
    with watched_kafka(tmp_path) as (bootstrap, port):
        producer = KafkaProducer(bootstrap_servers=bootstrap)
        for number in range(20):
            producer.send("orders", b"%d" % number).get(30)
        consumer = KafkaConsumer(
            "orders",
            group_id="g",
            bootstrap_servers=bootstrap,
            auto_offset_reset="earliest",
            consumer_timeout_ms=10_000,
        )
        assert next(consumer).value == b"0"
        consumer.commit()
        while consumer.poll(timeout_ms=1500):  # up to a fetch that waits in vain
            pass
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            theirs = labels_by_name(answer.read().decode())
        consumer.close()
        producer.close()
    assert len(theirs) > 150
    ours = labels_of_ours()
    missing = {name for name in theirs if SUMMED.sub("", name) not in ours and name not in ours}
    unexplained = {n for n in missing if not any(fnmatch(n, pattern) for pattern in MISSING)}
    assert not unexplained
    needless = {p for p in MISSING if not any(fnmatch(name, p) for name in missing)}
    assert not needless
    differ = {
        name: (ours[name], labels)
        for name, labels in theirs.items()
        if name in ours and not labels <= ours[name]
    }
    # One queue of answers for all processors, which share a loop.
    assert set(differ) == {"kafka_network_requestchannel_responsequeuesize"}
    assert len(theirs.keys() & CATALOGUE.keys()) > 60


def labels_of_ours() -> dict[str, set[str]]:
    """As docs/METRICS.md says, which another test keeps true."""
    page = (ROOT / "docs" / "METRICS.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| \w+ \| ([\w, ]*) \| .* \| .* \|$", page, re.MULTILINE)
    return {name: set(labels.split(", ")) - {""} for name, labels in rows}


def labels_by_name(text: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name, labels in re.findall(r"^((?:kafka|jvm|jmx)_\w+)(?:\{(.*)\})? ", text, re.MULTILINE):
        found.setdefault(name.replace("_count_total", "_count"), set()).update(
            re.findall(r'(\w+)="', labels)
        )
    return found
