"""Golden values of `__remote_log_metadata`, by Apache Kafka 3.9.1's RemoteLogMetadataSerde.

    python -m tests.support.remote_log_metadata

writes `tests/golden/remote-log-metadata.txt`: lines of "KIND NUMBER HEX", and of "partition NUMBER"
with the partitions that RemoteLogMetadataTopicPartitioner chooses of 1, 7 and 50. The fields follow
from the number: `java/RemoteLogMetadata.java`, and the test beside the codec. Needs Maven and
javac.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from tests.support.kafka_classes import GOLDEN, JAVA_TIMEOUT_SECONDS
from tests.support.maven import compiled, maven_jars
from tests.support.short_lived_java import JVM_OPTIONS

VALUES: Final = GOLDEN / "remote-log-metadata.txt"
VERSION: Final = "3.9.1"
SOURCE: Final = Path(__file__).with_name("java") / "RemoteLogMetadata.java"
ARTIFACTS: Final = ("clients", "server-common", "storage", "storage-api")


def main() -> None:
    jars = maven_jars(
        f"kafka-remote-log-metadata-{VERSION}",
        {
            **{f"org.apache.kafka:kafka-{name}": VERSION for name in ARTIFACTS},
            "org.slf4j:slf4j-nop": "1.7.36",
        },
    )
    done = subprocess.run(
        ["java", *JVM_OPTIONS, "-cp", compiled(SOURCE, jars), SOURCE.stem],
        stdout=subprocess.PIPE,
        encoding="utf-8",
        timeout=JAVA_TIMEOUT_SECONDS,
        check=True,
    )
    VALUES.write_text(done.stdout, encoding="utf-8")


if __name__ == "__main__":
    main()
