"""A directory with all that clients can write, recovered and served by the other kind of broker.

Apache Kafka's own clients write to Apache Kafka, or to ours: formats v0 to v2, every codec,
idempotent and transactional data, commits, aborts and a transaction that stays open. The broker's
answers to every kind of question are noted, it ends, the other one starts on its directory, and
must answer the same.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click.testing
import pytest
from kazoo.client import KazooClient

from broker.cli.log import log
from protocol.errors import ErrorCode
from protocol.messages.group_offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from protocol.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from protocol.messages.transactions import InitProducerIdRequest
from tests.support.apache_kafka import ApacheKafkaProcess, kafka_jars, kafka_tool
from tests.support.maven import compiled
from tests.support.old_formats import rows
from tests.support.processes import BrokerProcess, zookeeper_process
from tests.support.wire import Topic, WireClient

SOURCE = Path(__file__).parents[1] / "compat" / "java" / "WriteEverything.java"
CONFIG = {
    "inter.broker.protocol.version": "2.8",
    "log.message.timestamp.before.max.ms": str(2**63 - 1),
    "log.retention.ms": "-1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
TOPIC = "everything"
WAIT_SECONDS = 60.0
START_MS = 1_700_000_000_000

pytestmark = pytest.mark.timeout(300)


def write_everything(broker: BrokerProcess) -> int:
    """How many records were written."""
    done = subprocess.run(
        ["java", "-Xmx128m", "-cp", compiled(SOURCE, kafka_jars()), "WriteEverything",
         broker.bootstrap, TOPIC],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[-1])


def wait_for_leader(client: WireClient) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while client.fetch(Topic(TOPIC, b""), version=4).error_code:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    client.coordinator(TOPIC)


def observe(client: WireClient) -> dict[str, Any]:
    """What consumers of every kind can see."""
    topic = Topic(TOPIC, b"")
    wait_for_leader(client)
    seen: dict[str, Any] = {}
    end = client.fetch(topic, version=4).high_watermark
    seen["end"] = end
    for isolation in (0, 1):
        for offset in range(0, end + 1, 13):
            data = client.fetch(topic, offset, version=12, isolation_level=isolation)
            aborted = [(a.producer_id, a.first_offset) for a in data.aborted_transactions or ()]
            seen[f"fetch {offset}, isolation {isolation}"] = (
                data.error_code, data.high_watermark, data.last_stable_offset,
                data.log_start_offset, sorted(aborted), bytes(data.records or b""),
            )  # fmt: skip
    for version in range(4):
        for offset in range(0, end, 41):
            data = client.fetch(topic, offset, version=version)
            found = (data.error_code, rows(bytes(data.records or b"")))
            seen[f"fetch v{version} {offset}"] = found
    times = [-1, -2, -3, 0, 2**40 * 10, *range(START_MS, START_MS + 6000, 333)]
    for isolation in (0, 1):
        for timestamp in times:
            query = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
            request = ListOffsetsRequest(
                replica_id=-1,
                isolation_level=isolation,
                topics=[ListOffsetsTopic(name=TOPIC, partitions=[query])],
            )
            ((found,),) = (t.partitions for t in client.call(request, 8).topics)
            seen[f"offset at {timestamp}, isolation {isolation}"] = (
                found.error_code, found.timestamp, found.offset
            )  # fmt: skip
    seen["epoch 0"] = _end_of_epoch(client, 0)
    wanted = OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])
    group = OffsetFetchRequestGroup(group_id=TOPIC, topics=[wanted])
    for stable in (False, True):
        request = OffsetFetchRequest(groups=[group], require_stable=stable)
        (answer,) = client.call(request, 8).groups
        (partition,) = (p for t in answer.topics for p in t.partitions)
        seen[f"committed, stable {stable}"] = (partition.error_code, partition.committed_offset)
    return seen


def _end_of_epoch(client: WireClient, epoch: int) -> tuple[int, int]:
    asked = OffsetForLeaderPartition(partition=0, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic(topic=TOPIC, partitions=[asked])]
    )
    ((found,),) = (t.partitions for t in client.call(request, 3).topics)
    assert found.error_code == 0
    return found.leader_epoch, found.end_offset


def end_cleanly(broker: BrokerProcess) -> None:
    broker.stop()


def end_by_kill(broker: BrokerProcess) -> None:
    broker.kill()


@pytest.mark.parametrize("end", [end_cleanly, end_by_kill])
@pytest.mark.parametrize(
    ("first", "second"),
    [(ApacheKafkaProcess, BrokerProcess), (BrokerProcess, ApacheKafkaProcess)],
    ids=["theirs-then-ours", "ours-then-theirs"],
)
def test_one_serves_what_the_other_wrote(
    tmp_path: Path,
    first: type[BrokerProcess],
    second: type[BrokerProcess],
    end: Callable[[BrokerProcess], None],
) -> None:
    with zookeeper_process(tmp_path) as connect:
        writer = first(tmp_path / "broker", connect, CONFIG)
        try:
            writer.start()
            written = write_everything(writer)
            with WireClient(writer.bootstrap) as client:
                expected = observe(client)
            end(writer)
        finally:
            writer.kill()
        assert expected["end"] > written
        partition = writer.log_dir / f"{TOPIC}-0"
        if end is end_cleanly:
            check_dumps(writer.log_dir, partition)
        before = {path.name: path.read_bytes() for path in partition.glob("*.log")}
        assert len(before) >= 4
        wait_until_unregistered(connect)
        reader = second(tmp_path / "broker", connect, CONFIG)
        try:
            reader.start()
            with WireClient(reader.bootstrap) as client:
                check_same(observe(client), expected)
                check_open_transaction(client, expected["end"])
            reader.stop()
        finally:
            reader.kill()
        for name, data in before.items():
            assert (partition / name).read_bytes().startswith(data)


def check_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """What old consumers get may end at different places: before a batch in zstd, Apache Kafka
    loses all that it would have converted in one go with it."""
    assert found.keys() == expected.keys()
    for name, answer in expected.items():
        if name.startswith("fetch v"):
            (error, records), (expected_error, wanted) = found[name], answer
            common = min(len(records), len(wanted))
            assert (error, records[:common]) == (expected_error, wanted[:common]), name
            assert common or not records + wanted, name
        else:
            assert found[name] == answer, name


def check_dumps(log_dir: Path, partition: Path) -> None:
    """Our tool prints of the files what Apache Kafka's does, and it has no complaints."""
    suffixes = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
    for directory, option in (
        (partition, "--print-data-log"),
        (log_dir / "__consumer_offsets-0", "--offsets-decoder"),
        (log_dir / "__transaction_state-0", "--transaction-log-decoder"),
    ):
        files = sorted(str(path) for path in directory.iterdir() if path.suffix in suffixes)
        expected = kafka_tool(
            "kafka.tools.DumpLogSegments", option, "--files", ",".join(files)
        ).splitlines()
        done = click.testing.CliRunner().invoke(log, ["dump", option, *files])
        assert done.exit_code == 0
        assert done.stdout.splitlines() == expected
        assert (done.stderr, "isvalid: false" in done.stdout) == ("", False)


def check_open_transaction(client: WireClient, end: int) -> None:
    """The transaction that was left open ends when its producer comes back."""
    deadline = time.monotonic() + WAIT_SECONDS
    request = InitProducerIdRequest(transactional_id="open", transaction_timeout_ms=60_000)
    while (code := client.call(request, 4).error_code) != 0:
        assert ErrorCode(code).retriable, ErrorCode(code)
        assert time.monotonic() < deadline
        time.sleep(0.1)
    while client.fetch(Topic(TOPIC, b""), end, version=4).last_stable_offset != end + 1:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def wait_until_unregistered(connect: str) -> None:
    """A killed broker's session has to expire first."""
    zookeeper = KazooClient(connect)
    zookeeper.start(timeout=WAIT_SECONDS)
    try:
        deadline = time.monotonic() + WAIT_SECONDS
        while zookeeper.exists("/brokers/ids/1") is not None:
            assert time.monotonic() < deadline, "the session does not expire"
            time.sleep(0.1)
    finally:
        zookeeper.stop()
        zookeeper.close()
