"""MirrorMaker 2 of Apache Kafka 3.9, from Maven Central: its process, and its client's programs."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.apache_kafka import KAFKA_VERSION, kafka_jars
from tests.support.maven import compiled_classes, maven_jars

MAIN = "org.apache.kafka.connect.mirror.MirrorMaker"
JAVA = Path(__file__).parent / "java"
ANSWER_SECONDS = 120
ARTIFACTS = {
    "org.apache.kafka:connect-mirror": KAFKA_VERSION,
    "org.apache.kafka:connect-mirror-client": KAFKA_VERSION,
    "org.slf4j:slf4j-reload4j": "1.7.36",
}


def mirror_jars() -> Path:
    """Skips the test where they cannot be had."""
    return maven_jars(f"kafka-mirror-{KAFKA_VERSION}", ARTIFACTS)


def mirror_maker_command(file: Path, *java: str) -> list[str]:
    """Of a process that runs until it is told to end; `java` are options of the JVM."""
    logging = f"-Dlog4j.configuration=file:{kafka_jars() / 'log4j.properties'}"
    return ["java", *java, logging, "-cp", f"{mirror_jars()}/*", MAIN, str(file)]


def remote_clusters(bootstrap: str, alias: str, group: str) -> list[str]:
    """What RemoteClusterUtils says, line by line."""
    jars = mirror_jars()
    classes = compiled_classes(JAVA / "RemoteClusters.java", jars)
    logging = f"-Dlog4j.configuration=file:{kafka_jars() / 'log4j.properties'}"
    command = ["java", "-Xmx128m", logging, "-cp", f"{jars}/*:{classes}", "RemoteClusters"]
    done = subprocess.run(
        [*command, bootstrap, alias, group],
        capture_output=True,
        text=True,
        timeout=ANSWER_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
