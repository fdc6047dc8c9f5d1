"""Records a second that the share consumer of Kafka 4.3.1 accepts, from any cluster.

`python -m benchmarks.share_consumer BOOTSTRAP GROUP TOPIC RECORDS`: the topic has so many records,
and the group's `share.auto.offset.reset` is earliest. Run it for our cluster and for Apache Kafka
4.3.1 in turns, on a quiet machine, each time with a new group.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.maven import compiled, maven_jars

SOURCE = Path(__file__).resolve().parents[1] / "tests" / "support" / "java" / "ShareLoad.java"
JARS = {"org.apache.kafka:kafka-clients": "4.3.1"}


def main() -> None:
    """Print the rate of one member."""
    *where, records = sys.argv[1:]
    classes = compiled(SOURCE, maven_jars("kafka-clients-4.3.1", JARS))
    command = ["java", "-cp", classes, "ShareLoad", *where, records]
    took = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    print(f"{int(records) / max(int(took), 1):.1f} thousand records a second")


if __name__ == "__main__":
    main()
