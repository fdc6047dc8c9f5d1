"""What docker/ says, run as processes: there is no Docker where the tests run.

Commands and environments of compose files, ours and those written for Kafka's images, are started
with their host names, ports and volume directories replaced by local ones; what cannot be checked
here is the image itself, beyond that it copies every package and starts what it says.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click.testing
import pytest
import yaml
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic

from pybroker_kafka.cli.main import main
from pybroker_kafka.local.zookeeper_nodes import mode_of
from tests.support.nightly import nightly
from tests.support.patience import until
from tests.support.processes import PYBROKER, ROOT, free_port

VOLUME = "/var/lib/pybroker"
INSIDE_PORT = "19092"
BROKERS = 3
ZOOKEEPERS = 3
WAIT_SECONDS = 120.0


@contextmanager
def running(
    arguments: list[str], environment: dict[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*PYBROKER, *arguments],
            env={**os.environ, **environment},
            cwd=ROOT,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            yield process
        finally:
            process.terminate()
            process.wait(60)


def wait_for(ports: Iterable[int]) -> None:
    """Until somebody listens on all of them; a client that begins with them gives up sooner."""
    deadline = time.monotonic() + WAIT_SECONDS
    for port in ports:
        while True:
            with socket.socket() as client:
                if client.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert time.monotonic() < deadline, port
            time.sleep(0.05)


def service_here(
    name: str, service: dict[str, Any], ports: dict[str, int], directory: Path
) -> tuple[list[str], dict[str, str]]:
    """A service's command and environment on this machine."""

    def local(text: object) -> str:
        found = str(text).replace(VOLUME, str(directory / name))
        found = re.sub(r"(zookeeper-\d):2181", lambda m: f"127.0.0.1:{ports[m[1]]}", found)
        found = re.sub(
            r"(zookeeper-\d):2888:3888;2181",
            lambda m: "127.0.0.1:{}:{};127.0.0.1:{}".format(
                ports[f"{m[1]} quorum"], ports[f"{m[1]} election"], ports[m[1]]
            ),
            found,
        )
        found = re.sub(r"(broker-\d):" + INSIDE_PORT, lambda m: f"127.0.0.1:{ports[m[1]]}", found)
        found = found.replace(f"0.0.0.0:{INSIDE_PORT}", f"127.0.0.1:{ports.get(name, 0)}")
        return re.sub(
            r"(?:0\.0\.0\.0|localhost):(909\d)", lambda m: f"127.0.0.1:{ports[m[1]]}", found
        )

    command = [local(part) for part in service["command"]]
    environment = {key: local(value) for key, value in service.get("environment", {}).items()}
    return command, environment


@pytest.mark.nightly
@pytest.mark.timeout(240)
def test_the_composed_cluster_takes_acknowledged_records(tmp_path: Path) -> None:
    """Each ZooKeeper may be killed, one at a time, and a broker."""
    services = yaml.safe_load((ROOT / "docker/compose.yaml").read_text())["services"]
    members = [f"zookeeper-{n}" for n in range(1, ZOOKEEPERS + 1)]
    brokers = [f"broker-{n}" for n in range(1, BROKERS + 1)]
    names = [*members, *brokers]
    assert sorted(services) == sorted(names)
    outside = [port.split(":")[0] for n in brokers for port in services[n]["ports"]]
    assert outside == ["9092", "9093", "9094"]
    inner = [f"{name} {kind}" for name in members for kind in ("quorum", "election")]
    wanted = [*names, *outside, *inner]
    ports = {name: free_port() for name in wanted}
    with ExitStack() as stack:

        def start(name: str) -> subprocess.Popen[bytes]:
            command, environment = service_here(name, services[name], ports, tmp_path)
            log = tmp_path / f"{name}.log"
            return stack.enter_context(running(command, environment, log))

        processes = {name: start(name) for name in names}
        wait_for(ports[port] for port in outside)
        servers = [f"127.0.0.1:{ports[port]}" for port in outside]
        producer = KafkaProducer(
            bootstrap_servers=servers, acks="all", max_block_ms=60_000, retries=1000
        )
        sent = producer.send("composed", b"hello").get(timeout=60)
        assert sent.offset == 0
        admin = KafkaAdminClient(bootstrap_servers=servers)
        for name in members:
            processes[name].kill()
            processes[name].wait()
            admin.create_topics([NewTopic(f"without-{name}", 1, 3)])
            producer.send("composed", name.encode()).get(timeout=60)
            processes[name] = start(name)
            until(partial(mode_of, "127.0.0.1", ports[name]))
        processes[brokers[0]].kill()
        producer.send("composed", b"bye").get(timeout=120)
        admin.close()
        producer.close()
        consumer = KafkaConsumer(
            "composed",
            bootstrap_servers=servers,
            auto_offset_reset="earliest",
            consumer_timeout_ms=30_000,
        )
        expected = [b"hello", *(name.encode() for name in members), b"bye"]
        assert [next(consumer).value for _ in expected] == expected
        consumer.close()


