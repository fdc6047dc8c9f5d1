"""Apache Kafka 3.9 itself, from Maven Central: a broker process like ours.

Where the jars cannot be had, tests that need them are skipped; see `maven`.
"""

from __future__ import annotations

import functools
import hashlib
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.maven import compiled_classes, maven_jars
from tests.support.processes import BrokerProcess, zookeeper_process
from tests.support.short_lived_java import JVM_OPTIONS

KAFKA_VERSION = "3.9.1"
ARTIFACTS = {
    "org.apache.kafka:kafka_2.13": KAFKA_VERSION,
    "org.apache.kafka:kafka-tools": KAFKA_VERSION,
    "org.slf4j:slf4j-reload4j": "1.7.36",
}
HEAP = "-Xmx384m"
JAVA = Path(__file__).parent / "java"
JAVA_SECONDS = 120
# A session's registration stays until it ends, of a broker that was killed as well.
STARTS_SECONDS = 120
SESSION_TROUBLE = (b"SessionExpiredException", b"NodeExistsException")

LOGGING = """log4j.rootLogger=WARN, stderr
log4j.appender.stderr=org.apache.log4j.ConsoleAppender
log4j.appender.stderr.target=System.err
log4j.appender.stderr.layout=org.apache.log4j.PatternLayout
log4j.appender.stderr.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


def kafka_jars() -> Path:
    """The directory of Kafka's jars. Skips the test where they cannot be had."""
    directory = maven_jars(f"kafka-{KAFKA_VERSION}", ARTIFACTS)
    logging = directory / "log4j.properties"
    if not logging.exists() or logging.read_text() != LOGGING:
        logging.write_text(LOGGING)
    return directory


def tiered_storage_jar() -> Path:
    """The jar with Kafka's LocalTieredStorage. Skips the test where it cannot be had."""
    artifacts = {"org.apache.kafka:kafka-storage:test": KAFKA_VERSION}
    jars = maven_jars(f"kafka-tiered-broker-{KAFKA_VERSION}", artifacts)
    return next(jars.glob("kafka-storage-*-test.jar"))


def java_command(main_class: str, *arguments: str, source: str = "") -> list[str]:
    """`source`: a file of our own in tests/support/java, which is compiled. Skips the test where
    Java, its compiler or Kafka's jars are missing."""
    jars = kafka_jars()
    classes = compiled_classes(JAVA / source, jars) if source else None
    archive = shared_classes(jars)
    sharing = [f"-XX:SharedArchiveFile={archive}", "-Xlog:disable"] if archive else []
    path = f"{jars}/*" if classes is None else f"{jars}/*:{classes}"
    return [*java_of(jars), *sharing, "-cp", path, main_class, *arguments]


def java_answers(main_class: str, lines: Sequence[str], *, source: str) -> str:
    """What a class of ours prints, given these lines."""
    done = subprocess.run(
        java_command(main_class, source=source),
        input="".join(f"{line}\n" for line in lines),
        capture_output=True, encoding="utf-8", timeout=JAVA_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def java_of(jars: Path) -> list[str]:
    logging = f"-Dlog4j.configuration=file:{jars / 'log4j.properties'}"
    frugal = [HEAP, *JVM_OPTIONS]
    return ["java", *frugal, "-Dfile.encoding=UTF-8", logging]


@functools.cache
def shared_classes(jars: Path) -> Path | None:
    """An archive of the classes that a broker loads, which halves what a start costs.

    Made once for each Java by a broker that starts and stops; None where that does not work.
    """
    version = subprocess.run(["java", "-version"], capture_output=True, check=False).stderr
    archive = jars / f"classes-{hashlib.sha256(version).hexdigest()[:12]}.jsa"
    if archive.exists():
        return archive
    with tempfile.TemporaryDirectory() as place, zookeeper_process(Path(place)) as connect:
        made = Path(place) / archive.name
        options = [f"-XX:ArchiveClassesAtExit={made}", "-Xlog:disable", "-cp", f"{jars}/*"]
        broker = ApacheKafkaProcess(Path(place), connect, java=[*java_of(jars), *options])
        try:
            broker.start()
            broker.stop()
            shutil.move(made, archive)
        except (AssertionError, OSError, subprocess.TimeoutExpired):
            return None
        finally:
            broker.kill()
    return archive


class ApacheKafkaProcess(BrokerProcess):
    """One Apache Kafka broker in ZooKeeper mode."""

    def __init__(
        self,
        directory: Path,
        zookeeper_connect: str,
        config: Mapping[str, str] | None = None,
        broker_id: int = 1,
        port: int | None = None,
        host: str = "127.0.0.1",
        java: Sequence[str] = (),
    ) -> None:
        self._java = java
        defaults = {"zookeeper.session.timeout.ms": "6000"}
        super().__init__(
            directory, zookeeper_connect, defaults | dict(config or {}), broker_id, port, host
        )

    def command_for(self, properties: Path) -> list[str]:
        if self._java:
            return [*self._java, "kafka.Kafka", str(properties)]
        return java_command("kafka.Kafka", str(properties))

    def wait_until_ready(self) -> float:
        """A JVM that starves may lose its ZooKeeper session while it starts, and one that comes
        back after a kill finds its old session's registration: then once more."""
        began = time.monotonic()
        while True:
            try:
                return super().wait_until_ready()
            except AssertionError:
                output = self._log.read_bytes()[self._mark :]
                is_late = time.monotonic() - began > STARTS_SECONDS
                if (
                    is_late
                    or self.is_running
                    or not any(reason in output for reason in SESSION_TROUBLE)
                ):
                    raise
                self.launch()

    def is_ready(self) -> bool:
        return has_answered(self.port)


def has_answered(port: int) -> bool:
    """ApiVersions v0 is answered once the broker processes requests."""
    request = b"\0\0\0\x0a" + b"\0\x12" + b"\0\0" + b"\0\0\0\x01" + b"\xff\xff"
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as probe:
            probe.sendall(request)
            return len(probe.recv(8)) > 0
    except OSError:
        return False
