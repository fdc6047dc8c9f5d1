"""Three real broker processes over a real ZooKeeper process, which a test breaks and mends.

Job: `cluster(directory, "embedded" | "real" | "ensemble" | "members")` starts all ("ensemble":
three of Apache ZooKeeper; "members": three of ours); a node is killed, stopped, paused, cut off and
started again by its id, a member by its place; `wait_for` waits for what a test expects of the
cluster's state, as the brokers themselves tell it.
Invariants: brokers reach each other and ZooKeeper only through the test kit's `Network`, clients
reach them directly, or all through a net of namespaces (`tests.support.namespaces`); timeouts are
short, so that a case takes seconds; what is started here is killed at the end, whatever happened.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from pybroker_kafka.protocol.apis.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pybroker_kafka.protocol.apis.find_coordinator import FindCoordinatorRequest
from pybroker_kafka.protocol.apis.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.schema import Message
from pybroker_kafka.testing import Network
from tests.support.ensembles import OurMember, our_members
from tests.support.namespaces import MEMBERS, ZOOKEEPER, Net
from tests.support.patience import Limit
from tests.support.processes import BrokerProcess, ServerProcess, ZooKeeperProcess, free_port
from tests.support.real_zookeeper import RealZooKeeper, ensemble_of
from tests.support.wire import WireClient

SESSION_TIMEOUT_SECONDS = 4.0
MEMBER_TICK_MS = 500
LAG_LIMIT_SECONDS = 2.0
WAIT_SECONDS = 90.0
POLL_SECONDS = 0.1
CALL_TIMEOUT_SECONDS = 3.0
TOLD_SECONDS = 0.2  # waits that are longer are part of the story
CONFIG = {
    "zookeeper.session.timeout.ms": str(int(SESSION_TIMEOUT_SECONDS * 1000)),
    "zookeeper.connection.timeout.ms": "60000",
    "replica.lag.time.max.ms": str(int(LAG_LIMIT_SECONDS * 1000)),
    "replica.fetch.wait.max.ms": "200",
    "replica.fetch.backoff.ms": "100",
    "replica.socket.timeout.ms": "3000",
    "controller.socket.timeout.ms": "3000",
    "controlled.shutdown.retry.backoff.ms": "500",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "auto.create.topics.enable": "false",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT",
    "inter.broker.listener.name": "INTERNAL",
}

T = TypeVar("T")


class ZooKeeperServer(Protocol):
    port: int

    def launch(self) -> None: ...
    def start(self) -> object: ...
    def kill(self) -> None: ...
    def wait_until_ready(self) -> object: ...


def place_of(server: ZooKeeperServer) -> int:
    return MEMBERS[server.number] if isinstance(server, OurMember) else ZOOKEEPER


class PartitionView(NamedTuple):
    leader: int
    epoch: int
    isr: frozenset[int]
    replicas: tuple[int, ...]


class Cluster:
    def __init__(
        self,
        directory: Path,
        zookeepers: Sequence[ZooKeeperServer],
        config: Mapping[str, str] | None = None,
        count: int = 3,
        net: Net | None = None,
    ) -> None:
        self.zookeepers = zookeepers
        self.directory = directory
        self._net = net
        self.links: Network | Net = net or Network()
        places = [place_of(server) for server in zookeepers]
        self.zookeeper_places = list(dict.fromkeys(places))
        connect = ",".join(
            f"{self._host(place)}:{self.links.front(place, server.port)}"
            for place, server in zip(places, zookeepers, strict=True)
        )
        self.nodes = {
            node: self._broker(node, connect, config or {}) for node in range(1, count + 1)
        }
        if net is not None:
            for server in zookeepers:
                assert isinstance(server, ServerProcess)
                server.namespace = net.namespace(place_of(server))
            for node, broker in self.nodes.items():
                broker.namespace = net.namespace(node)
        self.paused: set[int] = set()
        self.story: list[str] = []
        self._closings: list[Callable[[], object]] = []
        self._began = time.monotonic()

    def _broker(self, node: int, connect: str, config: Mapping[str, str]) -> BrokerProcess:
        port, internal = free_port(), free_port()
        door, host = self.links.front(node, internal), self._host(node)
        properties = {
            **CONFIG,
            "listeners": f"PLAINTEXT://{host}:{port},INTERNAL://{host}:{internal}",
            "advertised.listeners": f"PLAINTEXT://{host}:{port},INTERNAL://{host}:{door}",
            **config,
        }
        directory = self.directory / f"broker-{node}"
        return BrokerProcess(directory, connect, properties, node, port, host)

    def _host(self, place: int) -> str:
        return "127.0.0.1" if self._net is None else self._net.host(place)

    def tell(self, event: str) -> None:
        """Into the story of this cluster, which a failing test prints."""
        self.story.append(f"{time.monotonic() - self._began:6.1f} s  {event}")

    # Nodes

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.nodes.values())

    @property
    def serving(self) -> list[int]:
        """The nodes that run and are not paused."""
        return [n for n, broker in self.nodes.items() if broker.is_running and n not in self.paused]

    def start_all(self) -> None:
        self.start_zookeeper()
        self.start(*self.nodes)

    def start(self, *nodes: int) -> None:
        for node in nodes:
            self.nodes[node].launch()
            self.links.belongs(node, self.nodes[node].pid)
        for node in nodes:
            seconds = self.nodes[node].wait_until_ready()
            self.tell(f"node {node} started, ready after {seconds:.1f} s")

    def kill(self, *nodes: int) -> None:
        for node in nodes:
            self.nodes[node].kill()
            self.tell(f"node {node} killed")
            self.paused.discard(node)

    def stop(self, node: int) -> None:
        """SIGTERM: controlled shutdown, and a clean end."""
        status = self.nodes[node].stop()
        self.tell(f"node {node} stopped")
        assert status == 0, f"node {node} ended with {status}\n{self.nodes[node].log_text[-3000:]}"

    def pause(self, node: int) -> None:
        self.nodes[node].pause()
        self.tell(f"node {node} paused")
        self.paused.add(node)

    def resume(self, node: int) -> None:
        self.nodes[node].resume()
        self.tell(f"node {node} resumed")
        self.paused.discard(node)

    def cut(self, a: int, b: int) -> None:
        """Connections between two nodes (or one and ZOOKEEPER) are closed, and refused."""
        for one, other in self._links(a, b):
            self.links.cut(one, other)
        self.tell(f"{a} and {b} cut")

    def silence(self, a: int, b: int) -> None:
        """Connections between two nodes stay, and carry nothing."""
        for one, other in self._links(a, b):
            self.links.silence(one, other)
        self.tell(f"{a} and {b} silent")

    def _links(self, a: int, b: int) -> list[tuple[int, int]]:
        """All links of two ends, of which one may be ZOOKEEPER: all of its places."""
        near, far = ([*self.zookeeper_places] if one == ZOOKEEPER else [one] for one in (a, b))
        return list(itertools.product(near, far))

    def heal(self) -> None:
        self.links.heal()
        self.tell("links healed")

    def kill_zookeeper(self) -> None:
        for server in self.zookeepers:
            server.kill()
        self.tell("ZooKeeper killed")

    def start_zookeeper(self) -> None:
        for server in self.zookeepers:
            server.launch()
        for server in self.zookeepers:
            server.wait_until_ready()
        self.tell("ZooKeeper started")

    # Members of an ensemble, by their place

    @property
    def has_members(self) -> bool:
        return ZOOKEEPER not in self.zookeeper_places

    def member(self, place: int) -> OurMember:
        server = next(one for one in self.zookeepers if place_of(one) == place)
        assert isinstance(server, OurMember)
        return server

    def leading_member(self, *places: int) -> int:
        """The place of the member that leads the ensemble, as soon as one of these (by default of
        those that run) does."""

        def found() -> int | None:
            asked = places or self.zookeeper_places
            return next((one for one in asked if self.member(one).mode == "leader"), None)

        return self.wait_for(found, "the ensemble has a leader")

    def kill_member(self, *places: int) -> None:
        for place in places:
            self.member(place).kill()
            self.tell(f"ZooKeeper {place} killed")

    def start_member(self, *places: int) -> None:
        for place in places:
            self.member(place).launch()
        for place in places:
            seconds = self.member(place).wait_until_ready()
            self.tell(f"ZooKeeper {place} serves after {seconds:.1f} s")

    def pause_member(self, *places: int) -> None:
        for place in places:
            self.member(place).pause()
            self.tell(f"ZooKeeper {place} paused")

    def resume_member(self, *places: int) -> None:
        for place in places:
            self.member(place).resume()
            self.tell(f"ZooKeeper {place} resumed")

    def mend(self) -> None:
        """All links carry, all nodes run. ZooKeeper is the script's to mend."""
        self.links.heal()
        for node in list(self.paused):
            self.resume(node)
        self.start(*[node for node, broker in self.nodes.items() if not broker.is_running])

    def close(self) -> None:
        for broker in self.nodes.values():
            broker.kill()
        for server in self.zookeepers:
            server.kill()
        self.links.close()
        for closing in self._closings:
            closing()

    def at_close(self, closing: Callable[[], object]) -> None:
        """Called when all processes are dead."""
        self._closings.append(closing)

    # What the cluster says

    def ask(self, node: int, request: Message, version: int | None = None) -> Any:
        """One request over a connection of its own; OSError if the node does not answer."""
        with WireClient(self.nodes[node].bootstrap) as client:
            client.socket.settimeout(CALL_TIMEOUT_SECONDS)
            return client.call(request, version)

    def ask_any(self, request: Message, version: int | None = None) -> Any:
        error: Exception = ConnectionError("no node serves")
        for node in self.serving:
            try:
                return self.ask(node, request, version)
            except (OSError, AssertionError) as failure:
                error = failure
        raise error

    def ask_controller(self, request: Message, version: int | None = None) -> Any:
        return self.ask(self.controller(), request, version)

    def metadata(self, topic: str | None = None, node: int | None = None) -> MetadataResponse:
        topics = None if topic is None else [MetadataRequestTopic(name=topic)]
        request = MetadataRequest(topics=topics)
        answer = self.ask_any(request, 9) if node is None else self.ask(node, request, 9)
        assert isinstance(answer, MetadataResponse)
        return answer

    def brokers(self) -> set[int]:
        """The nodes that the cluster's metadata names."""
        return {broker.node_id for broker in self.metadata("").brokers}

    def controller(self) -> int:
        """The controller's id, once a node that runs has it."""
        return self.wait_for(
            lambda: next(
                (
                    answer.controller_id
                    for node in self.serving
                    if (answer := self.metadata("", node)).controller_id in self.serving
                ),
                None,
            ),
            "a controller",
        )

    def partitions(self, topic: str, node: int | None = None) -> dict[int, PartitionView]:
        (found,) = self.metadata(topic, node).topics
        return {
            p.partition_index: PartitionView(
                p.leader_id, p.leader_epoch, frozenset(p.isr_nodes), tuple(p.replica_nodes)
            )
            for p in found.partitions
        }

    def leader(self, topic: str, partition: int = 0) -> int:
        """The leader, once a node that serves is."""
        return self.wait_for(
            lambda: (
                leader
                if (leader := self.partitions(topic)[partition].leader) in self.serving
                else None
            ),
            f"{topic}-{partition} has a leader that serves",
        )

    def coordinator(self, group: str) -> int:
        def found() -> int | None:
            request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
            (one,) = self.ask_any(request, 4).coordinators
            return one.node_id if one.node_id in self.serving else None

        return self.wait_for(found, f"a coordinator of {group}")

    def wait_for_isr(self, topic: str, members: frozenset[int] | set[int] | None = None) -> None:
        """Until every node says that each partition has these in sync (its replicas by default)."""

        def settled() -> bool:
            told = [self.partitions(topic, node).values() for node in self.serving]
            return all(told) and all(
                view.leader in view.isr
                and view.isr == frozenset(view.replicas if members is None else members)
                for views in told
                for view in views
            )

        self.wait_for(settled, f"{topic} has {sorted(members) if members else 'all'} in sync")

    def wait_for(
        self,
        condition: Callable[[], T | None],
        what: str,
        seconds: float = WAIT_SECONDS,
    ) -> T:
        """The first result that is not false; a node that does not answer is asked again."""
        limit = Limit(seconds)
        while True:
            found = None
            with contextlib.suppress(OSError, KeyError):  # KeyError: it knows no such topic yet
                found = condition()
            if found:
                if limit.waited > TOLD_SECONDS:
                    self.tell(f"{what} after {limit.waited:.1f} s")
                return found
            if limit.is_over:
                raise AssertionError(f"not within {limit.waited:.0f} s: {what}")
            time.sleep(POLL_SECONDS)

    # Administration

    def create_topic(
        self,
        name: str,
        partitions: int = 3,
        replication_factor: int = 3,
        config: Mapping[str, str] | None = None,
        assignment: Mapping[int, Sequence[int]] | None = None,
    ) -> None:
        topic = CreatableTopic(
            name=name,
            num_partitions=-1 if assignment else partitions,
            replication_factor=-1 if assignment else replication_factor,
            assignments=[
                CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
                for index, brokers in (assignment or {}).items()
            ],
            configs=[
                CreatableTopicConfig(name=key, value=value) for key, value in (config or {}).items()
            ],
        )

        is_unknown = False  # whether the attempt before has created it

        def created() -> bool:
            nonlocal is_unknown
            was_unknown, is_unknown = is_unknown, True
            request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
            (result,) = self.ask_controller(request).topics
            is_unknown = result.error_code == ErrorCode.REQUEST_TIMED_OUT
            # It exists as well while one of its name is being deleted, and soon does no more.
            is_ours = was_unknown and result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
            return bool(is_ours or result.error_code == ErrorCode.NONE)

        self.wait_for(created, f"{name} is created")
        self.wait_for_isr(name)


