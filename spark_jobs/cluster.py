"""A Spark cluster on this machine, with a master and workers, from the jars in pyspark.

    python -m pybroker_kafka.spark_jobs.cluster

starts the cluster, prints how to submit a job to it, and stops it on Ctrl-C or SIGTERM. Each worker
has its own process group, like a machine: `SparkCluster.kill_worker` kills it with all its
executors.

Mirrors sbin/start-master.sh and start-worker.sh, which pyspark does not have. Leaves out: web
pages, recovery of a master, more machines than this one.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import FrameType

from .java import find_java_home

HOST = "127.0.0.1"
READY_SECONDS = 120.0
STOP_SECONDS = 20.0
POLL_SECONDS = 0.1
TOLD_CHARACTERS = 2000
DAEMON_MEMORY = "256m"
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
_LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
logger.deploy.name = org.apache.spark.deploy
logger.deploy.level = info
"""


class ClusterError(RuntimeError):
    """The cluster did not start; the message holds the end of its log."""


class _Daemon:
    """A master or a worker, with its log."""

    def __init__(self, command: list[str], log: Path, environment: dict[str, str]) -> None:
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Wait until the log matches `pattern`. Raises ClusterError."""
        deadline = time.monotonic() + READY_SECONDS
        while True:
            text = self._log.read_text(errors="replace")
            found = re.search(pattern, text)
            if found is not None:
                return found
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise ClusterError(f"Spark is not ready; it printed: {text[-TOLD_CHARACTERS:]}")
            time.sleep(POLL_SECONDS)

    def end(self, number: signal.Signals) -> None:
        """Send this signal to all of its processes; SIGKILL follows after STOP_SECONDS at most."""
        for one in (number, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, one)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_SECONDS)
                if one == signal.SIGKILL:
                    return
        self._process.wait()


class SparkCluster:
    """Use it in a `with` block; all its processes have ended after the block."""

    def __init__(self, workers: int = 2, cores: int = 1, memory: str = "1g") -> None:
        self.url = ""
        self._workers: list[_Daemon] = []
        self._wanted, self._cores, self._memory = workers, cores, memory
        self._directory = Path(tempfile.mkdtemp(prefix="pybroker-spark-cluster-"))
        self._master: _Daemon | None = None

    def __enter__(self) -> SparkCluster:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.stop()

    def start_master(self) -> str:
        """Start it and return its address, `spark://127.0.0.1:PORT`. Raises ClusterError,
        JavaNotFoundError."""
        arguments = ["--host", HOST, "--port", "0", "--webui-port", "0"]
        self._master = self._start("master", _MASTER, arguments)
        self.url = self._master.wait_for(r"Starting Spark master at (spark://\S+)")[1]
        self._master.wait_for("New state: ALIVE")
        return self.url

    def start_worker(self) -> int:
        """Start a worker and return its number, from 0 on. Raises ClusterError."""
        number = len(self._workers)
        arguments = ["--host", HOST, "--port", "0", "--webui-port", "0"]
        arguments += ["--cores", str(self._cores), "--memory", self._memory]
        arguments += ["--work-dir", str(self._directory / f"work-{number}"), self.url]
        worker = self._start(f"worker-{number}", _WORKER, arguments)
        self._workers.append(worker)
        worker.wait_for("Successfully registered with master")
        return number

    def start(self) -> SparkCluster:
        """Start the master and all workers. Raises ClusterError, JavaNotFoundError."""
        self.start_master()
        for _ in range(self._wanted):
            self.start_worker()
        return self

    def kill_worker(self, number: int) -> None:
        """Send SIGKILL, to its executors too: as if the machine were gone."""
        self._workers[number].end(signal.SIGKILL)

    def stop(self) -> None:
        for daemon in (*self._workers, *([self._master] if self._master else [])):
            daemon.end(signal.SIGTERM)
        shutil.rmtree(self._directory, ignore_errors=True)

    def _start(self, name: str, main: str, arguments: list[str]) -> _Daemon:
        import pyspark

        home = Path(pyspark.__file__).parent
        (self._directory / "log4j2.properties").write_text(_LOGGING)
        environment = dict(
            os.environ,
            JAVA_HOME=str(find_java_home()),
            SPARK_HOME=str(home),
            SPARK_CONF_DIR=str(self._directory),
            SPARK_DAEMON_MEMORY=DAEMON_MEMORY,
            SPARK_LOCAL_IP=HOST,
            SPARK_NO_DAEMONIZE="1",
        )
        command = [str(home / "bin" / "spark-class"), main, *arguments]
        return _Daemon(command, self._directory / f"{name}.log", environment)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="number of workers")
    parser.add_argument("--cores", type=int, default=1, metavar="N", help="cores of each worker")
    parser.add_argument("--memory", default="1g", help="memory of each worker")
    arguments = parser.parse_args()

    def leave(number: int, _frame: FrameType | None) -> None:
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, leave)
    from rich.console import Console

    console = Console(highlight=False)
    with SparkCluster(arguments.workers, arguments.cores, arguments.memory) as cluster:
        try:
            with console.status("starting the master ..."):
                cluster.start_master()
            console.print(f"master   {cluster.url}")
            for number in range(arguments.workers):
                with console.status(f"starting worker {number} ..."):
                    cluster.start_worker()
                cores = f"{arguments.cores} core{'s' if arguments.cores > 1 else ''}"
                console.print(f"worker {number} {cores}, {arguments.memory}")
        except ClusterError as error:
            console.print(f"{error}", markup=False)
            return 1
        console.print(
            "\nSubmit a job with --master; this variable makes it run this Python:\n"
            f"  export PYSPARK_PYTHON={sys.executable}\n"
            f"  python -m pybroker_kafka.spark_jobs.pipelines.flight_delays --master {cluster.url} "
            "--bootstrap-servers localhost:9092\n"
            "Ctrl-C stops the cluster."
        )
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()
    console.print("stopped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
