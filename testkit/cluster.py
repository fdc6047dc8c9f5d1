"""A Kafka cluster for a test: started in a moment, harmed on purpose, gone afterwards.

The nodes are those of `pybroker start`, under a supervisor that the fork server makes: there is one
way to start them. This class is the test's side, synchronous throughout; `contents` has topics and
records.

Invariants: after `stop`, and after the test process has ended in any way, no process of it runs and
its own temporary directory is gone; every question to a stopped cluster is a ClusterError.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ..local import cluster_state
from ..local.cluster_state import MAX_BROKERS, MAX_ZOOKEEPERS, ClusterError
from ..local.ephemeral import EphemeralDirectory
from ..local.zookeeper_nodes import names_of
from .asynchronous import in_thread
from .contents import DEFAULT_TIMEOUT_SECONDS, Contents
from .ensemble import leader_of, wait_for_members
from .faults import Fault
from .launching import Channel, shared_launcher
from .network import NetworkFaults
from .options import ClusterOptions, config_texts
from .registry import RegistryBeside
from .request_faults import RequestFaults
from .story import chapter, failures, log_tails

if TYPE_CHECKING:
    from ..local.cluster_state import NodeState
    from ..local.secured import SecurityFiles
    from .inspection import Address

PICTURE_SECONDS = 5.0
POLL_SECONDS = 0.02
_MS = 1000


class KafkaCluster(Contents):
    """`with KafkaCluster(brokers=3) as kafka: ...`, or `async with`, or `start` and `stop`.

    brokers: their number, with the ids 1 to N. config: any keys of server.properties, and {id} in a
    value is the broker's id. secure: clients log in over TLS (`client_settings`). data_dir: keep
    the data there; without it all is in a temporary directory that goes with the cluster. A new
    cluster has the features of the newest Kafka, or of the release in `$PYBROKER_FEATURES`. Ports
    are free ones unless given. zookeepers: the number of members of their ensemble; more than one
    have the names "zookeeper-1" and so on. zookeeper: an ensemble of others instead. network: with
    a proxy between all nodes and clients, for the faults in `network`. registry: with a schema
    registry at `schema_registry_url`.

    Methods may be called from any thread, and from asyncio and trio too; they block their caller
    until done, which those of `AsyncKafkaCluster` do not. Raises ClusterError, whose text gives the
    remedy.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        config: Mapping[str, object] | None = None,
        secure: bool = False,
        data_dir: str | Path | None = None,
        port: int = 0,
        zookeeper_port: int = 0,
        zookeepers: int = 1,
        zookeeper: str | None = None,
        zookeeper_credentials: str | Path | None = None,
        metrics_port: int | None = None,
        network: bool = False,
        registry: bool = False,
        verbose: bool = False,
    ) -> None:
        if not 1 <= brokers <= MAX_BROKERS:
            raise ClusterError(f"a cluster has 1 to {MAX_BROKERS} brokers, not {brokers}")
        if not 1 <= zookeepers <= MAX_ZOOKEEPERS:
            raise ClusterError(f"a cluster has 1 to {MAX_ZOOKEEPERS} ZooKeepers, not {zookeepers}")
        if zookeeper is not None and zookeepers > 1:
            raise ClusterError(
                "a cluster has ZooKeepers of its own, or those of others: zookeepers= or zookeeper="
            )
        super().__init__(lambda: self.data_dir, config_texts(config or {}))
        self._kept_directory = None if data_dir is None else Path(data_dir).absolute()
        self._options = ClusterOptions(
            data_dir="",
            ephemeral=data_dir is None,
            brokers=brokers,
            release=cluster_state.release_of_new_clusters(),
            config=config_texts(config or {}),
            secure=secure,
            port=port,
            zookeeper_port=zookeeper_port,
            zookeepers=zookeepers,
            zookeeper=zookeeper,
            zookeeper_credentials=str(zookeeper_credentials) if zookeeper_credentials else None,
            metrics_port=metrics_port,
            network=network,
            verbose=verbose,
        )
        self._lock = threading.RLock()
        self._has_registry = registry
        self._registry: RegistryBeside | None = None
        self._channel: Channel | None = None
        self._directory: Path | None = None
        self._own_directory: EphemeralDirectory | None = None
        self._bootstrap = ""
        self._faults: list[Fault] = []
        self._network = NetworkFaults(
            self._members.ask_network, range(1, brokers + 1), self._faults, names_of(zookeepers)
        )
        self._has_own_time = False  # its clocks have been set on for good
        self.requests = RequestFaults(self._members.tell, self._faults)

    # Life

    def start(self) -> KafkaCluster:
        """Returns itself once a produce would succeed."""
        with self._lock:
            if self._channel is not None:
                raise ClusterError("this cluster runs already")
            began = time.monotonic()
            if self._kept_directory is None:
                self._own_directory = EphemeralDirectory()
                self._directory = self._own_directory.path
            else:
                self._directory = self._kept_directory
            self._options.data_dir = str(self._directory)
            try:
                registry = RegistryBeside() if self._has_registry else None
                self._options.registry = None if registry is None else registry.url
                channel = shared_launcher().launch(self._options)
                try:
                    channel.wait_until_ready()
                    self._channel = channel
                    self._bootstrap = self._members.state().bootstrap
                    if self._options.network:
                        self._bootstrap = self._members.ask_network(do="bootstrap")
                    if registry is not None:
                        registry.start(self._directory)
                        self._registry = registry
                except BaseException:
                    self._channel = None
                    channel.close()
                    raise
            except BaseException:
                self._remove_directory()
                raise
            self.story.tell(f"started after {time.monotonic() - began:.2f} s at {self._bootstrap}")
        return self

    def stop(self) -> None:
        """End all processes; the temporary directory goes. Without effect if it does not run."""
        with self._lock:
            channel, self._channel = self._channel, None
            registry, self._registry = self._registry, None
            self._faults.clear()
            if registry is not None:
                registry.stop()
            if channel is not None:
                channel.close()
                self.story.tell("stopped")
            self._remove_directory()

    def _remove_directory(self) -> None:
        """The supervisor does it, if it lives."""
        if self._own_directory is not None:
            shutil.rmtree(self._own_directory.path, ignore_errors=True)
            self._own_directory.release()

    @property
    def is_running(self) -> bool:
        return self._channel is not None

    def __enter__(self) -> KafkaCluster:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end(error)

    async def __aenter__(self) -> KafkaCluster:
        return await in_thread(self.start)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await in_thread(lambda: self._end(error))

    def _end(self, error: BaseException | None) -> None:
        """End a block: its error may have to do with the cluster."""
        if isinstance(error, Exception):
            failures.append(self.tell_story())
        self.stop()

    def __repr__(self) -> str:
        return f"<KafkaCluster {self._bootstrap if self.is_running else 'that does not run'}>"

    # Its address

    @property
    def bootstrap(self) -> str:
        """`host:port,host:port`, for `bootstrap_servers` and its like."""
        self._check_running()
        return self._bootstrap

    def get_bootstrap_server(self) -> str:
        """`bootstrap`, under the name that testcontainers gives it."""
        return self.bootstrap

    @property
    def schema_registry_url(self) -> str:
        """`http://host:port` of the schema registry, of a cluster with `registry=True`."""
        self._check_running()
        if self._registry is None:
            raise ClusterError("this cluster has no registry: start it with registry=True")
        return self._registry.url

    @property
    def zookeeper(self) -> str:
        """ZooKeeper's `host:port`, or those of all members."""
        return self._members.state().zookeeper_connect

    @property
    def zookeepers(self) -> list[str]:
        """The names of this cluster's own ZooKeepers, stopped ones included."""
        return [] if self._options.zookeeper else names_of(self._options.zookeepers)

    def zookeeper_leader(self, *, timeout: float = DEFAULT_TIMEOUT_SECONDS) -> str:
        """The name of the member of the ensemble that leads; waits until there is one."""
        return leader_of(self._members.state, timeout)

    def wait_for_zookeepers(self, *, timeout: float = DEFAULT_TIMEOUT_SECONDS) -> None:
        """Wait until all running members of the ensemble serve, with the newest state."""
        wait_for_members(self._members.state, timeout)

    @property
    def data_dir(self) -> Path:
        """`broker-1`, `broker-2`, ... with the brokers' files, and `logs` with their log files."""
        self._check_running()
        assert self._directory is not None
        return self._directory

    @property
    def brokers(self) -> list[int]:
        """The ids of all brokers, stopped ones included."""
        return list(range(1, self._options.brokers + 1))

    def node(self, node: int | str) -> NodeState:
        """The present process of a node: its `pid`, `port`, `status`, `directory` and `log_file`.
        `node` is a broker's id or a ZooKeeper's name."""
        for one in self._members.state().nodes:
            if str(node) == one.label:
                return one
        raise ClusterError(f"there is no node {node!r}")

    def address(self, broker: int) -> str:
        """The `host:port` of one broker."""
        return dict(zip(self.brokers, self.bootstrap.split(","), strict=True))[broker]

    def client_settings(self, library: str = "kafka-python", user: str = "admin") -> dict[str, Any]:
        """`KafkaProducer(**kafka.client_settings())`: the address of the cluster, and of a secured
        one the login of `admin`, who may do everything, or `user`, who may create, write and read.

        library: kafka-python, aiokafka, confluent-kafka, or java for a properties file.
        """
        from .client_settings import client_settings

        return client_settings(library, self.bootstrap, self._security, user)

    @property
    def _security(self) -> SecurityFiles | None:
        if not self._options.secure:
            return None
        from ..local.secured import SecurityFiles

        return SecurityFiles(self.data_dir)

    def _address(self) -> Address:
        from .inspection import Address

        addresses = self.bootstrap.split(",")
        running = [
            address
            for address, node in zip(addresses, self._members.state().brokers, strict=True)
            if node.status == cluster_state.NodeStatus.RUNNING
        ]
        security = self._security
        login = {} if security is None else security.client_settings("admin")
        return Address(",".join(running or addresses), login)

    # Faults

    def kill(self, node: int | str, *, as_lost: bool = False) -> Fault:
        """SIGKILL, as a crash; undone by a restart. `node` is a broker's id or a ZooKeeper's
        name: "zookeeper", or in an ensemble "zookeeper-1" and so on.

        The cluster notices it at once; `as_lost` is as if the machine had vanished: the cluster
        notices it when the session has expired, after 6 s.
        """
        return self._harm("kill-as-lost" if as_lost else "kill", node, self.restart)

    def shut_down(self, node: int | str) -> Fault:
        """A clean stop: a broker hands its leaderships over first. Undone by a restart."""
        return self._harm("stop", node, self.restart)

    def pause(self, node: int | str) -> Fault:
        """SIGSTOP: alive for the system, dead for the cluster. Undone by `resume`."""
        return self._harm("pause", node, self.resume)

    def resume(self, node: int | str) -> None:
        """Let a paused node go on."""
        self._forget_faults(f"pause {node}")
        self._members.command("resume", node)

    def restart(self, node: int | str) -> None:
        """Stop the node cleanly if it runs, start it again, and wait until it is ready."""
        harms = ("kill", "kill-as-lost", "stop", "pause")
        self._forget_faults(*(f"{name} {node}" for name in harms))
        self._members.command("restart", node)

    def expire_session(self, broker: int) -> None:
        """End a broker's ZooKeeper session, as if its heartbeats had been missing for too long, and
        wait until it has registered anew.
        """
        before = self._members.tell(broker, do="registrations")
        self._members.command("expire-session", broker)
        deadline = time.monotonic() + DEFAULT_TIMEOUT_SECONDS
        while self._members.tell(broker, do="registrations") == before:
            if time.monotonic() > deadline:
                raise ClusterError(f"broker {broker} has not registered anew")
            time.sleep(POLL_SECONDS)
        self.wait_for_brokers()

    def move_leader(self, topic: str, partition: int = 0, *, to: int) -> None:
        """Make a broker the leader of a partition, its preferred one from now on, and wait."""
        from .leader_moves import move_leader

        self._ask(lambda cluster: move_leader(cluster, topic, partition, to))
        self.story.tell(f"broker {to} leads {topic}-{partition}")

    def balance_leaders(self) -> None:
        """Give each partition back to its preferred leader, and wait: after a restart the other
        brokers still lead."""
        from .leader_moves import balance_leaders

        self._ask(balance_leaders)
        self.story.tell("each partition is led by its preferred leader")

    def break_disk(self, broker: int, fault: str = "full") -> Fault:
        """`full`: every write fails; `failing`: every read fails, too. As in Kafka, a broker whose
        only log directory has failed stops. Undone by a restart.
        """
        self._members.tell(broker, do="disk", fault=fault)
        self.story.tell(f"the disk of {broker} is {fault}")

        def mend() -> None:
            with contextlib.suppress(ClusterError):
                self._members.tell(broker, do="disk", fault="")
            self.restart(broker)

        return Fault(f"disk {broker}", mend, self._faults)

    def rebalance(self, group: str) -> None:
        """Have a consumer group rebalance though no member has asked for it."""
        if not any(self._members.tell(None, do="rebalance", group=group).values()):
            raise ClusterError(f"there is no group {group!r} with members")
        self.story.tell(f"rebalance of {group}")

    @property
    def network(self) -> NetworkFaults:
        """Cut, silence and delay; needs `network=True`."""
        if not self._options.network:
            raise ClusterError(
                "this cluster has no network of its own: start it with network=True, or mark the "
                "test with @pytest.mark.kafka(network=True)"
            )
        return self._network

    # Time

    def set_clock(self, broker: int | None = None, *, ahead: float) -> Fault:
        """Set the clock of a broker, or of all, so many seconds ahead (or, below 0, behind): as on
        a real machine, timestamps and retention follow it, sessions and time-outs do not."""
        self._members.tell(broker, do="clock", ahead_ms=round(ahead * _MS))
        self.story.tell(f"clock of {broker or 'all'} {ahead:+g} s")
        return Fault(f"clock {broker}", lambda: self._set_clock_right(broker), self._faults)

    def _set_clock_right(self, broker: int | None) -> None:
        with contextlib.suppress(ClusterError):  # one that does not run has forgotten it
            self._members.tell(broker, do="clock", ahead_ms=0)

    def advance(
        self, *, seconds: float = 0, minutes: float = 0, hours: float = 0, days: float = 0
    ) -> None:
        """Let time pass for the brokers at once, for good: retention deletes expired records,
        members of groups without a heartbeat meanwhile (all of them, if it is longer than their
        session) are removed, open transactions time out, tokens and committed offsets expire.

        Not for ZooKeeper's sessions, nor for clients, whose own clocks run on unchanged.
        """
        passed = seconds + 60 * minutes + 3600 * hours + 86_400 * days
        self._has_own_time = True
        self._members.tell(None, do="advance", ms=round(passed * _MS))
        self.story.tell(f"{passed:g} s have passed")

    def compact(self, topic: str) -> None:
        """Have a compacted topic cleaned now, all that is in it: the last record of each key stays.
        Tombstones stay for `delete.retention.ms` of the brokers' clocks."""
        if not sum(self._members.tell(None, do="compact", topic=topic).values()):
            self.story.tell(f"nothing to compact in {topic}")
        self.story.tell(f"compacted {topic}")

    # Faults, undone

    def heal(self) -> None:
        """Undo all faults, the last one first; then raises the first error of an undo, if any."""
        problems: list[ClusterError] = []
        for fault in self._faults[::-1]:
            try:
                fault.undo()
            except ClusterError as error:
                problems.append(error)
        if problems:
            raise problems[0]

    def _harm(self, command: str, node: int | str, undo: Callable[[int | str], None]) -> Fault:
        self._members.command(command, node)
        return Fault(f"{command} {node}", lambda: undo(node), self._faults)

    def _forget_faults(self, *names: str) -> None:
        self._faults[:] = [one for one in self._faults if one.name not in names]

    # Its state

    @property
    def is_whole(self) -> bool:
        """Whether the cluster and all its nodes run, and no fault is left."""
        if not self.is_running or self._faults or self._has_own_time:
            return False
        try:
            nodes = self._members.state().nodes
        except ClusterError:  # its supervisor has been killed
            return False
        return all(node.status == cluster_state.NodeStatus.RUNNING for node in nodes)

    def tell_story(self) -> str:
        """The events of the cluster with their times, with changes of leaders and of in-sync
        replicas, its present state, and the last lines of its logs; the plugin shows it with a
        failed test. Takes seconds at most; raises nothing.
        """
        with contextlib.suppress(ClusterError, OSError):
            self._members.remember()
        lines = chapter("events", self.story.lines())
        with contextlib.suppress(ClusterError, OSError):
            nodes = [
                f"{node.name}: {node.status}, port {node.port}"
                for node in self._members.state().nodes
            ]
            lines += chapter("nodes", nodes)
            try:
                from .picture import take_picture

                lines += chapter("cluster", self._ask(take_picture, PICTURE_SECONDS))
            except ClusterError as error:
                lines += chapter("cluster", [str(error)])
            lines += chapter("logs", log_tails(self.data_dir / "logs"))
        return "\n".join(lines)

    def _check_running(self) -> None:
        if self._channel is None:
            raise ClusterError("this cluster does not run; start it with start() or a with block")
