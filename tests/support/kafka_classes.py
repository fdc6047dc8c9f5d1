"""Golden messages of Apache Kafka 4.3.1's generated classes.

    python -m tests.support.kafka_classes

writes `tests/golden/kafka-classes-4.json`: a random message of each kind and version that 3.9.1
lacks, or that has got more tagged fields since, read and written by Kafka's class, with the fields
in the JSON form that the class gives them. The entropy of a message comes from its name and
version, so that a new API changes no other entry. Needs Maven and javac.
"""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pybroker_kafka.protocol.codec import encode
from pybroker_kafka.protocol.schema import Message
from tests.support.maven import compiled, maven_jars
from tests.support.message_factory import MessageFactory, every_message_and_version
from tests.support.short_lived_java import JVM_OPTIONS

VERSION: Final = "4.3.1"
GOLDEN: Final = Path(__file__).resolve().parents[1] / "golden"
OF_39: Final = GOLDEN / "kafka-classes.json"
OF_4: Final = GOLDEN / "kafka-classes-4.json"
SOURCE: Final = Path(__file__).with_name("java") / "MessageClasses.java"
ARTIFACTS: Final = ("clients", "group-coordinator", "share-coordinator", "transaction-coordinator")
ENTROPY_BYTES: Final = 400
JAVA_TIMEOUT_SECONDS: Final = 300
# Versions that 3.9.1 has without all of their tagged fields.
EXTENDED: Final = frozenset({("TransactionLogValue", 1)})


def recorded(path: Path) -> list[dict[str, Any]]:
    """The entries of a file, each with the name of a message, its version, bytes and fields."""
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["messages"]
    return found


def later_messages() -> Iterator[tuple[type[Message], int]]:
    """Each message class and version that the file of 3.9.1 does not have, or not whole."""
    known = {(entry["message"], entry["version"]) for entry in recorded(OF_39)}
    for cls, version in every_message_and_version():
        if (cls.__name__, version) not in known or (cls.__name__, version) in EXTENDED:
            yield cls, version


def main() -> None:
    jars = maven_jars(
        f"kafka-classes-{VERSION}",
        {
            **{f"org.apache.kafka:kafka-{name}": VERSION for name in ARTIFACTS},
            "com.fasterxml.jackson.core:jackson-databind": "2.19.4",
        },
    )
    lines = []
    for cls, version in later_messages():
        entropy = random.Random(f"{cls.__name__} {version}").randbytes(ENTROPY_BYTES)
        message = MessageFactory(entropy).make(cls, version)
        lines.append(f"{cls.__name__} {version} {encode(message, version).hex()}")
    done = subprocess.run(
        ["java", *JVM_OPTIONS, "-cp", compiled(SOURCE, jars), SOURCE.stem],
        input="\n".join(lines) + "\n",
        stdout=subprocess.PIPE,
        encoding="utf-8",
        timeout=JAVA_TIMEOUT_SECONDS,
        check=True,
    )
    entries = []
    for line, answer in zip(lines, done.stdout.splitlines(), strict=True):
        name, version_text, _ = line.split(" ")
        data, fields = answer.split(" ", 1)
        entry = {
            "message": name,
            "version": int(version_text),
            "bytes": data,
            "fields": json.loads(fields),
        }
        entries.append(json.dumps(entry, ensure_ascii=False))
    head = f'{{"client": "the generated message classes of Apache Kafka", "version": "{VERSION}", '
    text = head + '"messages": [\n' + ",\n".join(entries) + "\n]}\n"
    OF_4.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