def zookeepers_of(place: Path, kind: str, net: Net | None) -> Sequence[ZooKeeperServer]:
    if kind == "members":
        hosts = {n: net.host(at) if net else "127.0.0.1" for n, at in MEMBERS.items()}
        return our_members(place, hosts, tick_ms=MEMBER_TICK_MS)
    if net is not None:
        return [ZooKeeperProcess(place, host=net.host(ZOOKEEPER))]
    if kind == "embedded":
        return [ZooKeeperProcess(place)]
    if kind == "real":
        return [RealZooKeeper(place)]
    assert kind == "ensemble"
    return ensemble_of(place, 3)


@contextlib.contextmanager
def cluster(
    directory: Path,
    zookeeper: str = "embedded",
    config: Mapping[str, str] | None = None,
    prepare: Callable[[Cluster], None] | None = None,
    net: Net | None = None,
) -> Iterator[Cluster]:
    """A running cluster; `prepare` may change it before its nodes start. In the namespaces of a
    net are an embedded ZooKeeper or our members; the net is closed with it."""
    servers = zookeepers_of(directory / "zookeeper", zookeeper, net)
    started = Cluster(directory, servers, config, net=net)
    try:
        if prepare is not None:
            prepare(started)
        started.start_all()
        yield started
    finally:
        started.close()