def image_command(properties: Path) -> list[str]:
    """What the image runs, with its properties file in another place."""
    text = (ROOT / "docker/Dockerfile").read_text()
    (command,) = re.findall(r"^CMD (\[.*\])$", text, re.MULTILINE)
    (copied,) = re.findall(r"^COPY docker/server.properties (\S+)$", text, re.MULTILINE)
    words: list[str] = json.loads(command)
    return [word.replace(copied, str(properties)) for word in words]


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", ["apache-kafka", nightly("bitnami")])
def test_a_file_for_kafkas_image_with_ours(tmp_path: Path, name: str) -> None:
    """It keeps its records over a restart."""
    (service,) = yaml.safe_load((ROOT / f"tests/golden/compose/{name}.yaml").read_text())[
        "services"
    ].values()
    listed = service["environment"]
    if isinstance(listed, list):
        listed = dict(one.split("=", 1) for one in listed)
    ports: dict[str, int] = {}

    def local(text: object) -> str:
        found = str(text).replace("/tmp/kraft-combined-logs", str(tmp_path / "logs"))
        return re.sub(
            r"//[\w.]*:(\d{4,5})",
            lambda m: f"//127.0.0.1:{ports.setdefault(m[1], free_port())}",
            found,
        )

    environment = {key: local(value) for key, value in listed.items()}
    environment["PYBROKER_DATA_DIR"] = str(tmp_path / "data")
    command = image_command(ROOT / "docker/server.properties")
    outside = next(port.split(":")[0] for port in service["ports"][::-1])
    servers = f"127.0.0.1:{ports[outside]}"
    for offset in range(2):
        log = tmp_path / f"out-{offset}.log"
        with running(command, environment, log):
            wait_for([ports[outside]])
            admin = KafkaAdminClient(bootstrap_servers=servers)
            if not offset:
                admin.create_topics([NewTopic("composed", 1, 1)])
            producer = KafkaProducer(bootstrap_servers=servers, max_block_ms=60_000)
            assert producer.send("composed", b"hello").get(timeout=60).offset == offset
            producer.close()
            admin.close()
        text = log.read_text()
        assert text.count("settings for KRaft are translated") == 1, text
        assert "Leaving the directory" not in text


@pytest.mark.timeout(180)
def test_the_image_holds_every_package_and_starts_a_broker(tmp_path: Path) -> None:
    text = (ROOT / "docker/Dockerfile").read_text()
    copied = {found[1] for found in re.finditer(r"^COPY (\w+) /src/\1$", text, re.MULTILINE)}
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert copied == packages - {"benchmarks"}
    (files,) = re.findall(r"^COPY (.*\.py .*) /src/$", text, re.MULTILINE)
    modules = {path.name for path in ROOT.glob("*.py")}
    assert set(files.split()) == modules | {"pyproject.toml", "README.md", "LICENSE", "py.typed"}
    port = free_port()
    properties = tmp_path / "server.properties"
    default = (ROOT / "docker/server.properties").read_text()
    properties.write_text(default.replace(":9092", f":{port}"))
    environment = {"PYBROKER_DATA_DIR": str(tmp_path / "data")}
    with running(image_command(properties), environment, tmp_path / "out.log"):
        wait_for([port])
        servers = f"localhost:{port}"
        producer = KafkaProducer(bootstrap_servers=servers, max_block_ms=60_000)
        assert producer.send("contained", b"hello").get(timeout=60).partition == 0
        producer.close()


@pytest.mark.nightly
def test_the_secured_container_takes_who_logs_in(tmp_path: Path) -> None:
    text = (ROOT / "docker/Dockerfile").read_text()
    (words,) = re.findall(r"^#   docker run .* pybroker (start --secure .*)$", text, re.MULTILINE)
    copied = re.findall(rf"^#   docker cp pybroker:{VOLUME}/(\S+) \.$", text, re.MULTILINE)
    ports = ["--port", str(free_port()), "--zookeeper-port", str(free_port())]
    data = tmp_path / "data"
    environment = {"PYBROKER_DATA_DIR": str(data)}
    log = tmp_path / "out.log"
    with running([*words.split(), *ports], environment, log) as process:
        while b"the same for admin" not in log.read_bytes():  # the end of what it prints
            assert process.poll() is None, log.read_text()
            time.sleep(0.05)
        settings, authority = (data / name for name in copied)
        assert f"ssl.truststore.location={authority}\n" in settings.read_text()
        login = ["--bootstrap-server", f"127.0.0.1:{ports[1]}", "--command-config", str(settings)]
        done = click.testing.CliRunner().invoke(main, ["topics", "create", "contained", *login])
        assert done.exit_code == 0, done.stderr
