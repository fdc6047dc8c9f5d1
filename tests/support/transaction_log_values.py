"""Golden values of `__transaction_state`, by Apache Kafka 4.3.1's TransactionMetadata.

    python -m tests.support.transaction_log_values

writes `tests/golden/transaction-log-values.txt`: a line for each step of a transactional id's life,
with the transaction.version, the client's version, the epoch at the start, the step, and the value
that Kafka logs. Needs Maven and javac.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from tests.support.kafka_classes import GOLDEN, JAVA_TIMEOUT_SECONDS, VERSION
from tests.support.maven import compiled, maven_jars
from tests.support.short_lived_java import JVM_OPTIONS

VALUES: Final = GOLDEN / "transaction-log-values.txt"
SOURCE: Final = Path(__file__).with_name("java") / "TransactionLogValues.java"
ARTIFACTS: Final = ("clients", "server-common", "coordinator-common", "transaction-coordinator")


def main() -> None:
    jars = maven_jars(
        f"kafka-transaction-log-{VERSION}",
        {
            **{f"org.apache.kafka:kafka-{name}": VERSION for name in ARTIFACTS},
            "com.fasterxml.jackson.core:jackson-databind": "2.19.4",
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
