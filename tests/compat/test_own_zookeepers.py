"""docs/operate/zookeeper.md: its steps on three machines, below brokers that run on.

Each machine is a process with the zoo.cfg of the page, and a directory and ports of its own. All
the time records are acknowledged. No broker loses its session, and a topic is made after each step.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from pybroker_kafka.local.zookeeper_nodes import mode_of
from pybroker_kafka.testing import KafkaCluster
from tests.compat.test_more_zookeepers import TOPIC, sessions, writing
from tests.support.page_blocks import blocks
from tests.support.patience import until
from tests.support.processes import (
    PYBROKER,
    ROOT,
    ServerProcess,
    ZooKeeperProcess,
    free_port,
)

PAGE = ROOT / "docs" / "operate" / "zookeeper.md"
HOST = "127.0.0.1"
NUMBERS = (1, 2, 3)
CONFIG = {
    "pybroker.zookeeper.follow.members": True,
    "zookeeper.session.timeout.ms": 18_000,
    "min.insync.replicas": 2,
}


class Machine(ServerProcess):
    """One of zk1, zk2 and zk3. It is ready once it leads or follows."""

    def __init__(self, directory: Path, number: int, config: str, port: int) -> None:
        self.number = number
        self.address = f"{HOST}:{port}"
        self.data = directory / f"zk{number}"
        self._port = port
        self.config = directory / f"zk{number}.cfg"
        self.config.write_text(config.replace("/var/lib/zookeeper", str(self.data)))
        super().__init__([*PYBROKER, "zookeeper", str(self.config)], directory / f"zk{number}.log")

    def fill(self, copied: Path | None = None) -> None:
        """Its directory with a copy of another, or empty; and its file `myid`."""
        if copied is None:
            self.data.mkdir()
        else:
            shutil.copytree(copied, self.data)
        (self.data / "myid").write_text(f"{self.number}\n")

    @property
    def mode(self) -> str:
        return mode_of(HOST, self._port)

    def is_ready(self) -> bool:
        return bool(self.mode)


def machines_in(directory: Path, first_port: int) -> list[Machine]:
    """The three of the page, here on one; zk1 has this client port."""
    directory.mkdir()
    (config,) = (one.text for one in blocks(PAGE) if one.language == "properties")
    ports = {n: free_port() if n > 1 else first_port for n in NUMBERS}
    for number, port in ports.items():
        written = f"zk{number}:2888:3888;2181"
        assert written in config
        local = f"{HOST}:{free_port()}:{free_port()};{HOST}:{port}"
        config = config.replace(written, local)
    return [Machine(directory, number, config, port) for number, port in ports.items()]


def leader_of(machines: Sequence[Machine]) -> Machine:
    """Once all have a role."""
    until(lambda: all(one.mode for one in machines))
    return until(lambda: next((one for one in machines if one.mode == "leader"), None))


def all_of(machines: Sequence[Machine]) -> str:
    return ",".join(one.address for one in machines)


def topics_at(connect: str) -> set[str]:
    client = KazooClient(connect)
    client.start(timeout=60)
    try:
        client.sync("/")
        return set(client.get_children("/brokers/topics"))
    finally:
        client.stop()
        client.close()


class Steps:
    """Of the page. After each of them a topic is made, and the sessions are those of before."""

    def __init__(self, kafka: KafkaCluster, machines: Sequence[Machine]) -> None:
        self._kafka = kafka
        self._machines = machines
        self._before = sessions(kafka.zookeeper)
        assert len(self._before) == len(kafka.brokers)

    def _check(self, name: str, connect: str | None = None) -> None:
        assert sessions(connect or all_of(self._machines)) == self._before
        self._kafka.topic(name)

    def grow(self, alone: ZooKeeperProcess, data: Path) -> None:
        assert alone.stop() == 0
        for machine in self._machines:
            machine.fill(data)
            machine.launch()
        leader_of(self._machines)
        logs = [Path(self._kafka.node(one).log_file) for one in self._kafka.brokers]
        until(lambda: all("ZooKeeper is reached at" in log.read_text() for log in logs))
        # It has the only address with which the brokers were started.
        first = self._machines[0]
        assert first.stop() == 0
        self._kafka.topic("without-the-first")
        first.start()
        self._check("grown")

    def upgrade(self) -> None:
        leader = leader_of(self._machines)
        for machine in [*(one for one in self._machines if one is not leader), leader]:
            assert machine.stop() == 0
            machine.launch()
            until(lambda one=machine: one.mode == "follower")  # type: ignore[misc]
        self._check("upgraded")

    def back_up(self, backup: Path) -> None:
        follower = next(one for one in self._machines if one is not leader_of(self._machines))
        assert follower.stop() == 0
        shutil.copytree(follower.data, backup)
        follower.start()
        self._check("backed-up")

    def replace(self) -> None:
        """The leader, of all."""
        lost = leader_of(self._machines)
        lost.kill()
        shutil.rmtree(lost.data)
        rest = [one for one in self._machines if one is not lost]
        leader_of(rest)
        lost.fill()
        lost.start()
        assert topics_at(lost.address) == topics_at(all_of(rest))
        self._check("replaced")

    def back_to_one(self, alone: ZooKeeperProcess, data: Path) -> None:
        leader = leader_of(self._machines)
        for machine in [*(one for one in self._machines if one is not leader), leader]:
            assert machine.stop() == 0
        shutil.copytree(leader.data, data)
        alone.start()
        self._check("alone", alone.connect)


@pytest.mark.nightly  # test_more_zookeepers grows a cluster from one to three, too
def test_the_steps_below_a_running_cluster(tmp_path: Path) -> None:
    one = ZooKeeperProcess(tmp_path / "one")
    machines = machines_in(tmp_path / "three", one.port)
    restored = machines_in(tmp_path / "restored", free_port())
    again = ZooKeeperProcess(tmp_path / "again", one.port)
    backup = tmp_path / "backup"
    with contextlib.ExitStack() as ended:
        for server in (one, *machines, *restored, again):
            ended.callback(server.kill)
        one.start()
        kafka = ended.enter_context(KafkaCluster(brokers=3, zookeeper=one.connect, config=CONFIG))
        kafka.topic(TOPIC)
        steps = Steps(kafka, machines)
        with writing(kafka.bootstrap) as writer:
            steps.grow(one, tmp_path / "one" / "zookeeper")
            steps.upgrade()
            topics = topics_at(all_of(machines))
            steps.back_up(backup)
            steps.replace()
            steps.back_to_one(again, tmp_path / "again" / "zookeeper")
        found = {record.value for record in kafka.records(TOPIC)}
        assert {value.encode() for value in writer.acked} <= found
        for machine in restored:
            machine.fill(backup)
            machine.launch()
        leader_of(restored)
        assert topics_at(all_of(restored)) == topics
