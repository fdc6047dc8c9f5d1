"""Records a second that the share consumer of Kafka 4.3.1 accepts, of ours and of Apache Kafka 4.3.

`python -m benchmarks.share_consumer`: one broker of each, a topic with the same records on both,
and the Java client, which reads it with a new group at one broker and then at the other, in turns.
It prints the rates of each turn, the medians and their ratio.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path

from pybroker_kafka.protocol.features import RELEASES
from tests.support.apache_kafka_4 import running_kafka_4
from tests.support.maven import compiled, maven_jars
from tests.support.patience import until
from tests.support.processes import running_broker
from tests.support.wire import WireClient, batch, unique
from tests.wire.feature_steps import finalize
from tests.wire.test_group_configs import alter
from tests.wire.transaction_steps import again

SOURCE = Path(__file__).resolve().parents[1] / "tests" / "support" / "java" / "ShareLoad.java"
JARS = {"org.apache.kafka:kafka-clients": "4.3.1"}
CONFIG = {
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
}
AT_LEAST = 1.2
VALUE = bytes(range(100))
BATCH = 500
SET = 0


def fill(client: WireClient, partitions: int, records: int) -> str:
    """A topic with so many records."""
    name = client.create_topic(partitions).name
    for number in range(partitions):
        again(lambda: client.produce(name, batch(VALUE), partition=number))  # noqa: B023
    for number in range(records // BATCH):
        client.append(name, *[VALUE] * BATCH, partition=number % partitions)
    return name


def accepted(client: WireClient, topic: str, records: int) -> float:
    """The thousand records a second of one member of a new group."""
    group = unique("share")
    until(lambda: not alter(client, group, ("share.auto.offset.reset", SET, "earliest")).error_code)
    classes = compiled(SOURCE, maven_jars("kafka-clients-4.3.1", JARS))
    command = ["java", "-cp", classes, "ShareLoad", client.bootstrap, group, topic, str(records)]
    took = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True
    ).stdout
    return records / max(int(took), 1)


def side_by_side(ours: float, theirs: float) -> str:
    return f"{ours:8.1f} {theirs:8.1f} {ours / theirs:6.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=400_000)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    records = options.records // BATCH * BATCH
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ours = stack.enter_context(running_broker(directory / "ours", CONFIG))
        theirs = stack.enter_context(running_kafka_4(directory / "theirs", CONFIG))
        clients = [stack.enter_context(WireClient(one.bootstrap)) for one in (ours, theirs)]
        finalize(clients[0], dict(RELEASES["4.3"]))
        topics = [fill(client, options.partitions, records) for client in clients]
        rates: tuple[list[float], list[float]] = ([], [])
        print("thousand records a second: pybroker, Apache Kafka 4.3, ratio")
        for number in range(options.rounds):
            for client, topic, mine in zip(clients, topics, rates, strict=True):
                mine.append(accepted(client, topic, records))
            print(f"{number + 1:>6}  {side_by_side(*(one[-1] for one in rates))}", flush=True)
        print(f"median  {side_by_side(*map(statistics.median, rates))}, to be at least {AT_LEAST}")


if __name__ == "__main__":
    main()
