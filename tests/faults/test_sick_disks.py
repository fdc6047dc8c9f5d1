"""One of the disks of a broker fails, is full, is read-only or is slow, under its real process.

Node 2 of three has three log directories, and a library before its C library that makes calls on
files fail (`tests.support.sick_disk`). Whatever fails in a directory takes that directory offline,
as in Apache Kafka (LogDirFailureChannel): its partitions are led by others from then on, those of
the other directories are not; it is never trusted again before a restart, even if the next
call would succeed; after the restart its replicas are equal again, and nothing that was
acknowledged is lost.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pybroker_kafka.protocol.apis.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from pybroker_kafka.protocol.apis.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pybroker_kafka.protocol.apis.describe_log_dirs import DescribeLogDirsRequest
from pybroker_kafka.protocol.apis.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersRequestTopicPartitions,
)
from pybroker_kafka.protocol.apis.heartbeat import HeartbeatRequest
from pybroker_kafka.protocol.errors import ErrorCode
from tests.faults.directories import give_directories, move, paths_of
from tests.faults.test_log_dirs import Load, fill, records
from tests.support.cluster import Cluster, cluster
from tests.support.nightly import chosen, nightly
from tests.support.sick_disk import SickDisk, why_not
from tests.support.wire import Topic, WireClient, batch

SICK = 2
SICK_DIRECTORY, WELL_DIRECTORY = "one", "two"

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "it can be sick"),
]

# What fails, by name: rules of the sick disk, with {topic} for the directory of the partition.
SICKNESSES = {
    "append": [
        f"write {errno.EIO} */one/{{topic}}-0/*",
        f"truncate {errno.EIO} */one/{{topic}}-0/*",
    ],
    "index": [f"write {errno.EIO} */one/{{topic}}-0/*.index"],
    "time-index": [f"write {errno.EIO} */one/{{topic}}-0/*.timeindex"],
    "read": [f"read {errno.EIO} */one/{{topic}}-0/*.log"],
    "flush": [f"sync {errno.EIO} */one/{{topic}}-0/*"],
    "roll-on-a-full-disk": [f"create {errno.ENOSPC} */one/{{topic}}-0/*"],
    "read-only": [f"{what} {errno.EROFS} */one/*" for what in ("create", "write", "rename")],
    "checkpoint": [f"write {errno.EIO} */one/replication-offset-checkpoint*"],
}

IN_EVERY_RUN = ("append",)


# An automatic election, which comes 5 s after a start of a controller, would change who leads.
CONFIG = {"auto.leader.rebalance.enable": "false"}


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> SickDisk:
    return SickDisk(tmp_path_factory.mktemp("sick"))


@pytest.fixture(scope="module")
def jbod(disk: SickDisk, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    def prepare(started: Cluster) -> None:
        give_directories(started)
        disk.ail(started.nodes[SICK])

    with cluster(tmp_path_factory.mktemp("jbod"), config=CONFIG, prepare=prepare) as started:
        yield started


def led_by_the_sick_node(jbod: Cluster, name: str, directory: str) -> None:
    """A topic of one partition, whose leader has it in this directory."""
    (path,) = (path for path in paths_of(jbod, SICK) if Path(path).name == directory)
    assert move(jbod, SICK, name, path) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # not yet
    config = {"segment.bytes": "60000", "flush.messages": "1"}
    jbod.create_topic(name, assignment={0: [SICK, 1, 3]}, config=config)
    fill(jbod, name, 2)


def errors_of_directories(jbod: Cluster) -> dict[str, int]:
    answer: Any = jbod.ask(SICK, DescribeLogDirsRequest(topics=None))
    return {Path(one.log_dir).name: one.error_code for one in answer.results}


def read_all(jbod: Cluster, topic: str) -> None:
    """As a consumer does, from the sick node; what it says is its own affair."""
    with suppress(OSError, AssertionError), WireClient(jbod.nodes[SICK].bootstrap) as client:
        client.fetch(Topic(topic, bytes(16)), version=12)


@pytest.mark.parametrize("name", chosen(SICKNESSES, IN_EVERY_RUN))
def test_a_sick_directory_is_left_alone(jbod: Cluster, disk: SickDisk, name: str) -> None:
    topic, well = f"sick-{name}", f"well-{name}"
    led_by_the_sick_node(jbod, topic, SICK_DIRECTORY)
    led_by_the_sick_node(jbod, well, WELL_DIRECTORY)
    with Load(jbod, topic) as load, Load(jbod, well) as well_load:
        disk.says(*(rule.format(topic=topic) for rule in SICKNESSES[name]))

        def is_offline() -> bool:
            read_all(jbod, topic)
            return errors_of_directories(jbod)[SICK_DIRECTORY] == ErrorCode.KAFKA_STORAGE_ERROR

        jbod.wait_for(is_offline, "the sick directory is offline")
        disk.heal()
        jbod.wait_for(lambda: jbod.partitions(topic)[0].leader in (1, 3), "another leader")
        counts = len(load.acknowledged), len(well_load.acknowledged)
        jbod.wait_for(
            lambda: (
                len(load.acknowledged) > counts[0] + 5
                and len(well_load.acknowledged) > counts[1] + 5
            ),
            "both go on",
        )
        assert jbod.partitions(well)[0].leader == SICK
        offline = {name for name, code in errors_of_directories(jbod).items() if code}
        assert offline == {SICK_DIRECTORY}, "it is well again, and not trusted"
        jbod.kill(SICK)
        jbod.start(SICK)
        jbod.wait_for_isr(topic)
        jbod.wait_for_isr(well)
    for written, what in ((load, topic), (well_load, well)):
        jbod.wait_for(
            lambda w=what: records(jbod, 1, w) == records(jbod, SICK, w) == records(jbod, 3, w),  # type: ignore[misc]
            "three equal copies",
        )
        stored = records(jbod, SICK, what)
        assert all(value in stored for value in written.acknowledged)


LOOKS = 3


def longest(client: WireClient, topic: str, seconds: float) -> float:
    """The longest that an append to a topic, or a heartbeat, took of those that began in a time."""
    until = time.monotonic() + seconds
    found = 0.0
    while time.monotonic() < until:
        began = time.monotonic()
        assert client.produce(topic, batch(b"quick"), acks=1).error_code == 0
        client.call(HeartbeatRequest(group_id="none", member_id="none"))
        found = max(found, time.monotonic() - began)
    return found


@pytest.mark.parametrize(("operation", "slow_ms"), [("sync", 2500), nightly("write", 200)])
def test_a_slow_directory(jbod: Cluster, disk: SickDisk, operation: str, slow_ms: int) -> None:
    """Flushes that take seconds delay who waits for them, and nobody else: no client of another
    directory, no follower, no session. A write into the page cache delays all for as long as it
    takes, since appends stay on the loop, and no longer."""
    slow, quick = f"slow-{operation}", f"quick-{operation}"
    # Once for the append of a neighbour, and once for a checkpoint of the directory.
    allowed = slow_ms / 2000 if operation == "sync" else 4 * slow_ms / 1000
    led_by_the_sick_node(jbod, slow, SICK_DIRECTORY)
    led_by_the_sick_node(jbod, quick, WELL_DIRECTORY)
    with WireClient(jbod.nodes[SICK].bootstrap) as client:
        before = longest(client, quick, 1)
        disk.says(f"{operation} sleep={slow_ms} */one/*")
        with Load(jbod, slow) as load:
            # A busy machine delays one look or another; a disk that delays us does so in each.
            for _ in range(LOOKS):
                beside = longest(client, quick, 1.5 * slow_ms / 1000 + 1)
                if beside < before + allowed:
                    break
            in_sync = jbod.partitions(quick)[0].isr
            leaders = jbod.partitions(quick)[0].leader, jbod.partitions(slow)[0].leader
            disk.heal()
            jbod.wait_for(lambda: len(load.acknowledged) > 5, "the slow one goes on")
    print(f"slow {operation}: {before:.3f} s before, {beside:.3f} s beside it")
    assert leaders == (SICK, SICK)
    assert in_sync == {1, 2, 3}
    assert beside < before + allowed, (before, beside)


def lead(jbod: Cluster, topic: str, node: int) -> None:
    """Make a node the preferred leader, and elect it."""
    replicas = [node, *({1, 2, 3} - {node})]
    jbod.ask_controller(
        AlterPartitionReassignmentsRequest(
            timeout_ms=10_000,
            topics=[
                ReassignableTopic(
                    name=topic,
                    partitions=[ReassignablePartition(partition_index=0, replicas=replicas)],
                )
            ],
        )
    )
    jbod.wait_for(lambda: jbod.partitions(topic)[0].replicas == tuple(replicas), "the new order")
    jbod.ask_controller(
        ElectLeadersRequest(
            election_type=0,
            topic_partitions=[ElectLeadersRequestTopicPartitions(topic=topic, partitions=[0])],
            timeout_ms=10_000,
        )
    )
    jbod.wait_for(lambda: jbod.partitions(topic)[0].leader == node, f"node {node} leads")


@pytest.mark.nightly
def test_roles_change_beside_a_slow_directory(jbod: Cluster, disk: SickDisk) -> None:
    """Elections, and a topic deleted and made again: each changes files of its directory, and the
    loop waits for none of them to be on disk."""
    slow_ms = 2500
    quick, away, anew = "quick-roles", "slow-roles", "slow-anew"
    led_by_the_sick_node(jbod, away, SICK_DIRECTORY)
    led_by_the_sick_node(jbod, anew, SICK_DIRECTORY)
    led_by_the_sick_node(jbod, quick, WELL_DIRECTORY)
    with WireClient(jbod.nodes[SICK].bootstrap) as client, ThreadPoolExecutor(1) as beside:
        disk.says(f"sync sleep={slow_ms} */one/*")
        measured = beside.submit(longest, client, quick, 4 * slow_ms / 1000)
        for leader in (1, SICK, 3, SICK):
            lead(jbod, away, leader)
        jbod.ask_controller(DeleteTopicsRequest(topics=[DeleteTopicState(name=anew)]), 6)
        jbod.wait_for(lambda: not jbod.partitions(anew), "the topic is deleted")
        jbod.create_topic(anew, assignment={0: [SICK, 1, 3]})
        longest_ms = 1000 * measured.result()
        in_sync = jbod.partitions(quick)[0].isr
        disk.heal()
    print(f"roles change: {longest_ms:.0f} ms beside it")
    jbod.wait_for_isr(away)
    assert in_sync == {1, 2, 3}
    assert longest_ms < slow_ms / 2
