"""A local cluster as its users have it: `pybroker start --detach`, its supervisor and its nodes.

What a test does to it goes through the commands' own ways (the supervisor's socket), or, as other
people's `kill -9` would, around them. Ports are free ones; `close` leaves nothing running.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pybroker_kafka.local import cluster_state
from pybroker_kafka.local.cluster_control import command_node
from pybroker_kafka.protocol.apis.create_topics import CreatableTopic, CreateTopicsRequest
from pybroker_kafka.protocol.apis.elect_leaders import ElectLeadersRequest
from pybroker_kafka.protocol.apis.metadata import MetadataRequest, MetadataRequestTopic
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.schema import Message
from tests.support.patience import Limit
from tests.support.processes import PYBROKER, ROOT
from tests.support.wire import WireClient

COMMAND_SECONDS = 120.0
WAIT_SECONDS = 120.0
POLL_SECONDS = 0.02
CALL_SECONDS = 5.0
PREFERRED = 0

T = TypeVar("T")


class DetachedCluster:
    def __init__(self, directory: Path, config: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self._config = config or {}

    def command(self, *arguments: str) -> str:
        done = subprocess.run(
            [*PYBROKER, *arguments, "--data-dir", str(self.directory)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout

    def start(self, *options: str) -> None:
        ports = ("--port", "0", "--zookeeper-port", "0")
        settings = [f"--config={key}={value}" for key, value in self._config.items()]
        self.command("start", "--detach", *ports, *settings, *options)

    def close(self) -> None:
        if cluster_state.is_claimed(self.directory):
            self.command("stop")

    @property
    def state(self) -> cluster_state.ClusterState:
        return cluster_state.load(self.directory)

    @property
    def bootstrap(self) -> str:
        return self.state.bootstrap

    def node(self, node: int) -> cluster_state.NodeState:
        return next(one for one in self.state.brokers if one.node_id == node)

    # Faults

    def kill(self, node: int) -> None:
        """SIGKILL from outside: nobody tells the supervisor."""
        os.kill(self.node(node).pid, signal.SIGKILL)

    def tell(self, command: str, node: int | str) -> str:
        """Have the supervisor do it."""
        return command_node(self.directory, command, str(node))

    # What the cluster says

    def ask(self, request: Message, node: int | None = None, version: int | None = None) -> Any:
        """An answer of this broker, or of any."""
        error: Exception = ConnectionError("no broker runs")
        for one in self.state.brokers:
            if node in (None, one.node_id):
                try:
                    with WireClient(f"{one.host}:{one.port}") as client:
                        client.socket.settimeout(CALL_SECONDS)
                        return client.call(request, version)
                except OSError as failure:
                    error = failure
        raise error

    def metadata(self, topic: str | None = None, node: int | None = None) -> Any:
        topics = None if topic is None else [MetadataRequestTopic(name=topic)]
        return self.ask(MetadataRequest(topics=topics), node, 9)

    def controller(self) -> int:
        found: int = self.metadata().controller_id
        return found

    def leaders(self, topic: str) -> dict[int, int]:
        (found,) = self.metadata(topic).topics
        return {one.partition_index: one.leader_id for one in found.partitions}

    def is_whole(self, topic: str | None = None) -> bool:
        """Whether each running broker says that all replicas of all partitions are in sync."""
        for node in self.state.brokers:
            answer = self.metadata(topic, node.node_id)
            if len(answer.brokers) != len(self.state.brokers):
                return False
            for found in answer.topics:
                for one in found.partitions:
                    if one.error_code or set(one.isr_nodes) != set(one.replica_nodes):
                        return False
        return True

    def wait_for(self, condition: Callable[[], T | None], what: str) -> T:
        limit = Limit(WAIT_SECONDS)
        while True:
            try:
                found = condition()
            except OSError:
                found = None
            if found:
                return found
            assert not limit.is_over, f"not within {limit.waited:.0f} s: {what}"
            time.sleep(POLL_SECONDS)

    # Administration

    def create_topic(self, name: str, partitions: int) -> None:
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=-1)

        def created() -> bool:
            request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
            (result,) = self.ask(request, self.controller()).topics
            return result.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)

        self.wait_for(created, f"{name} is created")
        self.wait_for(lambda: self.is_whole(name), f"{name} is in sync")

    def balance(self, topics: Sequence[str]) -> None:
        """Every leadership goes back to the preferred replica."""

        def preferred() -> bool:
            return all(
                one.leader_id == one.replica_nodes[0]
                for topic in topics
                for found in self.metadata(topic).topics
                for one in found.partitions
            )

        def elected() -> bool:
            request = ElectLeadersRequest(
                election_type=PREFERRED, topic_partitions=None, timeout_ms=10_000
            )
            self.ask(request, self.controller())
            return preferred()

        self.wait_for(elected, "the preferred replicas lead")
