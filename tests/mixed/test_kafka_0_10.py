"""Java clients of 2017: kafka-clients 0.10.2 (Produce v2, Fetch v3, format v1) and 0.11 (v2)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker_kafka.protocol.records.batch import Compression, iter_batch_headers
from tests.support.maven import compiled, maven_jars
from tests.support.processes import BrokerProcess, running_broker
from tests.support.short_lived_java import JVM_OPTIONS
from tests.support.wire import WireClient, unique

SOURCE = Path(__file__).parents[1] / "compat" / "java" / "MiddleClients.java"
VERSIONS = ("0.10.2.2", "0.11.0.3")
CODECS = ("none", "gzip", "snappy", "lz4")
JAVA = ["java", "-Xmx128m", *JVM_OPTIONS]
TIMEOUT_SECONDS = 120
OWN_VALUES = [b"today 1", b"today 2"]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """With topics in message format v1 where they ask for it."""
    config = {"inter.broker.protocol.version": "2.8", "offsets.topic.num.partitions": "1"}
    with running_broker(tmp_path_factory.mktemp("middle"), config) as running:
        yield running


@pytest.mark.parametrize("stored", ["0.10.2", "2.8"])
@pytest.mark.parametrize("version", VERSIONS)
def test_they_read_and_write(broker: BrokerProcess, version: str, stored: str) -> None:
    jars = maven_jars(
        f"kafka-clients-{version}",
        {"org.apache.kafka:kafka-clients": version, "org.slf4j:slf4j-nop": "1.7.36"},
    )
    path = compiled(SOURCE, jars)
    group = unique("group")
    with WireClient(broker.bootstrap) as client:
        topic = client.create_topic(message_format_version=stored)
        client.coordinator(group)
        codec = Compression.SNAPPY
        client.append(topic.name, *OWN_VALUES, timestamp=77, key=b"own", compression=codec)
        rows = [f"{n}\t{77 + n}\town\t{value.decode()}" for n, value in enumerate(OWN_VALUES)]
        rows += [
            f"{2 + 40 * c + n}\t{1_500_000_000_000 + n}\tkey{n}\t{codec_name} {n}"
            for c, codec_name in enumerate(CODECS)
            for n in range(40)
        ]
        done = subprocess.run(
            [*JAVA, "-cp", path, "MiddleClients", broker.bootstrap, topic.name, group,
             str(len(rows))],
            capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-500:]
        assert done.stdout.splitlines() == rows
        magics = {h.magic for _, h in iter_batch_headers(client.fetch(topic).records)}
        assert magics == ({1} if stored == "0.10.2" else {2})
